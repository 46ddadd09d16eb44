/* attention_derivative.c - the derivatives of attention, at the cost of their products alone: scores and probabilities are found
 * again, tile by tile, from q, k and the logsumexp of each row.
 *
 * With S = scale q k' (+ bias), P = exp(S - lse), M the dropout, o = (P o M) v, and cotangents g of o and l of lse:
 *
 *     dP = g v'     dS = P o (M o dP - D + l), D = sum_j P M dP by row     (softmax_vjp)
 *     dq = scale dS k     dk = scale dS' q     dv = (P o M)' g
 *
 * Forward, with t. the tangent of . :
 *     tS = scale (tq k' + q tk') (+ tbias)     tP = P o (tS - sum_j P tS)     tlse = sum_j P tS     (softmax_jvp)
 *     to = (tP o M) v + (P o M) tv
 *
 * and of the reverse one, by the product rule:
 *     tdP = tg v' + g tv'     tdS = tP o (M o dP - D + l) + P o (M o tdP - tD + tl)     (softmax_vjp_jvp)
 *     tdq = scale (tdS k + dS tk)     tdk = scale (tdS' q + dS' tq)     tdv = (tP o M)' g + (P o M)' tg
 *
 * dk and dv are sums over queries: a head belongs to one thread, which adds its tiles in their order. */
#include "runtime/cpu/attention_internal.h"
#include "runtime/cpu/cpu_kernels.h"

#include <math.h>
#include <string.h>

#include "ops/derivative_internal.h"

/* Which input or output of the node holds what; -1: none. */
typedef struct places {
    int32_t lse, g, g_lse;
    int32_t tq, tk, tv, tbias, tg, tg_lse;
    int32_t dq, dk, dv;
} places;

typedef struct derivative {
    sg_attention_problem a;
    places p;
    size_t scratch; /* of one thread */
} derivative;

/* Packed operands of one head and tiles of it. What is not needed is NULL. */
typedef struct operands {
    float *kt, *vt, *k;     /* scale k' and v' [depth or width, row]; k [keys, depth_pad] */
    float *tkt, *tvt, *tk;  /* of their tangents */
    float *v, *tv;          /* [keys, width_pad] */
    float *q, *tq;          /* rows of the tile [tile, depth_pad] */
    float *g, *tg;          /* [tile, width_pad] */
    float *p, *t, *dp, *dt; /* tiles of scores and what belongs to them */
    float *dq, *dk, *dv;    /* [tile, depth_pad], [keys, depth_pad], [keys, width_pad] */
    float *out;             /* [tile, width_pad] */
    float *drop;            /* [row] */
} operands;

static operands carve(const derivative *d, bool forward, sg_scratch *s)
{
    const sg_attention_problem *a = &d->a;
    const places *p = &d->p;
    const bool reverse = p->dq >= 0 || p->dk >= 0 || p->dv >= 0, moves = p->tk >= 0;
#define TAKE(condition, floats) ((condition) ? sg_scratch_take(s, floats) : NULL)
    operands o = {.kt = TAKE(true, a->depth * a->row),
                  .vt = TAKE(reverse, a->width * a->row),
                  .k = TAKE(p->dq >= 0, a->keys * a->depth_pad),
                  .tkt = TAKE(moves, a->depth * a->row),
                  .tvt = TAKE(reverse && p->tv >= 0, a->width * a->row),
                  .tk = TAKE(p->dq >= 0 && moves, a->keys * a->depth_pad),
                  .v = TAKE(!reverse, a->keys * a->width_pad),
                  .tv = TAKE(!reverse && p->tv >= 0, a->keys * a->width_pad),
                  .q = TAKE(p->dk >= 0, a->tile * a->depth_pad),
                  .tq = TAKE(p->dk >= 0 && p->tq >= 0, a->tile * a->depth_pad),
                  .g = TAKE(p->dv >= 0, a->tile * a->width_pad),
                  .tg = TAKE(p->dv >= 0 && p->tg >= 0, a->tile * a->width_pad),
                  .p = TAKE(true, a->tile * a->row),
                  .t = TAKE(forward, a->tile * a->row),
                  .dp = TAKE(reverse, a->tile * a->row),
                  .dt = TAKE(reverse && forward, a->tile * a->row),
                  .dq = TAKE(p->dq >= 0, a->tile * a->depth_pad),
                  .dk = TAKE(p->dk >= 0, a->keys * a->depth_pad),
                  .dv = TAKE(p->dv >= 0, a->keys * a->width_pad),
                  .out = TAKE(!reverse, a->tile * a->width_pad),
                  .drop = TAKE(a->key >= 0, a->row)};
#undef TAKE
    return o;
}

