/* crf.c - linear-chain CRF: the forward recursion, the marginals (its reverse derivative), and the forward derivatives of both.
 *
 * With p_t(i|j) = exp(alpha_{t-1}[i] + trans[i, j] - logsumexp_i(..)), the probability of tag i before tag j at step t, and
 * q = softmax(alpha_{n-1} + end), the reverse recursion from the cotangent g of log Z is
 *
 *     a_{n-1} = g q,     a_{t-1}[i] = sum_j a_t[j] p_t(i|j),     de_t = a_t,     dtrans[i, j] = sum_t a_t[j] p_t(i|j).
 *
 * A tangent moves forward by  talpha_t[j] = te_t[j] + sum_i p_t(i|j) u_ij,  u_ij = talpha_{t-1}[i] + ttrans[i, j], and the
 * probabilities by  tp = p (u - sum p u);  the product rule gives the tangent of the reverse recursion.
 *
 * The exponentials of the transitions are taken once, W[i, j] = exp(trans[i, j] - m_j) with m_j the largest of
 * column j, and those of alpha once a step: with x_i = exp(alpha_{t-1}[i] - max alpha) a step is the product s = x' W, and its
 * reverse another, since p_t(i|j) = x_i W[i, j] / s_j. With V = W ttrans, element by element, tangents are products too:
 *     sum p u = (x tu)' W + x' V over s     with tu = talpha_{t-1} less its first element, which sum p (u - sum p u) does not see.
 * Where s_j is so small that terms may have been lost below 2^-126 (tags that
 * are nearly impossible together), the sum is taken again from the logarithms.
 *
 * Rows of the batch are independent. Sums over rows (transitions, start, end) are taken in chunks of CHUNK rows, then over
 * the chunks in order: the same for every number of threads. p_t(.|j) is a contiguous row of the transposed transitions. */
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/index_internal.h"
#include "runtime/cpu/row_kernels_internal.h"
#include "runtime/cpu/tile_kernels_internal.h"

#include <math.h>
#include <string.h>

#include "ops/crf_internal.h"
#include "ops/ops_internal.h"
#include "runtime/crf_places_internal.h"

#define CHUNK 4
/* Sums above this have lost no term that counts: 2^-126 is 1e-18 of it. */
#define SAFE_SUM 1e-20f

typedef struct crf {
    int64_t batch, steps, tags, pad; /* pad: tags in whole vectors */
    sg_crf_places p;
    size_t scratch, sums; /* floats of one thread, and of one chunk's sums */
} crf;

typedef struct job {
    const crf *c;
    const sg_launch *l;
    const sg_row_kernels *rows;
    const sg_tile_kernels *tiles;
    const float *weights, *weights_t, *top; /* W [from, pad], W' [to, pad], m [to] */
    const float *moved, *moved_t;           /* V and V', or NULL */
    const float *transposed, *ttransposed;  /* [to, from] */
    float *scratch, *sums;
} job;

/* One row of the batch and the scratch it works in, each of `pad` elements but talpha. */
typedef struct row {
    int64_t b, length;
    float *p, *u, *a, *next_a, *ta, *next_ta, *x, *s, *y, *mean, *q;
    float *talpha;        /* [steps, tags] */
    float *dtransitions;  /* [to, from], of the chunk */
    float *dweights;      /* the same over W, [from, pad] */
    float *dmoved;        /* and over V */
    float *dstart, *dend; /* of the chunk */
} row;

static const float *input(const job *j, int32_t place) { return place < 0 ? NULL : j->l->in[place]; }

static float at_or_zero(const float *x, int64_t i) { return x ? x[i] : 0; }

static row row_at(const job *j, int64_t b, int32_t thread)
{
    const crf *c = j->c;
    const int32_t *lengths = c->p.lengths < 0 ? NULL : j->l->in[c->p.lengths];
    row r = {.b = b, .length = lengths ? lengths[b] : c->steps};
    float *s = j->scratch + (size_t)thread * c->scratch;
    float **const parts[] = {&r.p, &r.u, &r.a, &r.next_a, &r.ta, &r.next_ta, &r.x, &r.s, &r.y, &r.mean, &r.q};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++, s += c->pad)
        *parts[i] = s;
    r.talpha = s;
    r.dtransitions = j->sums + (size_t)(b / CHUNK) * c->sums;
    r.dweights = r.dtransitions + c->tags * c->tags;
    r.dmoved = r.dweights + c->tags * c->pad;
    r.dstart = r.dmoved + c->tags * c->pad;
    r.dend = r.dstart + c->tags;
    return r;
}

