/* scatter_rows.cu - sums, or maxima, of rows by index, from places sorted by index (sort.cu).
 *
 * The sorted places are cut into tiles. A tile joins the rows of each index that it meets, in order; what belongs to one index
 * alone goes to the result at once, and what an index has in several tiles is left as one partial row for each of them: the
 * tile's first index may have begun before (its `head`), its last may go on (its `tail`). A second launch joins these. So thousands
 * of rows of one index are as fast as rows of different ones, and the order is that of the sorted places and of the tiles. */
#include "runtime/cuda/index_internal.h"
#include "runtime/cuda/row.cuh"
#include "runtime/cuda/rules.cuh"

enum {
    PLACES = SG_CUDA_SCATTER_PLACES,
    TILE_THREADS = 64,
    BATCH = 8, /* rows read at once */
    HEAD = 0,
    TAIL = 1
};

template <class T> __global__ void fill(int64_t n, float value, T *out)
{
    for (int64_t i = sg_first(); i < n; i += sg_stride())
        sg_round(value, out + i);
}

__device__ static inline int64_t tiles_of(const sg_cuda_index &s) { return (s.count + PLACES - 1) / PLACES; }

__device__ static inline float *part_of(const sg_cuda_index &s, float *parts, int64_t tile, int side)
{
    return parts + (2 * tile + side) * s.width;
}

/* The key at a place, -1 beside the places. */
__device__ static inline int32_t key_at(const sg_cuda_index &s, const int32_t *keys, int64_t place)
{
    return place >= 0 && place < s.count ? keys[place] : -1;
}

template <class R, class T, int V>
__device__ static inline void join_piece(float (&a)[V], const sg_piece<T, V> &piece)
{
#pragma unroll
    for (int i = 0; i < V; i++)
        a[i] = R::join(a[i], piece[i]);
}

template <class R, int V> __device__ static inline void start(float (&a)[V])
{
#pragma unroll
    for (int i = 0; i < V; i++)
        a[i] = R::none();
}

template <class R, class T, int V>
__global__ void __launch_bounds__(TILE_THREADS)
    join_tiles(sg_cuda_index s, const int32_t *keys, const int32_t *order, const T *in, T *out, float *parts)
{
    __shared__ int32_t key[PLACES + 1], from[PLACES];
    int64_t pieces = s.width / V, across = (pieces + TILE_THREADS - 1) / TILE_THREADS;
    for (int64_t t = blockIdx.x; t < tiles_of(s) * across; t += gridDim.x) {
        int64_t tile, piece = sg_divide(t, across, &tile) * TILE_THREADS + threadIdx.x, first = tile * PLACES;
        int n = (int)(s.count - first < PLACES ? s.count - first : PLACES);
        if ((int)threadIdx.x <= n)
            key[threadIdx.x] = key_at(s, keys, first + threadIdx.x);
        if ((int)threadIdx.x < n)
            from[threadIdx.x] = order[first + threadIdx.x];
        int32_t before = key_at(s, keys, first - 1);
        __syncthreads();
        float a[V];
        start<R>(a);
        for (int base = 0; base < n && piece < pieces; base += BATCH) {
            sg_piece<T, V> row[BATCH];
#pragma unroll
            for (int u = 0; u < BATCH; u++)
                if (base + u < n)
                    row[u] = sg_load<V>(in + from[base + u] * s.width + piece * V);
#pragma unroll
            for (int u = 0; u < BATCH; u++) {
                int j = base + u;
                if (j >= n)
                    continue;
                join_piece<R>(a, row[u]);
                if (j + 1 < n && key[j + 1] == key[j])
                    continue;
                bool head = key[j] == before, tail = key[j + 1] == key[j];
                if (key[j] >= s.rows) /* raised as a fault before */
                    continue;
                if (head || tail)
                    sg_store(part_of(s, parts, tile, head ? HEAD : TAIL) + piece * V, a);
                else
                    sg_store(out + key[j] * s.width + piece * V, a);
                start<R>(a);
            }
        }
        __syncthreads();
    }
}

