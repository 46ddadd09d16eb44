/* Reductions, shape operators, indexing and products: conventions, names of dimensions, what is refused, what is not
 * built. */
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

static void assert_value(sg_value y, const double *want, int64_t n, const char *name)
{
    double got[64], *out = got;
    sg_error err = {0};
    if (sg_graph_status(y.graph, &err) != SG_OK)
        fail_msg("%s: %s", name, err.text);
    assert_true(n <= 64);
    assert_int_equal(sg_shape_count(sg_shape_of(y)), n);
    graph_eval(y.graph, NULL, NULL, 0, &y, &out, 1);
    assert_tensor_close(got, want, n, 1e-14, 1e-14, name);
}
#define ASSERT_VALUE(y, ...)                                                                                           \
    assert_value(y, (double[]){__VA_ARGS__}, (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), #y)

static sg_value reals(sg_graph *graph, sg_shape shape, const double *data)
{
    return sg_constant(graph, SG_F64, shape, data, sg_shape_count(&shape));
}
#define REALS(graph, shape, ...) reals(graph, shape, (double[]){__VA_ARGS__})

static sg_value integers(sg_graph *graph, sg_shape shape, const double *data)
{
    return sg_constant(graph, SG_I32, shape, data, sg_shape_count(&shape));
}
#define INTEGERS(graph, shape, ...) integers(graph, shape, (double[]){__VA_ARGS__})

/* ---- reductions */

static void ties_share_and_nan_propagates(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value x = REALS(graph, SG_SHAPE(3, 3), 2, 2, 1, NAN, 5, 5, -INFINITY, -INFINITY, -INFINITY), g, h;
    ASSERT_VALUE(sg_max(x, 1, false), 2, NAN, -INFINITY);
    ASSERT_VALUE(sg_min(x, 1, true), 1, NAN, -INFINITY);
    ASSERT_VALUE(sg_argmax(x, 1), 0, 0, 0);
    sg_value row = REALS(graph, SG_SHAPE(3), 2, 2, 1);
    sg_grad(sg_square(sg_max(row, 0, false)), &row, 1, &g);
    ASSERT_VALUE(g, 2, 2, 0);
    sg_value ones = sg_ones_like(row);
    sg_hvp(sg_max(row, 0, false), &row, &ones, 1, &h, SG_HVP_FORWARD_OVER_REVERSE);
    ASSERT_VALUE(h, 0, 0, 0);
    sg_graph_free(graph);
}

static void logsumexp_of_minus_infinity(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value x = REALS(graph, SG_SHAPE(2, 2), -INFINITY, -INFINITY, 2, 2), g;
    sg_value y = sg_logsumexp(x, -1, false), seed = REALS(graph, SG_SHAPE(2), 1, 1);
    ASSERT_VALUE(y, -INFINITY, 2 + log(2));
    ASSERT_VALUE(sg_logsumexp(REALS(graph, SG_SHAPE(2), 1000, 1000), 0, false), 1000 + log(2));
    sg_vjp(&y, &seed, 1, &x, 1, &g);
    ASSERT_VALUE(g, 0, 0, 0.5, 0.5);
    ASSERT_VALUE(sg_logsumexp(REALS(graph, SG_SHAPE(2), INFINITY, 0), 0, false), INFINITY);
    sg_graph_free(graph);
}

/* With two zeros the gradient vanishes, but the second derivative between the zeros is the product of the others: h,
 * the row of x_1 = 0 in the Hessian, has h_i = product of all but x_1 and x_i, a polynomial like any other. */
static void product_at_zeros(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value x = REALS(graph, SG_SHAPE(5), 2, 0, 3, 0, 5), v = REALS(graph, SG_SHAPE(5), 0, 1, 0, 0, 0), g, h, third;
    sg_value w = REALS(graph, SG_SHAPE(5), 1, 0, 0, 0, 0);
    sg_value y = sg_prod(x, 0, false);
    sg_grad(y, &x, 1, &g);
    ASSERT_VALUE(g, 0, 0, 0, 0, 0);
    sg_hvp(y, &x, &v, 1, &h, SG_HVP_REVERSE_OVER_REVERSE);
    ASSERT_VALUE(h, 0, 0, 0, 30, 0);
    sg_grad(sg_sum_all(sg_mul(h, w)), &x, 1, &third);
    ASSERT_VALUE(third, 0, 0, 0, 15, 0);
    sg_grad(sg_sum_all(h), &x, 1, &third);
    ASSERT_VALUE(third, 15, 0, 10, 31, 6);
    sg_graph_free(graph);
}

static void empty_axes(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value x = sg_input(graph, "x", SG_F64, SG_SHAPE(2, 0)), feed_free = sg_zeros_like(x);
    ASSERT_VALUE(sg_sum(feed_free, 1), 0, 0);
    ASSERT_VALUE(sg_prod(feed_free, 1, false), 1, 1);
    ASSERT_VALUE(sg_mean(feed_free, 1), NAN, NAN);
    ASSERT_VALUE(sg_logsumexp(feed_free, 1, false), -INFINITY, -INFINITY);
    assert_true(sg_is_none(sg_max(x, 1, false)));
    assert_int_equal(sg_graph_status(graph, NULL), SG_E_SHAPE);
    sg_graph_free(graph);
}

static void reversed_cumsum_is_the_derivative(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value x = REALS(graph, SG_SHAPE(3), 1, 2, 4), seed = REALS(graph, SG_SHAPE(3), 1, 10, 100), g;
    sg_value y = sg_cumsum(x, 0);
    ASSERT_VALUE(y, 1, 3, 7);
    sg_vjp(&y, &seed, 1, &x, 1, &g);
    ASSERT_VALUE(g, 111, 110, 100);
    sg_graph_free(graph);
}

/* ---- shapes */

static void assert_shape(sg_value v, const char *want)
{
    char text[SG_SHAPE_TEXT];
    assert_string_equal(sg_shape_format(sg_shape_of(v), text, sizeof text), want);
}

static void names_of_dimensions_are_carried(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_shape shape = sg_shape_named(sg_shape_named(SG_SHAPE(4, 5, 3), 0, "batch"), 1, "tokens");
    sg_value x = sg_input(graph, "x", SG_F32, shape), w = sg_input(graph, "w", SG_F32, SG_SHAPE(3, 2));
    sg_value index = sg_input(graph, "i", SG_I32, sg_shape_named(SG_SHAPE(4), 0, "batch"));
    assert_shape(sg_sum(x, 0), "[tokens=5, 3]");
    assert_shape(sg_max(x, 1, true), "[batch=4, 1, 3]");
    assert_shape(sg_transpose(x, SG_AXES(1, 2, 0)), "[tokens=5, 3, batch=4]");
    assert_shape(sg_matmul(x, w), "[batch=4, tokens=5, 2]");
    assert_shape(sg_matmul_nt(x, x), "[batch=4, tokens=5, tokens=5]");
    assert_shape(sg_expand_dims(x, 0), "[1, batch=4, tokens=5, 3]");
    assert_shape(sg_reshape(x, SG_SHAPE(0, 0, 3, 1)), "[batch=4, tokens=5, 3, 1]");
    assert_shape(sg_reshape(x, SG_SHAPE(4, 15)), "[batch=4, 15]");
    assert_shape(sg_tile_axis(x, 1, 7), "[batch=4, 7, tokens=5, 3]");
    assert_shape(sg_slice(x, 2, 0, 2), "[batch=4, tokens=5, 2]");
    assert_shape(sg_concat((sg_value[]){x, x}, 2, 2), "[batch=4, tokens=5, 6]");
    assert_shape(sg_concat((sg_value[]){x, x}, 2, 1), "[batch=4, 10, 3]");
    assert_shape(sg_gather(w, index), "[batch=4, 2]");
    assert_shape(sg_one_hot(index, 6), "[batch=4, 6]");
    assert_shape(sg_sum_all(x), "[]");
    assert_int_equal(sg_graph_status(graph, NULL), SG_OK);
    sg_graph_free(graph);
}

static void nothing_is_built_for_an_identity(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(2, 3));
    int32_t before = sg_node_count(graph);
    assert_true(sg_same(sg_reshape(x, SG_SHAPE(2, 3)), x));
    assert_true(sg_same(sg_transpose(x, SG_AXES(0, 1)), x));
    assert_true(sg_same(sg_slice(x, 1, 0, 3), x));
    assert_true(sg_same(sg_pad(x, 0, 0, 0), x));
    assert_true(sg_same(sg_concat(&x, 1, 0), x));
    assert_true(sg_same(sg_broadcast_like(x, x), x));
    assert_true(sg_same(sg_sum_like(x, x), x));
    assert_int_equal(sg_node_count(graph), before);
    sg_graph_free(graph);
}

