/* Second and higher order, forward mode, composites, and the derivative checker itself. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

#define N(array) (int32_t)(sizeof(array) / sizeof((array)[0]))
static const sg_hvp_mode modes[2] = {SG_HVP_FORWARD_OVER_REVERSE, SG_HVP_REVERSE_OVER_REVERSE};

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
    assert_tensor_close(got, want, n, 1e-12, 1e-12, name);
}

/* x' A x / 2 + sum c: the Hessian is A, in both modes. */
static void hessian_of_a_quadratic(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double x_at[3] = {1, -2, 0.5}, v_at[3] = {3, 1, -1}, a[9] = {2, 1, 0, 1, 5, -1, 0, -1, 3};
    double want[3] = {6 + 1, 3 + 5 + 1, -1 - 3};
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(3)), v = sg_input(g, "v", SG_F32, SG_SHAPE(3));
    sg_value A = sg_constant(g, SG_F32, SG_SHAPE(3, 3), a, 9);
    sg_value loss = sg_mul_scalar(sg_matmul(x, sg_matmul(A, x)), 0.5), hv;
    for (int m = 0; m < 2; m++) {
        sg_hvp(loss, &x, &v, 1, &hv, modes[m]);
        assert_value(hv, (sg_value[]){x, v}, (double *[]){x_at, v_at}, 2, want, "A v");
    }
    sg_graph_free(g);
}

/* L = sum_i exp(x_i) y_i: blocks H_xx = diag(e^x y), H_xy = diag(e^x), H_yy = 0. */
static void hessian_blocks(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double x_at[2] = {0.5, -1}, y_at[2] = {2, 3}, u_at[2] = {1, 2}, w_at[2] = {-1, 0.5}, hx[2], hy[2];
    sg_value in[4] = {sg_input(g, "x", SG_F32, SG_SHAPE(2)), sg_input(g, "y", SG_F32, SG_SHAPE(2)),
                      sg_input(g, "u", SG_F32, SG_SHAPE(2)), sg_input(g, "w", SG_F32, SG_SHAPE(2))};
    sg_value loss = sg_sum_all(sg_mul(sg_exp(in[0]), in[1])), hv[2];
    for (int i = 0; i < 2; i++) {
        hx[i] = exp(x_at[i]) * (y_at[i] * u_at[i] + w_at[i]);
        hy[i] = exp(x_at[i]) * u_at[i];
    }
    for (int m = 0; m < 2; m++) {
        sg_hvp(loss, in, in + 2, 2, hv, modes[m]);
        assert_value(hv[0], in, (double *[]){x_at, y_at, u_at, w_at}, 4, hx, "x block");
        assert_value(hv[1], in, (double *[]){x_at, y_at, u_at, w_at}, 4, hy, "y block");
    }
    sg_graph_free(g);
}

/* A linear net has an exact zero Hessian in its input, shaped like it; so has a target that nothing depends on. */
static void linear_nets_have_zero_curvature(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double x_at[6] = {1, 2, 3, 4, 5, 6}, w_at[3] = {1, -1, 2}, zeros[6] = {0};
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2, 3)), w = sg_input(g, "w", SG_F32, SG_SHAPE(3));
    sg_value z = sg_input(g, "z", SG_F32, SG_SHAPE(3)), hv[2];
    sg_value loss = sg_sum_all(sg_matmul(x, w));
    for (int m = 0; m < 2; m++) {
        sg_hvp(loss, (sg_value[]){x, z}, (sg_value[]){x, z}, 2, hv, modes[m]);
        assert_int_equal(sg_rank_of(hv[0]), 2);
        assert_int_equal(sg_dim_of(hv[0], 1), 3);
        assert_value(hv[0], (sg_value[]){x, w, z}, (double *[]){x_at, w_at, w_at}, 3, zeros, "linear");
        assert_value(hv[1], (sg_value[]){x, w, z}, (double *[]){x_at, w_at, w_at}, 3, zeros, "unused");
    }
    sg_graph_free(g);
}

