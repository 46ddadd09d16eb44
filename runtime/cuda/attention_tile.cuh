/* attention_tile.cuh - tiles of the operands in shared memory, and their products.
 *
 * A block owns 16 * TILES rows (queries or keys) a warp and sweeps the other side in tiles of COLUMNS rows. A warp holds a tile
 * of scores [16 * TILES, COLUMNS] in registers as the tensor cores leave it, sg_scores: lane l has, of the 8 x 2 elements of each
 * 16 x 8 matrix, rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the next. Two products are all that is needed:
 *
 *     scores = own swept'     and     sums [16 * TILES, DEPTH] += scores swept
 *
 * In f32 they are computed by plain multiplications and additions into the same registers, so that everything else is written
 * once for both types. */
#ifndef SG_CUDA_ATTENTION_TILE_CUH
#define SG_CUDA_ATTENTION_TILE_CUH

#include "runtime/cuda/attention_internal.h"
#include "runtime/cuda/warp.cuh"

typedef uint16_t sg_bf16_bits;

/* DEPTH: depth and width, padded with zeros. KEPT: owned operands stay in registers. BLOCKS: so many must fit a multiprocessor
 * by their registers. */
template <class T_, int DEPTH_, int WARPS_, int TILES_, int COLUMNS_, bool KEPT_, int BLOCKS_ = 1> struct sg_tiling {
    typedef T_ T;
    static constexpr bool F32 = sizeof(T_) == 4, KEPT = KEPT_ && !F32;
    static constexpr int DEPTH = DEPTH_, WARPS = WARPS_, TILES = TILES_, COLUMNS = COLUMNS_, BLOCKS = BLOCKS_,
                         THREADS = 32 * WARPS;
    static constexpr int OWN = 16 * TILES, ROWS = OWN * WARPS; /* rows of a warp and of the block */
    static constexpr int ACROSS = COLUMNS / 8, DEEP = DEPTH / 8;
    static constexpr int STRIDE = (DEPTH + (F32 ? 4 : 0)) * (int)sizeof(T); /* bytes between rows */
    static constexpr int OWN_BYTES = ROWS * STRIDE, SWEPT_BYTES = COLUMNS * STRIDE;
    /* f32: where a warp's scores change hands */
    static constexpr int EXCHANGE_ROW = COLUMNS + 4, EXCHANGE_BYTES = F32 ? WARPS * 16 * EXCHANGE_ROW * 4 : 0;
};

template <class S> struct sg_scores {
    float at[S::TILES][S::ACROSS][4];
};
template <class S> struct sg_sums {
    float at[S::TILES][S::DEEP][4];
};

template <class M> __device__ static inline void sg_clear(M &m)
{
    for (auto &tile : m.at)
        for (auto &part : tile)
            for (float &x : part)
                x = 0;
}

__device__ static inline int sg_lane() { return threadIdx.x % 32; }
__device__ static inline int sg_warp() { return threadIdx.x / 32; }

__device__ static inline float sg_as_float(float x) { return x; }
__device__ static inline float sg_as_float(sg_bf16_bits x) { return __uint_as_float((uint32_t)x << 16); }

/* Where 16 bytes of a row lie. Rows of bf16 are a multiple of 128 bytes long; to keep ldmatrix, which reads the same part
 * of eight rows, from meeting in the same banks, parts are permuted by the row. */
template <class S> __device__ static inline uint32_t sg_part_at(uint32_t tile, int row, int part)
{
    return tile + row * S::STRIDE + (S::F32 ? part * 16 : (part ^ (row & 7)) * 16);
}

/* An operand of one head. One that is zero has no rows, and the address of something else. */
template <class T> struct sg_rows_of {
    const T *at;
    int64_t stride;
    int32_t count, width;
    bool whole; /* rows are made of aligned groups of 16 bytes */
};

