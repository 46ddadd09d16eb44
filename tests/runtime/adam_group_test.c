/* Updates of small parameters as one node: the same values, in groups that the graph allows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "runtime/cuda/adam_group_internal.h"
#include "runtime/plan_internal.h"

enum { SMALL = 6, LARGE = 40, ALL = 3 * (4 * SMALL + LARGE) };

static void good(sg_status status, const sg_error *err)
{
    if (status != SG_OK)
        fail_msg("%s", err->text);
}

static sg_adam_state state_of(sg_scope scope, const char *name, int64_t n)
{
    char m[32], v[32];
    snprintf(m, sizeof m, "%s_m", name);
    snprintf(v, sizeof v, "%s_v", name);
    return (sg_adam_state){sg_param(scope, name, SG_SHAPE(n), sg_init_normal(0, 1)),
                           sg_state(scope, m, SG_F32, SG_SHAPE(n), sg_init_normal(0, 1)),
                           sg_state(scope, v, SG_F32, SG_SHAPE(n), sg_init_constant(0.5))};
}

static sg_value update(sg_scope scope, const char *name, int64_t n, sg_value gradient, sg_value lr, double beta1)
{
    sg_adam_state s = state_of(scope, name, n);
    sg_adam_state next = sg_adam(s, gradient, lr, sg_scalar(scope.graph, 3), beta1, 0.999, 1e-8, 0.1, true);
    sg_assign(s.p, next.p);
    sg_assign(s.m, next.m);
    sg_assign(s.v, next.v);
    return next.p;
}

/* a and b join; c reads what a becomes, so that it stands in a group of its own with d; e is large; another rate and another
 * attribute are other groups. */
static void step(void *user, sg_graph *graph, const sg_value *state, sg_value *next)
{
    sg_scope scope = sg_scope_in(*(sg_scope *)user, graph);
    sg_value lr = sg_scalar(graph, 0.01), g = sg_param(scope, "g", SG_SHAPE(SMALL), sg_init_normal(0, 1));
    sg_value wide = sg_param(scope, "wide", SG_SHAPE(LARGE), sg_init_normal(0, 1));
    sg_value a = update(scope, "a", SMALL, g, lr, 0.9);
    update(scope, "e", LARGE, wide, lr, 0.9);
    update(scope, "b", SMALL, sg_square(g), lr, 0.9);
    update(scope, "c", SMALL, sg_mul(g, a), lr, 0.9);
    update(scope, "d", SMALL, sg_sin(g), lr, 0.9);
    next[0] = sg_add(state[0], sg_sum_all(a));
}

typedef struct outcome {
    double values[ALL], sum;
    int32_t groups;
} outcome;

static void count_groups(sg_graph *graph, int32_t *n)
{
    for (int32_t i = 0; i < sg_node_count(graph); i++) {
        const sg_node *node = sg_node_at(graph, i);
        *n += node->op == &sg_op_adam_group;
        for (int32_t k = 0; k < node->op->n_attrs; k++)
            if (node->attr[k].kind == SG_ATTR_GRAPH)
                count_groups(node->attr[k].graph, n);
    }
}

static void run(sg_store *store, sg_graph *graph, outcome *out)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"}, *const parts[] = {"", "_m", "_v"};
    sg_session *session;
    sg_plan *plan;
    sg_error err = {0};
    sg_session_options options = {.size = sizeof options, .backend = "reference"};
    good(sg_session_new(&session, store, &options, &err), &err);
    good(sg_plan_new(&plan, session, graph, &err), &err);
    good(sg_plan_run(plan, &err), &err);
    good(sg_plan_fetch(plan, "sum", &out->sum, 1, &err), &err);
    int at = 0;
    for (int i = 0; i < 15; i++) {
        char name[32];
        int n = i / 3 == 4 ? LARGE : SMALL;
        snprintf(name, sizeof name, "%s%s", names[i / 3], parts[i % 3]);
        good(sg_store_get(store, name, out->values + at, n, &err), &err);
        at += n;
    }
    sg_plan_free(plan);
    sg_session_free(session);
}

static outcome outcome_of(bool grouped, int32_t times, bool unroll)
{
    outcome out = {.groups = 0};
    sg_store *store = sg_store_new(SG_F64);
    sg_graph *graph = sg_graph_new(), *other = sg_graph_new();
    sg_scope scope = sg_scope_root(graph, store);
    sg_value sum = sg_scalar(graph, 0);
    sg_error err = {0};
    sg_repeat(graph, times, step, &scope, &sum, 1, &sum, unroll);
    sg_result(graph, "sum", sum);
    sg_store_initialise(store, 1);
    good(sg_group_adam(graph, other, LARGE - 1, &err), &err);
    count_groups(other, &out.groups);
    run(store, grouped ? other : graph, &out);
    sg_graph_free(graph);
    sg_graph_free(other);
    sg_store_free(store);
    return out;
}

static void same(int32_t times, bool unroll, int32_t groups)
{
    outcome apart = outcome_of(false, times, unroll), joined = outcome_of(true, times, unroll);
    assert_int_equal(joined.groups, groups);
    assert_memory_equal(apart.values, joined.values, sizeof apart.values);
    assert_true(apart.sum == joined.sum);
}

static void test_once(void **state)
{
    (void)state;
    same(1, true, 2);
}

