/* Loops: states, exchanged states, entries assigned in bodies, captures, nesting, draws; and where their memory is. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "tests/support/graph_run.h"
#include "tests/support/inplace_backend.h"

static const sg_session_options poisoned = {.size = sizeof(sg_session_options), .poison = true};

typedef struct fixture {
    sg_store *store;
    sg_graph *graph;
    sg_scope scope;
} fixture;

static fixture open_fixture(void)
{
    fixture f = {.store = sg_store_new(SG_F64), .graph = sg_graph_new()};
    f.scope = sg_scope_root(f.graph, f.store);
    return f;
}

static void close_fixture(fixture *f)
{
    sg_graph_free(f->graph);
    sg_store_free(f->store);
}

/* Run on both devices, with and without shared memory, and compare the result `name` and the copies made in place. */
static void check_result(fixture *f, const char *name, const double *want, int32_t n, int32_t copies)
{
    for (int32_t variant = 0; variant < 4; variant++) {
        sg_session *s = variant & 1 ? inplace_session(f->store, &poisoned) : reference_session(f->store, &poisoned);
        sg_plan *plan = compile_plan(s, f->graph, variant & 2);
        run_plan(plan);
        double got[16];
        assert_true(n <= 16);
        assert_int_equal(sg_plan_fetch(plan, name, got, n, NULL), SG_OK);
        assert_memory_equal(got, want, (size_t)n * sizeof *got);
        if (variant == 1)
            assert_int_equal(sg_plan_copy_count(plan), copies);
        sg_plan_free(plan);
        sg_session_free(s);
    }
}

/* --------------------------------------------------------------------------------------------------------- states */

static void doubling(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)body;
    const sg_value *step = user;
    next[0] = sg_add(sg_mul_scalar(state[0], 2), *step);
}

static void test_state(void **state)
{
    (void)state;
    fixture f = open_fixture();
    sg_value step = sg_constant(f.graph, SG_F32, SG_SHAPE(2), (double[]){1, 10}, 2);
    sg_value x = sg_tanh(sg_constant(f.graph, SG_F32, SG_SHAPE(2), (double[]){0, 0}, 2)), y;
    sg_repeat(f.graph, 5, doubling, &step, &x, 1, &y, false);
    sg_result(f.graph, "y", y);
    /* the result has memory of its own, so that its start value is copied there */
    check_result(&f, "y", (double[]){31, 310}, 2, 1);
    close_fixture(&f);
}

/* The initial value dies with the loop: its memory becomes the state's. */
static void test_state_taken_over(void **state)
{
    (void)state;
    fixture f = open_fixture();
    sg_value step = sg_constant(f.graph, SG_F32, SG_SHAPE(2), (double[]){1, 10}, 2);
    sg_value x = sg_tanh(sg_constant(f.graph, SG_F32, SG_SHAPE(2), (double[]){0, 0}, 2)), y;
    sg_repeat(f.graph, 5, doubling, &step, &x, 1, &y, false);
    sg_result(f.graph, "y", sg_transpose(sg_reshape(y, SG_SHAPE(2, 1)), SG_AXES(1, 0)));
    check_result(&f, "y", (double[]){31, 310}, 2, 0);
    close_fixture(&f);
}

/* The initial value is read after the loop, and inside it: it must survive. */
static void test_initial_value_survives(void **state)
{
    (void)state;
    fixture f = open_fixture();
    sg_value x = sg_exp(sg_constant(f.graph, SG_F32, SG_SHAPE(2), (double[]){0, 0}, 2)), y;
    sg_repeat(f.graph, 3, doubling, &x, &x, 1, &y, false);
    sg_result(f.graph, "y", sg_add(sg_mul_scalar(y, 10), x));
    check_result(&f, "y", (double[]){151, 151}, 2, 1);
    close_fixture(&f);
}

static void exchange(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)user, (void)body;
    next[0] = state[1];
    next[1] = state[0];
}

static void fibonacci(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)user, (void)body;
    next[0] = state[1];
    next[1] = sg_add(state[0], state[1]);
}

