/* location.h - the functions of autodiff.h that build nodes, each as a macro that calls it with the caller's file and line.
 * While one runs, a node that cannot be differentiated is named by its own place. Included by autodiff.h. */
#ifndef SG_AUTODIFF_LOCATION_H
#define SG_AUTODIFF_LOCATION_H

SG_LEFT(graph_map, sg_graph_map)
SG_LEFT(power_result, sg_power_result)
SG_LEFT(status, sg_status)

#define sg_vjp(...) SG_AT_VOID(sg_vjp, __VA_ARGS__)
#define sg_grad(...) SG_AT_VOID(sg_grad, __VA_ARGS__)
#define sg_jvp(...) SG_AT_VOID(sg_jvp, __VA_ARGS__)
#define sg_hvp(...) SG_AT_VOID(sg_hvp, __VA_ARGS__)
#define sg_mixed_hvp(...) SG_AT_VOID(sg_mixed_hvp, __VA_ARGS__)
#define sg_ggn_vp(...) SG_AT_VOID(sg_ggn_vp, __VA_ARGS__)
#define sg_hvp_difference(...) SG_AT_VOID(sg_hvp_difference, __VA_ARGS__)
#define sg_mixed_hvp_difference(...) SG_AT_VOID(sg_mixed_hvp_difference, __VA_ARGS__)
#define sg_flatten(...) SG_AT(sg_flatten, __VA_ARGS__)
#define sg_unflatten(...) SG_AT_VOID(sg_unflatten, __VA_ARGS__)
#define sg_hvp_map(...) SG_AT_OF(graph_map, sg_hvp_map, __VA_ARGS__)
#define sg_solve_graph(...) SG_AT_VOID(sg_solve_graph, __VA_ARGS__)
#define sg_power_iteration(...) SG_AT_OF(power_result, sg_power_iteration, __VA_ARGS__)
#define sg_implicit_grad(...) SG_AT_VOID(sg_implicit_grad, __VA_ARGS__)
#define sg_gradcheck(...) SG_AT_OF(status, sg_gradcheck, __VA_ARGS__)

#endif