template <class T>
__device__ static inline sg_rows_of<T> sg_head_rows(const void *x, const void *other, const sg_cuda_attention_layout &l,
                                                    int b, int h, int32_t count, int32_t width)
{
    constexpr int each = 16 / sizeof(T);
    if (!x)
        return {(const T *)other, 0, 0, width, ((uintptr_t)other & 15) == 0};
    const T *at = (const T *)x + b * l.batch + h * l.head;
    return {at, l.row, count, width, width % each == 0 && l.row % each == 0 && ((uintptr_t)at & 15) == 0};
}

/* The same as below, element by element. */
template <class S, int COUNT>
__device__ __noinline__ static void sg_fetch_elements(uint32_t tile, const typename S::T *x, int64_t stride, int left,
                                                      int width)
{
    typedef typename S::T T;
    constexpr int each = 16 / sizeof(T);
    for (int n = threadIdx.x; n < COUNT * S::DEPTH; n += S::THREADS) {
        const int row = n / S::DEPTH, column = n % S::DEPTH;
        T *to = (T *)(sg_shared_memory + sg_part_at<S>(tile, row, column / each)) + column % each;
        *to = row < left && column < width ? x[row * stride + column] : (T)0;
    }
}

/* COUNT rows from `first` on into a tile, zeros beyond the operand's rows and width. A thread copies the same part of each
 * STEP-th row; eight rows later parts lie in the same order. */
template <class S, int COUNT>
__device__ static inline void sg_fetch(uint32_t tile, const sg_rows_of<typename S::T> &x, int first)
{
    constexpr int each = 16 / sizeof(typename S::T), parts = S::DEPTH / each, STEP = S::THREADS / parts;
    static_assert(S::THREADS % parts == 0 && COUNT % STEP == 0 && (S::F32 || STEP % 8 == 0), "whole steps");
    if (!x.whole) {
        sg_fetch_elements<S, COUNT>(tile, x.at + first * x.stride, x.stride, x.count - first, x.width);
        return;
    }
    const int row = threadIdx.x / parts, part = threadIdx.x % parts;
    const int left = part * each < x.width ? x.count - first - row : 0;
    const typename S::T *from = x.at + (first + row) * x.stride + part * each;
    const uint32_t to = sg_shared_base() + sg_part_at<S>(tile, row, part);
#pragma unroll
    for (int n = 0; n < COUNT / STEP; n++)
        sg_copy16(to + n * STEP * S::STRIDE, from + n * STEP * x.stride, n * STEP < left);
}

/* The warp's part of an operand that the block owns. */
template <class S> struct sg_own {
    uint32_t tile;
    uint32_t part[S::KEPT ? S::TILES : 1][S::KEPT ? S::DEPTH / 16 : 1][4];
};

template <class S> __device__ static inline void sg_own_part(uint32_t a[4], uint32_t tile, int t, int deep)
{
    int lane = sg_lane(), row = sg_warp() * S::OWN + 16 * t + lane % 16;
    sg_load_matrix(a, sg_shared_base() + sg_part_at<S>(tile, row, 2 * deep + lane / 16));
}

/* After the tile is complete. */
template <class S> __device__ static inline void sg_keep(sg_own<S> &x)
{
    if constexpr (S::KEPT) {
#pragma unroll
        for (int t = 0; t < S::TILES; t++)
#pragma unroll
            for (int d = 0; d < S::DEPTH / 16; d++)
                sg_own_part<S>(x.part[t][d], x.tile, t, d);
    }
}

template <class S> __device__ static inline void sg_dot_cores(sg_scores<S> &c, const sg_own<S> &x, uint32_t swept)
{
    const int lane = sg_lane();
#pragma unroll
    for (int d = 0; d < S::DEPTH / 16; d++) {
        uint32_t a[S::TILES][4];
#pragma unroll
        for (int t = 0; t < S::TILES; t++) {
            if constexpr (S::KEPT) {
#pragma unroll
                for (int i = 0; i < 4; i++)
                    a[t][i] = x.part[t][d][i];
            } else {
                sg_own_part<S>(a[t], x.tile, t, d);
            }
        }
#pragma unroll
        for (int n = 0; n < S::ACROSS; n += 2) {
            uint32_t b[4];
            sg_load_matrix(b, sg_shared_base() +
                                  sg_part_at<S>(swept, 8 * n + lane % 8 + lane / 16 * 8, 2 * d + lane / 8 % 2));
#pragma unroll
            for (int t = 0; t < S::TILES; t++) {
                sg_multiply_add(c.at[t][n], a[t], b[0], b[1]);
                sg_multiply_add(c.at[t][n + 1], a[t], b[2], b[3]);
            }
        }
    }
}

