/* scan.cu - what has a result for each element along the middle axis of x [outer, size, inner]: softmax, its logarithm, and
 * running sums. */
#include "runtime/cuda/reduce_internal.h"
#include "runtime/cuda/rules.cuh"

/* ------------------------------------------------------------------------------------------------------- softmax */

/* A row whose maximum is not finite: all -inf stays so (softmax: zeros), +inf leaves NaN at its place, NaN spreads. */
struct softmax_row {
    float shift, rest, factor;
};

__device__ static inline softmax_row row_of(exponentials e)
{
    if (isfinite(e.top))
        return {e.top, logf(e.sum), 1 / e.sum};
    return {e.top == -INFINITY ? 0.0f : e.top, 0, 1};
}

template <bool LOG> __device__ static inline float element(softmax_row r, float x)
{
    return LOG ? (x - r.shift) - r.rest : expf(x - r.shift) * r.factor;
}

/* A row for each thread; neighbouring threads read neighbouring columns. */
template <bool LOG> __global__ void softmax_thread(sg_cuda_pass p, const float *x, float *y)
{
    int64_t count = p.outer * p.inner;
    for (int64_t t = sg_first(); t < count; t += sg_stride()) {
        int64_t o, column = sg_divide(t, p.inner, &o), at = o * p.size * p.inner + column;
        exponentials e = logsumexp_rule::none();
        for (int64_t i = 0; i < p.size; i++)
            e = logsumexp_rule::join(e, logsumexp_rule::of(x[at + i * p.inner], i));
        softmax_row r = row_of(e);
        for (int64_t i = 0; i < p.size; i++)
            y[at + i * p.inner] = element<LOG>(r, x[at + i * p.inner]);
    }
}

template <bool LOG> __global__ void softmax_warp(sg_cuda_pass p, const float *x, float *y)
{
    int lane = threadIdx.x % SG_WARP;
    for (int64_t o = sg_first() / SG_WARP; o < p.outer; o += sg_stride() / SG_WARP) {
        const float *row = x + o * p.size;
        exponentials e = logsumexp_rule::none();
        for (int64_t i = lane; i < p.size; i += SG_WARP)
            e = logsumexp_rule::join(e, logsumexp_rule::of(row[i], i));
        softmax_row r = row_of(sg_warp_join<logsumexp_rule>(e));
        for (int64_t i = lane; i < p.size; i += SG_WARP)
            y[o * p.size + i] = element<LOG>(r, row[i]);
    }
}

template <bool LOG> __global__ void softmax_block(sg_cuda_pass p, const float *x, float *y)
{
    __shared__ exponentials room[SG_WARPS];
    for (int64_t o = blockIdx.x; o < p.outer; o += gridDim.x) {
        const float *row = x + o * p.size;
        exponentials e = logsumexp_rule::none();
        for (int64_t i = threadIdx.x; i < p.size; i += SG_BLOCK)
            e = logsumexp_rule::join(e, logsumexp_rule::of(row[i], i));
        softmax_row r = row_of(sg_block_join<logsumexp_rule>(e, room));
        for (int64_t i = threadIdx.x; i < p.size; i += SG_BLOCK)
            y[o * p.size + i] = element<LOG>(r, row[i]);
    }
}

/* As reduce_columns; every thread joins its column again, in one order. */
template <bool LOG> __global__ void softmax_columns(sg_cuda_pass p, const float *x, float *y)
{
    __shared__ exponentials room[SG_BLOCK];
    int lane = threadIdx.x % p.lanes, first = threadIdx.x / p.lanes, rows = SG_BLOCK / p.lanes;
    int64_t across = (p.inner + p.lanes - 1) / p.lanes, tiles = p.outer * across;
    for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        int64_t o, column = sg_divide(t, across, &o) * p.lanes + lane, at = o * p.size * p.inner + column;
        int64_t size = column < p.inner ? p.size : 0;
        exponentials e = logsumexp_rule::none();
        for (int64_t i = first; i < size; i += rows)
            e = logsumexp_rule::join(e, logsumexp_rule::of(x[at + i * p.inner], i));
        room[threadIdx.x] = e;
        __syncthreads();
        e = room[lane];
        for (int k = 1; k < rows; k++)
            e = logsumexp_rule::join(e, room[k * p.lanes + lane]);
        softmax_row r = row_of(e);
        for (int64_t i = first; i < size; i += rows)
            y[at + i * p.inner] = element<LOG>(r, x[at + i * p.inner]);
        __syncthreads();
    }
}

