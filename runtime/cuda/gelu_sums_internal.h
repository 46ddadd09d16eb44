/* gelu_sums_internal.h - the cotangent behind gelu with its sum over rows, which is the gradient of the bias before (gelu_sums.c). */
#ifndef SG_CUDA_GELU_SUMS_INTERNAL_H
#define SG_CUDA_GELU_SUMS_INTERNAL_H

#include "graph/graph.h"

/* Is result 0 of a fused node's body g gelu'(x) of bf16, in rows that the kernel takes? Then how long these are, and which inputs x and g
 * are; else 0. */
int64_t sg_cuda_gelu_columns(sg_graph *body, int32_t *x, int32_t *g);
/* g gelu'(x). */
sg_value sg_cuda_gelu_build(sg_value x, sg_value g);

#endif
