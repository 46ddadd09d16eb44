/* update_internal.h - what adam.c and csr.c lend to sparse_adam.c and product_adam.c, which join optimiser steps with
 * what makes their gradient. */
#ifndef SG_CPU_UPDATE_INTERNAL_H
#define SG_CPU_UPDATE_INTERNAL_H

#include "runtime/cpu/cpu_internal.h"
#include "runtime/cpu/row_kernels_internal.h"

/* The coefficients of an Adam step with these attributes (those of the op adam), learning rate and step count. */
sg_adam_step sg_cpu_adam_coefficients(const sg_attr *attr, double lr, double t);

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
