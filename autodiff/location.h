/* location.h - the functions of autodiff.h that build nodes, each as a macro that first records the caller's file and line.
 * While one runs, a node that cannot be differentiated is named by its own place. Included by autodiff.h. */
#ifndef SG_AUTODIFF_LOCATION_H
#define SG_AUTODIFF_LOCATION_H

#define sg_vjp(...) SG_AT(sg_vjp, __VA_ARGS__)
#define sg_grad(...) SG_AT(sg_grad, __VA_ARGS__)
#define sg_jvp(...) SG_AT(sg_jvp, __VA_ARGS__)
#define sg_hvp(...) SG_AT(sg_hvp, __VA_ARGS__)
#define sg_mixed_hvp(...) SG_AT(sg_mixed_hvp, __VA_ARGS__)
#define sg_ggn_vp(...) SG_AT(sg_ggn_vp, __VA_ARGS__)
#define sg_hvp_difference(...) SG_AT(sg_hvp_difference, __VA_ARGS__)
#define sg_mixed_hvp_difference(...) SG_AT(sg_mixed_hvp_difference, __VA_ARGS__)
#define sg_flatten(...) SG_AT(sg_flatten, __VA_ARGS__)
#define sg_unflatten(...) SG_AT(sg_unflatten, __VA_ARGS__)
#define sg_hvp_map(...) SG_AT(sg_hvp_map, __VA_ARGS__)
#define sg_solve_graph(...) SG_AT(sg_solve_graph, __VA_ARGS__)
#define sg_power_iteration(...) SG_AT(sg_power_iteration, __VA_ARGS__)
#define sg_implicit_grad(...) SG_AT(sg_implicit_grad, __VA_ARGS__)
#define sg_gradcheck(...) SG_AT(sg_gradcheck, __VA_ARGS__)

#endif
