/* The loop node: operand layout, values against plain C and against the unrolled loop, entries, nesting, errors. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "ops/repeat_internal.h"
#include "tests/support/graph_run.h"

static double evaluate(sg_graph *graph, sg_value y)
{
    double got = NAN, *out = &got;
    graph_eval(graph, NULL, NULL, 0, &y, &out, 1);
    return got;
}

static void assert_sound(sg_graph *graph)
{
    sg_error err = {0};
    if (sg_graph_status(graph, &err) != SG_OK || sg_graph_verify(graph, &err) != SG_OK)
        fail_msg("%s (%s)", err.text, err.op);
}

/* (a, b) <- (b, a + b): the nexts are read before any state is written. */
static void fibonacci(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)user, (void)body;
    next[0] = state[1];
    next[1] = sg_add(state[0], state[1]);
}

static void states_exchange_places(void **state)
{
    (void)state;
    for (int unroll = 0; unroll < 2; unroll++) {
        sg_graph *graph = sg_graph_new();
        sg_value s[] = {sg_scalar(graph, 0), sg_scalar(graph, 1)};
        sg_repeat(graph, 10, fibonacci, NULL, s, 2, s, unroll != 0);
        assert_sound(graph);
        assert_true(evaluate(graph, s[0]) == 55);
        assert_true(evaluate(graph, s[1]) == 89);
        assert_int_equal(sg_node_of(s[0])->op == &sg_op_repeat, !unroll);
        sg_graph_free(graph);
    }
}

static void zero_iterations_return_the_states(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value s[] = {sg_scalar(graph, 3), sg_scalar(graph, 4)}, out[2];
    sg_repeat(graph, 0, fibonacci, NULL, s, 2, out, false);
    assert_true(sg_same(out[0], s[0]) && sg_same(out[1], s[1]));
    assert_sound(graph);
    sg_graph_free(graph);
}

/* x <- x * c + w with c a value of the parent and w a store entry; the entry "count" is assigned, "w" is only read. */
typedef struct affine_user {
    sg_scope scope;
    sg_value factor;
} affine_user;

static void affine(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    affine_user *u = user;
    sg_scope scope = sg_scope_in(u->scope, body);
    sg_value w = sg_param(scope, "w", sg_shape_scalar(), sg_init_constant(2));
    sg_value count = sg_state(scope, "count", SG_F32, sg_shape_scalar(), sg_init_constant(100));
    next[0] = sg_add(sg_mul(state[0], u->factor), w);
    sg_assign(count, sg_add_scalar(count, 1));
}

/* The layout of repeat_internal.h, and the entry's final value as its version in the parent. */
static void entries_continue_in_the_parent(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F64);
    affine_user user = {sg_scope_root(graph, store), sg_scalar(graph, 3)};
    sg_value x = sg_scalar(graph, 1), y;
    sg_repeat(graph, 4, affine, &user, &x, 1, &y, false);
    assert_sound(graph);
    sg_store_initialise(store, 1);

    sg_node node = *sg_node_of(y);
    assert_ptr_equal(node.op, &sg_op_repeat);
    assert_int_equal(node.n_out, 2);
    assert_int_equal(node.n_in, 4);
    assert_int_equal(sg_repeat_states(&node), 1);
    assert_true(sg_repeat_count(&node) == 4);
    assert_int_equal(sg_repeat_output_input(&node, 0), 0);
    assert_int_equal(node.in[0], x.id);
    int32_t entry_input = sg_repeat_output_input(&node, 1), constants = 0;
    assert_int_equal(sg_repeat_input_output(&node, entry_input), 1);
    for (int32_t j = 0; j < node.n_in; j++)
        constants += sg_repeat_input_output(&node, j) < 0;
    assert_int_equal(constants, 2);

    int32_t entry = sg_store_find(store, "count");
    assert_int_equal(sg_entry_of(sg_output_of(y, 1)), entry);
    assert_ptr_equal(sg_node_of(sg_value_at(graph, node.in[entry_input]))->op, &sg_op_param);
    sg_value now = sg_state(user.scope, "count", SG_F32, sg_shape_scalar(), sg_init_constant(100));
    assert_true(sg_same(now, sg_output_of(y, 1)));
    assert_int_equal(sg_effect_count(graph), 1);
    assert_true(evaluate(graph, y) == 81 + 2 * (27 + 9 + 3 + 1));
    assert_true(evaluate(graph, now) == 104);
    sg_graph_free(graph);
    sg_store_free(store);
}

/* An outer loop of 3 around an inner one of 2: the entry counts all six. */
static void outer_body(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    sg_repeat(body, 2, affine, user, state, 1, next, false);
}