/* The first place from `first` on whose key is greater than `key`. */
__device__ static inline int64_t end_of(const int32_t *keys, int64_t first, int64_t count, int32_t key)
{
    int64_t low = first, high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (keys[middle] <= key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* For each tile whose last key begins there and goes on: the tile's tail and the heads of those behind it, every eighth of them by
 * each warp; then the warps' in order. */
template <class R, class T, int V>
__global__ void __launch_bounds__(SG_BLOCK) join_parts(sg_cuda_index s, const int32_t *keys, float *parts, T *out)
{
    __shared__ float room[SG_WARPS][V][SG_WARP];
    int lane = threadIdx.x % SG_WARP, warp = threadIdx.x / SG_WARP;
    int64_t pieces = s.width / V, across = (pieces + SG_WARP - 1) / SG_WARP;
    for (int64_t t = blockIdx.x; t < tiles_of(s) * across; t += gridDim.x) {
        int64_t tile, piece = sg_divide(t, across, &tile) * SG_WARP + lane, next = (tile + 1) * PLACES;
        int32_t key = key_at(s, keys, next - 1);
        if (key < 0 || key >= s.rows || key_at(s, keys, next) != key || key_at(s, keys, tile * PLACES - 1) == key)
            continue; /* the same for the whole block */
        int64_t n = (end_of(keys, next, s.count, key) - 1) / PLACES - tile + 1;
        float a[V];
        start<R>(a);
        if (piece < pieces)
#pragma unroll 4
            for (int64_t k = warp; k < n; k += SG_WARPS)
                join_piece<R>(a, sg_load<V>(part_of(s, parts, tile + k, k == 0 ? TAIL : HEAD) + piece * V));
#pragma unroll
        for (int i = 0; i < V; i++)
            room[warp][i][lane] = a[i];
        __syncthreads();
        if (warp == 0 && piece < pieces) {
            for (int w = 1; w < SG_WARPS; w++)
#pragma unroll
                for (int i = 0; i < V; i++)
                    a[i] = R::join(a[i], room[w][i][lane]);
            sg_store(out + key * s.width + piece * V, a);
        }
        __syncthreads();
    }
}

template <class R, class T, int V>
static void run(const sg_cuda_index *s, const int32_t *key, const int32_t *order, const void *in, void *out,
                float *parts, cudaStream_t stream)
{
    int64_t pieces = s->width / V, tiles = (s->count + PLACES - 1) / PLACES;
    int64_t across = (pieces + TILE_THREADS - 1) / TILE_THREADS, narrow = (pieces + SG_WARP - 1) / SG_WARP;
    SG_CUDA_LAUNCH((join_tiles<R, T, V>), sg_blocks(tiles * across, 1), TILE_THREADS, stream, *s, key, order,
                   (const T *)in, (T *)out, parts);
    if (tiles > 1)
        SG_CUDA_LAUNCH((join_parts<R, T, V>), sg_blocks(tiles * narrow, 1), SG_BLOCK, stream, *s, key, parts, (T *)out);
}

template <class R, class T>
static void run_type(const sg_cuda_index *s, float empty, const int32_t *key, const int32_t *order, const void *in,
                     void *out, float *parts, cudaStream_t stream)
{
    int64_t n = s->rows * s->width;
    if (empty == 0)
        cudaMemsetAsync(out, 0, (size_t)n * sizeof(T), stream);
    else
        SG_CUDA_LAUNCH((fill<T>), sg_blocks(n, SG_BLOCK), SG_BLOCK, stream, n, empty, (T *)out);
    if (s->count == 0)
        return;
    if (s->width % sg_wide<T>::VEC == 0)
        run<R, T, sg_wide<T>::VEC>(s, key, order, in, out, parts, stream);
    else
        run<R, T, 1>(s, key, order, in, out, parts, stream);
}

extern "C" size_t sg_cuda_scatter_bytes(int64_t count, int64_t width)
{
    int64_t tiles = (count + PLACES - 1) / PLACES;
    return tiles > 1 ? (size_t)(2 * tiles * width) * sizeof(float) : 0;
}

extern "C" void sg_cuda_scatter_rows(const sg_cuda_index *s, bool max, const int32_t *key, const int32_t *order,
                                     const void *in, void *out, float *parts, cudaStream_t stream)
{
    if (s->bf16)
        run_type<sum_rule, sg_bf16>(s, 0, key, order, in, out, parts, stream);
    else if (max)
        run_type<max_rule, float>(s, -INFINITY, key, order, in, out, parts, stream);
    else
        run_type<sum_rule, float>(s, 0, key, order, in, out, parts, stream);
}