/* out = softmax of x + y; zeros if all are -inf. If the largest is inf, finite elements have no part in it, and it is NaN itself. */
static void softmax_of_sum(const job *j, const float *x, const float *y, float *out)
{
    int64_t n = j->c->tags;
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] + y[i];
    float top = j->rows->max(n, out);
    float sum = top == -INFINITY ? 0 : j->rows->exp_sum(n, out, top, out);
    if (top == -INFINITY)
        memset(out, 0, (size_t)n * sizeof *out);
    else if (isfinite(top))
        j->rows->scale(n, 1 / sum, out);
}

/* ------------------------------------------------------------------------------------------------- log partition */

/* logsumexp of shifted[i] + y[i]. */
static double logsumexp_of_sum(const job *j, const float *shifted, const float *y, float *work)
{
    int64_t n = j->c->tags;
    for (int64_t i = 0; i < n; i++)
        work[i] = shifted[i] + y[i];
    float top = j->rows->max(n, work);
    return isfinite(top) ? top + log(j->rows->exp_sum(n, work, top, NULL)) : top;
}

/* shifted = alpha - max alpha, which is returned: alpha grows with the steps, its differences do not. */
static double shift(const double *alpha, int64_t n, float *shifted)
{
    double top = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        top = isnan(alpha[i]) || alpha[i] > top ? alpha[i] : top;
    double by = isfinite(top) ? top : 0;
    for (int64_t i = 0; i < n; i++)
        shifted[i] = (float)(alpha[i] - by);
    return by;
}

/* x = exp(alpha - shift), s = x' W. */
static void step_sums(const job *j, const row *r, const float *alpha, float shift)
{
    const crf *c = j->c;
    j->rows->exp_sum(c->tags, alpha, shift, r->x);
    j->tiles->gemm(1, c->pad, c->tags, r->x, 0, 1, j->weights, c->pad, r->s, c->pad, false);
}

/* Is column k's sum s good enough to divide by? */
static bool is_safe(const row *r, int64_t k) { return r->s[k] > SAFE_SUM && r->s[k] < INFINITY; }

/* step_sums of a row of alpha, or false where its maximum is not finite. */
static bool begin_step(const job *j, const row *r, const float *alpha)
{
    float top = j->rows->max(j->c->tags, alpha);
    if (isfinite(top))
        step_sums(j, r, alpha, top);
    return isfinite(top);
}

/* The logarithm of column k's sum, after step_sums of the shifted alpha in r->a. */
static double column_sum(const job *j, const row *r, int64_t k)
{
    if (is_safe(r, k))
        return j->top[k] + logf(r->s[k]);
    return logsumexp_of_sum(j, r->a, j->transposed + k * j->c->tags, r->next_a);
}

static void partition_row(const job *j, const row *r, double *alpha)
{
    const crf *c = j->c;
    const float *e = (const float *)j->l->in[SG_CRF_EMISSIONS] + r->b * c->steps * c->tags;
    float *out = (float *)j->l->out[SG_CRF_ALPHA] + r->b * c->steps * c->tags;
    for (int64_t t = 0; t < c->steps; t++) {
        double by = t > 0 && t < r->length ? shift(alpha, c->tags, r->a) : 0;
        if (t > 0 && t < r->length)
            step_sums(j, r, r->a, 0);
        for (int64_t k = 0; k < c->tags; k++) {
            if (t == 0)
                alpha[k] = (double)e[k] + input(j, SG_CRF_START)[k];
            else if (t < r->length)
                alpha[k] = by + column_sum(j, r, k) + e[t * c->tags + k];
            out[t * c->tags + k] = (float)alpha[k];
        }
    }
    double log_z = 0;
    if (r->length > 0) {
        double by = shift(alpha, c->tags, r->a);
        log_z = by + logsumexp_of_sum(j, r->a, input(j, SG_CRF_END), r->next_a);
    }
    ((float *)j->l->out[SG_CRF_LOG_Z])[r->b] = (float)log_z;
}

