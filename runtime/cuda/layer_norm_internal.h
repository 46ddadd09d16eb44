/* layer_norm_internal.h - layer and root-mean-square normalisation and their derivatives, between layer_norm.c (which operands) and
 * layer_norm.cu. */
#ifndef SG_CUDA_LAYER_NORM_INTERNAL_H
#define SG_CUDA_LAYER_NORM_INTERNAL_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum sg_cuda_norm_kind {
    SG_CUDA_NORM,
    SG_CUDA_NORM_VJP,
    SG_CUDA_NORM_JVP,
    SG_CUDA_NORM_VJP_JVP
} sg_cuda_norm_kind;

/* Elements of a row that has kernels of its own: BERT's. In the reverse derivative of such rows of bf16 (layer_norm_reverse.cu) a block
 * takes rows of several groups of threads at a time. */
enum { SG_CUDA_NORM_USUAL = 768, SG_CUDA_NORM_GROUPS = 4, SG_CUDA_NORM_ROWS = 4 };

/* Rows [rows, n]. Of pointers that are NULL there is no operand: tangents are zero, results are not wanted. */
typedef struct sg_cuda_norm {
    sg_cuda_norm_kind kind;
    int64_t rows, n;
    int64_t chunk, chunks; /* rows of a block */
    int32_t team;          /* threads of a row */
    float eps;
    bool bf16;        /* rows; statistics are f32 */
    bool affine_bf16; /* gamma, beta and what belongs to them; else f32 */
    bool gamma_number, beta_number;
    bool centred; /* else the mean counts as 0 */
    const void *x, *g, *tx, *tg;
    const void *gamma, *beta, *tgamma, *tbeta;
    const float *mean, *rstd;   /* known beforehand, or both NULL; `mean` if centred */
    void *out;                  /* y, its tangent, gx or its tangent */
    float *out_mean, *out_rstd; /* of the forward kinds */
    void *ggamma, *gbeta;
    float *gsum; /* [n]: gx summed over rows, where these are of bf16 and usual */
    float *sums; /* [3, chunks, n] if one of these three is there */
} sg_cuda_norm;

static inline bool sg_cuda_norm_is_usual_reverse(const sg_cuda_norm *s)
{
    return s->kind == SG_CUDA_NORM_VJP && s->bf16 && s->n == SG_CUDA_NORM_USUAL && !s->gamma_number && !s->beta_number;
}

#ifdef __cplusplus
extern "C" {
#endif

/* The team for rows of n elements, 0 if there are too many; sizes of the elements as above. */
int32_t sg_cuda_norm_team(int64_t n, bool bf16);
/* Rows that one block works at at a time. */
int64_t sg_cuda_norm_rows(int32_t team);
void sg_cuda_norm_run(const sg_cuda_norm *s, cudaStream_t stream);
void sg_cuda_norm_reverse(const sg_cuda_norm *s, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