/* d^n/dx^n of x^4 by repeated reverse mode: 4 x^3, 12 x^2, 24 x, 24, 0. */
static void derivatives_of_any_order(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double at = 1.5, want[5] = {4 * pow(1.5, 3), 12 * 2.25, 36, 24, 0};
    sg_value x = sg_input(g, "x", SG_F32, sg_shape_scalar()), y = sg_mul(sg_square(x), sg_square(x));
    for (int k = 0; k < 5; k++) {
        sg_grad(y, &x, 1, &y);
        assert_value(y, &x, (double *[]){&at}, 1, &want[k], "x^4");
    }
    sg_graph_free(g);
}

/* Inner and outer: d/dx of |dL/dx|^2 mixes gradients of different depth in one graph. */
static void gradients_are_ordinary_values(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double at[2] = {0.3, -0.8}, want[2];
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), d, dd;
    sg_grad(sg_sum_all(sg_sin(x)), &x, 1, &d);
    sg_grad(sg_sum_all(sg_square(d)), &x, 1, &dd);
    for (int i = 0; i < 2; i++)
        want[i] = -2 * cos(at[i]) * sin(at[i]);
    assert_value(dd, &x, (double *[]){at}, 1, want, "d cos^2");
    sg_graph_free(g);
}

/* Matrix products that the values need. */
static int32_t live_products(sg_graph *g, const sg_value *v, int32_t n)
{
    int32_t ids[8], count = 0;
    bool *live = test_calloc((size_t)sg_node_count(g), sizeof *live);
    for (int32_t i = 0; i < n; i++)
        ids[i] = v[i].id;
    sg_graph_reach(g, ids, n, false, live);
    for (int32_t i = 0; i < sg_node_count(g); i++)
        count += live[i] && strcmp(sg_node_at(g, i)->op->name, "matmul") == 0;
    test_free(live);
    return count;
}

/* The floor of the exact product with the Hessian in all weights: a layer z = a W' costs 3 products for the gradient
 * (z, da, dW) and 8 for H v (z, da, and two each for the tangents of z, da and dW); the first layer, whose input
 * stands still, 2 and 3. */
static void hessian_products_cost_the_floor(void **state)
{
    (void)state;
    enum { LAYERS = 5 };
    sg_graph *g = sg_graph_new();
    sg_value w[LAYERS], v[LAYERS], d[LAYERS], hv[LAYERS], a = sg_input(g, "x", SG_F32, SG_SHAPE(8, 4));
    for (int l = 0; l < LAYERS; l++) {
        char name[8] = {'w', (char)('0' + l)};
        w[l] = sg_input(g, name, SG_F32, SG_SHAPE(4, 4));
        name[0] = 'v';
        v[l] = sg_input(g, name, SG_F32, SG_SHAPE(4, 4));
        a = sg_softplus(sg_matmul_nt(a, w[l]));
    }
    sg_value loss = sg_mean_all(a);
    sg_grad(loss, w, LAYERS, d);
    assert_sound(g);
    assert_int_equal(live_products(g, d, LAYERS), 3 * (LAYERS - 1) + 2);
    for (int m = 0; m < 2; m++) {
        sg_hvp(loss, w, v, LAYERS, hv, modes[m]);
        assert_sound(g);
        print_message("products of H v, mode %d: %d\n", m, (int)live_products(g, hv, LAYERS));
        assert_int_equal(live_products(g, hv, LAYERS), 8 * (LAYERS - 1) + 3);
    }
    sg_graph_free(g);
}

/* ---------------------------------------------------------------------------------------------------- forward mode */

