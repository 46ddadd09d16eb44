/* adam.cu - Adam steps, each parameter in one pass:
 *
 *     m <- b1 m + (1 - b1) g          v <- b2 v + (1 - b2) g^2
 *     p <- p - (lr wd p + lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps))
 *
 * The coefficients depend on the device's lr and t: each block computes them while its operands are on their way. */
#include "runtime/cuda/adam_internal.h"
#include "runtime/cuda/csr.cuh"

struct adam_coefficients {
    float beta1, one_beta1, beta2, one_beta2, rate, scale, eps, decay, l2;
};

/* 1 - beta^t without cancellation at small t; beta = 0 gives exp(-inf) = 0, but at t = 0 the product has no value. The exponent is
 * in double, the rest of it after rounding added by the derivative: a block in double would take longer than its operands do. */
__device__ static inline float correction(double beta, double log_beta, float t)
{
    double x = t * log_beta;
    float near = (float)x, power = expm1f(near);
    return beta == 0 ? 1 : -(power + (float)(x - near) * (1 + power));
}

/* The two slow ones, by threads of two warps: begun while operands are on their way, read by all at the end. */
struct slow_coefficients {
    float rate, scale;
};

__device__ static inline void begin(const sg_cuda_adam &a, slow_coefficients *shared)
{
    if (threadIdx.x == 0)
        shared->rate = *a.lr / correction(a.beta1, a.log_beta1, *a.t);
    if (threadIdx.x == SG_WARP)
        shared->scale = 1 / sqrtf(correction(a.beta2, a.log_beta2, *a.t));
}

/* All threads must call it. */
__device__ static inline adam_coefficients finish(const sg_cuda_adam &a, const slow_coefficients *shared)
{
    adam_coefficients c;
    c.beta1 = (float)a.beta1;
    c.one_beta1 = (float)(1 - a.beta1);
    c.beta2 = (float)a.beta2;
    c.one_beta2 = (float)(1 - a.beta2);
    c.eps = (float)a.eps;
    c.decay = a.decoupled ? (float)((double)*a.lr * a.decay) : 0;
    c.l2 = a.decoupled ? 0 : (float)a.decay;
    __syncthreads();
    c.rate = shared->rate;
    c.scale = shared->scale;
    return c;
}

__device__ static inline void step(const adam_coefficients &c, float g, float *p, float *m, float *v)
{
    g += c.l2 * *p;
    *m = c.beta1 * *m + c.one_beta1 * g;
    *v = c.beta2 * *v + c.one_beta2 * (g * g);
    *p -= c.decay * *p + c.rate * *m / (c.scale * sqrtf(*v) + c.eps);
}

__device__ static inline void step_4(const adam_coefficients &c, float4 g, float4 *p, float4 *m, float4 *v)
{
    step(c, g.x, &p->x, &m->x, &v->x);
    step(c, g.y, &p->y, &m->y, &v->y);
    step(c, g.z, &p->z, &m->z, &v->z);
    step(c, g.w, &p->w, &m->w, &v->w);
}

/* Iteration `turn` of `spread`, with this many lines a block. */
struct sg_cuda_adam_turn {
    int32_t spread, turn, lines;
};

enum { DEPTH = 2, SPAN = 4 * DEPTH * SG_BLOCK }; /* float4 of a thread; elements of a block */

