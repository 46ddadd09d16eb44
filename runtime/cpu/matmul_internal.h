/* matmul_internal.h - a matrix product as its kernels see it. */
#ifndef SG_MATMUL_INTERNAL_H
#define SG_MATMUL_INTERNAL_H

#include "runtime/cpu/cpu_internal.h"

/* Multiply-adds of one matrix up to which row kernels are faster than oneDNN, by measurement. */
#define SG_MATMUL_SMALL 4096

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

/* The kernel of the sum of n products with the same m, n and batch; operands 2 t and 2 t + 1 are those of product t. With
 * more than one, every k must be above 0. */
sg_status sg_matmul_prepare_terms(const sg_matmul_problem *p, int32_t n, int32_t threads, sg_kernel *out,
                                  sg_error *err);

/* The pass that finds sums of products (matmul_sum.c). */
sg_status sg_cpu_join_products(sg_graph *from, sg_graph *to, sg_error *err);
extern const sg_cpu_kernel sg_cpu_matmul_sum_kernels[];

/* matmul_small.c: products that are over before a call to oneDNN has begun, and products with a vector. */
bool sg_matmul_is_small(const sg_kernel_spec *spec);
sg_status sg_matmul_prepare_small(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err);

#endif
