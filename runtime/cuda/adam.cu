/* adam.cu - the Adam step of one parameter in one pass:
 *
 *     m <- b1 m + (1 - b1) g          v <- b2 v + (1 - b2) g^2
 *     p <- p - (lr wd p + lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps))
 *
 * The coefficients depend on the device's lr and t: the first thread of each block computes them in double, rounded once. */
#include "runtime/cuda/adam_internal.h"
#include "runtime/cuda/device.cuh"

struct adam_coefficients {
    float beta1, one_beta1, beta2, one_beta2, rate, scale, eps, decay, l2;
};

/* 1 - beta^t without cancellation at small t; beta = 0 gives exp(-inf) = 0, but at t = 0 the product has no value. */
__device__ static inline double correction(double beta, double log_beta, double t)
{
    return beta == 0 ? 1 : -expm1(t * log_beta);
}

__device__ static adam_coefficients coefficients(const sg_cuda_adam &a, double lr, double t)
{
    adam_coefficients c;
    c.beta1 = (float)a.beta1;
    c.one_beta1 = (float)(1 - a.beta1);
    c.beta2 = (float)a.beta2;
    c.one_beta2 = (float)(1 - a.beta2);
    c.rate = (float)(lr / correction(a.beta1, a.log_beta1, t));
    c.scale = (float)(1 / sqrt(correction(a.beta2, a.log_beta2, t)));
    c.eps = (float)a.eps;
    c.decay = a.decoupled ? (float)(lr * a.decay) : 0;
    c.l2 = a.decoupled ? 0 : (float)a.decay;
    return c;
}

__device__ static inline void step(const adam_coefficients &c, float g, float *p, float *m, float *v)
{
    g += c.l2 * *p;
    *m = c.beta1 * *m + c.one_beta1 * g;
    *v = c.beta2 * *v + c.one_beta2 * (g * g);
    *p -= c.decay * *p + c.rate * *m / (c.scale * sqrtf(*v) + c.eps);
}

/* Four elements at a time where all addresses allow it (`quads` of them); the rest one by one. */
__global__ void adam(sg_cuda_adam a, int64_t quads, const float *p, const float *g, const float *m, const float *v,
                     const float *lr, const float *t, float *p_out, float *m_out, float *v_out)
{
    __shared__ adam_coefficients shared;
    if (threadIdx.x == 0)
        shared = coefficients(a, *lr, *t);
    __syncthreads();
    const adam_coefficients c = shared;
    for (int64_t i = sg_first(); i < quads; i += sg_stride()) {
        float4 p4 = ((const float4 *)p)[i], g4 = ((const float4 *)g)[i];
        float4 m4 = ((const float4 *)m)[i], v4 = ((const float4 *)v)[i];
        step(c, g4.x, &p4.x, &m4.x, &v4.x);
        step(c, g4.y, &p4.y, &m4.y, &v4.y);
        step(c, g4.z, &p4.z, &m4.z, &v4.z);
        step(c, g4.w, &p4.w, &m4.w, &v4.w);
        ((float4 *)p_out)[i] = p4;
        ((float4 *)m_out)[i] = m4;
        ((float4 *)v_out)[i] = v4;
    }
    for (int64_t i = 4 * quads + sg_first(); i < a.count; i += sg_stride()) {
        float p1 = p[i], m1 = m[i], v1 = v[i];
        step(c, g[i], &p1, &m1, &v1);
        p_out[i] = p1;
        m_out[i] = m1;
        v_out[i] = v1;
    }
}

static bool in_quads(const void *pointer) { return (uintptr_t)pointer % sizeof(float4) == 0; }

extern "C" void sg_cuda_adam_step(const sg_cuda_adam *a, const float *p, const float *g, const float *m, const float *v,
                                  const float *lr, const float *t, float *p_out, float *m_out, float *v_out,
                                  cudaStream_t stream)
{
    bool fits = in_quads(p) && in_quads(g) && in_quads(m) && in_quads(v) && in_quads(p_out) && in_quads(m_out) &&
                in_quads(v_out);
    int64_t quads = fits ? a->count / 4 : 0, work = fits ? quads + 4 : a->count;
    unsigned blocks = sg_blocks(work, SG_BLOCK), most = 2048; /* each block computes the coefficients */
    SG_CUDA_LAUNCH(adam, blocks < most ? blocks : most, SG_BLOCK, stream, *a, quads, p, g, m, v, lr, t, p_out, m_out,
                   v_out);
}