__device__ static inline void step_quads(const sg_cuda_adam &a, const sg_cuda_adam_member &x, int64_t first)
{
    __shared__ slow_coefficients shared;
    float4 p[DEPTH], g[DEPTH], m[DEPTH], v[DEPTH];
    int64_t quads = x.count / 4;
#pragma unroll
    for (int k = 0; k < DEPTH; k++) {
        int64_t i = first / 4 + k * SG_BLOCK + threadIdx.x;
        if (i < quads) {
            p[k] = ((const float4 *)x.p)[i];
            g[k] = ((const float4 *)x.g)[i];
            m[k] = ((const float4 *)x.m)[i];
            v[k] = ((const float4 *)x.v)[i];
        }
    }
    begin(a, &shared);
    const adam_coefficients c = finish(a, &shared);
#pragma unroll
    for (int k = 0; k < DEPTH; k++) {
        int64_t i = first / 4 + k * SG_BLOCK + threadIdx.x;
        if (i < quads) {
            step_4(c, g[k], &p[k], &m[k], &v[k]);
            ((float4 *)x.p_out)[i] = p[k];
            ((float4 *)x.m_out)[i] = m[k];
            ((float4 *)x.v_out)[i] = v[k];
        }
    }
    int64_t i = 4 * quads + threadIdx.x;
    if (i < x.count && i < first + SPAN) {
        float p1 = x.p[i], m1 = x.m[i], v1 = x.v[i];
        step(c, x.g[i], &p1, &m1, &v1);
        x.p_out[i] = p1;
        x.m_out[i] = m1;
        x.v_out[i] = v1;
    }
}

__device__ static inline void step_singles(const sg_cuda_adam &a, const sg_cuda_adam_member &x, int64_t first)
{
    __shared__ slow_coefficients shared;
    begin(a, &shared);
    const adam_coefficients c = finish(a, &shared);
    for (int64_t i = first + threadIdx.x; i < first + SPAN && i < x.count; i += SG_BLOCK) {
        float p = x.p[i], m = x.m[i], v = x.v[i];
        step(c, x.g[i], &p, &m, &v);
        x.p_out[i] = p;
        x.m_out[i] = m;
        x.v_out[i] = v;
    }
}

__device__ static inline void to_replica(size_t stride, sg_cuda_adam *a, sg_cuda_adam_member *x)
{
    a->lr = sg_replica_of(a->lr, stride);
    a->t = sg_replica_of(a->t, stride);
    x->p = sg_replica_of(x->p, stride);
    x->g = sg_replica_of(x->g, stride);
    x->m = sg_replica_of(x->m, stride);
    x->v = sg_replica_of(x->v, stride);
    x->p_out = sg_replica_of(x->p_out, stride);
    x->m_out = sg_replica_of(x->m_out, stride);
    x->v_out = sg_replica_of(x->v_out, stride);
}

/* A block for every SPAN elements of a member; blocks of one member stand together. */
__global__ void adam(sg_cuda_adam a, const __grid_constant__ sg_cuda_adam_members members, size_t stride)
{
    int low = 0, high = members.count;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (members.at[middle].first_block <= blockIdx.x)
            low = middle;
        else
            high = middle;
    }
    sg_cuda_adam_member x = members.at[low];
    to_replica(stride, &a, &x);
    int64_t first = (int64_t)(blockIdx.x - x.first_block) * SPAN;
    if (x.in_quads)
        step_quads(a, x, first);
    else
        step_singles(a, x, first);
}

static bool aligned(const void *pointer) { return (uintptr_t)pointer % sizeof(float4) == 0; }

static bool in_quads(const sg_cuda_adam_member *x)
{
    return aligned(x->p) && aligned(x->g) && aligned(x->m) && aligned(x->v) && aligned(x->p_out) && aligned(x->m_out) &&
           aligned(x->v_out);
}

extern "C" void sg_cuda_adam_steps(const sg_cuda_adam *a, sg_cuda_adam_members *members, sg_cuda_where where)
{
    unsigned blocks = 0;
    for (int32_t i = 0; i < members->count; i++) {
        sg_cuda_adam_member *x = &members->at[i];
        x->first_block = blocks;
        x->in_quads = in_quads(x);
        blocks += (unsigned)((x->count + SPAN - 1) / SPAN);
    }
    SG_CUDA_LAUNCH_EACH(adam, blocks, SG_BLOCK, where, *a, *members);
}

/* ---- with the gradient of a sparse layer */

__device__ static inline void add_quad(float4 *sum, float value, float4 x)
{
    sum->x += value * x.x;
    sum->y += value * x.y;
    sum->z += value * x.z;
    sum->w += value * x.w;
}

/* Lines of a block, at most; non-zeros that it keeps in shared memory; quads of a thread at a time. */
enum { LINES = 16, TERMS = 256, QUADS = 2 };

