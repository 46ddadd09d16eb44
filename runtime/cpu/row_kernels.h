/* row_kernels.h - the loops of row_kernels_internal.h for vectors of WIDTH floats. Included once by each of row_kernels_*.c,
 * which define WIDTH, TABLE, ROOT(v) and EXP(v). */
#include "runtime/cpu/row_kernels_internal.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef float vec __attribute__((vector_size(WIDTH * 4)));
typedef int32_t ivec __attribute__((vector_size(WIDTH * 4)));

/* Sums run in LANES interleaved partial sums whatever the vector length, so that their bits do not depend on it. */
#define LANES 32
#define BANKS (LANES / WIDTH)

static inline vec load(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store(float *p, vec v) { memcpy(p, &v, sizeof v); }

static inline vec splat(float x) { return x - (vec){0}; }

/* Floats of a cache line. */
#define LINE 16

/* Ask for the line 1 KiB further on: seven streams at once are more than the processor's own prefetcher follows (measured:
 * 20 % less time). The address may lie behind the array, where asking has no effect. */
static inline void fetch_ahead(const float *p) { __builtin_prefetch((const void *)((uintptr_t)p + 1024)); }

/* p <- p - (decay p + rate m / (scale sqrt(v) + eps)): the two small terms meet before either meets p. A decay of 0 is no term at
 * all, so that a p that is not finite stays out of the moments. */
static inline void adam_vec(const sg_adam_step *s, const float *p, vec g, const float *m, const float *v, float *p_out,
                            float *m_out, float *v_out)
{
    vec p0 = load(p);
    vec g0 = s->l2 != 0 ? g + s->l2 * p0 : g;
    vec m1 = s->beta1 * load(m) + s->one_beta1 * g0;
    vec v1 = s->beta2 * load(v) + s->one_beta2 * (g0 * g0);
    store(m_out, m1);
    store(v_out, v1);
    vec step = s->rate * m1 / (s->scale * ROOT(v1) + s->eps);
    store(p_out, p0 - (s->decay != 0 ? s->decay * p0 + step : step));
}

static void adam(int64_t n, const sg_adam_step *s, const float *p, const float *g, const float *m, const float *v,
                 float *p_out, float *m_out, float *v_out)
{
    const sg_adam_step step = *s;
    int64_t i = 0;
    for (; i + LINE <= n; i += LINE) {
        fetch_ahead(p + i);
        fetch_ahead(g + i);
        fetch_ahead(m + i);
        fetch_ahead(v + i);
        for (int k = 0; k < LINE; k += WIDTH)
            adam_vec(&step, p + i + k, load(g + i + k), m + i + k, v + i + k, p_out + i + k, m_out + i + k,
                     v_out + i + k);
    }
    for (; i + WIDTH <= n; i += WIDTH)
        adam_vec(&step, p + i, load(g + i), m + i, v + i, p_out + i, m_out + i, v_out + i);
    if (i == n)
        return;
    size_t rest = (size_t)(n - i) * sizeof(float);
    float tail[4][WIDTH] = {{0}};
    memcpy(tail[0], p + i, rest);
    memcpy(tail[1], g + i, rest);
    memcpy(tail[2], m + i, rest);
    memcpy(tail[3], v + i, rest);
    adam_vec(&step, tail[0], load(tail[1]), tail[2], tail[3], tail[0], tail[2], tail[3]);
    memcpy(p_out + i, tail[0], rest);
    memcpy(m_out + i, tail[2], rest);
    memcpy(v_out + i, tail[3], rest);
}

/* Rows of w lie anywhere, so the processor cannot guess the next one: ask for it AHEAD rows before its use. */
#define AHEAD 8
static inline void fetch_row(const float *row, int n)
{
    for (int i = 0; i < n; i += LINE)
        __builtin_prefetch(row + i);
}

/* Most vectors of an output row that stay in registers while the rows of w stream by: one pass over them for a wide row, so that
 * what is read of a row of w is long. */
#if WIDTH > 8
#define GATHER_VECTORS 16
#else
#define GATHER_VECTORS 8
#endif

static inline __attribute__((always_inline)) void gather_sum_block(int count, int64_t begin, int64_t end,
                                                                   const float *value, const int32_t *order,
                                                                   const int32_t *index, const float *w, int64_t stride,
                                                                   float *out)
{
    vec acc[GATHER_VECTORS];
#pragma GCC unroll 16
    for (int i = 0; i < count; i++)
        acc[i] = (vec){0};
    for (int64_t j = begin; j < end; j++) {
        if (count >= 4 && j + AHEAD < end)
            fetch_row(w + index[j + AHEAD] * stride, count * WIDTH);
        const float *row = w + index[j] * stride;
        const vec v = splat(value[order ? order[j] : j]);
#pragma GCC unroll 16
        for (int i = 0; i < count; i++)
            acc[i] += v * load(row + i * WIDTH);
    }
#pragma GCC unroll 16
    for (int i = 0; i < count; i++)
        store(out + i * WIDTH, acc[i]);
}

static void gather_sum(int64_t n, int64_t begin, int64_t end, const float *value, const int32_t *order,
                       const int32_t *index, const float *w, int64_t stride, float *out)
{
    int64_t i = 0;
    for (int64_t vectors = n / WIDTH; vectors > 0;) { /* in blocks of about the same width */
        int64_t blocks = (vectors + GATHER_VECTORS - 1) / GATHER_VECTORS, count = (vectors + blocks - 1) / blocks;
        switch (count) {
#define BLOCK(c)                                                                                                       \
    case c:                                                                                                            \
        gather_sum_block(c, begin, end, value, order, index, w + i, stride, out + i);                                  \
        break;
            BLOCK(1)
            BLOCK(2)
            BLOCK(3)
            BLOCK(4)
            BLOCK(5)
            BLOCK(6)
            BLOCK(7)
            BLOCK(8)
#if GATHER_VECTORS > 8
            BLOCK(9) BLOCK(10) BLOCK(11) BLOCK(12) BLOCK(13) BLOCK(14) BLOCK(15) BLOCK(16)
#endif
#undef BLOCK
        }
        i += count * WIDTH;
        vectors -= count;
    }
    if (i < n && n >= WIDTH) { /* the last vector overlaps the one before: the same bits are written again */
        i = n - WIDTH;
        gather_sum_block(1, begin, end, value, order, index, w + i, stride, out + i);
        return;
    }
    for (; i < n; i++) {
        float acc = 0;
        for (int64_t j = begin; j < end; j++)
            acc += value[order ? order[j] : j] * w[index[j] * stride + i];
        out[i] = acc;
    }
}

/* Whole lines of a step whose gradient is a sum of so many scaled rows; returns how far it got. */
static inline __attribute__((always_inline)) int64_t gather_adam_lines(const int terms, int64_t n,
                                                                       const sg_adam_step *s, const float *const *row,
                                                                       const float *factor, const sg_adam_row *r)
{
    const sg_adam_step step = *s;
    const float *p = r->p, *m = r->m, *v = r->v;
    int64_t i = 0;
    for (; i + LINE <= n; i += LINE) {
        fetch_ahead(p + i);
        fetch_ahead(m + i);
        fetch_ahead(v + i);
        for (int k = 0; k < LINE; k += WIDTH) {
            vec g = {0};
            for (int t = 0; t < terms; t++)
                g += splat(factor[t]) * load(row[t] + i + k);
            adam_vec(&step, p + i + k, g, m + i + k, v + i + k, r->p_out + i + k, r->m_out + i + k, r->v_out + i + k);
        }
    }
    return i;
}

/* Columns whose gradient is made apart where rows are many, or end within a line. */
#define GATHER_PIECE 512

static void gather_adam(int64_t n, const sg_adam_step *s, int64_t begin, int64_t end, const float *value,
                        const int32_t *order, const int32_t *index, const float *w, int64_t stride,
                        const sg_adam_row *r)
{
    const float *row[3];
    float factor[3], gradient[GATHER_PIECE];
    int64_t terms = end - begin, i = 0;
    for (int64_t t = 0; t < terms && terms <= 3; t++) {
        row[t] = w + index[begin + t] * stride;
        factor[t] = value[order ? order[begin + t] : begin + t];
    }
    switch (terms) {
    case 0:
        i = gather_adam_lines(0, n, s, row, factor, r);
        break;
    case 1:
        i = gather_adam_lines(1, n, s, row, factor, r);
        break;
    case 2:
        i = gather_adam_lines(2, n, s, row, factor, r);
        break;
    case 3:
        i = gather_adam_lines(3, n, s, row, factor, r);
        break;
    }
    for (; i < n; i += GATHER_PIECE) {
        int64_t piece = n - i < GATHER_PIECE ? n - i : GATHER_PIECE;
        gather_sum(piece, begin, end, value, order, index, w + i, stride, gradient);
        adam(piece, s, r->p + i, gradient, r->m + i, r->v + i, r->p_out + i, r->m_out + i, r->v_out + i);
    }
}

/* Balanced tree over the lanes, lane i of which is element i % WIDTH of bank i / WIDTH. */
static inline float fold(vec *bank)
{
    float lane[WIDTH];
    for (int half = BANKS / 2; half > 0; half /= 2)
        for (int k = 0; k < half; k++)
            bank[k] += bank[k + half];
    store(lane, bank[0]);
    for (int half = WIDTH / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* Less than a vector, the rest zero. */
static inline vec load_some(int64_t n, const float *x)
{
    float part[WIDTH] = {0};
    for (int64_t i = 0; i < n; i++)
        part[i] = x[i];
    return load(part);
}

static float dot(int64_t n, const float *a, const float *b)
{
    vec acc[BANKS];
    for (int k = 0; k < BANKS; k++)
        acc[k] = (vec){0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < BANKS; k++)
            acc[k] += load(a + i + k * WIDTH) * load(b + i + k * WIDTH);
    int k = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        acc[k++] += load(a + i) * load(b + i);
    if (i < n)
        acc[k] += load_some(n - i, a + i) * load_some(n - i, b + i);
    return fold(acc);
}

static float sum(int64_t n, const float *x)
{
    vec acc[BANKS];
    for (int k = 0; k < BANKS; k++)
        acc[k] = (vec){0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < BANKS; k++)
            acc[k] += load(x + i + k * WIDTH);
    int k = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        acc[k++] += load(x + i);
    if (i < n)
        acc[k] += load_some(n - i, x + i);
    return fold(acc);
}

static inline vec larger(vec v, vec top)
{
    ivec more = v > top;
    return (vec)(((ivec)v & more) | ((ivec)top & ~more));
}

/* A vector's maximum instruction loses a NaN in one of its operands: NaNs are looked for beside it. The last vector may
 * overlap the one before. */
static float maximum(int64_t n, const float *x)
{
    vec top = splat(-INFINITY);
    ivec nan = {0};
    float lane[WIDTH], best = -INFINITY;
    int32_t bad[WIDTH], any = 0;
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        vec v = load(x + i);
        nan |= v != v;
        top = larger(v, top);
    }
    if (i < n && n >= WIDTH) {
        vec v = load(x + n - WIDTH);
        nan |= v != v;
        top = larger(v, top);
        i = n;
    }
    for (; i < n; i++) {
        any |= x[i] != x[i];
        best = x[i] > best ? x[i] : best;
    }
    store(lane, top);
    memcpy(bad, &nan, sizeof bad);
    for (int half = WIDTH / 2; half > 0; half /= 2)
        for (int k = 0; k < half; k++) {
            lane[k] = lane[k] > lane[k + half] ? lane[k] : lane[k + half];
            bad[k] |= bad[k + half];
        }
    best = lane[0] > best ? lane[0] : best;
    return any | bad[0] ? NAN : best;
}

static void scale(int64_t n, float factor, float *x)
{
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        store(x + i, factor * load(x + i));
    for (; i < n; i++)
        x[i] *= factor;
}

static float exp_sum(int64_t n, const float *x, float shift, float *out)
{
    vec acc[BANKS] = {{0}};
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        vec e = EXP(load(x + i) - shift);
        acc[0] += e;
        if (out)
            store(out + i, e);
    }
    if (i < n) {
        float tail[WIDTH];
        store(tail, EXP(load_some(n - i, x + i) - shift));
        if (out)
            memcpy(out + i, tail, (size_t)(n - i) * sizeof(float));
        acc[0] += load_some(n - i, tail);
    }
    return fold(acc);
}

/* Runs of RUN rows are added up in registers, then added to the totals: errors grow with RUN + rows / RUN, not rows. */
#define RUN 64

static inline __attribute__((always_inline)) void sum_columns_block(int count, int64_t rows, const float *x,
                                                                    int64_t stride, float *out)
{
    vec total[4];
    for (int i = 0; i < count; i++)
        total[i] = (vec){0};
    for (int64_t r = 0; r < rows; r += RUN) {
        const int64_t end = r + RUN < rows ? r + RUN : rows;
        vec even[4], odd[4];
        for (int i = 0; i < count; i++)
            even[i] = odd[i] = (vec){0};
        int64_t q = r;
        for (; q + 2 <= end; q += 2)
            for (int i = 0; i < count; i++) {
                even[i] += load(x + q * stride + i * WIDTH);
                odd[i] += load(x + (q + 1) * stride + i * WIDTH);
            }
        for (; q < end; q++)
            for (int i = 0; i < count; i++)
                even[i] += load(x + q * stride + i * WIDTH);
        for (int i = 0; i < count; i++)
            total[i] += even[i] + odd[i];
    }
    for (int i = 0; i < count; i++)
        store(out + i * WIDTH, total[i]);
}

static float sum_column(int64_t rows, const float *x, int64_t stride)
{
    float total = 0;
    for (int64_t r = 0; r < rows; r += RUN) {
        const int64_t end = r + RUN < rows ? r + RUN : rows;
        float part[2] = {0, 0};
        for (int64_t q = r; q < end; q++) /* an odd last row of a run is even: RUN is */
            part[(q - r) & 1] += x[q * stride];
        total += part[0] + part[1];
    }
    return total;
}

static void sum_columns(int64_t rows, int64_t n, const float *x, int64_t stride, float *out)
{
    int64_t i = 0;
    for (; i + 4 * WIDTH <= n; i += 4 * WIDTH)
        sum_columns_block(4, rows, x + i, stride, out + i);
    for (; i + WIDTH <= n; i += WIDTH)
        sum_columns_block(1, rows, x + i, stride, out + i);
    if (i < n && n >= WIDTH) {
        sum_columns_block(1, rows, x + n - WIDTH, stride, out + n - WIDTH);
        return;
    }
    for (; i < n; i++)
        out[i] = sum_column(rows, x + i, stride);
}

static inline bool gives_way(float best, float x) { return x > best || (isnan(x) && !isnan(best)); }

static void keep_larger(int64_t n, const float *x, int32_t first, float *best, int32_t *at)
{
    int64_t i = 0;
    ivec place;
    for (int k = 0; k < WIDTH; k++)
        place[k] = first + k;
    for (; i + WIDTH <= n; i += WIDTH, place += WIDTH) {
        vec v = load(x + i), b = load(best + i);
        ivec old, take = (v > b) | ((v != v) & (b == b));
        memcpy(&old, at + i, sizeof old);
        old = (take & place) | (~take & old);
        memcpy(at + i, &old, sizeof old);
        store(best + i, (vec)((take & (ivec)v) | (~take & (ivec)b)));
    }
    for (; i < n; i++) {
        if (gives_way(best[i], x[i])) {
            best[i] = x[i];
            at[i] = first + (int32_t)i;
        }
    }
}

const sg_row_kernels TABLE = {adam,    gather_sum, gather_adam, dot,         sum,
                              maximum, exp_sum,    scale,       keep_larger, sum_columns};