/* ---- indexing and products */

static void repeated_rows_add_up(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value table = REALS(graph, SG_SHAPE(3, 1), 10, 20, 30), index = INTEGERS(graph, SG_SHAPE(3), 2, 0, 2);
    sg_value x = REALS(graph, SG_SHAPE(3, 1), 1, 2, 4), outside = INTEGERS(graph, SG_SHAPE(2), 1, 3);
    ASSERT_VALUE(sg_gather(table, index), 30, 10, 30);
    ASSERT_VALUE(sg_scatter_rows(x, index, table), 2, 0, 5);
    ASSERT_VALUE(sg_gather(table, outside), 20, NAN);
    ASSERT_VALUE(sg_one_hot(index, 3), 0, 0, 1, 1, 0, 0, 0, 0, 1);
    sg_graph_free(graph);
}

static int32_t count_ops(sg_graph *graph, const char *name)
{
    int32_t n = 0;
    for (int32_t i = 0; i < sg_node_count(graph); i++)
        n += strcmp(sg_node_at(graph, i)->op->name, name) == 0;
    return n;
}

/* A batch of rows times one matrix: three products, the weight's over all rows at once, and no transpose. */
static void product_derivatives_use_the_three_forms(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(7, 5, 4)), w = sg_input(graph, "w", SG_F32, SG_SHAPE(4, 3));
    sg_value wrt[] = {x, w}, g[2];
    sg_grad(sg_sum_all(sg_square(sg_matmul(x, w))), wrt, 2, g);
    assert_int_equal(sg_graph_status(graph, NULL), SG_OK);
    assert_int_equal(count_ops(graph, "matmul"), 3);
    assert_int_equal(count_ops(graph, "transpose"), 0);
    assert_int_equal(count_ops(graph, "sum_like"), 0);
    assert_true(sg_node_cost(graph, sg_node_of(g[1])).flops == 2.0 * 4 * 35 * 3);
    sg_graph_free(graph);
}

