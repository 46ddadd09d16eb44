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

/* ---- with the gradient of a sparse layer: a thread for four columns of a row */

__device__ static inline void add_quad(float4 *sum, float value, float4 x)
{
    sum->x += value * x.x;
    sum->y += value * x.y;
    sum->z += value * x.z;
    sum->w += value * x.w;
}

/* Six blocks a processor: the rows of a layer of a thousand or two then run at once. */
__global__ void __launch_bounds__(SG_BLOCK, 6) adam_sparse_quads(sg_cuda_adam a, sg_cuda_adam_member x, sg_cuda_csr c, const float *value,
                                  const int32_t *pointers, const int32_t *index, const int32_t *order,
                                  const float *dense, size_t stride)
{
    to_replica(stride, &a, &x);
    sg_csr_to_replica(stride, value, pointers, index, order, dense);
    int64_t i = sg_first(), across = c.width / 4, line = 0, quad = 0;
    bool inside = i < x.count / 4;
    int32_t first = 0, end = 0;
    __shared__ slow_coefficients shared;
    float4 p, m, v, g = {0, 0, 0, 0};
    if (inside) {
        quad = sg_divide(i, across, &line);
        sg_csr_range(c, pointers, line, quad == 0, &first, &end);
        p = ((const float4 *)x.p)[i];
        m = ((const float4 *)x.m)[i];
        v = ((const float4 *)x.v)[i];
    }
    begin(a, &shared);
    for (int32_t j = first; j < end; j++) {
        sg_csr_term t = sg_csr_at(c, value, index, order, j, quad == 0);
        if (t.row >= 0)
            add_quad(&g, t.value, ((const float4 *)dense)[t.row * across + quad]);
    }
    const adam_coefficients k = finish(a, &shared);
    if (!inside)
        return;
    step_4(k, g, &p, &m, &v);
    ((float4 *)x.p_out)[i] = p;
    ((float4 *)x.m_out)[i] = m;
    ((float4 *)x.v_out)[i] = v;
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

extern "C" void sg_cuda_adam_sparse(const sg_cuda_adam *a, const sg_cuda_adam_member *member, const sg_cuda_csr *c,
                                    const float *value, const int32_t *pointers, const int32_t *index,
                                    const int32_t *order, const float *dense, sg_cuda_where where)
{
    sg_cuda_adam_member x = *member;
    x.g = dense; /* for the question of alignment */
    if (c->width % 4 == 0 && in_quads(&x) && x.count / 4 <= (int64_t)INT32_MAX * SG_BLOCK)
        SG_CUDA_LAUNCH_EACH(adam_sparse_quads, (unsigned)((x.count / 4 + SG_BLOCK - 1) / SG_BLOCK), SG_BLOCK, where, *a, x, *c,
                       value, pointers, index, order, dense);
    else
        SG_CUDA_LAUNCH_EACH(adam_sparse, sg_blocks(x.count, SG_BLOCK), SG_BLOCK, where, *a, x, *c, value, pointers, index,
                       order, dense);
}
