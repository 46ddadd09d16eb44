/* csr.cu - products with sparse rows. Every element of a result is summed in an order that depends on the line alone. */
#include "runtime/cuda/csr_internal.h"
#include "runtime/cuda/rules.cuh"

/* [*begin, *end) of a line; empty if its pointers decrease or leave [0, capacity]. */
__device__ static inline void range_of(const sg_cuda_csr &c, const int32_t *pointers, int64_t line, bool raise,
                                       int64_t *begin, int64_t *end)
{
    int32_t low = pointers[line], high = pointers[line + 1];
    *begin = *end = 0;
    if (low >= 0 && low <= high && high <= c.capacity) {
        *begin = low;
        *end = high;
    } else if (raise) {
        sg_cuda_raise(c.fault, c.site, SG_CUDA_CSR_POINTERS, low >= 0 && low <= c.capacity ? high : low, c.capacity);
    }
}

__device__ static inline bool good(const sg_cuda_csr &c, int32_t i, int64_t limit, bool raise)
{
    if (i >= 0 && i < limit)
        return true;
    if (raise)
        sg_cuda_raise(c.fault, c.site, SG_CUDA_INDEX_RANGE, i, limit);
    return false;
}

/* Sum of non-zeros begin, begin + step, ... before end, at one column. */
__device__ static inline float sum_of(const sg_cuda_csr &c, const float *value, const int32_t *index,
                                      const int32_t *order, const float *dense, int64_t column, int64_t begin,
                                      int64_t end, int64_t step)
{
    float sum = 0;
#pragma unroll 4
    for (int64_t j = begin; j < end; j += step) {
        int32_t row = index[j], from = order ? order[j] : (int32_t)j;
        bool fine = good(c, row, c.others, column == 0) && (!order || good(c, from, c.capacity, column == 0));
        if (fine)
            sum += value[from] * dense[row * c.width + column];
    }
    return sum;
}

/* Lines with one or two non-zeros: warps of a block take lines of their own, 32 columns each. */
__global__ void product_lines(sg_cuda_csr c, const float *value, const int32_t *pointers, const int32_t *index,
                              const int32_t *order, const float *dense, float *out)
{
    int lane = threadIdx.x % SG_WARP;
    int64_t across = (c.width + SG_WARP - 1) / SG_WARP;
    for (int64_t t = sg_first() / SG_WARP; t < c.lines * across; t += sg_stride() / SG_WARP) {
        int64_t line, begin, end, column = sg_divide(t, across, &line) * SG_WARP + lane;
        range_of(c, pointers, line, column == 0, &begin, &end);
        if (column < c.width)
            out[line * c.width + column] = sum_of(c, value, index, order, dense, column, begin, end, 1);
    }
}

/* Long lines: eight warps take every eighth non-zero, and their sums are added in the order of the warps. */
__global__ void product_shared(sg_cuda_csr c, const float *value, const int32_t *pointers, const int32_t *index,
                               const int32_t *order, const float *dense, float *out)
{
    __shared__ float room[SG_WARPS][SG_WARP];
    int lane = threadIdx.x % SG_WARP, warp = threadIdx.x / SG_WARP;
    int64_t across = (c.width + SG_WARP - 1) / SG_WARP;
    for (int64_t t = blockIdx.x; t < c.lines * across; t += gridDim.x) {
        int64_t line, begin, end, column = sg_divide(t, across, &line) * SG_WARP + lane;
        range_of(c, pointers, line, column == 0 && warp == 0, &begin, &end);
        float sum = 0;
        if (column < c.width)
            sum = sum_of(c, value, index, order, dense, column, begin + warp, end, SG_WARPS);
        room[warp][lane] = sum;
        __syncthreads();
        if (warp == 0 && column < c.width) {
            for (int k = 1; k < SG_WARPS; k++)
                sum += room[k][lane];
            out[line * c.width + column] = sum;
        }
        __syncthreads();
    }
}

extern "C" void sg_cuda_csr_product(const sg_cuda_csr *c, const float *value, const int32_t *pointers,
                                    const int32_t *index, const int32_t *order, const float *dense, float *out,
                                    cudaStream_t stream)
{
    int64_t tiles = c->lines * ((c->width + SG_WARP - 1) / SG_WARP);
    if (c->shared)
        SG_CUDA_LAUNCH(product_shared, sg_blocks(tiles, 1), SG_BLOCK, stream, *c, value, pointers, index, order, dense,
                       out);
    else
        SG_CUDA_LAUNCH(product_lines, sg_blocks(tiles, SG_WARPS), SG_BLOCK, stream, *c, value, pointers, index, order,
                       dense, out);
}

/* A warp for each non-zero; the blocks of one y take every (blocks of y)th eight of a line. */
__global__ void sddmm(sg_cuda_csr c, const int32_t *pointers, const int32_t *index, const float *g, const float *w,
                      float *out)
{
    int lane = threadIdx.x % SG_WARP, warp = threadIdx.x / SG_WARP;
    for (int64_t line = blockIdx.x; line < c.lines; line += gridDim.x) {
        int64_t begin, end;
        range_of(c, pointers, line, threadIdx.x == 0 && blockIdx.y == 0, &begin, &end);
        for (int64_t j = begin + blockIdx.y * SG_WARPS + warp; j < end; j += (int64_t)gridDim.y * SG_WARPS) {
            int32_t row = index[j];
            bool fine = good(c, row, c.others, lane == 0);
            float sum = 0;
#pragma unroll 4
            for (int64_t i = lane; i < c.width; i += SG_WARP)
                sum += fine ? g[line * c.width + i] * w[row * c.width + i] : 0;
            sum = sg_warp_join<sum_rule>(sum);
            if (lane == 0)
                out[j] = sum;
        }
    }
}

extern "C" void sg_cuda_csr_sddmm(const sg_cuda_csr *c, const int32_t *pointers, const int32_t *index, const float *g,
                                  const float *w, float *out, cudaStream_t stream)
{
    int64_t slices = c->capacity / c->lines / SG_WARPS + 1;
    dim3 blocks(sg_blocks(c->lines, 1), (unsigned)(slices < 64 ? slices : 64));
    SG_CUDA_LAUNCH(sddmm, blocks, SG_BLOCK, stream, *c, pointers, index, g, w, out);
}
