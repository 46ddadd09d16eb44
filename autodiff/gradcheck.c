/* gradcheck.c - derivatives against central differences, order by order. With random directions u, w, z held constant
 * let
 *
 *     s0 = L(x),    s1 = <grad L, u>,    s2 = <grad s1, w> = w' H u,    s3 = <grad s2, z> = D3 L [u, w, z].
 *
 * The claim of order k is d s(k-1) / dx_i . d = <grad_i s(k-1), d_i> for each input i, with d = u, w, z for k = 1, 2,
 * 3. Its right side is built in the graph; its left side is the fourth-order central difference of s(k-1), which is
 * exact to h^4 / 30 times a fifth derivative, plus rounding of the size eps / h. Moving one input at a time names the
 * culprit.
 *
 * Order 0 is adjointness: forward and reverse mode are transposes of each other, so <jvp u, g> = <u, vjp g>, for L
 * with g = 1 (jvp(L; u) = s1) and for the gradient with g = w (<H u, w> by forward over reverse = s2 by reverse over
 * reverse). */
#include "autodiff/autodiff.h"

#include <math.h>
#include <string.h>

#include "ops/ops.h"

enum { MAX_ORDER = 3 };

typedef struct check {
    sg_graph *graph;
    const sg_value *x;
    double *const *at;
    int32_t n;
    const sg_evaluator *evaluator;
    int32_t order;
    double step, tolerance[MAX_ORDER + 1];
    sg_gradcheck_result *result;
    double excess; /* the worst error in units of its tolerance */
    double **moved, **direction[MAX_ORDER];
    sg_value *work;
} check;

/* A fixed counter generator (the finaliser of SplitMix64; Steele, Lea and Flood 2014): element `i` of a direction is
 * the same on every machine. Uniform on [-1, 1). */
static double draw(uint64_t seed, uint64_t stream, uint64_t i)
{
    uint64_t z = seed + 0x9e3779b97f4a7c15u * (stream + 1) + 0xd1b54a32d192ed03u * (i + 1);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-52 - 1.0;
}

static int64_t count_of(sg_value v) { return sg_shape_count(sg_shape_of(v)); }

static void free_buffers(double **buffer, int32_t n)
{
    for (int32_t i = 0; buffer && i < n; i++)
        sg_free(buffer[i]);
    sg_free(buffer);
}

static double **new_buffers(const sg_value *x, int32_t n)
{
    double **buffer = sg_calloc(n, sizeof *buffer);
    for (int32_t i = 0; buffer && i < n; i++) {
        buffer[i] = sg_calloc(count_of(x[i]) + 1, sizeof **buffer);
        if (!buffer[i]) {
            free_buffers(buffer, n);
            return NULL;
        }
    }
    return buffer;
}

/* ---------------------------------------------------------------------------------------- the expressions to check */

typedef struct claims {
    sg_value s[MAX_ORDER + 1];
    sg_value *part[MAX_ORDER + 1]; /* part[k][i] = <grad_i s(k-1), d_i> */
    sg_value forward[2];           /* s1 and s2 by forward mode */
} claims;

static sg_value inner(sg_value a, sg_value b) { return sg_sum_all(sg_mul(a, b)); }

static sg_value total(const sg_value *part, int32_t n)
{
    sg_value sum = part[0];
    for (int32_t i = 1; i < n; i++)
        sum = sg_add(sum, part[i]);
    return sum;
}

static void build_directions(const check *c, int32_t k, sg_value *out)
{
    for (int32_t i = 0; i < c->n; i++) {
        sg_shape shape = *sg_shape_of(c->x[i]);
        out[i] = sg_constant(c->graph, sg_dtype_of(c->x[i]), shape, c->direction[k][i], count_of(c->x[i]));
    }
}

