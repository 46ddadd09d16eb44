/* layer_norm.cu - layer normalisation and its derivatives; the formulas are those of runtime/cpu/layer_norm.c, whose names the
 * sums below have.
 *
 * Every operand of a row is read once and held in registers. Where sums over rows are wanted (gradients of gamma and beta), a
 * block adds up its rows in registers, joins its teams in order and leaves one row for each block; these are added in a second
 * launch. The cut into blocks depends on shapes alone. */
#include "runtime/cuda/layer_norm_internal.h"
#include "runtime/cuda/row.cuh"

enum { TO_GAMMA, TO_BETA };
/* Means over a row. */
enum { H, HU, SUMS_OF_VJP, T_ = SUMS_OF_VJP, TU, HT, DH, DHU, SUMS_OF_SECOND };

/* How a row is cut: elements of a piece, pieces of a thread. Sums over rows take registers by what a thread may hold, and the
 * smaller cut, of rows of 768 = 32 24 elements, leaves room for two blocks. */
template <class T, int MOST> struct pieces {
    enum { VEC = sg_wide<T>::VEC, HOLD = MOST / VEC };
};
struct single {
    enum { VEC = 1, HOLD = 16 };
};
enum { FEW = 24, MANY = 32 };

template <class P, class F> __device__ static inline void each(sg_team team, int n, F f)
{
#pragma unroll
    for (int k = 0; k < P::HOLD; k++) {
        int at = (k * team.size + team.lane) * P::VEC;
        if (at < n)
            f(k, at);
    }
}

/* What this thread holds of a row; without `rows` zeros. */
template <class T, class P> struct held {
    sg_piece<T, P::VEC> piece[P::HOLD];

    __device__ void load(const void *rows, int64_t r, sg_team team, int n, int64_t width)
    {
        const T *row = (const T *)rows + r * width;
        each<P>(team, n, [&](int k, int at) {
            if (rows)
                piece[k] = sg_load<P::VEC>(row + at);
            else
                piece[k] = {};
        });
    }
};

/* Elements `at`... of gamma or its like. */
template <int VEC>
__device__ static inline void affine(const void *row, bool bf16, bool number, int at, float none, float (&value)[VEC])
{
    if (!row || number) {
        float all = !row ? none : bf16 ? sg_float(*(const sg_bf16 *)row) : *(const float *)row;
#pragma unroll
        for (int i = 0; i < VEC; i++)
            value[i] = all;
    } else if (bf16) {
        sg_piece<sg_bf16, VEC> p = sg_load<VEC>((const sg_bf16 *)row + at);
#pragma unroll
        for (int i = 0; i < VEC; i++)
            value[i] = p[i];
    } else {
        sg_piece<float, VEC> p = sg_load<VEC>((const float *)row + at);
#pragma unroll
        for (int i = 0; i < VEC; i++)
            value[i] = p[i];
    }
}

template <int VEC> __device__ static inline void gamma_at(const sg_cuda_norm &s, int at, float (&value)[VEC])
{
    affine(s.gamma, s.affine_bf16, s.gamma_number, at, 1, value);
}

struct statistics {
    float mean, rstd;
};

/* The deviations from the mean, which would sum up to 0 without rounding, correct it (Chan, Golub and LeVeque 1983). */
template <class T, class P>
__device__ static inline statistics find_statistics(const sg_cuda_norm &s, sg_team team, int n, const held<T, P> &x,
                                                    float *room)
{
    float sum[1] = {0}, rest[2] = {0, 0}, size = (float)s.n;
    each<P>(team, n, [&](int k, int) {
#pragma unroll
        for (int i = 0; i < P::VEC; i++)
            sum[0] += x.piece[k][i];
    });
    sg_team_sum(team, sum, room);
    float shift = sum[0] / size;
    each<P>(team, n, [&](int k, int) {
#pragma unroll
        for (int i = 0; i < P::VEC; i++) {
            float d = x.piece[k][i] - shift;
            rest[0] += d;
            rest[1] += d * d;
        }
    });
    sg_team_sum(team, rest, room);
    float off = rest[0] / size, variance = rest[1] / size - off * off;
    variance = variance < 0 ? 0 : variance; /* NaN stays */
    return {shift + off, 1 / sqrtf(variance + s.eps)};
}

