/* norm_kernels.h - the loops of norm_kernels_internal.h for vectors of WIDTH floats. Included once by each of norm_kernels_*.c,
 * which define WIDTH and TABLE. */
#include "runtime/cpu/norm_kernels_internal.h"

#include <string.h>

typedef float vec __attribute__((vector_size(WIDTH * 4)));
typedef int32_t ivec __attribute__((vector_size(WIDTH * 4)));

/* Sums run in LANES interleaved partial sums whatever the vector length, so that their bits do not depend on it. */
#define LANES 16
#define BANKS (LANES / WIDTH)
#define INLINE static inline __attribute__((always_inline))

/* The first `count` elements at p, the rest zeros; count is WIDTH but at the end of a row. */
INLINE vec take(const float *p, int count)
{
    vec v = {0};
    if (count == WIDTH)
        memcpy(&v, p, sizeof v);
    else
        memcpy(&v, p, (size_t)count * sizeof(float));
    return v;
}

INLINE void put(float *p, vec v, int count)
{
    memcpy(p, &v, count == WIDTH ? sizeof v : (size_t)count * sizeof(float));
}

/* The first `count` lanes, zeros behind them. */
INLINE vec only(vec v, int count)
{
    static const int32_t places[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    if (count == WIDTH)
        return v;
    ivec place;
    memcpy(&place, places, sizeof place);
    return (vec)((ivec)v & (place < count));
}

/* STEP for each vector of a row of n: `at` is its first element, `count` its length, `bank` the group of lanes it belongs to. */
#define EACH_VECTOR(n, STEP)                                                                                           \
    do {                                                                                                               \
        int64_t row_at_ = 0;                                                                                           \
        for (; row_at_ + LANES <= (n); row_at_ += LANES)                                                               \
            for (int bank = 0; bank < BANKS; bank++) {                                                                 \
                const int64_t at = row_at_ + bank * WIDTH;                                                             \
                const int count = WIDTH;                                                                               \
                (void)at;                                                                                              \
                STEP;                                                                                                  \
            }                                                                                                          \
        for (int bank = 0; row_at_ + bank * WIDTH < (n); bank++) {                                                     \
            const int64_t at = row_at_ + bank * WIDTH;                                                                 \
            const int count = (n)-at < WIDTH ? (int)((n)-at) : WIDTH;                                                  \
            STEP;                                                                                                      \
        }                                                                                                              \
    } while (0)

/* Balanced tree over the lanes. */
INLINE float fold(const vec *bank)
{
    float lane[LANES];
    memcpy(lane, bank, sizeof lane);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

INLINE vec normal(const sg_norm_row *row, int64_t at, int count)
{
    return (take(row->x + at, count) - row->mean) * row->rstd;
}

INLINE void deviations_step(const float *x, float shift, int count, vec *sum, vec *square)
{
    vec d = only(take(x, count) - shift, count);
    *sum += d;
    *square += d * d;
}

static void deviations(int64_t n, const float *x, float shift, float sum[2])
{
    vec total[2][BANKS] = {0};
    EACH_VECTOR(n, deviations_step(x + at, shift, count, &total[0][bank], &total[1][bank]));
    sum[0] = fold(total[0]);
    sum[1] = fold(total[1]);
}

static void normalise(const sg_norm_row *row, const float *beta, float *y)
{
    const sg_norm_row r = *row;
    EACH_VECTOR(r.n, put(y + at, normal(&r, at, count) * take(r.gamma + at, count) + take(beta + at, count), count));
}

INLINE void vjp_sums_step(const sg_norm_row *r, const float *g, int64_t at, int count, vec *h_sum, vec *hu_sum)
{
    vec h = only(take(r->gamma + at, count) * take(g + at, count), count);
    *h_sum += h;
    *hu_sum += only(h * normal(r, at, count), count);
}

static void vjp_sums(const sg_norm_row *row, const float *g, float sum[2])
{
    const sg_norm_row r = *row;
    vec total[2][BANKS] = {0};
    EACH_VECTOR(r.n, vjp_sums_step(&r, g, at, count, &total[0][bank], &total[1][bank]));
    sum[0] = fold(total[0]);
    sum[1] = fold(total[1]);
}

INLINE vec centred(const sg_norm_row *r, vec h, float a, float b, int64_t at, int count)
{
    return r->rstd * (h - a - normal(r, at, count) * b);
}

static void vjp(const sg_norm_row *row, const float *g, float a, float b, float *gx)
{
    const sg_norm_row r = *row;
    EACH_VECTOR(r.n,
                put(gx + at, centred(&r, take(r.gamma + at, count) * take(g + at, count), a, b, at, count), count));
}

INLINE void vjp_columns_step(const sg_norm_row *r, const float *g, int64_t at, int count, float *ggamma, float *gbeta)
{
    vec g_at = take(g + at, count);
    put(ggamma + at, take(ggamma + at, count) + g_at * normal(r, at, count), count);
    put(gbeta + at, take(gbeta + at, count) + g_at, count);
}

static void vjp_columns(const sg_norm_row *row, const float *g, float *ggamma, float *gbeta)
{
    const sg_norm_row r = *row;
    EACH_VECTOR(r.n, vjp_columns_step(&r, g, at, count, ggamma, gbeta));
}

INLINE vec jvp_at(const sg_norm_row *r, const float *t, float a, float b, const float *tgamma, const float *tbeta,
                  int64_t at, int count)
{
    vec moved = take(r->gamma + at, count) * centred(r, take(t + at, count), a, b, at, count);
    return moved + take(tgamma + at, count) * normal(r, at, count) + take(tbeta + at, count);
}

static void jvp(const sg_norm_row *row, const float *t, float a, float b, const float *tgamma, const float *tbeta,
                float *y)
{
    const sg_norm_row r = *row;
    EACH_VECTOR(r.n, put(y + at, jvp_at(&r, t, a, b, tgamma, tbeta, at, count), count));
}

INLINE void second_sums_step(const sg_norm_row *r, const float *g, const float *t, const float *dgamma, const float *dg,
                             int64_t at, int count, vec *sum)
{
    vec u = normal(r, at, count), gamma = take(r->gamma + at, count), g_at = take(g + at, count);
    vec h = gamma * g_at, dh = gamma * take(dg + at, count) + take(dgamma + at, count) * g_at,
        t_at = take(t + at, count);
    sum[SG_NORM_H * BANKS] += only(h, count);
    sum[SG_NORM_HU * BANKS] += only(h * u, count);
    sum[SG_NORM_T * BANKS] += only(t_at, count);
    sum[SG_NORM_TU * BANKS] += only(t_at * u, count);
    sum[SG_NORM_HT * BANKS] += only(h * t_at, count);
    sum[SG_NORM_DH * BANKS] += only(dh, count);
    sum[SG_NORM_DHU * BANKS] += only(dh * u, count);
}

static void second_sums(const sg_norm_row *row, const float *g, const float *t, const float *dgamma, const float *dg,
                        float sum[SG_NORM_SUMS])
{
    const sg_norm_row r = *row;
    vec total[SG_NORM_SUMS][BANKS] = {0};
    EACH_VECTOR(r.n, second_sums_step(&r, g, t, dgamma, dg, at, count, &total[0][bank]));
    for (int k = 0; k < SG_NORM_SUMS; k++)
        sum[k] = fold(total[k]);
}

INLINE vec second_at(const sg_norm_row *r, const float *g, const float *t, const float *dgamma, const float *dg,
                     const float *mean, float db, int64_t at, int count)
{
    vec u = normal(r, at, count), gamma = take(r->gamma + at, count), g_at = take(g + at, count);
    vec h = gamma * g_at, dh = gamma * take(dg + at, count) + take(dgamma + at, count) * g_at;
    vec du = r->rstd * (take(t + at, count) - mean[SG_NORM_T] - u * mean[SG_NORM_TU]);
    vec inner = h - mean[SG_NORM_H] - u * mean[SG_NORM_HU];
    vec moved = dh - mean[SG_NORM_DH] - du * mean[SG_NORM_HU] - u * db;
    return r->rstd * (moved - (r->rstd * mean[SG_NORM_TU]) * inner);
}

static void second(const sg_norm_row *row, const float *g, const float *t, const float *dgamma, const float *dg,
                   const float mean[SG_NORM_SUMS], float *out)
{
    const sg_norm_row r = *row;
    float m[SG_NORM_SUMS];
    memcpy(m, mean, sizeof m);
    const float hdu = r.rstd * (m[SG_NORM_HT] - m[SG_NORM_T] * m[SG_NORM_H] - m[SG_NORM_TU] * m[SG_NORM_HU]);
    const float db = m[SG_NORM_DHU] + hdu;
    EACH_VECTOR(r.n, put(out + at, second_at(&r, g, t, dgamma, dg, m, db, at, count), count));
}

INLINE void second_columns_step(const sg_norm_row *r, const float *g, const float *t, const float *dg, float a, float b,
                                int64_t at, int count, float *dggamma, float *dgbeta)
{
    vec dg_at = take(dg + at, count), du = centred(r, take(t + at, count), a, b, at, count);
    vec moved = dg_at * normal(r, at, count) + take(g + at, count) * du;
    put(dggamma + at, take(dggamma + at, count) + moved, count);
    put(dgbeta + at, take(dgbeta + at, count) + dg_at, count);
}

static void second_columns(const sg_norm_row *row, const float *g, const float *t, const float *dg, float a, float b,
                           float *dggamma, float *dgbeta)
{
    const sg_norm_row r = *row;
    EACH_VECTOR(r.n, second_columns_step(&r, g, t, dg, a, b, at, count, dggamma, dgbeta));
}

const sg_norm_kernels TABLE = {deviations, normalise,   vjp_sums, vjp,           vjp_columns,
                               jvp,        second_sums, second,   second_columns};
