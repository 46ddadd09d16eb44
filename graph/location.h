/* location.h - the functions of graph.h that may set a graph's error, each as a macro that calls it with the caller's file
 * and line: an error names the call that made it, not the last operator before it. sg_build is none: the functions that end
 * in it are. Included by graph.h. */
#ifndef SG_GRAPH_LOCATION_H
#define SG_GRAPH_LOCATION_H

SG_LEFT(scope, sg_scope)
SG_LEFT(graph, sg_graph *)
SG_LEFT(stream, uint64_t)
SG_LEFT(count, int32_t)

#define sg_graph_fail(...) SG_AT(sg_graph_fail, __VA_ARGS__)
#define sg_input(...) SG_AT(sg_input, __VA_ARGS__)
#define sg_constant(...) SG_AT(sg_constant, __VA_ARGS__)
#define sg_scalar(...) SG_AT(sg_scalar, __VA_ARGS__)
#define sg_named(...) SG_AT(sg_named, __VA_ARGS__)
#define sg_output_of(...) SG_AT(sg_output_of, __VA_ARGS__)
#define sg_result(...) SG_AT_VOID(sg_result, __VA_ARGS__)
#define sg_scope_root(...) SG_AT_OF(scope, sg_scope_root, __VA_ARGS__)
#define sg_scope_sub(...) SG_AT_OF(scope, sg_scope_sub, __VA_ARGS__)
#define sg_param(...) SG_AT(sg_param, __VA_ARGS__)
#define sg_state(...) SG_AT(sg_state, __VA_ARGS__)
#define sg_params(...) SG_AT_OF(count, sg_params, __VA_ARGS__)
#define sg_assign(...) SG_AT_VOID(sg_assign, __VA_ARGS__)
#define sg_rebind(...) SG_AT_VOID(sg_rebind, __VA_ARGS__)
#define sg_draw_stream(...) SG_AT_OF(stream, sg_draw_stream, __VA_ARGS__)
#define sg_body_new(...) SG_AT_OF(graph, sg_body_new, __VA_ARGS__)
#define sg_capture(...) SG_AT(sg_capture, __VA_ARGS__)
#define sg_body_state(...) SG_AT(sg_body_state, __VA_ARGS__)
#define sg_substitute(...) SG_AT_VOID(sg_substitute, __VA_ARGS__)

#endif
