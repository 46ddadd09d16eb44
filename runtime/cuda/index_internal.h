/* index_internal.h - rows and elements by index. Every kernel checks the indices that it reads through: one outside [0, rows)
 * is raised as a fault, and the kernel goes on without it. */
#ifndef SG_CUDA_INDEX_INTERNAL_H
#define SG_CUDA_INDEX_INTERNAL_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/cuda/fault_internal.h"
#include "runtime/cuda/replica_internal.h"

typedef struct sg_cuda_index {
    int64_t count; /* indices */
    int64_t rows;  /* of the table; classes of one_hot */
    int64_t width; /* elements of a row */
    int64_t row_bytes;
    bool bf16; /* sums of bf16 rows */
    sg_cuda_fault *fault;
    int32_t site;
} sg_cuda_index;

/* x [outer, size, inner] with indices [outer, picks, inner] into its middle axis. */
typedef struct sg_cuda_elements {
    int64_t outer, size, inner, picks;
    int32_t element; /* bytes: 1, 2 or 4; 4 in scatter_elements */
    sg_cuda_fault *fault;
    int32_t site;
} sg_cuda_elements;

#ifdef __cplusplus
extern "C" {
#endif

/* Only check. */
void sg_cuda_check_indices(const sg_cuda_index *s, const int32_t *index, cudaStream_t stream);
void sg_cuda_gather(const sg_cuda_index *s, const int32_t *index, const void *table, void *out, cudaStream_t stream);
void sg_cuda_one_hot(const sg_cuda_index *s, const int32_t *index, float *out, cudaStream_t stream);

/* The positions 0, 1, ... in the order of their indices, equal ones in order of position: order[k] stands at the k-th place
 * and has index key[k]. Indices out of range are raised and come last, as `rows`. count is not 0; count and rows are at most
 * INT32_MAX. `room` has sg_cuda_sort_bytes. */
size_t sg_cuda_sort_bytes(int64_t count, int64_t rows);
void sg_cuda_sort(const sg_cuda_index *s, const int32_t *index, int32_t *key, int32_t *order, void *room,
                  size_t room_bytes, cudaStream_t stream);

/* Sums, or maxima (of f32), of the rows of `in` by index; rows of `out` without any are 0, or -inf. `parts` has
 * sg_cuda_scatter_bytes. */
enum { SG_CUDA_SCATTER_PLACES = 32 /* that are joined at a time */ };
size_t sg_cuda_scatter_bytes(int64_t count, int64_t width);
void sg_cuda_scatter_rows(const sg_cuda_index *s, bool max, const int32_t *key, const int32_t *order, const void *in,
                          void *out, float *parts, cudaStream_t stream);

void sg_cuda_gather_elements(const sg_cuda_elements *e, const int32_t *index, const void *in, void *out,
                             cudaStream_t stream);
void sg_cuda_scatter_elements(const sg_cuda_elements *e, const int32_t *index, const float *in, float *out,
                              cudaStream_t stream);

/* {seed low, seed high, step low, step high} with the 64-bit step plus one. */
void sg_cuda_rng_advance(const int32_t *rng, int32_t *out, sg_cuda_where where);
/* The four words of sg_draw_make(stream_of_draw, rng, repeat). */
void sg_cuda_draw_key(uint64_t stream_of_draw, uint64_t repeat, const int32_t *rng, int32_t *out, sg_cuda_where where);

#ifdef __cplusplus
}
#endif

#endif
