/* move_test.c - transpose, concat, slice, pad, gather, scatter_rows, one_hot on the cpu backend. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "tests/support/kernel_run.h"

static void check_transpose(sg_shape shape, const int32_t *order, sg_dtype dtype)
{
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", dtype, shape), y = sg_transpose(x, shape.rank, order);
    double *data[] = {test_indices(1, sg_shape_count(&shape), dtype == SG_BOOL ? 2 : 1 << 20)};
    if (!sg_same(x, y))
        kernel_check(y, data, 0);
    sg_graph_free(g);
    test_free_all();
}

/* All orders of `rank` axes, by counting in base `rank`. */
static void all_orders(sg_shape shape, sg_dtype dtype)
{
    int64_t codes = 1;
    for (int32_t i = 0; i < shape.rank; i++)
        codes *= shape.rank;
    for (int64_t code = 0; code < codes; code++) {
        int32_t order[SG_MAX_RANK], seen = 0;
        for (int64_t i = 0, c = code; i < shape.rank; i++, c /= shape.rank) {
            order[i] = (int32_t)(c % shape.rank);
            seen |= 1 << order[i];
        }
        if (seen == (1 << shape.rank) - 1)
            check_transpose(shape, order, dtype);
    }
}

static void test_transpose(void **state)
{
    (void)state;
    all_orders(SG_SHAPE(3, 5, 4, 7), SG_F32);
    all_orders(SG_SHAPE(2, 1, 33, 35), SG_I32);
    all_orders(SG_SHAPE(40, 33, 6), SG_BOOL);
    all_orders(SG_SHAPE(3, 0, 2), SG_F32);
    all_orders(SG_SHAPE(1, 1), SG_F32);
    check_transpose(SG_SHAPE(159, 400), (int32_t[]){1, 0}, SG_F32);
    check_transpose(SG_SHAPE(8, 50, 4, 16), (int32_t[]){0, 2, 1, 3}, SG_F32);
}

static void test_concat(void **state)
{
    (void)state;
    for (int32_t axis = 0; axis < 3; axis++)
        for (sg_dtype dtype = SG_F32; dtype <= SG_BOOL; dtype = dtype == SG_F32 ? SG_I32 : dtype + 1) {
            sg_graph *g = sg_graph_new();
            sg_value x[12];
            double *data[12];
            for (int k = 0; k < 12; k++) {
                char name[16];
                sg_shape shape = SG_SHAPE(4, 5, 6);
                shape.dim[axis] = k % 4;
                snprintf(name, sizeof name, "x%d", k);
                x[k] = sg_input(g, name, dtype, shape);
                data[k] = test_indices((uint64_t)k, sg_shape_count(&shape), 2);
            }
            kernel_check(sg_concat(x, 12, axis), data, 0);
            sg_graph_free(g);
            test_free_all();
        }
}

static void test_slice_and_pad(void **state)
{
    (void)state;
    sg_shape shape = SG_SHAPE(40, 33, 60);
    double *data[] = {test_numbers(1, sg_shape_count(&shape)), NULL};
    for (int32_t axis = 0; axis < 3; axis++) {
        sg_graph *g = sg_graph_new();
        sg_value x = sg_input(g, "x", SG_F32, shape);
        kernel_check(sg_slice(x, axis, 1, 8), data, 0);
        kernel_check(sg_slice(x, axis, -5, -2), data, 0);
        kernel_check(sg_slice(x, axis, 3, 3), data, 0);
        kernel_check(sg_pad(x, axis, 2, 3), data, 0);
        kernel_check(sg_pad(x, axis, 0, 1), data, 0);
        kernel_check(sg_pad(x, axis, 70, 0), data, 0);
        sg_graph_free(g);
    }
    test_free_all();
}

