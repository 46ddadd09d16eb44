/* matmul_row_test.c - sums of products with a spread row or column become products of matrices: which do, values, and derivatives. */
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
#include "runtime/runtime.h"

enum { B = 3, K = 5, L = 40 };

/* Scores of candidates y [B, K, L] and the derivative of a loss with respect to the row. If `plain`, nothing else reads y. */
static sg_graph *build(bool plain)
{
    sg_graph *g = sg_graph_new();
    sg_value y = sg_input(g, "y", SG_F32, SG_SHAPE(B, K, L)), r = sg_input(g, "r", SG_F32, SG_SHAPE(B, 1, L));
    sg_value scores = sg_sum(sg_mul(y, r), -1), grad;
    sg_result(g, "scores", scores);
    if (plain)
        return g;
    sg_grad(sg_sum_all(sg_square(scores)), &r, 1, &grad);
    sg_result(g, "grad", grad);
    sg_result(g, "kept", sg_sum_axes(sg_mul(y, sg_square(r)), SG_AXES(2), true));
    sg_result(g, "columns", sg_sum(sg_mul(sg_expand_dims(scores, 2), y), 1));
    return g;
}

static int32_t count(const sg_plan *plan, const char *text)
{
    char *out = NULL;
    size_t size;
    int32_t n = 0;
    FILE *f = open_memstream(&out, &size);
    sg_plan_print(plan, f);
    fclose(f);
    for (const char *at = out; (at = strstr(at, text)); at += strlen(text))
        n++;
    free(out);
    return n;
}

typedef struct outcome {
    double scores[B * K], grad[B * L], kept[B * K], columns[B * L];
    int32_t products;
} outcome;

static outcome run(bool no_fusion, int32_t threads, bool plain)
{
    outcome o = {.products = 0};
    double y[B * K * L], r[B * L];
    sg_session *session;
    sg_plan *plan;
    sg_graph *graph = build(plain);
    sg_store *store = sg_store_new(SG_F32);
    for (int i = 0; i < B * K * L; i++)
        y[i] = (float)(0.01 * (i * 7 % 101) - 0.4);
    for (int i = 0; i < B * L; i++)
        r[i] = (float)(0.02 * (i * 5 % 53) - 0.5);
    sg_session_options options = {.size = sizeof options, .threads = threads, .no_fusion = no_fusion};
    assert_int_equal(sg_session_new(&session, store, &options, NULL), SG_OK);
    sg_error err;
    if (sg_plan_new(&plan, session, graph, &err) != SG_OK)
        fail_msg("%s", err.text);
    o.products = count(plan, "small matmul");
    sg_plan_feed(plan, "y", y, B * K * L, NULL);
    sg_plan_feed(plan, "r", r, B * L, NULL);
    assert_int_equal(sg_plan_run(plan, NULL), SG_OK);
    sg_plan_fetch(plan, "scores", o.scores, B * K, NULL);
    if (!plain) {
        sg_plan_fetch(plan, "grad", o.grad, B * L, NULL);
        sg_plan_fetch(plan, "kept", o.kept, B * K, NULL);
        sg_plan_fetch(plan, "columns", o.columns, B * L, NULL);
    }
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
    return o;
}

static void close_to(const double *got, const double *want, int n)
{
    for (int i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-5 * (1 + fabs(want[i]))))
            fail_msg("element %d: %g instead of %g", i, got[i], want[i]);
}

static void sums_become_products(void **state)
{
    (void)state;
    outcome want = run(true, 1, false), first = run(false, 1, false);
    assert_int_equal(want.products, 0);
    assert_true(first.products >= 4);
    close_to(first.scores, want.scores, B * K);
    close_to(first.grad, want.grad, B * L);
    close_to(first.kept, want.kept, B * K);
    close_to(first.columns, want.columns, B * L);
    for (int32_t threads = 2; threads <= 3; threads++) {
        outcome more = run(false, threads, false);
        assert_memory_equal(&more, &first, sizeof first);
    }
}

/* With one reader it is a chain that ends in a row sum, as any other. */
static void what_nothing_else_reads_stays_a_chain(void **state)
{
    (void)state;
    assert_int_equal(run(false, 1, true).products, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_become_products),
                                       cmocka_unit_test(what_nothing_else_reads_stays_a_chain)};
    return cmocka_run_group_tests_name("products with rows", tests, NULL, NULL);
}