typedef struct job {
    const derivative *d;
    sg_attention_run run;
    void *const *out;
    char *scratch;
} job;

static const float *input(const job *j, int32_t place) { return place < 0 ? NULL : j->run.in[place]; }

/* Where the row of numbers [batch, heads, queries] of the tile begins. */
static const float *row_numbers(const job *j, const sg_attention_tile *t, int32_t place)
{
    const sg_attention_problem *a = &j->d->a;
    const float *x = input(j, place);
    return x ? x + (t->b * a->heads + t->h) * a->queries + t->first : NULL;
}

static float number_at(const float *x, int64_t i) { return x ? x[i] : 0; }

/* Are the head's operands finite, as far as a key that is not attended to would tell otherwise? */
static bool head_is_finite(const job *j, const sg_attention_tile *t)
{
    const sg_attention_problem *a = &j->d->a;
    const places *p = &j->d->p;
    const struct {
        const float *x;
        const sg_attention_layout *l;
        int64_t rows, width;
    } parts[] = {{j->run.in[SG_ATTENTION_Q], &a->q, a->queries, a->depth},
                 {j->run.in[SG_ATTENTION_K], &a->k, a->keys, a->depth},
                 {j->run.in[SG_ATTENTION_V], &a->v, a->keys, a->width},
                 {input(j, p->tq), &a->q, a->queries, a->depth},
                 {input(j, p->tk), &a->k, a->keys, a->depth},
                 {input(j, p->tv), &a->v, a->keys, a->width},
                 {input(j, p->g), &a->out, a->queries, a->width},
                 {input(j, p->tg), &a->out, a->queries, a->width}};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        if (parts[k].x && !sg_attention_finite(t, parts[k].x, parts[k].l, parts[k].rows, parts[k].width))
            return false;
    const float *lse = row_numbers(j, &(sg_attention_tile){.b = t->b, .h = t->h}, p->lse);
    for (int64_t i = 0; lse && i < a->queries; i++) /* of a bias that is not finite */
        if (!(lse[i] < INFINITY))
            return false;
    return true;
}

static void pack_head(const job *j, const sg_attention_tile *t, const operands *o)
{
    const sg_attention_problem *a = &j->d->a;
    const places *p = &j->d->p;
    const void *k = j->run.in[SG_ATTENTION_K], *v = j->run.in[SG_ATTENTION_V];
    sg_attention_pack_columns(&j->run, t, k, &a->k, a->depth, a->scale, o->kt);
    if (o->vt)
        sg_attention_pack_columns(&j->run, t, v, &a->v, a->width, 1, o->vt);
    if (o->k)
        sg_attention_pack_rows(t, k, &a->k, 0, a->keys, a->depth, o->k);
    if (o->v)
        sg_attention_pack_rows(t, v, &a->v, 0, a->keys, a->width, o->v);
    if (o->tkt)
        sg_attention_pack_columns(&j->run, t, input(j, p->tk), &a->k, a->depth, a->scale, o->tkt);
    if (o->tvt)
        sg_attention_pack_columns(&j->run, t, input(j, p->tv), &a->v, a->width, 1, o->tvt);
    if (o->tk)
        sg_attention_pack_rows(t, input(j, p->tk), &a->k, 0, a->keys, a->depth, o->tk);
    if (o->tv)
        sg_attention_pack_rows(t, input(j, p->tv), &a->v, 0, a->keys, a->width, o->tv);
}

