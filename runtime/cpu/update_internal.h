/* update_internal.h - the kernels of adam, sparse_adam and product_adam: what adam.c and csr.c lend to the others. */
#ifndef SG_CPU_UPDATE_INTERNAL_H
#define SG_CPU_UPDATE_INTERNAL_H

#include "runtime/cpu/cpu_internal.h"
#include "runtime/cpu/row_kernels_internal.h"
#include "runtime/updates_internal.h"

/* The step of a launch whose node has the attributes of adam, and its operands or those of a joined step. */
typedef struct sg_cpu_step {
    const sg_launch *l;
    const sg_row_kernels *rows;
    sg_adam_step step;
} sg_cpu_step;
sg_cpu_step sg_cpu_adam_step(const sg_attr *attr, const sg_launch *l);
/* Its parameters from element `at` on, and their moments. */
sg_adam_row sg_cpu_adam_row(const sg_launch *l, int64_t at);
/* The step of n parameters from element `at` on, given their gradient. */
void sg_cpu_adam_run(const sg_cpu_step *s, int64_t at, int64_t n, const float *gradient);
/* A kernel that updates in place where the plan allows; `state` comes from sg_alloc and goes with it. */
sg_kernel sg_cpu_adam_kernel(const char *name, bool (*launch)(const sg_launch *l, sg_error *err), void *state,
                             size_t workspace);

/* Index arrays of one orientation: pointers to `lines` ranges of `capacity` non-zeros, for each non-zero a row of the dense
 * operand (`others` of them), and its place among the values (NULL: in order). Names are for messages. */
typedef struct sg_csr_arrays {
    int64_t capacity, lines, others;
    const int32_t *pointers, *index, *order;
    const char *pointers_name, *index_name;
} sg_csr_arrays;
bool sg_cpu_csr_check(const sg_csr_arrays *arrays, sg_error *err);

extern const sg_cpu_kernel sg_cpu_sparse_adam_kernels[];

/* Adam steps of f32 whose gradient is a product over few rows that nothing else reads (product_adam.c). */
sg_status sg_cpu_join_updates(sg_graph *from, sg_graph *to, sg_error *err);
extern const sg_cpu_kernel sg_cpu_product_adam_kernels[];

#endif