/* [[1, 0, 2], [0, 3, 0]] with capacity 5: what stands past the third entry is ignored, whatever it is. */
static sg_csr small_csr(sg_graph *graph)
{
    return (sg_csr){REALS(graph, SG_SHAPE(5), 1, 2, 3, NAN, 7),  INTEGERS(graph, SG_SHAPE(5), 0, 2, 1, 9, -1),
                    INTEGERS(graph, SG_SHAPE(3), 0, 2, 3),       INTEGERS(graph, SG_SHAPE(5), 0, 1, 0, 8, 8),
                    INTEGERS(graph, SG_SHAPE(5), 0, 2, 1, 8, 8), INTEGERS(graph, SG_SHAPE(4), 0, 1, 2, 3)};
}

static void sparse_products(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_csr x = small_csr(graph);
    sg_value w = REALS(graph, SG_SHAPE(3, 2), 1, 2, 3, 4, 5, 6), g = REALS(graph, SG_SHAPE(2, 2), 1, 10, 100, 1000);
    sg_value wrt[] = {x.values, w}, grad[2];
    sg_value y = sg_csr_matmul(x, w);
    ASSERT_VALUE(y, 11, 14, 9, 12);
    ASSERT_VALUE(sg_csr_t_matmul(x, g), 1, 10, 300, 3000, 2, 20);
    ASSERT_VALUE(sg_csr_sddmm(x, g, w), 21, 65, 4300, 0, 0);
    sg_vjp(&y, &g, 1, wrt, 2, grad);
    ASSERT_VALUE(grad[0], 21, 65, 4300, 0, 0);
    ASSERT_VALUE(grad[1], 1, 10, 300, 3000, 2, 20);
    sg_graph_free(graph);
}

static void sparse_inputs(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_csr x = sg_csr_input(graph, "x", 4, 6, 10);
    sg_value y = sg_csr_matmul(x, sg_input(graph, "w", SG_F32, SG_SHAPE(6, 3)));
    assert_shape(y, "[4, 3]");
    assert_shape(sg_csr_t_matmul(x, y), "[6, 3]");
    assert_int_equal(sg_dtype_of(x.t_order), SG_I32);
    assert_string_equal(sg_node_of(x.t_indptr)->attr[0].s, "x.t_indptr");
    sg_graph_free(graph);
}

