// product.cuh - c = op(a) op(b) in float32, compiled with NVRTC together with the steps that follow it (chain_source.c).
// product.c states the constants before this text: the sizes M, N, K of one matrix; TA, TB, whether a is stored [K, M] and b
// [N, K]; VA, VB, the floats of one copy (4 where rows start on 16 bytes, else 1); A_AT and B_AT, where a matrix of the batch
// starts; the tile; AT_ONCE, how many elements a thread finishes at a time at most, READS_EARLY, HOLDS, LATE and WITHIN; and PRODUCT_TERMS,
// the text that adds up terms: product_fma.cuh, product_mma.cuh, product_warp.cuh, product_wgmma.cuh or product_tf32.cuh.
//
// A cluster of SPLIT blocks computes a tile of BM x BN elements, each block a range of CHUNK of the sum. In a block, KG groups of
// warps share each stage of BK terms. Partial sums meet in shared memory, those of other blocks in the memory of the block that
// finishes the element, always added in the same order. So a product of few elements keeps all processors busy without partial
// sums in global memory and without a second launch.

constexpr int THREADS = 32 * WX * WY * KG, TILE = BM * BN, SHARE = (TILE + SPLIT - 1) / SPLIT;
constexpr index NOWHERE = ~(index)0;

struct product_operands {
    const float *a, *b;
};
__device__ __forceinline__ product_operands product_further(const product_operands &of, unsigned long long bytes)
{
    return {sg_further(of.a, bytes), sg_further(of.b, bytes)};
}

// Stages, then partial sums of groups; from WORK on [SPLIT][SHARE]; from HELD on what the steps read.
extern __shared__ __align__(16) float product_memory[];

__device__ __forceinline__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

// What is outside becomes zero.
template <int V> __device__ __forceinline__ void copy_async(float *to, const float *from, bool inside)
{
    int bytes = inside ? 4 * V : 0;
    if (V == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
                     : "memory");
}

__device__ __forceinline__ int product_rank() { return blockIdx.z % SPLIT; }
__device__ __forceinline__ int product_batch() { return blockIdx.z / SPLIT % BATCH; }
// How far a replica's memory is from the first's. All lanes agree, but as the compiler does not know that, it keeps the result instead of
// computing it again for each pointer.
__device__ __forceinline__ unsigned long long product_offset(unsigned long long stride)
{
    return __shfl_sync(0xffffffffu, blockIdx.z / SPLIT / BATCH * stride, 0);
}

// Where the tile starts. If WITHIN, one at the end of a matrix that is large enough lies back, so that all of it is inside; what it has
// in common with the tile before is that one's.
__device__ __forceinline__ int product_row() { return WITHIN && M >= BM ? min(blockIdx.y * BM, M - BM) : blockIdx.y * BM; }
__device__ __forceinline__ int product_column() { return WITHIN && N >= BN ? min(blockIdx.x * BN, N - BN) : blockIdx.x * BN; }

// If LATE, a block finishes whole lines of the tile, and if those are the rows of a warp, the warp sends them (SENDS).
constexpr bool LINED = LATE && BM % SPLIT == 0, SENDS = LATE && SPLIT * 16 == BM;

#include PRODUCT_TERMS

// Where stages take much memory, what other blocks send lies there too, and is sent when all are done with their stages (LATE).
constexpr int SUMS = KG * BM * PITCH_C, WORK = LATE || STAGES * STAGE < SUMS ? SUMS : STAGES * STAGE;

// Elements that are W neighbours in a row, all inside the result or all outside.
template <int W> __device__ __forceinline__ void add_to(sg_pack<float, W> &v, const float *more)
{
    sg_pack<float, W> x = *(const sg_pack<float, W> *)more;
#pragma unroll
    for (int k = 0; k < W; k++)
        v.x[k] += x.x[k];
}