template <class T, class P>
__device__ static inline statistics known_statistics(const sg_cuda_norm &s, sg_team team, int n, int64_t r, bool live,
                                                     const held<T, P> &x, float *room)
{
    if (!s.mean)
        return find_statistics(s, team, n, x, room);
    return live ? statistics{s.mean[r], s.rstd[r]} : statistics{0, 0};
}

/* ------------------------------------------------------------------------------------------------- one row of each */

template <class T, class P>
__device__ static inline void forward_row(const sg_cuda_norm &s, sg_team team, int n, int64_t r, bool live, float *room)
{
    held<T, P> x;
    x.load(s.x, r, team, n, s.n);
    statistics m = find_statistics(s, team, n, x, room);
    each<P>(team, n, [&](int k, int at) {
        float gamma[P::VEC], y[P::VEC];
        gamma_at(s, at, gamma);
        affine(s.beta, s.affine_bf16, s.beta_number, at, 0, y);
#pragma unroll
        for (int i = 0; i < P::VEC; i++)
            y[i] += (x.piece[k][i] - m.mean) * m.rstd * gamma[i];
        sg_store((T *)s.out + r * s.n + at, y);
    });
    if (live && team.lane == 0) {
        s.out_mean[r] = m.mean;
        s.out_rstd[r] = m.rstd;
    }
}

template <class T, class P, bool SUMS>
__device__ static inline void vjp_row(const sg_cuda_norm &s, sg_team team, int n, int64_t r, bool live, float *room,
                                      float (&sums)[2][P::HOLD][P::VEC])
{
    held<T, P> x, g;
    x.load(s.x, r, team, n, s.n);
    g.load(s.g, r, team, n, s.n);
    statistics m = known_statistics(s, team, n, r, live, x, room);
    float mean[SUMS_OF_VJP] = {0, 0};
    each<P>(team, n, [&](int k, int at) {
        float gamma[P::VEC];
        gamma_at(s, at, gamma);
#pragma unroll
        for (int i = 0; i < P::VEC; i++) {
            float u = (x.piece[k][i] - m.mean) * m.rstd, g_at = g.piece[k][i];
            mean[H] += gamma[i] * g_at;
            mean[HU] += gamma[i] * g_at * u;
            if (SUMS) {
                sums[TO_GAMMA][k][i] += g_at * u;
                sums[TO_BETA][k][i] += g_at;
            }
        }
    });
    if (!s.out)
        return;
    sg_team_sum(team, mean, room);
    float a = mean[H] / (float)s.n, b = mean[HU] / (float)s.n;
    each<P>(team, n, [&](int k, int at) {
        float gamma[P::VEC], gx[P::VEC];
        gamma_at(s, at, gamma);
#pragma unroll
        for (int i = 0; i < P::VEC; i++) {
            float u = (x.piece[k][i] - m.mean) * m.rstd;
            gx[i] = m.rstd * (gamma[i] * g.piece[k][i] - a - u * b);
        }
        sg_store((T *)s.out + r * s.n + at, gx);
    });
}

