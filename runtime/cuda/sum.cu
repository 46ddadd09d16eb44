/* sum.cu - sums over the middle axis of x [outer, size, inner], in the forms of sum_internal.h: reads of 16 bytes where rows are whole
 * numbers of those, several of them in flight before the first is added. */
#include "runtime/cuda/replica.cuh"
#include "runtime/cuda/row.cuh"
#include "runtime/cuda/sum_internal.h"

enum {
    BATCH = 8,         /* pieces read at once */
    FEW_ROWS = 8,      /* of threads, whose sums one of them adds up */
    LEAST_COLUMNS = 32 /* of a block with threads of four */
};

/* Pieces at x, x + step, ... added to `sum`; `left` of them are there, of which this takes at most a batch. */
template <class I, int V>
__device__ static inline void add_batch(const I *x, int64_t step, int64_t left, float (&sum)[V])
{
    sg_piece<I, V> piece[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; u++)
        if (u < left)
            piece[u] = sg_load<V>(x + u * step);
        else
            piece[u] = {};
#pragma unroll
    for (int u = 0; u < BATCH; u++)
#pragma unroll
        for (int v = 0; v < V; v++)
            sum[v] += piece[u][v];
}

/* n pieces. */
template <class I, int V>
__device__ static inline void add_pieces(const I *x, int64_t step, int64_t n, float (&sum)[V])
{
    for (; n > 0; n -= BATCH, x += BATCH * step)
        add_batch(x, step, n, sum);
}

__device__ static inline int64_t length_of(const sg_cuda_sum_pass &p, int64_t chunk)
{
    int64_t rest = p.size - chunk * p.chunk;
    return rest < p.chunk ? rest : p.chunk;
}

/* Where chunk c of slab o begins: element (o, c chunk, 0). */
__device__ static inline int64_t begin_of(const sg_cuda_sum_pass &p, int64_t o, int64_t c)
{
    return (o * p.size + c * p.chunk) * p.inner;
}

template <class I, class O, int V> __global__ void __launch_bounds__(SG_BLOCK) sum_thread(sg_cuda_sum_pass p, const I *x, O *y, size_t stride)
{
    sg_wait();
    x = sg_replica_of(x, stride);
    y = sg_replica_of(y, stride);
    int64_t across = p.inner / V, count = p.outer * p.chunks * across;
    for (int64_t t = sg_first(); t < count; t += sg_stride()) {
        int64_t slab, o, column = sg_divide(t, across, &slab) * V, c = sg_divide(slab, p.chunks, &o);
        float sum[V] = {};
        add_pieces(x + begin_of(p, o, c) + column, p.inner, length_of(p, c), sum);
        sg_store(y + slab * p.inner + column, sum);
    }
}

/* inner is 1: a team of `lanes` threads, or a block, adds up a chunk of a row. */
template <class I, class O, int V> __global__ void __launch_bounds__(SG_BLOCK) sum_row(sg_cuda_sum_pass p, const I *x, O *y, size_t stride)
{
    sg_wait();
    x = sg_replica_of(x, stride);
    y = sg_replica_of(y, stride);
    __shared__ float room[SG_WARPS];
    sg_team team = sg_team_of(p.lanes);
    int teams = SG_BLOCK / team.size, own = threadIdx.x / team.size;
    int64_t rows = p.outer * p.chunks;
    for (int64_t base = (int64_t)blockIdx.x * teams; base < rows; base += (int64_t)gridDim.x * teams) {
        float sum[V] = {}, total[1] = {0};
        int64_t t = base + own;
        if (t < rows) {
            int64_t o, c = sg_divide(t, p.chunks, &o), pieces = length_of(p, c) / V - team.lane;
            add_pieces(x + begin_of(p, o, c) + team.lane * V, team.size * V, (pieces + team.size - 1) / team.size, sum);
        }
#pragma unroll
        for (int v = 0; v < V; v++)
            total[0] += sum[v];
        sg_team_sum(team, total, room);
        if (t < rows && team.lane == 0)
            sg_round(total[0], y + t);
    }
}

/* Threads [y][x] of a block: x is a piece of the row, y takes every p.rows-th row. Then the upper half of the rows of threads is added
 * to the lower until few are left, which one adds up. */
template <class I, class O, int V>
__global__ void __launch_bounds__(SG_CUDA_SUM_THREADS(V), V > 1 ? 4 : 2) sum_columns(sg_cuda_sum_pass p, const I *x, O *y, size_t stride)
{
    sg_wait();
    x = sg_replica_of(x, stride);
    y = sg_replica_of(y, stride);
    __shared__ float room[V][SG_CUDA_SUM_THREADS(V)];
    int me = threadIdx.x, lane = me % p.lanes, row = me / p.lanes;
    int64_t pieces = p.inner / V, across = (pieces + p.lanes - 1) / p.lanes, tiles = p.outer * p.chunks * across;
    for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        int64_t slab, o, piece = sg_divide(t, across, &slab) * p.lanes + lane, c = sg_divide(slab, p.chunks, &o);
        float sum[V] = {};
        if (piece < pieces)
            add_pieces(x + begin_of(p, o, c) + row * p.inner + piece * V, p.rows * p.inner,
                       (length_of(p, c) - row + p.rows - 1) / p.rows, sum);
#pragma unroll
        for (int v = 0; v < V; v++)
            room[v][me] = sum[v];
        __syncthreads();
        int left = p.rows;
        for (; left > FEW_ROWS; left /= 2) {
            if (row < left / 2)
#pragma unroll
                for (int v = 0; v < V; v++)
                    room[v][me] += room[v][me + left / 2 * p.lanes];
            __syncthreads();
        }
        if (row == 0 && piece < pieces) {
#pragma unroll
            for (int v = 0; v < V; v++)
                sum[v] = room[v][me];
            for (int k = 1; k < left; k++)
#pragma unroll
                for (int v = 0; v < V; v++)
                    sum[v] += room[v][me + k * p.lanes];
            sg_store(y + slab * p.inner + piece * V, sum);
        }
        __syncthreads();
    }
}