/* ---- refusals: the status, and one line that says something */

static void assert_refused(sg_value v, sg_graph *graph, sg_status status, const char *word)
{
    sg_error err = {0};
    assert_true(sg_is_none(v));
    assert_int_equal(sg_graph_status(graph, &err), status);
    if (!strstr(err.text, word))
        fail_msg("'%s' does not mention '%s'", err.text, word);
    sg_graph_free(graph);
}

#define REFUSED(status, word, call)                                                                                    \
    do {                                                                                                               \
        sg_graph *graph = sg_graph_new();                                                                              \
        sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(2, 3)), i = sg_input(graph, "i", SG_I32, SG_SHAPE(4));      \
        (void)x, (void)i;                                                                                              \
        sg_value refused_ = call;                                                                                      \
        assert_refused(refused_, graph, status, word);                                                                 \
    } while (0)

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    REFUSED(SG_E_ARGUMENT, "axis 2", sg_sum(x, 2));
    REFUSED(SG_E_ARGUMENT, "twice", sg_sum_axes(x, SG_AXES(0, -2), false));
    REFUSED(SG_E_ARGUMENT, "-2 axes", sg_sum_axes(x, -2, NULL, false));
    REFUSED(SG_E_DTYPE, "i32", sg_sum(i, 0));
    REFUSED(SG_E_SHAPE, "[2, 3]", sg_reshape(x, SG_SHAPE(4, 2)));
    REFUSED(SG_E_SHAPE, "-1", sg_reshape(x, SG_SHAPE(-1, -1)));
    REFUSED(SG_E_ARGUMENT, "-5", sg_reshape(x, SG_SHAPE(-5, 2)));
    REFUSED(SG_E_SHAPE, "size 3", sg_squeeze(x, 1));
    REFUSED(SG_E_ARGUMENT, "permutation", sg_transpose(x, SG_AXES(0, 0)));
    REFUSED(SG_E_SHAPE, "does not broadcast", sg_broadcast_like(x, i));
    REFUSED(SG_E_SHAPE, "differ along axis 0", sg_concat((sg_value[]){x, sg_tile_axis(sg_sum(x, 0), 0, 4)}, 2, 1));
    REFUSED(SG_E_SHAPE, "[1, 4)", sg_slice(x, 1, 1, 4));
    REFUSED(SG_E_ARGUMENT, "-1 zeros", sg_pad(x, 1, -1, 0));
    REFUSED(SG_E_DTYPE, "i32", sg_gather(x, x));
    REFUSED(SG_E_SHAPE, "[4, 3]", sg_scatter_rows(x, i, x));
    REFUSED(SG_E_SHAPE, "inner sizes 3 and 2", sg_matmul(x, x));
    REFUSED(SG_E_SHAPE, "columns = 5", sg_csr_matmul(sg_csr_input(graph, "s", 2, 5, 9), x));
}

/* Who made a mistake called this builder, and not the operators that it is made of. */
static void assert_begins(sg_graph *graph, const char *begin)
{
    sg_error err = {0};
    assert_int_not_equal(sg_graph_status(graph, &err), SG_OK);
    if (strncmp(err.text, begin, strlen(begin)) != 0)
        fail_msg("'%s' does not begin with '%s'", err.text, begin);
    sg_graph_free(graph);
}

#define REFUSED_AS(begin, call)                                                                                        \
    do {                                                                                                               \
        sg_graph *graph = sg_graph_new();                                                                              \
        sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(2, 3)), i = sg_input(graph, "i", SG_I32, SG_SHAPE(2));      \
        (void)x, (void)i;                                                                                              \
        call;                                                                                                          \
        assert_begins(graph, begin);                                                                                   \
    } while (0)

static sg_lstm_weights square_lstm(sg_graph *graph, int64_t n)
{
    sg_value w = sg_input(graph, "w", SG_F32, SG_SHAPE(4 * n, n));
    return (sg_lstm_weights){.w_ih = w, .w_hh = w};
}

