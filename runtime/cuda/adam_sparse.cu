/* adam_sparse.cu - the step of a layer whose gradient is a product with sparse rows, made in registers line by line. */
#include "runtime/cuda/adam_step.cuh"
#include "runtime/cuda/csr.cuh"

/* Iteration `turn` of `spread`, with this many lines a block; 2^32 / quads of a line, rounded up, for division by them. */
struct sg_cuda_adam_turn {
    int32_t spread, turn, lines;
    uint32_t inverse;
};

/* Lines of a block, at most; blocks on a processor. */
enum { LINES = 20, PLACES = 4 };

/* A line that a block works on: its first quad, and its terms, none if it is idle. */
struct alignas(16) sparse_line {
    uint32_t quad;
    int32_t begin, end;
};

/* Those with non-zeros, and of the others those whose turn it is. Terms count from the first that is kept. */
struct sparse_lines {
    sparse_line line[LINES];
    int32_t count;
    sg_csr_terms terms;
    slow_coefficients slow[SG_CUDA_ADAM_SPREAD_MOST];
};

/* By the first warp. */
__device__ static inline void find_lines(const sg_cuda_csr &c, sg_cuda_adam_turn turn, const int32_t *pointers,
                                         sparse_lines *s)
{
    int lane = threadIdx.x;
    int64_t line = (int64_t)blockIdx.x * turn.lines + lane;
    int32_t begin = 0, end = 0;
    bool inside = lane < turn.lines && line < c.lines;
    if (inside)
        sg_csr_range(c, pointers, line, true, &begin, &end);
    bool mine = inside && (begin < end || (uint32_t)line % (uint32_t)turn.spread == (uint32_t)turn.turn);
    unsigned all = __ballot_sync(0xffffffffu, mine);
    sg_csr_span span = sg_csr_join_lines(begin, end);
    int32_t first = sg_csr_fit(span) ? span.first : 0;
    if (mine)
        s->line[__popc(all & ((1u << lane) - 1))] = {(uint32_t)line * (uint32_t)(c.width / 4), begin - first,
                                                     end - first};
    if (lane == 0) {
        s->count = __popc(all);
        s->terms.span = span;
    }
}

/* The slow coefficients of iteration k of the loop, by threads of other warps: this is iteration `turn`. */
__device__ static inline void find_coefficients(const sg_cuda_adam &a, sg_cuda_adam_turn turn, sparse_lines *s)
{
    enum { RATES = SG_WARP, SCALES = RATES + SG_CUDA_ADAM_SPREAD_MOST };
    static_assert(SCALES + SG_CUDA_ADAM_SPREAD_MOST <= SG_BLOCK, "a thread for each");
    int k = threadIdx.x - RATES;
    if (k >= 0 && k < turn.spread)
        s->slow[k].rate = *a.lr / correction(a.beta1, a.log_beta1, *a.t + (k - turn.turn));
    k = threadIdx.x - SCALES;
    if (k >= 0 && k < turn.spread)
        s->slow[k].scale = 1 / sqrtf(correction(a.beta2, a.log_beta2, *a.t + (k - turn.turn)));
}

/* A quad of a line, with all the steps that it takes now. */
struct sparse_quad {
    uint32_t at;
    float4 p, m, v, g;
};

/* What a block's loop reads and writes, in quads. */
struct sparse_layer {
    float4 *p, *m, *v;
    const float4 *dense;
};

template <bool STREAMED> __device__ static inline float4 load(const float4 *from, uint32_t quad)
{
    return STREAMED ? __ldcs(from + quad) : from[quad];
}

template <bool STREAMED> __device__ static inline void store(float4 *to, uint32_t quad, float4 x)
{
    if (STREAMED)
        __stcs(to + quad, x);
    else
        to[quad] = x;
}

template <bool STREAMED> __device__ static inline void load_quad(const sparse_layer &x, uint32_t at, sparse_quad *q)
{
    q->at = at;
    q->p = load<STREAMED>(x.p, at);
    q->m = load<STREAMED>(x.m, at);
    q->v = load<STREAMED>(x.v, at);
}

/* Rows are a whole number of quads, `across`; kept terms have them multiplied by it. */
template <bool KEPT>
__device__ static inline float4 gradient_of(const sg_cuda_csr &c, const sg_csr_terms &terms, sparse_line line,
                                            uint32_t across, uint32_t column, const float *value, const int32_t *index,
                                            const int32_t *order, const float4 *dense)
{
    if (KEPT)
        return sg_csr_quad<2>(
            line.begin, line.end, [&](int32_t j) { return terms.term[j]; },
            [&](int32_t row) { return dense[(uint32_t)row + column]; });
    return sg_csr_quad<1>(
        line.begin, line.end, [&](int32_t j) { return sg_csr_at(c, value, index, order, j, column == 0); },
        [&](int32_t row) { return dense[(uint32_t)row * across + column]; });
}