__device__ static inline void add_quad(float4 *sum, float4 x)
{
    sum->x += x.x;
    sum->y += x.y;
    sum->z += x.z;
    sum->w += x.w;
}

/* As sum_columns of single elements, by blocks as deep whose threads have four columns each, and LOADS elements of those at most: all of
 * them at once, for which the bounds leave registers. */
template <int LANES, int ROWS, int LOADS>
__global__ void __launch_bounds__(LANES *ROWS, 512 / (LANES * ROWS))
    sum_quads(int size, int quads, const float *x, float *y, size_t stride)
{
    __shared__ float4 room[ROWS][LANES];
    int lane = threadIdx.x % LANES, row = threadIdx.x / LANES, quad = blockIdx.x * LANES + lane;
    int64_t slab = blockIdx.y;
    const float4 *from = (const float4 *)sg_replica_of(x, stride) + (slab * size + row) * quads + min(quad, quads - 1);
    float4 piece[LOADS], sum = {0, 0, 0, 0};
    sg_wait();
#pragma unroll
    for (int u = 0; u < LOADS; u++) {
        piece[u] = {0, 0, 0, 0};
        if (row + u * ROWS < size)
            piece[u] = from[u * ROWS * quads];
    }
#pragma unroll
    for (int u = 0; u < LOADS; u++)
        add_quad(&sum, piece[u]);
    room[row][lane] = sum;
    __syncthreads();
#pragma unroll
    for (int left = ROWS / 2; left >= FEW_ROWS; left /= 2) {
        if (row < left)
            add_quad(&room[row][lane], room[row + left][lane]);
        __syncthreads();
    }
    if (row > 0 || quad >= quads)
        return;
    sum = room[0][lane];
#pragma unroll
    for (int k = 1; k < FEW_ROWS; k++)
        add_quad(&sum, room[k][lane]);
    ((float4 *)sg_replica_of(y, stride))[slab * quads + quad] = sum;
}

template <int LANES, int ROWS, int LOADS>
static bool launch_quads(const sg_cuda_sum_pass *p, const void *x, void *y, sg_cuda_where where)
{
    int quads = (int)p->inner / 4;
    dim3 blocks((unsigned)(quads + LANES - 1) / LANES, (unsigned)p->outer);
    if (p->size > LOADS * ROWS)
        return false;
    SG_CUDA_LAUNCH_EARLY((sum_quads<LANES, ROWS, LOADS>), blocks, LANES * ROWS, where, (int)p->size, quads,
                         (const float *)x, (float *)y);
    return true;
}

/* False where the pass is not of that form. */
static bool run_quads(const sg_cuda_sum_pass *p, const void *x, void *y, sg_cuda_where where)
{
    bool fits = p->form == SG_CUDA_SUM_COLUMNS && p->vector == 1 && p->chunks == 1 && !p->in_bf16 && !p->out_bf16 &&
                p->inner % 4 == 0 && p->inner >= LEAST_COLUMNS && p->inner <= INT32_MAX / 1024 && p->outer <= UINT16_MAX;
    return fits && (p->rows == 64   ? launch_quads<4, 64, 12>(p, x, y, where)
                    : p->rows == 32 ? launch_quads<8, 32, 4>(p, x, y, where)
                    : p->rows == 16 ? launch_quads<8, 16, 4>(p, x, y, where)
                    : p->rows == 8  ? launch_quads<8, 8, 4>(p, x, y, where)
                                    : false);
}

template <class I, class O, int V>
static void run_form(const sg_cuda_sum_pass *p, const void *in, void *out, sg_cuda_where where)
{
    const I *x = (const I *)in;
    O *y = (O *)out;
    int64_t rows = p->outer * p->chunks, pieces = p->inner / V, across = (pieces + p->lanes - 1) / p->lanes;
    if (p->form == SG_CUDA_SUM_THREAD)
        SG_CUDA_LAUNCH_EARLY((sum_thread<I, O, V>), sg_blocks(rows * pieces, SG_BLOCK), SG_BLOCK, where, *p, x, y);
    else if (p->form == SG_CUDA_SUM_ROW)
        SG_CUDA_LAUNCH_EARLY((sum_row<I, O, V>), sg_blocks(rows, SG_BLOCK / p->lanes), SG_BLOCK, where, *p, x, y);
    else
        SG_CUDA_LAUNCH_EARLY((sum_columns<I, O, V>), sg_blocks(rows * across, 1), p->lanes * p->rows, where, *p, x, y);
}

template <class I, class O>
static void run(const sg_cuda_sum_pass *p, const void *in, void *out, sg_cuda_where where)
{
    if (p->vector > 1)
        run_form<I, O, sg_wide<I>::VEC>(p, in, out, where);
    else
        run_form<I, O, 1>(p, in, out, where);
}

extern "C" void sg_cuda_sum(const sg_cuda_sum_pass *p, const void *in, void *out, sg_cuda_where where)
{
    if (run_quads(p, in, out, where))
        return;
    if (p->in_bf16 && p->out_bf16)
        run<sg_bf16, sg_bf16>(p, in, out, where);
    else if (p->in_bf16)
        run<sg_bf16, float>(p, in, out, where);
    else if (p->out_bf16)
        run<float, sg_bf16>(p, in, out, where);
    else
        run<float, float>(p, in, out, where);
}