/* Which lines a block works on: those with non-zeros, and of the others those whose turn it is. */
struct sparse_lines {
    int32_t line[LINES], begin[LINES], end[LINES]; /* end == begin: idle */
    int32_t count, first_term, end_term;           /* of all of them together */
    sg_csr_term term[TERMS];                       /* if they are no more than that */
    slow_coefficients slow[SG_CUDA_ADAM_SPREAD_MOST];
};

/* By the first warp. */
__device__ static inline void find_lines(const sg_cuda_csr &c, sg_cuda_adam_turn turn, const int32_t *pointers, sparse_lines *s)
{
    int lane = threadIdx.x;
    int64_t line = (int64_t)blockIdx.x * turn.lines + lane;
    int32_t begin = 0, end = 0;
    bool inside = lane < turn.lines && line < c.lines;
    if (inside)
        sg_csr_range(c, pointers, line, true, &begin, &end);
    bool mine = inside && (begin < end || line % turn.spread == turn.turn);
    unsigned all = __ballot_sync(0xffffffffu, mine);
    int32_t first = begin < end ? begin : INT32_MAX, last = end;
    for (int mask = SG_WARP / 2; mask > 0; mask /= 2) {
        first = min(first, __shfl_xor_sync(0xffffffffu, first, mask));
        last = max(last, __shfl_xor_sync(0xffffffffu, last, mask));
    }
    if (mine) {
        int at = __popc(all & ((1u << lane) - 1));
        s->line[at] = (int32_t)line;
        s->begin[at] = begin;
        s->end[at] = end;
    }
    if (lane == 0) {
        s->count = __popc(all);
        s->first_term = min(first, last); /* without any: 0 both */
        s->end_term = last;
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
    int64_t at;
    int32_t line, column;
    bool inside;
    float4 p, m, v, g;
};

__device__ static inline void load_quad(const sg_cuda_adam_member &x, const sparse_lines &s, int32_t across, int32_t item,
                                        sparse_quad *q)
{
    q->inside = item < s.count * across;
    if (!q->inside)
        return;
    q->line = item / across;
    q->column = item % across;
    q->at = (int64_t)s.line[q->line] * across + q->column;
    q->p = ((const float4 *)x.p)[q->at];
    q->m = ((const float4 *)x.m)[q->at];
    q->v = ((const float4 *)x.v)[q->at];
}

template <bool KEPT>
__device__ static inline void find_gradient(const sg_cuda_csr &c, const sparse_lines &s, int32_t across, const float *value,
                                            const int32_t *index, const int32_t *order, const float *dense, sparse_quad *q)
{
    q->g = {0, 0, 0, 0};
    if (!q->inside)
        return;
    for (int32_t j = s.begin[q->line]; j < s.end[q->line]; j++) {
        sg_csr_term t = KEPT ? s.term[j - s.first_term] : sg_csr_at(c, value, index, order, j, q->column == 0);
        if (t.row >= 0)
            add_quad(&q->g, t.value, ((const float4 *)dense)[(int64_t)t.row * across + q->column]);
    }
}

__device__ static inline void finish_quad(adam_coefficients k, const sg_cuda_adam_member &x, const sparse_lines &s,
                                          sg_cuda_adam_turn turn, sparse_quad *q)
{
    if (!q->inside)
        return;
    bool idle = s.begin[q->line] == s.end[q->line];
    for (int32_t i = idle ? 0 : turn.turn; i < (idle ? turn.spread : turn.turn + 1); i++) {
        k.rate = s.slow[i].rate;
        k.scale = s.slow[i].scale;
        step_4(k, q->g, &q->p, &q->m, &q->v);
    }
    ((float4 *)x.p_out)[q->at] = q->p;
    ((float4 *)x.m_out)[q->at] = q->m;
    ((float4 *)x.v_out)[q->at] = q->v;
}

template <bool KEPT>
__device__ static inline void step_lines(const adam_coefficients &k, const sg_cuda_adam_member &x, const sg_cuda_csr &c,
                                         const sparse_lines &s, sg_cuda_adam_turn turn, const float *value,
                                         const int32_t *index, const int32_t *order, const float *dense)
{
    int32_t across = (int32_t)(c.width / 4);
    for (int32_t item = threadIdx.x; item < s.count * across; item += QUADS * SG_BLOCK) {
        sparse_quad q[QUADS];
#pragma unroll
        for (int i = 0; i < QUADS; i++)
            load_quad(x, s, across, item + i * SG_BLOCK, &q[i]);
#pragma unroll
        for (int i = 0; i < QUADS; i++)
            find_gradient<KEPT>(c, s, across, value, index, order, dense, &q[i]);
#pragma unroll
        for (int i = 0; i < QUADS; i++)
            finish_quad(k, x, s, turn, &q[i]);
    }
}

/* What a block needs to know is found by some threads for all, so that most of its time the loads of the layer are on their way. */
__global__ void __launch_bounds__(SG_BLOCK, 4)
    adam_sparse_quads(sg_cuda_adam a, sg_cuda_adam_member x, sg_cuda_csr c, sg_cuda_adam_turn turn, const float *value,
                      const int32_t *pointers, const int32_t *index, const int32_t *order, const float *dense, size_t stride)
{
    to_replica(stride, &a, &x);
    sg_csr_to_replica(stride, value, pointers, index, order, dense);
    __shared__ sparse_lines s;
    if (threadIdx.x < SG_WARP)
        find_lines(c, turn, pointers, &s);
    else
        find_coefficients(a, turn, &s);
    __syncthreads();
    bool kept = s.end_term - s.first_term <= TERMS;
    int32_t j = s.first_term + (int32_t)threadIdx.x;
    if (kept && j < s.end_term)
        s.term[threadIdx.x] = sg_csr_at(c, value, index, order, j, true);
    adam_coefficients k = finish(a, s.slow);
    if (kept)
        step_lines<true>(k, x, c, s, turn, value, index, order, dense);
    else
        step_lines<false>(k, x, c, s, turn, value, index, order, dense);
}

__global__ void adam_sparse(sg_cuda_adam a, sg_cuda_adam_member x, sg_cuda_csr c, const float *value,
                            const int32_t *pointers, const int32_t *index, const int32_t *order, const float *dense, size_t stride)
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
        step(k, g, &p, &m, &v);
        x.p_out[i] = p;
        x.m_out[i] = m;
        x.v_out[i] = v;
    }
}