static void jvp_pushes_several_inputs(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double a = 2, b = 3, da = 0.5, db = -1, want[3] = {0.5 * 3 - 2, 0.5, 0};
    sg_value in[4] = {sg_input(g, "a", SG_F32, sg_shape_scalar()), sg_input(g, "b", SG_F32, sg_shape_scalar()),
                      sg_input(g, "da", SG_F32, sg_shape_scalar()), sg_input(g, "db", SG_F32, sg_shape_scalar())};
    sg_value y[3] = {sg_mul(in[0], in[1]), sg_add_scalar(in[0], 7), sg_exp(in[2])}, dy[3];
    sg_jvp(y, 3, in, in + 2, 2, dy);
    double *feed[4] = {&a, &b, &da, &db};
    for (int k = 0; k < 3; k++)
        assert_value(dy[k], in, feed, 4, &want[k], "jvp");
    sg_graph_free(g);
}

/* The tangent of an x in the middle is its own direction plus what reaches it: the transpose of what sg_vjp answers. */
static void jvp_of_dependent_inputs_is_the_adjoint(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double at = 1.2, u = 0.7, w = -0.4, forward, reverse;
    sg_value x = sg_input(g, "x", SG_F32, sg_shape_scalar()), m = sg_exp(x), xs[2] = {x, m};
    sg_value dx[2] = {sg_scalar(g, u), sg_scalar(g, w)}, y = sg_mul(sg_sin(m), x), dy, d[2];
    sg_jvp(&y, 1, xs, dx, 2, &dy);
    sg_grad(y, xs, 2, d);
    sg_value sum = sg_add(sg_mul(d[0], dx[0]), sg_mul(d[1], dx[1]));
    assert_sound(g);
    graph_eval(g, &x, (double *[]){&at}, 1, (sg_value[]){dy, sum}, (double *[]){&forward, &reverse}, 2);
    assert_tensor_close(&forward, &reverse, 1, 1e-13, 1e-13, "adjoint");
    sg_graph_free(g);
}

static void a_nested_jvp_is_a_second_derivative(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double at = 0.4, want = -sin(0.4);
    sg_value x = sg_input(g, "x", SG_F32, sg_shape_scalar()), one = sg_scalar(g, 1), y = sg_sin(x), d, dd;
    sg_jvp(&y, 1, &x, &one, 1, &d);
    sg_jvp(&d, 1, &x, &one, 1, &dd);
    assert_value(dd, &x, (double *[]){&at}, 1, &want, "sin''");
    sg_graph_free(g);
}

/* ------------------------------------------------------------------------------- operators made for these tests */

static sg_status same_shape(const sg_infer_args *a)
{
    for (int32_t j = 0; j < a->n_out; j++) {
        a->out_shape[j] = a->in_shape[0];
        a->out_dtype[j] = a->in_dtype[0];
    }
    return SG_OK;
}

/* pair(a, b) = (a b, a) with no rules of its own: everything comes from the decomposition, whose second output is an
 * input. */
static void pair_decompose(const sg_decompose_args *a)
{
    a->out[0] = sg_mul(a->in[0], a->in[1]);
    a->out[1] = a->in[0];
}

static void pair_eval(const sg_eval_args *a)
{
    for (int64_t i = 0; i < sg_shape_count(a->out[0].shape); i++) {
        a->out[0].data[i] = a->in[0].data[i] * a->in[1].data[i];
        a->out[1].data[i] = a->in[0].data[i];
    }
}

static const sg_op pair = {.name = "pair",
                           .n_in = 2,
                           .n_out = 2,
                           .flags = SG_OP_COMPOSITE,
                           .infer = same_shape,
                           .decompose = pair_decompose,
                           .eval = pair_eval};

/* (x^2 + 2 x)' = 2 x + 2: the input given twice counts once in each place, and both outputs flow back. */
static void composites_follow_their_decomposition(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double at[2] = {3, -1}, want[2] = {2 * 3 + 2, 0}, second[2] = {2, 2}, t_at[2] = {1, 0.5}, tangent[2] = {8, 0};
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), t = sg_input(g, "t", SG_F32, SG_SHAPE(2)), d, dd, dy;
    sg_value p = sg_build(g, &pair, (sg_value[]){x, x}, 2, NULL);
    sg_value y = sg_add(p, sg_mul_scalar(sg_output_of(p, 1), 2));
    sg_grad(sg_sum_all(y), &x, 1, &d);
    sg_grad(sg_sum_all(d), &x, 1, &dd);
    sg_jvp(&y, 1, &x, &t, 1, &dy);
    assert_value(d, &x, (double *[]){at}, 1, want, "first");
    assert_value(dd, &x, (double *[]){at}, 1, second, "second");
    assert_value(dy, (sg_value[]){x, t}, (double *[]){at, t_at}, 2, tangent, "forward");
    sg_graph_free(g);
}