static void test_gather(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value index = sg_input(g, "i", SG_I32, SG_SHAPE(6, 50));
    double *at = test_indices(3, 300, 11);
    double *wide[] = {test_numbers(1, 11 * 7 * 3), at}, *flat[] = {test_numbers(2, 11), at};
    kernel_check(sg_gather(sg_input(g, "t", SG_F32, SG_SHAPE(11, 7, 3)), index), wide, 0);
    kernel_check(sg_gather(sg_input(g, "f", SG_F32, SG_SHAPE(11)), index), flat, 0);
    double *rows[] = {test_numbers(1, 300 * 70), at, NULL};
    kernel_check(sg_scatter_rows(sg_input(g, "r", SG_F32, SG_SHAPE(6, 50, 70)), index,
                                 sg_input(g, "m", SG_F32, SG_SHAPE(11, 70))),
                 rows, 1e-6);
    kernel_check(sg_one_hot(index, 11), &at, 0);
    double *none[] = {test_array(0), test_array(0), NULL};
    sg_value empty = sg_input(g, "e", SG_I32, SG_SHAPE(0));
    kernel_check(
        sg_scatter_rows(sg_input(g, "z", SG_F32, SG_SHAPE(0, 70)), empty, sg_input(g, "n", SG_F32, SG_SHAPE(11, 70))),
        none, 0);
    sg_graph_free(g);
    test_free_all();
}

/* Few and many rows of the table, so that an index has many rows or hardly one. */
static void test_scatter_many(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 2, 40, 3000}, widths[] = {1, 7, 64, 300};
    for (int r = 0; r < 4; r++)
        for (int w = 0; w < 4; w++) {
            sg_graph *g = sg_graph_new();
            double *data[] = {test_numbers(1, 700 * widths[w]), test_indices(2, 700, rows[r]), NULL};
            sg_value in = sg_input(g, "r", SG_F32, SG_SHAPE(700, widths[w])),
                     at = sg_input(g, "i", SG_I32, SG_SHAPE(700));
            sg_value table = sg_input(g, "t", SG_F32, SG_SHAPE(rows[r], widths[w]));
            kernel_check(sg_scatter_rows(in, at, table), data, 1e-5);
            sg_graph_free(g);
            test_free_all();
        }
}

static void test_bad_index(void **state)
{
    (void)state;
    const double bad[] = {11, -1, 2147483647};
    for (int k = 0; k < 3; k++) {
        sg_graph *g = sg_graph_new();
        char text[SG_ERROR_TEXT], words[64];
        double *at = test_indices(3, 20, 11);
        at[13] = bad[k];
        snprintf(words, sizeof words, "index %.0f at position 13 is outside [0, 11)", bad[k]);
        sg_value index = sg_input(g, "i", SG_I32, SG_SHAPE(20)), table = sg_input(g, "t", SG_F32, SG_SHAPE(11, 7));
        double *gathered[] = {test_numbers(1, 77), at}, *scattered[] = {test_numbers(1, 140), at, NULL};
        assert_true(kernel_fails(sg_gather(table, index), gathered, text, sizeof text));
        assert_string_equal(text, words);
        sg_value rows = sg_input(g, "r", SG_F32, SG_SHAPE(20, 7));
        assert_true(kernel_fails(sg_scatter_rows(rows, index, table), scattered, text, sizeof text));
        assert_string_equal(text, words);
        assert_true(kernel_fails(sg_one_hot(index, 11), &at, text, sizeof text));
        assert_string_equal(text, words);
        sg_graph_free(g);
        test_free_all();
    }
}

/* The step of the random state carries over from its low into its high word. */
static void test_rng_advance(void **state)
{
    (void)state;
    const double words[][4] = {{1, 2, 3, 4}, {-5, 7, -1, 0}, {0, 0, 2147483647, -1}};
    for (int k = 0; k < 3; k++) {
        sg_graph *g = sg_graph_new();
        sg_value in = sg_input(g, "rng", SG_I32, SG_SHAPE(4));
        double *data[] = {test_array(4)};
        memcpy(data[0], words[k], sizeof words[k]);
        kernel_check(sg_build(g, sg_op_find("rng_advance"), &in, 1, NULL), data, 0);
        sg_graph_free(g);
        test_free_all();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_transpose),     cmocka_unit_test(test_concat),
                                       cmocka_unit_test(test_slice_and_pad), cmocka_unit_test(test_gather),
                                       cmocka_unit_test(test_scatter_many),  cmocka_unit_test(test_bad_index),
                                       cmocka_unit_test(test_rng_advance)};
    return cmocka_run_group_tests_name("move", tests, NULL, NULL);
}
