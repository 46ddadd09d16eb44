// product.cuh - c = op(a) op(b) in float32, compiled with NVRTC together with the steps that follow it (chain_source.c).
// product.c states the constants before this text: the sizes M, N, K of one matrix; TA, TB, whether a is stored [K, M] and b
// [N, K]; VA, VB, the floats of one copy (4 where rows start on 16 bytes, else 1); A_AT and B_AT, where a matrix of the batch
// starts; the tile; and PRODUCT_TERMS, the text that adds up terms: product_fma.cuh, product_mma.cuh or product_wgmma.cuh.
//
// A cluster of SPLIT blocks computes a tile of BM x BN elements, each block a range of CHUNK of the sum. In a block, KG groups of
// warps share each stage of BK terms. Partial sums meet in shared memory, those of other blocks in the memory of the block that
// finishes the element, always added in the same order. So a product of few elements keeps all processors busy without partial
// sums in global memory and without a second launch.

constexpr int THREADS = 32 * WX * WY * KG, TILE = BM * BN, SHARE = (TILE + SPLIT - 1) / SPLIT;
constexpr index NOWHERE = ~(index)0;

extern __shared__ __align__(16) float product_memory[]; // stages, then partial sums of groups; from WORK on [SPLIT][SHARE]

__device__ __forceinline__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ __forceinline__ int product_rank() { return blockIdx.z % SPLIT; }
__device__ __forceinline__ int product_batch() { return blockIdx.z / SPLIT % BATCH; }
__device__ __forceinline__ int product_replica() { return blockIdx.z / SPLIT / BATCH; }

#include PRODUCT_TERMS

constexpr int WORK = STAGES * STAGE > KG * BM * PITCH_C ? STAGES * STAGE : KG * BM * PITCH_C;

__device__ __forceinline__ float sum_of_groups(int e)
{
    int at = e / BN * PITCH_C + e % BN;
    float v = product_memory[at];
#pragma unroll
    for (int g = 1; g < KG; g++)
        v += product_memory[g * BM * PITCH_C + at];
    return v;
}

#if __CUDA_ARCH__ >= 900
// Each element of the tile to the block that finishes it. All blocks must run before their memory is written, and all have
// written before it is read.
__device__ __forceinline__ void exchange()
{
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    for (int e = threadIdx.x; e < TILE; e += THREADS) {
        unsigned there, here = shared_address(product_memory + WORK + product_rank() * SHARE + e % SHARE);
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(e / SHARE));
        asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(sum_of_groups(e)) : "memory");
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
#endif

__device__ __forceinline__ void product_compute(const float *a, const float *b)
{
    int first = product_rank() * CHUNK, end = min(K, first + CHUNK);
#if __CUDA_ARCH__ >= 900
    if constexpr (SPLIT > 1)
        asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
    product_sums(a + A_AT(product_batch()), b + B_AT(product_batch()), blockIdx.y * BM, blockIdx.x * BN, first, end);
#if __CUDA_ARCH__ >= 900
    if constexpr (SPLIT > 1)
        exchange();
#endif
}

// The e-th of this block's elements: its place in the result, or NOWHERE, and its value.
__device__ __forceinline__ index product_place(int e)
{
    int t = SPLIT > 1 ? product_rank() * SHARE + e : e, row = blockIdx.y * BM + t / BN, column = blockIdx.x * BN + t % BN;
    bool inside = t < TILE && row < M && column < N;
    return inside ? ((index)product_batch() * M + row) * N + column : NOWHERE;
}

// An element whose sum came out infinite or not a number, term by term: cut up, an infinite term is not a number.
__device__ __noinline__ float plain_sum(const float *a, const float *b, index i)
{
    index row = i / N % M, column = i % N, batch = i / N / M;
    float v = 0;
    a += A_AT(batch);
    b += B_AT(batch);
#pragma unroll 1
    for (index k = 0; k < K; k++)
        v = fmaf(a[TA ? k * M + row : row * K + k], b[TB ? column * K + k : k * N + column], v);
    return v;
}

// The e-th of this block's elements, which is element i of the result.
__device__ __forceinline__ float product_element(const float *a, const float *b, int e, index i)
{
    float v = 0;
    if constexpr (SPLIT == 1)
        v = sum_of_groups(e);
    else {
        v = product_memory[WORK + e];
#pragma unroll
        for (int r = 1; r < SPLIT; r++)
            v += product_memory[WORK + r * SHARE + e];
    }
    return !SPLITS_NUMBERS || v - v == 0 ? v : plain_sum(a, b, i);
}
