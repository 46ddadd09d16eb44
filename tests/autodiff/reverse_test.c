/* Reverse mode: known gradients, and the three answers that must not be mixed up (not connected, zero, not
 * implemented). */
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
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

#define N(array) (int32_t)(sizeof(array) / sizeof((array)[0]))

static void assert_sound(sg_graph *graph)
{
    sg_error err = {0};
    if (sg_graph_status(graph, &err) != SG_OK || sg_graph_verify(graph, &err) != SG_OK)
        fail_msg("%s (op %s, node %s)", err.text, err.op, err.node);
}

static void assert_value(sg_value v, const sg_value *x, double *const *feed, int32_t n_x, const double *want,
                         const char *name)
{
    assert_sound(v.graph);
    double got[64];
    int64_t n = sg_shape_count(sg_shape_of(v));
    assert_true(n <= N(got));
    graph_eval(v.graph, x, feed, n_x, &v, (double *[]){got}, 1);
    assert_tensor_close(got, want, n, 1e-13, 1e-13, name);
}

static void assert_shape(sg_value v, const char *want)
{
    char text[SG_SHAPE_TEXT];
    assert_string_equal(sg_shape_format(sg_shape_of(v), text, sizeof text), want);
}

static void assert_refused(sg_graph *graph, sg_status status, const char *part)
{
    sg_error err = {0};
    assert_int_equal(sg_graph_status(graph, &err), status);
    if (!strstr(err.text, part))
        fail_msg("'%s' does not say '%s'", err.text, part);
    sg_graph_free(graph);
}

/* L = x' A x / 2 - b' x with symmetric A: gradient A x - b. */
static void gradient_of_a_quadratic(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double x_at[2] = {3, -1}, a[4] = {2, 1, 1, 5}, b[2] = {1, 4}, want[2] = {2 * 3 - 1 - 1, 3 - 5 - 4};
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), dx;
    sg_value A = sg_constant(g, SG_F32, SG_SHAPE(2, 2), a, 4), B = sg_constant(g, SG_F32, SG_SHAPE(2), b, 2);
    sg_value loss = sg_sub(sg_mul_scalar(sg_matmul(x, sg_matmul(A, x)), 0.5), sg_matmul(B, x));
    sg_grad(loss, &x, 1, &dx);
    assert_value(dx, &x, (double *[]){x_at}, 1, want, "A x - b");
    sg_graph_free(g);
}

/* y = softplus(x W' + b) v: dL/db_j = sum_i v_j sigmoid(z_ij), dL/dv_j = sum_i softplus(z_ij), dL/dW = (v sigmoid(z))'
 * x. */
static void gradient_of_a_small_net(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double x_at[4] = {1, -2, 0.5, 3}, w_at[2] = {0.3, -0.4}, b_at[1] = {0.1}, v_at[1] = {1.5};
    sg_value in[4] = {sg_input(g, "x", SG_F32, SG_SHAPE(2, 2)), sg_input(g, "w", SG_F32, SG_SHAPE(1, 2)),
                      sg_input(g, "b", SG_F32, SG_SHAPE(1)), sg_input(g, "v", SG_F32, SG_SHAPE(1))};
    sg_value h = sg_softplus(sg_add(sg_matmul_nt(in[0], in[1]), in[2])), d[4];
    sg_grad(sg_sum_all(sg_matmul(h, in[3])), in, 4, d);
    double z[2] = {0.3 + 0.8 + 0.1, 0.15 - 1.2 + 0.1}, s[2], dw[2], dx[4], db = 0, dv = 0;
    for (int i = 0; i < 2; i++) {
        s[i] = 1 / (1 + exp(-z[i]));
        db += v_at[0] * s[i];
        dv += log1p(exp(z[i]));
    }
    for (int j = 0; j < 2; j++) {
        dw[j] = v_at[0] * (s[0] * x_at[j] + s[1] * x_at[2 + j]);
        dx[j] = v_at[0] * s[0] * w_at[j];
        dx[2 + j] = v_at[0] * s[1] * w_at[j];
    }
    double *feed[4] = {x_at, w_at, b_at, v_at};
    assert_value(d[0], in, feed, 4, dx, "dx");
    assert_value(d[1], in, feed, 4, dw, "dw");
    assert_value(d[2], in, feed, 4, &db, "db");
    assert_value(d[3], in, feed, 4, &dv, "dv");
    sg_graph_free(g);
}