static void errors_begin_with_the_builder(void **state)
{
    (void)state;
    REFUSED_AS("segment_sum: -1 segments", sg_segment_sum(x, i, -1));
    REFUSED_AS("segment_sum: the segment ids must have", sg_segment_sum(x, sg_sum(x, 0), 3));
    REFUSED_AS("segment_sum: scatter_rows: input 1 must be i32", sg_segment_sum(x, sg_sum(x, 1), 3));
    REFUSED_AS("segment_mean: -1 segments", sg_segment_mean(x, i, -1));
    REFUSED_AS("segment_mean: tile_axis: ", sg_segment_mean(x, i, INT64_MAX / 2));
    REFUSED_AS("segment_max: -1 segments", sg_segment_max(x, i, -1));
    REFUSED_AS("segment_max: input 1 is no value", sg_segment_max(x, SG_NONE, 2));
    REFUSED_AS("scatter_add: scatter_rows: ", sg_scatter_add(x, i, i));
    REFUSED_AS("take: axis 2 does not exist", sg_take(x, i, 2));
    REFUSED_AS("pad_with: pad: -1 zeros", sg_pad_with(x, 0, -1, 0, 2));
    REFUSED_AS("einsum: mul: ", sg_einsum("ij,i->ij", (sg_value[]){x, i}, 2));
    REFUSED_AS("kl_bernoulli: ", sg_kl_bernoulli(x, i));
    REFUSED_AS("clip_factor: square: ", sg_clip_factor(&i, 1, 1, NULL));
    REFUSED_AS("bilstm: lstm: x must be", sg_bilstm(x, SG_NONE, square_lstm(graph, 3), square_lstm(graph, 3)));
    REFUSED_AS("sum: needs a real input", sg_sum(i, 0));
    REFUSED_AS("of one's own", sg_graph_fail(graph, SG_E_ARGUMENT, x, "of one's own"));
}

/* Where broadcasting would give a result of another shape, or none of the rule's. */
static void other_forms_are_refused(void **state)
{
    (void)state;
    REFUSED_AS("sgd: g is i32 [2] and must be f32 [2, 3]",
               sg_sgd((sg_sgd_state){x, x}, i, sg_scalar(graph, 1), 0, 0, false));
    REFUSED_AS("sgd: g is f32 [3] and must be f32 [2, 3]",
               sg_sgd((sg_sgd_state){x, x}, sg_sum(x, 0), sg_scalar(graph, 1), 0, 0, false));
    REFUSED_AS("sgd: lr is f32 [3] and must be f32 []", sg_sgd((sg_sgd_state){x, x}, x, sg_sum(x, 0), 0, 0, false));
    REFUSED_AS("sgd: u is f32 [3] and must be f32 [2, 3]",
               sg_sgd((sg_sgd_state){x, sg_sum(x, 0)}, x, sg_scalar(graph, 1), 0.9, 0, false));
    REFUSED_AS("amsgrad: v_max is f32 [3] and must be f32 [2, 3]",
               sg_amsgrad((sg_amsgrad_state){x, x, x, sg_sum(x, 0)}, x, sg_scalar(graph, 1), sg_scalar(graph, 1), 0.9,
                          0.99, 1e-8, 0, true));
    REFUSED_AS("amsgrad: t is f32 [1, 1] and must be f32 []",
               sg_amsgrad((sg_amsgrad_state){x, x, x, x}, x, sg_scalar(graph, 1),
                          sg_reshape(sg_sum_all(x), SG_SHAPE(1, 1)), 0.9, 0.99, 1e-8, 0, true));
    sg_lstm_weights w;
    REFUSED_AS("lstm: b_ih is f32 [] and must be f32 [12]",
               (w = square_lstm(graph, 3), w.b_ih = sg_scalar(graph, 1),
                sg_lstm(sg_input(graph, "y", SG_F32, SG_SHAPE(2, 4, 3)), SG_NONE, w, (sg_lstm_state){SG_NONE, SG_NONE},
                        false)));
    REFUSED_AS("lstm_cell: b_hh is f32 [3] and must be f32 [12]",
               (w = square_lstm(graph, 3), w.b_hh = sg_sum(x, 0), sg_lstm_cell(x, (sg_lstm_state){x, x}, w)));
    REFUSED_AS("crf_score: transitions is f32 [2, 3] and must be f32 [3, 3]",
               sg_crf_score((sg_crf){x, sg_sum(x, 0), sg_sum(x, 0)}, sg_expand_dims(x, 1),
                            sg_input(graph, "tags", SG_I32, SG_SHAPE(2, 1)), SG_NONE));
}

