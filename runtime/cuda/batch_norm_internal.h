/* batch_norm_internal.h - batch normalisation and its derivatives, between batch_norm.c (which operands) and batch_norm.cu. */
#ifndef SG_CUDA_BATCH_NORM_INTERNAL_H
#define SG_CUDA_BATCH_NORM_INTERNAL_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum sg_cuda_batch_kind {
    SG_CUDA_BATCH,
    SG_CUDA_BATCH_VJP,
    SG_CUDA_BATCH_JVP,
    SG_CUDA_BATCH_VJP_JVP
} sg_cuda_batch_kind;

/* x [images, channels, size]. Of pointers that are NULL there is no operand: tangents are zero, results are not wanted. */
typedef struct sg_cuda_batch {
    sg_cuda_batch_kind kind;
    int64_t images, channels, size;
    int64_t chunk, chunks; /* elements of a channel that a block takes; how many make up a channel */
    float eps;
    bool bf16; /* all but the statistics */
    const void *x, *g, *tx, *tg;
    const void *gamma, *beta, *tgamma, *tbeta;
    const float *mean, *variance; /* of the derivatives */
    void *out;                    /* y, its tangent, gx or its tangent */
    float *out_mean, *out_variance;
    void *ggamma, *gbeta;
    float *sums; /* [SG_CUDA_BATCH_SUMS, channels, chunks] */
} sg_cuda_batch;

enum { SG_CUDA_BATCH_SUMS = 7 }; /* at most */

#ifdef __cplusplus
extern "C" {
#endif

void sg_cuda_batch_run(const sg_cuda_batch *s, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
