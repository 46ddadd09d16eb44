/* channel_norm.cu - batch and group normalisation and their derivatives. A row is what is normalised together: a channel of all
 * images, or some neighbouring channels of one. The formulas are those of layer normalisation (runtime/cpu/layer_norm.c, whose
 * names the sums below have), with a gamma that is one number for each channel. Rows are long, so they are cut into cells, a
 * team of threads each, and read twice: the first launch leaves sums of each cell, the second adds up those of the row, in order,
 * and makes the elements. Sums are of plain operands; gamma comes in with the second. A third adds up what belongs to gamma and beta.
 *
 * A variance is found from deviations from a number near the mean, that of the row's first elements, which all its cells find
 * alike. */
#include "runtime/cuda/channel_norm_internal.h"
#include "runtime/cuda/row.cuh"

enum { D, DD, SHIFT, SUMS_OF_VALUE };      /* d, d^2; what they are deviations from */
enum { ONLY_T, ONLY_TU, SUMS_OF_JVP };     /* t, t u */
enum { G, GU, SUMS_OF_VJP };               /* g, g u; of a row, with h for g */
enum { T_ = SUMS_OF_VJP, TU, GT, DG, DGU, SUMS_OF_SECOND }; /* after these t, t u, g t, dg, dg u */

/* The elements [first, end) of channel c that a team takes. */
struct cell {
    sg_team team;
    int64_t c, chunk, row, first, end;

    __device__ cell(const sg_cuda_channel_norm &s, int64_t number) : team(sg_team_of(s.team))
    {
        chunk = sg_divide(number, s.chunks, &c);
        row = c / s.together;
        first = chunk * s.chunk;
        int64_t all = s.images * s.size;
        end = all - first < s.chunk ? all : first + s.chunk;
    }
    /* f(where) for the first of each VEC elements of this thread. */
    template <int VEC, class F> __device__ void each(const sg_cuda_channel_norm &s, F f) const
    {
        for (int64_t i = first + team.lane * VEC; i < end; i += team.size * VEC) {
            int64_t image, at = sg_divide(i, s.size, &image);
            f((image * s.channels + c) * s.size + at);
        }
    }
};

/* Cells of this team: all threads of a block have as many turns if a block is one team. */
#define EACH_CELL(number, s)                                                                                           \
    for (int64_t number = (int64_t)blockIdx.x * (SG_BLOCK / (s).team) + threadIdx.x / (s).team;                        \
         number < (s).channels * (s).chunks; number += (int64_t)gridDim.x * (SG_BLOCK / (s).team))

/* Zeros without an operand. */
template <int VEC, class T> __device__ static inline sg_piece<T, VEC> piece_of(const void *operand, int64_t at)
{
    if (!operand)
        return {};
    return sg_load<VEC>((const T *)operand + at);
}

/* Of gamma or its like. */
__device__ static inline float number_of(const sg_cuda_channel_norm &s, const void *operand, int64_t at, float none)
{
    return !operand ? none : s.affine_bf16 ? sg_float(((const sg_bf16 *)operand)[at]) : ((const float *)operand)[at];
}

__device__ static inline void put_number(const sg_cuda_channel_norm &s, void *to, int64_t at, float value)
{
    if (to && s.affine_bf16)
        sg_round(value, (sg_bf16 *)to + at);
    else if (to)
        ((float *)to)[at] = value;
}

__device__ static inline float rstd_of(const sg_cuda_channel_norm &s, int64_t row)
{
    return s.spread_is_rstd ? s.spread[row] : 1 / sqrtf(s.spread[row] + s.eps);
}

__device__ static inline float elements_of_row(const sg_cuda_channel_norm &s)
{
    return (float)(s.together * s.images * s.size);
}

/* ------------------------------------------------------------------------------------------ from sums of a row to elements */

/* y = (x - mean) r gamma + beta. */
struct value_rule {
    enum { COUNT = SUMS_OF_VALUE };
    float mean, factor, beta;

    __device__ void begin(const sg_cuda_channel_norm &s, const cell &p, const float (&sum)[COUNT])
    {
        const float n = elements_of_row(s), off = sum[D] / n;
        float variance = sum[DD] / n - off * off;
        variance = variance < 0 ? 0 : variance; /* NaN stays */
        const float rstd = 1 / sqrtf(variance + s.eps);
        mean = sum[SHIFT] + off;
        factor = number_of(s, s.gamma, p.c % s.affine, 1) * rstd;
        beta = number_of(s, s.beta, p.c % s.affine, 0);
        if (p.c % s.together == 0 && p.chunk == 0 && p.team.lane == 0) {
            s.out_mean[p.row] = mean;
            s.out_spread[p.row] = s.spread_is_rstd ? rstd : variance;
        }
    }
    __device__ float at(float x, float, float, float) const { return (x - mean) * factor + beta; }
};