template <class T, class P>
__device__ static inline void jvp_row(const sg_cuda_norm &s, sg_team team, int n, int64_t r, bool live, float *room)
{
    held<T, P> x, t;
    x.load(s.x, r, team, n, s.n);
    t.load(s.tx, r, team, n, s.n);
    statistics m = known_statistics(s, team, n, r, live, x, room);
    float mean[2] = {0, 0}; /* t, t u */
    each<P>(team, n, [&](int k, int) {
#pragma unroll
        for (int i = 0; i < P::VEC; i++) {
            mean[0] += t.piece[k][i];
            mean[1] += t.piece[k][i] * ((x.piece[k][i] - m.mean) * m.rstd);
        }
    });
    if (s.tx) {
        sg_team_sum(team, mean, room);
        mean[0] /= (float)s.n;
        mean[1] /= (float)s.n;
    }
    each<P>(team, n, [&](int k, int at) {
        float gamma[P::VEC], tgamma[P::VEC], y[P::VEC];
        gamma_at(s, at, gamma);
        affine(s.tgamma, s.affine_bf16, s.gamma_number, at, 0, tgamma);
        affine(s.tbeta, s.affine_bf16, s.beta_number, at, 0, y);
#pragma unroll
        for (int i = 0; i < P::VEC; i++) {
            float u = (x.piece[k][i] - m.mean) * m.rstd;
            y[i] += gamma[i] * (m.rstd * (t.piece[k][i] - mean[0] - u * mean[1])) + tgamma[i] * u;
        }
        sg_store((T *)s.out + r * s.n + at, y);
    });
    if (live && team.lane == 0) {
        s.out_mean[r] = mean[0];
        s.out_rstd[r] = s.tx ? -m.rstd * m.rstd * mean[1] : 0;
    }
}

template <class T, class P, bool SUMS>
__device__ static inline void second_row(const sg_cuda_norm &s, sg_team team, int n, int64_t r, bool live, float *room,
                                         float (&sums)[2][P::HOLD][P::VEC])
{
    held<T, P> x, g, t, dg;
    x.load(s.x, r, team, n, s.n);
    g.load(s.g, r, team, n, s.n);
    t.load(s.tx, r, team, n, s.n);
    dg.load(s.tg, r, team, n, s.n);
    statistics m = known_statistics(s, team, n, r, live, x, room);
    float mean[SUMS_OF_SECOND] = {0, 0, 0, 0, 0, 0, 0};
    each<P>(team, n, [&](int k, int at) {
        float gamma[P::VEC], dgamma[P::VEC];
        gamma_at(s, at, gamma);
        affine(s.tgamma, s.affine_bf16, s.gamma_number, at, 0, dgamma);
#pragma unroll
        for (int i = 0; i < P::VEC; i++) {
            float u = (x.piece[k][i] - m.mean) * m.rstd, g_at = g.piece[k][i], t_at = t.piece[k][i];
            float h = gamma[i] * g_at, dh = gamma[i] * dg.piece[k][i] + dgamma[i] * g_at;
            mean[H] += h;
            mean[HU] += h * u;
            mean[T_] += t_at;
            mean[TU] += t_at * u;
            mean[HT] += h * t_at;
            mean[DH] += dh;
            mean[DHU] += dh * u;
        }
    });
    sg_team_sum(team, mean, room);
#pragma unroll
    for (int i = 0; i < SUMS_OF_SECOND; i++)
        mean[i] /= (float)s.n;
    float hdu = m.rstd * (mean[HT] - mean[T_] * mean[H] - mean[TU] * mean[HU]), db = mean[DHU] + hdu;
    each<P>(team, n, [&](int k, int at) {
        float gamma[P::VEC], dgamma[P::VEC], gx[P::VEC];
        gamma_at(s, at, gamma);
        affine(s.tgamma, s.affine_bf16, s.gamma_number, at, 0, dgamma);
#pragma unroll
        for (int i = 0; i < P::VEC; i++) {
            float u = (x.piece[k][i] - m.mean) * m.rstd, g_at = g.piece[k][i], dg_at = dg.piece[k][i];
            float h = gamma[i] * g_at, dh = gamma[i] * dg_at + dgamma[i] * g_at;
            float du = m.rstd * (t.piece[k][i] - mean[T_] - u * mean[TU]);
            float inner = h - mean[H] - u * mean[HU];
            gx[i] = m.rstd * (dh - mean[DH] - du * mean[HU] - u * db - m.rstd * mean[TU] * inner);
            if (SUMS) {
                sums[TO_GAMMA][k][i] += dg_at * u + g_at * du;
                sums[TO_BETA][k][i] += dg_at;
            }
        }
        if (s.out)
            sg_store((T *)s.out + r * s.n + at, gx);
    });
}

