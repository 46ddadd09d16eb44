/* adam_step.cuh - what kernels of Adam steps share: an element's step, and the coefficients, which depend on the device's lr and t. */
#ifndef SG_CUDA_ADAM_STEP_CUH
#define SG_CUDA_ADAM_STEP_CUH

#include <cfloat>

#include "runtime/cuda/adam_internal.h"
#include "runtime/cuda/device.cuh"
#include "runtime/cuda/replica.cuh"

struct adam_coefficients {
    float beta1, one_beta1, beta2, one_beta2, rate, scale, eps, decay, l2, factor;
    float least; /* times p: an a below it leaves p as it is whatever v is, if eps is usual; 0: none does */
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
    c.least = c.decay == 0 ? c.eps * 0x1p-27f : 0;
    __syncthreads();
    c.rate = shared->rate;
    c.scale = shared->scale;
    return c;
}

/* ---- an element's step */

/* Where eps is usual, scale sqrt(v) + eps is from 2^-30 to 2^125, or infinite or not a number as v or scale are, and the device's
 * approximations of root and reciprocal, each an ulp or so off, need no test of their operands. A root that is taken as 0, as it is less
 * than 2^-63, is nothing beside eps if scale is 2^8 at most, which it is from the first step on for beta2 up to 1 - 2^-16. */
static bool is_usual(const sg_cuda_adam *a) { return a->eps >= 0x1p-30f && a->eps <= 0x1p60f; }

/* p less a divided by scale sqrt(v) + eps. */
template <bool USUAL> __device__ static inline float take(const adam_coefficients &c, float p, float a, float v)
{
    if (!USUAL)
        return p - a / fmaf(c.scale, sqrtf(v), c.eps);
    float root, inverse;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(v));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(fmaf(c.scale, root, c.eps)));
    return fmaf(-a, inverse, p);
}

/* Is the quotient of a by any divisor so small that p stays as it is? Rows that have had no gradient for long have an m of few bits. */
__device__ static inline bool leaves(const adam_coefficients &c, float p, float a, float v)
{
    float most = fabsf(p) * c.least;
    return fabsf(a) < most && most <= 0x1p100f && v >= 0 && v <= FLT_MAX;
}

template <bool USUAL>
__device__ static inline void step(const adam_coefficients &c, float g, float *p, float *m, float *v)
{
    float all = c.factor * g;
    if (c.l2 != 0)
        all = fmaf(c.l2, *p, all);
    *m = fmaf(c.beta1, *m, c.one_beta1 * all);
    *v = fmaf(c.beta2, *v, c.one_beta2 * (all * all));
    float kept = c.decay != 0 ? fmaf(-c.decay, *p, *p) : *p;
    *p = take<USUAL>(c, kept, c.rate * *m, *v);
}

template <bool USUAL>
__device__ static inline void step_4(const adam_coefficients &c, float4 g, float4 *p, float4 *m, float4 *v)
{
    step<USUAL>(c, g.x, &p->x, &m->x, &v->x);
    step<USUAL>(c, g.y, &p->y, &m->y, &v->y);
    step<USUAL>(c, g.z, &p->z, &m->z, &v->z);
    step<USUAL>(c, g.w, &p->w, &m->w, &v->w);
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