template <class S> __device__ static inline void sg_dot_plain(sg_scores<S> &c, const sg_own<S> &x, uint32_t swept)
{
    const int lane = sg_lane();
    const unsigned char *own = sg_shared_memory + x.tile + (sg_warp() * S::OWN + lane / 4) * S::STRIDE;
    const unsigned char *other = sg_shared_memory + swept + 2 * (lane % 4) * S::STRIDE;
#pragma unroll 1
    for (int d = 0; d < S::DEPTH / 4; d++)
#pragma unroll
        for (int t = 0; t < S::TILES; t++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float4 p = *(const float4 *)(own + (16 * t + 8 * half) * S::STRIDE + 16 * d);
#pragma unroll
                for (int n = 0; n < S::ACROSS; n++)
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const float4 r = *(const float4 *)(other + (8 * n + e) * S::STRIDE + 16 * d);
                        float &sum = c.at[t][n][2 * half + e];
                        sum = fmaf(p.x, r.x, fmaf(p.y, r.y, fmaf(p.z, r.z, fmaf(p.w, r.w, sum))));
                    }
            }
}

/* scores += own swept'. */
template <class S> __device__ static inline void sg_dot(sg_scores<S> &c, const sg_own<S> &x, uint32_t swept)
{
    if constexpr (S::F32)
        sg_dot_plain<S>(c, x, swept);
    else
        sg_dot_cores<S>(c, x, swept);
}

