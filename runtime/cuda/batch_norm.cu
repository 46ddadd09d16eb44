/* batch_norm.cu - batch normalisation and its derivatives. A channel is a row of layer normalisation whose elements lie in all images
 * and whose gamma is one number, so the formulas are those of runtime/cpu/layer_norm.c, whose names the sums below have; but it is
 * long, so it is cut into chunks, a block each, and read twice: the first launch leaves sums of every chunk, the second adds up those
 * of its channel, in order, and makes the elements. Sums are of plain operands, gamma comes in with the second.
 *
 * A variance is found from deviations from a number near the mean, that of the channel's first elements, which all its chunks find
 * alike. */
#include "runtime/cuda/batch_norm_internal.h"
#include "runtime/cuda/row.cuh"

enum { D, DD, SHIFT, SUMS_OF_VALUE };                                         /* d, d^2; what they are deviations from */
enum { ONLY_T, ONLY_TU, SUMS_OF_JVP };                                        /* t, t u */
enum { G, GU, SUMS_OF_VJP, T_ = SUMS_OF_VJP, TU, GT, DG, DGU, SUMS_OF_SECOND }; /* g, g u; and t, t u, g t, dg, dg u */

/* The elements [first, end) of channel c that a block takes. */
struct part {
    int64_t c, chunk, first, end;

    __device__ part(const sg_cuda_batch &s, int64_t block)
    {
        chunk = sg_divide(block, s.chunks, &c);
        first = chunk * s.chunk;
        int64_t all = s.images * s.size;
        end = all - first < s.chunk ? all : first + s.chunk;
    }
    /* f(where) for the first of each VEC elements of this thread. */
    template <int VEC, class F> __device__ void each(const sg_cuda_batch &s, F f) const
    {
        for (int64_t i = first + threadIdx.x * VEC; i < end; i += SG_BLOCK * VEC) {
            int64_t image, at = sg_divide(i, s.size, &image);
            f((image * s.channels + c) * s.size + at);
        }
    }
};

/* Zeros without an operand. */
template <int VEC, class T> __device__ static inline sg_piece<T, VEC> piece_of(const void *operand, int64_t at)
{
    if (!operand)
        return {};
    return sg_load<VEC>((const T *)operand + at);
}

template <class T> __device__ static inline float number_of(const void *operand, int64_t c, float none)
{
    return operand ? sg_float(((const T *)operand)[c]) : none;
}

template <class T> __device__ static inline void put_number(void *to, int64_t c, float value)
{
    if (to)
        sg_round(value, (T *)to + c);
}

/* ------------------------------------------------------------------------------------ from sums of a channel to elements */

/* y = (x - mean) r gamma + beta. */
struct value_rule {
    enum { COUNT = SUMS_OF_VALUE };
    float mean, factor, beta;

    template <class T> __device__ void begin(const sg_cuda_batch &s, const part &p, const float (&sum)[COUNT])
    {
        const float n = (float)(s.images * s.size), off = sum[D] / n;
        float variance = sum[DD] / n - off * off;
        variance = variance < 0 ? 0 : variance; /* NaN stays */
        mean = sum[SHIFT] + off;
        factor = number_of<T>(s.gamma, p.c, 1) / sqrtf(variance + s.eps);
        beta = number_of<T>(s.beta, p.c, 0);
        if (p.chunk == 0 && threadIdx.x == 0) {
            s.out_mean[p.c] = mean;
            s.out_variance[p.c] = variance;
        }
    }
    __device__ float at(float x, float, float, float) const { return (x - mean) * factor + beta; }
};

/* gx = gamma r (g - mean g - u mean(g u)). */
struct vjp_rule {
    enum { COUNT = SUMS_OF_VJP };
    float mean, rstd, factor, of_g, of_gu;

    template <class T> __device__ void begin(const sg_cuda_batch &s, const part &p, const float (&sum)[COUNT])
    {
        const float n = (float)(s.images * s.size);
        mean = s.mean[p.c];
        rstd = 1 / sqrtf(s.variance[p.c] + s.eps);
        factor = number_of<T>(s.gamma, p.c, 1) * rstd;
        of_g = sum[G] / n;
        of_gu = sum[GU] / n;
        if (p.chunk == 0 && threadIdx.x == 0) {
            put_number<T>(s.ggamma, p.c, sum[GU]);
            put_number<T>(s.gbeta, p.c, sum[G]);
        }
    }
    __device__ float at(float x, float g, float, float) const
    {
        return factor * (g - of_g - (x - mean) * rstd * of_gu);
    }
};

/* gamma du + tgamma u + tbeta with du = r (t - mean t - u mean(t u)); the variance moves by 2 mean(t (x - m)). */
struct jvp_rule {
    enum { COUNT = SUMS_OF_JVP };
    float mean, rstd, factor, of_t, of_tu, tgamma, tbeta;

