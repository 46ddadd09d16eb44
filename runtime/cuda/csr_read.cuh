/* csr_read.cuh - reading lines of sparse rows, compiled with nvcc and with NVRTC: pointers and indices are checked where they are read. */
#ifndef SG_CUDA_CSR_READ_CUH
#define SG_CUDA_CSR_READ_CUH

#include "runtime/cuda/csr_lines_internal.h"

/* Out of line: it is long, stands in many places, and never happens. */
static __device__ __noinline__ void sg_csr_raise(sg_cuda_fault *fault, int site, int kind, int64_t position,
                                                 int32_t value, int32_t low, int64_t limit)
{
    sg_cuda_raise_at(fault, site, kind, position, value, low, limit);
}

/* [*begin, *end) of a line; empty if its pointers decrease or leave [0, capacity]. */
__device__ static inline void sg_csr_range(const sg_cuda_csr &c, const int32_t *pointers, int64_t line, bool raise,
                                           int32_t *begin, int32_t *end)
{
    int32_t low = pointers[line], high = pointers[line + 1];
    *begin = *end = 0;
    if (low >= 0 && low <= high && high <= c.capacity) {
        *begin = low;
        *end = high;
    } else if (raise && low >= 0 && low <= c.capacity) {
        sg_csr_raise(c.fault, c.site, SG_CUDA_CSR_POINTERS, line + 1, high, low, c.capacity);
    } else if (raise) {
        sg_csr_raise(c.fault, c.site, SG_CUDA_CSR_POINTERS, line, low, line ? pointers[line - 1] : 0, c.capacity);
    }
}

/* Is the index at a position in [0, limit)? */
__device__ static inline bool sg_csr_good(const sg_cuda_csr &c, int32_t i, int64_t position, int64_t limit, int kind,
                                          bool raise)
{
    if (i >= 0 && i < limit)
        return true;
    if (raise)
        sg_csr_raise(c.fault, c.site, kind, position, i, 0, limit);
    return false;
}

/* A non-zero: its value, and its row of the dense operand; -1: none, or an index out of range. */
struct sg_csr_term {
    float value;
    int32_t row;
};

__device__ static inline sg_csr_term sg_csr_at(const sg_cuda_csr &c, const float *value, const int32_t *index,
                                               const int32_t *order, int32_t j, bool raise)
{
    int32_t row = index[j], from = order ? order[j] : j;
    bool fine = sg_csr_good(c, row, j, c.others, SG_CUDA_INDEX_RANGE, raise) &&
                (!order || sg_csr_good(c, from, j, c.capacity, SG_CUDA_CSR_ORDER, raise));
    return {fine ? value[from] : 0, fine ? row : -1};
}

/* The warp's terms, one a lane, `count` of them, at a lane's columns: AT_ONCE loads at a time are on their way. A lane has T groups of V
 * columns, 32 V apart, of which the first `groups` are inside. PACK is V floats, .x. */
template <int V, int T, int AT_ONCE, class PACK>
__device__ static inline void sg_csr_add_terms(PACK (&sum)[T], sg_csr_term own, int32_t count, const float *at, int64_t width, int groups)
{
    for (int32_t i = 0; i < count; i += AT_ONCE) {
        float v[AT_ONCE];
        PACK x[AT_ONCE][T];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            int32_t row = __shfl_sync(0xffffffffu, own.row, i + k);
            v[k] = __shfl_sync(0xffffffffu, own.value, i + k);
#pragma unroll
            for (int g = 0; g < T; g++) {
                x[k][g] = {};
                if (row >= 0 && g < groups)
                    x[k][g] = *(const PACK *)(at + row * width + g * 32 * V);
            }
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
#pragma unroll
            for (int g = 0; g < T; g++)
#pragma unroll
                for (int c = 0; c < V; c++)
                    sum[g].x[c] = fmaf(v[k], x[k][g].x[c], sum[g].x[c]);
    }
}

#endif
