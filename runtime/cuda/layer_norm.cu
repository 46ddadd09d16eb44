/* layer_norm.cu - layer normalisation and its derivatives; the formulas are those of runtime/cpu/layer_norm.c, whose names the
 * sums below have. In rms_norm (not `centred`) the mean m is 0 and does not move, so what is subtracted because it does is 0: the
 * means of h, dh and t.
 *
 * Every operand of a row is read once and held in registers. Where sums over rows are wanted (gradients of gamma and beta), a
 * block adds up its rows in registers, joins its teams in order and leaves one row for each block; these are added in a second
 * launch. The cut into blocks depends on shapes alone. */
#include "runtime/cuda/layer_norm_internal.h"
#include "runtime/cuda/replica.cuh"
#include "runtime/cuda/row.cuh"

enum { TO_GAMMA, TO_BETA, TO_X };
/* Means over a row. */
enum { H, HU, SUMS_OF_VJP, T_ = SUMS_OF_VJP, TU, HT, DH, DHU, SUMS_OF_SECOND };

/* How rows are cut: the type of elements, those of a piece, pieces of a thread, threads of a row. A cut that is `FULL` is for
 * rows of exactly VEC HOLD TEAM elements (those of BERT), which need no questions; in the others the team is known at run time,
 * and pieces may be missing. */
template <class E, int VECTOR, int PIECES, int THREADS> struct cut {
    typedef E T;
    enum { VEC = VECTOR, HOLD = PIECES, TEAM = THREADS, FULL = THREADS > 0 };
};
enum { MOST = 32, MOST_SINGLE = 16, USUAL = SG_CUDA_NORM_USUAL };
template <class T> using usual_rows = cut<T, sg_wide<T>::VEC, USUAL / SG_WARP / sg_wide<T>::VEC, SG_WARP>;
template <class T> using whole_pieces = cut<T, sg_wide<T>::VEC, MOST / sg_wide<T>::VEC, 0>;
template <class T> using single_elements = cut<T, 1, MOST_SINGLE, 0>;

/* A row as its team sees it; `n` is 0 in a team that has no row to work at. */
template <class C> struct row_view {
    sg_team team;
    int64_t r, first;
    int n;
    bool live;

    __device__ row_view(const sg_cuda_norm &s, sg_team t, int64_t row, int64_t spare, int64_t end) : team(t)
    {
        live = row < end;
        r = live ? row : spare;
        first = r * s.n;
        n = live ? (int)s.n : 0;
    }
    template <class F> __device__ void each(F f) const
    {
#pragma unroll
        for (int k = 0; k < C::HOLD; k++) {
            int at = (k * team.size + team.lane) * C::VEC;
            if (C::FULL || at < n)
                f(k, at);
        }
    }
};

/* What this thread holds of a row; without `rows` zeros. */
template <class C> struct held {
    sg_piece<typename C::T, C::VEC> piece[C::HOLD];

    __device__ void load(const row_view<C> &row, const void *rows)
    {
        const typename C::T *from = (const typename C::T *)rows + row.first;
        if (rows)
            row.each([&](int k, int at) { piece[k] = sg_load<C::VEC>(from + at); });
        else
            row.each([&](int k, int) { piece[k] = {}; });
    }
};

template <class T, int VEC> __device__ static inline void affine_row(const void *row, int at, float (&value)[VEC])
{
    sg_piece<T, VEC> p = sg_load<VEC>((const T *)row + at);
#pragma unroll
    for (int i = 0; i < VEC; i++)
        value[i] = p[i];
}

/* Elements `at`... of gamma or its like, which is a row or a number or not there. */
template <class C>
__device__ static inline void affine(const sg_cuda_norm &s, const void *row, bool number, int at, float none,
                                     float (&value)[C::VEC])
{
    typedef typename C::T T;
    if (row && !number && s.affine_bf16) {
        affine_row<T>(row, at, value);
        return;
    }
    if (row && !number) {
        affine_row<float>(row, at, value);
        return;
    }
    float all = !row ? none : s.affine_bf16 ? sg_float(*(const T *)row) : *(const float *)row;
#pragma unroll
    for (int i = 0; i < C::VEC; i++)
        value[i] = all;
}