/* ------------------------------------------------------------------------------------------------ blocks of rows */

/* The teams' sums joined in order and left as one row. */
template <class P>
__device__ static inline void leave_sums(const sg_cuda_norm &s, sg_team team, int64_t chunk,
                                         const float (&sums)[2][P::HOLD][P::VEC], float (*room)[SG_BLOCK])
{
    int teams = SG_BLOCK / team.size;
#pragma unroll
    for (int which = TO_GAMMA; which <= TO_BETA; which++) {
        float *row = s.sums + (which * s.chunks + chunk) * s.n;
#pragma unroll
        for (int k = 0; k < P::HOLD; k++) {
            int at = (k * team.size + team.lane) * P::VEC;
            if (k * team.size * P::VEC >= s.n)
                break; /* the same for the whole block */
#pragma unroll
            for (int i = 0; i < P::VEC; i++)
                room[i][threadIdx.x] = sums[which][k][i];
            __syncthreads();
            if ((int)threadIdx.x < team.size && at < s.n)
#pragma unroll
                for (int i = 0; i < P::VEC; i++) {
                    float sum = room[i][team.lane];
                    for (int t = 1; t < teams; t++)
                        sum += room[i][t * team.size + team.lane];
                    row[at + i] = sum;
                }
            __syncthreads();
        }
    }
}

template <class T, class P, sg_cuda_norm_kind KIND, bool SUMS>
__global__ void __launch_bounds__(SG_BLOCK, P::VEC *P::HOLD <= FEW ? 2 : 1) layer_norm(sg_cuda_norm s)
{
    __shared__ float room[SG_WARPS * SUMS_OF_SECOND], columns[SUMS ? P::VEC : 1][SG_BLOCK];
    sg_team team = sg_team_of(s.team);
    int teams = SG_BLOCK / team.size, own = threadIdx.x / team.size;
    for (int64_t chunk = blockIdx.x; chunk < s.chunks; chunk += gridDim.x) {
        int64_t first = chunk * s.chunk, end = s.rows - first < s.chunk ? s.rows : first + s.chunk;
        float sums[2][P::HOLD][P::VEC] = {};
        for (int64_t base = first; base < end; base += teams) {
            bool live = base + own < end;
            int64_t r = live ? base + own : base;
            int n = live ? (int)s.n : 0;
            if (KIND == SG_CUDA_NORM)
                forward_row<T, P>(s, team, n, r, live, room);
            else if (KIND == SG_CUDA_NORM_VJP)
                vjp_row<T, P, SUMS>(s, team, n, r, live, room, sums);
            else if (KIND == SG_CUDA_NORM_JVP)
                jvp_row<T, P>(s, team, n, r, live, room);
            else
                second_row<T, P, SUMS>(s, team, n, r, live, room, sums);
        }
        if (SUMS)
            leave_sums<P>(s, team, chunk, sums, columns);
    }
}

/* ----------------------------------------------------------------------------------------------------- sums of rows */

enum { ACROSS = 32, DOWN = 32 };

/* Threads [DOWN][ACROSS]: each adds up every DOWN-th row of its column, and these are joined in order. */
__global__ void __launch_bounds__(ACROSS *DOWN) add_sums(sg_cuda_norm s)
{
    __shared__ float room[DOWN][ACROSS + 1];
    int lane = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS;
    int64_t tiles = (s.n + ACROSS - 1) / ACROSS;
    for (int64_t tile = blockIdx.x; tile < 2 * tiles; tile += gridDim.x) {
        int which = tile >= tiles ? TO_BETA : TO_GAMMA;
        void *out = which == TO_GAMMA ? s.ggamma : s.gbeta;
        if (!out)
            continue; /* the same for the whole block */
        int64_t column = (tile - which * tiles) * ACROSS + lane;
        const float *sums = s.sums + which * s.chunks * s.n + column;
        float sum = 0;
        if (column < s.n)
#pragma unroll 8
            for (int64_t c = down; c < s.chunks; c += DOWN)
                sum += sums[c * s.n];
        room[down][lane] = sum;
        __syncthreads();
        if (down == 0 && column < s.n) {
            for (int k = 1; k < DOWN; k++)
                sum += room[k][lane];
            if (s.affine_bf16)
                sg_round(sum, (sg_bf16 *)out + column);
            else
                ((float *)out)[column] = sum;
        }
        __syncthreads();
    }
}

