// product_mma.cuh - the terms of a tile of product.cuh on the tensor cores, warp by warp.

constexpr int ROWS_W = BM / WY, COLUMNS_W = BN / WX, FM = ROWS_W / 16, FN = COLUMNS_W / 8, STEPS = BK / 16;
static_assert(BM % (16 * WY) == 0 && BN % (16 * WX) == 0 && BK % 16 == 0 && STEPS % KG == 0, "a tile that does not add up");
// The operands stay as they are stored; rows of bfloat16 are padded by 16 bytes, so that 8 rows of 16 bytes touch all banks.
constexpr int PITCH_A = (TA ? BM : BK) + 8, PITCH_B = (TB ? BK : BN) + 8;
constexpr int SIZE_A = (TA ? BK : BM) * PITCH_A, SIZE_B = (TB ? BN : BK) * PITCH_B, STAGE = 3 * (SIZE_A + SIZE_B) / 2;
constexpr int PITCH_C = BN + 8;

template <int SIZE, int PITCH> struct place {
    static constexpr int PLANE = 2 * SIZE;
    __device__ static __forceinline__ int at(int row, int down, int column, int across)
    {
        return 2 * ((row + down) * PITCH + column + across);
    }
};
typedef place<SIZE_A, PITCH_A> place_a;
typedef place<SIZE_B, PITCH_B> place_b;

#include "product_split.h"

// Four 8 x 8 matrices of 16-bit elements: lane 8 q + r names row r of matrix q, and gets in word q elements 2 (lane % 4) and the
// next of row lane / 4, or of column lane / 4.
__device__ __forceinline__ void load_matrices(unsigned (&r)[4], const unsigned short *at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(at))
                 : "memory");
}
__device__ __forceinline__ void load_transposed(unsigned (&r)[4], const unsigned short *at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(at))
                 : "memory");
}

// The operand of 16 rows x 16 terms from (row, k), and that of 16 columns x 16 terms: words 0, 1 of the first eight columns.
__device__ __forceinline__ void read_a(unsigned (&x)[4], const unsigned short *from, int row, int k, int lane)
{
    if constexpr (TA)
        load_transposed(x, from + (k + lane % 8 + lane / 16 * 8) * PITCH_A + row + lane / 8 % 2 * 8);
    else
        load_matrices(x, from + (row + lane % 16) * PITCH_A + k + lane / 16 * 8);
}

__device__ __forceinline__ void read_b(unsigned (&x)[4], const unsigned short *from, int column, int k, int lane)
{
    if constexpr (TB)
        load_matrices(x, from + (column + lane % 8 + lane / 16 * 8) * PITCH_B + k + lane / 8 % 2 * 8);
    else
        load_transposed(x, from + (k + lane % 16) * PITCH_B + column + lane / 16 * 8);
}

__device__ __forceinline__ void add_parts(float (&t)[FN][4], const unsigned (&x)[4], const unsigned (&y)[FN / 2][4])
{
#pragma unroll
    for (int j = 0; j < FN; j++)
        multiply_add(t[j], x, y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
}

// Where A or B has no rests, its first parts are all.
template <bool A, bool B>
__device__ __forceinline__ void add_stage(float (&sum)[FM][FN][4], int at, int group, int row, int column, int lane)
{
    const unsigned short *a = (const unsigned short *)(product_memory + at * STAGE), *b = a + 3 * SIZE_A;
#pragma unroll
    for (int q = 0; q < STEPS; q += KG) {
        int k = (q + group) * 16;
        unsigned y[3][FN / 2][4];
#pragma unroll
        for (int p = 0; p < (B ? 3 : 1); p++)
#pragma unroll
            for (int j = 0; j < FN / 2; j++)
                read_b(y[p][j], b + p * SIZE_B, column + j * 16, k, lane);
#pragma unroll
        for (int i = 0; i < FM; i++) {
            unsigned x[3][4];
            float t[FN][4] = {};
#pragma unroll
            for (int p = 0; p < (A ? 3 : 1); p++)
                read_a(x[p], a + p * SIZE_A, row + i * 16, k, lane);
            each_product<A, B>([&](int p, int q) { add_parts(t, x[p], y[q]); });
#pragma unroll
            for (int j = 0; j < FN; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    sum[i][j][e] += t[j][e];
        }
    }
}

__device__ __forceinline__ void keep_sums(const float (&sum)[FM][FN][4], float *to, int row, int column, int lane)
{
#pragma unroll
    for (int i = 0; i < FM; i++)
#pragma unroll
        for (int j = 0; j < FN; j++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                *(float2 *)(to + (row + i * 16 + h * 8 + lane / 4) * PITCH_C + column + j * 8 + lane % 4 * 2) =
                    make_float2(sum[i][j][2 * h], sum[i][j][2 * h + 1]);
}

// Leaves the sums of each group of warps in shared memory. While a stage is added up, the next but one is on its way.
__device__ __forceinline__ void product_sums(const float *a, const float *b, int row, int column, int first, int end)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / (WX * WY), w = warp % (WX * WY);
    int row_w = w / WX * ROWS_W, column_w = w % WX * COLUMNS_W;
    float sum[FM][FN][4] = {};
    stages next(a, b, row, column, first);
    next.load(end - first);
    bool rests = next.store(0);
    next.load(end - first - BK);
#pragma unroll 1
    for (int left = end - first, at = 0; left > 0; left -= BK, at ^= 1) {
        if (__syncthreads_or(rests))
            add_stage<true, true>(sum, at, group, row_w, column_w, lane);
        else
            add_stage<!TESTS_A, TESTS_A>(sum, at, group, row_w, column_w, lane);
        if (left > BK) {
            rests = next.store(at ^ 1);
            next.load(left - 2 * BK);
        }
    }
    __syncthreads();
    keep_sums(sum, product_memory + group * BM * PITCH_C, row_w, column_w, lane);
    __syncthreads();
}
