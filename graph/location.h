/* location.h - the functions of graph.h that may set a graph's error, each as a macro that first records the caller's file
 * and line: an error names the call that made it, not the last operator before it. Included by graph.h. */
#ifndef SG_GRAPH_LOCATION_H
#define SG_GRAPH_LOCATION_H

#define sg_input(...) SG_AT(sg_input, __VA_ARGS__)
#define sg_constant(...) SG_AT(sg_constant, __VA_ARGS__)
#define sg_scalar(...) SG_AT(sg_scalar, __VA_ARGS__)
#define sg_named(...) SG_AT(sg_named, __VA_ARGS__)
#define sg_output_of(...) SG_AT(sg_output_of, __VA_ARGS__)
#define sg_result(...) SG_AT(sg_result, __VA_ARGS__)
#define sg_scope_root(...) SG_AT(sg_scope_root, __VA_ARGS__)
#define sg_scope_sub(...) SG_AT(sg_scope_sub, __VA_ARGS__)
#define sg_param(...) SG_AT(sg_param, __VA_ARGS__)
#define sg_state(...) SG_AT(sg_state, __VA_ARGS__)
#define sg_assign(...) SG_AT(sg_assign, __VA_ARGS__)
#define sg_rebind(...) SG_AT(sg_rebind, __VA_ARGS__)
#define sg_draw_stream(...) SG_AT(sg_draw_stream, __VA_ARGS__)
#define sg_body_new(...) SG_AT(sg_body_new, __VA_ARGS__)
#define sg_capture(...) SG_AT(sg_capture, __VA_ARGS__)
#define sg_body_state(...) SG_AT(sg_body_state, __VA_ARGS__)
#define sg_substitute(...) SG_AT(sg_substitute, __VA_ARGS__)

#endif