/* Operands in the order of the call, and those that are at odds. */
static void errors_tell_the_operands(void **state)
{
    (void)state;
    REFUSED_AS("add: shapes [5, 2] and [2, 3] of inputs 0 and 1 do not broadcast",
               sg_add(sg_input(graph, "y", SG_F32, SG_SHAPE(5, 2)), x));
    REFUSED_AS("add: shapes [2, 3] and [5, 2] of inputs 0 and 1 do not broadcast",
               sg_add(x, sg_input(graph, "y", SG_F32, SG_SHAPE(5, 2))));
    REFUSED_AS("where: shapes [2, 3] and [5, 2] of inputs 0 and 2 do not broadcast",
               sg_where(sg_equal(x, x), sg_scalar(graph, 1), sg_input(graph, "y", SG_F32, SG_SHAPE(5, 2))));
    REFUSED_AS("csr_matmul: the dense operand has shape [2, 3] and must have [columns = 6, N]",
               sg_csr_matmul(sg_csr_input(graph, "s", 4, 6, 10), x));
    sg_store *store = sg_store_new(SG_F32);
    REFUSED_AS("param: store entry 'W' of shape [-2, 3] is too large, or has a negative size",
               sg_param(sg_scope_root(graph, store), "W", SG_SHAPE(-2, 3), sg_init_zeros()));
    REFUSED_AS("param: a store entry in 'net' has no name",
               sg_param(sg_scope_sub(sg_scope_root(graph, store), "net"), "", SG_SHAPE(2), sg_init_zeros()));
    REFUSED_AS("uniform_like: input 0 is no value", sg_uniform_like(sg_scope_root(graph, store), SG_NONE));
    sg_store_free(store);
}

/* Forgotten, not failed: an error of its own, where it is used, not where the result is missed. */
static void missing_values_are_refused(void **state)
{
    (void)state;
    const sg_value left_out = {0}; /* of an initialiser */
    REFUSED(SG_E_ARGUMENT, "input 1 is no value", sg_add(x, SG_NONE));
    REFUSED(SG_E_ARGUMENT, "is no value", sg_add(x, left_out));
    REFUSED(SG_E_ARGUMENT, "is no value", sg_sgd((sg_sgd_state){.p = x}, x, sg_scalar(graph, 1), 0.9, 0, false).p);
    REFUSED(SG_E_ARGUMENT, "input 0 is no value", sg_matmul(SG_NONE, x));
    REFUSED(SG_E_ARGUMENT, "input 0 is no value", sg_concat((sg_value[]){SG_NONE, x}, 2, 0));
    REFUSED(SG_E_ARGUMENT, "input 1 is no value", sg_take(x, SG_NONE, 1));
    REFUSED(SG_E_ARGUMENT, "input 1 is no value", sg_segment_sum(x, SG_NONE, 3));
    REFUSED(SG_E_ARGUMENT, "input 1 is no value", sg_group_norm(x, 1, SG_NONE, SG_NONE, 1e-5));
}

static void overflowing_sizes_are_refused(void **state)
{
    (void)state;
    REFUSED(SG_E_SHAPE, "", sg_tile_axis(x, 0, INT64_MAX / 2));
    REFUSED(SG_E_SHAPE, "", sg_pad(x, 0, INT64_MAX, 1));
    REFUSED(SG_E_SHAPE, "", sg_one_hot(i, INT64_MAX));
    REFUSED(SG_E_SHAPE, "", sg_csr_input(graph, "s", INT64_MAX, 5, 9).values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ties_share_and_nan_propagates),
        cmocka_unit_test(logsumexp_of_minus_infinity),
        cmocka_unit_test(product_at_zeros),
        cmocka_unit_test(empty_axes),
        cmocka_unit_test(reversed_cumsum_is_the_derivative),
        cmocka_unit_test(names_of_dimensions_are_carried),
        cmocka_unit_test(nothing_is_built_for_an_identity),
        cmocka_unit_test(repeated_rows_add_up),
        cmocka_unit_test(product_derivatives_use_the_three_forms),
        cmocka_unit_test(sparse_products),
        cmocka_unit_test(sparse_inputs),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(errors_begin_with_the_builder),
        cmocka_unit_test(other_forms_are_refused),
        cmocka_unit_test(errors_tell_the_operands),
        cmocka_unit_test(missing_values_are_refused),
        cmocka_unit_test(overflowing_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
