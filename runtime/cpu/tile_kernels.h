/* tile_kernels.h - the loops of tile_kernels_internal.h for vectors of WIDTH floats. Included once by each of
 * tile_kernels_*.c, which define WIDTH, COLUMNS, TABLE, EXP(v) and FMA(a, b, c) = a b + c. */
#include "runtime/cpu/tile_kernels_internal.h"

#include <math.h>
#include <string.h>

typedef float vec __attribute__((vector_size(WIDTH * 4)));
typedef int32_t ivec __attribute__((vector_size(WIDTH * 4)));

static inline vec load(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store(float *p, vec v) { memcpy(p, &v, sizeof v); }

/* Floats of a cache line. */
#define LINE 16

static inline vec splat(float x) { return x - (vec){0}; }

/* ------------------------------------------------------------------------------------------------------ products
 *
 * A block of ROWS x COLUMNS vectors of c stays in registers while k runs; each step loads COLUMNS vectors of a row of b
 * and spreads ROWS numbers of a. */
#define ROWS 6
/* Steps of k in one go: so many rows of a column block of b stay in the first-level cache for all rows of a. */
#define DEPTH 128

typedef struct product {
    int64_t k;
    const float *a;
    int64_t a_row, a_col;
    const float *b;
    int64_t b_row;
    float *c;
    int64_t c_row;
    bool add;
} product;

static inline __attribute__((always_inline)) void block(const int rows, const int columns, const product *p)
{
    vec sum[ROWS][COLUMNS];
    const float *a = p->a, *b = p->b;
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < columns; j++)
            sum[i][j] = p->add ? load(p->c + i * p->c_row + j * WIDTH) : (vec){0};
    for (int64_t l = 0; l < p->k; l++, a += p->a_col, b += p->b_row) {
        vec v[COLUMNS];
#pragma GCC unroll 4
        for (int j = 0; j < columns; j++)
            v[j] = load(b + j * WIDTH);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            const vec x = splat(a[i * p->a_row]);
#pragma GCC unroll 4
            for (int j = 0; j < columns; j++)
                sum[i][j] = FMA(x, v[j], sum[i][j]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < columns; j++)
            store(p->c + i * p->c_row + j * WIDTH, sum[i][j]);
}

/* All rows of one column block. */
static inline __attribute__((always_inline)) void block_rows(const int columns, int64_t m, product p)
{
    for (; m >= ROWS; m -= ROWS, p.a += ROWS * p.a_row, p.c += ROWS * p.c_row)
        block(ROWS, columns, &p);
    switch (m) {
    case 5:
        block(5, columns, &p);
        break;
    case 4:
        block(4, columns, &p);
        break;
    case 3:
        block(3, columns, &p);
        break;
    case 2:
        block(2, columns, &p);
        break;
    case 1:
        block(1, columns, &p);
        break;
    }
}

static void column_block(int64_t vectors, int64_t m, const product *p)
{
    switch (vectors) {
    case 1:
        block_rows(1, m, *p);
        break;
    case 2:
        block_rows(2, m, *p);
        break;
#if COLUMNS > 2
    case 3:
        block_rows(3, m, *p);
        break;
    case 4:
        block_rows(4, m, *p);
        break;
#endif
    }
}

static void gemm(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row, int64_t a_col, const float *b,
                 int64_t b_row, float *c, int64_t c_row, bool add)
{
    int64_t l = 0;
    do { /* once for k = 0, to clear c */
        int64_t depth = k - l < DEPTH ? k - l : DEPTH;
        for (int64_t j = 0; j < n; j += COLUMNS * WIDTH) {
            int64_t vectors = (n - j) / WIDTH < COLUMNS ? (n - j) / WIDTH : COLUMNS;
            product p = {depth, a + l * a_col, a_row, a_col, b + l * b_row + j, b_row, c + j, c_row, add || l > 0};
            column_block(vectors, m, &p);
        }
        l += DEPTH;
    } while (l < k);
}

/* Blocks of 2 vectors by THIN_ROWS rows, which many registers make taller. */
#define THIN_ROWS (COLUMNS > 2 ? 12 : 6)
/* Rows of b that are asked for before their use, and that are used for all rows of a before the next ones. */
#define THIN_AHEAD 16
#define THIN_DEPTH 512

static inline __attribute__((always_inline)) void thin_block(const int rows, const int columns, const product *p,
                                                             const float *next)
{
    vec sum[THIN_ROWS][2];
    const float *a = p->a, *b = p->b;
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            sum[i][j] = p->add ? load(p->c + i * p->c_row + j * WIDTH) : (vec){0};
    for (int64_t l = 0; l < p->k; l++, a += p->a_col, b += p->b_row) {
        vec v[2];
        if (next)
            __builtin_prefetch(next + l * LINE);
        for (int j = 0; j < columns; j++) {
            if (!next)
                __builtin_prefetch((const void *)((uintptr_t)b + (uintptr_t)(THIN_AHEAD * p->b_row + j * WIDTH) * 4));
            v[j] = load(b + j * WIDTH);
        }
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            const vec x = splat(a[i * p->a_row]);
            for (int j = 0; j < columns; j++)
                sum[i][j] = FMA(x, v[j], sum[i][j]);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            store(p->c + i * p->c_row + j * WIDTH, sum[i][j]);
}

/* All rows of one block of columns. */
static inline __attribute__((always_inline)) void thin_rows(const int columns, int64_t m, product p, const float *next)
{
    while (m > 0) {
        int rows = m >= THIN_ROWS ? THIN_ROWS : m >= 8 ? 8 : m >= 4 ? 4 : m >= 2 ? 2 : 1;
        switch (rows) {
        case THIN_ROWS:
            thin_block(THIN_ROWS, columns, &p, next);
            break;
#if COLUMNS > 2
        case 8:
            thin_block(8, columns, &p, next);
            break;
#endif
        case 4:
            thin_block(4, columns, &p, next);
            break;
        case 2:
            thin_block(2, columns, &p, next);
            break;
        case 1:
            thin_block(1, columns, &p, next);
            break;
        }
        m -= rows;
        p.a += rows * p.a_row;
        p.c += rows * p.c_row;
    }
}

static void thin_gemm(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row, int64_t a_col, const float *b,
                      int64_t b_row, float *c, int64_t c_row, const float *next)
{
    for (int64_t l = 0; l < k; l += THIN_DEPTH)
        for (int64_t j = 0; j < n; j += 2 * WIDTH) {
            product p = {k - l < THIN_DEPTH ? k - l : THIN_DEPTH,
                         a + l * a_col,
                         a_row,
                         a_col,
                         b + l * b_row + j,
                         b_row,
                         c + j,
                         c_row,
                         l > 0};
            if (n - j >= 2 * WIDTH)
                thin_rows(2, m, p, next ? next + l * LINE : NULL);
            else
                thin_rows(1, m, p, next ? next + l * LINE : NULL);
        }
}

/* 4 x 4 elements. */
static inline void transpose_square(const float *x, int64_t x_row, float *out, int64_t out_row)
{
    typedef float quad __attribute__((vector_size(16)));
    quad r[4], low[2], high[2];
    for (int i = 0; i < 4; i++)
        memcpy(&r[i], x + i * x_row, sizeof r[i]);
    for (int i = 0; i < 2; i++) {
        low[i] = __builtin_shufflevector(r[i], r[i + 2], 0, 4, 1, 5);
        high[i] = __builtin_shufflevector(r[i], r[i + 2], 2, 6, 3, 7);
    }
    r[0] = __builtin_shufflevector(low[0], low[1], 0, 4, 1, 5);
    r[1] = __builtin_shufflevector(low[0], low[1], 2, 6, 3, 7);
    r[2] = __builtin_shufflevector(high[0], high[1], 0, 4, 1, 5);
    r[3] = __builtin_shufflevector(high[0], high[1], 2, 6, 3, 7);
    for (int i = 0; i < 4; i++)
        memcpy(out + i * out_row, &r[i], sizeof r[i]);
}

static void turn(int64_t rows, int64_t columns, const float *x, int64_t x_row, float *out, int64_t out_row)
{
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) {
        int64_t j = 0;
        for (; j + 4 <= columns; j += 4)
            transpose_square(x + i * x_row + j, x_row, out + j * out_row + i, out_row);
        for (; j < columns; j++)
            for (int k = 0; k < 4; k++)
                out[j * out_row + i + k] = x[(i + k) * x_row + j];
    }
    for (; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            out[j * out_row + i] = x[i * x_row + j];
}

/* Columns of x, one after the other, in runs of SG_TILE_LANES rows. */
static void transpose(int64_t rows, int64_t columns, float factor, const float *x, int64_t x_row, float *out,
                      int64_t out_row)
{
    for (int64_t i = 0; i < rows; i += SG_TILE_LANES) {
        int64_t run = rows - i < SG_TILE_LANES ? rows - i : SG_TILE_LANES;
        for (int64_t j = 0; j < columns; j++) {
            float *to = out + j * out_row + i;
            for (int64_t r = 0; r < run; r++)
                to[r] = factor * x[(i + r) * x_row + j];
            for (int64_t r = run; r < SG_TILE_LANES; r++)
                to[r] = 0;
        }
    }
}

/* ---------------------------------------------------------------------------------------------------------- rows */

static void mask(int64_t count, const uint8_t *keep, int64_t step, float *x)
{
    if (step == 1)
        for (int64_t j = 0; j < count; j++)
            x[j] = keep[j] ? x[j] : -INFINITY;
    else
        for (int64_t j = 0; j < count; j++)
            x[j] = keep[j * step] ? x[j] : -INFINITY;
}

static void add(int64_t count, const float *bias, int64_t step, float *x)
{
    if (step == 1)
        for (int64_t j = 0; j < count; j++)
            x[j] += bias[j];
    else
        for (int64_t j = 0; j < count; j++)
            x[j] += bias[j * step];
}

/* Sums of rows: element j goes to lane j % SG_TILE_LANES, lanes are added in a balanced tree. */
#define BANKS (SG_TILE_LANES / WIDTH)

static inline float fold(const vec *bank)
{
    float lane[SG_TILE_LANES];
    memcpy(lane, bank, sizeof lane);
    for (int half = SG_TILE_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* For each j, v.. of the row's j-th vector; b is its bank. */
#define EACH_VECTOR(n)                                                                                                 \
    for (int64_t j = 0; j < (n); j += SG_TILE_LANES)                                                                   \
        for (int b = 0; b < BANKS; b++)
#define AT(x) ((x) + j + b * WIDTH)

static float max(int64_t n, const float *x)
{
    vec top[BANKS];
    ivec nan = {0};
    for (int b = 0; b < BANKS; b++)
        top[b] = splat(-INFINITY);
    EACH_VECTOR(n)
    {
        vec v = load(AT(x));
        ivec more = v > top[b];
        nan |= v != v;
        top[b] = (vec)(((ivec)v & more) | ((ivec)top[b] & ~more));
    }
    float lane[SG_TILE_LANES], best = -INFINITY;
    int32_t bad[WIDTH], any = 0;
    memcpy(lane, top, sizeof lane);
    memcpy(bad, &nan, sizeof bad);
    for (int i = 0; i < SG_TILE_LANES; i++)
        best = lane[i] > best ? lane[i] : best;
    for (int i = 0; i < WIDTH; i++)
        any |= bad[i];
    return any ? NAN : best;
}

static float exp_sum(int64_t n, float shift, float *x)
{
    vec sum[BANKS] = {{0}};
    EACH_VECTOR(n)
    {
        vec e = EXP(load(AT(x)) - shift);
        sum[b] += e;
        store(AT(x), e);
    }
    return fold(sum);
}

static void keep(int64_t n, float rate, float factor, float *u)
{
    const vec yes = splat(factor);
    EACH_VECTOR(n)
    {
        ivec kept = load(AT(u)) >= rate;
        store(AT(u), (vec)((ivec)yes & kept));
    }
}

static void multiply(int64_t n, const float *factor, float *x)
{
    EACH_VECTOR(n)
    store(AT(x), load(AT(factor)) * load(AT(x)));
}

static void scale(int64_t n, float factor, const float *x, float *out)
{
    EACH_VECTOR(n)
    store(AT(out), factor * load(AT(x)));
}

/* ----------------------------------------------------------------------------------- derivatives of a softmax row
 *
 * With w = p (the row's probabilities), M the dropout, and dp the cotangent of p o M:
 *     ds = p (M dp - D + shift),  D = sum p M dp. */
static inline vec dropped(const float *m, int64_t at, vec x) { return m ? load(m + at) * x : x; }

static float weighted_sum(int64_t n, const float *m, const float *p, const float *x)
{
    vec sum[BANKS] = {{0}};
    EACH_VECTOR(n)
    sum[b] = FMA(load(AT(p)), dropped(m, j + b * WIDTH, load(AT(x))), sum[b]);
    return fold(sum);
}

static float softmax_vjp(int64_t n, const float *m, float scale, float shift, float *p, float *dp)
{
    const float centre = weighted_sum(n, m, p, dp) - shift;
    EACH_VECTOR(n)
    {
        vec w = load(AT(p)), g = dropped(m, j + b * WIDTH, load(AT(dp)));
        store(AT(dp), w * scale * (g - centre));
        store(AT(p), dropped(m, j + b * WIDTH, w));
    }
    return centre;
}

/* tp = p (t - mean), mean = sum p t. */
static float softmax_jvp(int64_t n, const float *m, float *p, float *t)
{
    const float mean = weighted_sum(n, NULL, p, t);
    EACH_VECTOR(n)
    {
        vec w = load(AT(p));
        store(AT(t), dropped(m, j + b * WIDTH, w * (load(AT(t)) - mean)));
        store(AT(p), dropped(m, j + b * WIDTH, w));
    }
    return mean;
}

/* tangent of ds = tp (M dp - D + shift) + p (M dt - tD + shift_t),  tD = sum (tp M dp + p M dt). */
static float softmax_vjp_jvp(int64_t n, const float *m, float scale, float shift, float shift_t, float *p, float *t,
                             float *dp, float *dt)
{
    const float mean = weighted_sum(n, NULL, p, t), centre = weighted_sum(n, m, p, dp);
    vec sum[BANKS] = {{0}};
    EACH_VECTOR(n)
    {
        const int64_t at = j + b * WIDTH;
        vec w = load(AT(p)), tp = w * (load(AT(t)) - mean);
        vec g = dropped(m, at, load(AT(dp))), gt = dropped(m, at, load(AT(dt)));
        sum[b] += tp * (g - centre) + w * gt;
        store(AT(t), tp);
        store(AT(dp), g);
        store(AT(dt), gt);
    }
    /* The sum of tp vanishes, so that taking the centre away changes no value, only the size of the terms. */
    const float tangent = fold(sum) - shift_t, base = centre - shift;
    EACH_VECTOR(n)
    {
        const int64_t at = j + b * WIDTH;
        vec w = load(AT(p)), tp = load(AT(t)), g = load(AT(dp)) - base;
        store(AT(dt), scale * (tp * g + w * (load(AT(dt)) - tangent)));
        store(AT(dp), scale * w * g);
        store(AT(t), dropped(m, at, tp));
        store(AT(p), dropped(m, at, w));
    }
    return mean + tangent + base;
}

const sg_tile_kernels TABLE = {gemm,    thin_gemm, turn,     transpose, mask,        add,         max,
                               exp_sum, keep,      multiply, scale,     softmax_vjp, softmax_jvp, softmax_vjp_jvp};
