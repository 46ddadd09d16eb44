/* The conventions of elementwise operators at kinks, ties, singular points and NaN: value, gradient and second
 * derivative, each with its right value. */
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

static sg_value leaky(sg_value x) { return sg_leaky_relu(x, 0.1); }
static sg_value elu(sg_value x) { return sg_elu(x, 2); }
static sg_value clip(sg_value x) { return sg_clip(x, -1, 1); }

typedef struct unary_row {
    const char *name;
    sg_value (*build)(sg_value);
    double x, value, first, second;
} unary_row;

static const unary_row unary_rows[] = {
    {"abs(0)", sg_abs, 0, 0, 0, 0},
    {"abs(-0)", sg_abs, -0.0, 0, 0, 0},
    {"abs(-2)", sg_abs, -2, 2, -1, 0},
    {"abs(nan)", sg_abs, NAN, NAN, NAN, 0},
    {"sign(0)", sg_sign, 0, 0, 0, 0},
    {"sign(-3)", sg_sign, -3, -1, 0, 0},
    {"sign(nan)", sg_sign, NAN, NAN, 0, 0},
    {"floor(-0.5)", sg_floor, -0.5, -1, 0, 0},
    {"floor(2)", sg_floor, 2, 2, 0, 0},
    {"relu(0)", sg_relu, 0, 0, 0, 0},
    {"relu(3)", sg_relu, 3, 3, 1, 0},
    {"relu(tiny)", sg_relu, 4.9e-324, 4.9e-324, 1, 0},
    {"relu(nan)", sg_relu, NAN, NAN, 0, 0},
    {"leaky_relu(0)", leaky, 0, 0, 0.1, 0},
    {"leaky_relu(-2)", leaky, -2, -0.2, 0.1, 0},
    {"elu(0)", elu, 0, 0, 2, 2},
    {"elu(1e4)", elu, 1e4, 1e4, 1, 0},
    {"elu(nan)", elu, NAN, NAN, NAN, NAN},
    {"clip(low)", clip, -1, -1, 1, 0},
    {"clip(high)", clip, 1, 1, 1, 0},
    {"clip(2)", clip, 2, 1, 0, 0},
    {"clip(nan)", clip, NAN, NAN, 0, 0},
    {"sqrt(0)", sg_sqrt, 0, 0, INFINITY, -INFINITY},
    {"log(0)", sg_log, 0, -INFINITY, INFINITY, -INFINITY},
    {"square(0)", sg_square, 0, 0, 0, 2},
    {"exp(-inf)", sg_exp, -INFINITY, 0, 0, 0},
    {"softplus(1000)", sg_softplus, 1000, 1000, 1, 0},
    {"softplus(-1000)", sg_softplus, -1000, 0, 0, 0},
    {"softplus(0)", sg_softplus, 0, M_LN2, 0.5, 0.25},
    {"softplus(nan)", sg_softplus, NAN, NAN, NAN, NAN},
    {"log_sigmoid(-1000)", sg_log_sigmoid, -1000, -1000, 1, 0},
    {"sigmoid(inf)", sg_sigmoid, INFINITY, 1, 0, 0},
    {"sigmoid(-inf)", sg_sigmoid, -INFINITY, 0, 0, 0},
    {"sigmoid(-700)", sg_sigmoid, -700, 9.8596765437597708e-305, 9.8596765437597708e-305, 9.8596765437597708e-305},
    {"tanh(30)", sg_tanh, 30, 1, 3.502604305078608e-26, -7.005208610157216e-26},
    {"tanh(nan)", sg_tanh, NAN, NAN, NAN, NAN},
    {"gelu(0)", sg_gelu, 0, 0, 0.5, 0.79788456080286541},
    {"gelu(-1e200)", sg_gelu, -1e200, 0, 0, 0},
    {"gelu(-inf)", sg_gelu, -INFINITY, 0, 0, 0},
    {"gelu(inf)", sg_gelu, INFINITY, INFINITY, 1, 0},
    {"gelu(nan)", sg_gelu, NAN, NAN, NAN, NAN},
    {"gelu_tanh(-inf)", sg_gelu_tanh, -INFINITY, 0, 0, 0},
    {"gelu_tanh(inf)", sg_gelu_tanh, INFINITY, INFINITY, 1, 0},
    {"gelu_tanh(0)", sg_gelu_tanh, 0, 0, 0.5, 0.79788456080286541},
    {"gelu_tanh(1e200)", sg_gelu_tanh, 1e200, 1e200, 1, 0},
    {"gelu_tanh(-1e200)", sg_gelu_tanh, -1e200, 0, 0, 0},
    {"erfc(20)", sg_erfc, 20, 5.3958656116079005e-176, -2.1610374743867984e-174, 8.6441498975471934e-173},
};

