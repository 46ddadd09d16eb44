/* layer_norm_reverse.cu - the reverse derivative of layer normalisation for rows of bf16 as long as BERT's.
 *
 * A group of threads takes ROWS rows at a time, and a thread the same EACH columns of all of them: sums over rows (gradients of gamma and
 * beta, and of the bias before) are a few registers of a thread, gamma is read once, and rows are many enough on their way. What it
 * costs is that sums over a row pass through shared memory, those of ROWS rows together. */
#include "runtime/cuda/layer_norm_internal.h"
#include "runtime/cuda/replica.cuh"
#include "runtime/cuda/row.cuh"

enum { EACH = 8, LANES = SG_CUDA_NORM_USUAL / EACH, WARPS = LANES / SG_WARP };
enum { GROUPS = SG_CUDA_NORM_GROUPS, ROWS = SG_CUDA_NORM_ROWS, THREADS = GROUPS * LANES, VALUES = 2 * ROWS };
enum { TO_GAMMA, TO_BETA, TO_X, SUMS };
static_assert(LANES % SG_WARP == 0 && VALUES == 8, "whole warps, and values that they exchange");

struct rows_held {
    sg_piece<sg_bf16, EACH> x[ROWS], g[ROWS];
    float mean[ROWS], rstd[ROWS];
};

/* Rows from `first` on; behind `end` they are zeros, of which nothing comes. */
__device__ static inline void load(rows_held &to, const sg_cuda_norm &s, int64_t first, int64_t end, int column)
{
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int64_t row = first + r, at = row * SG_CUDA_NORM_USUAL + column;
        bool live = row < end;
        to.x[r] = {};
        to.g[r] = {};
        to.mean[r] = live && s.rstd && s.centred ? s.mean[row] : 0;
        to.rstd[r] = live && s.rstd ? s.rstd[row] : 0;
        if (live) {
            to.x[r] = sg_load<EACH>((const sg_bf16 *)s.x + at);
            to.g[r] = sg_load<EACH>((const sg_bf16 *)s.g + at);
        }
    }
}

/* value[] of all threads of a group joined, the same in all of them. Lanes of a warp first exchange halves of the values until each has
 * one. All threads of the block take part, and use two rooms in turn. */
struct totals {
    float (*room)[GROUPS][WARPS][VALUES];
    int group, turn;

    __device__ void join(float (&value)[VALUES])
    {
        const int lane = threadIdx.x % SG_WARP, warp = threadIdx.x % LANES / SG_WARP;
#pragma unroll
        for (int half = VALUES / 2, mask = SG_WARP / 2; half > 0; half /= 2, mask /= 2)
#pragma unroll
            for (int i = 0; i < half; i++) {
                bool upper = lane & mask;
                float other = __shfl_xor_sync(0xffffffffu, upper ? value[i] : value[i + half], mask);
                value[i] = (upper ? value[i + half] : value[i]) + other;
            }
        float one = value[0];
        one += __shfl_xor_sync(0xffffffffu, one, 2);
        one += __shfl_xor_sync(0xffffffffu, one, 1);
        if (lane % 4 == 0)
            room[turn][group][warp][lane / 4] = one;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < VALUES; i++) {
            value[i] = room[turn][group][0][i];
#pragma unroll
            for (int w = 1; w < WARPS; w++)
                value[i] += room[turn][group][w][i];
        }
        turn ^= 1;
    }
};

/* As layer_norm.cu has them; of rows behind the end 0, as without eps zeros have no deviation to divide by. */
__device__ static inline void find_statistics(const sg_cuda_norm &s, rows_held &rows, totals &t, int64_t first, int64_t end)
{
    float sum[VALUES] = {}, size = (float)SG_CUDA_NORM_USUAL;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < EACH; i++)
            sum[2 * r] += rows.x[r][i];
    t.join(sum);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float shift = s.centred ? sum[2 * r] / size : 0;
        rows.mean[r] = shift;
        sum[2 * r] = sum[2 * r + 1] = 0;
        for (int i = 0; i < EACH; i++) {
            float d = rows.x[r][i] - shift;
            sum[2 * r] += d;
            sum[2 * r + 1] += d * d;
        }
    }
    t.join(sum);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float off = s.centred ? sum[2 * r] / size : 0, variance = sum[2 * r + 1] / size - off * off;
        rows.mean[r] += off;
        rows.rstd[r] = first + r < end ? 1 / sqrtf((variance < 0 ? 0 : variance) + s.eps) : 0; /* NaN stays */
    }
}