/* Inputs of a composite that depend on one another: pair(x, e^x) -> x e^x + x. */
static void composite_inputs_may_be_related(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double at = 0.7, one = 1, want = exp(0.7) * 1.7 + 1;
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(1)), d, dy;
    sg_value p = sg_build(g, &pair, (sg_value[]){x, sg_exp(x)}, 2, NULL), y = sg_add(p, sg_output_of(p, 1));
    sg_grad(sg_sum_all(y), &x, 1, &d);
    sg_value t = sg_constant(g, SG_F32, SG_SHAPE(1), &one, 1);
    sg_jvp(&y, 1, &x, &t, 1, &dy);
    assert_value(d, &x, (double *[]){&at}, 1, &want, "reverse");
    assert_value(dy, &x, (double *[]){&at}, 1, &want, "forward");
    sg_graph_free(g);
}

/* Not elementwise, not linear, no jvp: y = x (x . x), whose forward rule has to come from transposing the reverse rule
 * g -> g (x . x) + 2 x (x . g). It uses zeros of the output's shape on purpose. */
static void cubic_vjp(const sg_vjp_args *a)
{
    sg_value x = a->in[0], g = sg_add(a->gout[0], sg_zeros_like(a->out[0]));
    sg_value xx = sg_sum_all(sg_square(x)), xg = sg_sum_all(sg_mul(x, g));
    a->gin[0] = sg_add(sg_mul(g, xx), sg_mul(sg_mul_scalar(x, 2), xg));
}

static void cubic_eval(const sg_eval_args *a)
{
    double xx = 0;
    int64_t n = sg_shape_count(a->out[0].shape);
    for (int64_t i = 0; i < n; i++)
        xx += a->in[0].data[i] * a->in[0].data[i];
    for (int64_t i = 0; i < n; i++)
        a->out[0].data[i] = a->in[0].data[i] * xx;
}

static const sg_op cubic = {
    .name = "cubic", .n_in = 1, .n_out = 1, .infer = same_shape, .vjp = cubic_vjp, .eval = cubic_eval};

static void forward_rules_come_from_the_transpose(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double at[3] = {1, 2, -1}, t_at[3] = {0.5, 1, 3}, xx = 6, xt = -0.5, want[3];
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(3)), t = sg_input(g, "t", SG_F32, SG_SHAPE(3)), dy;
    sg_value y = sg_build(g, &cubic, &x, 1, NULL);
    sg_jvp(&y, 1, &x, &t, 1, &dy);
    for (int i = 0; i < 3; i++)
        want[i] = t_at[i] * xx + 2 * at[i] * xt;
    assert_value(dy, (sg_value[]){x, t}, (double *[]){at, t_at}, 2, want, "J t");

    sg_result(g, "dy", dy);
    bool *live = test_calloc((size_t)sg_node_count(g), sizeof *live);
    sg_graph_reach(g, &dy.id, 1, false, live);
    for (int32_t i = 0; i < sg_node_count(g); i++)
        if (live[i])
            assert_string_not_equal(sg_node_at(g, i)->op->name, "fill_like");
    test_free(live);
    sg_graph_free(g);
}

/* --------------------------------------------------------------------------------------------------- the checker */