/* gx = r (h - mean h - u mean(h u)), h = gamma g. */
struct vjp_rule {
    enum { COUNT = SUMS_OF_VJP };
    float mean, rstd, gamma, h, hu;

    __device__ void begin(const sg_cuda_channel_norm &s, const cell &p, const float (&sum)[COUNT])
    {
        mean = s.mean[p.row];
        rstd = rstd_of(s, p.row);
        gamma = number_of(s, s.gamma, p.c % s.affine, 1);
        h = sum[G] / elements_of_row(s);
        hu = sum[GU] / elements_of_row(s);
    }
    __device__ float at(float x, float g, float, float) const
    {
        return rstd * (gamma * g - h - (x - mean) * rstd * hu);
    }
};

/* gamma du + tgamma u + tbeta with du = r (t - mean t - u mean(t u)); the variance moves by 2 mean(t u) / r, r by -r^2 mean(t u). */
struct jvp_rule {
    enum { COUNT = SUMS_OF_JVP };
    float mean, rstd, factor, t, tu, tgamma, tbeta;

    __device__ void begin(const sg_cuda_channel_norm &s, const cell &p, const float (&sum)[COUNT])
    {
        mean = s.mean[p.row];
        rstd = rstd_of(s, p.row);
        factor = number_of(s, s.gamma, p.c % s.affine, 1) * rstd;
        t = s.tx ? sum[ONLY_T] / elements_of_row(s) : 0;
        tu = s.tx ? sum[ONLY_TU] / elements_of_row(s) : 0;
        tgamma = number_of(s, s.tgamma, p.c % s.affine, 0);
        tbeta = number_of(s, s.tbeta, p.c % s.affine, 0);
        if (p.c % s.together == 0 && p.chunk == 0 && p.team.lane == 0) {
            s.out_mean[p.row] = t;
            s.out_spread[p.row] = s.spread_is_rstd ? -rstd * rstd * tu : 2 * tu / rstd;
        }
    }
    __device__ float at(float x, float, float tx, float) const
    {
        const float u = (x - mean) * rstd;
        return factor * (tx - t - u * tu) + tgamma * u + tbeta;
    }
};

/* The tangent of gx. Means of t and t u are kept for the tangent of ggamma. */
struct second_rule {
    enum { COUNT = SUMS_OF_SECOND };
    float mean, rstd, gamma, dgamma, h, hu, t, tu, dh, db;

    __device__ void begin(const sg_cuda_channel_norm &s, const cell &p, const float (&sum)[COUNT])
    {
        const float n = elements_of_row(s);
        mean = s.mean[p.row];
        rstd = rstd_of(s, p.row);
        gamma = number_of(s, s.gamma, p.c % s.affine, 1);
        dgamma = number_of(s, s.tgamma, p.c % s.affine, 0);
        h = sum[G] / n;
        hu = sum[GU] / n;
        t = sum[T_] / n;
        tu = sum[TU] / n;
        dh = sum[DG] / n;
        db = sum[DGU] / n + rstd * (sum[GT] / n - t * h - tu * hu);
        if (p.c % s.together == 0 && p.chunk == 0 && p.team.lane == 0) {
            s.means[p.row] = t;
            s.means[s.channels / s.together + p.row] = tu;
        }
    }
    __device__ float at(float x, float g, float tx, float dg) const
    {
        const float u = (x - mean) * rstd, du = rstd * (tx - t - u * tu);
        return rstd * (gamma * dg + dgamma * g - dh - du * hu - u * db - rstd * tu * (gamma * g - h - u * hu));
    }
};

template <sg_cuda_channel_kind KIND> struct rule_of;
template <> struct rule_of<SG_CUDA_CHANNEL> : value_rule {};
template <> struct rule_of<SG_CUDA_CHANNEL_VJP> : vjp_rule {};
template <> struct rule_of<SG_CUDA_CHANNEL_JVP> : jvp_rule {};
template <> struct rule_of<SG_CUDA_CHANNEL_VJP_JVP> : second_rule {};

/* ------------------------------------------------------------------------------------------------------ sums of a cell */