/* The registers of two matrices of scores, side by side, are those of an operand of the next product. */
template <class S> __device__ static inline void sg_add_cores(sg_sums<S> &sums, const sg_scores<S> &f, uint32_t swept)
{
    const int lane = sg_lane();
#pragma unroll
    for (int k = 0; k < S::COLUMNS / 16; k++) {
        uint32_t a[S::TILES][4];
#pragma unroll
        for (int t = 0; t < S::TILES; t++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                a[t][i] = sg_pack_bf16(f.at[t][2 * k + i / 2][2 * (i % 2)], f.at[t][2 * k + i / 2][2 * (i % 2) + 1]);
#pragma unroll
        for (int n = 0; n < S::DEEP; n += 2) {
            uint32_t b[4];
            sg_load_transposed(b, sg_shared_base() + sg_part_at<S>(swept, 16 * k + lane % 16, n + lane / 16));
#pragma unroll
            for (int t = 0; t < S::TILES; t++) {
                sg_multiply_add(sums.at[t][n], a[t], b[0], b[1]);
                sg_multiply_add(sums.at[t][n + 1], a[t], b[2], b[3]);
            }
        }
    }
}

template <class S>
__device__ static inline void sg_add_plain(sg_sums<S> &sums, const sg_scores<S> &f, uint32_t swept, uint32_t exchange)
{
    const int lane = sg_lane();
    float *mine = (float *)(sg_shared_memory + exchange) + (sg_warp() * 16 + lane / 4) * S::EXCHANGE_ROW;
    const unsigned char *other = sg_shared_memory + swept + 2 * (lane % 4) * 4;
#pragma unroll
    for (int t = 0; t < S::TILES; t++) {
        __syncwarp();
#pragma unroll
        for (int n = 0; n < S::ACROSS; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                mine[8 * (e / 2) * S::EXCHANGE_ROW + 8 * n + 2 * (lane % 4) + e % 2] = f.at[t][n][e];
        __syncwarp();
#pragma unroll 2
        for (int k = 0; k < S::COLUMNS; k++) {
            const float top = mine[k], bottom = mine[8 * S::EXCHANGE_ROW + k];
#pragma unroll
            for (int n = 0; n < S::DEEP; n++) {
                const float2 z = *(const float2 *)(other + k * S::STRIDE + 32 * n);
                sums.at[t][n][0] = fmaf(top, z.x, sums.at[t][n][0]);
                sums.at[t][n][1] = fmaf(top, z.y, sums.at[t][n][1]);
                sums.at[t][n][2] = fmaf(bottom, z.x, sums.at[t][n][2]);
                sums.at[t][n][3] = fmaf(bottom, z.y, sums.at[t][n][3]);
            }
        }
    }
}

/* sums += scores swept. `exchange` is shared memory that f32 needs. */
template <class S>
__device__ static inline void sg_add_product(sg_sums<S> &sums, const sg_scores<S> &f, uint32_t swept, uint32_t exchange)
{
    if constexpr (S::F32)
        sg_add_plain<S>(sums, f, swept, exchange);
    else
        sg_add_cores<S>(sums, f, swept);
}

__device__ static inline void sg_store_pair(float *to, float a, float b) { *(float2 *)to = make_float2(a, b); }
__device__ static inline void sg_store_pair(sg_bf16_bits *to, float a, float b)
{
    *(uint32_t *)to = sg_pack_bf16(a, b);
}
__device__ static inline void sg_store(float *to, float a) { *to = a; }
__device__ static inline void sg_store(sg_bf16_bits *to, float a) { *to = (sg_bf16_bits)sg_pack_bf16(a, 0); }

/* factor[t][half] * sums to rows `first` + of the warp. */
template <class S>
__device__ static inline void sg_leave(const sg_sums<S> &sums, const float (&factor)[S::TILES][2], void *x,
                                       const sg_cuda_attention_layout &l, int b, int h, int first, int count, int width)
{
    typedef typename S::T T;
    T *to = (T *)x + b * l.batch + h * l.head;
    const int lane = sg_lane(), row = first + sg_warp() * S::OWN + lane / 4, left = 2 * (lane % 4);
    const bool pairs = width % 2 == 0 && l.row % 2 == 0 && ((uintptr_t)to & (2 * sizeof(T) - 1)) == 0;
#pragma unroll
    for (int t = 0; t < S::TILES; t++)
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int n = 0; n < S::DEEP; n++) {
                const int column = 8 * n + left;
                T *at = to + (row + 16 * t + 8 * half) * l.row + column;
                const float one = factor[t][half] * sums.at[t][n][2 * half],
                            two = factor[t][half] * sums.at[t][n][2 * half + 1];
                if (row + 16 * t + 8 * half >= count || column >= width)
                    continue;
                if (pairs) {
                    sg_store_pair(at, one, two);
                } else {
                    sg_store(at, one);
                    if (column + 1 < width)
                        sg_store(at + 1, two);
                }
            }
}

/* Fetch tile n + 1 while tile n is worked on. fetch(tile, stage) enqueues copies, work(tile, stage) uses them; what was enqueued
 * before belongs to the first tile. Each thread calls ready() when its copies are there. */
template <class Fetch, class Ready, class Work>
__device__ static inline void sg_sweep(int from, int to, const Fetch &fetch, const Ready &ready, const Work &work)
{
    if (from < to)
        fetch(from, 0);
    sg_copy_commit();
    for (int tile = from; tile < to; tile++) {
        sg_copy_wait();
        ready();
        __syncthreads();
        if (tile + 1 < to)
            fetch(tile + 1, (tile + 1 - from) % 2);
        sg_copy_commit();
        work(tile, (tile - from) % 2);
    }
    sg_copy_wait(); /* without a tile, for what was fetched before: nothing is on its way into memory that others use next */
}

template <class Fetch, class Work>
__device__ static inline void sg_sweep(int from, int to, const Fetch &fetch, const Work &work)
{
    sg_sweep(from, to, fetch, [] {}, work);
}

#endif