static void run_partition(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    const job *j = arg;
    for (int64_t b = begin; b < end; b++) {
        row r = row_at(j, b, thread);
        partition_row(j, &r, (double *)r.p); /* two rows of floats at an aligned place */
    }
}

/* ------------------------------------------------------------------------------------------------------- tangents */

/* u[i] = talpha[i] + ttrans[i, k]. */
static void tangent_before(const job *j, const float *talpha, int64_t k, float *u)
{
    int64_t n = j->c->tags;
    for (int64_t i = 0; i < n; i++)
        u[i] = talpha[i] + (j->ttransposed ? j->ttransposed[k * n + i] : 0);
}

/* After step_sums: y = x tu and mean = sum p u less talpha[0], for the safe columns. */
static void step_means(const job *j, const row *r, const float *talpha)
{
    const crf *c = j->c;
    for (int64_t i = 0; i < c->tags; i++)
        r->y[i] = r->x[i] * (talpha[i] - talpha[0]);
    j->tiles->gemm(1, c->pad, c->tags, r->y, 0, 1, j->weights, c->pad, r->mean, c->pad, false);
    if (j->moved)
        j->tiles->gemm(1, c->pad, c->tags, r->x, 0, 1, j->moved, c->pad, r->mean, c->pad, true);
    for (int64_t k = 0; k < c->tags; k++)
        r->mean[k] /= r->s[k];
}

/* sum p u for column k, from the logarithms. */
static float direct_mean(const job *j, const row *r, const float *alpha, const float *talpha, int64_t k)
{
    softmax_of_sum(j, alpha, j->transposed + k * j->c->tags, r->p);
    tangent_before(j, talpha, k, r->u);
    return j->rows->dot(j->c->tags, r->p, r->u);
}

/* All tangents of alpha of the row into talpha [steps, tags]. */
static void forward_row(const job *j, const row *r, float *talpha)
{
    const crf *c = j->c;
    int64_t n = c->tags, first = r->b * c->steps * n;
    const float *alpha = input(j, c->p.alpha) + first, *te = input(j, c->p.te);
    for (int64_t t = 0; t < c->steps; t++, alpha += n) {
        float *now = talpha + t * n, *before = now - n;
        if (t > 0 && t >= r->length) {
            memcpy(now, before, (size_t)n * sizeof *now);
            continue;
        }
        bool finite = t > 0 && begin_step(j, r, alpha - n);
        if (finite)
            step_means(j, r, before);
        for (int64_t k = 0; k < n; k++) {
            float arrival = t == 0                    ? at_or_zero(input(j, c->p.tstart), k)
                            : finite && is_safe(r, k) ? before[0] + r->mean[k]
                                                      : direct_mean(j, r, alpha - n, before, k);
            now[k] = at_or_zero(te ? te + first : NULL, t * n + k) + arrival;
        }
    }
}

static void run_forward(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    const job *j = arg;
    const crf *c = j->c;
    int64_t n = c->tags;
    for (int64_t b = begin; b < end; b++) {
        row r = row_at(j, b, thread);
        float *talpha = (float *)j->l->out[SG_CRF_ALPHA] + b * c->steps * n, tangent = 0;
        forward_row(j, &r, talpha);
        if (r.length > 0) {
            const float *tend = input(j, c->p.tend), *last = talpha + (r.length - 1) * n;
            softmax_of_sum(j, input(j, c->p.alpha) + (b * c->steps + r.length - 1) * n, input(j, SG_CRF_END), r.p);
            for (int64_t k = 0; k < n; k++)
                r.u[k] = last[k] + at_or_zero(tend, k);
            tangent = j->rows->dot(n, r.p, r.u);
        }
        ((float *)j->l->out[SG_CRF_LOG_Z])[b] = tangent;
    }
}

/* -------------------------------------------------------------------------------------------------------- reverse */

