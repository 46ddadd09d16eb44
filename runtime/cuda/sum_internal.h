/* sum_internal.h - one pass of a sum, between sum.c (which passes) and sum.cu (the kernels). */
#ifndef SG_CUDA_SUM_INTERNAL_H
#define SG_CUDA_SUM_INTERNAL_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/cuda/replica_internal.h"

/* Who makes one piece of the result: a thread; a team of `lanes` threads (inner is 1); or a column of threads in a block whose
 * rows of `lanes` threads read neighbouring pieces. */
typedef enum sg_cuda_sum_form { SG_CUDA_SUM_THREAD, SG_CUDA_SUM_ROW, SG_CUDA_SUM_COLUMNS } sg_cuda_sum_form;

/* x [outer, size, inner] -> y [outer, chunks, inner], where chunk c takes [c chunk, (c + 1) chunk) of the middle axis. */
typedef struct sg_cuda_sum_pass {
    int64_t outer, size, inner, chunk, chunks;
    int32_t lanes;
    int32_t rows; /* SG_CUDA_SUM_COLUMNS: of threads in a block, a power of two */
    int32_t
        vector; /* elements of a piece: 1, or those of 16 bytes of x, into which inner (SG_CUDA_SUM_ROW: size, chunk) divides */
    sg_cuda_sum_form form;
    bool in_bf16, out_bf16; /* else f32 */
} sg_cuda_sum_pass;

/* The most threads of a block of columns: as many as their sums have room. */
#define SG_CUDA_SUM_THREADS(V) ((V) > 1 ? 256 : 512)

/* Elements of a chunk in the first pass of a sum over all of `size` elements of f32, where a block adds up each; 0: it is done in another
 * way. */
int64_t sg_cuda_sum_chunk(int64_t size);

#ifdef __cplusplus
extern "C" {
#endif

void sg_cuda_sum(const sg_cuda_sum_pass *pass, const void *x, void *y, sg_cuda_where where);

#ifdef __cplusplus
}
#endif

#endif
