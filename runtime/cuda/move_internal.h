/* move_internal.h - copies between layouts: pieces of memory (concat, slice, pad) and permuted axes. */
#ifndef SG_CUDA_MOVE_INTERNAL_H
#define SG_CUDA_MOVE_INTERNAL_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/cuda/replica_internal.h"

/* `outer` runs of `run` bytes, from `in` or zeros if that is NULL. All numbers are bytes; none is empty. */
typedef struct sg_cuda_piece {
    const char *in;
    int64_t outer, run, from, from_step, to, to_step;
} sg_cuda_piece;

enum { SG_CUDA_MOST_PIECES = 16, SG_CUDA_TRANSPOSE_RANK = 8 };

typedef struct sg_cuda_pieces {
    int32_t count;
    sg_cuda_piece piece[SG_CUDA_MOST_PIECES];
} sg_cuda_pieces;

/* Axes of y with their sizes, and their strides in x and y, in elements; axes that move together are merged. */
typedef struct sg_cuda_transpose {
    int32_t element;    /* bytes: 1, 2, 4 or 16 */
    int32_t rank, fast; /* fast: the axis of y that is contiguous in x */
    int64_t dim[SG_CUDA_TRANSPOSE_RANK], from[SG_CUDA_TRANSPOSE_RANK], to[SG_CUDA_TRANSPOSE_RANK];
    int64_t outer; /* positions of all axes but `fast` and the last */
} sg_cuda_transpose;

#ifdef __cplusplus
extern "C" {
#endif

void sg_cuda_move(const sg_cuda_pieces *pieces, void *out, sg_cuda_where where);
/* Not for empty tensors. Elements of 16 bytes only if fast is the last axis. */
void sg_cuda_permute(const sg_cuda_transpose *t, const void *x, void *y, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