static sg_gradcheck_result check(sg_value loss, const sg_value *x, double *const *at, int32_t n, int32_t order)
{
    sg_gradcheck_options options = {.size = sizeof options, .order = order, .seed = 3};
    sg_gradcheck_result result;
    sg_error err = {0};
    if (sg_gradcheck(loss, x, at, n, &reference_evaluator, &options, &result, &err) != SG_OK)
        fail_msg("%s", err.text);
    return result;
}

static void gradcheck_passes_a_net(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double x_at[6], w_at[12], v_at[4];
    for (int i = 0; i < 12; i++)
        w_at[i] = test_uniform(1, i) - 0.5;
    for (int i = 0; i < 6; i++)
        x_at[i] = test_uniform(2, i);
    for (int i = 0; i < 4; i++)
        v_at[i] = test_uniform(3, i) - 0.5;
    sg_value in[3] = {sg_input(g, "x", SG_F32, SG_SHAPE(2, 3)), sg_input(g, "w", SG_F32, SG_SHAPE(4, 3)),
                      sg_input(g, "v", SG_F32, SG_SHAPE(4))};
    sg_value h = sg_softmax(sg_gelu(sg_matmul_nt(in[0], in[1])), -1);
    sg_value loss = sg_mean_all(sg_log(sg_add_scalar(sg_square(sg_matmul(h, in[2])), 1)));
    sg_gradcheck_result r = check(loss, in, (double *[]){x_at, w_at, v_at}, 3, 3);
    if (!r.passed)
        fail_msg("%s", r.where);
    for (int k = 0; k < 4; k++)
        assert_true(r.worst[k] < 1e-8);
    sg_graph_free(g);
}

/* x^2 with a derivative that is wrong by one part in 10^5. */
static void wrong_vjp(const sg_vjp_args *a) { a->gin[0] = sg_mul(a->gout[0], sg_mul_scalar(a->in[0], 2.00002)); }

static void square_eval(const sg_eval_args *a)
{
    for (int64_t i = 0; i < sg_shape_count(a->out[0].shape); i++)
        a->out[0].data[i] = a->in[0].data[i] * a->in[0].data[i];
}

static const sg_op wrong = {.name = "wrong",
                            .n_in = 1,
                            .n_out = 1,
                            .flags = SG_OP_ELEMENTWISE,
                            .infer = same_shape,
                            .vjp = wrong_vjp,
                            .eval = square_eval};

static void gradcheck_finds_a_wrong_rule(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double at[2] = {1, -2}, ok[2] = {3, 4};
    sg_value in[2] = {sg_input(g, "fine", SG_F32, SG_SHAPE(2)), sg_input(g, "bad", SG_F32, SG_SHAPE(2))};
    sg_value loss = sg_sum_all(sg_mul(sg_exp(in[0]), sg_build(g, &wrong, &in[1], 1, NULL)));
    sg_gradcheck_result r = check(loss, in, (double *[]){ok, at}, 2, 1);
    assert_false(r.passed);
    assert_true(r.worst[1] > 1e-6 && r.worst[1] < 1e-4);
    assert_non_null(strstr(r.where, "order 1, input 1 'bad'"));
    sg_graph_free(g);
}

/* A right first derivative whose rule hides from the second: the gradient is treated as a constant. */
static void flat_vjp(const sg_vjp_args *a)
{
    a->gin[0] = sg_mul(a->gout[0], sg_stop_gradient(sg_mul_scalar(a->in[0], 2)));
}

static const sg_op flat = {.name = "flat",
                           .n_in = 1,
                           .n_out = 1,
                           .flags = SG_OP_ELEMENTWISE,
                           .infer = same_shape,
                           .vjp = flat_vjp,
                           .eval = square_eval};

static void gradcheck_finds_a_wrong_second_order(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double at[2] = {1, -2};
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2));
    sg_value loss = sg_sum_all(sg_build(g, &flat, &x, 1, NULL));
    sg_gradcheck_result r = check(loss, &x, (double *[]){at}, 1, 2);
    assert_false(r.passed);
    assert_true(r.worst[1] < 1e-7 && r.worst[2] > 0.01);
    assert_non_null(strstr(r.where, "order 2, input 0 'x'"));
    sg_graph_free(g);
}