    template <class T> __device__ void begin(const sg_cuda_batch &s, const part &p, const float (&sum)[COUNT])
    {
        const float n = (float)(s.images * s.size);
        mean = s.mean[p.c];
        rstd = 1 / sqrtf(s.variance[p.c] + s.eps);
        factor = number_of<T>(s.gamma, p.c, 1) * rstd;
        of_t = s.tx ? sum[ONLY_T] / n : 0;
        of_tu = s.tx ? sum[ONLY_TU] / n : 0;
        tgamma = number_of<T>(s.tgamma, p.c, 0);
        tbeta = number_of<T>(s.tbeta, p.c, 0);
        if (p.chunk == 0 && threadIdx.x == 0) {
            s.out_mean[p.c] = of_t;
            s.out_variance[p.c] = 2 * of_tu / rstd;
        }
    }
    __device__ float at(float x, float, float t, float) const
    {
        const float u = (x - mean) * rstd;
        return factor * (t - of_t - u * of_tu) + tgamma * u + tbeta;
    }
};

/* The tangent of gx; those of ggamma = sum g u and gbeta = sum g. */
struct second_rule {
    enum { COUNT = SUMS_OF_SECOND };
    float mean, rstd, gamma, dgamma, h, hu, t, tu, dh, db;

    template <class T> __device__ void begin(const sg_cuda_batch &s, const part &p, const float (&sum)[COUNT])
    {
        const float n = (float)(s.images * s.size);
        mean = s.mean[p.c];
        rstd = 1 / sqrtf(s.variance[p.c] + s.eps);
        gamma = number_of<T>(s.gamma, p.c, 1);
        dgamma = number_of<T>(s.tgamma, p.c, 0);
        h = gamma * sum[G] / n;
        hu = gamma * sum[GU] / n;
        t = sum[T_] / n;
        tu = sum[TU] / n;
        dh = (gamma * sum[DG] + dgamma * sum[G]) / n;
        const float gdu = rstd * (sum[GT] - t * sum[G] - tu * sum[GU]); /* sum of g du */
        db = (gamma * sum[DGU] + dgamma * sum[GU] + gamma * gdu) / n;
        if (p.chunk == 0 && threadIdx.x == 0) {
            put_number<T>(s.ggamma, p.c, sum[DGU] + gdu);
            put_number<T>(s.gbeta, p.c, sum[DG]);
        }
    }
    __device__ float at(float x, float g, float tx, float dg) const
    {
        const float u = (x - mean) * rstd, du = rstd * (tx - t - u * tu);
        return rstd * (gamma * dg + dgamma * g - dh - du * hu - u * db - rstd * tu * (gamma * g - h - u * hu));
    }
};

template <sg_cuda_batch_kind KIND> struct rule_of;
template <> struct rule_of<SG_CUDA_BATCH> : value_rule {};
template <> struct rule_of<SG_CUDA_BATCH_VJP> : vjp_rule {};
template <> struct rule_of<SG_CUDA_BATCH_JVP> : jvp_rule {};
template <> struct rule_of<SG_CUDA_BATCH_VJP_JVP> : second_rule {};

/* ----------------------------------------------------------------------------------------------------- sums of a chunk */

/* The mean of the first elements of a channel, one piece a thread. */
template <class T, int VEC> __device__ static inline float shift_of(const sg_cuda_batch &s, const part &p, float *room)
{
    float sum[2] = {0, 0};
    part head = p;
    head.first = 0;
    head.end = s.images * s.size < SG_BLOCK * VEC ? s.images * s.size : SG_BLOCK * VEC;
    head.each<VEC>(s, [&](int64_t at) {
        sg_piece<T, VEC> x = sg_load<VEC>((const T *)s.x + at);
#pragma unroll
        for (int i = 0; i < VEC; i++)
            sum[0] += x[i];
        sum[1] += VEC;
    });
    sg_team_sum(sg_team_of(SG_BLOCK), sum, room);
    return sum[0] / sum[1];
}

