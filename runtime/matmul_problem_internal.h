/* matmul_problem_internal.h - a matrix product as the kernels of every device see it. */
#ifndef SG_MATMUL_PROBLEM_INTERNAL_H
#define SG_MATMUL_PROBLEM_INTERNAL_H

#include "runtime/backend_internal.h"

/* c [batch, m, n] = op(a) op(b), all packed by rows; batch axes are folded into m where that is possible. */
typedef struct sg_matmul_problem {
    int64_t m, n, k, batch;
    bool a_transposed, b_transposed;
    int32_t batch_rank;
    int64_t batch_dim[SG_MAX_RANK];
    int64_t a_step[SG_MAX_RANK], b_step[SG_MAX_RANK]; /* elements between neighbours along a batch axis; 0: broadcast */
} sg_matmul_problem;

sg_matmul_problem sg_matmul_describe(const sg_kernel_spec *spec);
/* Offsets of the operands of matrix `batch`. */
void sg_matmul_offsets(const sg_matmul_problem *p, int64_t batch, int64_t *a, int64_t *b);

#endif
