// product_wgmma.cuh - the terms of a tile of product.cuh on the tensor cores of Hopper: groups of four warps multiply 64 rows by
// 64 columns from shared memory, while the same warps split the numbers of the next stage.

constexpr int FN = BN / 8, STEPS = BK / 16, PITCH_C = BN + 8;
static_assert(BM == 64 * WY && WX == 4 && BN == 64 && BK % 16 == 0 && KG == 1, "a tile that does not add up");

// The hardware's layout: cores of 8 rows of 16 bytes, which are 128 bytes together. Neighbours along a row are a little more
// apart, so that the stores of a warp touch all banks.
template <int R, int C> struct cores {
    static constexpr int ACROSS = 128 + (C >= 64 ? 16 : C == 32 ? 32 : 64), DOWN = C / 8 * ACROSS, PLANE = R / 8 * DOWN;
    __device__ static __forceinline__ int at(int row, int down, int column)
    {
        int line = down % 8 == 0 ? row / 8 + down / 8 : down / 8, inside = down % 8 == 0 ? row % 8 : row + down % 8;
        return line * DOWN + inside * 16 + column / 8 * ACROSS + column % 8 * 2;
    }
};
typedef cores<TA ? BK : BM, TA ? BM : BK> place_a;
typedef cores<TB ? BN : BK, TB ? BK : BN> place_b;
constexpr int RESTS = 4, STAGE = 3 * (place_a::PLANE + place_b::PLANE) / 4 + RESTS;

#include "product_split.h"

// What the hardware wants to know of an operand in shared memory, in words of 16 bytes: where it is, and how far from a core the
// next one is along the sum and across it.
__device__ __forceinline__ unsigned long long describe(unsigned at, unsigned along, unsigned across)
{
    return (at >> 4 & 0x3fff) | (unsigned long long)(along >> 4) << 16 | (unsigned long long)(across >> 4) << 32;
}

__device__ __forceinline__ void group_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void group_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void group_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
// Ordinary stores to shared memory, for the tensor cores.
__device__ __forceinline__ void stores_visible() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// t [64, 64] = or += a [64, 16] b [16, 64], begun only: t must not be touched before group_wait.
#define EIGHT(C, i) C(t[i]), C(t[i + 1]), C(t[i + 2]), C(t[i + 3]), C(t[i + 4]), C(t[i + 5]), C(t[i + 6]), C(t[i + 7])
#define ALL(C) EIGHT(C, 0), EIGHT(C, 8), EIGHT(C, 16), EIGHT(C, 24)
#define WRITTEN(x) "=f"(x)
#define ADDED_TO(x) "+f"(x)
#define MULTIPLY(ADD, CONSTRAINT)                                                                                      \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "                                               \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "    \
                 "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, " ADD ", 1, 1, %34, %35;"           \
                 : ALL(CONSTRAINT)                                                                                     \
                 : "l"(a), "l"(b), "n"(TA ? 1 : 0), "n"(TB ? 0 : 1))
__device__ __forceinline__ void multiply_first(float (&t)[32], unsigned long long a, unsigned long long b)
{
    MULTIPLY("0", WRITTEN);
}
__device__ __forceinline__ void multiply_more(float (&t)[32], unsigned long long a, unsigned long long b)
{
    MULTIPLY("1", ADDED_TO);
}

// Each 16 terms have sums of their own, which begin at zero. Where the left or the right operand has no rests, its first parts are all.
template <bool LEFT, bool RIGHT> __device__ __forceinline__ void start_stage(float (&t)[STEPS][32], int at, int row)
{
    typedef place_a A;
    typedef place_b B;
    unsigned a0 = shared_address(product_memory + at * STAGE), b0 = a0 + 3 * A::PLANE;
#pragma unroll
    for (int q = 0; q < STEPS; q++) {
        unsigned long long a[3], b[3];
#pragma unroll
        for (int p = 0; p < 3; p++) {
            unsigned x = a0 + p * A::PLANE, y = b0 + p * B::PLANE;
            a[p] = TA ? describe(x + q * 2 * A::DOWN + row / 8 * A::ACROSS, A::DOWN, A::ACROSS)
                      : describe(x + row / 8 * A::DOWN + q * 2 * A::ACROSS, A::ACROSS, A::DOWN);
            b[p] = TB ? describe(y + q * 2 * B::ACROSS, B::ACROSS, B::DOWN)
                      : describe(y + q * 2 * B::DOWN, B::DOWN, B::ACROSS);
        }
        if constexpr (LEFT)
            multiply_first(t[q], a[2], b[0]);
        else
            multiply_first(t[q], a[0], b[2]);
        if constexpr (LEFT && RIGHT) {
            multiply_more(t[q], a[0], b[2]);
            multiply_more(t[q], a[1], b[1]);
        }
        if constexpr (LEFT)
            multiply_more(t[q], a[1], b[0]);
        if constexpr (RIGHT)
            multiply_more(t[q], a[0], b[1]);
        multiply_more(t[q], a[0], b[0]);
    }
}

// Leaves the sums in shared memory. While the tensor cores work on a stage, the next is split and the one after it loaded.
__device__ __forceinline__ void product_sums(const float *a, const float *b, int row, int column, int first, int end)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum[32] = {};
    passing_a pa;
    passing_b pb;
    a += TA ? (size_t)first * M + row : (size_t)row * K + first;
    b += TB ? (size_t)column * K + first : (size_t)first * N + column;
    const auto load = [&](int terms) {
        load_stage(pa, pb, a, b, M - row, N - column, terms);
        a += TA ? BK * M : BK;
        b += TB ? BK : BK * N;
    };
    load(end - first);
    store_stage(pa, pb, 0);
    stores_visible();
    load(end - first - BK);
#pragma unroll 1
    for (int left = end - first, at = 0; left > 0; left -= BK, at ^= 1) {
        float t[STEPS][32];
        __syncthreads();
        group_fence();
        if (!has_rests(at, 0))
            start_stage<false, true>(t, at, warp / 4 * 64);
        else if (!has_rests(at, 1))
            start_stage<true, false>(t, at, warp / 4 * 64);
        else
            start_stage<true, true>(t, at, warp / 4 * 64);
        group_commit();
        if (left > BK) {
            store_stage(pa, pb, at ^ 1);
            stores_visible();
            load(left - 2 * BK);
        }
        group_wait();
#pragma unroll
        for (int q = 0; q < STEPS; q++)
#pragma unroll
            for (int e = 0; e < 32; e++)
                sum[e] += t[q][e];
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < FN; j++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            *(float2 *)(product_memory + (warp * 16 + h * 8 + lane / 4) * PITCH_C + j * 8 + lane % 4 * 2) =
                make_float2(sum[4 * j + 2 * h], sum[4 * j + 2 * h + 1]);
    __syncthreads();
}