/* Forward and reverse rules that do not belong together. */
static void wrong_jvp(const sg_jvp_args *a) { a->tout[0] = sg_mul(a->tin[0], sg_mul_scalar(a->in[0], 3)); }

static void right_vjp(const sg_vjp_args *a) { a->gin[0] = sg_mul(a->gout[0], sg_mul_scalar(a->in[0], 2)); }

static const sg_op torn = {.name = "torn",
                           .n_in = 1,
                           .n_out = 1,
                           .infer = same_shape,
                           .vjp = right_vjp,
                           .jvp = wrong_jvp,
                           .eval = square_eval};

static void gradcheck_finds_torn_rules(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double at[2] = {1, -2};
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2));
    sg_gradcheck_result r = check(sg_sum_all(sg_build(g, &torn, &x, 1, NULL)), &x, (double *[]){at}, 1, 1);
    assert_false(r.passed);
    assert_true(r.worst[0] > 0.01 && r.worst[1] < 1e-7);
    assert_non_null(strstr(r.where, "adjointness"));
    sg_graph_free(g);
}

/* Derivatives and differences are NaN alike. */
static void gradcheck_fails_where_nothing_is_defined(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double at[2] = {-1, 2};
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), loss = sg_sum_all(sg_log(x));
    sg_gradcheck_result r = check(loss, &x, (double *[]){at}, 1, 1);
    assert_false(r.passed);
    assert_non_null(strstr(r.where, "nan"));
    at[0] = 1;
    assert_true(check(loss, &x, (double *[]){at}, 1, 1).passed);
    sg_graph_free(g);
}

static void gradcheck_refuses_bad_arguments(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double at[2] = {1, -2};
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), i = sg_input(g, "i", SG_I32, SG_SHAPE(2));
    sg_value loss = sg_sum_all(x);
    sg_gradcheck_options options = {.size = sizeof options, .order = 4};
    sg_gradcheck_result r;
    sg_error err = {0};
    double *feed[1] = {at};
    assert_int_equal(sg_gradcheck(SG_NONE, &x, feed, 1, &reference_evaluator, NULL, &r, &err), SG_E_ARGUMENT);
    assert_int_equal(sg_gradcheck(x, &x, feed, 1, &reference_evaluator, NULL, &r, &err), SG_E_ARGUMENT);
    assert_int_equal(sg_gradcheck(loss, &i, feed, 1, &reference_evaluator, NULL, &r, &err), SG_E_DTYPE);
    assert_int_equal(sg_gradcheck(loss, &x, feed, 1, &reference_evaluator, &options, &r, &err), SG_E_ARGUMENT);
    assert_false(r.passed);
    sg_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hessian_of_a_quadratic),
        cmocka_unit_test(hessian_blocks),
        cmocka_unit_test(linear_nets_have_zero_curvature),
        cmocka_unit_test(derivatives_of_any_order),
        cmocka_unit_test(gradients_are_ordinary_values),
        cmocka_unit_test(hessian_products_cost_the_floor),
        cmocka_unit_test(jvp_pushes_several_inputs),
        cmocka_unit_test(jvp_of_dependent_inputs_is_the_adjoint),
        cmocka_unit_test(a_nested_jvp_is_a_second_derivative),
        cmocka_unit_test(composites_follow_their_decomposition),
        cmocka_unit_test(composite_inputs_may_be_related),
        cmocka_unit_test(forward_rules_come_from_the_transpose),
        cmocka_unit_test(gradcheck_passes_a_net),
        cmocka_unit_test(gradcheck_finds_a_wrong_rule),
        cmocka_unit_test(gradcheck_finds_a_wrong_second_order),
        cmocka_unit_test(gradcheck_finds_torn_rules),
        cmocka_unit_test(gradcheck_fails_where_nothing_is_defined),
        cmocka_unit_test(gradcheck_refuses_bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