static void unary_conventions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof unary_rows / sizeof *unary_rows; i++) {
        const unary_row *row = &unary_rows[i];
        sg_graph *graph = sg_graph_new();
        sg_value x = sg_input(graph, "x", SG_F64, sg_shape_scalar()), y[3];
        y[0] = row->build(x);
        sg_grad(y[0], &x, 1, &y[1]);
        sg_grad(y[1], &x, 1, &y[2]);
        double at = row->x, got[3], *out[3] = {&got[0], &got[1], &got[2]};
        graph_eval(graph, &x, (double *[]){&at}, 1, y, out, 3);
        assert_tensor_close(got, ((double[]){row->value, row->first, row->second}), 3, 1e-12, 0, row->name);
        sg_graph_free(graph);
    }
}

typedef struct binary_row {
    const char *name;
    sg_value (*build)(sg_value, sg_value);
    double a, b, value, da, db, daa, dbb;
} binary_row;

static const binary_row binary_rows[] = {
    {"maximum tie", sg_maximum, 2, 2, 2, 0.5, 0.5, 0, 0},
    {"maximum(0, -0)", sg_maximum, 0, -0.0, 0, 0.5, 0.5, 0, 0},
    {"maximum(1, 3)", sg_maximum, 1, 3, 3, 0, 1, 0, 0},
    {"maximum(inf, inf)", sg_maximum, INFINITY, INFINITY, INFINITY, 0.5, 0.5, 0, 0},
    {"maximum(nan, 1)", sg_maximum, NAN, 1, NAN, 0, 0, 0, 0},
    {"maximum(1, nan)", sg_maximum, 1, NAN, NAN, 0, 0, 0, 0},
    {"minimum tie", sg_minimum, 2, 2, 2, 0.5, 0.5, 0, 0},
    {"minimum(1, 3)", sg_minimum, 1, 3, 1, 1, 0, 0, 0},
    {"minimum(1, nan)", sg_minimum, 1, NAN, NAN, 0, 0, 0, 0},
    {"0^0", sg_pow, 0, 0, 1, 0, 0, 0, 0},
    {"0^1", sg_pow, 0, 1, 0, 1, 0, 0, 0},
    {"0^2", sg_pow, 0, 2, 0, 0, 0, 2, 0},
    {"0^3", sg_pow, 0, 3, 0, 0, 0, 0, 0},
    {"0^0.5", sg_pow, 0, 0.5, 0, INFINITY, 0, -INFINITY, 0},
    {"3^0", sg_pow, 3, 0, 1, 0, 1.0986122886681098, 0, 1.2069489608125821},
    {"2^3", sg_pow, 2, 3, 8, 12, 5.5451774444795623, 12, 3.8436241113456115},
    {"0 log 0", sg_xlogy, 0, 0, 0, 0, 0, 0, 0},
    {"0 log nan", sg_xlogy, 0, NAN, NAN, NAN, NAN, 0, NAN},
    {"0 log inf", sg_xlogy, 0, INFINITY, 0, INFINITY, 0, 0, 0},
    {"2 log 0", sg_xlogy, 2, 0, -INFINITY, -INFINITY, INFINITY, 0, -INFINITY},
    {"0 log 4", sg_xlogy, 0, 4, 0, 1.3862943611198906, 0, 0, 0},
    {"bce(0, 1)", sg_bce_with_logits, 0, 1, M_LN2, -0.5, 0, 0.25, 0},
    {"bce(100, 1)", sg_bce_with_logits, 100, 1, 3.720075976020836e-44, -3.720075976020836e-44, -100,
     3.720075976020836e-44, 0},
    {"bce(-100, 1)", sg_bce_with_logits, -100, 1, 100, -1, 100, 3.720075976020836e-44, 0},
    {"bce(1000, 0)", sg_bce_with_logits, 1000, 0, 1000, 1, -1000, 0, 0},
};

