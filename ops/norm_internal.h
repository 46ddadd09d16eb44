/* norm_internal.h - what the rules of layer, rms, group and batch normalisation share. */
#ifndef SG_NORM_INTERNAL_H
#define SG_NORM_INTERNAL_H

#include "ops/derivative_internal.h"

/* gamma and the like have the dtype of x; where that is bf16, they may be f32. */
sg_status sg_norm_require_affine(const sg_infer_args *args, int32_t input);
/* Output 0 is like x, the others are statistics of this shape, wide enough for sums. */
sg_status sg_norm_outputs(const sg_infer_args *args, const sg_shape *statistic);
/* Work of the derivatives. */
sg_cost sg_norm_vjp_cost(const sg_cost_args *args);
sg_cost sg_norm_jvp_cost(const sg_cost_args *args);
sg_cost sg_norm_vjp_jvp_cost(const sg_cost_args *args);

/* Hints: the statistics come along, so that a derivative needs no sums over x again. */
#define SG_NORM_STATISTICS (1 << 1 | 1 << 2)

#endif