static void pack_tile(const job *j, const sg_attention_tile *t, const operands *o)
{
    const sg_attention_problem *a = &j->d->a;
    const places *p = &j->d->p;
    if (o->q)
        sg_attention_pack_rows(t, j->run.in[SG_ATTENTION_Q], &a->q, t->first, t->rows, a->depth, o->q);
    if (o->tq)
        sg_attention_pack_rows(t, input(j, p->tq), &a->q, t->first, t->rows, a->depth, o->tq);
    if (o->g)
        sg_attention_pack_rows(t, input(j, p->g), &a->out, t->first, t->rows, a->width, o->g);
    if (o->tg)
        sg_attention_pack_rows(t, input(j, p->tg), &a->out, t->first, t->rows, a->width, o->tg);
}

/* ------------------------------------------------------------------------------------------- products of one tile */

/* c [rows, row] (+)= x [rows, width] yt, x shaped like the output. */
static void times_columns(const job *j, const sg_attention_tile *t, const float *x, const float *yt, float *c, bool add)
{
    const sg_attention_problem *a = &j->d->a;
    j->run.k->gemm(t->rows, t->keys_pad, a->width, sg_attention_rows(x, &a->out, t, t->first), a->out.row, 1, yt,
                   a->row, c, a->row, add);
}

/* c [rows, pad] (+)= s [rows, row] y [keys, pad]. */
static void times_rows(const job *j, const sg_attention_tile *t, const float *s, const float *y, int64_t pad, float *c,
                       bool add)
{
    j->run.k->gemm(t->rows, pad, t->keys, s, j->d->a.row, 1, y, pad, c, pad, add);
}

/* c [keys, pad] += s' y, y [rows, pad]. */
static void add_transposed(const job *j, const sg_attention_tile *t, const float *s, const float *y, int64_t pad,
                           float *c)
{
    j->run.k->gemm(t->keys, pad, t->rows, s, 1, j->d->a.row, y, pad, c, pad, true);
}

static void clear(const job *j, const sg_attention_tile *t, float *tile)
{
    for (int64_t i = 0; i < t->rows; i++)
        memset(tile + i * j->d->a.row, 0, (size_t)t->keys_pad * sizeof(float));
}

static float *output_rows(const job *j, const sg_attention_layout *l, const sg_attention_tile *t, int32_t place,
                          int64_t row)
{
    return (float *)j->out[place] + t->b * l->batch + t->h * l->head + row * l->row;
}

static void begin_tile(const job *j, const sg_attention_tile *t, const operands *o)
{
    sg_attention_scores(&j->run, t, o->kt, o->p);
    sg_attention_probabilities(&j->run, t, row_numbers(j, t, j->d->p.lse), o->p);
    pack_tile(j, t, o);
}

static void leave_queries(const job *j, const sg_attention_tile *t, const operands *o)
{
    const sg_attention_problem *a = &j->d->a;
    sg_attention_unpack(o->dq, a->depth_pad, t->rows, a->depth, 1, output_rows(j, &a->q, t, j->d->p.dq, t->first),
                        a->q.row);
}

/* --------------------------------------------------------------------------------------------------------- reverse */

static void vjp_tile(const job *j, const sg_attention_tile *t, const operands *o)
{
    const sg_attention_problem *a = &j->d->a;
    const places *p = &j->d->p;
    const float *g_lse = row_numbers(j, t, p->g_lse);
    begin_tile(j, t, o);
    times_columns(j, t, input(j, p->g), o->vt, o->dp, false);
    for (int64_t i = 0; i < t->rows; i++)
        if (!isfinite(j->run.k->softmax_vjp(t->keys_pad, sg_attention_drop(&j->run, t, i, o->drop), a->scale,
                                            number_at(g_lse, i), o->p + i * a->row, o->dp + i * a->row)))
            sg_attention_leave_zero(&j->run, t, i, o->dp + i * a->row);
    if (o->dq) {
        times_rows(j, t, o->dp, o->k, a->depth_pad, o->dq, false);
        leave_queries(j, t, o);
    }
    if (o->dk)
        add_transposed(j, t, o->dp, o->q, a->depth_pad, o->dk);
    if (o->dv)
        add_transposed(j, t, o->p, o->g, a->width_pad, o->dv);
}

