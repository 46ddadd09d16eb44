/* device.cuh - what kernels share: launching, walking an index space, and reductions within warps and blocks.
 *
 * Every kernel walks its index space with a stride of the whole grid, so that a grid may be smaller than the work, and all
 * sizes are 64-bit. Nothing adds by atomics: orders are fixed, and results are the same from run to run. */
#ifndef SG_CUDA_DEVICE_CUH
#define SG_CUDA_DEVICE_CUH

#include <cuda_runtime.h>
#include <stdint.h>
#include <string.h>

#include "runtime/cuda/fault_internal.h"

#ifndef SG_CUDA_LAUNCH
#define SG_CUDA_LAUNCH(kernel, blocks, threads, stream, ...) kernel<<<blocks, threads, 0, stream>>>(__VA_ARGS__)
#endif

enum { SG_WARP = 32, SG_BLOCK = 256, SG_WARPS = SG_BLOCK / SG_WARP };

/* Blocks for `work` items, `each` of them a block. The work is not empty. */
static inline unsigned sg_blocks(int64_t work, int64_t each)
{
    int64_t blocks = (work + each - 1) / each, most = 1 << 16;
    return (unsigned)(blocks < most ? blocks : most);
}

__device__ static inline int64_t sg_first() { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ static inline int64_t sg_stride() { return (int64_t)gridDim.x * blockDim.x; }

/* n = *quotient d + the result; divisions of 32 bits are several times cheaper than those of 64. */
__device__ static inline int64_t sg_divide(int64_t n, int64_t d, int64_t *quotient)
{
    if (((n | d) >> 32) == 0) {
        uint32_t q = (uint32_t)n / (uint32_t)d;
        *quotient = q;
        return (uint32_t)n - q * (uint32_t)d;
    }
    *quotient = n / d;
    return n % d;
}

/* A bfloat16: the upper half of a float. Stored only: arithmetic is in float. */
struct sg_bf16 {
    uint16_t bits;
};

__device__ static inline float sg_float(float x) { return x; }
__device__ static inline float sg_float(sg_bf16 x)
{
    uint32_t bits = (uint32_t)x.bits << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rounded to the nearest, ties to even. */
__device__ static inline void sg_round(float x, float *out) { *out = x; }
__device__ static inline void sg_round(float x, sg_bf16 *out)
{
#ifdef __CUDA_ARCH__
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out->bits) : "f"(x));
#else
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    out->bits = (uint16_t)(x == x ? (bits + 0x7fffu + (bits >> 16 & 1)) >> 16 : 0x7fffu);
#endif
}

/* `value` of the lane whose number differs in the bits of `mask`; T is made of 32-bit words. */
template <class T> __device__ static inline T sg_shuffle_xor(T value, int mask)
{
    static_assert(sizeof(T) % sizeof(int) == 0, "whole words");
    int word[sizeof(T) / sizeof(int)];
    memcpy(word, &value, sizeof value);
    for (size_t i = 0; i < sizeof(T) / sizeof(int); i++)
        word[i] = __shfl_xor_sync(0xffffffffu, word[i], mask);
    memcpy(&value, word, sizeof value);
    return value;
}

/* R::join of all lanes' values, the same in every lane (but for the sign of a zero): join is symmetric. */
template <class R> __device__ static inline typename R::acc sg_warp_join(typename R::acc value)
{
    for (int mask = SG_WARP / 2; mask > 0; mask /= 2)
        value = R::join(value, sg_shuffle_xor(value, mask));
    return value;
}

/* The same for a block of whole warps. `room` is shared memory, free to be used again after the call. */
template <class R>
__device__ static inline typename R::acc sg_block_join(typename R::acc value, typename R::acc room[SG_WARPS])
{
    value = sg_warp_join<R>(value);
    int warps = blockDim.x / SG_WARP;
    if (warps == 1)
        return value;
    if (threadIdx.x % SG_WARP == 0)
        room[threadIdx.x / SG_WARP] = value;
    __syncthreads();
    value = room[0];
    for (int w = 1; w < warps; w++)
        value = R::join(value, room[w]);
    __syncthreads();
    return value;
}

#endif
