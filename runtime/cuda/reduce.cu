/* reduce.cu - reductions of the middle axis of x [outer, size, inner], in the four forms of reduce_internal.h. */
#include "runtime/cuda/reduce_internal.h"
#include "runtime/cuda/rules.cuh"

/* What a pass reads and writes: elements and results, or accumulators. */
template <class R> struct from_elements {
    typedef float in;
    __device__ static typename R::acc get(const in *x, int64_t at, int64_t i) { return R::of(x[at], i); }
};
template <class R> struct from_accumulators {
    typedef typename R::acc in;
    __device__ static typename R::acc get(const in *x, int64_t at, int64_t) { return x[at]; }
};
template <class R> struct to_results {
    typedef typename R::out out;
    __device__ static out put(typename R::acc a) { return R::result(a); }
};
template <class R> struct to_accumulators {
    typedef typename R::acc out;
    __device__ static out put(typename R::acc a) { return a; }
};

__device__ static inline int64_t chunk_end(const sg_cuda_pass &p, int64_t first)
{
    return p.size - first < p.chunk ? p.size : first + p.chunk;
}

template <class R, class From, class To>
__global__ void reduce_thread(sg_cuda_pass p, const typename From::in *x, typename To::out *y)
{
    int64_t count = p.outer * p.chunks * p.inner;
    for (int64_t t = sg_first(); t < count; t += sg_stride()) {
        int64_t slab, o, column = sg_divide(t, p.inner, &slab), c = sg_divide(slab, p.chunks, &o);
        int64_t first = c * p.chunk, end = chunk_end(p, first);
        typename R::acc a = R::none();
#pragma unroll 4
        for (int64_t i = first; i < end; i++)
            a = R::join(a, From::get(x, (o * p.size + i) * p.inner + column, i));
        y[t] = To::put(a);
    }
}

template <class R, class From, class To>
__global__ void reduce_warp(sg_cuda_pass p, const typename From::in *x, typename To::out *y)
{
    int64_t rows = p.outer * p.chunks;
    int lane = threadIdx.x % SG_WARP;
    for (int64_t t = sg_first() / SG_WARP; t < rows; t += sg_stride() / SG_WARP) {
        int64_t o, c = sg_divide(t, p.chunks, &o), first = c * p.chunk, end = chunk_end(p, first);
        typename R::acc a = R::none();
#pragma unroll 4
        for (int64_t i = first + lane; i < end; i += SG_WARP)
            a = R::join(a, From::get(x, o * p.size + i, i));
        a = sg_warp_join<R>(a);
        if (lane == 0)
            y[t] = To::put(a);
    }
}

template <class R, class From, class To>
__global__ void reduce_block(sg_cuda_pass p, const typename From::in *x, typename To::out *y)
{
    __shared__ typename R::acc room[SG_WARPS];
    int64_t rows = p.outer * p.chunks;
    for (int64_t t = blockIdx.x; t < rows; t += gridDim.x) {
        int64_t o, c = sg_divide(t, p.chunks, &o), first = c * p.chunk, end = chunk_end(p, first);
        typename R::acc a = R::none();
#pragma unroll 4
        for (int64_t i = first + threadIdx.x; i < end; i += SG_BLOCK)
            a = R::join(a, From::get(x, o * p.size + i, i));
        a = sg_block_join<R>(a, room);
        if (threadIdx.x == 0)
            y[t] = To::put(a);
    }
}

/* Threads [y][x] of a block: x is the column, y takes every (256 / lanes)th row; then the columns are joined in order of y. */
template <class R, class From, class To>
__global__ void reduce_columns(sg_cuda_pass p, const typename From::in *x, typename To::out *y)
{
    __shared__ typename R::acc room[SG_BLOCK];
    int lane = threadIdx.x % p.lanes, row = threadIdx.x / p.lanes, rows = SG_BLOCK / p.lanes;
    int64_t across = (p.inner + p.lanes - 1) / p.lanes, tiles = p.outer * p.chunks * across;
    for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        int64_t slab, o, column = sg_divide(t, across, &slab) * p.lanes + lane, c = sg_divide(slab, p.chunks, &o);
        int64_t first = c * p.chunk, end = column < p.inner ? chunk_end(p, first) : first;
        typename R::acc a = R::none();
#pragma unroll 4
        for (int64_t i = first + row; i < end; i += rows)
            a = R::join(a, From::get(x, (o * p.size + i) * p.inner + column, i));
        room[threadIdx.x] = a;
        __syncthreads();
        if (row == 0 && column < p.inner) {
            for (int k = 1; k < rows; k++)
                a = R::join(a, room[k * p.lanes + lane]);
            y[slab * p.inner + column] = To::put(a);
        }
        __syncthreads();
    }
}

template <class R, class From, class To>
static void run(const sg_cuda_pass *p, const void *in, void *out, cudaStream_t stream)
{
    const typename From::in *x = (const typename From::in *)in;
    typename To::out *y = (typename To::out *)out;
    int64_t rows = p->outer * p->chunks, across = (p->inner + p->lanes - 1) / p->lanes;
    if (p->form == SG_CUDA_THREAD)
        SG_CUDA_LAUNCH((reduce_thread<R, From, To>), sg_blocks(rows * p->inner, SG_BLOCK), SG_BLOCK, stream, *p, x, y);
    else if (p->form == SG_CUDA_WARP)
        SG_CUDA_LAUNCH((reduce_warp<R, From, To>), sg_blocks(rows, SG_WARPS), SG_BLOCK, stream, *p, x, y);
    else if (p->form == SG_CUDA_BLOCK)
        SG_CUDA_LAUNCH((reduce_block<R, From, To>), sg_blocks(rows, 1), SG_BLOCK, stream, *p, x, y);
    else
        SG_CUDA_LAUNCH((reduce_columns<R, From, To>), sg_blocks(rows * across, 1), SG_BLOCK, stream, *p, x, y);
}

template <class R>
static void run_rule(const sg_cuda_pass *p, bool partial_in, bool partial_out, const void *x, void *y,
                     cudaStream_t stream)
{
    static_assert(sizeof(typename R::acc) <= SG_CUDA_ACC_BYTES, "room between passes");
    if (partial_in)
        run<R, from_accumulators<R>, to_results<R>>(p, x, y, stream);
    else if (partial_out)
        run<R, from_elements<R>, to_accumulators<R>>(p, x, y, stream);
    else
        run<R, from_elements<R>, to_results<R>>(p, x, y, stream);
}

extern "C" void sg_cuda_reduce(sg_cuda_rule rule, const sg_cuda_pass *p, bool partial_in, bool partial_out, const void *x,
                               void *y, cudaStream_t stream)
{
    switch (rule) {
    case SG_CUDA_PROD:
        return run_rule<prod_rule>(p, partial_in, partial_out, x, y, stream);
    case SG_CUDA_MAX:
        return run_rule<max_rule>(p, partial_in, partial_out, x, y, stream);
    case SG_CUDA_MIN:
        return run_rule<min_rule>(p, partial_in, partial_out, x, y, stream);
    case SG_CUDA_ARGMAX:
        return run_rule<argmax_rule>(p, partial_in, partial_out, x, y, stream);
    case SG_CUDA_ARGMIN:
        return run_rule<argmin_rule>(p, partial_in, partial_out, x, y, stream);
    case SG_CUDA_LOGSUMEXP:
        return run_rule<logsumexp_rule>(p, partial_in, partial_out, x, y, stream);
    }
}
