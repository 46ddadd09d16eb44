/* layer_norm.c - layer_norm, rms_norm and their derivatives, a row at a time in the first-level cache.
 *
 * Forward: the mean is summed in float, then deviations d = x - mean and their squares: mean d, which would be 0 without rounding,
 * corrects both (Chan, Golub and LeVeque 1983): mean += mean d, variance = mean d^2 - (mean d)^2.
 *
 * With u = (x - m) r, h = gamma g, and means over the row a = mean h, b = mean(h u):
 *     gx = r (h - a - u b),    ggamma = sum of g u over rows,    gbeta = sum of g          (vjp)
 * A tangent t of x moves u by du = r (t - mean t - u c) with c = mean(t u), m by mean t and r by -r^2 c:
 *     y moves by gamma du + tgamma u + tbeta                                               (jvp)
 * and gx, with dh = gamma dg + dgamma g, by the product rule:
 *     r (dh - mean dh - du b - u db) - r c gx,    db = mean(dh u) + mean(h du),
 *     mean(h du) = r (mean(h t) - a mean t - b c)                                          (vjp_jvp)
 *
 * In rms_norm m is 0 and does not move, so what is subtracted because it does is 0: a, mean t and mean dh.
 *
 * Rows are cut into fixed chunks. Sums over rows are added up within a chunk, then over chunks. */
#include "ops/derivative_internal.h"
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/norm_kernels_internal.h"
#include "runtime/cpu/row_kernels_internal.h"
#include "runtime/norm_places_internal.h"

#include <math.h>
#include <string.h>

enum {
    CHUNK_ROWS = 256,   /* most rows of a chunk: errors of a sum grow with it */
    CHUNKS = 64,        /* chunks wanted */
    CHUNK_LEAST = 4096, /* elements of a chunk */
    SERIAL_WORK = 16384 /* elements below which a second thread costs more than it saves */
};

enum { X, GAMMA };          /* inputs */
enum { Y };                 /* output */
enum { TO_GAMMA, TO_BETA }; /* sums over rows */

typedef struct job job;
typedef void (*row_fn)(const job *j, int64_t r, int64_t chunk);

typedef struct layer_norm {
    int64_t rows, n, chunk, chunks;
    float eps;
    bool gamma_number, beta_number; /* one number instead of a row */
    sg_norm_places p;
    row_fn run;
    int32_t alias[3];
} layer_norm;

struct job {
    const layer_norm *s;
    const sg_launch *l;
    const sg_norm_kernels *k;
    const float *gamma, *beta, *zeros, *ones; /* rows */
    float *sums;                              /* [2, chunks, n] */
};

static const float *row_of(const void *tensor, const job *j, int64_t r) { return (const float *)tensor + r * j->s->n; }
static float *out_row(const job *j, int32_t place, int64_t r) { return (float *)j->l->out[place] + r * j->s->n; }
static float *sum_of(const job *j, int which, int64_t chunk)
{
    return j->sums + (which * j->s->chunks + chunk) * j->s->n;
}
static bool sums_rows(const layer_norm *s) { return s->p.ggamma >= 0 || s->p.gbeta >= 0; }

/* A tangent: row r of it, the one row it has, or zeros if that input does not move. */
static const float *tangent_row(const job *j, int32_t place, int64_t r)
{
    return place < 0 ? j->zeros : row_of(j->l->in[place], j, r);
}

/* ------------------------------------------------------------------------------------------------ one row of each */

static sg_norm_row statistics(const job *j, const float *x)
{
    int64_t n = j->s->n;
    bool centred = j->s->p.centred;
    float sum[2], shift = centred ? sg_row_kernels_best()->sum(n, x) / (float)n : 0;
    j->k->deviations(n, x, shift, sum);
    float rest = centred ? sum[0] / (float)n : 0, variance = sum[1] / (float)n - rest * rest;
    variance = variance < 0 ? 0 : variance;           /* NaN stays */
    float mean = isinf(shift) ? shift : shift + rest; /* inf - inf is in the rest alone */
    return (sg_norm_row){n, x, j->gamma, mean, 1 / sqrtf(variance + j->s->eps)};
}

/* Mean(h u) where it is not finite: the mean of the row's derivative then sums infinities of both signs, as the u do. */
static float along(const job *j, float mean) { return j->s->p.centred && !isfinite(mean) ? NAN : mean; }

static sg_norm_row known_row(const job *j, int64_t r)
{
    const sg_norm_places *p = &j->s->p;
    const float *x = row_of(j->l->in[X], j, r);
    if (p->spread < 0)
        return statistics(j, x);
    return (sg_norm_row){j->s->n, x, j->gamma, p->centred ? ((const float *)j->l->in[p->mean])[r] : 0,
                         ((const float *)j->l->in[p->spread])[r]};
}