/* The mean of the first elements of a row, one piece a thread. */
template <class T, int VEC>
__device__ static inline float shift_of(const sg_cuda_channel_norm &s, const cell &p, float *room)
{
    float sum[2] = {0, 0};
    cell head = p;
    head.c = p.row * s.together;
    head.first = 0;
    head.end = s.images * s.size < p.team.size * VEC ? s.images * s.size : p.team.size * VEC;
    head.each<VEC>(s, [&](int64_t at) {
        sg_piece<T, VEC> x = sg_load<VEC>((const T *)s.x + at);
#pragma unroll
        for (int i = 0; i < VEC; i++)
            sum[0] += x[i];
        sum[1] += VEC;
    });
    sg_team_sum(p.team, sum, room);
    return sum[0] / sum[1];
}

template <class T, int VEC, sg_cuda_channel_kind KIND>
__global__ void __launch_bounds__(SG_BLOCK) channel_norm_sums(sg_cuda_channel_norm s)
{
    enum { COUNT = rule_of<KIND>::COUNT };
    __shared__ float room[SG_WARPS * SUMS_OF_SECOND];
    EACH_CELL(number, s)
    {
        const cell p(s, number);
        float sum[COUNT] = {};
        float mean, rstd = 1;
        if (KIND == SG_CUDA_CHANNEL) {
            mean = shift_of<T, VEC>(s, p, room);
        } else {
            mean = s.mean[p.row];
            rstd = rstd_of(s, p.row);
        }
        p.each<VEC>(s, [&](int64_t at) {
            const sg_piece<T, VEC> x = sg_load<VEC>((const T *)s.x + at);
            const sg_piece<T, VEC> g = piece_of<VEC, T>(s.g, at), t = piece_of<VEC, T>(s.tx, at),
                                   dg = piece_of<VEC, T>(s.tg, at);
#pragma unroll
            for (int i = 0; i < VEC; i++) {
                const float u = (x[i] - mean) * rstd;
                if constexpr (KIND == SG_CUDA_CHANNEL) {
                    sum[D] += u;
                    sum[DD] += u * u;
                } else if constexpr (KIND == SG_CUDA_CHANNEL_JVP) {
                    sum[ONLY_T] += t[i];
                    sum[ONLY_TU] += t[i] * u;
                } else {
                    sum[G] += g[i];
                    sum[GU] += g[i] * u;
                }
                if constexpr (KIND == SG_CUDA_CHANNEL_VJP_JVP) {
                    sum[T_] += t[i];
                    sum[TU] += t[i] * u;
                    sum[GT] += g[i] * t[i];
                    sum[DG] += dg[i];
                    sum[DGU] += dg[i] * u;
                }
            }
        });
        sg_team_sum(p.team, sum, room);
        if (KIND == SG_CUDA_CHANNEL)
            sum[COUNT - 1] = mean; /* SHIFT */
        if (p.team.lane == 0)
            for (int q = 0; q < COUNT; q++)
                s.sums[q * s.channels * s.chunks + number] = sum[q];
    }
}

/* -------------------------------------------------------------------------------------------------------------- elements */

/* The sums of a row: each warp adds up those of all its cells. Sums of g become such of h = gamma g, those of dg such of
 * dh = gamma dg + dgamma g; SHIFT is the same in all. */
template <sg_cuda_channel_kind KIND>
__device__ static inline void add_cells(const sg_cuda_channel_norm &s, int64_t row,
                                        float (&sum)[rule_of<KIND>::COUNT])
{
    enum { COUNT = rule_of<KIND>::COUNT };
    const int64_t cells = s.together * s.chunks, first = row * cells, plane = s.channels * s.chunks;
    for (int q = 0; q < COUNT; q++)
        sum[q] = 0;
    for (int64_t k = threadIdx.x % SG_WARP; k < cells; k += SG_WARP) {
        float part[COUNT];
#pragma unroll
        for (int q = 0; q < COUNT; q++)
            part[q] = s.sums[q * plane + first + k];
        if constexpr (KIND == SG_CUDA_CHANNEL_VJP || KIND == SG_CUDA_CHANNEL_VJP_JVP) {
            const int64_t c = (row * s.together + k / s.chunks) % s.affine;
            const float gamma = number_of(s, s.gamma, c, 1);
            if constexpr (KIND == SG_CUDA_CHANNEL_VJP_JVP) {
                const float dgamma = number_of(s, s.tgamma, c, 0);
                part[GT] *= gamma;
                part[DG] = gamma * part[DG] + dgamma * part[G];
                part[DGU] = gamma * part[DGU] + dgamma * part[GU];
            }
            part[G] *= gamma;
            part[GU] *= gamma;
        }
#pragma unroll
        for (int q = 0; q < COUNT; q++)
            sum[q] += part[q];
    }
    sg_team_sum(sg_team_of(SG_WARP), sum, NULL);
    if constexpr (KIND == SG_CUDA_CHANNEL)
        sum[SHIFT] = s.sums[SHIFT * plane + first];
}

