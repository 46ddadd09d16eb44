/* attention_reverse.cu - the reverse derivative of attention. */
#include "runtime/cuda/attention_launch.cuh"

#ifndef SG_TILE_STATISTICS
#define SG_TILE_STATISTICS 4, 1, 64, true
#define SG_TILE_QUERIES 4, 1, 64, true
#define SG_TILE_KEYS 4, 1, 64, true
#endif

template <class S, bool DROP>
static void statistics(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream)
{
    SG_LAUNCH_SHARED((attention_statistics<S, false, DROP>), sg_attention_blocks<S>(*a, (int)sg_padded_queries(*a)),
                     S::THREADS, (sg_statistics_memory<S, false>::BYTES), stream, *a, *x);
}

template <class S, bool DROP>
static void queries(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream)
{
    SG_LAUNCH_SHARED((attention_queries<S, false, DROP>), sg_attention_blocks<S>(*a, a->queries), S::THREADS,
                     (sg_query_memory<S, false>::BYTES), stream, *a, *x);
}

template <class S, bool DROP>
static void keys(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream)
{
    SG_LAUNCH_SHARED((attention_keys<S, false, DROP>), sg_attention_blocks<S>(*a, a->keys), S::THREADS,
                     (sg_key_memory<S, false>::BYTES), stream, *a, *x);
}

typedef sg_tiling<sg_bf16_bits, 64, SG_TILE_STATISTICS> statistics_narrow;
typedef sg_tiling<sg_bf16_bits, 64, SG_TILE_QUERIES> queries_narrow;
typedef sg_tiling<sg_bf16_bits, 64, SG_TILE_KEYS> keys_narrow;
typedef sg_tiling<sg_bf16_bits, 128, 4, 1, 32, false> wide;

extern "C" size_t sg_cuda_attention_rows_bytes(const sg_cuda_attention *a)
{
    return SG_ATTENTION_PLANES * sizeof(float) * (size_t)a->batch * (size_t)a->heads * (size_t)sg_padded_queries(*a);
}

/* A large bias can make logsumexp so large that its rounding is felt in the probabilities, and in f32 any rounding is: there, m
 * and the sum are found again. */
static void row_numbers(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream)
{
    if (!a->bf16 || x->bias || !x->o || !x->lse) {
        SG_ATTENTION_CHOOSE(a, statistics, statistics_narrow, wide, a, x, stream);
        return;
    }
    const int64_t rows = (int64_t)a->batch * a->heads * sg_padded_queries(*a);
    SG_LAUNCH_SHARED((attention_rows<sg_bf16_bits>), (unsigned)(rows / 32), 256, 0, stream, *a, *x);
}

extern "C" void sg_cuda_attention_vjp(const sg_cuda_attention *a, const sg_cuda_attention_operands *x,
                                      cudaStream_t stream)
{
    row_numbers(a, x, stream);
    if (x->dq)
        SG_ATTENTION_CHOOSE(a, queries, queries_narrow, wide, a, x, stream);
    if (x->dk || x->dv)
        SG_ATTENTION_CHOOSE(a, keys, keys_narrow, wide, a, x, stream);
}
