/* Expressions with other arguments: what is shared, what is refused; and building solvers when memory runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

static void substitution(void **state)
{
    (void)state;
    sg_store *store = sg_store_new(SG_F64);
    sg_graph *g = sg_graph_new();
    sg_scope scope = sg_scope_root(g, store);
    sg_value x = sg_input(g, "x", SG_F64, SG_SHAPE(2)), c = sg_input(g, "c", SG_F64, SG_SHAPE(2));
    sg_value shared = sg_exp(c), noise = sg_cast(sg_uniform_like(scope, sg_cast(x, SG_F32)), SG_F64);
    sg_value y[3] = {sg_mul(sg_sin(x), shared), sg_add(x, noise), shared}, by = sg_mul_scalar(x, 3), out[3];
    int32_t before = sg_node_count(g);
    sg_substitute(g, y, 3, &x, &by, 1, out);
    assert_int_equal(sg_node_count(g) - before, 3); /* sin, mul and add: neither the exponential nor the draw */
    assert_true(sg_same(out[2], shared));
    double at[2] = {0.5, -1}, c_at[2] = {0.1, 0.2}, got[2][2], want[2][2], three[2] = {1.5, -3};
    graph_eval(g, (sg_value[]){x, c}, (double *[]){at, c_at}, 2, out, (double *[]){got[0], got[1]}, 2);
    graph_eval(g, (sg_value[]){x, c}, (double *[]){three, c_at}, 2, y, (double *[]){want[0], want[1]}, 2);
    assert_memory_equal(got, want, sizeof got);
    /* an x in the middle: nothing below it is rebuilt, and a y that is an x is its replacement */
    sg_value middle = sg_tanh(x), top[2] = {sg_square(middle), middle};
    sg_substitute(g, top, 2, &middle, &c, 1, out);
    assert_true(sg_same(out[0], sg_square(c)) && sg_same(out[1], c));
    sg_graph_free(g);
    sg_store_free(store);
}

static void twice(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)user, (void)body;
    next[0] = sg_mul_scalar(state[0], 2);
}

static void refusals(void **state)
{
    (void)state;
    sg_error err;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), y = sg_exp(x), by = sg_input(g, "by", SG_F32, SG_SHAPE(3)), out;
    sg_substitute(g, &y, 1, &x, &by, 1, &out);
    assert_true(sg_is_none(out));
    assert_int_equal(sg_graph_status(g, &err), SG_E_SHAPE);
    assert_non_null(strstr(err.text, "[3]"));
    sg_graph_free(g);
    g = sg_graph_new();
    x = sg_input(g, "x", SG_F32, SG_SHAPE(2));
    by = sg_exp(x);
    sg_repeat(g, 3, twice, NULL, &x, 1, &y, false);
    sg_substitute(g, &y, 1, &x, &by, 1, &out);
    assert_true(sg_is_none(out));
    assert_int_equal(sg_graph_status(g, &err), SG_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "unroll"));
    sg_graph_free(g);
    g = sg_graph_new();
    x = sg_input(g, "x", SG_F32, SG_SHAPE(2));
    y = SG_NONE;
    sg_substitute(g, &y, 1, &x, &x, 1, &out);
    assert_int_equal(sg_graph_status(g, NULL), SG_E_ARGUMENT);
    sg_checkpoint_end(g, 0, &y, 1);
    assert_true(sg_is_none(y));
    sg_graph_free(g);
}

typedef struct budget {
    int64_t left;
} budget;
static void *allocate(void *user, size_t bytes) { return ((budget *)user)->left-- > 0 ? malloc(bytes) : NULL; }
static void *resize(void *user, void *old, size_t bytes)
{
    return ((budget *)user)->left-- > 0 ? realloc(old, bytes) : NULL;
}
static void release(void *user, void *old)
{
    (void)user;
    free(old);
}

static sg_status implicit_within(int64_t allocations)
{
    budget b = {allocations};
    sg_allocator_set(&(sg_allocator){allocate, resize, release, &b});
    sg_graph *g = sg_graph_new();
    sg_status status = SG_E_MEMORY;
    if (g) {
        sg_value t = sg_input(g, "t", SG_F32, SG_SHAPE(2)), p = sg_input(g, "p", SG_F32, SG_SHAPE(2)), grad;
        int32_t begin = sg_checkpoint_begin(g);
        sg_value h = sg_tanh(sg_mul(t, p));
        sg_checkpoint_end(g, begin, &h, 1);
        sg_bilevel problem = {sg_sum_all(sg_square(h)), sg_sum_all(h), &t, &p, 1, 1};
        sg_solve_report report;
        sg_solve_options o = {.size = sizeof o, .method = SG_SOLVE_CG, .steps = 2};
        sg_implicit_grad(&problem, &o, &grad, &report);
        status = sg_graph_status(g, NULL);
        assert_true(status == SG_OK ? !sg_is_none(grad) : sg_is_none(grad));
    }
    sg_graph_free(g);
    sg_allocator_set(NULL);
    return status;
}

/* Each allocation of building an implicit gradient fails once: an error, no crash, and the next attempt is sound. */
static void memory_may_run_out(void **state)
{
    (void)state;
    int64_t n = 1;
    while (implicit_within(n) != SG_OK)
        n += n < 200 ? 1 : 3;
    assert_true(n > 100 && n < 100000);
    assert_int_equal(implicit_within(1 << 30), SG_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(substitution),
        cmocka_unit_test(refusals),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
