/* csr.cu - products with sparse rows. Every element of a result is summed in an order that depends on the line alone. */
#include "runtime/cuda/csr.cuh"
#include "runtime/cuda/row.cuh"
#include "runtime/cuda/rules.cuh"

/* Neighbouring columns of a lane. */
template <int V> struct __align__(4 * V) columns {
    float x[V];
};

/* Lines with one or two non-zeros: a thread takes V columns of one. */
template <int V>
__global__ void __launch_bounds__(SG_BLOCK)
    product_lines(sg_cuda_csr c, const float *value, const int32_t *pointers, const int32_t *index, const int32_t *order,
                  const float *dense, float *out, size_t stride)
{
    sg_csr_to_replica(stride, value, pointers, index, order, dense);
    out = sg_replica_of(out, stride);
    int64_t pieces = c.width / V;
    for (int64_t t = sg_first(); t < c.lines * pieces; t += sg_stride()) {
        int32_t begin, end;
        int64_t line, piece = sg_divide(t, pieces, &line);
        sg_csr_range(c, pointers, line, piece == 0, &begin, &end);
        columns<V> sum = {};
        for (int32_t j = begin; j < end; j++) {
            sg_csr_term x = sg_csr_at(c, value, index, order, j, piece == 0);
            if (x.row >= 0) {
                columns<V> d = *(const columns<V> *)(dense + x.row * c.width + piece * V);
#pragma unroll
                for (int i = 0; i < V; i++)
                    sum.x[i] += x.value * d.x[i];
            }
        }
        *(columns<V> *)(out + line * c.width + piece * V) = sum;
    }
}

/* Long lines: eight warps take every eighth non-zero, and their sums are added in the order of the warps. A block has 32 T groups of V
 * columns: many of them where there are blocks enough, so that a non-zero is found once for all. */
template <int V, int T>
__global__ void __launch_bounds__(SG_BLOCK)
    product_shared(sg_cuda_csr c, const float *value, const int32_t *pointers, const int32_t *index,
                   const int32_t *order, const float *dense, float *out, size_t stride)
{
    sg_csr_to_replica(stride, value, pointers, index, order, dense);
    out = sg_replica_of(out, stride);
    enum { AT_ONCE = T > 1 ? 2 : V > 1 ? 8 : 16 };
    __shared__ columns<V> room[SG_WARPS][SG_WARP * T];
    int lane = threadIdx.x % SG_WARP, warp = threadIdx.x / SG_WARP;
    int64_t pieces = c.width / V, across = (pieces + SG_WARP * T - 1) / (SG_WARP * T);
    for (int64_t t = blockIdx.x; t < c.lines * across; t += gridDim.x) {
        int32_t begin, end;
        int64_t line, first_piece = sg_divide(t, across, &line) * SG_WARP * T, piece = first_piece + lane;
        int groups = piece < pieces ? (int)((pieces - piece + SG_WARP - 1) / SG_WARP) : 0;
        bool raise = first_piece == 0; /* each non-zero is met by one lane of the first tile */
        sg_csr_range(c, pointers, line, piece == 0 && warp == 0, &begin, &end);
        columns<V> sum[T] = {};
        for (int32_t first = begin + warp; first < end; first += SG_WARPS * SG_WARP) {
            int32_t left = (end - first + SG_WARPS - 1) / SG_WARPS, j = first + SG_WARPS * lane;
            sg_csr_term own = {0, -1};
            if (lane < left)
                own = sg_csr_at(c, value, index, order, j, raise);
            sg_csr_add_terms<V, T, AT_ONCE>(sum, own, left < SG_WARP ? left : SG_WARP, dense + piece * V, c.width, groups);
        }
#pragma unroll
        for (int g = 0; g < T; g++)
            room[warp][g * SG_WARP + lane] = sum[g];
        __syncthreads();
        int mine = threadIdx.x;
        if (mine < SG_WARP * T && first_piece + mine < pieces) {
            columns<V> total = room[0][mine];
            for (int k = 1; k < SG_WARPS; k++)
#pragma unroll
                for (int i = 0; i < V; i++)
                    total.x[i] += room[k][mine].x[i];
            *(columns<V> *)(out + line * c.width + (first_piece + mine) * V) = total;
        }
        __syncthreads();
    }
}

/* Rows whose columns go by fours begin on 16 bytes. */
static int columns_of(const sg_cuda_csr *c, const float *dense, const float *out)
{
    return c->width % 4 == 0 && ((uintptr_t)dense | (uintptr_t)out) % 16 == 0 ? 4 : 1;
}

enum { MANY_REPLICAS = 4, GROUPS = 4 };

extern "C" void sg_cuda_csr_product(const sg_cuda_csr *c, const float *value, const int32_t *pointers,
                                    const int32_t *index, const int32_t *order, const float *dense, float *out,
                                    sg_cuda_where where)
{
    int v = c->shared ? columns_of(c, dense, out) : 1;
    bool many = v == 4 && where.replicas >= MANY_REPLICAS;
    int64_t tiles = c->lines * ((c->width / v + SG_WARP * (many ? GROUPS : 1) - 1) / (SG_WARP * (many ? GROUPS : 1)));
    if (c->shared && many)
        SG_CUDA_LAUNCH_EACH((product_shared<4, GROUPS>), sg_blocks(tiles, 1), SG_BLOCK, where, *c, value, pointers, index,
                            order, dense, out);
    else if (c->shared && v == 4)
        SG_CUDA_LAUNCH_EACH((product_shared<4, 1>), sg_blocks(tiles, 1), SG_BLOCK, where, *c, value, pointers, index, order,
                            dense, out);
    else if (c->shared)
        SG_CUDA_LAUNCH_EACH((product_shared<1, 1>), sg_blocks(tiles, 1), SG_BLOCK, where, *c, value, pointers, index, order,
                            dense, out);
    else if (columns_of(c, dense, out) == 4)
        SG_CUDA_LAUNCH_EACH(product_lines<4>, sg_blocks(c->lines * (c->width / 4), SG_BLOCK), SG_BLOCK, where, *c, value,
                            pointers, index, order, dense, out);
    else
        SG_CUDA_LAUNCH_EACH(product_lines<1>, sg_blocks(c->lines * c->width, SG_BLOCK), SG_BLOCK, where, *c, value, pointers,
                            index, order, dense, out);
}

