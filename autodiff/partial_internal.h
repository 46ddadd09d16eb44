/* partial_internal.h - derivatives with respect to independent variables: partial ones, of values that are given. */
#ifndef SG_PARTIAL_INTERNAL_H
#define SG_PARTIAL_INTERNAL_H

#include "graph/graph.h"

/* As sg_grad, sg_vjp and sg_jvp, but nothing passes below an x. In sg_partial_jvp a direction may be SG_NONE: that x is
 * held. What does not depend on the x gets zeros. */
void sg_partial_grad(sg_value loss, const sg_value *x, int32_t n, sg_value *grad);
void sg_partial_vjp(const sg_value *y, const sg_value *seed, int32_t n_y, const sg_value *x, int32_t n_x,
                    sg_value *grad);
void sg_partial_jvp(const sg_value *y, int32_t n_y, const sg_value *x, const sg_value *dx, int32_t n_x, sg_value *dy);

/* Check that `loss` is a rank-0 real value; sticky error and false if not. */
bool sg_check_loss(sg_value loss, const char *function);

/* Vectors of several values: <a, b> and |a| as rank-0 values. */
sg_value sg_vector_dot(const sg_value *a, const sg_value *b, int32_t n);
sg_value sg_vector_norm(const sg_value *a, int32_t n);

#endif