/* ---------------------------------------------------------------------------------------------- forward of reverse */

static void vjp_jvp_rows(const job *j, const sg_attention_tile *t, const operands *o)
{
    const sg_attention_problem *a = &j->d->a;
    const float *g_lse = row_numbers(j, t, j->d->p.g_lse), *tg_lse = row_numbers(j, t, j->d->p.tg_lse);
    for (int64_t i = 0; i < t->rows; i++) {
        int64_t at = i * a->row;
        float seen = j->run.k->softmax_vjp_jvp(t->keys_pad, sg_attention_drop(&j->run, t, i, o->drop), a->scale,
                                               number_at(g_lse, i), number_at(tg_lse, i), o->p + at, o->t + at,
                                               o->dp + at, o->dt + at);
        if (isfinite(seen))
            continue;
        sg_attention_leave_zero(&j->run, t, i, o->dp + at);
        sg_attention_leave_zero(&j->run, t, i, o->dt + at);
    }
}

static void vjp_jvp_results(const job *j, const sg_attention_tile *t, const operands *o)
{
    const sg_attention_problem *a = &j->d->a;
    if (o->dq) {
        times_rows(j, t, o->dt, o->k, a->depth_pad, o->dq, false);
        if (o->tk)
            times_rows(j, t, o->dp, o->tk, a->depth_pad, o->dq, true);
        leave_queries(j, t, o);
    }
    if (o->dk)
        add_transposed(j, t, o->dt, o->q, a->depth_pad, o->dk);
    if (o->dk && o->tq)
        add_transposed(j, t, o->dp, o->tq, a->depth_pad, o->dk);
    if (o->dv)
        add_transposed(j, t, o->t, o->g, a->width_pad, o->dv);
    if (o->dv && o->tg)
        add_transposed(j, t, o->p, o->tg, a->width_pad, o->dv);
}

static void vjp_jvp_tile(const job *j, const sg_attention_tile *t, const operands *o)
{
    const places *p = &j->d->p;
    begin_tile(j, t, o);
    sg_attention_score_tangents(&j->run, t, o->kt, input(j, p->tq), o->tkt, input(j, p->tbias), o->t);
    times_columns(j, t, input(j, p->g), o->vt, o->dp, false);
    if (p->tg >= 0)
        times_columns(j, t, input(j, p->tg), o->vt, o->dt, false);
    if (o->tvt)
        times_columns(j, t, input(j, p->g), o->tvt, o->dt, p->tg >= 0);
    if (p->tg < 0 && !o->tvt)
        clear(j, t, o->dt);
    vjp_jvp_rows(j, t, o);
    vjp_jvp_results(j, t, o);
}

/* --------------------------------------------------------------------------------------------------------- forward */

static void jvp_tile(const job *j, const sg_attention_tile *t, const operands *o)
{
    const sg_attention_problem *a = &j->d->a;
    const places *p = &j->d->p;
    float *lse = (float *)j->out[SG_ATTENTION_LSE] + (t->b * a->heads + t->h) * a->queries + t->first;
    begin_tile(j, t, o);
    sg_attention_score_tangents(&j->run, t, o->kt, input(j, p->tq), o->tkt, input(j, p->tbias), o->t);
    for (int64_t i = 0; i < t->rows; i++)
        lse[i] = j->run.k->softmax_jvp(t->keys_pad, sg_attention_drop(&j->run, t, i, o->drop), o->p + i * a->row,
                                       o->t + i * a->row);
    times_rows(j, t, o->t, o->v, a->width_pad, o->out, false);
    if (o->tv)
        times_rows(j, t, o->p, o->tv, a->width_pad, o->out, true);
    sg_attention_unpack(o->out, a->width_pad, t->rows, a->width, 1,
                        output_rows(j, &a->out, t, SG_ATTENTION_OUT, t->first), a->out.row);
}

