/* adam.cu - Adam steps, each parameter in one pass:
 *
 *     m <- b1 m + (1 - b1) g          v <- b2 v + (1 - b2) g^2
 *     p <- p - (lr wd p + lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps))
 *
 * The coefficients depend on the device's lr and t: each block computes them while its operands are on their way. */
#include "runtime/cuda/adam_step.cuh"

enum { SPAN = 4 * SG_BLOCK }; /* elements of a block, four a thread */

template <bool USUAL>
__device__ static inline void step_quads(const sg_cuda_adam &a, const sg_cuda_adam_member &x, int64_t first)
{
    __shared__ slow_coefficients shared;
    float4 p, g, m, v;
    int64_t quads = x.count / 4, q = first / 4 + threadIdx.x;
    if (q < quads) {
        p = ((const float4 *)x.p)[q];
        g = ((const float4 *)x.g)[q];
        m = ((const float4 *)x.m)[q];
        v = ((const float4 *)x.v)[q];
    }
    begin(a, &shared);
    const adam_coefficients c = finish(a, &shared);
    if (q < quads) {
        step_4<USUAL>(c, g, &p, &m, &v);
        ((float4 *)x.p_out)[q] = p;
        ((float4 *)x.m_out)[q] = m;
        ((float4 *)x.v_out)[q] = v;
    }
    int64_t i = 4 * quads + threadIdx.x;
    if (i < x.count && i < first + SPAN) {
        float p1 = x.p[i], m1 = x.m[i], v1 = x.v[i];
        step<USUAL>(c, x.g[i], &p1, &m1, &v1);
        x.p_out[i] = p1;
        x.m_out[i] = m1;
        x.v_out[i] = v1;
    }
}

template <bool USUAL>
__device__ static inline void step_singles(const sg_cuda_adam &a, const sg_cuda_adam_member &x, int64_t first)
{
    __shared__ slow_coefficients shared;
    begin(a, &shared);
    const adam_coefficients c = finish(a, &shared);
    for (int64_t i = first + threadIdx.x; i < first + SPAN && i < x.count; i += SG_BLOCK) {
        float p = x.p[i], m = x.m[i], v = x.v[i];
        step<USUAL>(c, x.g[i], &p, &m, &v);
        x.p_out[i] = p;
        x.m_out[i] = m;
        x.v_out[i] = v;
    }
}

/* A block for every SPAN elements of a member; blocks of one member stand together. */
template <bool USUAL>
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
    sg_wait();
    int64_t first = (int64_t)(blockIdx.x - x.first_block) * SPAN;
    if (x.in_quads)
        step_quads<USUAL>(a, x, first);
    else
        step_singles<USUAL>(a, x, first);
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
    auto kernel = is_usual(a) ? adam<true> : adam<false>;
    SG_CUDA_LAUNCH_EARLY(kernel, blocks, SG_BLOCK, where, *a, *members);
}