template <class C> __device__ static inline void gamma_at(const sg_cuda_norm &s, int at, float (&value)[C::VEC])
{
    affine<C>(s, s.gamma, !C::FULL && s.gamma_number, at, 1, value);
}

struct statistics {
    float mean, rstd;
};

/* The deviations from the mean, which would sum up to 0 without rounding, correct it (Chan, Golub and LeVeque 1983). */
template <class C>
__device__ static inline statistics find_statistics(const sg_cuda_norm &s, const row_view<C> &row, const held<C> &x,
                                                    float *room)
{
    float sum[1] = {0}, rest[2] = {0, 0}, size = (float)s.n;
    row.each([&](int k, int) {
#pragma unroll
        for (int i = 0; i < C::VEC; i++)
            sum[0] += x.piece[k][i];
    });
    sg_team_sum(row.team, sum, room);
    float shift = s.centred ? sum[0] / size : 0;
    row.each([&](int k, int) {
#pragma unroll
        for (int i = 0; i < C::VEC; i++) {
            float d = x.piece[k][i] - shift;
            rest[0] += d;
            rest[1] += d * d;
        }
    });
    sg_team_sum(row.team, rest, room);
    float off = s.centred ? rest[0] / size : 0, variance = rest[1] / size - off * off;
    variance = variance < 0 ? 0 : variance; /* NaN stays */
    return {shift + off, 1 / sqrtf(variance + s.eps)};
}

template <class C>
__device__ static inline statistics known_statistics(const sg_cuda_norm &s, const row_view<C> &row, const held<C> &x,
                                                     float *room)
{
    if (!s.rstd)
        return find_statistics(s, row, x, room);
    return row.live ? statistics{s.centred ? s.mean[row.r] : 0, s.rstd[row.r]} : statistics{0, 0};
}

template <class C>
__device__ static inline void leave_statistics(const sg_cuda_norm &s, const row_view<C> &row, const statistics &m)
{
    if (!row.live || row.team.lane != 0)
        return;
    s.out_rstd[row.r] = m.rstd;
    if (s.centred)
        s.out_mean[row.r] = m.mean;
}

/* ------------------------------------------------------------------------------------------------- one row of each */

template <class C>
__device__ static inline void forward_row(const sg_cuda_norm &s, const row_view<C> &row, float *room)
{
    held<C> x;
    x.load(row, s.x);
    statistics m = find_statistics(s, row, x, room);
    row.each([&](int k, int at) {
        float gamma[C::VEC], y[C::VEC];
        gamma_at<C>(s, at, gamma);
        affine<C>(s, s.beta, !C::FULL && s.beta_number, at, 0, y);
#pragma unroll
        for (int i = 0; i < C::VEC; i++)
            y[i] += (x.piece[k][i] - m.mean) * m.rstd * gamma[i];
        sg_store((typename C::T *)s.out + row.first + at, y);
    });
    leave_statistics(s, row, m);
}