static void binary_conventions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof binary_rows / sizeof *binary_rows; i++) {
        const binary_row *row = &binary_rows[i];
        sg_graph *graph = sg_graph_new();
        sg_value in[2] = {sg_input(graph, "a", SG_F64, sg_shape_scalar()),
                          sg_input(graph, "b", SG_F64, sg_shape_scalar())};
        sg_value y[5];
        y[0] = row->build(in[0], in[1]);
        sg_grad(y[0], in, 2, &y[1]);
        sg_grad(y[1], &in[0], 1, &y[3]);
        sg_grad(y[2], &in[1], 1, &y[4]);
        double a = row->a, b = row->b, got[5], *out[5];
        for (int k = 0; k < 5; k++)
            out[k] = &got[k];
        graph_eval(graph, in, (double *[]){&a, &b}, 2, y, out, 5);
        double want[5] = {row->value, row->da, row->db, row->daa, row->dbb};
        assert_tensor_close(got, want, 5, 1e-12, 0, row->name);
        sg_graph_free(graph);
    }
}

/* The untaken side may be infinite or NaN, in itself and in its derivative; none of it may reach the input. */
static void where_routes_exact_zeros(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value x = sg_input(graph, "x", SG_F64, SG_SHAPE(4)),
             zero = sg_constant(graph, SG_F64, sg_shape_scalar(), (double[]){0}, 1);
    sg_value y = sg_where(sg_greater(x, zero), sg_mul(x, x), zero), seed = sg_reciprocal(x), g[2];
    sg_vjp(&y, &seed, 1, &x, 1, &g[0]);
    sg_value safe = sg_where(sg_greater(x, zero), x, sg_add_scalar(zero, 1));
    sg_value loss = sg_sum_all(sg_where(sg_greater(x, zero), sg_log(safe), zero));
    sg_grad(loss, &x, 1, &g[1]);
    double at[4] = {-1, 0, 2, -4}, a[4], b[4];
    graph_eval(graph, &x, (double *[]){at}, 1, g, (double *[]){a, b}, 2);
    assert_tensor_close(a, ((double[]){0, 0, 2, 0}), 4, 0, 0, "cotangent 1/x");
    assert_tensor_close(b, ((double[]){0, 0, 0.5, 0}), 4, 0, 0, "guarded log");
    sg_graph_free(graph);
}

static void comparisons_and_logic(void **state)
{
    (void)state;
    sg_value (*const compare[])(sg_value, sg_value) = {sg_equal,      sg_not_equal, sg_less,
                                                       sg_less_equal, sg_greater,   sg_greater_equal};
    const double want[6][4] = {{0, 1, 0, 0}, {1, 0, 1, 1}, {1, 0, 0, 0}, {1, 1, 0, 0}, {0, 0, 1, 0}, {0, 1, 1, 0}};
    for (int d = 0; d < 2; d++) {
        int n = d ? 3 : 4; /* NaN is no integer */
        sg_graph *graph = sg_graph_new();
        sg_value in[2] = {sg_input(graph, "a", d ? SG_I32 : SG_F32, SG_SHAPE(n)),
                          sg_input(graph, "b", d ? SG_I32 : SG_F32, sg_shape_scalar())};
        double a[4] = {1, 2, 3, NAN}, b = 2, got[4];
        for (int k = 0; k < 6; k++) {
            sg_value y = compare[k](in[0], in[1]);
            assert_int_equal(sg_dtype_of(y), SG_BOOL);
            graph_eval(graph, in, (double *[]){a, &b}, 2, &y, (double *[]){got}, 1);
            assert_tensor_close(got, want[k], n, 0, 0, "comparison");
        }
        sg_graph_free(graph);
    }
    sg_graph *graph = sg_graph_new();
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(5)), zero = sg_scalar(graph, 0);
    sg_value finite = sg_is_finite(x), positive = sg_greater(x, zero);
    sg_value y[4] = {finite, sg_logical_and(finite, positive), sg_logical_or(finite, positive),
                     sg_logical_not(positive)};
    double at[5] = {NAN, INFINITY, -INFINITY, 1, -1}, got[4][5];
    graph_eval(graph, &x, (double *[]){at}, 1, y, (double *[]){got[0], got[1], got[2], got[3]}, 4);
    assert_tensor_close(got[0], ((double[]){0, 0, 0, 1, 1}), 5, 0, 0, "is_finite");
    assert_tensor_close(got[1], ((double[]){0, 0, 0, 1, 0}), 5, 0, 0, "and");
    assert_tensor_close(got[2], ((double[]){0, 1, 0, 1, 1}), 5, 0, 0, "or");
    assert_tensor_close(got[3], ((double[]){1, 0, 1, 0, 1}), 5, 0, 0, "not");
    sg_graph_free(graph);
}

