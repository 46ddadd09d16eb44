// product_warp.cuh - the terms of a tile of product.cuh on the tensor cores, where a block's range of the sum is short: each warp reads
// its terms from memory in the order in which the tensor cores want them, all at once, and waits for no other warp. Sums are those
// of product_mma.cuh.

#include "product_parts.h"

constexpr int ROWS_W = BM / WY, COLUMNS_W = BN / WX, FM = ROWS_W / 16, FN = COLUMNS_W / 8, PITCH_C = BN + 8, STAGE = 0;
constexpr int STEPS = (CHUNK + 16 * KG - 1) / (16 * KG);
static_assert(BM % (16 * WY) == 0 && BN % (8 * WX) == 0, "a tile that does not add up");

// Lane l has rows l / 4 and that + 8 of 16, or column l / 4 of 8, and of the terms 2 (l % 4), the next, and those + 8.
struct warp_terms {
    float x[FM][4][2], y[FN][2][2];

    // Two neighbours along the sum. V: floats of one load; ALONG: they are neighbours in memory.
    template <int V, bool ALONG, int STEP>
    __device__ static __forceinline__ void load_pair(float (&to)[2], const float *from, int line, int k, bool inside, int end)
    {
        if constexpr (ALONG && V == 4) {
            float2 v = inside && k < end ? *(const float2 *)(from + line * STEP + k) : make_float2(0, 0);
            to[0] = v.x, to[1] = v.y;
        } else {
            const float *at = ALONG ? from + line * STEP + k : from + k * STEP + line;
            to[0] = inside && k < end ? at[0] : 0;
            to[1] = inside && k + 1 < end ? at[ALONG ? 1 : STEP] : 0;
        }
    }

    __device__ __forceinline__ void load(const float *a, const float *b, int row, int column, int first, int end)
    {
        int lane = threadIdx.x % 32, k = first + lane % 4 * 2;
        row += lane / 4;
        column += lane / 4;
#pragma unroll
        for (int i = 0; i < FM; i++)
#pragma unroll
            for (int q = 0; q < 4; q++) {
                int line = row + i * 16 + q % 2 * 8;
                load_pair<VA, !TA, TA ? M : K>(x[i][q], a, line, k + q / 2 * 8, line < M, end);
            }
#pragma unroll
        for (int j = 0; j < FN; j++)
#pragma unroll
            for (int q = 0; q < 2; q++)
                load_pair<VB, TB, TB ? K : N>(y[j][q], b, column + j * 8, k + q * 8, column + j * 8 < N, end);
    }
};

__device__ __forceinline__ void add_parts(float (&t)[FN][4], const unsigned (&x)[4], const unsigned (&y)[FN][2])
{
#pragma unroll
    for (int j = 0; j < FN; j++)
        multiply_add(t[j], x, y[j][0], y[j][1]);
}

// Where A or B has no rests, its first parts are all.
template <bool A, bool B>
__device__ __forceinline__ void sum_parts(float (&t)[FN][4], const unsigned (&x)[3][4], const unsigned (&y)[3][FN][2])
{
    if constexpr (A)
        add_parts(t, x[2], y[0]);
    if constexpr (B)
        add_parts(t, x[0], y[2]);
    if constexpr (A && B)
        add_parts(t, x[1], y[1]);
    if constexpr (A)
        add_parts(t, x[1], y[0]);
    if constexpr (B)
        add_parts(t, x[0], y[1]);
    add_parts(t, x[0], y[0]);
}

__device__ __forceinline__ void add_terms(float (&sum)[FM][FN][4], const warp_terms &w)
{
    unsigned y[3][FN][2], rests = 0;
#pragma unroll
    for (int j = 0; j < FN; j++)
#pragma unroll
        for (int q = 0; q < 2; q++) {
            split_pair(w.y[j][q][0], w.y[j][q][1], y[0][j][q], y[1][j][q], y[2][j][q]);
            rests |= y[1][j][q];
        }
    bool any = __any_sync(0xffffffffu, rests != 0);
#pragma unroll
    for (int i = 0; i < FM; i++) {
        unsigned x[3][4];
        float t[FN][4] = {};
#pragma unroll
        for (int q = 0; q < 4; q++)
            split_pair(w.x[i][q][0], w.x[i][q][1], x[0][q], x[1][q], x[2][q]);
        if (any)
            sum_parts<true, true>(t, x, y);
        else
            sum_parts<true, false>(t, x, y);
#pragma unroll
        for (int j = 0; j < FN; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[i][j][e] += t[j][e];
    }
}

__device__ __forceinline__ void keep_sums(const float (&sum)[FM][FN][4], float *to)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < FM; i++)
#pragma unroll
        for (int j = 0; j < FN; j++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                *(float2 *)(to + (i * 16 + h * 8 + lane / 4) * PITCH_C + j * 8 + lane % 4 * 2) =
                    make_float2(sum[i][j][2 * h], sum[i][j][2 * h + 1]);
}

// Leaves the sums of each group of warps in shared memory.
__device__ __forceinline__ void product_sums(const float *a, const float *b, int row, int column, int first, int end)
{
    int warp = threadIdx.x / 32, w = warp % (WX * WY), group = warp / (WX * WY);
    int row_w = w / WX * ROWS_W, column_w = w % WX * COLUMNS_W;
    float sum[FM][FN][4] = {};
    warp_terms terms[STEPS];
#pragma unroll
    for (int s = 0; s < STEPS; s++)
        terms[s].load(a, b, row + row_w, column + column_w, first + (s * KG + group) * 16, end);
#pragma unroll
    for (int s = 0; s < STEPS; s++)
        add_terms(sum, terms[s]);
    keep_sums(sum, product_memory + (group * BM + row_w) * PITCH_C + column_w);
    __syncthreads();
}
