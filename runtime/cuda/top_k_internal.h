/* top_k_internal.h - places of the largest elements, and the best paths of linear-chain CRFs. */
#ifndef SG_CUDA_TOP_K_INTERNAL_H
#define SG_CUDA_TOP_K_INTERNAL_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/cuda/fault_internal.h"

typedef struct sg_cuda_viterbi {
    int64_t batch, steps, tags;
    size_t room; /* bytes of one row: two rows of scores, then back pointers */
    sg_cuda_fault *fault;
    int32_t site;
} sg_cuda_viterbi;

#ifdef __cplusplus
extern "C" {
#endif

/* x [outer, size, inner] -> out [outer, k, inner]: the larger first, NaN before all, of equals the lower place. */
void sg_cuda_top_k(int64_t outer, int64_t size, int64_t inner, int64_t k, const float *x, int32_t *out,
                   cudaStream_t stream);

/* Operands as crf_viterbi has them; lengths may be NULL. `room` holds batch times v->room bytes. */
void sg_cuda_crf_viterbi(const sg_cuda_viterbi *v, const float *emissions, const float *transitions, const float *start,
                         const float *end, const int32_t *lengths, int32_t *path, void *room, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