static void put_statistics(const job *j, int64_t r, float mean, float rstd)
{
    const sg_norm_places *p = &j->s->p;
    ((float *)j->l->out[p->out_spread])[r] = rstd;
    if (p->centred)
        ((float *)j->l->out[p->out_mean])[r] = mean;
}

static void forward_row(const job *j, int64_t r, int64_t chunk)
{
    (void)chunk;
    sg_norm_row row = statistics(j, row_of(j->l->in[X], j, r));
    j->k->normalise(&row, j->beta, out_row(j, Y, r));
    put_statistics(j, r, row.mean, row.rstd);
}

static void vjp_row(const job *j, int64_t r, int64_t chunk)
{
    const sg_norm_places *p = &j->s->p;
    float n = (float)j->s->n, sum[2];
    sg_norm_row row = known_row(j, r);
    const float *g = row_of(j->l->in[p->g], j, r);
    if (sums_rows(j->s))
        j->k->vjp_columns(&row, g, sum_of(j, TO_GAMMA, chunk), sum_of(j, TO_BETA, chunk));
    if (p->gx < 0)
        return;
    j->k->vjp_sums(&row, g, sum);
    j->k->vjp(&row, g, p->centred ? sum[0] / n : 0, along(j, sum[1] / n), out_row(j, p->gx, r));
}

static void jvp_row(const job *j, int64_t r, int64_t chunk)
{
    (void)chunk;
    const sg_norm_places *p = &j->s->p;
    float sum[2] = {0, 0}, mean = 0, c = 0;
    sg_norm_row row = known_row(j, r), plain = row;
    const float *t = tangent_row(j, p->tx, r);
    if (p->tx >= 0) {
        plain.gamma = j->ones; /* sums of t and t u */
        j->k->vjp_sums(&plain, t, sum);
        mean = p->centred ? sum[0] / (float)row.n : 0;
        c = along(j, sum[1] / (float)row.n);
    }
    j->k->jvp(&row, t, mean, c, tangent_row(j, p->tgamma, 0), tangent_row(j, p->tbeta, 0), out_row(j, Y, r));
    put_statistics(j, r, mean, p->tx < 0 ? 0 : -row.rstd * row.rstd * c);
}

static void vjp_jvp_row(const job *j, int64_t r, int64_t chunk)
{
    const sg_norm_places *p = &j->s->p;
    sg_norm_row row = known_row(j, r);
    const float *g = row_of(j->l->in[p->g], j, r), *dgamma = tangent_row(j, p->tgamma, 0);
    const float *t = tangent_row(j, p->tx, r), *dg = tangent_row(j, p->tg, r);
    float mean[SG_NORM_SUMS];
    j->k->second_sums(&row, g, t, dgamma, dg, mean);
    for (int k = 0; k < SG_NORM_SUMS; k++)
        mean[k] /= (float)j->s->n;
    mean[SG_NORM_HU] = along(j, mean[SG_NORM_HU]);
    mean[SG_NORM_TU] = along(j, mean[SG_NORM_TU]);
    if (!p->centred)
        mean[SG_NORM_H] = mean[SG_NORM_T] = mean[SG_NORM_DH] = 0;
    if (sums_rows(j->s))
        j->k->second_columns(&row, g, t, dg, mean[SG_NORM_T], mean[SG_NORM_TU], sum_of(j, TO_GAMMA, chunk),
                             sum_of(j, TO_BETA, chunk));
    if (p->gx >= 0)
        j->k->second(&row, g, t, dgamma, dg, mean, out_row(j, p->gx, r));
}

/* -------------------------------------------------------------------------------------------------------- running */

static void run_chunks(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    const layer_norm *s = j->s;
    for (int64_t c = begin; c < end; c++) {
        for (int which = TO_GAMMA; which <= TO_BETA && sums_rows(s) && s->n > 0; which++)
            memset(sum_of(j, which, c), 0, (size_t)s->n * sizeof(float));
        int64_t last = (c + 1) * s->chunk < s->rows ? (c + 1) * s->chunk : s->rows;
        for (int64_t r = c * s->chunk; r < last; r++)
            s->run(j, r, c);
    }
}

static void fill(float *row, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        row[i] = value;
}

/* Gamma or beta as a row, which is `room` if it is a number. */
static const float *affine_row(const float *given, bool number, int64_t n, float *room)
{
    if (!number)
        return given;
    fill(room, n, *given);
    return room;
}

static void finish_sums(const job *j, int which, int32_t place)
{
    const layer_norm *s = j->s;
    if (place < 0 || s->n == 0)
        return;
    if (s->chunks == 0)
        memset(j->l->out[place], 0, (size_t)s->n * sizeof(float));
    else
        sg_row_kernels_sums()->sum_columns(s->chunks, s->n, sum_of(j, which, 0), s->n, j->l->out[place]);
}

