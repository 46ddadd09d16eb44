/* Every operator where a number is not finite: NaN and infinities come out of the reference rule and of the kernels of the cpu backend,
 * fused and decomposed, where those of the decomposition do, in values, tangents and derivatives of first and second order, and
 * nowhere else. At more places for the operators whose kernels leave work out. */
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
#include "tests/support/graph_run.h"

enum {
    MOST = SG_SAMPLE_OUTPUTS + 2 * SG_SAMPLE_INPUTS + 1,
    MOST_TRIED = 64,
    FEW = 3,
    MOST_BAD = 4,
    ROUNDS = 8,
    COMPARED = 3
};

/* A sample's real outputs, gradients of the first one's sum, gradients of the sum of their squares, and the first one's tangent. */
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

/* In a direction that no sum of the rules cancels. */
static void add_tangent(problem *p, sg_value y, const sg_value *x, int32_t n)
{
    sg_value dx[SG_SAMPLE_INPUTS], dy;
    for (int32_t k = 0; k < n; k++) {
        const sg_shape *shape = sg_shape_of(x[k]);
        int64_t count = sg_shape_count(shape);
        double *direction = calloc((size_t)count + 1, sizeof *direction);
        assert_non_null(direction);
        for (int64_t i = 0; i < count; i++)
            direction[i] = test_uniform(77 + (uint64_t)k, i) - 0.4;
        dx[k] = sg_constant(p->graph, SG_F32, *shape, direction, count);
        free(direction);
    }
    sg_jvp(&y, 1, x, dx, n, &dy);
    add_result(p, "tangent", 0, dy);
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
        add_tangent(&p, out[0], x, n);
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

/* Elements that are not what the sample has. */
typedef struct bad_element {
    int32_t input;
    int64_t at;
    double value;
} bad_element;

static void run(problem *p, const bad_element *bad, int32_t n_bad)
{
    sg_error err = {0};
    for (int32_t i = 0; i < p->sample->n_in; i++) {
        int64_t n = sg_shape_count(&p->sample->in[i].shape);
        double *data = calloc((size_t)n + 1, sizeof *data);
        char name[16];
        snprintf(name, sizeof name, "x%d", (int)i);
        sg_sample_elements(p->sample, i, data);
        for (int32_t k = 0; k < n_bad; k++)
            if (bad[k].input == i)
                data[bad[k].at] = bad[k].value;
        good(sg_plan_feed(p->plan, name, data, n, &err), &err);
        free(data);
    }
    good(sg_plan_run(p->plan, &err), &err);
    for (int32_t i = 0; i < p->n; i++)
        good(sg_plan_fetch(p->plan, p->name[i], p->data[i], p->count[i], &err), &err);
}

static bool alike(double a, double b) { return isfinite(a) ? isfinite(b) : isnan(a) ? isnan(b) : a == b; }

static void compare(const problem *p, const problem *wanted, const char *how, const bad_element *bad, int32_t n_bad)
{
    char name[128], where[256] = "";
    assert_int_equal(p->n, wanted->n);
    for (int32_t k = 0; k < n_bad; k++)
        snprintf(where + strlen(where), sizeof where - strlen(where), " x%d[%lld] = %g", (int)bad[k].input,
                 (long long)bad[k].at, bad[k].value);
    for (int32_t i = 0; i < p->n; i++)
        for (int64_t e = 0; e < p->count[i]; e++)
            if (!alike(p->data[i][e], wanted->data[i][e]))
                fail_msg("%s,%s: on %s %s [%lld] is %g, decomposed %g", sg_sample_name(p->sample, name, sizeof name),
                         where, how, p->name[i], (long long)e, p->data[i][e], wanted->data[i][e]);
}

/* The decomposition on reference, and what is compared with it. */
typedef struct backends {
    problem wanted, is[COMPARED];
} backends;

static const struct {
    const char *backend, *decompose;
} compared[COMPARED] = {{"cpu", NULL}, {"cpu", "all"}, {"reference", NULL}};

static void check(backends *b, const bad_element *bad, int32_t n_bad)
{
    run(&b->wanted, bad, n_bad);
    for (int k = 0; k < COMPARED; k++) {
        run(&b->is[k], bad, n_bad);
        compare(&b->is[k], &b->wanted, compared[k].decompose ? "cpu, decomposed," : compared[k].backend, bad, n_bad);
    }
}

static const double values[] = {NAN, INFINITY, -INFINITY, 0};

/* May this input be anything? The number of Adam's step is a count. */
static bool is_free(const sg_sample *sample, int32_t k)
{
    return sg_dtype_is_real(sample->in[k].dtype) && sg_shape_count(&sample->in[k].shape) > 0 &&
           !(strcmp(sample->op, "adam") == 0 && k == sample->n_in - 1);
}

/* Several at once, of one kind or mixed. */
static int32_t draw_elements(const sg_sample *sample, uint64_t round, bad_element *bad)
{
    int32_t n = 0;
    uint64_t at = 16 * round;
    int wanted = 2 + (int)(test_uniform(41, at++) * (MOST_BAD - 1)), kind = (int)(test_uniform(41, at++) * 6);
    for (int i = 0; i < wanted; i++) {
        int32_t k = (int32_t)(test_uniform(41, at++) * sample->n_in);
        double place = test_uniform(41, at++), value = values[kind < 3 ? kind : (int)(test_uniform(41, at++) * 4)];
        if (is_free(sample, k))
            bad[n++] = (bad_element){k, (int64_t)(place * (double)sg_shape_count(&sample->in[k].shape)), value};
    }
    return n;
}

static void check_sample(const sg_sample *sample, int64_t most)
{
    backends b = {.wanted = open_problem(sample, "reference", "all")};
    for (int k = 0; k < COMPARED; k++)
        b.is[k] = open_problem(sample, compared[k].backend, compared[k].decompose);
    for (int32_t k = 0; k < sample->n_in; k++) {
        int64_t n = sg_shape_count(&sample->in[k].shape), step = n > most ? n / most : 1;
        for (int64_t at = 0; is_free(sample, k) && at < n; at += step)
            for (int v = 0; v < 3; v++)
                check(&b, &(bad_element){k, at, values[v]}, 1);
    }
    for (uint64_t round = 0; sample->n_in > 0 && round < ROUNDS; round++) {
        bad_element bad[MOST_BAD];
        int32_t n = draw_elements(sample, round, bad);
        check(&b, bad, n);
    }
    close_problem(&b.wanted);
    for (int k = 0; k < COMPARED; k++)
        close_problem(&b.is[k]);
}

/* `op` NULL: every operator. */
static void check_all(const char *op, int64_t most)
{
    int32_t tried = 0;
    for (int32_t i = 0; i < sg_sample_count(); i++) {
        const sg_sample *sample = sg_sample_at(i);
        if ((op && strcmp(sample->op, op) != 0) || sample->large || sample->reference_only)
            continue;
        check_sample(sample, most);
        tried++;
    }
    assert_true(tried > 0);
}

static void all(void **state)
{
    (void)state;
    check_all(NULL, FEW);
}

static void attention(void **state)
{
    (void)state;
    check_all("attention", MOST_TRIED);
}

static void crf(void **state)
{
    (void)state;
    check_all("crf_log_partition", MOST_TRIED);
    check_all("crf_log_partition_vjp", MOST_TRIED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all), cmocka_unit_test(attention), cmocka_unit_test(crf)};
    return cmocka_run_group_tests_name("not finite", tests, NULL, NULL);
}
