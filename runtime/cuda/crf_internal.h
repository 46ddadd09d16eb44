/* crf_internal.h - the log partition of linear-chain CRFs and its derivatives; between crf.c and crf.cu. */
#ifndef SG_CUDA_CRF_INTERNAL_H
#define SG_CUDA_CRF_INTERNAL_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/cuda/fault_internal.h"

/* Their transitions and tangents of them lie in shared memory, of which a block of some devices has 99 KiB. */
enum { SG_CUDA_CRF_MOST_TAGS = 108 };

/* Names as in the operator; a leading t is a tangent, a leading d a cotangent or its tangent. What a node does not have is NULL. */
typedef struct sg_cuda_crf {
    int64_t batch, steps;
    int32_t tags;
    const float *emissions, *transitions, *start, *end; /* [batch, steps, tags], [from, to], [tags], [tags] */
    const int32_t *lengths;
    const float *alpha, *g, *tg;
    const float *te, *ttransitions, *tstart, *tend;
    float *log_z, *alpha_out; /* or their tangents */
    float *de, *dtransitions, *dstart, *dend;
    float *room; /* of the reverse derivative: sg_cuda_crf_room */
    sg_cuda_fault *fault;
    int32_t site;
} sg_cuda_crf;

#ifdef __cplusplus
extern "C" {
#endif

void sg_cuda_crf_partition(const sg_cuda_crf *c, cudaStream_t stream);
void sg_cuda_crf_forward(const sg_cuda_crf *c, cudaStream_t stream);
/* With `forward` the forward derivative of the reverse one. */
void sg_cuda_crf_reverse(const sg_cuda_crf *c, bool forward, cudaStream_t stream);
size_t sg_cuda_crf_room(const sg_cuda_crf *c, bool forward); /* bytes */

#ifdef __cplusplus
}
#endif

#endif
