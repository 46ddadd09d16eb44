// product_wgmma.cuh - the terms of a tile of product.cuh on the tensor cores of Hopper: groups of four warps multiply 64 rows by
// WIDTH columns from shared memory, while the same warps split the numbers of the next stage. Tiles of all widths give the same bits.

constexpr int GROUPS = WX / 4, WIDTH = BN / GROUPS, HALF = WIDTH / 2, STEPS = BK / 16, PITCH_C = BN % 16 == 8 ? BN : BN + 8;
static_assert(BM == 64 * WY && WX % 4 == 0 && WIDTH % 8 == 0 && BK % 16 == 0 && KG == 1, "a tile that does not add up");

// The hardware's layout: cores of 8 rows of 16 bytes, which are 128 bytes together. Neighbours along a row are a little more
// apart, so that the stores of a warp touch all banks.
template <int R, int C> struct cores {
    static constexpr int ACROSS = 128 + (C % 64 == 0 ? 16 : C % 32 == 0 ? 32 : 64), DOWN = C / 8 * ACROSS, PLANE = R / 8 * DOWN;
    __device__ static __forceinline__ int at(int row, int down, int column, int across)
    {
        int line = down % 8 == 0 ? row / 8 + down / 8 : (row + down) / 8, inside = (down % 8 == 0 ? row : row + down) % 8;
        int core = across % 8 == 0 ? column / 8 + across / 8 : (column + across) / 8;
        return line * DOWN + inside * 16 + core * ACROSS + (column + across) % 8 * 2;
    }
};
typedef cores<TA ? BK : BM, TA ? BM : BK> place_a;
typedef cores<TB ? BN : BK, TB ? BK : BN> place_b;
constexpr int STAGE = 3 * (place_a::PLANE + place_b::PLANE) / 4;

#include "product_split.h"

// What the hardware wants to know of an operand in shared memory, in words of 16 bytes: where it is, and how far from a core the
// next one is along the sum and across it. Known when compiled but for the stage, it costs few instructions.
__device__ constexpr unsigned long long describe(int along, int across)
{
    return (unsigned long long)(along / 16) << 16 | (unsigned long long)(across / 16) << 32;
}
constexpr int ALONG_A = TA ? place_a::DOWN : place_a::ACROSS, ACROSS_A = TA ? place_a::ACROSS : place_a::DOWN;
constexpr int ALONG_B = TB ? place_b::ACROSS : place_b::DOWN, ACROSS_B = TB ? place_b::DOWN : place_b::ACROSS;

// In a cluster, addresses have the block's rank above these bits.
__device__ __forceinline__ unsigned words_before(int at)
{
    return (shared_address(product_memory + at * STAGE) & 0x3ffff) >> 4;
}

// Part p of terms 16 q to 16 q + 15 of stage `at`, for a group of warps.
__device__ __forceinline__ unsigned long long part_of_a(int at, int group, int q, int p)
{
    unsigned words = (p * place_a::PLANE + q * 2 * ALONG_A + group / GROUPS * 8 * ACROSS_A) / 16;
    return describe(ALONG_A, ACROSS_A) | (words_before(at) + words);
}
__device__ __forceinline__ unsigned long long part_of_b(int at, int group, int q, int p)
{
    unsigned words = (3 * place_a::PLANE + p * place_b::PLANE + q * 2 * ALONG_B + group % GROUPS * (WIDTH / 8) * ACROSS_B) / 16;
    return describe(ALONG_B, ACROSS_B) | (words_before(at) + words);
}

__device__ __forceinline__ void group_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void group_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void group_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
// Ordinary stores to shared memory, for the tensor cores.
__device__ __forceinline__ void stores_visible() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// t [64, WIDTH] = or += a [64, 16] b [16, WIDTH], begun only: t must not be touched before group_wait. An instruction names all of a thread's
// elements, H of them, and then the operands.
#define FOUR(C, i) C(t[i]), C(t[i + 1]), C(t[i + 2]), C(t[i + 3])
#define NAMES_12 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11"
#define NAMES_16 NAMES_12 ", %12, %13, %14, %15"
#define NAMES_20 NAMES_16 ", %16, %17, %18, %19"
#define NAMES_32 NAMES_20 ", %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_36 NAMES_32 ", %32, %33, %34, %35"
#define NAMES_40 NAMES_36 ", %36, %37, %38, %39"
#define ALL_12(C) FOUR(C, 0), FOUR(C, 4), FOUR(C, 8)
#define ALL_16(C) ALL_12(C), FOUR(C, 12)
#define ALL_20(C) ALL_16(C), FOUR(C, 16)
#define ALL_32(C) ALL_20(C), FOUR(C, 20), FOUR(C, 24), FOUR(C, 28)
#define ALL_36(C) ALL_32(C), FOUR(C, 32)
#define ALL_40(C) ALL_36(C), FOUR(C, 36)
#define WRITTEN(x) "=f"(x)
#define ADDED_TO(x) "+f"(x)
#define BEGIN(H, WIDTH, SOURCES, CONSTRAINT)                                                                           \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" WIDTH "k16.f32.bf16.bf16 {" NAMES_##H "}, " SOURCES               \
                 : ALL_##H(CONSTRAINT)                                                                                 \
                 : "l"(a), "l"(b), "n"(TA ? 1 : 0), "n"(TB ? 0 : 1))