static void unused_targets_get_zeros_of_their_shape(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), other = sg_input(g, "other", SG_F32, SG_SHAPE(3, 1));
    sg_value wrt[3] = {other, sg_exp(other), x}, d[3];
    sg_grad(sg_sum_all(x), wrt, 3, d);
    assert_shape(d[0], "[3, 1]");
    double at[2] = {1, 2}, o[3] = {4, 5, 6}, zeros[3] = {0, 0, 0}, ones[2] = {1, 1};
    assert_value(d[0], (sg_value[]){x, other}, (double *[]){at, o}, 2, zeros, "unused");
    assert_value(d[1], (sg_value[]){x, other}, (double *[]){at, o}, 2, zeros, "unused, computed");
    assert_value(d[2], (sg_value[]){x, other}, (double *[]){at, o}, 2, ones, "used");
    sg_graph_free(g);
}

/* One value used several times, and asked for twice: each answer is the whole derivative. */
static void uses_add_up(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), wrt[2] = {x, x}, d[2];
    sg_value sum = x;
    for (int k = 2; k <= 9; k++)
        sum = sg_add(sum, sg_mul_scalar(x, k));
    sg_grad(sg_sum_all(sg_mul(sum, x)), wrt, 2, d);
    double at[2] = {2, -3}, want[2] = {2 * 45 * 2, 2 * 45 * -3};
    assert_value(d[0], &x, (double *[]){at}, 1, want, "first");
    assert_value(d[1], &x, (double *[]){at}, 1, want, "second");
    sg_graph_free(g);
}

/* n uses are added in a tree of depth log2 n. */
static int32_t add_depth(sg_graph *g, sg_value v)
{
    const sg_node *node = sg_node_of(v);
    if (strcmp(node->op->name, "add") != 0)
        return 0;
    int32_t in[2] = {node->in[0], node->in[1]};
    int32_t a = add_depth(g, sg_value_at(g, in[0])), b = add_depth(g, sg_value_at(g, in[1]));
    return 1 + (a > b ? a : b);
}

static void sums_are_balanced(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), d, parts[64];
    for (int k = 0; k < 64; k++)
        parts[k] = sg_sin(sg_mul_scalar(x, k + 2));
    sg_grad(sg_sum_all(sg_concat(parts, 64, 0)), &x, 1, &d);
    assert_sound(g);
    assert_int_equal(add_depth(g, d), 6);
    sg_graph_free(g);
}

/* Targets in the middle: the derivative in x passes through m, and m gets its own. */
static void targets_may_depend_on_each_other(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, sg_shape_scalar()), m = sg_square(x), wrt[2] = {x, m}, d[2];
    sg_grad(sg_mul(m, sg_mul(m, x)), wrt, 2, d);
    double at = 2, dx = 5 * 16, dm = 2 * 4 * 2;
    assert_value(d[0], &x, (double *[]){&at}, 1, &dx, "d x^5");
    assert_value(d[1], &x, (double *[]){&at}, 1, &dm, "d m^2 x / dm");
    sg_graph_free(g);
}

static void vjp_takes_several_outputs(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double s0[2] = {1, 10}, s1 = 100, at[2] = {3, 4}, want[2] = {2 * 3 + 100, 10 * 2 * 4 + 100};
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), d;
    sg_value y[2] = {sg_square(x), sg_sum_all(x)};
    sg_value seed[2] = {sg_constant(g, SG_F32, SG_SHAPE(2), s0, 2), sg_scalar(g, s1)};
    sg_vjp(y, seed, 2, &x, 1, &d);
    assert_value(d, &x, (double *[]){at}, 1, want, "J' s");
    sg_graph_free(g);
}

/* L(p - lr dL/dp) in one graph: derivatives with respect to the version before the assignment and the one after it. L
 * = p^2 / 2, p1 = p0 (1 - lr): dL1/dp1 = p1, dL1/dp0 = p1 (1 - lr). */
static void assigned_values_are_versions(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_store *store = sg_store_new(SG_F64);
    sg_scope scope = sg_scope_root(g, store);
    sg_value p0 = sg_param(scope, "p", SG_SHAPE(2), sg_init_zeros()), d, dp[2];
    sg_grad(sg_mul_scalar(sg_sum_all(sg_square(p0)), 0.5), &p0, 1, &d);
    sg_assign(p0, sg_sub(p0, sg_mul_scalar(d, 0.25)));
    sg_value p1 = sg_param(scope, "p", SG_SHAPE(2), sg_init_zeros());
    assert_false(sg_same(p0, p1));
    sg_grad(sg_mul_scalar(sg_sum_all(sg_square(p1)), 0.5), (sg_value[]){p0, p1}, 2, dp);
    double at[2] = {4, -8}, want0[2] = {4 * 0.75 * 0.75, -8 * 0.75 * 0.75}, want1[2] = {3, -6};
    assert_value(dp[0], &p0, (double *[]){at}, 1, want0, "before");
    assert_value(dp[1], &p0, (double *[]){at}, 1, want1, "after");
    sg_graph_free(g);
    sg_store_free(store);
}