/* -------------------------------------------------------------------------------------------------------- launches */

template <class T, class P> static void run(const sg_cuda_norm *s, cudaStream_t stream)
{
    unsigned blocks = sg_blocks(s->chunks, 1);
    if (s->kind == SG_CUDA_NORM)
        SG_CUDA_LAUNCH((layer_norm<T, P, SG_CUDA_NORM, false>), blocks, SG_BLOCK, stream, *s);
    else if (s->kind == SG_CUDA_NORM_JVP)
        SG_CUDA_LAUNCH((layer_norm<T, P, SG_CUDA_NORM_JVP, false>), blocks, SG_BLOCK, stream, *s);
    else if (s->kind == SG_CUDA_NORM_VJP)
        SG_CUDA_LAUNCH((layer_norm<T, P, SG_CUDA_NORM_VJP, false>), blocks, SG_BLOCK, stream, *s);
    else
        SG_CUDA_LAUNCH((layer_norm<T, P, SG_CUDA_NORM_VJP_JVP, false>), blocks, SG_BLOCK, stream, *s);
}

template <class T, class P> static void run_with_sums(const sg_cuda_norm *s, cudaStream_t stream)
{
    unsigned blocks = sg_blocks(s->chunks, 1);
    if (s->kind == SG_CUDA_NORM_VJP)
        SG_CUDA_LAUNCH((layer_norm<T, P, SG_CUDA_NORM_VJP, true>), blocks, SG_BLOCK, stream, *s);
    else
        SG_CUDA_LAUNCH((layer_norm<T, P, SG_CUDA_NORM_VJP_JVP, true>), blocks, SG_BLOCK, stream, *s);
}

template <class T> static void run_type(const sg_cuda_norm *s, cudaStream_t stream)
{
    bool sums = s->ggamma || s->gbeta, wide = s->n % sg_wide<T>::VEC == 0;
    if (!sums && wide)
        run<T, pieces<T, MANY>>(s, stream);
    else if (!sums)
        run<T, single>(s, stream);
    else if (!wide)
        run_with_sums<T, single>(s, stream);
    else if (s->n <= (int64_t)s->team * FEW)
        run_with_sums<T, pieces<T, FEW>>(s, stream);
    else
        run_with_sums<T, pieces<T, MANY>>(s, stream);
}

extern "C" void sg_cuda_norm_run(const sg_cuda_norm *s, cudaStream_t stream)
{
    if (s->chunks > 0 && s->bf16)
        run_type<sg_bf16>(s, stream);
    else if (s->chunks > 0)
        run_type<float>(s, stream);
    if ((s->ggamma || s->gbeta) && s->n > 0)
        SG_CUDA_LAUNCH(add_sums, sg_blocks(2 * ((s->n + ACROSS - 1) / ACROSS), 1), ACROSS * DOWN, stream, *s);
}

/* Lanes for a row that fits into a warp's registers, else a whole block. */
extern "C" int32_t sg_cuda_norm_team(int64_t n, bool bf16)
{
    int64_t vec = 16 / (bf16 ? sizeof(sg_bf16) : sizeof(float)), team = 1, most = MANY;
    if (n % vec != 0) {
        vec = single::VEC;
        most = single::HOLD;
    }
    while (team < SG_WARP && team * vec < n)
        team *= 2;
    if (team * most < n)
        team = SG_BLOCK;
    return team * most < n ? 0 : (int32_t)team;
}

extern "C" int64_t sg_cuda_norm_rows(int32_t team) { return SG_BLOCK / team; }
