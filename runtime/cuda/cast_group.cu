/* cast_group.cu - several tensors of f32 rounded to bf16 in one launch, blocks numbered through all of them. */
#include "runtime/cuda/cast_group_internal.h"
#include "runtime/cuda/device.cuh"
#include "runtime/cuda/replica.cuh"

enum { PACK = 8, PACKS = 4, SPAN = PACK * PACKS * SG_BLOCK }; /* elements of a store, stores of a thread, elements of a block */

struct pack {
    sg_bf16 at[PACK];
};

/* All loads are on their way before the first store. */
__device__ static void cast_packs(const float *in, sg_bf16 *out, int64_t count)
{
    float4 word[PACKS][2];
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        int64_t i = (int64_t)(k * SG_BLOCK + threadIdx.x) * PACK;
        for (int half = 0; half < 2 && i + PACK <= count; half++)
            word[k][half] = ((const float4 *)(in + i))[half];
    }
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        int64_t i = (int64_t)(k * SG_BLOCK + threadIdx.x) * PACK;
        union {
            pack rounded;
            uint4 bits;
        } x;
        for (int e = 0; e < PACK; e++)
            sg_round(((const float *)word[k])[e], &x.rounded.at[e]);
        if (i + PACK <= count)
            *(uint4 *)(out + i) = x.bits;
        else
            for (; i < count; i++)
                sg_round(in[i], &out[i]);
    }
}

__global__ void cast_tensors(const __grid_constant__ sg_cuda_casts all, size_t stride)
{
    int32_t low = 0, high = all.count; /* at[low] begins here or before, at[high] behind */
    while (high - low > 1) {
        int32_t middle = (low + high) / 2;
        *(all.at[middle].first_block <= blockIdx.x ? &low : &high) = middle;
    }
    const sg_cuda_cast &x = all.at[low];
    int64_t first = (int64_t)(blockIdx.x - x.first_block) * SPAN, left = x.count - first;
    int64_t count = left < SPAN ? left : SPAN;
    const float *in = sg_replica_of(x.in, stride) + first;
    sg_bf16 *out = sg_replica_of((sg_bf16 *)x.out, stride) + first;
    if (x.in_packs)
        return cast_packs(in, out, count);
    for (int64_t i = threadIdx.x; i < count; i += SG_BLOCK)
        sg_round(in[i], &out[i]);
}

extern "C" void sg_cuda_cast_tensors(sg_cuda_casts *all, sg_cuda_where where)
{
    unsigned blocks = 0;
    for (int32_t i = 0; i < all->count; i++) {
        sg_cuda_cast *x = &all->at[i];
        x->first_block = blocks;
        x->in_packs = ((uintptr_t)x->in | (uintptr_t)x->out) % sizeof(uint4) == 0;
        blocks += (unsigned)((x->count + SPAN - 1) / SPAN);
    }
    SG_CUDA_LAUNCH_EACH(cast_tensors, blocks, SG_BLOCK, where, *all);
}
