/* An Adam step joined with the product that is its gradient: values of the two apart, equal bits for every number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "runtime/runtime.h"

enum { MOST = 3 * 67 * 560 };

/* A layer [m, n] and a batch of k rows; whether the gradient is a result too. */
typedef struct sizes {
    int64_t m, n, k;
    bool also_read;
} sizes;

static sg_graph *build(sg_store *store, const sizes *s)
{
    sg_graph *g = sg_graph_new();
    sg_scope root = sg_scope_root(g, store);
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(s->k, s->m)), dy = sg_input(g, "dy", SG_F32, SG_SHAPE(s->k, s->n));
    sg_value grad = sg_matmul_tn(x, dy);
    sg_adam_state a = {sg_param(root, "p", SG_SHAPE(s->m, s->n), sg_init_normal(0, 1)),
                       sg_state(root, "m", SG_F32, SG_SHAPE(s->m, s->n), sg_init_normal(0, 1)),
                       sg_state(root, "v", SG_F32, SG_SHAPE(s->m, s->n), sg_init_constant(0.5))};
    sg_adam_state next = sg_adam(a, grad, sg_scalar(g, 0.01), sg_scalar(g, 3), 0.9, 0.999, 1e-8, 0.1, true);
    sg_assign(a.p, next.p);
    sg_assign(a.m, next.m);
    sg_assign(a.v, next.v);
    sg_result(g, "norm", s->also_read ? sg_sum_all(sg_square(grad)) : sg_scalar(g, 0));
    return g;
}

static bool prints(const sg_plan *plan, const char *text)
{
    char *out = NULL;
    size_t size;
    FILE *f = open_memstream(&out, &size);
    sg_plan_print(plan, f);
    fclose(f);
    bool found = strstr(out, text) != NULL;
    free(out);
    return found;
}

static void feed(sg_plan *plan, const char *name, int64_t count, int step)
{
    double *values = malloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++)
        values[i] = 0.01 * (double)(i * step % 23) - 0.1;
    assert_int_equal(sg_plan_feed(plan, name, values, count, NULL), SG_OK);
    free(values);
}

/* p, m, v after two runs. */
static void run(const sizes *s, bool no_fusion, int threads, bool expect_joined, double *out)
{
    sg_session *session;
    sg_plan *plan;
    sg_store *store = sg_store_new(SG_F32);
    sg_graph *graph = build(store, s);
    sg_store_initialise(store, 1);
    sg_session_options options = {.size = sizeof options, .threads = threads, .no_fusion = no_fusion, .audit = true};
    assert_int_equal(sg_session_new(&session, store, &options, NULL), SG_OK);
    assert_int_equal(sg_plan_new(&plan, session, graph, NULL), SG_OK);
    assert_int_equal(prints(plan, "product_adam"), expect_joined);
    feed(plan, "x", s->k * s->m, 1);
    feed(plan, "dy", s->k * s->n, 7);
    for (int i = 0; i < 2; i++)
        assert_int_equal(sg_plan_run(plan, NULL), SG_OK);
    static const char *names[] = {"p", "m", "v"};
    for (int k = 0; k < 3; k++)
        assert_int_equal(sg_store_get(store, names[k], out + k * s->m * s->n, s->m * s->n, NULL), SG_OK);
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
}

static double apart[MOST], joined[MOST], first[MOST];

static void check(const sizes *s, bool expect_joined)
{
    int64_t count = 3 * s->m * s->n;
    assert_true(count <= MOST);
    run(s, true, 1, false, apart);
    for (int threads = 1; threads <= 3; threads++) {
        run(s, false, threads, expect_joined, joined);
        for (int64_t i = 0; i < count; i++)
            if (!(fabs(apart[i] - joined[i]) <= 1e-5 * (1 + fabs(apart[i]))))
                fail_msg("element %ld: %g apart, %g joined", (long)i, apart[i], joined[i]);
        if (threads > 1)
            assert_memory_equal(first, joined, (size_t)count * sizeof *joined);
        memcpy(first, joined, (size_t)count * sizeof *joined);
    }
}

/* One row and many, one block of columns and two of which the second is narrower. */
static void joined_and_separate_agree(void **state)
{
    (void)state;
    check(&(sizes){67, 48, 5, false}, true);
    check(&(sizes){2, 16, 2, false}, true);
    check(&(sizes){67, 560, 33, false}, true);
}

static void what_does_not_fit_stays_apart(void **state)
{
    (void)state;
    check(&(sizes){20, 33, 5, false}, false);
    check(&(sizes){20, 32, 300, false}, false);
    check(&(sizes){20, 32, 5, true}, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(joined_and_separate_agree),
                                       cmocka_unit_test(what_does_not_fit_stays_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