static void loops_nest(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F64);
    affine_user user = {sg_scope_root(graph, store), sg_scalar(graph, 1)};
    sg_value x = sg_scalar(graph, 0), y;
    sg_repeat(graph, 3, outer_body, &user, &x, 1, &y, false);
    assert_sound(graph);
    sg_store_initialise(store, 1);
    sg_value count = sg_state(user.scope, "count", SG_F32, sg_shape_scalar(), sg_init_constant(100));
    assert_true(evaluate(graph, y) == 12);
    assert_true(evaluate(graph, count) == 106);
    sg_graph_free(graph);
    sg_store_free(store);
}

static void add_input(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)user;
    next[0] = sg_add(state[0], sg_input(body, "x", SG_F32, sg_shape_scalar()));
}

static void add_input_twice(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    sg_repeat(body, 2, add_input, user, state, 1, next, false);
}

/* A body has no inputs of its own that a plan could be fed. */
static void inputs_are_those_of_the_outermost_graph(void **state)
{
    (void)state;
    for (int unroll = 0; unroll < 2; unroll++) {
        sg_graph *graph = sg_graph_new();
        sg_value y = sg_scalar(graph, 1);
        sg_repeat(graph, 3, add_input_twice, NULL, &y, 1, &y, unroll != 0);
        sg_value x = sg_input(graph, "x", SG_F32, sg_shape_scalar());
        assert_sound(graph);
        double seven = 7, got = NAN, *feed = &seven, *out = &got;
        graph_eval(graph, &x, &feed, 1, &y, &out, 1);
        assert_true(got == 43);
        sg_graph_free(graph);
    }
}

static void no_states(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)state, (void)next;
    sg_scope scope = sg_scope_in(*(sg_scope *)user, body);
    sg_value count = sg_state(scope, "count", SG_F32, sg_shape_scalar(), sg_init_constant(0));
    sg_assign(count, sg_add_scalar(count, 1));
}

static void a_loop_may_only_assign(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F64);
    sg_scope scope = sg_scope_root(graph, store);
    sg_repeat(graph, 5, no_states, &scope, NULL, 0, NULL, false);
    assert_sound(graph);
    sg_store_initialise(store, 1);
    assert_true(evaluate(graph, sg_state(scope, "count", SG_F32, sg_shape_scalar(), sg_init_constant(0))) == 5);
    sg_graph_free(graph);
    sg_store_free(store);
}

static void square_body(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)user, (void)body;
    next[0] = sg_square(state[0]);
}

/* d x^(2^3) / dx at 1.5 passes through an unrolled loop; a loop node on the path is an error, not a silent zero. */
static void derivatives_pass_only_unrolled(void **state)
{
    (void)state;
    for (int unroll = 0; unroll < 2; unroll++) {
        sg_graph *graph = sg_graph_new();
        sg_value x = sg_scalar(graph, 1.5), y, g;
        sg_repeat(graph, 3, square_body, NULL, &x, 1, &y, unroll != 0);
        sg_grad(y, &x, 1, &g);
        if (unroll)
            assert_true(fabs(evaluate(graph, g) - 8 * pow(1.5, 7)) <= 1e-12 * 8 * pow(1.5, 7));
        else
            assert_int_equal(sg_graph_status(graph, NULL), SG_E_UNSUPPORTED);
        sg_graph_free(graph);
    }
}

/* ---- refusals */

static void grow(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)user, (void)body;
    next[0] = sg_expand_dims(state[0], 0);
}

static void change_dtype(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)user, (void)body;
    next[0] = sg_cast(state[0], SG_F64);
}

static void forget(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)user, (void)body, (void)state, (void)next;
}

static void assert_refused(sg_body_fn body, int64_t n, int32_t n_state, sg_status status)
{
    sg_graph *graph = sg_graph_new();
    sg_value x = sg_scalar(graph, 1), y = x;
    sg_repeat(graph, n, body, NULL, &x, n_state, &y, false);
    sg_error err = {0};
    assert_int_equal(sg_graph_status(graph, &err), status);
    assert_true(err.text[0] != 0);
    assert_true(n_state == 0 || sg_is_none(y));
    sg_graph_free(graph);
}

static void bad_loops_are_refused(void **state)
{
    (void)state;
    assert_refused(grow, 2, 1, SG_E_SHAPE);
    assert_refused(change_dtype, 2, 1, SG_E_DTYPE);
    assert_refused(forget, 2, 1, SG_E_GRAPH);
    assert_refused(square_body, -1, 1, SG_E_ARGUMENT);
    assert_refused(forget, 2, 0, SG_E_GRAPH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_exchange_places),
        cmocka_unit_test(zero_iterations_return_the_states),
        cmocka_unit_test(entries_continue_in_the_parent),
        cmocka_unit_test(loops_nest),
        cmocka_unit_test(inputs_are_those_of_the_outermost_graph),
        cmocka_unit_test(a_loop_may_only_assign),
        cmocka_unit_test(derivatives_pass_only_unrolled),
        cmocka_unit_test(bad_loops_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
