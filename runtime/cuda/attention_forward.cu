/* attention_forward.cu - attention, and its forward derivative. */
#include "runtime/cuda/attention_launch.cuh"

template <class S, bool DROP>
static void forward(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream)
{
    SG_LAUNCH_SHARED((attention_forward<S, DROP>), sg_attention_blocks<S>(*a, a->queries), S::THREADS,
                     sg_forward_memory<S>::BYTES, stream, *a, *x);
}

template <class S, bool DROP>
static void jvp(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream)
{
    SG_LAUNCH_SHARED((attention_jvp<S, DROP>), sg_attention_blocks<S>(*a, a->queries), S::THREADS,
                     sg_jvp_memory<S>::BYTES, stream, *a, *x);
}

typedef sg_tiling<sg_bf16_bits, 64, 4, 1, 64, true, 3> forward_narrow;
typedef sg_tiling<sg_bf16_bits, 128, 4, 1, 32, true> forward_wide;
typedef sg_tiling<sg_bf16_bits, 64, 4, 1, 64, true, 2> jvp_narrow;
typedef sg_tiling<sg_bf16_bits, 128, 4, 1, 32, false> jvp_wide;

extern "C" void sg_cuda_attention_forward(const sg_cuda_attention *a, const sg_cuda_attention_operands *x,
                                          cudaStream_t stream)
{
    SG_ATTENTION_CHOOSE(a, forward, forward_narrow, forward_wide, a, x, stream);
}

extern "C" void sg_cuda_attention_jvp(const sg_cuda_attention *a, const sg_cuda_attention_operands *x,
                                      cudaStream_t stream)
{
    SG_ATTENTION_CHOOSE(a, jvp, jvp_narrow, jvp_wide, a, x, stream);
}