template <bool LOG> static void run_softmax(const sg_cuda_pass *p, const float *x, float *y, cudaStream_t stream)
{
    int64_t across = (p->inner + p->lanes - 1) / p->lanes;
    if (p->form == SG_CUDA_THREAD)
        SG_CUDA_LAUNCH(softmax_thread<LOG>, sg_blocks(p->outer * p->inner, SG_BLOCK), SG_BLOCK, stream, *p, x, y);
    else if (p->form == SG_CUDA_WARP)
        SG_CUDA_LAUNCH(softmax_warp<LOG>, sg_blocks(p->outer, SG_WARPS), SG_BLOCK, stream, *p, x, y);
    else if (p->form == SG_CUDA_BLOCK)
        SG_CUDA_LAUNCH(softmax_block<LOG>, sg_blocks(p->outer, 1), SG_BLOCK, stream, *p, x, y);
    else
        SG_CUDA_LAUNCH(softmax_columns<LOG>, sg_blocks(p->outer * across, 1), SG_BLOCK, stream, *p, x, y);
}

extern "C" void sg_cuda_softmax(const sg_cuda_pass *p, bool logarithm, const float *x, float *y, cudaStream_t stream)
{
    if (logarithm)
        run_softmax<true>(p, x, y, stream);
    else
        run_softmax<false>(p, x, y, stream);
}

/* -------------------------------------------------------------------------------------------------- running sums */

/* Sums are in double: their rounding errors would add up along the row. */
__global__ void cumsum_thread(int64_t outer, int64_t size, int64_t inner, bool reverse, const float *x, float *y)
{
    for (int64_t t = sg_first(); t < outer * inner; t += sg_stride()) {
        int64_t o, column = sg_divide(t, inner, &o), at = o * size * inner + column;
        double sum = 0;
        for (int64_t i = 0; i < size; i++) {
            int64_t place = at + (reverse ? size - 1 - i : i) * inner;
            sum += x[place];
            y[place] = (float)sum;
        }
    }
}

/* The sum over this lane and those before it. */
__device__ static inline double scan_warp(double value)
{
    int lane = threadIdx.x % SG_WARP;
    for (int step = 1; step < SG_WARP; step *= 2) {
        double before = __shfl_up_sync(0xffffffffu, value, step);
        value += lane >= step ? before : 0;
    }
    return value;
}

/* A block for each row, a tile of as many elements as threads at a time. */
__global__ void cumsum_block(int64_t outer, int64_t size, bool reverse, const float *x, float *y)
{
    __shared__ double sums[SG_WARPS];
    int warp = threadIdx.x / SG_WARP, warps = blockDim.x / SG_WARP, last = SG_WARP - 1;
    for (int64_t o = blockIdx.x; o < outer; o += gridDim.x) {
        double before = 0;
        for (int64_t first = 0; first < size; first += blockDim.x) {
            int64_t i = first + threadIdx.x, place = o * size + (reverse ? size - 1 - i : i);
            double sum = scan_warp(i < size ? x[place] : 0.0f);
            if ((int)(threadIdx.x % SG_WARP) == last)
                sums[warp] = sum;
            __syncthreads();
            double shift = before;
            for (int w = 0; w < warps; w++) {
                shift += w < warp ? sums[w] : 0;
                before += sums[w];
            }
            if (i < size)
                y[place] = (float)(shift + sum);
            __syncthreads();
        }
    }
}

extern "C" void sg_cuda_cumsum(int64_t outer, int64_t size, int64_t inner, bool reverse, const float *x, float *y,
                               cudaStream_t stream)
{
    if (inner > 1 || size <= 16)
        SG_CUDA_LAUNCH(cumsum_thread, sg_blocks(outer * inner, SG_BLOCK), SG_BLOCK, stream, outer, size, inner, reverse, x,
                       y);
    else
        SG_CUDA_LAUNCH(cumsum_block, sg_blocks(outer, 1), size <= SG_BLOCK ? SG_WARP : SG_BLOCK, stream, outer, size,
                       reverse, x, y);
}
