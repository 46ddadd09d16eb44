/* softmax_internal.h - softmax along contiguous rows, its logarithm, logsumexp, and the cross-entropy of its logarithm with one
 * right class, with derivatives; between their .c files and softmax.cu. */
#ifndef SG_CUDA_SOFTMAX_INTERNAL_H
#define SG_CUDA_SOFTMAX_INTERNAL_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/cuda/fault_internal.h"
#include "runtime/cuda/replica_internal.h"

typedef enum sg_cuda_softmax_kind {
    SG_CUDA_SOFTMAX,
    SG_CUDA_LOG_SOFTMAX,
    SG_CUDA_ROW_LOGSUMEXP,
    SG_CUDA_CROSS_ENTROPY,
    SG_CUDA_CROSS_ENTROPY_VJP,
    SG_CUDA_CROSS_ENTROPY_JVP,
    SG_CUDA_CROSS_ENTROPY_VJP_JVP
} sg_cuda_softmax_kind;

typedef struct sg_cuda_softmax_rows {
    sg_cuda_softmax_kind kind;
    int64_t rows, n;  /* z [rows, n] */
    int32_t team;     /* threads of a row */
    bool bf16;        /* rows: z, t and a result as wide as they */
    bool number_bf16; /* a number for each row: g, tg and the loss */
    const void *z, *t;
    const void *g, *tg;    /* a number for each row; NULL: zero, as t */
    const int32_t *target; /* a class for each row, -1: the row counts for nothing */
    void *out;
    sg_cuda_fault *fault;
    int32_t site;
} sg_cuda_softmax_rows;

#ifdef __cplusplus
extern "C" {
#endif

/* The team for rows of n elements, 0 if there are too many. */
int32_t sg_cuda_softmax_team(int64_t n, bool bf16);
void sg_cuda_softmax_run(const sg_cuda_softmax_rows *s, sg_cuda_where where);

#ifdef __cplusplus
}
#endif

#endif