static void add_to(float *sum, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += x[i];
}

/* a_{n-1} and its tangent. */
static void last_step(const job *j, const row *r)
{
    const crf *c = j->c;
    int64_t n = c->tags, at = r->length - 1;
    float g = input(j, c->p.g)[r->b], tg = at_or_zero(input(j, c->p.tg), r->b), mean = 0;
    softmax_of_sum(j, input(j, c->p.alpha) + (r->b * c->steps + at) * n, input(j, SG_CRF_END), r->p);
    if (c->p.forward) {
        for (int64_t k = 0; k < n; k++)
            r->u[k] = r->talpha[at * n + k] + at_or_zero(input(j, c->p.tend), k);
        mean = j->rows->dot(n, r->p, r->u);
    }
    for (int64_t k = 0; k < n; k++) {
        r->a[k] = g * r->p[k];
        if (c->p.forward)
            r->ta[k] = tg * r->p[k] + g * (r->p[k] * (r->u[k] - mean));
    }
}

/* From step t, tag k, to the tags before it. */
static void pull_back(const job *j, const row *r, int64_t t, int64_t k)
{
    const crf *c = j->c;
    int64_t n = c->tags;
    float a = r->a[k], *sum = r->dtransitions + k * n;
    softmax_of_sum(j, input(j, c->p.alpha) + (r->b * c->steps + t - 1) * n, j->transposed + k * n, r->p);
    if (!c->p.forward) {
        for (int64_t i = 0; i < n; i++) {
            float pair = a * r->p[i];
            r->next_a[i] += pair;
            sum[i] += pair;
        }
        return;
    }
    tangent_before(j, r->talpha + (t - 1) * n, k, r->u);
    float mean = j->rows->dot(n, r->p, r->u), ta = r->ta[k];
    for (int64_t i = 0; i < n; i++) {
        float tpair = ta * r->p[i] + a * (r->p[i] * (r->u[i] - mean));
        r->next_a[i] += a * r->p[i];
        r->next_ta[i] += tpair;
        sum[i] += tpair;
    }
}

/* The step before t for all tags, through W where that is safe: u = a / s, and q = ta / s - u mean. */
static void pull_back_all(const job *j, const row *r, int64_t t)
{
    const crf *c = j->c;
    int64_t n = c->tags, pad = c->pad;
    bool finite = begin_step(j, r, input(j, c->p.alpha) + (r->b * c->steps + t - 1) * n);
    if (finite && c->p.forward)
        step_means(j, r, r->talpha + (t - 1) * n);
    for (int64_t k = 0; k < n; k++)
        if (!finite || !is_safe(r, k))
            pull_back(j, r, t, k);
    if (!finite)
        return;
    memset(r->u, 0, (size_t)pad * sizeof *r->u);
    memset(r->q, 0, (size_t)pad * sizeof *r->q);
    for (int64_t k = 0; k < n; k++)
        if (is_safe(r, k)) {
            r->u[k] = r->a[k] / r->s[k];
            r->q[k] = c->p.forward ? r->ta[k] / r->s[k] - r->u[k] * r->mean[k] : 0;
        }
    j->tiles->gemm(1, pad, n, r->u, 0, 1, j->weights_t, pad, r->p, pad, false);
    for (int64_t i = 0; i < n; i++)
        r->next_a[i] += r->x[i] * r->p[i];
    j->tiles->gemm(n, pad, 1, c->p.forward ? r->y : r->x, 1, 0, r->u, pad, r->dweights, pad, true);
    if (!c->p.forward)
        return;
    for (int64_t i = 0; i < n; i++)
        r->next_ta[i] += r->y[i] * r->p[i];
    j->tiles->gemm(1, pad, n, r->q, 0, 1, j->weights_t, pad, r->p, pad, false);
    if (j->moved)
        j->tiles->gemm(1, pad, n, r->u, 0, 1, j->moved_t, pad, r->p, pad, true);
    for (int64_t i = 0; i < n; i++)
        r->next_ta[i] += r->x[i] * r->p[i];
    j->tiles->gemm(n, pad, 1, r->x, 1, 0, r->q, pad, r->dweights, pad, true);
    if (j->moved)
        j->tiles->gemm(n, pad, 1, r->x, 1, 0, r->u, pad, r->dmoved, pad, true);
}