static bool launch(const sg_launch *l, sg_error *err)
{
    (void)err;
    const layer_norm *s = l->state;
    int64_t n = s->n;
    float *room = l->workspace;
    fill(room + 2 * n, n, 0);
    fill(room + 3 * n, n, 1);
    job j = {
        .s = s, .l = l, .k = sg_norm_kernels_best(), .zeros = room + 2 * n, .ones = room + 3 * n, .sums = room + 4 * n};
    j.gamma = affine_row(l->in[GAMMA], s->gamma_number, n, room);
    j.beta = s->p.beta < 0 ? j.zeros : affine_row(l->in[s->p.beta], s->beta_number, n, room + n);
    sg_cpu_parallel(s->rows * n < SERIAL_WORK ? 1 : l->threads, s->chunks, run_chunks, &j);
    finish_sums(&j, TO_GAMMA, s->p.ggamma);
    finish_sums(&j, TO_BETA, s->p.gbeta);
    return true;
}

/* --------------------------------------------------------------------------------------------------------- prepare */

static bool is_number(const sg_kernel_spec *spec, int32_t input)
{
    return input >= 0 && spec->in_shape[input].rank == 0;
}

/* Sums and tangents are those of rows: where gamma or beta is one number, its derivatives are left to the decomposition. */
static bool supports(const sg_kernel_spec *spec)
{
    sg_norm_places p;
    if (spec->in_dtype[X] != SG_F32 || !sg_norm_find(spec, &p))
        return false;
    bool gamma_varies = p.ggamma >= 0 || p.tgamma >= 0, beta_varies = p.gbeta >= 0 || p.tbeta >= 0;
    return !(gamma_varies && is_number(spec, GAMMA)) && !(beta_varies && is_number(spec, p.beta));
}

static row_fn row_of_op(const sg_op *op)
{
    return !op->parent ? forward_row : sg_is_vjp(op) ? vjp_row : !op->parent->parent ? jvp_row : vjp_jvp_row;
}

static void cut_chunks(layer_norm *s, const sg_kernel_spec *spec)
{
    const sg_shape *x = &spec->in_shape[X];
    int64_t axes = s->p.centred ? spec->attr[0].i : spec->in_shape[GAMMA].rank;
    s->rows = s->n = 1;
    for (int32_t i = 0; i < x->rank; i++)
        *(i < x->rank - axes ? &s->rows : &s->n) *= x->dim[i];
    int64_t least = s->n < CHUNK_LEAST ? CHUNK_LEAST / (s->n > 0 ? s->n : 1) : 1;
    s->chunk = (s->rows + CHUNKS - 1) / CHUNKS;
    s->chunk = s->chunk < least ? least : s->chunk;
    s->chunk = s->chunk > CHUNK_ROWS ? CHUNK_ROWS : s->chunk;
    s->chunks = (s->rows + s->chunk - 1) / s->chunk;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    const sg_op *op = spec->node->op;
    layer_norm *s = sg_calloc(1, sizeof *s);
    if (!s)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", op->name);
    sg_norm_find(spec, &s->p);
    cut_chunks(s, spec);
    s->eps = (float)s->p.eps;
    s->gamma_number = is_number(spec, GAMMA);
    s->beta_number = is_number(spec, s->p.beta);
    s->run = row_of_op(op);
    for (int32_t k = 0; k < 3; k++)
        s->alias[k] = -1;
    if (s->run == forward_row)
        s->alias[Y] = X; /* a row is read before it is written */
    if (s->run == vjp_row && s->p.gx >= 0)
        s->alias[s->p.gx] = s->p.g;
    int64_t sums = sums_rows(s) ? 2 * s->chunks : 0;
    *out = (sg_kernel){.name = op->name, .launch = launch, .state = s, .release = sg_free, .alias = s->alias};
    out->workspace = (size_t)((4 + sums) * s->n) * sizeof(float);
    return SG_OK;
}

const sg_cpu_kernel sg_cpu_layer_norm_kernels[] = {{&sg_op_layer_norm, supports, prepare},
                                                   {&sg_op_layer_norm_vjp, supports, prepare},
                                                   {&sg_op_layer_norm_jvp, supports, prepare},
                                                   {&sg_op_layer_norm_vjp_jvp, supports, prepare},
                                                   {&sg_op_rms_norm, supports, prepare},
                                                   {&sg_op_rms_norm_vjp, supports, prepare},
                                                   {&sg_op_rms_norm_jvp, supports, prepare},
                                                   {&sg_op_rms_norm_vjp_jvp, supports, prepare},
                                                   {0}};