static void casts(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(6)), g[2];
    sg_value y[3] = {sg_cast(x, SG_I32), sg_cast(x, SG_BOOL), sg_cast(sg_cast(x, SG_F64), SG_F32)};
    assert_true(sg_same(sg_cast(x, SG_F32), x));
    double at[6] = {-1.9, 1.9, 0, 1e20, -1e20, NAN}, got[3][6], dx[2][6];
    graph_eval(graph, &x, (double *[]){at}, 1, y, (double *[]){got[0], got[1], got[2]}, 3);
    assert_tensor_close(got[0], ((double[]){-1, 1, 0, 2147483647, -2147483648.0, 0}), 6, 0, 0, "to i32");
    assert_tensor_close(got[1], ((double[]){1, 1, 0, 1, 1, 1}), 6, 0, 0, "to bool");
    assert_tensor_close(got[2], at, 6, 0, 0, "to f64 and back");
    sg_grad(sg_sum_all(y[2]), &x, 1, &g[0]);
    sg_grad(sg_sum_all(sg_mul(sg_cast(y[0], SG_F32), sg_stop_gradient(x))), &x, 1, &g[1]);
    graph_eval(graph, &x, (double *[]){at}, 1, g, (double *[]){dx[0], dx[1]}, 2);
    assert_tensor_close(dx[0], ((double[]){1, 1, 1, 1, 1, 1}), 6, 0, 0, "gradient between reals");
    assert_tensor_close(dx[1], ((double[]){0, 0, 0, 0, 0, 0}), 6, 0, 0, "gradient through i32 and stop_gradient");
    sg_graph_free(graph);
}

static void assert_refused(sg_graph *graph, sg_value v, sg_status status, const char *text)
{
    sg_error err = {0};
    assert_true(sg_is_none(v));
    assert_int_equal(sg_graph_status(graph, &err), status);
    if (!strstr(err.text, text))
        fail_msg("'%s' does not say '%s'", err.text, text);
    sg_graph_free(graph);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    assert_refused(g, sg_add(sg_input(g, "x", SG_F32, SG_SHAPE(3)), sg_input(g, "y", SG_F32, SG_SHAPE(4))), SG_E_SHAPE,
                   "[3]");
    g = sg_graph_new();
    assert_refused(g, sg_mul(sg_input(g, "x", SG_F32, SG_SHAPE(3)), sg_input(g, "y", SG_F64, SG_SHAPE(3))), SG_E_DTYPE,
                   "f64");
    g = sg_graph_new();
    assert_refused(g, sg_exp(sg_input(g, "x", SG_I32, SG_SHAPE(3))), SG_E_DTYPE, "i32");
    g = sg_graph_new();
    assert_refused(g, sg_clip(sg_scalar(g, 0), 2, 1), SG_E_ARGUMENT, "interval");
    g = sg_graph_new();
    assert_refused(g, sg_softmax(sg_input(g, "x", SG_F32, SG_SHAPE(3)), 1), SG_E_ARGUMENT, "axis 1");
    g = sg_graph_new();
    assert_refused(g, sg_cast(sg_scalar(g, 0), (sg_dtype)77), SG_E_ARGUMENT, "77");
    g = sg_graph_new();
    sg_value z = sg_input(g, "z", SG_F32, SG_SHAPE(2, 3)), t = sg_input(g, "t", SG_I32, SG_SHAPE(3));
    assert_refused(g, sg_softmax_cross_entropy(z, t), SG_E_SHAPE, "[2, 3]");
    g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2));
    assert_refused(g, sg_where(x, x, x), SG_E_DTYPE, "bool");
    g = sg_graph_new();
    sg_value yes = sg_is_finite(sg_input(g, "x", SG_F32, SG_SHAPE(2)));
    assert_refused(g, sg_equal(yes, yes), SG_E_DTYPE, "real or i32");
}

