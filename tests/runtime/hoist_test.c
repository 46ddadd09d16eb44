/* Loop-invariant code motion: what moves, what stays, and that values do not change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "ops/ops.h"
#include "ops/repeat_internal.h"
#include "runtime/plan_internal.h"
#include "runtime/runtime.h"

typedef struct net {
    sg_scope scope;
    sg_value x, w;
} net;

/* state <- state + sum(dropped) with dropped = draw * tanh(x w): the product and its tanh are the same each time. */
static void inner_body(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    net *n = user;
    sg_value x = sg_capture(body, n->x), w = sg_capture(body, n->w);
    sg_value h = sg_mul_scalar(sg_tanh(sg_matmul(x, w)), 2);
    sg_value drawn = sg_mul(h, sg_uniform_like(sg_scope_in(n->scope, body), h));
    next[0] = sg_add(state[0], sg_add(sg_sum_all(drawn), sg_sum_all(sg_tile_axis(h, 0, 50))));
}

/* The outer loop changes w, so nothing that reads it leaves the outer loop. */
static void outer_body(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    net *n = user, inner = *n;
    sg_value p = sg_param(sg_scope_in(n->scope, body), "w", SG_SHAPE(4, 2), sg_init_normal(0, 1));
    inner.scope = sg_scope_in(n->scope, body);
    inner.w = p;
    sg_repeat(body, 3, inner_body, &inner, state, 1, next, false);
    sg_assign(p, sg_mul_scalar(p, 0.5));
}

static sg_graph *build(sg_store *store)
{
    sg_graph *g = sg_graph_new();
    net n = {sg_scope_root(g, store), sg_input(g, "x", SG_F32, SG_SHAPE(3, 4)), SG_NONE};
    sg_value sum = sg_scalar(g, 0);
    sg_repeat(g, 2, outer_body, &n, &sum, 1, &sum, false);
    sg_result(g, "sum", sum);
    assert_int_equal(sg_graph_status(g, NULL), SG_OK);
    return g;
}

static int count_op(const sg_graph *g, const char *op)
{
    int count = 0;
    for (int32_t i = 0; i < sg_node_count(g); i++)
        count += strcmp(sg_node_at(g, i)->op->name, op) == 0;
    return count;
}

static const sg_graph *body_of(const sg_graph *g)
{
    for (int32_t i = 0; i < sg_node_count(g); i++)
        if (sg_node_at(g, i)->op == &sg_op_repeat)
            return sg_repeat_body(sg_node_at(g, i));
    return NULL;
}

static void invariant_nodes_leave_the_loops_that_do_not_change_them(void **state)
{
    (void)state;
    sg_store *store = sg_store_new(SG_F64);
    sg_graph *g = build(store), *moved = NULL;
    assert_int_equal(sg_hoist(g, &moved, NULL), SG_OK);
    assert_int_equal(sg_graph_verify(moved, NULL), SG_OK);
    const sg_graph *outer = body_of(moved), *inner = body_of(outer);
    assert_int_equal(count_op(moved, "matmul"), 0);
    assert_int_equal(count_op(outer, "matmul"), 1);
    assert_int_equal(count_op(outer, "tanh"), 1);
    assert_int_equal(count_op(inner, "matmul"), 0);
    assert_int_equal(count_op(inner, "tanh"), 0);
    assert_int_equal(count_op(inner, "uniform_like"), 1); /* every iteration draws anew */
    assert_int_equal(count_op(inner, "tile_axis"), 1);    /* spreading is free where it is used */
    sg_graph_free(moved);
    sg_graph_free(g);
    sg_store_free(store);
}

static void values_do_not_change(void **state)
{
    (void)state;
    double x[12], expected, got, *feed = x, *out = &expected;
    for (int i = 0; i < 12; i++)
        x[i] = 0.1 * i - 0.5;
    sg_store *store = sg_store_new(SG_F64);
    sg_graph *g = build(store);
    sg_rng_seed(store, 3, 0);
    sg_store_initialise(store, 5);
    sg_value in = sg_input(g, "x", SG_F32, SG_SHAPE(3, 4)), y = sg_result_value(g, 0);
    assert_int_equal(sg_reference_eval(g, &in, &feed, 1, &y, &out, 1, NULL), SG_OK);
    sg_session *session;
    sg_plan *plan;
    assert_int_equal(sg_session_new(&session, store,
                                    &(sg_session_options){.size = sizeof(sg_session_options), .backend = "reference"},
                                    NULL),
                     SG_OK);
    assert_int_equal(sg_plan_new(&plan, session, g, NULL), SG_OK);
    assert_int_equal(sg_plan_feed(plan, "x", x, 12, NULL), SG_OK);
    assert_int_equal(sg_plan_run(plan, NULL), SG_OK);
    assert_int_equal(sg_plan_fetch(plan, "sum", &got, 1, NULL), SG_OK);
    assert_true(got == expected);
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(g);
    sg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(invariant_nodes_leave_the_loops_that_do_not_change_them),
                                       cmocka_unit_test(values_do_not_change)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