/* The steps of an idle quad that leave p as it is: gradients are zero, and no rate is greater than the first. */
__device__ static inline bool rest_quad(const adam_coefficients &k, const slow_coefficients &first,
                                        sg_cuda_adam_turn turn, sparse_quad *q)
{
    float *p = &q->p.x, *m = &q->m.x, *v = &q->v.x, zero = k.factor * 0.0f;
    bool all = k.l2 == 0 && k.beta1 <= 1 && k.beta2 <= 1 && zero == 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        all &= leaves(k, p[i], first.rate * m[i], v[i]);
    if (!all)
        return false;
    for (int32_t t = 0; t < turn.spread; t++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            m[i] = fmaf(k.beta1, m[i], 0.0f);
            v[i] = k.beta2 * v[i];
        }
    return true;
}

template <bool STREAMED>
__device__ static inline void finish_quad(adam_coefficients k, const sparse_layer &x, const slow_coefficients *slow,
                                          bool idle, sg_cuda_adam_turn turn, sparse_quad *q)
{
    bool rested = idle && turn.spread > 1 && rest_quad(k, slow[0], turn, q);
    int32_t i = rested ? turn.spread : idle ? 0 : turn.turn, end = idle ? turn.spread : turn.turn + 1;
#pragma unroll 1
    for (; i < end; i++) {
        k.rate = slow[i].rate;
        k.scale = slow[i].scale;
        step_4<true>(k, q->g, &q->p, &q->m, &q->v);
    }
    store<STREAMED>(x.p, q->at, q->p);
    store<STREAMED>(x.m, q->at, q->m);
    store<STREAMED>(x.v, q->at, q->v);
}

template <bool KEPT, bool STREAMED>
__device__ static inline void step_lines(const adam_coefficients &k, const sparse_layer &x, const sg_cuda_csr &c,
                                         const sparse_lines &s, sg_cuda_adam_turn turn, const float *value,
                                         const int32_t *index, const int32_t *order)
{
    uint32_t across = (uint32_t)c.width / 4, items = (uint32_t)s.count * across;
#pragma unroll 1
    for (uint32_t item = threadIdx.x; item < items; item += SG_BLOCK) {
        uint32_t which = __umulhi(item, turn.inverse), column = item - which * across;
        sparse_line line = s.line[which];
        sparse_quad q;
        load_quad<STREAMED>(x, line.quad + column, &q);
        q.g = gradient_of<KEPT>(c, s.terms, line, across, column, value, index, order, x.dense);
        finish_quad<STREAMED>(k, x, s.slow, line.begin == line.end, turn, &q);
    }
}

/* What a block needs to know is found by some threads for all, so that most of its time the loads of the layer are on their way. If they
 * are STREAMED, they do not drive from the caches what other kernels read again. */
template <bool STREAMED>
__global__ void __launch_bounds__(SG_BLOCK, PLACES)
    adam_sparse_quads(sg_cuda_adam a, sg_cuda_adam_member x, sg_cuda_csr c, sg_cuda_adam_turn turn, const float *value,
                      const int32_t *pointers, const int32_t *index, const int32_t *order, const float *dense,
                      size_t stride)
{
    size_t offset = sg_replica_offset(stride);
    sparse_layer layer = {(float4 *)((char *)x.p_out + offset), (float4 *)((char *)x.m_out + offset),
                          (float4 *)((char *)x.v_out + offset), (const float4 *)((const char *)dense + offset)};
    to_replica(stride, &a, &x);
    sg_csr_to_replica(stride, value, pointers, index, order, dense);
    __shared__ sparse_lines s;
    if (threadIdx.x < SG_WARP)
        find_lines(c, turn, pointers, &s);
    else
        find_coefficients(a, turn, &s);
    __syncthreads();
    bool kept = sg_csr_keep_terms(&s.terms, c, value, index, order, (int32_t)(c.width / 4));
    adam_coefficients k = finish(a, s.slow);
    if (kept)
        step_lines<true, STREAMED>(k, layer, c, s, turn, value, index, order);
    else
        step_lines<false, STREAMED>(k, layer, c, s, turn, value, index, order);
}