template <class T, int VEC, sg_cuda_channel_kind KIND>
__global__ void __launch_bounds__(SG_BLOCK) channel_norm_elements(sg_cuda_channel_norm s)
{
    EACH_CELL(number, s)
    {
        const cell p(s, number);
        float sum[rule_of<KIND>::COUNT];
        rule_of<KIND> rule;
        add_cells<KIND>(s, p.row, sum);
        rule.begin(s, p, sum);
        if (!s.out)
            continue;
        p.each<VEC>(s, [&](int64_t at) {
            const sg_piece<T, VEC> x = sg_load<VEC>((const T *)s.x + at);
            const sg_piece<T, VEC> g = piece_of<VEC, T>(s.g, at), t = piece_of<VEC, T>(s.tx, at),
                                   dg = piece_of<VEC, T>(s.tg, at);
            float y[VEC];
#pragma unroll
            for (int i = 0; i < VEC; i++)
                y[i] = rule.at(x[i], g[i], t[i], dg[i]);
            sg_store((T *)s.out + at, y);
        });
    }
}

/* A warp for each gamma and beta: ggamma = sum of g u and gbeta = sum of g; their tangents are sums of dg u + g du and of dg. */
template <bool SECOND> __global__ void channel_norm_affine(sg_cuda_channel_norm s)
{
    const int64_t plane = s.channels * s.chunks, rows = s.channels / s.together, cells = plane / s.affine;
    for (int64_t a = sg_first() / SG_WARP; a < s.affine; a += sg_stride() / SG_WARP) {
        float sum[2] = {0, 0};
        for (int64_t k = threadIdx.x % SG_WARP; k < cells; k += SG_WARP) {
            const int64_t c = a + k / s.chunks * s.affine;
            const float *at = s.sums + c * s.chunks + k % s.chunks;
            float to_gamma = at[GU * plane], to_beta = at[G * plane];
            if constexpr (SECOND) {
                const int64_t row = c / s.together;
                const float t = s.means[row], tu = s.means[rows + row];
                to_gamma = at[DGU * plane] + rstd_of(s, row) * (at[GT * plane] - t * to_beta - tu * to_gamma);
                to_beta = at[DG * plane];
            }
            sum[0] += to_gamma;
            sum[1] += to_beta;
        }
        sg_team_sum(sg_team_of(SG_WARP), sum, NULL);
        if (threadIdx.x % SG_WARP != 0)
            continue;
        put_number(s, s.ggamma, a, sum[0]);
        put_number(s, s.gbeta, a, sum[1]);
    }
}

/* -------------------------------------------------------------------------------------------------------------- launches */

template <class T, int VEC, sg_cuda_channel_kind KIND>
static void run(const sg_cuda_channel_norm &s, cudaStream_t stream)
{
    const unsigned blocks = sg_blocks(s.channels * s.chunks, SG_BLOCK / s.team);
    SG_CUDA_LAUNCH((channel_norm_sums<T, VEC, KIND>), blocks, SG_BLOCK, stream, s);
    SG_CUDA_LAUNCH((channel_norm_elements<T, VEC, KIND>), blocks, SG_BLOCK, stream, s);
    if (s.ggamma || s.gbeta)
        SG_CUDA_LAUNCH((channel_norm_affine<KIND == SG_CUDA_CHANNEL_VJP_JVP>), sg_blocks(s.affine, SG_WARPS),
                       SG_BLOCK, stream, s);
}

template <class T, int VEC> static void run_kind(const sg_cuda_channel_norm &s, cudaStream_t stream)
{
    if (s.kind == SG_CUDA_CHANNEL)
        run<T, VEC, SG_CUDA_CHANNEL>(s, stream);
    else if (s.kind == SG_CUDA_CHANNEL_VJP)
        run<T, VEC, SG_CUDA_CHANNEL_VJP>(s, stream);
    else if (s.kind == SG_CUDA_CHANNEL_JVP)
        run<T, VEC, SG_CUDA_CHANNEL_JVP>(s, stream);
    else
        run<T, VEC, SG_CUDA_CHANNEL_VJP_JVP>(s, stream);
}

template <class T> static void run_type(const sg_cuda_channel_norm &s, cudaStream_t stream)
{
    if (s.size % sg_wide<T>::VEC == 0)
        run_kind<T, sg_wide<T>::VEC>(s, stream);
    else
        run_kind<T, 1>(s, stream);
}

extern "C" void sg_cuda_channel_run(const sg_cuda_channel_norm *s, cudaStream_t stream)
{
    if (s->bf16)
        run_type<sg_bf16>(*s, stream);
    else
        run_type<float>(*s, stream);
}
