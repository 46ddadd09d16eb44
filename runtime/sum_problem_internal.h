/* sum_problem_internal.h - a sum over any set of axes as the kernels of every device see it. */
#ifndef SG_SUM_PROBLEM_INTERNAL_H
#define SG_SUM_PROBLEM_INTERNAL_H

#include "runtime/backend_internal.h"

/* One axis is taken away: x [outer, size, inner] -> y [outer, inner]. */
typedef struct sg_sum_step {
    int64_t outer, size, inner;
} sg_sum_step;

/* Neighbouring axes that are both kept or both summed are one, those of size 1 are gone; the last is taken away first. No steps: a
 * copy. */
typedef struct sg_sum_problem {
    int32_t count;
    sg_sum_step step[SG_MAX_RANK];
} sg_sum_problem;

/* Of a node of sum or sum_like. */
sg_sum_problem sg_sum_describe(const sg_kernel_spec *spec);

#endif
