// product_warp.cuh - the terms of a tile of product.cuh on the tensor cores, where a tile has few rows, so that each of its numbers is one
// warp's: the warps read theirs from memory in the order in which the tensor cores want them, a step ahead, and wait for no other
// warp. Group g of KG has terms 16 g to 16 g + 15 of each step, as in product_mma.cuh.

#include "product_parts.h"

constexpr int ROWS_W = BM / WY, COLUMNS_W = BN / WX, FM = ROWS_W / 16, FN = COLUMNS_W / 8, STAGE = 0;
// Rows begin so that those of a store, by fours or by twos, touch all banks.
constexpr int PITCH_C = BN + (!TB && VB == 4 ? 4 : 8);
constexpr int STEPS = (CHUNK + 16 * KG - 1) / (16 * KG), UNROLL = STEPS <= 3 ? STEPS : 2;
static_assert(BM % (16 * WY) == 0 && BN % (8 * WX) == 0, "a tile that does not add up");

// Lane l has rows l / 4 and that + 8 of 16, or column l / 4 of 8, and four of the 16 terms. Which row, column and term of the matrices
// they stand for is free, as long as A and B agree on the terms: those of a lane are neighbours, and so are its rows or columns where
// they are neighbours in memory and start on 16 bytes, so that few loads bring them.
constexpr bool ROWS_TOGETHER = TA && VA == 4, COLUMNS_TOGETHER = !TB && VB == 4;

__device__ __forceinline__ int row_of(int i, int h, int g) { return ROWS_TOGETHER ? g * 2 * FM + 2 * i + h : i * 16 + h * 8 + g; }
__device__ __forceinline__ int column_of(int j, int g) { return COLUMNS_TOGETHER ? g * FN + j : j * 8 + g; }

// Four terms from k on of L lines, where a line has its terms side by side: line l is LINE (l).
template <int V, int STEP, int L, class LINE>
__device__ __forceinline__ void load_along(float (&to)[L][4], const float *from, int lines, int k, int end, LINE line)
{
#pragma unroll
    for (int l = 0; l < L; l++) {
        const float *at = from + line(l) * STEP + k;
        bool inside = line(l) < lines;
        if constexpr (V == 4) {
            float4 v = inside && k < end ? *(const float4 *)at : make_float4(0, 0, 0, 0);
            to[l][0] = v.x, to[l][1] = v.y, to[l][2] = v.z, to[l][3] = v.w;
        } else {
#pragma unroll
            for (int q = 0; q < 4; q++)
                to[l][q] = inside && k + q < end ? at[q] : 0;
        }
    }
}

// The same where a term has its lines side by side.
template <int V, int STEP, int L, class LINE>
__device__ __forceinline__ void load_across(float (&to)[L][4], const float *from, int lines, int k, int end, LINE line)
{
    constexpr int P = V == 1 ? 1 : L % 4 == 0 ? 4 : 2;
#pragma unroll
    for (int q = 0; q < 4; q++)
#pragma unroll
        for (int l = 0; l < L; l += P) {
            sg_pack<float, P> pack = {};
            if (line(l) < lines && k + q < end)
                pack = sg_load<P>(from + (k + q) * STEP + line(l));
#pragma unroll
            for (int p = 0; p < P; p++)
                to[l + p][q] = pack.x[p];
        }
}

struct warp_terms {
    float x[2 * FM][4], y[FN][4];

    __device__ __forceinline__ void load(const float *a, const float *b, int row, int column, int first, int end)
    {
        int g = threadIdx.x % 32 / 4, k = first + threadIdx.x % 4 * 4;
        const auto row_at = [&](int l) { return row + row_of(l / 2, l % 2, g); };
        const auto column_at = [&](int j) { return column + column_of(j, g); };
        if constexpr (TA)
            load_across<VA, M>(x, a, M, k, end, row_at);
        else
            load_along<VA, K>(x, a, M, k, end, row_at);
        if constexpr (TB)
            load_along<VB, K>(y, b, N, k, end, column_at);
        else
            load_across<VB, N>(y, b, N, k, end, column_at);
    }
};

__device__ __forceinline__ void add_parts(float (&t)[FN][4], const unsigned (&x)[4], const unsigned (&y)[FN][2])
{
#pragma unroll
    for (int j = 0; j < FN; j++)
        multiply_add(t[j], x, y[j][0], y[j][1]);
}

__device__ __forceinline__ void add_terms(float (&sum)[FM][FN][4], const warp_terms &w)
{
    unsigned y[3][FN][2], rests = 0;
#pragma unroll
    for (int j = 0; j < FN; j++)
#pragma unroll
        for (int q = 0; q < 2; q++) {
            split_pair(w.y[j][2 * q], w.y[j][2 * q + 1], y[0][j][q], y[1][j][q], y[2][j][q]);
            rests |= y[1][j][q];
        }
    bool any = __any_sync(0xffffffffu, rests != 0);
#pragma unroll
    for (int i = 0; i < FM; i++) {
        unsigned x[3][4];
        float t[FN][4] = {};
#pragma unroll
        for (int q = 0; q < 4; q++)
            split_pair(w.x[2 * i + q % 2][q / 2 * 2], w.x[2 * i + q % 2][q / 2 * 2 + 1], x[0][q], x[1][q], x[2][q]);
        const auto add = [&](int p, int q) { add_parts(t, x[p], y[q]); };
        if (any)
            each_product<true, true>(add);
        else
            each_product<true, false>(add);
#pragma unroll
        for (int j = 0; j < FN; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[i][j][e] += t[j][e];
    }
}

__device__ __forceinline__ void keep_sums(const float (&sum)[FM][FN][4], float *to)
{
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < FM; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float *row = to + row_of(i, h, g) * PITCH_C;
            if constexpr (COLUMNS_TOGETHER) {
#pragma unroll
                for (int e = 0; e < 2 * FN; e += 4)
                    *(float4 *)(row + t * 2 * FN + e) =
                        make_float4(sum[i][e % FN][2 * h + e / FN], sum[i][(e + 1) % FN][2 * h + (e + 1) / FN],
                                    sum[i][(e + 2) % FN][2 * h + (e + 2) / FN], sum[i][(e + 3) % FN][2 * h + (e + 3) / FN]);
            } else {
#pragma unroll
                for (int j = 0; j < FN; j++)
                    *(float2 *)(row + j * 8 + t * 2) = make_float2(sum[i][j][2 * h], sum[i][j][2 * h + 1]);
            }
        }
}

// Leaves the sums of each group of warps in shared memory.
__device__ __forceinline__ void product_sums(const float *a, const float *b, int row, int column, int first, int end)
{
    int warp = threadIdx.x / 32, w = warp % (WX * WY), group = warp / (WX * WY);
    int row_w = w / WX * ROWS_W, column_w = w % WX * COLUMNS_W;
    float sum[FM][FN][4] = {};
    warp_terms now;
    now.load(a, b, row + row_w, column + column_w, first + group * 16, end);
#pragma unroll UNROLL
    for (int s = 1; s <= STEPS; s++) {
        warp_terms next;
        if (s < STEPS)
            next.load(a, b, row + row_w, column + column_w, first + (s * KG + group) * 16, end);
        add_terms(sum, now);
        now = next;
    }
    keep_sums(sum, product_memory + (group * BM + row_w) * PITCH_C + column_w);
    __syncthreads();
}