static void swap(float **a, float **b)
{
    float *old = *a;
    *a = *b;
    *b = old;
}

static void reverse_row(const job *j, row *r)
{
    const crf *c = j->c;
    int64_t n = c->tags;
    float *de = c->p.de < 0 ? NULL : (float *)j->l->out[c->p.de] + r->b * c->steps * n;
    if (de)
        memset(de + r->length * n, 0, (size_t)((c->steps - r->length) * n) * sizeof *de);
    if (r->length == 0)
        return;
    if (c->p.forward)
        forward_row(j, r, r->talpha);
    last_step(j, r);
    add_to(r->dend, c->p.forward ? r->ta : r->a, n);
    for (int64_t t = r->length - 1; t >= 0; t--) {
        if (de)
            memcpy(de + t * n, c->p.forward ? r->ta : r->a, (size_t)n * sizeof *de);
        if (t == 0)
            break;
        memset(r->next_a, 0, (size_t)n * sizeof *r->next_a);
        memset(r->next_ta, 0, (size_t)n * sizeof *r->next_ta);
        pull_back_all(j, r, t);
        swap(&r->a, &r->next_a);
        swap(&r->ta, &r->next_ta);
    }
    add_to(r->dstart, c->p.forward ? r->ta : r->a, n);
}

static void run_reverse(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    const job *j = arg;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        memset(j->sums + (size_t)chunk * j->c->sums, 0, j->c->sums * sizeof(float));
        for (int64_t b = chunk * CHUNK; b < (chunk + 1) * CHUNK && b < j->c->batch; b++) {
            row r = row_at(j, b, thread);
            reverse_row(j, &r);
        }
    }
}

/* Element i of the sums of all chunks. */
static float total(const job *j, int64_t i)
{
    float sum = 0;
    for (int64_t chunk = 0; chunk * CHUNK < j->c->batch; chunk++)
        sum += j->sums[(size_t)chunk * j->c->sums + (size_t)i];
    return sum;
}

/* The sum over all pairs of steps for a transition. A column of W that is not finite was never used. */
static float total_transition(const job *j, int64_t from, int64_t to)
{
    int64_t n = j->c->tags, weights = n * n, at = from * j->c->pad + to;
    float sum = total(j, to * n + from);
    if (isnan(j->top[to]) || j->top[to] == INFINITY)
        return sum;
    sum += total(j, weights + at) * j->weights[at];
    return j->moved ? sum + total(j, weights + n * j->c->pad + at) * j->moved[at] : sum;
}

static void leave_sums(const job *j)
{
    const crf *c = j->c;
    int64_t n = c->tags, start = n * n + 2 * n * c->pad;
    for (int64_t from = 0; from < n; from++) {
        for (int64_t to = 0; to < n && c->p.dtransitions >= 0; to++)
            ((float *)j->l->out[c->p.dtransitions])[from * n + to] = total_transition(j, from, to);
        if (c->p.dstart >= 0)
            ((float *)j->l->out[c->p.dstart])[from] = total(j, start + from);
        if (c->p.dend >= 0)
            ((float *)j->l->out[c->p.dend])[from] = total(j, start + n + from);
    }
}

/* --------------------------------------------------------------------------------------------------------- launch */

static const float *transpose(const float *x, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++)
            out[k * n + i] = x[i * n + k];
    return out;
}

/* W, its transpose and the largest of each column, from the transposed transitions; rows are padded with zeros. */
static void take_exponentials(job *j, float *weights, float *weights_t, float *top)
{
    int64_t n = j->c->tags, pad = j->c->pad;
    memset(weights, 0, (size_t)(n * pad) * sizeof *weights);
    memset(weights_t, 0, (size_t)(n * pad) * sizeof *weights);
    for (int64_t to = 0; to < n; to++) {
        top[to] = j->rows->max(n, j->transposed + to * n);
        if (top[to] != -INFINITY)
            j->rows->exp_sum(n, j->transposed + to * n, top[to], weights_t + to * pad);
        for (int64_t from = 0; from < n; from++)
            weights[from * pad + to] = weights_t[to * pad + from];
    }
    j->weights = weights;
    j->weights_t = weights_t;
    j->top = top;
}