template <int W> __device__ __forceinline__ sg_pack<float, W> sum_of_groups(unsigned e)
{
    const float *at = product_memory + e / BN * PITCH_C + e % BN;
    sg_pack<float, W> v = *(const sg_pack<float, W> *)at;
#pragma unroll
    for (int g = 1; g < KG; g++)
        add_to(v, at + g * BM * PITCH_C);
    return v;
}

#if __CUDA_ARCH__ >= 900
// Counts the bytes of a block's shares as they come.
__shared__ unsigned long long product_arrivals;

__device__ __forceinline__ void expect_shares()
{
    unsigned arrivals = shared_address(&product_arrivals);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(arrivals) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(arrivals), "n"(4 * SPLIT * SHARE) : "memory");
    }
}

// Those who write are in other blocks, which a wait without a scope, one within its block, would not order.
__device__ __forceinline__ void await_shares()
{
    unsigned done, arrivals = shared_address(&product_arrivals);
    do
        asm volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(done)
                     : "r"(arrivals)
                     : "memory");
    while (!done);
}

// Each element of the tile to the block that finishes it. All blocks must run, or be done with their stages (LATE), before their
// memory is written. What is sent is counted where it comes: a block waits for its own shares alone, and for no memory fence.
__device__ __forceinline__ void exchange()
{
    static_assert(TILE % SPLIT == 0 && SHARE % 4 == 0, "shares of whole packs");
    constexpr int EACH_SENDS = (TILE / 4 + THREADS - 1) / THREADS;
    unsigned shares = shared_address(product_memory + WORK + product_rank() * SHARE), arrivals = shared_address(&product_arrivals);
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < EACH_SENDS; i++) {
        unsigned e = 4 * (i * THREADS + threadIdx.x), there, counted;
        if (TILE / 4 % THREADS != 0 && e >= TILE)
            break;
        sg_pack<float, 4> v = sum_of_groups<4>(e);
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shares + 4 * (e % SHARE)), "r"(e / SHARE));
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counted) : "r"(arrivals), "r"(e / SHARE));
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%2, %3, %4, %5}, [%1];" ::"r"(there),
                     "r"(counted), "f"(v.x[0]), "f"(v.x[1]), "f"(v.x[2]), "f"(v.x[3])
                     : "memory");
    }
    await_shares();
}
#endif

__device__ __forceinline__ void product_compute(const product_operands &of)
{
    int first = product_rank() * CHUNK, end = min(K, first + CHUNK);
#if __CUDA_ARCH__ >= 900
    if constexpr (SPLIT > 1 && !SENDS)
        expect_shares();
    if constexpr (SPLIT > 1 && !LATE)
        asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
    product_sums(of.a + A_AT(product_batch()), of.b + B_AT(product_batch()), product_row(), product_column(), first, end);
#if __CUDA_ARCH__ >= 900
    if constexpr (SPLIT > 1 && LATE && !SENDS)
        asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    if constexpr (SPLIT > 1 && !SENDS)
        exchange();
#endif
    if constexpr (HOLDS)
        asm volatile("cp.async.wait_all;" ::: "memory");
}

// The place in the result of the e-th of this block's elements, or NOWHERE.
__device__ __forceinline__ index product_place(unsigned e)
{
    unsigned t = SPLIT > 1 ? product_rank() * SHARE + e : e, row = product_row() + t / BN, column = product_column() + t % BN;
    bool inside = e < SHARE && t < TILE && row < M && column < N && row >= blockIdx.y * BM && column >= blockIdx.x * BN;
    return inside ? ((index)product_batch() * M + row) * N + column : NOWHERE;
}

// A thread finishes packs of W neighbours, OWN of them, EACH at a time: what the steps read of those is on its way before the first is
// computed, and if they are all, before the product.
constexpr int neighbours(int w) { return w < 4 && 2 * w <= AT_ONCE && 2 * w * THREADS <= SHARE ? neighbours(2 * w) : w; }
constexpr int W = N % 4 == 0 && SHARE % 4 == 0 ? neighbours(1) : 1;