/* ---------------------------------------------------------------------------------------------------------- ranges */

/* Reverse: whole heads, since all their tiles add to dk and dv. */
static void run_heads(const job *j, int64_t begin, int64_t end, const operands *o, bool forward)
{
    const sg_attention_problem *a = &j->d->a;
    for (int64_t head = begin; head < end; head++) {
        sg_attention_tile t = sg_attention_tile_at(a, head, 0);
        pack_head(j, &t, o);
        bool whole = a->causal && !head_is_finite(j, &t);
        if (o->dk)
            memset(o->dk, 0, (size_t)(a->keys * a->depth_pad) * sizeof(float));
        if (o->dv)
            memset(o->dv, 0, (size_t)(a->keys * a->width_pad) * sizeof(float));
        for (int64_t tile = 0; tile < sg_attention_tiles(a); tile++) {
            t = sg_attention_tile_at(a, head, tile);
            if (whole)
                sg_attention_take_all(a, &t);
            (forward ? vjp_jvp_tile : vjp_tile)(j, &t, o);
        }
        if (o->dk)
            sg_attention_unpack(o->dk, a->depth_pad, a->keys, a->depth, 1, output_rows(j, &a->k, &t, j->d->p.dk, 0),
                                a->k.row);
        if (o->dv)
            sg_attention_unpack(o->dv, a->width_pad, a->keys, a->width, 1, output_rows(j, &a->v, &t, j->d->p.dv, 0),
                                a->v.row);
    }
}

static operands thread_operands(const job *j, int32_t thread, bool forward)
{
    sg_scratch s = {j->scratch + (size_t)thread * j->d->scratch, 0};
    return carve(j->d, forward, &s);
}

static void run_vjp(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    unsigned mode = sg_cpu_flush_subnormals();
    operands o = thread_operands(arg, thread, false);
    run_heads(arg, begin, end, &o, false);
    sg_cpu_restore_subnormals(mode);
}

static void run_vjp_jvp(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    unsigned mode = sg_cpu_flush_subnormals();
    operands o = thread_operands(arg, thread, true);
    run_heads(arg, begin, end, &o, true);
    sg_cpu_restore_subnormals(mode);
}

static void run_jvp(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    const job *j = arg;
    unsigned mode = sg_cpu_flush_subnormals();
    operands o = thread_operands(j, thread, true);
    int64_t tiles = sg_attention_tiles(&j->d->a), packed = -1;
    bool whole = false;
    for (int64_t n = begin; n < end; n++) {
        sg_attention_tile t = sg_attention_tile_at(&j->d->a, n / tiles, n % tiles);
        if (packed != n / tiles) {
            pack_head(j, &t, &o);
            whole = j->d->a.causal && !head_is_finite(j, &t);
        }
        packed = n / tiles;
        if (whole)
            sg_attention_take_all(&j->d->a, &t);
        jvp_tile(j, &t, &o);
    }
    sg_cpu_restore_subnormals(mode);
}

static job job_of(const sg_launch *l)
{
    const derivative *d = l->state;
    return (job){d, sg_attention_begin(&d->a, l), l->out, l->workspace};
}

static bool launch_vjp(const sg_launch *l, sg_error *err)
{
    (void)err;
    job j = job_of(l);
    sg_cpu_parallel(l->threads, j.d->a.batch * j.d->a.heads, run_vjp, &j);
    return true;
}

static bool launch_vjp_jvp(const sg_launch *l, sg_error *err)
{
    (void)err;
    job j = job_of(l);
    sg_cpu_parallel(l->threads, j.d->a.batch * j.d->a.heads, run_vjp_jvp, &j);
    return true;
}

static bool launch_jvp(const sg_launch *l, sg_error *err)
{
    (void)err;
    job j = job_of(l);
    sg_cpu_parallel(l->threads, j.d->a.batch * j.d->a.heads * sg_attention_tiles(&j.d->a), run_jvp, &j);
    return true;
}