/* V and its transpose. */
static void take_moved(job *j, float *moved, float *moved_t)
{
    int64_t n = j->c->tags, pad = j->c->pad;
    memset(moved, 0, (size_t)(n * pad) * sizeof *moved);
    memset(moved_t, 0, (size_t)(n * pad) * sizeof *moved);
    for (int64_t to = 0; to < n; to++)
        for (int64_t from = 0; from < n; from++)
            moved[from * pad + to] = moved_t[to * pad + from] =
                j->weights_t[to * pad + from] * j->ttransposed[to * n + from];
    j->moved = moved;
    j->moved_t = moved_t;
}

static bool launch(const sg_launch *l, sg_error *err)
{
    const crf *c = l->state;
    if (c->p.lengths >= 0 && !sg_cpu_check_indices(l->in[c->p.lengths], c->batch, c->steps + 1, err))
        return false;
    float *work = l->workspace;
    int64_t square = c->tags * c->tags, padded = c->tags * c->pad, chunks = (c->batch + CHUNK - 1) / CHUNK;
    job j = {.c = c, .l = l, .rows = sg_row_kernels_best(), .tiles = sg_tile_kernels_best()};
    j.transposed = transpose(l->in[SG_CRF_TRANSITIONS], c->tags, work);
    if (c->p.ttransitions >= 0)
        j.ttransposed = transpose(l->in[c->p.ttransitions], c->tags, work + square);
    take_exponentials(&j, work + 2 * square, work + 2 * square + padded, work + 2 * square + 2 * padded);
    float *moved = work + 2 * square + 2 * padded + c->pad;
    if (j.ttransposed)
        take_moved(&j, moved, moved + padded);
    j.sums = moved + 2 * padded;
    j.scratch = j.sums + (size_t)chunks * c->sums;
    if (c->p.reverse) {
        sg_cpu_parallel(l->threads, chunks, run_reverse, &j);
        leave_sums(&j);
    } else {
        sg_cpu_parallel(l->threads, c->batch, c->p.forward ? run_forward : run_partition, &j);
    }
    return true;
}

/* --------------------------------------------------------------------------------------------------------- prepare */

static bool supports(const sg_kernel_spec *spec)
{
    sg_crf_places p;
    return spec->in_dtype[0] == SG_F32 && sg_crf_find(spec, &p);
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    const sg_op *op = spec->node->op;
    const sg_shape *e = &spec->in_shape[SG_CRF_EMISSIONS];
    crf *c = sg_calloc(1, sizeof *c);
    if (!c)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", op->name);
    *c = (crf){.batch = e->dim[0], .steps = e->dim[1], .tags = e->dim[2], .pad = sg_tile_pad(e->dim[2])};
    sg_crf_find(spec, &c->p);
    size_t tags = (size_t)c->tags, pad = (size_t)c->pad, chunks = ((size_t)c->batch + CHUNK - 1) / CHUNK;
    c->scratch = sg_cpu_line((11 * pad + (size_t)c->steps * tags) * sizeof(float)) / sizeof(float);
    c->sums = c->p.reverse ? sg_cpu_line((tags * tags + 2 * tags * pad + 2 * tags) * sizeof(float)) / sizeof(float) : 0;
    *out = (sg_kernel){.name = op->name, .launch = launch, .state = c, .release = sg_free};
    out->workspace = (2 * tags * tags + 4 * tags * pad + pad + chunks * c->sums + c->scratch * (size_t)spec->threads) *
                     sizeof(float);
    return SG_OK;
}

const sg_cpu_kernel sg_cpu_crf_kernels[] = {{&sg_op_crf_log_partition, supports, prepare},
                                            {&sg_op_crf_log_partition_vjp, supports, prepare},
                                            {&sg_op_crf_log_partition_jvp, supports, prepare},
                                            {&sg_op_crf_log_partition_vjp_jvp, supports, prepare},
                                            {0}};
