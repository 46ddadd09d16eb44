/* attention_second.cu - the forward derivative of the reverse derivative of attention. */
#include "runtime/cuda/attention_launch.cuh"

template <class S, bool DROP>
static void statistics(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream)
{
    SG_LAUNCH_SHARED((attention_statistics<S, true, DROP>), sg_attention_blocks<S>(*a, (int)sg_padded_queries(*a)),
                     S::THREADS, (sg_statistics_memory<S, true>::BYTES), stream, *a, *x);
}

template <class S, bool DROP>
static void queries(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream)
{
    SG_LAUNCH_SHARED((attention_queries<S, true, DROP>), sg_attention_blocks<S>(*a, a->queries), S::THREADS,
                     (sg_query_memory<S, true>::BYTES), stream, *a, *x);
}

template <class S, bool DROP>
static void keys(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream)
{
    SG_LAUNCH_SHARED((attention_keys<S, true, DROP>), sg_attention_blocks<S>(*a, a->keys), S::THREADS,
                     (sg_key_memory<S, true>::BYTES), stream, *a, *x);
}

typedef sg_tiling<sg_bf16_bits, 64, 4, 1, 32, false, 3> statistics_narrow;
typedef sg_tiling<sg_bf16_bits, 64, 4, 1, 32, true, 2> queries_narrow;
typedef sg_tiling<sg_bf16_bits, 64, 4, 1, 32, false, 2> keys_narrow;
typedef sg_tiling<sg_bf16_bits, 128, 4, 1, 16, false> wide;

extern "C" void sg_cuda_attention_vjp_jvp(const sg_cuda_attention *a, const sg_cuda_attention_operands *x,
                                          cudaStream_t stream)
{
    const bool hopper = sg_cuda_attention_hopper(a);
    SG_ATTENTION_CHOOSE(a, statistics, statistics_narrow, wide, a, x, stream);
    if (x->dq && hopper)
        sg_cuda_attention_hopper_queries(a, x, true, stream);
    else if (x->dq)
        SG_ATTENTION_CHOOSE(a, queries, queries_narrow, wide, a, x, stream);
    if ((x->dk || x->dv) && hopper)
        sg_cuda_attention_hopper_keys(a, x, true, stream);
    else if (x->dk || x->dv)
        SG_ATTENTION_CHOOSE(a, keys, keys_narrow, wide, a, x, stream);
}