/* Where the lines of a chunk begin and end. */
struct chunk_lines {
    int32_t begin[SG_CUDA_CSR_SQUARES_LINES], end[SG_CUDA_CSR_SQUARES_LINES];
    sg_csr_terms terms;
};

/* By the first warp. */
__device__ static inline void find_lines(const sg_cuda_csr &c, int64_t first, int64_t count, const int32_t *pointers,
                                         chunk_lines *s)
{
    int lane = threadIdx.x;
    int64_t line = first / c.width + lane;
    int32_t begin = 0, end = 0;
    if (line * c.width < first + count)
        sg_csr_range(c, pointers, line, true, &begin, &end);
    s->begin[lane] = begin;
    s->end[lane] = end;
    sg_csr_span span = sg_csr_join_lines(begin, end);
    if (lane == 0)
        s->terms.span = span;
}

__device__ static inline float4 quad_of(const float *x, bool aligned)
{
    return aligned ? *(const float4 *)x : float4{x[0], x[1], x[2], x[3]};
}

/* A block a chunk: its threads take neighbouring quads in turn. Lines without non-zeros would add zeros. */
__global__ void __launch_bounds__(SG_BLOCK, 4)
    squares(sg_cuda_csr c, int64_t chunk, bool aligned, const float *value, const int32_t *pointers, const int32_t *index,
            const int32_t *order, const float *dense, float *out, size_t stride)
{
    static_assert(SG_CUDA_CSR_SQUARES_LINES == SG_WARP, "a lane for each");
    sg_csr_to_replica(stride, value, pointers, index, order, dense);
    out = sg_replica_of(out, stride);
    __shared__ chunk_lines s;
    __shared__ float room[SG_WARPS];
    int64_t first = blockIdx.x * chunk, rest = c.lines * c.width - first, count = rest < chunk ? rest : chunk;
    if (threadIdx.x < SG_WARP)
        find_lines(c, first, count, pointers, &s);
    __syncthreads();
    bool kept = sg_csr_keep_terms(&s.terms, c, value, index, order, 1);
    __syncthreads();
    float sum[4] = {}, total[1] = {0};
    uint32_t width = (uint32_t)c.width, offset = (uint32_t)(first % c.width);
    for (uint32_t i = 4 * threadIdx.x; i < count; i += 4 * SG_BLOCK) {
        uint32_t line = (offset + i) / width, column = offset + i - line * width;
        if (s.begin[line] == s.end[line])
            continue;
        const float *at = dense + column;
        auto load = [&](int32_t row) { return quad_of(at + (int64_t)row * width, aligned); };
        float4 g;
        if (kept)
            g = sg_csr_quad<4>(s.begin[line] - s.terms.span.first, s.end[line] - s.terms.span.first, [&](int32_t j) { return s.terms.term[j]; }, load);
        else
            g = sg_csr_quad<1>(s.begin[line], s.end[line], [&](int32_t j) { return sg_csr_at(c, value, index, order, j, column == 0); }, load);
        sum[0] = __fadd_rn(sum[0], __fmul_rn(g.x, g.x));
        sum[1] = __fadd_rn(sum[1], __fmul_rn(g.y, g.y));
        sum[2] = __fadd_rn(sum[2], __fmul_rn(g.z, g.z));
        sum[3] = __fadd_rn(sum[3], __fmul_rn(g.w, g.w));
    }
    for (int k = 0; k < 4; k++)
        total[0] += sum[k];
    sg_team_sum(sg_team_of(SG_BLOCK), total, room);
    if (threadIdx.x == 0)
        out[blockIdx.x] = total[0];
}

extern "C" void sg_cuda_csr_squares(const sg_cuda_csr *c, int64_t chunk, const float *value, const int32_t *pointers,
                                    const int32_t *index, const int32_t *order, const float *dense, float *out,
                                    sg_cuda_where where)
{
    unsigned chunks = (unsigned)((c->lines * c->width + chunk - 1) / chunk);
    SG_CUDA_LAUNCH_EACH(squares, chunks, SG_BLOCK, where, *c, chunk, (uintptr_t)dense % 16 == 0, value, pointers, index,
                        order, dense, out);
}

/* A warp for each non-zero; the blocks of one y take every (blocks of y)th eight of a line. */
__global__ void sddmm(sg_cuda_csr c, const int32_t *pointers, const int32_t *index, const float *g, const float *w,
                      float *out)
{
    int lane = threadIdx.x % SG_WARP, warp = threadIdx.x / SG_WARP;
    for (int64_t line = blockIdx.x; line < c.lines; line += gridDim.x) {
        int32_t begin, end;
        sg_csr_range(c, pointers, line, threadIdx.x == 0 && blockIdx.y == 0, &begin, &end);
        for (int64_t j = begin + blockIdx.y * SG_WARPS + warp; j < end; j += (int64_t)gridDim.y * SG_WARPS) {
            int32_t row = index[j];
            bool fine = sg_csr_good(c, row, j, c.others, SG_CUDA_INDEX_RANGE, lane == 0);
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
