/* product_internal.h - products and what follows them in one kernel: any elementwise steps after a small product of float32 (product.c)
 * or one with sparse rows (product_csr.c), after others what cuBLASLt adds to it (matmul.c). */
#ifndef SG_CUDA_PRODUCT_INTERNAL_H
#define SG_CUDA_PRODUCT_INTERNAL_H

#include "runtime/cuda/cuda_internal.h"
#include "runtime/fuse_internal.h"
#include "runtime/matmul_problem_internal.h"

/* For the fusion pass. */
sg_fuse_follow sg_cuda_product_follow(sg_graph *graph, const sg_node *product);
bool sg_cuda_product_chooses(sg_graph *graph, const sg_node *const *member, int32_t n, const sg_node *step);

/* A pass before it: sums in which products add what they can. */
sg_status sg_cuda_order_sums(sg_graph *from, sg_graph *to, sg_error *err);

/* The product in a fused body, or NULL; a product with sparse rows. */
const sg_node *sg_cuda_product_in(sg_graph *body);
const sg_node *sg_cuda_csr_in(sg_graph *body);
/* What cuBLASLt does to a product of bf16 before it goes to memory: values, or -1. */
typedef struct sg_cuda_product_end {
    int32_t row;   /* added to each row; of the product's dtype */
    int32_t whole; /* added, shaped like the result and of its dtype */
    bool wide;     /* the result stays f32 */
    int32_t last;  /* the result so far */
} sg_cuda_product_end;
sg_cuda_product_end sg_cuda_product_begin(const sg_node *product);
/* Add `step`. False if it is none of these, or one too many. */
bool sg_cuda_product_extend(sg_graph *graph, sg_cuda_product_end *end, const sg_node *step);

sg_matmul_problem sg_cuda_product_problem(sg_graph *graph, const sg_node *product);
/* Is a kernel of our own best for this product of float32, alone or with steps that follow? */
bool sg_cuda_product_is_ours(const sg_matmul_problem *p, bool with_steps);

#endif
