/* indexing_test.c - what selection and indexing answer at ties, NaN, empty segments and indices out of range; what einsum and
 * top_k refuse, and in which words. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

enum { MOST = 16 };

static const char *const names[] = {"x", "index"};

/* One graph over x, and index if it is I32 of the given shape; f builds the result. */
typedef sg_value (*build)(sg_value x, sg_value index);

static void expect(const char *what, build f, sg_shape shape, const double *x, sg_shape index_shape,
                   const double *index, const double *want, int32_t n)
{
    static const char *const backends[] = {"reference", "cpu"};
    for (int b = 0; b < 2; b++) {
        sg_graph *graph = sg_graph_new();
        sg_value in[2] = {sg_input(graph, "x", SG_F32, shape), sg_input(graph, "index", SG_I32, index_shape)};
        double got[MOST], *feed[2] = {(double *)(uintptr_t)x, (double *)(uintptr_t)index};
        sg_result(graph, "y", f(in[0], in[1]));
        assert_true(graph_run(graph, NULL, backends[b], 1, names, feed, 2, (double *[]){got}));
        assert_tensor_close(got, want, n, 0, 0, what);
        sg_graph_free(graph);
    }
}

#define NUMBERS(...) ((const double[]){__VA_ARGS__})
#define EXPECT(f, shape, x, index_shape, index, n, ...)                                                                \
    expect(#f, f, shape, x, index_shape, index, NUMBERS(__VA_ARGS__), n)

static sg_value argmin_of(sg_value x, sg_value index) { return (void)index, sg_argmin(x, -1); }

static sg_value top_places(sg_value x, sg_value index)
{
    sg_value places;
    (void)index;
    sg_top_k(x, 3, 0, &places);
    return places;
}

static sg_value top_gradient(sg_value x, sg_value index)
{
    sg_value g, top = sg_top_k(x, 2, 0, NULL);
    (void)index;
    sg_grad(sg_sum_all(sg_mul(top, top)), &x, 1, &g);
    return g;
}

static void selection(void **state)
{
    (void)state;
    EXPECT(argmin_of, SG_SHAPE(3, 3), NUMBERS(2, 1, 1, 0, NAN, NAN, -INFINITY, -INFINITY, 3), SG_SHAPE(1), NUMBERS(0),
           3, 1, 1, 0);
    EXPECT(top_places, SG_SHAPE(5), NUMBERS(1, 2, 2, 0, 2), SG_SHAPE(1), NUMBERS(0), 3, 1, 2, 4);
    EXPECT(top_places, SG_SHAPE(5), NUMBERS(1, NAN, INFINITY, NAN, 5), SG_SHAPE(1), NUMBERS(0), 3, 1, 3, 2);
    EXPECT(top_places, SG_SHAPE(3), NUMBERS(-0.0, 0, -INFINITY), SG_SHAPE(1), NUMBERS(0), 3, 0, 1, 2);
    EXPECT(top_gradient, SG_SHAPE(4), NUMBERS(3, 1, 3, 3), SG_SHAPE(1), NUMBERS(0), 4, 6, 0, 6, 0);
}

/* --------------------------------------------------------------------------------------------- rows and segments */

static sg_value taken(sg_value x, sg_value index) { return sg_take(x, index, 1); }

static sg_value segment_max(sg_value x, sg_value index) { return sg_segment_max(x, index, 3); }

static sg_value segment_mean(sg_value x, sg_value index) { return sg_segment_mean(x, index, 3); }

static sg_value segment_max_gradient(sg_value x, sg_value index)
{
    sg_value y = sg_segment_max(x, index, 3), seed = sg_add_scalar(sg_zeros_like(y), 6), g;
    sg_vjp(&y, &seed, 1, &x, 1, &g);
    return g;
}

static void segments(void **state)
{
    (void)state;
    EXPECT(taken, SG_SHAPE(2, 3), NUMBERS(1, 2, 3, 4, 5, 6), SG_SHAPE(2), NUMBERS(2, 0), 4, 3, 1, 6, 4);
    EXPECT(segment_max, SG_SHAPE(4), NUMBERS(1, 5, -2, 5), SG_SHAPE(4), NUMBERS(2, 0, 2, 0), 3, 5, -INFINITY, 1);
    EXPECT(segment_max, SG_SHAPE(3), NUMBERS(1, NAN, 2), SG_SHAPE(3), NUMBERS(0, 0, 1), 3, NAN, 2, -INFINITY);
    EXPECT(segment_mean, SG_SHAPE(4), NUMBERS(1, 5, -2, 4), SG_SHAPE(4), NUMBERS(2, 0, 2, 0), 3, 4.5, 0, -0.5);
    EXPECT(segment_max_gradient, SG_SHAPE(4), NUMBERS(1, 5, 5, 5), SG_SHAPE(4), NUMBERS(2, 0, 0, 0), 4, 6, 2, 2, 2);
}

static sg_value first_rows(sg_value x, sg_value index) { return sg_gather_elements(x, index, 0); }

static sg_value added(sg_value x, sg_value index) { return sg_scatter_elements(x, index, x, 0); }

/* An index out of range ends the run on both backends with a message that has the index and the range. */
static void out_of_range(void **state)
{
    (void)state;
    static const build builds[] = {first_rows, added, segment_max, taken};
    static const char *const backends[] = {"reference", "cpu"};
    double x[] = {1, 2, 3, 4}, index[] = {0, 1, 4, -1}, y[MOST];
    for (size_t i = 0; i < 2 * sizeof builds / sizeof *builds; i++) {
        sg_graph *graph = sg_graph_new();
        bool rows = builds[i / 2] == taken;
        sg_value in = sg_input(graph, "x", SG_F32, rows ? SG_SHAPE(1, 4) : SG_SHAPE(4));
        sg_result(graph, "y", builds[i / 2](in, sg_input(graph, "index", SG_I32, SG_SHAPE(4))));
        assert_false(graph_run(graph, NULL, backends[i % 2], 1, names, (double *[]){x, index}, 2, (double *[]){y}));
        sg_graph_free(graph);
    }
}

/* --------------------------------------------------------------------------------------- padding, the log domain */

static sg_value padded(sg_value x, sg_value index) { return (void)index, sg_pad_with(x, 0, 1, 2, -INFINITY); }

static sg_value sum_of_exponentials(sg_value x, sg_value index)
{
    (void)index;
    return sg_logaddexp(sg_slice(x, 0, 0, 4), sg_slice(x, 0, 4, 8));
}

static sg_value slopes(sg_value x, sg_value index)
{
    sg_value y = sum_of_exponentials(x, index), seed = sg_ones_like(y), g;
    sg_vjp(&y, &seed, 1, &x, 1, &g);
    return sg_slice(g, 0, 0, 4);
}

static void infinities(void **state)
{
    (void)state;
    const double *pairs = NUMBERS(-INFINITY, -INFINITY, INFINITY, 0x1p100, -INFINITY, 2, 2, -0x1p100);
    EXPECT(padded, SG_SHAPE(2), NUMBERS(1, 2), SG_SHAPE(1), NUMBERS(0), 5, -INFINITY, 1, 2, -INFINITY, -INFINITY);
    EXPECT(sum_of_exponentials, SG_SHAPE(8), pairs, SG_SHAPE(1), NUMBERS(0), 4, -INFINITY, 2, INFINITY, 0x1p100);
    EXPECT(slopes, SG_SHAPE(8), pairs, SG_SHAPE(1), NUMBERS(0), 4, 0, 0, 1, 1);
}

/* -------------------------------------------------------------------------------------------------------- refusals */

static void refused(const char *equation, int32_t n, const char *words)
{
    sg_graph *graph = sg_graph_new();
    sg_value x[] = {sg_input(graph, "a", SG_F32, SG_SHAPE(2, 3)), sg_input(graph, "b", SG_F32, SG_SHAPE(3, 4))};
    sg_error err = {0};
    assert_true(sg_is_none(sg_einsum(equation, x, n)));
    assert_int_not_equal(sg_graph_status(graph, &err), SG_OK);
    if (!strstr(err.text, words))
        fail_msg("\"%s\": %s, expected: %s", equation, err.text, words);
    sg_graph_free(graph);
}

static void einsum_refusals(void **state)
{
    (void)state;
    refused("ij,jk->ik", 1, "character 3: more operands than values");
    refused("ij->i", 2, "character 3: fewer operands than values");
    refused("ij,jk", 2, "character 6: expected a letter, ',' or '->'");
    refused("ij,jk->i2", 2, "character 9: expected a letter of the result");
    refused("ij,jk->iz", 2, "character 9: this letter stands in no operand");
    refused("ii->i", 1, "character 2: a letter may stand only once");
    refused("ij,jk->ii", 2, "character 9: a letter may stand only once");
    refused("ijk->i", 1, "character 1: operand 0 has 3 letters and 2 axes");
    refused("ij,ik->jk", 2, "character 4: 'i' has size 3 here and 2 in operand 0");
}

static void top_k_refusals(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_error err = {0};
    assert_true(sg_is_none(sg_top_k(sg_input(graph, "x", SG_F32, SG_SHAPE(2, 3)), 4, 1, NULL)));
    sg_graph_status(graph, &err);
    assert_non_null(strstr(err.text, "k = 4, axis 1 has size 3"));
    sg_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(selection),       cmocka_unit_test(segments),
                                       cmocka_unit_test(out_of_range),    cmocka_unit_test(infinities),
                                       cmocka_unit_test(einsum_refusals), cmocka_unit_test(top_k_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
