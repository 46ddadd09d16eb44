/* random.cu - the state of random numbers: its step, and the addresses of draws (graph/random_internal.h). */
#include "runtime/cuda/device.cuh"
#include "runtime/cuda/index_internal.h"
#include "runtime/cuda/replica.cuh"

__global__ void rng_advance(const int32_t *rng, int32_t *out, size_t stride)
{
    sg_wait();
    rng = sg_replica_of(rng, stride);
    out = sg_replica_of(out, stride);
    uint64_t step = ((uint64_t)(uint32_t)rng[3] << 32 | (uint32_t)rng[2]) + 1;
    out[0] = rng[0];
    out[1] = rng[1];
    out[2] = (int32_t)(uint32_t)step;
    out[3] = (int32_t)(uint32_t)(step >> 32);
}

extern "C" void sg_cuda_rng_advance(const int32_t *rng, int32_t *out, sg_cuda_where where)
{
    SG_CUDA_LAUNCH_EARLY(rng_advance, 1, 1, where, rng, out);
}

/* As sg_mix64. */
__device__ static inline uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* As sg_draw_make. */
__global__ void draw_key(uint64_t stream, uint64_t repeat, const int32_t *rng, int32_t *out, size_t stride)
{
    sg_wait();
    rng = sg_replica_of(rng, stride);
    out = sg_replica_of(out, stride);
    uint64_t seed = (uint32_t)rng[0] | (uint64_t)(uint32_t)rng[1] << 32;
    uint64_t high = (uint32_t)rng[3] | (repeat >> 32) << 32;
    uint64_t key = mix(mix(mix(seed + 0x9e3779b97f4a7c15u) ^ stream) + high);
    out[0] = (int32_t)(uint32_t)key;
    out[1] = (int32_t)(uint32_t)(key >> 32);
    out[2] = rng[2];
    out[3] = (int32_t)(uint32_t)repeat;
}

extern "C" void sg_cuda_draw_key(uint64_t stream_of_draw, uint64_t repeat, const int32_t *rng, int32_t *out,
                                 sg_cuda_where where)
{
    SG_CUDA_LAUNCH_EARLY(draw_key, 1, 1, where, stream_of_draw, repeat, rng, out);
}