/* --------------------------------------------------------------------------------------------------------- prepare */

static const places none = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

static void find_tangents(places *p, const sg_derivative_parts *parts, int32_t bias)
{
    p->tq = sg_derivative_with(parts, SG_ATTENTION_Q);
    p->tk = sg_derivative_with(parts, SG_ATTENTION_K);
    p->tv = sg_derivative_with(parts, SG_ATTENTION_V);
    p->tbias = bias < 0 ? -1 : sg_derivative_with(parts, bias);
}

static void find_reverse(places *p, const sg_derivative_parts *parts)
{
    p->lse = sg_derivative_hint(&sg_op_attention_vjp, parts, SG_ATTENTION_LSE);
    p->g = sg_derivative_with(parts, SG_ATTENTION_OUT);
    p->g_lse = sg_derivative_with(parts, SG_ATTENTION_LSE);
    p->dq = sg_derivative_wrt(parts, SG_ATTENTION_Q);
    p->dk = sg_derivative_wrt(parts, SG_ATTENTION_K);
    p->dv = sg_derivative_wrt(parts, SG_ATTENTION_V);
}

/* Places of the node's operands; n_x receives the number of attention's own inputs. */
static places find_places(const sg_kernel_spec *spec, int32_t *n_x)
{
    places p = none;
    const sg_op *op = spec->node->op;
    sg_derivative_parts outer, inner = sg_derivative_nested(op, spec->attr, spec->n_in, &outer);
    *n_x = inner.n_x;
    int32_t bias = sg_attention_find(*n_x, spec->in_dtype).bias;
    if (op == &sg_op_attention_jvp)
        p.lse = sg_derivative_hint(op, &outer, SG_ATTENTION_LSE);
    else
        find_reverse(&p, &inner);
    if (op != &sg_op_attention_vjp)
        find_tangents(&p, &outer, bias);
    if (op == &sg_op_attention_vjp_jvp) {
        p.tg = p.g < 0 ? -1 : sg_derivative_with(&outer, p.g);
        p.tg_lse = p.g_lse < 0 ? -1 : sg_derivative_with(&outer, p.g_lse);
    }
    return p;
}

/* The cotangent of a bias has the size of the scores, or is a sum of such: that is left to the decomposition. So is a reverse
 * derivative from the logarithms of sums alone: with dp = 0 for what does not exist, sum p dp would be NaN where a p is. */
static bool supports(const sg_kernel_spec *spec)
{
    int32_t n_x;
    places p = find_places(spec, &n_x);
    if (spec->node->op != &sg_op_attention_jvp && p.g < 0)
        return false;
    sg_derivative_parts outer, parts = sg_derivative_nested(spec->node->op, spec->attr, spec->n_in, &outer);
    int32_t bias = sg_attention_find(n_x, spec->in_dtype).bias;
    return sg_attention_fits(spec, n_x) && (bias < 0 || sg_derivative_wrt(&parts, bias) < 0);
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    const sg_op *op = spec->node->op;
    derivative *d = sg_alloc(sizeof *d);
    if (!d)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", op->name);
    int32_t n_x;
    places p = find_places(spec, &n_x);
    bool forward = op != &sg_op_attention_vjp;
    *d = (derivative){.p = p};
    d->a = sg_attention_describe(spec, n_x, op == &sg_op_attention_vjp_jvp ? 4 : 2);
    sg_scratch count = {0};
    carve(d, forward, &count);
    d->scratch = count.used;
    *out = (sg_kernel){.name = op->name, .state = d, .release = sg_free};
    out->launch = !forward ? launch_vjp : op == &sg_op_attention_jvp ? launch_jvp : launch_vjp_jvp;
    out->workspace = d->scratch * (size_t)spec->threads;
    return SG_OK;
}

const sg_cpu_kernel sg_cpu_attention_derivative_kernels[] = {{&sg_op_attention_vjp, supports, prepare},
                                                             {&sg_op_attention_jvp, supports, prepare},
                                                             {&sg_op_attention_vjp_jvp, supports, prepare},
                                                             {0}};