/* Any other. */
template <bool USUAL>
__global__ void adam_sparse(sg_cuda_adam a, sg_cuda_adam_member x, sg_cuda_csr c, const float *value,
                            const int32_t *pointers, const int32_t *index, const int32_t *order, const float *dense,
                            size_t stride)
{
    to_replica(stride, &a, &x);
    sg_csr_to_replica(stride, value, pointers, index, order, dense);
    __shared__ slow_coefficients shared;
    begin(a, &shared);
    const adam_coefficients k = finish(a, &shared);
    for (int64_t i = sg_first(); i < x.count; i += sg_stride()) {
        int32_t first, end;
        int64_t line, column = sg_divide(i, c.width, &line);
        float g = 0, p = x.p[i], m = x.m[i], v = x.v[i];
        sg_csr_range(c, pointers, line, column == 0, &first, &end);
        for (int32_t j = first; j < end; j++) {
            sg_csr_term t = sg_csr_at(c, value, index, order, j, column == 0);
            if (t.row >= 0)
                g += t.value * dense[t.row * c.width + column];
        }
        step<USUAL>(k, g, &p, &m, &v);
        x.p_out[i] = p;
        x.m_out[i] = m;
        x.v_out[i] = v;
    }
}

/* One replica's layer is in the second-level cache, and the several steps of an idle line would only make the kernel longer. Many
 * replicas are bound by memory. */
enum { FEW_LINES = 4, MANY_REPLICAS = 4 };

/* Lines of a block such that the blocks of all replicas come in as few waves as may be, the last of them full: a few blocks after it
 * would take as long as all of a wave. */
static int32_t lines_of(const sg_cuda_csr *c, unsigned replicas)
{
    int device, processors = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess || processors < 1)
        return LINES;
    int64_t wave = (int64_t)processors * PLACES, waves = (c->lines * replicas + wave * LINES - 1) / (wave * LINES);
    for (;; waves++) {
        int64_t blocks = wave * waves / replicas, lines = blocks ? (c->lines + blocks - 1) / blocks : LINES + 1;
        if (lines <= LINES)
            return (int32_t)lines;
    }
}

static sg_cuda_adam_turn turn_of(const sg_cuda_csr *c, int32_t spread, int32_t turn, unsigned replicas)
{
    uint32_t inverse = (uint32_t)((1ull << 32) / (uint64_t)(c->width / 4) + 1);
    if (replicas < MANY_REPLICAS)
        return {1, 0, FEW_LINES, inverse};
    return {spread, turn, lines_of(c, replicas), inverse};
}

/* May places of quads have 32 bits, and the few quads of a block be divided by a multiplication? The error of the inverse is below
 * `across` / 2^32, so quads across <= 2^32 will do. */
static bool is_small(const sg_cuda_csr *c)
{
    return c->width / 4 > 1 && c->width / 4 < 1 << 13 && c->lines <= INT32_MAX &&
           c->lines * (c->width / 4) <= UINT32_MAX && c->others * (c->width / 4) <= INT32_MAX;
}

extern "C" void sg_cuda_adam_sparse(const sg_cuda_adam *a, const sg_cuda_adam_member *member, const sg_cuda_csr *c,
                                    int32_t spread, int32_t turn, const float *value, const int32_t *pointers,
                                    const int32_t *index, const int32_t *order, const float *dense, sg_cuda_where where)
{
    sg_cuda_adam_member x = *member;
    x.g = dense;                                                        /* for the question of alignment */
    bool in_place = x.p == x.p_out && x.m == x.m_out && x.v == x.v_out; /* what is not touched is there already */
    if (c->width % 4 == 0 && in_place && in_quads(&x) && is_small(c) && is_usual(a)) {
        sg_cuda_adam_turn t = turn_of(c, spread, turn, where.replicas);
        auto kernel = where.replicas < MANY_REPLICAS ? adam_sparse_quads<false> : adam_sparse_quads<true>;
        SG_CUDA_LAUNCH_EACH(kernel, (unsigned)((c->lines + t.lines - 1) / t.lines), SG_BLOCK, where, *a, x, *c, t,
                            value, pointers, index, order, dense);
    } else {
        auto kernel = is_usual(a) ? adam_sparse<true> : adam_sparse<false>;
        SG_CUDA_LAUNCH_EACH(kernel, sg_blocks(x.count, SG_BLOCK), SG_BLOCK, where, *a, x, *c, value, pointers, index,
                            order, dense);
    }
}