/* The updates of one iteration read those of the one before: a and b of the second join c and d of the first. */
static void test_unrolled(void **state)
{
    (void)state;
    same(3, true, 4);
}

static void test_loop(void **state)
{
    (void)state;
    same(4, false, 2);
}

static sg_value scaled_update(sg_scope scope, const char *name, sg_value gradient, sg_value factor)
{
    sg_adam_state s = state_of(scope, name, SMALL);
    sg_attr attr[] = {sg_attr_real(0.9), sg_attr_real(0.999), sg_attr_real(1e-8), sg_attr_real(0.1), sg_attr_int(1)};
    sg_value in[SG_SCALED_ADAM_INPUTS] = {
        s.p, gradient, s.m, s.v, sg_scalar(scope.graph, 0.01), sg_scalar(scope.graph, 3), factor};
    sg_value first = sg_build(scope.graph, &sg_op_scaled_adam, in, SG_SCALED_ADAM_INPUTS, attr);
    sg_assign(s.p, first);
    sg_assign(s.m, sg_output_of(first, 1));
    sg_assign(s.v, sg_output_of(first, 2));
    return first;
}

/* Groups have one factor: a and b the first, d the other, and c none. */
static void scaled_steps(sg_store *store, bool grouped, double *values)
{
    static const char *const names[] = {"a", "a_m", "a_v", "b", "b_m", "b_v", "d", "d_m", "d_v"};
    sg_graph *graph = sg_graph_new(), *other = sg_graph_new();
    sg_scope scope = sg_scope_root(graph, store);
    sg_value g = sg_param(scope, "g", SG_SHAPE(SMALL), sg_init_normal(0, 1)), half = sg_scalar(graph, 0.5);
    sg_error err = {0};
    sg_session *session;
    sg_plan *plan;
    int32_t groups = 0;
    scaled_update(scope, "a", g, half);
    update(scope, "c", SMALL, g, sg_scalar(graph, 0.01), 0.9);
    scaled_update(scope, "b", sg_sin(g), half);
    scaled_update(scope, "d", g, sg_scalar(graph, 0.25));
    sg_store_initialise(store, 1);
    good(sg_group_adam(graph, other, LARGE, &err), &err);
    count_groups(other, &groups);
    assert_int_equal(groups, 1);
    sg_session_options options = {.size = sizeof options, .backend = "reference"};
    good(sg_session_new(&session, store, &options, &err), &err);
    good(sg_plan_new(&plan, session, grouped ? other : graph, &err), &err);
    good(sg_plan_run(plan, &err), &err);
    for (int i = 0; i < 9; i++)
        good(sg_store_get(store, names[i], values + i * SMALL, SMALL, &err), &err);
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_graph_free(other);
}

/* And a factor does what a multiplication before the step does: all steps are those of a, with another gradient. */
static void test_scaled(void **state)
{
    double apart[9 * SMALL], joined[9 * SMALL];
    (void)state;
    sg_store *store = sg_store_new(SG_F64), *again = sg_store_new(SG_F64), *plain = sg_store_new(SG_F64);
    scaled_steps(store, false, apart);
    scaled_steps(again, true, joined);
    assert_memory_equal(apart, joined, sizeof apart);
    sg_graph *graph = sg_graph_new();
    sg_scope scope = sg_scope_root(graph, plain);
    sg_session *session;
    sg_plan *plan;
    sg_error err = {0};
    sg_value g = sg_param(scope, "g", SG_SHAPE(SMALL), sg_init_normal(0, 1));
    update(scope, "a", SMALL, sg_mul(g, sg_scalar(graph, 0.5)), sg_scalar(graph, 0.01), 0.9);
    sg_store_initialise(plain, 1);
    sg_session_options options = {.size = sizeof options, .backend = "reference"};
    good(sg_session_new(&session, plain, &options, &err), &err);
    good(sg_plan_new(&plan, session, graph, &err), &err);
    good(sg_plan_run(plan, &err), &err);
    good(sg_store_get(plain, "a", joined, SMALL, &err), &err);
    assert_memory_equal(apart, joined, SMALL * sizeof *joined);
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
    sg_store_free(again);
    sg_store_free(plain);
}

static void test_settings(void **state)
{
    (void)state;
    sg_store *store = sg_store_new(SG_F64);
    sg_graph *graph = sg_graph_new(), *other = sg_graph_new();
    sg_scope scope = sg_scope_root(graph, store);
    sg_value g = sg_param(scope, "g", SG_SHAPE(SMALL), sg_init_normal(0, 1));
    sg_error err = {0};
    int32_t groups = 0;
    update(scope, "a", SMALL, g, sg_scalar(graph, 0.1), 0.9);
    update(scope, "b", SMALL, g, sg_scalar(graph, 0.2), 0.9);
    update(scope, "c", SMALL, g, sg_scalar(graph, 0.1), 0.8);
    good(sg_group_adam(graph, other, LARGE, &err), &err);
    count_groups(other, &groups);
    assert_int_equal(groups, 0);
    sg_graph_free(graph);
    sg_graph_free(other);
    sg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_once), cmocka_unit_test(test_unrolled),
                                       cmocka_unit_test(test_loop), cmocka_unit_test(test_scaled),
                                       cmocka_unit_test(test_settings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
