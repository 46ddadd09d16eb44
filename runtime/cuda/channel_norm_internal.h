/* channel_norm_internal.h - batch and group normalisation and their derivatives, between channel_norm.c (which operands) and
 * channel_norm.cu. */
#ifndef SG_CUDA_CHANNEL_NORM_INTERNAL_H
#define SG_CUDA_CHANNEL_NORM_INTERNAL_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum sg_cuda_channel_kind {
    SG_CUDA_CHANNEL,
    SG_CUDA_CHANNEL_VJP,
    SG_CUDA_CHANNEL_JVP,
    SG_CUDA_CHANNEL_VJP_JVP
} sg_cuda_channel_kind;

/* x [images, channels, size], and `together` neighbouring channels are normalised as one row. Batch normalisation has one channel in a
 * row. To group normalisation each channel of each image is a channel, of one image. Of pointers that are NULL there is no
 * operand: tangents are zero, results are not wanted. */
typedef struct sg_cuda_channel_norm {
    sg_cuda_channel_kind kind;
    int64_t images, channels, size, together;
    int64_t affine;        /* gammas and betas: channel c has number c % affine */
    int64_t chunk, chunks; /* elements of a channel that a team takes; how many make up a channel */
    int32_t team;          /* threads: of a warp or a block */
    float eps;
    bool bf16;           /* x and what is like it */
    bool affine_bf16;    /* gamma, beta and what belongs to them; statistics are f32 */
    bool spread_is_rstd; /* 1 / sqrt(variance + eps), else the variance */
    const void *x, *g, *tx, *tg;
    const void *gamma, *beta, *tgamma, *tbeta;
    const float *mean, *spread; /* of the derivatives, for each row */
    void *out;                  /* y, its tangent, gx or its tangent */
    float *out_mean, *out_spread;
    void *ggamma, *gbeta;
    float *sums;  /* [SG_CUDA_CHANNEL_SUMS, channels, chunks] */
    float *means; /* [2, rows] */
} sg_cuda_channel_norm;

enum { SG_CUDA_CHANNEL_SUMS = 7 }; /* at most */

#ifdef __cplusplus
extern "C" {
#endif

void sg_cuda_channel_run(const sg_cuda_channel_norm *s, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
