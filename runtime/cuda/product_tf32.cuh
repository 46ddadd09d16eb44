// product_tf32.cuh - the terms of a tile of product.cuh on the tensor cores, of numbers rounded to TF32: the exponents of float32 and 11
// of its 24 digits. Where the user allows it, one product takes the place of the six of product_split.cuh.

constexpr int ROWS_W = BM / WY, COLUMNS_W = BN / WX, FM = ROWS_W / 16, FN = COLUMNS_W / 8, STEPS = BK / 8;
static_assert(BM % (16 * WY) == 0 && BN % (16 * WX) == 0 && STEPS % KG == 0 && STAGES > 1, "a tile that does not add up");
// The operands stay as they are stored. Rows along the sum are read in words of four numbers: padded by one word, 8 rows touch all
// banks. Others are read number by number, 8 of each of 4 rows: padded by 8 numbers.
constexpr int PITCH_A = TA ? BM + 8 : BK + 4, PITCH_B = TB ? BK + 4 : BN + 8, PITCH_C = BN + 8;

#include "product_fetch.h"

__device__ __forceinline__ void round_all(unsigned (&r)[4])
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r[i]) : "f"(__uint_as_float(r[i])));
}

// Four matrices of 8 rows of four numbers: lane 8 q + r names row r of matrix q, and gets in word q number lane % 4 of row lane / 4.
__device__ __forceinline__ void load_matrices(unsigned (&r)[4], const float *at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(at))
                 : "memory");
}

// The operand of 16 rows x 8 terms from (row, k), and that of 16 columns x 8 terms: words 0, 1 of the first eight columns.
__device__ __forceinline__ void read_a(unsigned (&x)[4], const float *from, int row, int k, int lane)
{
    if constexpr (TA) {
        const float *at = from + (k + lane % 4) * PITCH_A + row + lane / 4;
#pragma unroll
        for (int i = 0; i < 4; i++)
            x[i] = __float_as_uint(at[i / 2 * 4 * PITCH_A + i % 2 * 8]);
    } else {
        load_matrices(x, from + (row + lane % 16) * PITCH_A + k + lane / 16 * 4);
    }
    round_all(x);
}

__device__ __forceinline__ void read_b(unsigned (&x)[4], const float *from, int column, int k, int lane)
{
    if constexpr (TB) {
        load_matrices(x, from + (column + lane % 8 + lane / 16 * 8) * PITCH_B + k + lane / 8 % 2 * 4);
    } else {
        const float *at = from + (k + lane % 4) * PITCH_B + column + lane / 4;
#pragma unroll
        for (int i = 0; i < 4; i++)
            x[i] = __float_as_uint(at[i % 2 * 4 * PITCH_B + i / 2 * 8]);
    }
    round_all(x);
}

// c [16, 8] += x [16, 8] y [8, 8].
__device__ __forceinline__ void multiply_add(float (&c)[4], const unsigned (&x)[4], unsigned y0, unsigned y1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y0), "r"(y1));
}

__device__ __forceinline__ void add_stage(float (&sum)[FM][FN][4], const float *a, int group, int row, int column, int lane)
{
#pragma unroll
    for (int q = 0; q < STEPS; q += KG) {
        int k = (q + group) * 8;
        unsigned y[FN / 2][4];
#pragma unroll
        for (int j = 0; j < FN / 2; j++)
            read_b(y[j], a + SIZE_A, column + j * 16, k, lane);
#pragma unroll
        for (int i = 0; i < FM; i++) {
            unsigned x[4];
            read_a(x, a, row + i * 16, k, lane);
#pragma unroll
            for (int j = 0; j < FN; j++)
                multiply_add(sum[i][j], x, y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
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

// Leaves the sums of each group of warps in shared memory.
__device__ __forceinline__ void product_sums(const float *a, const float *b, int row, int column, int first, int end)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / (WX * WY), w = warp % (WX * WY);
    int row_w = w / WX * ROWS_W, column_w = w % WX * COLUMNS_W;
    float sum[FM][FN][4] = {};
    each_stage(a, b, row, column, first, end,
               [&](const float *stage) { add_stage(sum, stage, group, row_w, column_w, lane); });
    keep_sums(sum, product_memory + group * BM * PITCH_C, row_w, column_w, lane);
    __syncthreads();
}