/* One replica's layer is in the second-level cache, and the several steps of an idle line would only make the kernel longer. Many
 * replicas are bound by memory. */
enum { FEW_LINES = 4, MANY_REPLICAS = 4 };

static sg_cuda_adam_turn turn_of(const sg_cuda_adam_member *x, int32_t spread, int32_t turn, unsigned replicas)
{
    bool in_place = x->p == x->p_out && x->m == x->m_out && x->v == x->v_out; /* what is not touched is there already */
    if (replicas < MANY_REPLICAS)
        return {1, 0, FEW_LINES};
    if (!in_place)
        return {1, 0, LINES};
    return {spread, turn, LINES};
}

extern "C" void sg_cuda_adam_sparse(const sg_cuda_adam *a, const sg_cuda_adam_member *member, const sg_cuda_csr *c,
                                    int32_t spread, int32_t turn, const float *value, const int32_t *pointers,
                                    const int32_t *index, const int32_t *order, const float *dense, sg_cuda_where where)
{
    sg_cuda_adam_member x = *member;
    x.g = dense; /* for the question of alignment */
    sg_cuda_adam_turn t = turn_of(&x, spread, turn, where.replicas);
    if (c->width % 4 == 0 && in_quads(&x) && c->lines <= INT32_MAX && c->width <= INT32_MAX / LINES)
        SG_CUDA_LAUNCH_EACH(adam_sparse_quads, (unsigned)((c->lines + t.lines - 1) / t.lines), SG_BLOCK, where, *a, x, *c,
                            t, value, pointers, index, order, dense);
    else
        SG_CUDA_LAUNCH_EACH(adam_sparse, sg_blocks(x.count, SG_BLOCK), SG_BLOCK, where, *a, x, *c, value, pointers, index,
                            order, dense);
}
