/* csr.cuh - lines of sparse rows for a block or a replica. */
#ifndef SG_CUDA_CSR_CUH
#define SG_CUDA_CSR_CUH

#include "runtime/cuda/csr_internal.h"
#include "runtime/cuda/csr_read.cuh"
#include "runtime/cuda/device.cuh"
#include "runtime/cuda/replica.cuh"

__device__ static inline void sg_csr_to_replica(size_t stride, const float *&value, const int32_t *&pointers,
                                                const int32_t *&index, const int32_t *&order, const float *&dense)
{
    value = sg_replica_of(value, stride);
    pointers = sg_replica_of(pointers, stride);
    index = sg_replica_of(index, stride);
    order = sg_replica_of(order, stride);
    dense = sg_replica_of(dense, stride);
}

/* Non-zeros [first, end) of lines that follow each other, and a block's, kept in shared memory if they are no more than its threads. */
struct sg_csr_span {
    int32_t first, end;
};
struct sg_csr_terms {
    sg_csr_span span;
    sg_csr_term term[SG_BLOCK];
};

/* The non-zeros of all lines of a warp, whose lanes have one each, or an empty one. */
__device__ static inline sg_csr_span sg_csr_join_lines(int32_t begin, int32_t end)
{
    int32_t first = begin < end ? begin : INT32_MAX, last = end;
    for (int mask = SG_WARP / 2; mask > 0; mask /= 2) {
        first = min(first, __shfl_xor_sync(0xffffffffu, first, mask));
        last = max(last, __shfl_xor_sync(0xffffffffu, last, mask));
    }
    return {min(first, last), last}; /* without any: 0 both */
}

__device__ static inline bool sg_csr_fit(sg_csr_span span) { return span.end - span.first <= SG_BLOCK; }

/* By the block, after a barrier, and another one follows; false if there are too many. Rows are multiplied by `times`. */
__device__ static inline bool sg_csr_keep_terms(sg_csr_terms *all, const sg_cuda_csr &c, const float *value,
                                                const int32_t *index, const int32_t *order, int32_t times)
{
    bool kept = sg_csr_fit(all->span);
    int32_t mine = all->span.first + (int32_t)threadIdx.x;
    if (kept && mine < all->span.end) {
        sg_csr_term t = sg_csr_at(c, value, index, order, mine, true);
        all->term[threadIdx.x] = {t.value, t.row < 0 ? t.row : t.row * times};
    }
    return kept;
}

__device__ static inline void sg_csr_add(float4 *sum, float value, float4 x)
{
    sum->x = fmaf(value, x.x, sum->x);
    sum->y = fmaf(value, x.y, sum->y);
    sum->z = fmaf(value, x.z, sum->z);
    sum->w = fmaf(value, x.w, sum->w);
}

/* N terms of a line from the j-th on: their loads are on their way together. */
template <int N, class T, class L>
__device__ static inline void sg_csr_add_terms(float4 *sum, int32_t j, T term, L load)
{
    sg_csr_term t[N];
    float4 x[N];
#pragma unroll
    for (int k = 0; k < N; k++) {
        t[k] = term(j + k);
        if (t[k].row >= 0)
            x[k] = load(t[k].row);
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        if (t[k].row >= 0)
            sg_csr_add(sum, t[k].value, x[k]);
}

/* The sum of the terms [j, end) of a line at four columns, N at a time: term(j) is one, load(row) the dense operand there. Most lines have
 * a few, some have very many. */
template <int N, class T, class L> __device__ static inline float4 sg_csr_quad(int32_t j, int32_t end, T term, L load)
{
    float4 sum = {0, 0, 0, 0};
#pragma unroll 1
    for (; j + N <= end; j += N)
        sg_csr_add_terms<N>(&sum, j, term, load);
#pragma unroll 1
    for (; N > 1 && j < end; j++)
        sg_csr_add_terms<1>(&sum, j, term, load);
    return sum;
}

#endif
