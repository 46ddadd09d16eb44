// product_fma.cuh - the terms of a tile of product.cuh by ordinary multiplications and additions: a thread keeps TM x TN partial
// sums.

constexpr int ROW_THREADS = 4 * WY, COLUMN_THREADS = 8 * WX;
static_assert(BM == ROW_THREADS * TM && BN == COLUMN_THREADS * TN && BK % (4 * KG) == 0, "a tile that does not add up");
// In shared memory the operands stay as they are stored. Rows along K are padded: reading four terms of neighbouring rows then
// touches all banks.
constexpr int PITCH_A = TA ? BM : BK + 4, PITCH_B = TB ? BK + 4 : BN;
constexpr int PITCH_C = BN;

#include "product_fetch.h"

// Place in the tile of the i-th row or column of thread t: by fours where four neighbours are one load, else interleaved.
template <bool FOURS, int W> __device__ __forceinline__ int product_line(int t, int i)
{
    return FOURS ? i / 4 * 4 * W + 4 * t + i % 4 : t + i * W;
}

// Four terms of each of a thread's T rows or columns.
template <bool FOURS, int T, int W, int PITCH>
__device__ __forceinline__ void read_terms(float (&x)[T][4], const float *from, int t, int k)
{
    if constexpr (FOURS) {
#pragma unroll
        for (int q = 0; q < 4; q++)
#pragma unroll
            for (int i = 0; i < T; i += 4) {
                float4 v = *(const float4 *)(from + (k + q) * PITCH + i * W + 4 * t);
                x[i][q] = v.x, x[i + 1][q] = v.y, x[i + 2][q] = v.z, x[i + 3][q] = v.w;
            }
    } else {
#pragma unroll
        for (int i = 0; i < T; i++) {
            float4 v = *(const float4 *)(from + (t + i * W) * PITCH + k);
            x[i][0] = v.x, x[i][1] = v.y, x[i][2] = v.z, x[i][3] = v.w;
        }
    }
}

__device__ __forceinline__ void add_stage(float (&sum)[TM][TN], const float *a, int group, int tx, int ty)
{
    const float *b = a + SIZE_A;
#pragma unroll
    for (int q = 0; q < BK / 4; q += KG) {
        float x[TM][4], y[TN][4];
        read_terms<TA, TM, ROW_THREADS, PITCH_A>(x, a, ty, (q + group) * 4);
        read_terms<!TB, TN, COLUMN_THREADS, PITCH_B>(y, b, tx, (q + group) * 4);
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++)
                    sum[i][j] = fmaf(x[i][k], y[j][k], sum[i][j]);
    }
}

__device__ __forceinline__ void keep_sums(const float (&sum)[TM][TN], float *to, int tx, int ty)
{
#pragma unroll
    for (int i = 0; i < TM; i++) {
        float *row = to + product_line<TA, ROW_THREADS>(ty, i) * BN;
        if constexpr (!TB) {
#pragma unroll
            for (int j = 0; j < TN; j += 4)
                *(float4 *)(row + j * COLUMN_THREADS + 4 * tx) =
                    make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
        } else {
#pragma unroll
            for (int j = 0; j < TN; j++)
                row[tx + j * COLUMN_THREADS] = sum[i][j];
        }
    }
}

// Leaves the sums of each group of warps in shared memory.
__device__ __forceinline__ void product_sums(const float *a, const float *b, int row, int column, int first, int end)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / (WX * WY), w = warp % (WX * WY);
    int tx = w % WX * 8 + lane % 8, ty = w / WX * 4 + lane / 8;
    float sum[TM][TN] = {};
    each_stage(a, b, row, column, first, end,
               [&](const float *stage) { add_stage(sum, stage, group, tx, ty); });
    keep_sums(sum, product_memory + group * TILE, tx, ty);
    __syncthreads();
}
