/* csr_internal.h - products with sparse rows, between csr.c and csr.cu. Pointers and indices are checked where they are read:
 * one out of range is raised as a fault, and counts as an empty line or a missing non-zero. */
#ifndef SG_CUDA_CSR_INTERNAL_H
#define SG_CUDA_CSR_INTERNAL_H

#include <cuda_runtime_api.h>

#include "runtime/cuda/csr_lines_internal.h"
#include "runtime/cuda/replica_internal.h"

/* Non-zeros a line, on average, from which threads share those of one. A gradient with such lines is not made by the layer's update. */
enum { SG_CUDA_LONG_LINE = 16 };
/* Lines that a chunk of sg_cuda_csr_squares may touch. */
enum { SG_CUDA_CSR_SQUARES_LINES = 32 };

#ifdef __cplusplus
extern "C" {
#endif

/* out[line] = sum over j in [pointers[line], pointers[line + 1]) of value[order ? order[j] : j] dense[index[j]]. */
void sg_cuda_csr_product(const sg_cuda_csr *c, const float *value, const int32_t *pointers, const int32_t *index,
                         const int32_t *order, const float *dense, float *out, sg_cuda_where where);

/* out[i] = sum of the squares of elements [i chunk, (i + 1) chunk) of what sg_cuda_csr_product makes (not shared), added up as a pass over
 * that in memory does it (sum.cu). Four divides width and chunk. */
void sg_cuda_csr_squares(const sg_cuda_csr *c, int64_t chunk, const float *value, const int32_t *pointers,
                         const int32_t *index, const int32_t *order, const float *dense, float *out,
                         sg_cuda_where where);

/* out[j] = g[line] . w[index[j]] for the j of each line; other places of out keep what they hold. */
void sg_cuda_csr_sddmm(const sg_cuda_csr *c, const int32_t *pointers, const int32_t *index, const float *g,
                       const float *w, float *out, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