/* One entry used at two places is one value: its gradient is the sum of both. */
static void tied_parameters_have_one_gradient(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_store *store = sg_store_new(SG_F64);
    sg_scope scope = sg_scope_root(g, store);
    sg_value first = sg_param(scope, "w", SG_SHAPE(2), sg_init_zeros());
    sg_value loss = sg_sum_all(sg_exp(first));
    sg_value second = sg_param(scope, "w", SG_SHAPE(2), sg_init_zeros()), d;
    assert_true(sg_same(first, second));
    sg_grad(sg_add(loss, sg_sum_all(sg_square(second))), &first, 1, &d);
    double at[2] = {0, 1}, want[2] = {1, exp(1) + 2};
    assert_value(d, &first, (double *[]){at}, 1, want, "tied");
    sg_graph_free(g);
    sg_store_free(store);
}

/* A batch axis of size 1 while building must still be summed over after the batch has grown. */
static void gradients_follow_a_resized_batch(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, sg_shape_named(SG_SHAPE(1, 2), 0, "batch"));
    sg_value b = sg_input(g, "b", SG_F32, SG_SHAPE(2)), row = sg_input(g, "row", SG_F32, SG_SHAPE(1, 2)), d[3];
    sg_value loss = sg_sum_all(sg_square(sg_add(sg_add(x, b), row)));
    sg_grad(loss, (sg_value[]){x, b, row}, 3, d);
    assert_sound(g);
    sg_error err = {0};
    if (sg_graph_bind(g, &(sg_binding){"batch", 3}, 1, &err) != SG_OK)
        fail_msg("%s", err.text);
    double x_at[6] = {1, 2, 3, 4, 5, 6}, b_at[2] = {0.5, -0.5}, row_at[2] = {0, 1}, db[2] = {2 * 10.5, 2 * 13.5};
    double *feed[3] = {x_at, b_at, row_at};
    assert_shape(d[0], "[batch=3, 2]");
    assert_shape(d[2], "[1, 2]");
    assert_value(d[1], (sg_value[]){x, b, row}, feed, 3, db, "db");
    assert_value(d[2], (sg_value[]){x, b, row}, feed, 3, db, "drow");
    sg_graph_free(g);
}

static void stop_gradient_stops(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(1)), d;
    sg_grad(sg_sum_all(sg_mul(x, sg_stop_gradient(sg_exp(x)))), &x, 1, &d);
    double at = 1, want = exp(1);
    assert_value(d, &x, (double *[]){&at}, 1, &want, "e^x held constant");
    sg_graph_free(g);
}

/* The side of `where` that is not taken is NaN, and so is its derivative; neither reaches the result. */
static void untaken_sides_do_not_leak(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), d, h;
    sg_value safe = sg_where(sg_greater(x, sg_zeros_like(x)), x, sg_ones_like(x));
    sg_value y = sg_where(sg_greater(x, sg_zeros_like(x)), sg_log(safe), x);
    sg_grad(sg_sum_all(y), &x, 1, &d);
    sg_grad(sg_sum_all(d), &x, 1, &h);
    double at[2] = {-1, 2}, want[2] = {1, 0.5}, second[2] = {0, -0.25};
    assert_value(d, &x, (double *[]){at}, 1, want, "first");
    assert_value(h, &x, (double *[]){at}, 1, second, "second");
    sg_graph_free(g);
}

/* ---------------------------------------------------------------------------------------------------------- loops */

static void halve_and_sin(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)user, (void)body;
    next[0] = sg_sin(sg_mul_scalar(state[0], 0.5));
}

static sg_value loop(sg_value x, bool unroll)
{
    sg_value out;
    sg_repeat(x.graph, 3, halve_and_sin, NULL, &x, 1, &out, unroll);
    return sg_sum_all(out);
}

static void unrolled_loops_differentiate(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(1)), d;
    sg_grad(loop(x, true), &x, 1, &d);
    double at = 1.2, y = at, want = 1;
    for (int i = 0; i < 3; i++) {
        want *= 0.5 * cos(0.5 * y);
        y = sin(0.5 * y);
    }
    assert_value(d, &x, (double *[]){&at}, 1, &want, "chain rule");
    sg_graph_free(g);
}

