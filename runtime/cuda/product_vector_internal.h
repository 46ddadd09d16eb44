/* product_vector_internal.h - a vector times a matrix, between product_vector.c and product_vector.cu. */
#ifndef SG_CUDA_PRODUCT_VECTOR_INTERNAL_H
#define SG_CUDA_PRODUCT_VECTOR_INTERNAL_H

#include "runtime/cuda/replica_internal.h"

#ifdef __cplusplus
extern "C" {
#endif

/* c [n] = a [k] b [k, n], of sizes that are not zero. */
void sg_cuda_vector_product(int32_t k, int32_t n, const float *a, const float *b, float *c, sg_cuda_where where);

#ifdef __cplusplus
}
#endif

#endif
