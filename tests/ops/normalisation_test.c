/* The conventions of masked softmax and of normalisations, on every backend: masked elements and rows, constant rows, single
 * elements, empty rows, NaN in one row. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

#define TENSOR(dtype, shape, ...)                                                                                      \
    sg_constant(g, dtype, shape, (double[]){__VA_ARGS__}, (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)))

/* `n` expected elements of y on both backends. */
static void assert_on_both(sg_value y, const double *want, int64_t n, const char *name)
{
    static const char *const backends[] = {"reference", "cpu"};
    for (int b = 0; b < 2; b++) {
        double got[64] = {0}, *out[] = {got};
        sg_graph *g = y.graph;
        assert_true(n <= 64 && sg_shape_count(sg_shape_of(y)) == n);
        if (sg_result_count(g) == 0)
            sg_result(g, "y", y);
        assert_true(graph_run(g, NULL, backends[b], 1, NULL, NULL, 0, out));
        assert_tensor_close(got, want, n, 1e-6, 1e-6, name);
    }
    sg_graph_free(y.graph);
}
#define ASSERT_BOTH(y, ...)                                                                                            \
    assert_on_both(y, (double[]){__VA_ARGS__}, (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), #y)

/* Two elements kept beside a NaN and beside -inf; a row without any. */
static sg_value masked(sg_graph *g, sg_value *x)
{
    *x = TENSOR(SG_F32, SG_SHAPE(3, 3), NAN, 1, 1, 5, 6, 7, 0, -INFINITY, 0);
    return sg_masked_softmax(*x, TENSOR(SG_BOOL, SG_SHAPE(3, 3), 0, 1, 1, 0, 0, 0, 1, 0, 1), -1);
}

static void masked_softmax(void **state)
{
    (void)state;
    sg_value x, y = masked(sg_graph_new(), &x);
    ASSERT_BOTH(y, 0, 0.5, 0.5, 0, 0, 0, 0.5, 0, 0.5);
}

/* y (c - sum c y) = 0.5 (c - mean of the kept c) */
static void masked_softmax_gradient(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x, y = masked(g, &x), gx, seed = TENSOR(SG_F32, SG_SHAPE(3, 3), 9, 1, 3, 4, 5, 6, 2, 7, 4);
    sg_vjp(&y, &seed, 1, &x, 1, &gx);
    ASSERT_BOTH(gx, 0, -0.5, 0.5, 0, 0, 0, -0.5, 0, 0.5);
}

static void layer_norm_of_a_constant_row(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value beta = TENSOR(SG_F32, SG_SHAPE(3), 1, 2, 3), gamma = TENSOR(SG_F32, SG_SHAPE(3), 5, 6, 7);
    ASSERT_BOTH(sg_layer_norm(TENSOR(SG_F32, SG_SHAPE(1, 3), 4, 4, 4), gamma, beta, 1e-5), 1, 2, 3);
}

static void layer_norm_of_one_element(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = TENSOR(SG_F32, SG_SHAPE(2, 1), 4, -3), gx, seed = TENSOR(SG_F32, SG_SHAPE(2, 1), 1, 1);
    sg_value y = sg_layer_norm(x, TENSOR(SG_F32, SG_SHAPE(1), 5), TENSOR(SG_F32, SG_SHAPE(1), 2), 1e-5);
    sg_vjp(&y, &seed, 1, &x, 1, &gx);
    ASSERT_BOTH(sg_concat((sg_value[]){y, gx}, 2, 0), 2, 2, 0, 0);
}

static void layer_norm_keeps_nan_in_its_row(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = TENSOR(SG_F32, SG_SHAPE(2, 2), 1, NAN, 1, 3);
    ASSERT_BOTH(sg_layer_norm(x, SG_NONE, SG_NONE, 0), NAN, NAN, -1, 1);
}

static void layer_norm_of_empty_rows(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_constant(g, SG_F32, SG_SHAPE(2, 0), NULL, 0);
    ASSERT_BOTH(sg_output_of(sg_layer_norm(x, SG_NONE, SG_NONE, 1e-5), 1), NAN, NAN);
}

static void batch_norm_of_one_element(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value gamma = TENSOR(SG_F32, SG_SHAPE(2), 3, 3), beta = TENSOR(SG_F32, SG_SHAPE(2), 1, 2);
    sg_value mean = TENSOR(SG_F32, SG_SHAPE(2), 0, 10), variance = TENSOR(SG_F32, SG_SHAPE(2), 1, 4);
    sg_batch_norm_result r =
        sg_batch_norm(TENSOR(SG_F32, SG_SHAPE(1, 2), 4, 5), gamma, beta, mean, variance, 0.25, 1e-5);
    sg_value parts[] = {sg_squeeze(r.y, 0), r.running_mean, r.running_variance};
    ASSERT_BOTH(sg_concat(parts, 3, 0), 1, 2, 1, 8.75, 0.75, 3);
}

static void shapes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        sg_graph *g = sg_graph_new();
        sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2, 4)), v = sg_input(g, "v", SG_F32, SG_SHAPE(3));
        sg_value four = sg_input(g, "w", SG_F32, SG_SHAPE(4));
        sg_value y = k == 0   ? sg_layer_norm(x, v, SG_NONE, 1e-5)
                     : k == 1 ? sg_rms_norm(x, v, 1e-5)
                     : k == 2 ? sg_group_norm(x, 3, four, four, 1e-5)
                              : sg_masked_softmax(x, sg_input(g, "m", SG_BOOL, SG_SHAPE(3, 2, 4)), -1);
        assert_true(sg_is_none(y));
        assert_int_equal(sg_graph_status(g, NULL), k == 2 ? SG_E_ARGUMENT : SG_E_SHAPE);
        sg_graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masked_softmax),
        cmocka_unit_test(masked_softmax_gradient),
        cmocka_unit_test(layer_norm_of_a_constant_row),
        cmocka_unit_test(layer_norm_of_one_element),
        cmocka_unit_test(layer_norm_keeps_nan_in_its_row),
        cmocka_unit_test(layer_norm_of_empty_rows),
        cmocka_unit_test(batch_norm_of_one_element),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