/* work holds, one after the other: three directions, a gradient, a tangent, and the parts of each order. */
static claims build_claims(const check *c, sg_value loss)
{
    int32_t n = c->n;
    sg_value *d[MAX_ORDER] = {c->work, c->work + n, c->work + 2 * n}, *g = c->work + 3 * n, *t = c->work + 4 * n;
    claims out = {.s = {loss}, .forward = {SG_NONE, SG_NONE}};
    for (int32_t k = 1; k <= c->order; k++) {
        out.part[k] = c->work + (4 + k) * n;
        build_directions(c, k - 1, d[k - 1]);
        sg_grad(out.s[k - 1], c->x, n, g);
        for (int32_t i = 0; i < n; i++)
            out.part[k][i] = inner(g[i], d[k - 1][i]);
        out.s[k] = total(out.part[k], n);
        if (k == 1)
            sg_jvp(&loss, 1, c->x, d[0], n, &out.forward[0]);
    }
    if (c->order < 2)
        return out;
    sg_hvp(loss, c->x, d[0], n, t, SG_HVP_FORWARD_OVER_REVERSE);
    for (int32_t i = 0; i < n; i++)
        t[i] = inner(t[i], d[1][i]);
    out.forward[1] = total(t, n);
    return out;
}

/* --------------------------------------------------------------------------------------------------- measurement */

static bool evaluate(const check *c, double *const *feed, const sg_value *y, double *const *out, int32_t n_y,
                     sg_error *err)
{
    return c->evaluator->evaluate(c->evaluator->user, c->graph, c->x, feed, c->n, y, out, n_y, err);
}

/* d/dh s(x + h d_i) at 0 to fourth order: (8 (s(h) - s(-h)) - (s(2h) - s(-2h))) / 12 h. */
static bool difference(const check *c, sg_value s, int32_t i, const double *d, double *out, sg_error *err)
{
    static const double offset[4] = {1, -1, 2, -2};
    double value[4];
    int64_t n = count_of(c->x[i]);
    bool ok = true;
    for (int32_t p = 0; p < 4 && ok; p++) {
        for (int64_t e = 0; e < n; e++)
            c->moved[i][e] = c->at[i][e] + offset[p] * c->step * d[e];
        ok = evaluate(c, c->moved, &s, (double *[]){&value[p]}, 1, err);
    }
    for (int64_t e = 0; e < n; e++)
        c->moved[i][e] = c->at[i][e];
    *out = (8 * (value[0] - value[1]) - (value[2] - value[3])) / (12 * c->step);
    return ok;
}

/* A NaN on either side is a failure; on both, the function itself is undefined there and nothing was checked. */
static void record(check *c, int32_t order, int32_t input, double got, double want)
{
    double error = fabs(got - want) / fmax(1.0, fabs(want));
    if (got == want)
        error = 0;
    else if (isnan(error))
        error = INFINITY;
    c->result->worst[order] = fmax(c->result->worst[order], error);
    if (error > c->tolerance[order])
        c->result->passed = false;
    double excess = error / c->tolerance[order];
    if (excess <= c->excess)
        return;
    c->excess = excess;
    const sg_node *node = input >= 0 ? sg_node_of(c->x[input]) : NULL;
    if (node)
        snprintf(c->result->where, sizeof c->result->where,
                 "order %d, input %d '%.80s': derivative %.12g, difference %.12g", (int)order, (int)input, node->name,
                 got, want);
    else
        snprintf(c->result->where, sizeof c->result->where, "adjointness: forward %.12g, reverse %.12g", got, want);
}

static bool compare_adjoints(check *c, const claims *claim, sg_error *err)
{
    int32_t n = c->order < 2 ? 1 : 2;
    double reverse[2] = {0}, forward[2] = {0};
    if (!evaluate(c, c->at, claim->s + 1, (double *[]){&reverse[0], &reverse[1]}, n, err) ||
        !evaluate(c, c->at, claim->forward, (double *[]){&forward[0], &forward[1]}, n, err))
        return false;
    for (int32_t k = 0; k < n; k++)
        record(c, 0, -1, forward[k], reverse[k]);
    return true;
}

static bool compare_order(check *c, const claims *claim, int32_t k, sg_error *err)
{
    for (int32_t i = 0; i < c->n; i++) {
        double got = 0, want = 0;
        if (!evaluate(c, c->at, &claim->part[k][i], (double *[]){&got}, 1, err) ||
            !difference(c, claim->s[k - 1], i, c->direction[k - 1][i], &want, err))
            return false;
        record(c, k, i, got, want);
    }
    return true;
}