// If LINED, SIDE threads are side by side in each line, and again, TURNS times, until it is done: as many as leave the fewest packs to a
// thread. Its packs are in the same columns of each line.
constexpr int LINES = BM / SPLIT, PACKS = (N < BN ? N : BN) / W;
constexpr int turns(int side) { return (PACKS + side - 1) / side; }
constexpr int packs(int side) { return turns(side) * ((LINES + THREADS / side - 1) / (THREADS / side)); }
constexpr int best_side(int side)
{
    int best = side;
    for (; side > 0 && (turns(side) == 1 || turns(side) * W <= AT_ONCE); side--)
        best = packs(side) < packs(best) ? side : best;
    return best;
}
constexpr int SIDE = best_side(PACKS < THREADS ? PACKS : THREADS), TURNS = turns(SIDE);
constexpr int OWN = LINED ? packs(SIDE) : (SHARE / W + THREADS - 1) / THREADS;
constexpr int most_each(int each) { return 2 * each <= OWN && 2 * each * W <= AT_ONCE ? most_each(2 * each) : each; }
constexpr int EACH = LINED && TURNS > 1 && TURNS * W <= AT_ONCE ? TURNS : most_each(1);
constexpr bool EARLY = EACH == OWN && READS_EARLY && !HOLDS;

__device__ __forceinline__ int product_pack(int q) { return (q * THREADS + threadIdx.x) * W; }

// Of pack begin + q of a thread, its first element.
struct product_spot {
    int line, column;
    bool has;
    __device__ __forceinline__ product_spot(int begin, int q)
    {
        constexpr int MANY = THREADS / SIDE;
        constexpr bool STEADY = EACH % TURNS == 0;
        int turn = STEADY ? q % TURNS : (begin + q) % TURNS, pass = STEADY ? begin / TURNS + q / TURNS : (begin + q) / TURNS;
        line = pass * MANY + threadIdx.x / SIDE;
        column = (turn * SIDE + threadIdx.x % SIDE) * W;
        has = (THREADS % SIDE == 0 || threadIdx.x < MANY * SIDE) && (PACKS % SIDE == 0 || column < PACKS * W);
        has &= OWN / TURNS * MANY == LINES && OWN % EACH == 0 || line < LINES;
    }
    __device__ __forceinline__ index place() const
    {
        int row = product_row() + (SPLIT > 1 ? product_rank() * LINES : 0) + line, all = product_column() + column;
        bool inside = has && (M >= BM || row < M) && row >= blockIdx.y * BM && all >= blockIdx.x * BN;
        return inside ? ((index)product_batch() * M + row) * N + all : NOWHERE;
    }
};

// Lines that the tile before finishes are passed over.
__device__ __forceinline__ int first_pack()
{
    constexpr int MANY = THREADS / SIDE;
    if constexpr (!LINED || SPLIT > 1 || TURNS > 1 || !WITHIN || M % BM == 0)
        return 0;
    return (int)(blockIdx.y * BM - product_row()) / (MANY * EACH) * EACH;
}

struct product_places {
    index at[EACH];
    __device__ __forceinline__ explicit product_places(int begin)
    {
#pragma unroll
        for (int q = 0; q < EACH; q++)
            if constexpr (LINED)
                at[q] = product_spot(begin, q).place();
            else
                at[q] = product_place(product_pack(begin + q));
    }
};

#include "product_packs.h"

