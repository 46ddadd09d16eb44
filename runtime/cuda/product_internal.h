/* product_internal.h - matrix products and what follows them in one kernel: any elementwise steps after a small product of
 * float32 (product.c), after others a row added or a cast (matmul.c). */
#ifndef SG_CUDA_PRODUCT_INTERNAL_H
#define SG_CUDA_PRODUCT_INTERNAL_H

#include "runtime/cuda/cuda_internal.h"
#include "runtime/fuse_internal.h"
#include "runtime/matmul_problem_internal.h"

/* For the fusion pass. */
sg_fuse_follow sg_cuda_product_follow(sg_graph *graph, const sg_node *product);
bool sg_cuda_product_ends(sg_graph *graph, const sg_node *product, const sg_node *step);

/* The product in a fused body, or NULL. */
const sg_node *sg_cuda_product_in(sg_graph *body);
sg_matmul_problem sg_cuda_product_problem(sg_graph *graph, const sg_node *product);
/* Is a kernel of our own best for this product of float32, alone or with steps that follow? */
bool sg_cuda_product_is_small(const sg_matmul_problem *p, bool with_steps);

#endif