static void test_exchange(void **state)
{
    (void)state;
    fixture f = open_fixture();
    sg_value s[2] = {sg_scalar(f.graph, 1), sg_scalar(f.graph, 2)};
    sg_repeat(f.graph, 3, exchange, NULL, s, 2, s, false);
    sg_value t[2] = {sg_scalar(f.graph, 0), sg_scalar(f.graph, 1)};
    sg_repeat(f.graph, 10, fibonacci, NULL, t, 2, t, false);
    sg_value all[4] = {s[0], s[1], t[0], t[1]};
    for (int32_t k = 0; k < 4; k++)
        all[k] = sg_expand_dims(all[k], 0);
    sg_result(f.graph, "y", sg_concat(all, 4, 0));
    double got[4];
    sg_value y = sg_result_value(f.graph, 0);
    graph_eval(f.graph, NULL, NULL, 0, &y, (double *[]){got}, 1);
    assert_memory_equal(got, ((double[]){2, 1, 55, 89}), sizeof got);
    /* four constants to start from; exchange: 2 saves and 2 commits; fibonacci: the old second state, and the sum */
    check_result(&f, "y", (double[]){2, 1, 55, 89}, 4, 4 + 4 + 3);
    close_fixture(&f);
}

/* A state that the body does not change, one that starts as a constant, and two that start as the same value. */
static void mixed(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)user;
    next[0] = state[0];
    next[1] = sg_scalar(body, 7);
    next[2] = sg_add(state[2], state[3]);
    next[3] = next[2];
}

static void test_mixed_states(void **state)
{
    (void)state;
    fixture f = open_fixture();
    sg_value one = sg_exp(sg_scalar(f.graph, 0)), s[4] = {one, one, one, one};
    sg_repeat(f.graph, 3, mixed, NULL, s, 4, s, false);
    for (int32_t k = 0; k < 4; k++)
        s[k] = sg_expand_dims(s[k], 0);
    sg_result(f.graph, "y", sg_concat(s, 4, 0));
    double got[4];
    sg_value y = sg_result_value(f.graph, 0);
    graph_eval(f.graph, NULL, NULL, 0, &y, (double *[]){got}, 1);
    assert_memory_equal(got, ((double[]){1, 7, 8, 8}), sizeof got);
    /* four starts from one value; the constant and the shared next of state 3 cannot be written in place */
    check_result(&f, "y", got, 4, 4 + 2);
    close_fixture(&f);
}

/* -------------------------------------------------------------------------------------------------------- entries */

static void adam_entry(sg_scope scope, const char *name)
{
    sg_scope s = sg_scope_sub(scope, name);
    sg_shape shape = SG_SHAPE(3);
    sg_value p = sg_param(s, "p", shape, sg_init_constant(1)),
             t = sg_state(s, "t", SG_F32, sg_shape_scalar(), sg_init_zeros());
    sg_value m = sg_state(s, "m", SG_F32, shape, sg_init_zeros()), v = sg_state(s, "v", SG_F32, shape, sg_init_zeros());
    sg_value now = sg_add_scalar(t, 1);
    sg_adam_state next =
        sg_adam((sg_adam_state){p, m, v}, sg_sin(p), sg_scalar(scope.graph, 0.01), now, 0.9, 0.999, 1e-8, 0.01, true);
    sg_assign(p, next.p);
    sg_assign(m, next.m);
    sg_assign(v, next.v);
    sg_assign(t, now);
}

static void inner_loop(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)state, (void)next;
    adam_entry(sg_scope_in(*(sg_scope *)user, body), "E");
}

static void outer_loop(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)state, (void)next;
    sg_repeat(body, 12, inner_loop, user, NULL, 0, NULL, false);
    adam_entry(sg_scope_in(*(sg_scope *)user, body), "F");
}

static void alternate(fixture *f, bool loops)
{
    if (loops) {
        sg_repeat(f->graph, 5, outer_loop, &f->scope, NULL, 0, NULL, false);
        return;
    }
    for (int32_t i = 0; i < 5; i++) {
        for (int32_t j = 0; j < 12; j++)
            adam_entry(f->scope, "E");
        adam_entry(f->scope, "F");
    }
}