template <class C>
__device__ static inline void vjp_row(const sg_cuda_norm &s, const row_view<C> &row, float *room,
                                      float (&sums)[2][C::HOLD][C::VEC])
{
    held<C> x, g;
    x.load(row, s.x);
    g.load(row, s.g);
    statistics m = known_statistics(s, row, x, room);
    float mean[SUMS_OF_VJP] = {0, 0};
    row.each([&](int k, int at) {
        float gamma[C::VEC];
        gamma_at<C>(s, at, gamma);
#pragma unroll
        for (int i = 0; i < C::VEC; i++) {
            float u = (x.piece[k][i] - m.mean) * m.rstd, g_at = g.piece[k][i];
            mean[H] += gamma[i] * g_at;
            mean[HU] += gamma[i] * g_at * u;
            sums[TO_GAMMA][k][i] += g_at * u;
            sums[TO_BETA][k][i] += g_at;
        }
    });
    if (!s.out)
        return;
    sg_team_sum(row.team, mean, room);
    float a = s.centred ? mean[H] / (float)s.n : 0, b = mean[HU] / (float)s.n;
    row.each([&](int k, int at) {
        float gamma[C::VEC], gx[C::VEC];
        gamma_at<C>(s, at, gamma);
#pragma unroll
        for (int i = 0; i < C::VEC; i++) {
            float u = (x.piece[k][i] - m.mean) * m.rstd;
            gx[i] = m.rstd * (gamma[i] * g.piece[k][i] - a - u * b);
        }
        sg_store((typename C::T *)s.out + row.first + at, gx);
    });
}

template <class C>
__device__ static inline void jvp_row(const sg_cuda_norm &s, const row_view<C> &row, float *room)
{
    held<C> x, t;
    x.load(row, s.x);
    t.load(row, s.tx);
    statistics m = known_statistics(s, row, x, room);
    float mean[2] = {0, 0}; /* t, t u */
    row.each([&](int k, int) {
#pragma unroll
        for (int i = 0; i < C::VEC; i++) {
            mean[0] += t.piece[k][i];
            mean[1] += t.piece[k][i] * ((x.piece[k][i] - m.mean) * m.rstd);
        }
    });
    if (s.tx) {
        sg_team_sum(row.team, mean, room);
        mean[0] = s.centred ? mean[0] / (float)s.n : 0;
        mean[1] /= (float)s.n;
    }
    row.each([&](int k, int at) {
        float gamma[C::VEC], tgamma[C::VEC], y[C::VEC];
        gamma_at<C>(s, at, gamma);
        affine<C>(s, s.tgamma, !C::FULL && s.gamma_number, at, 0, tgamma);
        affine<C>(s, s.tbeta, !C::FULL && s.beta_number, at, 0, y);
#pragma unroll
        for (int i = 0; i < C::VEC; i++) {
            float u = (x.piece[k][i] - m.mean) * m.rstd;
            y[i] += gamma[i] * (m.rstd * (t.piece[k][i] - mean[0] - u * mean[1])) + tgamma[i] * u;
        }
        sg_store((typename C::T *)s.out + row.first + at, y);
    });
    leave_statistics(s, row, statistics{mean[0], s.tx ? -m.rstd * m.rstd * mean[1] : 0});
}