static void errors_name_the_line_of_the_builder(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(3)), y = sg_input(graph, "y", SG_F32, SG_SHAPE(2));
    int line = __LINE__ + 1;
    sg_value bad = sg_tanh(sg_add(sg_exp(x), y));
    sg_error err = {0};
    assert_true(sg_is_none(bad));
    assert_int_equal(sg_graph_status(graph, &err), SG_E_SHAPE);
    assert_string_equal(err.op, "add");
    assert_int_equal(err.line, line);
    assert_non_null(strstr(err.file, "conventions_test.c"));
    sg_graph_free(graph);
}

static sg_value layer(sg_value x) { return sg_tanh(sg_exp(x)); }
/* With a graph of its own for a while. */
static sg_value aside(sg_value x)
{
    sg_graph *graph = sg_graph_new();
    sg_exp(sg_input(graph, "aside", SG_F32, SG_SHAPE(3)));
    sg_graph_free(graph);
    return x;
}

static sg_value forgotten(sg_value x) { return sg_tanh(x), SG_NONE; }

static void loop_body(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)user, (void)body;
    next[0] = sg_sum_all(layer(state[0]));
}

static void assert_place(sg_graph *graph, int line)
{
    sg_error err = {0};
    assert_int_not_equal(sg_graph_status(graph, &err), SG_OK);
    assert_non_null(strstr(err.file, "conventions_test.c"));
    assert_int_equal(err.line, line);
    sg_graph_free(graph);
}

/* A function of the model among the arguments, and a loop's body, have lines of their own and give the caller's back. */
static void places_nest(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(3)), y = sg_input(graph, "y", SG_F32, SG_SHAPE(2));
    sg_add(layer(x), y);
    assert_place(graph, __LINE__ - 1);

    graph = sg_graph_new();
    x = sg_input(graph, "x", SG_F32, SG_SHAPE(3));
    sg_add(aside(x), sg_input(graph, "y", SG_F32, SG_SHAPE(2)));
    assert_place(graph, __LINE__ - 1);

    graph = sg_graph_new();
    x = sg_input(graph, "x", SG_F32, SG_SHAPE(3));
    sg_result(graph, "y", forgotten(x));
    assert_place(graph, __LINE__ - 1);

    graph = sg_graph_new();
    x = sg_input(graph, "x", SG_F32, SG_SHAPE(3));
    sg_repeat(graph, 2, loop_body, NULL, &x, 1, &y, false); /* the state leaves an iteration with another shape */
    assert_place(graph, __LINE__ - 1);

    graph = sg_graph_new();
    sg_value deep = sg_input(graph, "x", SG_F32, SG_SHAPE(3));
    for (int k = 0; k < 100; k++) /* more than are remembered */
        sg_enter("outside.c", k, "outside");
    layer(deep);
    for (int k = 0; k < 100; k++)
        sg_leave();
    sg_add(layer(deep), sg_input(graph, "y", SG_F32, SG_SHAPE(2)));
    assert_place(graph, __LINE__ - 1);
}

static void registry(void **state)
{
    (void)state;
    assert_true(sg_op_count() > 60);
    for (int32_t i = 0; i < sg_op_count(); i++) {
        const sg_op *op = sg_op_at(i);
        assert_ptr_equal(sg_op_find(op->name), op);
        assert_non_null(op->summary);
        assert_true((op->flags & SG_OP_LEAF) || op->infer);
        assert_true(!(op->flags & SG_OP_COMPOSITE) || op->decompose);
        assert_true(op->eval || (op->flags & (SG_OP_LEAF | SG_OP_COMPOSITE)) || strcmp(op->name, "repeat") == 0);
    }
    assert_null(sg_op_find("no such op"));
    assert_null(sg_op_find(NULL));
    assert_null(sg_op_at(-1));
    assert_null(sg_op_at(sg_op_count()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_conventions),
        cmocka_unit_test(binary_conventions),
        cmocka_unit_test(where_routes_exact_zeros),
        cmocka_unit_test(comparisons_and_logic),
        cmocka_unit_test(casts),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(errors_name_the_line_of_the_builder),
        cmocka_unit_test(places_nest),
        cmocka_unit_test(registry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