#define MULTIPLY(H, WIDTH, A, B, TURN_A, TURN_B)                                                                       \
    if constexpr (HALVES == H && ADD)                                                                                  \
        BEGIN(H, WIDTH, A ", " B ", 1, 1, 1, " TURN_A ", " TURN_B ";", ADDED_TO);                                      \
    else if constexpr (HALVES == H)                                                                                    \
    BEGIN(H, WIDTH, A ", " B ", 0, 1, 1, " TURN_A ", " TURN_B ";", WRITTEN)
template <bool ADD, int HALVES>
__device__ __forceinline__ void multiply(float (&t)[HALVES], unsigned long long a, unsigned long long b)
{
    MULTIPLY(12, "24", "%12", "%13", "%14", "%15");
    MULTIPLY(16, "32", "%16", "%17", "%18", "%19");
    MULTIPLY(20, "40", "%20", "%21", "%22", "%23");
    MULTIPLY(32, "64", "%32", "%33", "%34", "%35");
    MULTIPLY(36, "72", "%36", "%37", "%38", "%39");
    MULTIPLY(40, "80", "%40", "%41", "%42", "%43");
}

// Adds part `pa` of a times part `pb` of b, for each 16 terms of a stage.
template <bool ADD>
__device__ __forceinline__ void multiply_parts(float (&t)[STEPS][HALF], int at, int group, int pa, int pb)
{
#pragma unroll
    for (int q = 0; q < STEPS; q++)
        multiply<ADD>(t[q], part_of_a(at, group, q, pa), part_of_b(at, group, q, pb));
}

// Each 16 terms have sums of their own, which begin at zero: the first product does not add. The order is that of each_product.
template <bool LEFT, bool RIGHT>
__device__ __forceinline__ void start_stage(float (&t)[STEPS][HALF], int at, int group)
{
    multiply_parts<false>(t, at, group, LEFT ? 2 : 0, LEFT ? 0 : 2);
    if constexpr (LEFT && RIGHT) {
        multiply_parts<true>(t, at, group, 0, 2);
        multiply_parts<true>(t, at, group, 1, 1);
    }
    if constexpr (LEFT)
        multiply_parts<true>(t, at, group, 1, 0);
    if constexpr (RIGHT)
        multiply_parts<true>(t, at, group, 0, 1);
    multiply_parts<true>(t, at, group, 0, 0);
}

// The sums of this thread, two neighbours at a time: put (place after that of the first, pair) in rows of PITCH_C.
template <class PUT> __device__ __forceinline__ void each_pair(const float (&sum)[HALF], PUT put)
{
#pragma unroll
    for (int j = 0; j < WIDTH / 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            put(h * 8 * PITCH_C + j * 8, make_float2(sum[4 * j + 2 * h], sum[4 * j + 2 * h + 1]));
}

// If SENDS, the rows of a warp are what one block finishes: they go there at once.
__device__ __forceinline__ void leave(const float (&sum)[HALF], int group)
{
    int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, rank = group / GROUPS * 4 + warp;
    int line = SENDS ? product_rank() * 16 : group / GROUPS * 64 + warp * 16;
    float *to = product_memory + (line + lane / 4) * PITCH_C + group % GROUPS * WIDTH + lane % 4 * 2;
    if constexpr (SENDS) {
        unsigned there;
        asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(to)), "r"(rank));
        each_pair(sum, [&](int after, float2 v) {
            asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(there + after * 4), "f"(v.x), "f"(v.y) : "memory");
        });
        asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    } else {
        __syncthreads();
        each_pair(sum, [&](int after, float2 v) { *(float2 *)(to + after) = v; });
        __syncthreads();
    }
}

// Leaves the sums in shared memory. While the tensor cores work on a stage, the next is split and the one after it loaded.
__device__ __forceinline__ void product_sums(const float *a, const float *b, int row, int column, int first, int end)
{
    int group = WY * GROUPS == 1 ? 0 : __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    float sum[HALF] = {};
    stages next(a, b, row, column, first);
    next.load(end - first);
    bool rests = next.store(0);
    stores_visible();
    next.load(end - first - BK);
#pragma unroll 1
    for (int left = end - first, at = 0; left > 0; left -= BK, at ^= 1) {
        float t[STEPS][HALF];
        rests = __syncthreads_or(rests);
        group_fence();
        if (rests)
            start_stage<true, true>(t, at, group);
        else
            start_stage<!TESTS_A, TESTS_A>(t, at, group);
        group_commit();
        if (left > BK) {
            rests = next.store(at ^ 1);
            stores_visible();
            next.load(left - 2 * BK);
        }
        group_wait();
#pragma unroll
        for (int q = 0; q < STEPS; q++)
#pragma unroll
            for (int e = 0; e < HALF; e++)
                sum[e] += t[q][e];
    }
    leave(sum, group);
}