template <class C>
__device__ static inline void second_row(const sg_cuda_norm &s, const row_view<C> &row, float *room,
                                      float (&sums)[2][C::HOLD][C::VEC])
{
    held<C> x, g, t, dg;
    x.load(row, s.x);
    g.load(row, s.g);
    t.load(row, s.tx);
    dg.load(row, s.tg);
    statistics m = known_statistics(s, row, x, room);
    float mean[SUMS_OF_SECOND] = {0, 0, 0, 0, 0, 0, 0};
    row.each([&](int k, int at) {
        float gamma[C::VEC], dgamma[C::VEC];
        gamma_at<C>(s, at, gamma);
        affine<C>(s, s.tgamma, !C::FULL && s.gamma_number, at, 0, dgamma);
#pragma unroll
        for (int i = 0; i < C::VEC; i++) {
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
    sg_team_sum(row.team, mean, room);
#pragma unroll
    for (int i = 0; i < SUMS_OF_SECOND; i++)
        mean[i] /= (float)s.n;
    if (!s.centred)
        mean[H] = mean[T_] = mean[DH] = 0;
    float hdu = m.rstd * (mean[HT] - mean[T_] * mean[H] - mean[TU] * mean[HU]), db = mean[DHU] + hdu;
    row.each([&](int k, int at) {
        float gamma[C::VEC], dgamma[C::VEC], gx[C::VEC];
        gamma_at<C>(s, at, gamma);
        affine<C>(s, s.tgamma, !C::FULL && s.gamma_number, at, 0, dgamma);
#pragma unroll
        for (int i = 0; i < C::VEC; i++) {
            float u = (x.piece[k][i] - m.mean) * m.rstd, g_at = g.piece[k][i], dg_at = dg.piece[k][i];
            float h = gamma[i] * g_at, dh = gamma[i] * dg_at + dgamma[i] * g_at;
            float du = m.rstd * (t.piece[k][i] - mean[T_] - u * mean[TU]);
            float inner = h - mean[H] - u * mean[HU];
            gx[i] = m.rstd * (dh - mean[DH] - du * mean[HU] - u * db - m.rstd * mean[TU] * inner);
            sums[TO_GAMMA][k][i] += dg_at * u + g_at * du;
            sums[TO_BETA][k][i] += dg_at;
        }
        if (s.out)
            sg_store((typename C::T *)s.out + row.first + at, gx);
    });
}

/* ------------------------------------------------------------------------------------------------ blocks of rows */

/* The teams' sums joined in order and left as one row: a piece of all threads at a time, then a thread for each column. */
template <class C>
__device__ static inline void leave_sums(const sg_cuda_norm &s, sg_team team, int64_t chunk,
                                         const float (&sums)[2][C::HOLD][C::VEC], float *room)
{
    int teams = SG_BLOCK / team.size, columns = team.size * C::VEC;
#pragma unroll
    for (int which = TO_GAMMA; which <= TO_BETA; which++) {
        float *row = s.sums + (which * s.chunks + chunk) * s.n;
#pragma unroll
        for (int k = 0; k < C::HOLD; k++) {
            if (!C::FULL && k * columns >= s.n)
                break; /* the same for the whole block */
            sg_store(room + threadIdx.x * C::VEC, sums[which][k]);
            __syncthreads();
            for (int j = threadIdx.x; j < columns && k * columns + j < s.n; j += SG_BLOCK) {
                float sum = 0;
#pragma unroll 8
                for (int t = 0; t < teams; t++)
                    sum += room[t * columns + j];
                row[k * columns + j] = sum;
            }
            __syncthreads();
        }
    }
}

/* Blocks of a processor at a time, which bound the registers of a thread: two hide each other's waits for memory. */
template <class C, sg_cuda_norm_kind KIND> struct blocks_of {
    enum { LEAST = C::FULL && sizeof(typename C::T) == sizeof(sg_bf16) ? 2 : 1 };
};

template <class C, sg_cuda_norm_kind KIND>
__global__ void __launch_bounds__(SG_BLOCK, (blocks_of<C, KIND>::LEAST)) layer_norm(sg_cuda_norm s)
{
    enum { REVERSE = KIND == SG_CUDA_NORM_VJP || KIND == SG_CUDA_NORM_VJP_JVP };
    __shared__ float room[SG_WARPS * SUMS_OF_SECOND];
    alignas(32) __shared__ float columns[REVERSE ? C::VEC * SG_BLOCK : C::VEC];
    sg_team team = sg_team_of(C::FULL ? C::TEAM : s.team);
    int teams = SG_BLOCK / team.size, own = threadIdx.x / team.size;
    sg_wait();
    for (int64_t chunk = blockIdx.x; chunk < s.chunks; chunk += gridDim.x) {
        int64_t first = chunk * s.chunk, end = s.rows - first < s.chunk ? s.rows : first + s.chunk;
        float sums[2][C::HOLD][C::VEC] = {};
        for (int64_t base = first; base < end; base += teams) {
            row_view<C> row(s, team, base + own, base, end);
            if (C::FULL && !row.live)
                break;
            if (KIND == SG_CUDA_NORM)
                forward_row(s, row, room);
            else if (KIND == SG_CUDA_NORM_VJP)
                vjp_row(s, row, room, sums);
            else if (KIND == SG_CUDA_NORM_JVP)
                jvp_row(s, row, room);
            else
                second_row(s, row, room, sums);
        }
        if (REVERSE && (s.ggamma || s.gbeta))
            leave_sums<C>(s, team, chunk, sums, columns);
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
    sg_wait();
    for (int64_t tile = blockIdx.x; tile < 3 * tiles; tile += gridDim.x) {
        int which = (int)(tile / tiles);
        void *out = which == TO_GAMMA ? s.ggamma : which == TO_BETA ? s.gbeta : s.gsum;
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
            if (s.affine_bf16 && which != TO_X)
                sg_round(sum, (sg_bf16 *)out + column);
            else
                ((float *)out)[column] = sum;
        }
        __syncthreads();
    }
}

/* -------------------------------------------------------------------------------------------------------- launches */

template <class C> static void run(const sg_cuda_norm *s, cudaStream_t stream)
{
    unsigned blocks = sg_blocks(s->chunks, 1);
    if (s->kind == SG_CUDA_NORM)
        SG_CUDA_LAUNCH((layer_norm<C, SG_CUDA_NORM>), blocks, SG_BLOCK, stream, *s);
    else if (s->kind == SG_CUDA_NORM_JVP)
        SG_CUDA_LAUNCH((layer_norm<C, SG_CUDA_NORM_JVP>), blocks, SG_BLOCK, stream, *s);
    else if (s->kind == SG_CUDA_NORM_VJP)
        SG_CUDA_LAUNCH((layer_norm<C, SG_CUDA_NORM_VJP>), blocks, SG_BLOCK, stream, *s);
    else
        SG_CUDA_LAUNCH((layer_norm<C, SG_CUDA_NORM_VJP_JVP>), blocks, SG_BLOCK, stream, *s);
}

template <class T> static void run_type(const sg_cuda_norm *s, cudaStream_t stream)
{
    if (s->n == USUAL && !s->gamma_number && !s->beta_number)
        run<usual_rows<T>>(s, stream);
    else if (s->n % sg_wide<T>::VEC == 0)
        run<whole_pieces<T>>(s, stream);
    else
        run<single_elements<T>>(s, stream);
}

extern "C" void sg_cuda_norm_run(const sg_cuda_norm *s, cudaStream_t stream)
{
    sg_cuda_overlap(stream);
    if (s->chunks > 0 && sg_cuda_norm_is_usual_reverse(s))
        sg_cuda_norm_reverse(s, stream);
    else if (s->chunks > 0 && s->bf16)
        run_type<sg_bf16>(s, stream);
    else if (s->chunks > 0)
        run_type<float>(s, stream);
    if ((!s->ggamma && !s->gbeta && !s->gsum) || s->n == 0)
        return;
    sg_cuda_overlap(stream);
    SG_CUDA_LAUNCH(add_sums, sg_blocks((s->gsum ? 3 : 2) * ((s->n + ACROSS - 1) / ACROSS), 1), ACROSS * DOWN, stream, *s);
}

/* Lanes for a row that fits into a warp's registers, else a whole block. */
extern "C" int32_t sg_cuda_norm_team(int64_t n, bool bf16)
{
    int64_t vec = 16 / (bf16 ? sizeof(sg_bf16) : sizeof(float)), team = 1, most = MOST;
    if (n % vec != 0) {
        vec = 1;
        most = MOST_SINGLE;
    }
    while (team < SG_WARP && team * vec < n)
        team *= 2;
    if (team * most < n)
        team = SG_BLOCK;
    return team * most < n ? 0 : (int32_t)team;
}

extern "C" int64_t sg_cuda_norm_rows(int32_t team) { return SG_BLOCK / team; }
