/* A compiled Hessian product in a loop: solvers on it, no allocation, constant memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "models/models.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

enum { ROWS = 32, INPUTS = 24, LABELS = 10, HIDDEN = 16, MOST = 8 };

typedef struct fixture {
    sg_store *store;
    sg_session *session;
    sg_plan *plan;
    sg_plan_product product;
    sg_linear_map map;
} fixture;

static void build(sg_graph *graph, sg_store *store)
{
    sg_scope task = sg_scope_sub(sg_scope_root(graph, store), "task");
    sg_mlc_sizes sizes = {.inputs = INPUTS, .labels = LABELS, .hidden = (int64_t[]){HIDDEN, HIDDEN}, .layers = 2};
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(ROWS, INPUTS)), p[MOST], v[MOST], hv[MOST];
    sg_value y = sg_input(graph, "y", SG_F32, SG_SHAPE(ROWS, LABELS));
    sg_value z = sg_mlc_task(task, sg_features_dense(x), &sizes, false);
    sg_value loss = sg_mean_all(sg_sum(sg_bce_with_logits(z, y), -1));
    int32_t n = sg_params(task, p, MOST);
    sg_value all = sg_flatten(p, n);
    sg_unflatten(sg_input(graph, "v", SG_F32, SG_SHAPE(sg_dim_of(all, 0))), p, n, v);
    sg_hvp(loss, p, v, n, hv, SG_HVP_FORWARD_OVER_REVERSE);
    sg_result(graph, "hv", sg_flatten(hv, n));
}

static fixture open_fixture(const char *backend, bool real64)
{
    sg_error err = {0};
    fixture f = {.store = sg_store_new(real64 ? SG_F64 : SG_F32)};
    sg_graph *graph = sg_graph_new();
    double x[ROWS * INPUTS], y[ROWS * LABELS];
    build(graph, f.store);
    sg_store_initialise(f.store, 4);
    sg_session_options options = {.size = sizeof options, .backend = backend, .threads = 2};
    if (sg_session_new(&f.session, f.store, &options, &err) != SG_OK ||
        sg_plan_new(&f.plan, f.session, graph, &err) != SG_OK)
        fail_msg("%s", err.text);
    sg_graph_free(graph);
    for (int i = 0; i < ROWS * INPUTS; i++)
        x[i] = test_uniform(1, i) - 0.5;
    for (int i = 0; i < ROWS * LABELS; i++)
        y[i] = test_uniform(2, i) < 0.3;
    assert_int_equal(sg_plan_feed(f.plan, "x", x, ROWS * INPUTS, &err), SG_OK);
    assert_int_equal(sg_plan_feed(f.plan, "y", y, ROWS * LABELS, &err), SG_OK);
    return f;
}

static void take_map(fixture *f)
{
    f->product = (sg_plan_product){f->plan, "v", "hv"};
    f->map = sg_plan_map(&f->product);
    assert_int_equal(f->map.n_in, f->map.n_out);
    assert_true(f->map.n_in > 500);
}

static void close_fixture(fixture *f)
{
    sg_plan_free(f->plan);
    sg_session_free(f->session);
    sg_store_free(f->store);
}

typedef struct count {
    int64_t calls;
} count;
static void *allocate(void *user, size_t bytes)
{
    ((count *)user)->calls++;
    return malloc(bytes);
}
static void *resize(void *user, void *old, size_t bytes)
{
    ((count *)user)->calls++;
    return realloc(old, bytes);
}
static void release(void *user, void *old)
{
    (void)user;
    free(old);
}

/* Pages that the process holds. */
static long resident(void)
{
    long size = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &size, &pages), 2);
    fclose(f);
    return pages;
}

static void a_thousand_products(void **state)
{
    (void)state;
    count c = {0};
    fixture f = open_fixture("cpu", false);
    take_map(&f);
    double *v = calloc((size_t)f.map.n_in, sizeof *v), *hv = calloc((size_t)f.map.n_in, sizeof *hv), size = 0;
    sg_error err;
    for (int64_t i = 0; i < f.map.n_in; i++)
        v[i] = test_uniform(3, i) - 0.5;
    for (int k = 0; k < 100; k++)
        assert_true(f.map.apply(f.map.user, v, hv, &err));
    long before = resident();
    sg_allocator_set(&(sg_allocator){allocate, resize, release, &c});
    for (int k = 0; k < 1000; k++) {
        assert_true(f.map.apply(f.map.user, v, hv, &err));
        size = 0;
        for (int64_t i = 0; i < f.map.n_in; i++)
            size += hv[i] * hv[i];
        for (int64_t i = 0; i < f.map.n_in; i++)
            v[i] = hv[i] / sqrt(size);
    }
    sg_allocator_set(NULL);
    assert_int_equal(c.calls, 0);
#ifndef __SANITIZE_ADDRESS__                /* it keeps shadow pages of its own */
    assert_true(resident() - before <= 32); /* a product leaked each time would be 1000 pages and more */
#else
    (void)before;
#endif
    /* a thousand power iterations end at the eigenvalue that Lanczos finds */
    sg_lanczos_result r;
    sg_lanczos_options o = {.size = sizeof o, .tolerance = 1e-5, .steps = 120};
    assert_int_equal(sg_lanczos(&f.map, &o, &r, &err), SG_OK);
    assert_true(r.converged && fabs(sqrt(size) - r.largest) < 1e-4 * r.largest);
    free(v);
    free(hv);
    close_fixture(&f);
}

/* The host's solvers take a fixed number of vectors however long they run. */
static void solvers_in_constant_memory(void **state)
{
    (void)state;
    fixture f = open_fixture("reference", true);
    take_map(&f);
    int64_t calls[2];
    double *b = calloc((size_t)f.map.n_in, sizeof *b), *x = calloc((size_t)f.map.n_in, sizeof *x);
    for (int64_t i = 0; i < f.map.n_in; i++)
        b[i] = test_uniform(5, i) - 0.5;
    for (int method = SG_SOLVE_NEUMANN; method <= SG_SOLVE_CG; method++) {
        for (int k = 0; k < 2; k++) {
            count c = {0};
            sg_solve_result r;
            sg_solve_options o = {
                .size = sizeof o, .method = method, .steps = k ? 60 : 2, .scale = 0.01, .damping = 20};
            sg_allocator_set(&(sg_allocator){allocate, resize, release, &c});
            assert_int_equal(sg_solve(&f.map, b, &o, x, &r, NULL), SG_OK);
            sg_allocator_set(NULL);
            assert_true(k ? r.iterations > 10 : r.iterations == 2);
            calls[k] = c.calls;
        }
        assert_int_equal(calls[0], 1);
        assert_int_equal(calls[1], 1);
    }
    free(b);
    free(x);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_products),
        cmocka_unit_test(solvers_in_constant_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
