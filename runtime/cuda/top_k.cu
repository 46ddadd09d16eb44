/* top_k.cu - places of the k largest elements of each row: a block finds the best that ranks behind the one before, k times. */
#include "runtime/cuda/rules.cuh"
#include "runtime/cuda/top_k_internal.h"

__global__ void top_k(int64_t rows, int64_t size, int64_t inner, int64_t k, const float *x, int32_t *out)
{
    __shared__ placed room[SG_WARPS];
    for (int64_t t = blockIdx.x; t < rows; t += gridDim.x) {
        int64_t o, column = sg_divide(t, inner, &o);
        const float *row = x + o * size * inner + column;
        placed last = argmax_rule::none();
        for (int64_t n = 0; n < k; n++) {
            placed best = argmax_rule::none();
            for (int64_t i = threadIdx.x; i < size; i += blockDim.x) {
                placed next = argmax_rule::of(row[i * inner], i);
                if (n == 0 || goes_before(last, next))
                    best = argmax_rule::join(best, next);
            }
            last = sg_block_join<argmax_rule>(best, room);
            if (threadIdx.x == 0)
                out[(o * k + n) * inner + column] = last.at;
        }
    }
}

extern "C" void sg_cuda_top_k(int64_t outer, int64_t size, int64_t inner, int64_t k, const float *x, int32_t *out,
                              cudaStream_t stream)
{
    int64_t rows = outer * inner;
    SG_CUDA_LAUNCH(top_k, sg_blocks(rows, 1), size <= 512 ? SG_WARP : SG_BLOCK, stream, rows, size, inner, k, x, out);
}