// If HOLDS, what the steps read is brought to shared memory beside the factors, stream after stream, each element for the thread that will
// finish it.
constexpr int HELD = WORK + (SPLIT > 1 ? SPLIT * SHARE : 0);
template <product_access HOW, class T, class PLACE> __device__ __forceinline__ void product_hold(int stream, const T *from, PLACE place)
{
    static_assert(!HOLDS || sizeof(T) == 4, "held by words");
    if constexpr (HOLDS)
#pragma unroll
        for (int q = 0; q < OWN; q++) {
            int e = product_pack(q);
            index i = product_place(e);
            float *to = product_memory + HELD + stream * SHARE + e;
            if (i == NOWHERE)
                continue;
            if constexpr (HOW == NEIGHBOURS && W == 4)
                copy_async<4>(to, (const float *)(from + place(i)), true);
            else
#pragma unroll
                for (int k = 0; k < W; k++)
                    copy_async<1>(to + k, (const float *)(from + place(i + k)), true);
        }
}

// What the steps read: element `place` (i) for element i of the result.
template <product_access HOW, class T, class PLACE>
__device__ __forceinline__ sg_pack<T, EACH * W> product_load(int stream, const T *from, int begin, const product_places &places, PLACE place)
{
    if constexpr (HOLDS) {
        sg_pack<T, EACH * W> all = {};
#pragma unroll
        for (int q = 0; q < EACH; q++) {
            if (places.at[q] == NOWHERE) // beyond the shares there may be no memory
                continue;
            sg_pack<T, W> pack = sg_load<W>((const T *)(product_memory + HELD + stream * SHARE) + product_pack(begin + q));
#pragma unroll
            for (int k = 0; k < W; k++)
                all.x[q * W + k] = pack.x[k];
        }
        return all;
    }
    return product_read<HOW>(from, places, place);
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

__device__ __forceinline__ sg_pack<float, W> product_sum(int begin, int q)
{
    int at = WORK + product_pack(begin + q), each = SHARE;
    if constexpr (SPLIT == 1 && !LINED)
        return sum_of_groups<W>(product_pack(begin + q));
    if constexpr (LINED) {
        const product_spot spot(begin, q);
        at = spot.line * (SPLIT == 1 || SENDS ? PITCH_C : BN) + spot.column + (SPLIT == 1 || SENDS ? 0 : WORK);
        each = SENDS ? LINES * PITCH_C : SHARE;
    }
    sg_pack<float, W> v = *(const sg_pack<float, W> *)(product_memory + at);
#pragma unroll
    for (int r = 1; r < SPLIT; r++)
        add_to(v, product_memory + at + r * each);
    return v;
}

// What is not finite, anew. In a loop that is not unrolled, as it is rare.
__device__ __forceinline__ void mend(const product_operands &of, const product_places &places, float (&v)[EACH * W])
{
    unsigned wrong = 0;
    float zero = 0;
#pragma unroll
    for (int k = 0; k < EACH * W; k++)
        zero = fmaf(v[k], 0.0f, zero);
    if (zero == 0)
        return;
#pragma unroll
    for (int k = 0; k < EACH * W; k++)
        wrong |= v[k] - v[k] == 0 ? 0u : 1u << k;
#pragma unroll 1
    for (; wrong != 0; wrong &= wrong - 1) {
        int which = __ffs(wrong) - 1;
        index i = 0;
#pragma unroll
        for (int q = 0; q < EACH; q++)
            i = which / W == q ? places.at[q] + which % W : i;
        float x = plain_sum(of.a, of.b, i);
#pragma unroll
        for (int k = 0; k < EACH * W; k++)
            v[k] = which == k ? x : v[k];
    }
}

// The elements at these places.
__device__ __forceinline__ void product_elements(const product_operands &of, int begin, const product_places &places,
                                                 float (&v)[EACH * W])
{
#pragma unroll
    for (int q = 0; q < EACH; q++) {
        sg_pack<float, W> pack = {};
        if (places.at[q] != NOWHERE)
            pack = product_sum(begin, q);
#pragma unroll
        for (int k = 0; k < W; k++)
            v[q * W + k] = pack.x[k];
    }
    if constexpr (SPLITS_NUMBERS)
        mend(of, places, v);
}
