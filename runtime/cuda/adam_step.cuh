/* adam_step.cuh - what kernels of Adam steps share: an element's step, and the coefficients, which depend on the device's lr and t. */
#ifndef SG_CUDA_ADAM_STEP_CUH
#define SG_CUDA_ADAM_STEP_CUH

#include "runtime/cuda/adam_internal.h"
#include "runtime/cuda/device.cuh"
#include "runtime/cuda/replica.cuh"

struct adam_coefficients {
    float beta1, one_beta1, beta2, one_beta2, rate, scale, eps, decay, l2, factor;
    float least; /* times p: an a below it leaves p as it is whatever v is; 0: none does */
    bool usual;  /* eps and scale are within the limits of are_usual */
};

/* 1 - beta^t without cancellation at small t; beta = 0 gives exp(-inf) = 0, but at t = 0 the product has no value. The exponent is
 * in double, the rest of it after rounding added by the derivative: a block in double would take longer than its operands do. */
__device__ static inline float correction(float beta, double log_beta, float t)
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

/* The limits hold for steps with a smaller scale, which those after this one have. */
__device__ static inline void set_slow(const slow_coefficients &slow, adam_coefficients *c)
{
    c->rate = slow.rate;
    c->scale = slow.scale;
    bool usual = c->eps >= 0x1p-40f && c->eps <= 1 && c->scale >= 0;
    c->usual = usual && c->scale <= 0x1p9f;
    c->least = usual && c->decay == 0 ? c->eps * 0x1p-27f : 0;
}

/* All threads must call it. */
__device__ static inline adam_coefficients finish(const sg_cuda_adam &a, const slow_coefficients *shared)
{
    adam_coefficients c;
    c.beta1 = a.beta1;
    c.one_beta1 = a.one_beta1;
    c.beta2 = a.beta2;
    c.one_beta2 = a.one_beta2;
    c.eps = a.eps;
    c.decay = a.decoupled && a.decay != 0 ? (float)((double)*a.lr * a.decay) : 0;
    c.l2 = a.decoupled ? 0 : (float)a.decay;
    c.factor = a.factor ? *a.factor : 1;
    __syncthreads();
    set_slow(*shared, &c);
    return c;
}

/* ---- an element's step */

/* Roots and quotients by Newton steps from the device's approximations are those of IEEE 754 within the limits below. The compiler's
 * own test these limits for each, and branch: four elements would wait for one another. Zero divided by b keeps its sign. */
__device__ static inline float usual_root(float x)
{
#ifdef __CUDA_ARCH__
    float inverse;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(fmaxf(x, 0x1p-100f)));
    float root = __fmul_rn(x, inverse), rest = __fmaf_rn(-root, root, x);
    return __fmaf_rn(rest, __fmul_rn(0.5f, inverse), root);
#else
    return sqrtf(x);
#endif
}

__device__ static inline float usual_quotient(float a, float b)
{
#ifdef __CUDA_ARCH__
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
    inverse = __fmaf_rn(inverse, __fmaf_rn(-b, inverse, 1), inverse);
    float quotient = __fmul_rn(a, inverse);
    return __fmaf_rn(-inverse, __fmaf_rn(b, quotient, -a), quotient);
#else
    return a / b;
#endif
}

__device__ static inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* v is 0 or at least 2^-100, a the same with either sign; all v together are at most 2^20, and all a 2^60. Then the divisor is in
 * [2^-40, 2^20], given the limits of eps and scale. What is less than the least number wraps around if it is 0. */
template <int N> __device__ static inline bool are_usual(const adam_coefficients &c, const float *a, const float *v)
{
    const uint32_t least = 0x0d800000u; /* 2^-100 */
    float sum_a = 0, sum_v = 0;
    uint32_t low_a = UINT32_MAX, low_v = UINT32_MAX, signs = 0;
#pragma unroll
    for (int i = 0; i < N; i++) {
        sum_a += fabsf(a[i]);
        sum_v += v[i];
        low_a = min(low_a, bits_of(a[i]) + bits_of(a[i]) - 1);
        low_v = min(low_v, bits_of(v[i]) - 1);
        signs |= bits_of(v[i]);
    }
    return c.usual && sum_a <= 0x1p60f && sum_v <= 0x1p20f && (int32_t)signs >= 0 && low_a >= 2 * least - 1 && low_v >= least - 1;
}

/* Is the quotient of a by any divisor so small that p stays as it is? Rows that have had no gradient for long have an m of few bits. */
__device__ static inline bool leaves(const adam_coefficients &c, float p, float a, float v)
{
    float most = fabsf(p) * c.least;
    return fabsf(a) < most && most <= 0x1p100f && bits_of(v) < 0x7f800000u;
}

template <int N> __device__ static inline void step(const adam_coefficients &c, const float *g, float *p, float *m, float *v)
{
    float a[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        float all = c.factor * g[i];
        if (c.l2 != 0)
            all = fmaf(c.l2, p[i], all);
        m[i] = fmaf(c.beta1, m[i], c.one_beta1 * all);
        v[i] = fmaf(c.beta2, v[i], c.one_beta2 * (all * all));
        a[i] = c.rate * m[i];
    }
    if (are_usual<N>(c, a, v)) {
#pragma unroll
        for (int i = 0; i < N; i++)
            a[i] = usual_quotient(a[i], fmaf(c.scale, usual_root(v[i]), c.eps));
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            a[i] = leaves(c, p[i], a[i], v[i]) ? 0 : a[i] / fmaf(c.scale, sqrtf(v[i]), c.eps);
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        p[i] -= c.decay != 0 ? fmaf(c.decay, p[i], a[i]) : a[i];
}

__device__ static inline void step_4(const adam_coefficients &c, float4 g, float4 *p, float4 *m, float4 *v)
{
    step<4>(c, &g.x, &p->x, &m->x, &v->x);
}

__device__ static inline void to_replica(size_t stride, sg_cuda_adam *a, sg_cuda_adam_member *x)
{
    a->lr = sg_replica_of(a->lr, stride);
    a->t = sg_replica_of(a->t, stride);
    a->factor = sg_replica_of(a->factor, stride);
    x->p = sg_replica_of(x->p, stride);
    x->g = sg_replica_of(x->g, stride);
    x->m = sg_replica_of(x->m, stride);
    x->v = sg_replica_of(x->v, stride);
    x->p_out = sg_replica_of(x->p_out, stride);
    x->m_out = sg_replica_of(x->m_out, stride);
    x->v_out = sg_replica_of(x->v_out, stride);
}

static bool aligned(const void *pointer) { return (uintptr_t)pointer % sizeof(float4) == 0; }

static bool in_quads(const sg_cuda_adam_member *x)
{
    return aligned(x->p) && aligned(x->g) && aligned(x->m) && aligned(x->v) && aligned(x->p_out) && aligned(x->m_out) &&
           aligned(x->v_out);
}

#endif