static void loops_refuse_reverse_mode(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(1)), d;
    sg_grad(loop(x, false), &x, 1, &d);
    assert_true(sg_is_none(d));
    assert_refused(g, SG_E_UNSUPPORTED, "derivatives stop at sg_repeat; pass unroll");
}

static void loops_refuse_forward_mode(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(1)), dy, y = loop(x, false);
    sg_jvp(&y, 1, &x, &x, 1, &dy);
    assert_refused(g, SG_E_UNSUPPORTED, "derivatives stop at sg_repeat; pass unroll");
}

static void loops_beside_the_path_are_fine(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(1)), z = sg_input(g, "z", SG_F32, SG_SHAPE(1)), d;
    sg_grad(sg_mul(loop(z, false), sg_sum_all(x)), &x, 1, &d);
    double at[2] = {2, 1.2}, want = sin(0.5 * sin(0.5 * sin(0.6)));
    assert_value(d, (sg_value[]){x, z}, (double *[]){&at[0], &at[1]}, 2, &want, "factor");
    sg_graph_free(g);
}

/* ---------------------------------------------------------------------------------------------------------- errors */

static sg_status same_shape(const sg_infer_args *a)
{
    a->out_shape[0] = a->in_shape[0];
    a->out_dtype[0] = a->in_dtype[0];
    return SG_OK;
}

static const sg_op ruleless = {.name = "ruleless", .n_in = 1, .n_out = 1, .infer = same_shape};

static void missing_rules_name_the_node(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), d;
    sg_value y = sg_named(sg_build(g, &ruleless, &x, 1, NULL), "culprit");
    sg_grad(sg_sum_all(y), &x, 1, &d);
    sg_error err = {0};
    sg_graph_status(g, &err);
    assert_string_equal(err.node, "culprit");
    assert_refused(g, SG_E_UNSUPPORTED, "operator 'ruleless' of node 'culprit' has no derivative rule");
}

static void losses_are_scalars(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), d;
    sg_grad(sg_exp(x), &x, 1, &d);
    assert_true(sg_is_none(d));
    assert_refused(g, SG_E_SHAPE, "rank-0 loss, got shape [2]");
}

static void seeds_fit_their_outputs(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), y = sg_exp(x), seed = sg_scalar(g, 1), d;
    sg_vjp(&y, &seed, 1, &x, 1, &d);
    assert_refused(g, SG_E_SHAPE, "sg_vjp: seed[0] is f32 [], its value is f32 [2]");
}

static void only_real_values_have_derivatives(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), i = sg_input(g, "i", SG_I32, SG_SHAPE(2)), d;
    sg_grad(sg_sum_all(x), &i, 1, &d);
    assert_refused(g, SG_E_DTYPE, "wrt[0] is i32");
}

static void other_graphs_are_refused(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new(), *h = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), other = sg_input(h, "x", SG_F32, SG_SHAPE(2)), d;
    sg_grad(sg_sum_all(x), &other, 1, &d);
    sg_graph_free(h);
    assert_refused(g, SG_E_ARGUMENT, "belongs to another graph");
}

static void missing_values_are_refused(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), none = SG_NONE, d = x;
    sg_grad(sg_sum_all(x), &none, 1, &d);
    assert_true(sg_is_none(d));
    assert_refused(g, SG_E_ARGUMENT, "wrt[0] is no value");
    d = x;
    sg_grad(SG_NONE, &x, 1, &d);
    assert_true(sg_is_none(d));
}

/* ---------------------------------------------------------------------------------------------------- out of memory */

typedef struct budget {
    int64_t left;
} budget;

static void *allocate(void *user, size_t bytes)
{
    budget *b = user;
    return b->left-- > 0 ? malloc(bytes) : NULL;
}

static void *resize(void *user, void *old, size_t bytes)
{
    budget *b = user;
    return b->left-- > 0 ? realloc(old, bytes) : NULL;
}

static void release(void *user, void *old)
{
    (void)user;
    free(old);
}