static sg_status check_direction(check *c, sg_value loss, uint64_t seed, int32_t round, sg_error *err)
{
    for (int32_t k = 0; k < MAX_ORDER; k++)
        for (int32_t i = 0; i < c->n; i++)
            for (int64_t e = 0; e < count_of(c->x[i]); e++)
                c->direction[k][i][e] =
                    draw(seed, ((uint64_t)round * MAX_ORDER + (uint64_t)k) * 4096 + (uint64_t)i, (uint64_t)e);
    claims claim = build_claims(c, loss);
    SG_TRY(sg_graph_status(c->graph, err));
    bool ok = compare_adjoints(c, &claim, err);
    for (int32_t k = 1; k <= c->order && ok; k++)
        ok = compare_order(c, &claim, k, err);
    if (!ok)
        return err && err->status != SG_OK ? err->status : sg_fail(err, SG_E_UNSUPPORTED, "the evaluator failed");
    return SG_OK;
}

/* -------------------------------------------------------------------------------------------------------- set-up */

static sg_status refuse(sg_value loss, const sg_value *x, int32_t n, const sg_gradcheck_options *options, sg_error *err)
{
    if (sg_is_none(loss))
        return sg_fail(err, SG_E_ARGUMENT, "sg_gradcheck: the loss is no value");
    SG_TRY(sg_graph_status(loss.graph, err));
    if (sg_rank_of(loss) != 0 || n < 1)
        return sg_fail(err, SG_E_ARGUMENT, "sg_gradcheck needs a rank-0 loss and at least one input");
    for (int32_t i = 0; i < n; i++)
        if (sg_is_none(x[i]) || !sg_dtype_is_real(sg_dtype_of(x[i])))
            return sg_fail(err, SG_E_DTYPE, "sg_gradcheck: input %d is not a real value", (int)i);
    if (options && (options->order < 0 || options->order > MAX_ORDER))
        return sg_fail(err, SG_E_ARGUMENT, "sg_gradcheck: order %d is not in 1..%d", (int)options->order, MAX_ORDER);
    return SG_OK;
}

static void configure(check *c, const sg_gradcheck_options *options)
{
    static const double by_order[MAX_ORDER + 1] = {1e-8, 1e-7, 1e-6, 1e-5};
    c->order = options && options->order > 0 ? options->order : 2;
    c->step = options && options->step > 0 ? options->step : 1e-3;
    for (int32_t k = 0; k <= MAX_ORDER; k++)
        c->tolerance[k] = options && options->tolerance > 0 && k > 0 ? options->tolerance : by_order[k];
}

static bool reserve(check *c)
{
    c->work = sg_calloc((int64_t)c->n * (5 + MAX_ORDER), sizeof *c->work);
    c->moved = new_buffers(c->x, c->n);
    bool ok = c->work && c->moved;
    for (int32_t k = 0; k < MAX_ORDER; k++) {
        c->direction[k] = new_buffers(c->x, c->n);
        ok = ok && c->direction[k];
    }
    for (int32_t i = 0; ok && i < c->n; i++)
        memcpy(c->moved[i], c->at[i], (size_t)count_of(c->x[i]) * sizeof **c->moved);
    return ok;
}

static void release(check *c)
{
    sg_free(c->work);
    free_buffers(c->moved, c->n);
    for (int32_t k = 0; k < MAX_ORDER; k++)
        free_buffers(c->direction[k], c->n);
}

sg_status sg_gradcheck(sg_value loss, const sg_value *x, double *const *at, int32_t n, const sg_evaluator *evaluator,
                       const sg_gradcheck_options *options, sg_gradcheck_result *result, sg_error *err)
{
    sg_error local = {0};
    err = err ? err : &local;
    *result = (sg_gradcheck_result){.passed = false};
    SG_TRY(refuse(loss, x, n, options, err));
    check c = {.graph = loss.graph, .x = x, .at = at, .n = n, .evaluator = evaluator, .result = result, .excess = -1};
    configure(&c, options);
    int32_t directions = options && options->directions > 0 ? options->directions : 2;
    memcpy(result->limit, c.tolerance, sizeof result->limit);
    result->passed = true;
    sg_status status = reserve(&c) ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory in sg_gradcheck");
    for (int32_t r = 0; r < directions && status == SG_OK; r++)
        status = check_direction(&c, loss, options ? options->seed : 0, r, err);
    release(&c);
    if (status != SG_OK)
        result->passed = false;
    return status;
}