/* A nested alternation of updates is as good as one written out, and moves no memory: all entries are updated in
 * place. */
static void test_nested_updates(void **state)
{
    (void)state;
    double got[2][8];
    for (int32_t loops = 0; loops < 2; loops++) {
        fixture f = open_fixture();
        alternate(&f, loops);
        sg_store_initialise(f.store, 3);
        sg_session *s = inplace_session(f.store, &poisoned);
        sg_plan *plan = compile_plan(s, f.graph, false);
        assert_int_equal(sg_plan_copy_count(plan), 0);
        run_plan(plan);
        run_plan(plan);
        const char *names[] = {"E/p", "F/p"};
        for (int32_t k = 0; k < 2; k++)
            assert_int_equal(sg_store_get(f.store, names[k], &got[loops][3 * k], 3, NULL), SG_OK);
        assert_int_equal(sg_store_get(f.store, "E/t", &got[loops][6], 1, NULL), SG_OK);
        assert_int_equal(sg_store_get(f.store, "F/t", &got[loops][7], 1, NULL), SG_OK);
        sg_plan_free(plan);
        sg_session_free(s);
        close_fixture(&f);
    }
    assert_true(got[1][6] == 120 && got[1][7] == 10);
    assert_memory_equal(got[0], got[1], sizeof got[0]);
}

/* The body reads the version from before the loop (a capture) beside the one it carries: two memories are needed. */
static void drift(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)state, (void)next;
    const sg_value *start = ((void **)user)[1];
    sg_value p = sg_param(sg_scope_in(*(sg_scope *)((void **)user)[0], body), "p", SG_SHAPE(2), sg_init_constant(3));
    sg_assign(p, sg_add(p, *start));
}

static void test_entry_and_its_start(void **state)
{
    (void)state;
    fixture f = open_fixture();
    sg_value p = sg_param(f.scope, "p", SG_SHAPE(2), sg_init_constant(3));
    sg_repeat(f.graph, 4, drift, (void *[]){&f.scope, &p}, NULL, 0, NULL, false);
    sg_store_initialise(f.store, 1);
    sg_session *s = inplace_session(f.store, &poisoned);
    sg_plan *plan = compile_plan(s, f.graph, false);
    run_plan(plan);
    double got[2];
    assert_int_equal(sg_store_get(f.store, "p", got, 2, NULL), SG_OK);
    assert_true(got[0] == 15 && got[1] == 15);
    sg_plan_free(plan);
    sg_session_free(s);
    close_fixture(&f);
}

/* ---------------------------------------------------------------------------------------------------------- draws */

static void add_draw(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    next[0] = sg_add(sg_mul_scalar(state[0], 2), sg_uniform_like(sg_scope_in(*(sg_scope *)user, body), state[0]));
}

static void nested_draw(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    sg_repeat(body, 3, add_draw, user, state, 1, next, false);
}

/* Draws differ between iterations, nested ones included, and the plan agrees with the interpreter on all of them. */
static void test_draws(void **state)
{
    (void)state;
    fixture f = open_fixture();
    sg_value x = sg_constant(f.graph, SG_F32, SG_SHAPE(3), (double[]){0, 0, 0}, 3), y;
    sg_repeat(f.graph, 2, nested_draw, &f.scope, &x, 1, &y, false);
    sg_result(f.graph, "y", y);
    sg_store_initialise(f.store, 1);
    sg_rng_seed(f.store, 5, 9);
    double want[3];
    graph_eval(f.graph, NULL, NULL, 0, &y, (double *[]){want}, 1);
    assert_true(want[0] != want[1] && want[1] != want[2]);
    /* draws are multiples of 2^-24, so six equal ones would give 63 u and this quotient would be whole */
    assert_true(fmod(want[0] * 0x1p24 / 63, 1) != 0 || fmod(want[1] * 0x1p24 / 63, 1) != 0);
    check_result(&f, "y", want, 3, 1);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_state_taken_over),
        cmocka_unit_test(test_initial_value_survives),
        cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_mixed_states),
        cmocka_unit_test(test_nested_updates),
        cmocka_unit_test(test_entry_and_its_start),
        cmocka_unit_test(test_draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