__device__ static inline void load_gamma(float (&gamma)[EACH], const sg_cuda_norm &s, int column)
{
#pragma unroll
    for (int i = 0; i < EACH; i++)
        gamma[i] = !s.gamma          ? 1
                   : s.affine_bf16 ? sg_float(((const sg_bf16 *)s.gamma)[column + i])
                                   : ((const float *)s.gamma)[column + i];
}

__device__ static inline void reverse_rows(const sg_cuda_norm &s, const rows_held &rows, const float (&gamma)[EACH],
                                           totals &t, int64_t first, int64_t end, int column, float (&sums)[SUMS][EACH])
{
    float mean[VALUES] = {};
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            float u = (rows.x[r][i] - rows.mean[r]) * rows.rstd[r], g = rows.g[r][i], h = gamma[i] * g;
            mean[2 * r] += h;
            mean[2 * r + 1] += h * u;
            sums[TO_GAMMA][i] += g * u;
            sums[TO_BETA][i] += g;
        }
    if (!s.out)
        return;
    t.join(mean);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float size = (float)SG_CUDA_NORM_USUAL;
        float a = s.centred ? mean[2 * r] / size : 0, b = mean[2 * r + 1] / size, gx[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            float u = (rows.x[r][i] - rows.mean[r]) * rows.rstd[r];
            gx[i] = rows.rstd[r] * (gamma[i] * rows.g[r][i] - a - u * b);
            sums[TO_X][i] += gx[i];
        }
        if (first + r < end)
            sg_store((sg_bf16 *)s.out + (first + r) * SG_CUDA_NORM_USUAL + column, gx);
    }
}

/* The groups' sums joined in order, one row for the block. */
__device__ static inline void leave_sums(const sg_cuda_norm &s, float (*room)[SG_CUDA_NORM_USUAL], int group, int column,
                                         const float (&sums)[SUMS][EACH])
{
#pragma unroll
    for (int which = 0; which < SUMS; which++) {
        if (!(which == TO_GAMMA ? s.ggamma : which == TO_BETA ? s.gbeta : s.gsum))
            continue; /* the same for all blocks */
        sg_store(&room[group][column], sums[which]);
        __syncthreads();
        float *row = s.sums + (which * s.chunks + blockIdx.x) * s.n;
        for (int j = threadIdx.x; j < SG_CUDA_NORM_USUAL; j += THREADS) {
            float sum = room[0][j];
#pragma unroll
            for (int g = 1; g < GROUPS; g++)
                sum += room[g][j];
            row[j] = sum;
        }
        __syncthreads();
    }
}

__global__ void __launch_bounds__(THREADS, 1) layer_norm_reverse(sg_cuda_norm s)
{
    __shared__ float values[2][GROUPS][WARPS][VALUES];
    alignas(32) __shared__ float columns[GROUPS][SG_CUDA_NORM_USUAL];
    const int group = threadIdx.x / LANES, column = threadIdx.x % LANES * EACH;
    const int64_t begin = blockIdx.x * s.chunk, end = s.rows - begin < s.chunk ? s.rows : begin + s.chunk;
    totals t = {values, group, 0};
    rows_held rows, next;
    float gamma[EACH], sums[SUMS][EACH] = {};
    sg_wait();
    load_gamma(gamma, s, column);
    load(rows, s, begin + group * ROWS, end, column);
    for (int64_t at = begin; at < end; at += GROUPS * ROWS) {
        const int64_t first = at + group * ROWS;
        load(next, s, first + GROUPS * ROWS, end, column);
        if (!s.rstd)
            find_statistics(s, rows, t, first, end);
        reverse_rows(s, rows, gamma, t, first, end, column, sums);
        rows = next;
    }
    leave_sums(s, columns, group, column, sums);
}

extern "C" void sg_cuda_norm_reverse(const sg_cuda_norm *s, cudaStream_t stream)
{
    SG_CUDA_LAUNCH(layer_norm_reverse, (unsigned)s->chunks, THREADS, stream, *s);
}