/* Every single allocation of building and differentiating fails once: no crash, an error, and the next run is sound. */
static sg_status build_within(int64_t allocations)
{
    budget b = {allocations};
    sg_allocator_set(&(sg_allocator){allocate, resize, release, &b});
    sg_status status = SG_E_MEMORY;
    sg_graph *g = sg_graph_new();
    if (g) {
        sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2, 3)), h;
        sg_value loss = sg_sum_all(sg_mul(sg_softmax(sg_matmul_nt(x, x), -1), sg_gelu(sg_matmul_nt(x, x))));
        sg_hvp(loss, &x, &x, 1, &h, SG_HVP_FORWARD_OVER_REVERSE);
        sg_hvp(loss, &x, &x, 1, &h, SG_HVP_REVERSE_OVER_REVERSE);
        status = sg_graph_status(g, NULL);
        assert_int_equal(sg_is_none(h), status != SG_OK);
        sg_graph_free(g);
    }
    sg_allocator_set(&(sg_allocator){0});
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    int64_t n = 0;
    for (; n < 100000; n = n < 300 ? n + 1 : n + n / 50) {
        sg_status status = build_within(n);
        if (status == SG_OK)
            break;
        assert_int_equal(status, SG_E_MEMORY);
    }
    assert_true(n > 10 && n < 100000);
}

/* Whoever refuses, a leaf, a result or a derivative: the error names the line of that call, not of the operator before. */
static void assert_line(sg_graph *g, int line)
{
    sg_error err = {0};
    assert_int_not_equal(sg_graph_status(g, &err), SG_OK);
    assert_non_null(strstr(err.file, "reverse_test.c"));
    assert_int_equal(err.line, line);
    sg_graph_free(g);
}

static sg_value square_sum(sg_graph *g, const char *name)
{
    return sg_sum_all(sg_square(sg_input(g, name, SG_F32, SG_SHAPE(2))));
}

static void errors_name_the_line_of_the_call(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    square_sum(g, "x");
    sg_input(g, "x", SG_F32, SG_SHAPE(3));
    assert_line(g, __LINE__ - 1);

    g = sg_graph_new();
    sg_value loss = square_sum(g, "x");
    sg_result(g, "loss", loss);
    sg_result(g, "loss", loss);
    assert_line(g, __LINE__ - 1);

    g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), y = sg_square(x), grad, zero = sg_zeros_like(x);
    sg_grad(y, &x, 1, &grad);
    assert_line(g, __LINE__ - 1);

    g = sg_graph_new();
    x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), y = sg_square(x), zero = sg_zeros_like(x);
    sg_hvp(y, &x, &zero, 1, &grad, SG_HVP_FORWARD_OVER_REVERSE);
    assert_line(g, __LINE__ - 1);

    sg_store *store = sg_store_new(SG_F32);
    g = sg_graph_new();
    sg_scope root = sg_scope_root(g, store);
    sg_value w = sg_param(root, "w", SG_SHAPE(2), sg_init_zeros());
    y = sg_sum_all(w);
    sg_assign(w, y);
    assert_line(g, __LINE__ - 1);

    g = sg_graph_new();
    root = sg_scope_root(g, store);
    square_sum(g, "x");
    sg_param(root, "w", SG_SHAPE(3), sg_init_zeros());
    assert_line(g, __LINE__ - 1);

    g = sg_graph_new();
    root = sg_scope_root(g, store);
    sg_param(root, "w", SG_SHAPE(2), sg_init_zeros());
    sg_params(root, &w, 0);
    assert_line(g, __LINE__ - 1);

    g = sg_graph_new();
    x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), y = sg_square(x), zero = sg_zeros_like(x);
    sg_substitute(g, &y, 1, &x, &zero, 1, &grad);
    sg_result(g, "y", SG_NONE);
    assert_line(g, __LINE__ - 1);
    sg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_of_a_quadratic),
        cmocka_unit_test(gradient_of_a_small_net),
        cmocka_unit_test(unused_targets_get_zeros_of_their_shape),
        cmocka_unit_test(uses_add_up),
        cmocka_unit_test(sums_are_balanced),
        cmocka_unit_test(targets_may_depend_on_each_other),
        cmocka_unit_test(vjp_takes_several_outputs),
        cmocka_unit_test(assigned_values_are_versions),
        cmocka_unit_test(tied_parameters_have_one_gradient),
        cmocka_unit_test(gradients_follow_a_resized_batch),
        cmocka_unit_test(stop_gradient_stops),
        cmocka_unit_test(untaken_sides_do_not_leak),
        cmocka_unit_test(unrolled_loops_differentiate),
        cmocka_unit_test(loops_refuse_reverse_mode),
        cmocka_unit_test(loops_refuse_forward_mode),
        cmocka_unit_test(loops_beside_the_path_are_fine),
        cmocka_unit_test(missing_rules_name_the_node),
        cmocka_unit_test(losses_are_scalars),
        cmocka_unit_test(seeds_fit_their_outputs),
        cmocka_unit_test(only_real_values_have_derivatives),
        cmocka_unit_test(other_graphs_are_refused),
        cmocka_unit_test(missing_values_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(errors_name_the_line_of_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
