/* transpose_problem_internal.h - a transpose as the kernels of every device see it: few axes, and where each step along one leads. */
#ifndef SG_TRANSPOSE_PROBLEM_INTERNAL_H
#define SG_TRANSPOSE_PROBLEM_INTERNAL_H

#include "runtime/backend_internal.h"

/* y = x with its axes permuted. Axes of size 1 are gone, and neighbours that move together are one; at least one is left. */
typedef struct sg_transpose_problem {
    int32_t rank;
    int64_t dim[SG_MAX_RANK], from[SG_MAX_RANK], to[SG_MAX_RANK]; /* sizes of y; steps in x and in y */
    int32_t fast;                                                 /* axis of y that is contiguous in x */
    int64_t outer;                                                /* positions of all axes but `fast` and the last */
} sg_transpose_problem;

sg_transpose_problem sg_transpose_describe(const sg_kernel_spec *spec);

#endif
