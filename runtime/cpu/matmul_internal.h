/* matmul_internal.h - what the files of products share. */
#ifndef SG_MATMUL_INTERNAL_H
#define SG_MATMUL_INTERNAL_H

#include "runtime/cpu/cpu_internal.h"
#include "runtime/matmul_problem_internal.h"

/* Multiply-adds of one matrix up to which row kernels are faster than oneDNN, by measurement. */
#define SG_MATMUL_SMALL 4096

/* The kernel of the sum of n products with the same m, n and batch; operands 2 t and 2 t + 1 are those of product t. With
 * more than one, every k must be above 0. */
sg_status sg_matmul_prepare_terms(const sg_matmul_problem *p, int32_t n, int32_t threads, sg_kernel *out,
                                  sg_error *err);

/* The pass that finds sums of products (matmul_sum.c). */
sg_status sg_cpu_join_products(sg_graph *from, sg_graph *to, sg_error *err);
extern const sg_cpu_kernel sg_cpu_matmul_sum_kernels[];

/* Sums of products with a spread row or column, as products (matmul_row.c). */
sg_status sg_cpu_products_with_rows(sg_graph *from, sg_graph *to, sg_error *err);

/* matmul_small.c: products that are over before a call to oneDNN has begun, and products with a vector. */
bool sg_matmul_is_small(const sg_kernel_spec *spec);
sg_status sg_matmul_prepare_small(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err);

/* matmul_thin.c: products of few rows with a larger matrix. */
bool sg_matmul_is_thin(const sg_kernel_spec *spec);
sg_status sg_matmul_prepare_thin(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err);

#endif
