/* sg_reference_eval, the oracle of the other tests, against numbers known beforehand; and the fused node, whose
 * meaning is its body. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "runtime/runtime.h"
#include "tests/support/graph_run.h"
#include "tests/support/inplace_backend.h"

static void test_values(void **state)
{
    (void)state;
    sg_store *store = sg_store_new(SG_F32);
    sg_graph *graph = sg_graph_new();
    sg_scope scope = sg_scope_root(graph, store);
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(2)), p = sg_param(scope, "p", SG_SHAPE(2), sg_init_constant(3));
    sg_value square = sg_square(x), sum = sg_add(square, p), y = sg_mul_scalar(sum, 10);
    sg_assign(p, sum);
    sg_store_initialise(store, 1);
    double in[2] = {1, 2}, out[2][2];
    sg_value wanted[2] = {y, x};
    graph_eval(graph, &x, (double *[]){in}, 1, wanted, (double *[]){out[0], out[1]}, 2);
    assert_true(out[0][0] == 40 && out[0][1] == 70 && out[1][1] == 2);
    /* entries are read, not written, and any value may be replaced: its ancestors are then not needed */
    graph_eval(graph, &square, (double *[]){in}, 1, &y, (double *[]){out[0]}, 1);
    assert_true(out[0][0] == 40 && out[0][1] == 50);
    sg_graph_free(graph);
    sg_store_free(store);
}

static void test_errors(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new(), *other = sg_graph_new();
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(2)), foreign = sg_scalar(other, 1), y = sg_neg(x);
    double number[2];
    sg_error err;
    assert_int_equal(sg_reference_eval(graph, NULL, NULL, 0, &y, (double *[]){number}, 1, &err), SG_E_ARGUMENT);
    assert_non_null(strstr(err.text, "'x'"));
    assert_int_equal(sg_reference_eval(graph, NULL, NULL, 0, &foreign, (double *[]){number}, 1, &err), SG_E_ARGUMENT);
    sg_graph_free(graph);
    sg_graph_free(other);
}

static void power(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)user, (void)body;
    next[0] = sg_mul(state[0], state[1]);
    next[1] = state[1];
    next[2] = sg_add_scalar(state[2], 1);
}

static void test_loop(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value two = sg_scalar(graph, 2), s[3] = {sg_scalar(graph, 1), two, sg_scalar(graph, 0)};
    sg_repeat(graph, 10, power, NULL, s, 3, s, false);
    double out[3];
    graph_eval(graph, NULL, NULL, 0, s, (double *[]){&out[0], &out[1], &out[2]}, 3);
    assert_true(out[0] == 1024 && out[1] == 2 && out[2] == 10);
    sg_graph_free(graph);
}

/* y = exp(a b) and its sum over the last axis, as one node. */
static void test_fused(void **state)
{
    (void)state;
    sg_store *store = sg_store_new(SG_F64);
    sg_graph *graph = sg_graph_new();
    sg_value in[2] = {sg_input(graph, "a", SG_F32, SG_SHAPE(2, 3)), sg_input(graph, "b", SG_F32, SG_SHAPE(3))};
    sg_graph *body = sg_body_new(graph);
    sg_value a = sg_capture(body, in[0]), b = sg_capture(body, in[1]), y = sg_exp(sg_mul(a, b));
    sg_result(body, "y", y);
    sg_result(body, "sum", sg_sum(y, -1));
    sg_value fused = sg_build_fused(graph, body, in, 2);
    sg_result(graph, "y", fused);
    sg_result(graph, "sum", sg_output_of(fused, 1));
    assert_int_equal(sg_dim_of(sg_output_of(fused, 1), 0), 2);
    sg_error err;
    assert_int_equal(sg_graph_verify(graph, &err), SG_OK);
    sg_session *s = reference_session(store, NULL);
    sg_plan *plan = compile_plan(s, graph, false);
    assert_int_equal(sg_plan_describe(plan).fused, 1);
    sg_plan_feed(plan, "a", (double[]){0, 1, 2, 3, 4, 5}, 6, NULL);
    sg_plan_feed(plan, "b", (double[]){1, 0, -1}, 3, NULL);
    run_plan(plan);
    double sum[2];
    assert_int_equal(sg_plan_fetch(plan, "sum", sum, 2, NULL), SG_OK);
    assert_true(fabs(sum[0] - (1 + 1 + exp(-2))) < 1e-15 && fabs(sum[1] - (exp(3) + 1 + exp(-5))) < 1e-13);
    sg_plan_free(plan);
    sg_session_free(s);
    sg_graph_free(graph);
    sg_store_free(store);
}

/* A tensor beyond all memory is an error of one line, not an overflow. */
static void test_too_large(void **state)
{
    (void)state;
    sg_store *store = sg_store_new(SG_F64);
    sg_graph *graph = sg_graph_new();
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(1));
    sg_value wide = sg_tile_axis(sg_tile_axis(x, 0, (int64_t)1 << 31), 0, (int64_t)1 << 30);
    sg_result(graph, "y", wide);
    sg_session *s = reference_session(store, NULL);
    sg_plan *plan;
    sg_error err;
    assert_int_equal(sg_plan_new(&plan, s, graph, &err), SG_E_SHAPE);
    assert_non_null(strstr(err.text, "too large"));
    sg_session_free(s);
    sg_graph_free(graph);
    sg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_errors),    cmocka_unit_test(test_loop),
        cmocka_unit_test(test_fused),  cmocka_unit_test(test_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
