/* Fused kernels of the cpu backend where a number is not finite: NaN and infinities come out where those of the decomposition do, in
 * values and in derivatives of first and second order, and nowhere else. For the operators whose kernels leave work out. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "ops/samples/samples_internal.h"
#include "runtime/runtime.h"

enum { MOST = SG_SAMPLE_OUTPUTS + 2 * SG_SAMPLE_INPUTS, MOST_TRIED = 64 };

/* A sample's real outputs, gradients of the first one's sum, and gradients of the sum of their squares. */
typedef struct problem {
    const sg_sample *sample;
    sg_store *store;
    sg_graph *graph;
    sg_session *session;
    sg_plan *plan;
    int32_t n;
    char name[MOST][16];
    int64_t count[MOST];
    double *data[MOST];
} problem;

static void good(sg_status status, const sg_error *err)
{
    if (status != SG_OK)
        fail_msg("%s", err->text);
}

static void add_result(problem *p, const char *kind, int32_t k, sg_value v)
{
    if (sg_is_none(v) || !sg_dtype_is_real(sg_dtype_of(v)))
        return;
    snprintf(p->name[p->n], sizeof p->name[p->n], "%s %d", kind, (int)k);
    sg_result(p->graph, p->name[p->n], v);
    p->count[p->n] = sg_shape_count(sg_shape_of(v));
    p->data[p->n] = calloc((size_t)p->count[p->n] + 1, sizeof(double));
    assert_non_null(p->data[p->n]);
    p->n++;
}

static sg_value add_gradients(problem *p, const char *kind, sg_value loss, const sg_value *x, int32_t n)
{
    sg_value g[SG_SAMPLE_INPUTS], squares = SG_NONE;
    sg_grad(loss, x, n, g);
    for (int32_t k = 0; k < n; k++) {
        add_result(p, kind, k, g[k]);
        sg_value square = sg_is_none(g[k]) ? SG_NONE : sg_sum_all(sg_square(g[k]));
        squares = sg_is_none(square) ? squares : sg_is_none(squares) ? square : sg_add(squares, square);
    }
    return squares;
}

static problem open_problem(const sg_sample *sample, const char *backend, const char *decompose)
{
    problem p = {.sample = sample, .graph = sg_graph_new()};
    sg_error err = {0};
    sg_value in[SG_SAMPLE_INPUTS], out[SG_SAMPLE_OUTPUTS], x[SG_SAMPLE_INPUTS];
    int32_t n = 0;
    p.store = sg_store_new(strcmp(backend, "reference") == 0 ? SG_F64 : SG_F32);
    sg_sample_build(sample, sg_scope_root(p.graph, p.store), in, out);
    for (int32_t k = 0; k < sample->n_out; k++)
        add_result(&p, "output", k, out[k]);
    for (int32_t k = 0; k < sample->n_in; k++)
        if (sg_sample_moves(sample, k))
            x[n++] = in[k];
    if (!sample->flat && n > 0) {
        sg_value squares = add_gradients(&p, "gradient", sg_sum_all(out[0]), x, n);
        if (!sg_is_none(squares))
            add_gradients(&p, "second", squares, x, n);
    }
    sg_rng_seed(p.store, 1, 0);
    sg_store_initialise(p.store, 1);
    sg_session_options options = {.size = sizeof options, .backend = backend, .decompose = decompose, .threads = 1};
    good(sg_session_new(&p.session, p.store, &options, &err), &err);
    good(sg_plan_new(&p.plan, p.session, p.graph, &err), &err);
    return p;
}

static void close_problem(problem *p)
{
    sg_plan_free(p->plan);
    sg_session_free(p->session);
    sg_graph_free(p->graph);
    sg_store_free(p->store);
    for (int32_t k = 0; k < p->n; k++)
        free(p->data[k]);
}

/* With element `at` of input k set to `bad`. */
static void run(problem *p, int32_t k, int64_t at, double bad)
{
    sg_error err = {0};
    for (int32_t i = 0; i < p->sample->n_in; i++) {
        int64_t n = sg_shape_count(&p->sample->in[i].shape);
        double *data = calloc((size_t)n + 1, sizeof *data);
        char name[16];
        snprintf(name, sizeof name, "x%d", (int)i);
        sg_sample_elements(p->sample, i, data);
        if (i == k)
            data[at] = bad;
        good(sg_plan_feed(p->plan, name, data, n, &err), &err);
        free(data);
    }
    good(sg_plan_run(p->plan, &err), &err);
    for (int32_t i = 0; i < p->n; i++)
        good(sg_plan_fetch(p->plan, p->name[i], p->data[i], p->count[i], &err), &err);
}

static bool alike(double a, double b) { return isfinite(a) ? isfinite(b) : isnan(a) ? isnan(b) : a == b; }

static void compare(const problem *fused, const problem *apart, int32_t k, int64_t at, double bad)
{
    char name[128];
    assert_int_equal(fused->n, apart->n);
    for (int32_t i = 0; i < fused->n; i++)
        for (int64_t e = 0; e < fused->count[i]; e++)
            if (!alike(fused->data[i][e], apart->data[i][e]))
                fail_msg("%s, x%d[%lld] = %g: %s [%lld] is %g, decomposed %g",
                         sg_sample_name(fused->sample, name, sizeof name), (int)k, (long long)at, bad, fused->name[i],
                         (long long)e, fused->data[i][e], apart->data[i][e]);
}

static void check_sample(const sg_sample *sample)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    problem fused = open_problem(sample, "cpu", NULL), apart = open_problem(sample, "reference", "all");
    for (int32_t k = 0; k < sample->n_in; k++) {
        int64_t n = sg_shape_count(&sample->in[k].shape), step = n > MOST_TRIED ? n / MOST_TRIED : 1;
        for (int64_t at = 0; sg_dtype_is_real(sample->in[k].dtype) && at < n; at += step)
            for (int b = 0; b < 3; b++) {
                run(&fused, k, at, bad[b]);
                run(&apart, k, at, bad[b]);
                compare(&fused, &apart, k, at, bad[b]);
            }
    }
    close_problem(&fused);
    close_problem(&apart);
}

static void check_all(const char *op)
{
    int32_t tried = 0;
    for (int32_t i = 0; i < sg_sample_count(); i++) {
        const sg_sample *sample = sg_sample_at(i);
        if (strcmp(sample->op, op) != 0 || sample->large || sample->reference_only)
            continue;
        check_sample(sample);
        tried++;
    }
    assert_true(tried > 0);
}

static void attention(void **state)
{
    (void)state;
    check_all("attention");
}

static void crf(void **state)
{
    (void)state;
    check_all("crf_log_partition");
    check_all("crf_log_partition_vjp");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(attention), cmocka_unit_test(crf)};
    return cmocka_run_group_tests_name("not finite", tests, NULL, NULL);
}