template <class T, int VEC, sg_cuda_batch_kind KIND>
__global__ void __launch_bounds__(SG_BLOCK) batch_norm_sums(sg_cuda_batch s)
{
    enum { COUNT = rule_of<KIND>::COUNT };
    __shared__ float room[SG_WARPS * SUMS_OF_SECOND];
    for (int64_t block = blockIdx.x; block < s.channels * s.chunks; block += gridDim.x) {
        const part p(s, block);
        float sum[COUNT] = {};
        float mean, rstd = 1;
        if (KIND == SG_CUDA_BATCH) {
            mean = shift_of<T, VEC>(s, p, room);
        } else {
            mean = s.mean[p.c];
            rstd = 1 / sqrtf(s.variance[p.c] + s.eps);
        }
        p.each<VEC>(s, [&](int64_t at) {
            const sg_piece<T, VEC> x = sg_load<VEC>((const T *)s.x + at);
            const sg_piece<T, VEC> g = piece_of<VEC, T>(s.g, at), t = piece_of<VEC, T>(s.tx, at),
                                   dg = piece_of<VEC, T>(s.tg, at);
#pragma unroll
            for (int i = 0; i < VEC; i++) {
                const float u = (x[i] - mean) * rstd;
                if constexpr (KIND == SG_CUDA_BATCH) {
                    sum[D] += u;
                    sum[DD] += u * u;
                } else if constexpr (KIND == SG_CUDA_BATCH_VJP) {
                    sum[G] += g[i];
                    sum[GU] += g[i] * u;
                } else if constexpr (KIND == SG_CUDA_BATCH_JVP) {
                    sum[ONLY_T] += t[i];
                    sum[ONLY_TU] += t[i] * u;
                } else {
                    sum[G] += g[i];
                    sum[GU] += g[i] * u;
                    sum[T_] += t[i];
                    sum[TU] += t[i] * u;
                    sum[GT] += g[i] * t[i];
                    sum[DG] += dg[i];
                    sum[DGU] += dg[i] * u;
                }
            }
        });
        sg_team_sum(sg_team_of(SG_BLOCK), sum, room);
        if (KIND == SG_CUDA_BATCH)
            sum[COUNT - 1] = mean; /* SHIFT */
        if (threadIdx.x == 0)
            for (int q = 0; q < COUNT; q++)
                s.sums[(q * s.channels + p.c) * s.chunks + p.chunk] = sum[q];
    }
}

/* ------------------------------------------------------------------------------------------------------------- elements */

/* The sums of a channel: a warp adds up those of one kind. SHIFT is the same in all chunks. */
template <sg_cuda_batch_kind KIND>
__device__ static inline void add_chunks(const sg_cuda_batch &s, int64_t c, float (&sum)[rule_of<KIND>::COUNT],
                                         float *room)
{
    enum { COUNT = rule_of<KIND>::COUNT };
    const int warp = threadIdx.x / SG_WARP, lane = threadIdx.x % SG_WARP;
    if (warp < COUNT) {
        const float *from = s.sums + (warp * s.channels + c) * s.chunks;
        float all[1] = {0};
        for (int64_t k = lane; k < s.chunks; k += SG_WARP)
            all[0] += from[k];
        sg_team_sum(sg_team_of(SG_WARP), all, room);
        if (lane == 0)
            room[warp] = KIND == SG_CUDA_BATCH && warp == SHIFT ? from[0] : all[0];
    }
    __syncthreads();
    for (int q = 0; q < COUNT; q++)
        sum[q] = room[q];
    __syncthreads();
}

template <class T, int VEC, sg_cuda_batch_kind KIND>
__global__ void __launch_bounds__(SG_BLOCK) batch_norm_elements(sg_cuda_batch s)
{
    __shared__ float room[SG_WARPS];
    for (int64_t block = blockIdx.x; block < s.channels * s.chunks; block += gridDim.x) {
        const part p(s, block);
        float sum[rule_of<KIND>::COUNT];
        rule_of<KIND> rule;
        add_chunks<KIND>(s, p.c, sum, room);
        rule.template begin<T>(s, p, sum);
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

/* -------------------------------------------------------------------------------------------------------------- launches */

template <class T, int VEC, sg_cuda_batch_kind KIND> static void run(const sg_cuda_batch &s, cudaStream_t stream)
{
    const unsigned blocks = sg_blocks(s.channels * s.chunks, 1);
    SG_CUDA_LAUNCH((batch_norm_sums<T, VEC, KIND>), blocks, SG_BLOCK, stream, s);
    SG_CUDA_LAUNCH((batch_norm_elements<T, VEC, KIND>), blocks, SG_BLOCK, stream, s);
}

template <class T, int VEC> static void run_kind(const sg_cuda_batch &s, cudaStream_t stream)
{
    if (s.kind == SG_CUDA_BATCH)
        run<T, VEC, SG_CUDA_BATCH>(s, stream);
    else if (s.kind == SG_CUDA_BATCH_VJP)
        run<T, VEC, SG_CUDA_BATCH_VJP>(s, stream);
    else if (s.kind == SG_CUDA_BATCH_JVP)
        run<T, VEC, SG_CUDA_BATCH_JVP>(s, stream);
    else
        run<T, VEC, SG_CUDA_BATCH_VJP_JVP>(s, stream);
}

template <class T> static void run_type(const sg_cuda_batch &s, cudaStream_t stream)
{
    if (s.size % sg_wide<T>::VEC == 0)
        run_kind<T, sg_wide<T>::VEC>(s, stream);
    else
        run_kind<T, 1>(s, stream);
}

extern "C" void sg_cuda_batch_run(const sg_cuda_batch *s, cudaStream_t stream)
{
    if (s->bf16)
        run_type<sg_bf16>(*s, stream);
    else
        run_type<float>(*s, stream);
}
