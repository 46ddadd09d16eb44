/* Convolution and pooling by hand: small planes whose results, derivatives and refusals can be read off. */
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

static sg_value plane(sg_graph *g, int64_t rows, int64_t columns)
{
    return sg_input(g, "x", SG_F64, SG_SHAPE(1, 1, rows, columns));
}

/* y, its places and dx of sum y for x [3, 3] under 2x2 windows. */
static void pool_of(const double *x, double *y, double *place, double *dx)
{
    sg_graph *g = sg_graph_new();
    sg_value in = plane(g, 3, 3), out[3];
    out[0] = sg_max_pool2d(in, 2, 2, sg_window_square(1, 0));
    out[1] = sg_output_of(out[0], 1);
    sg_grad(sg_sum_all(out[0]), &in, 1, &out[2]);
    double data[9];
    memcpy(data, x, sizeof data);
    graph_eval(g, &in, (double *[]){data}, 1, out, (double *[]){y, place, dx}, 3);
    sg_graph_free(g);
}

static void the_first_of_equal_elements_is_the_largest(void **state)
{
    (void)state;
    double y[4], place[4], dx[9];
    pool_of((double[]){2, 2, 2, 2, 2, 2, 2, 2, 2}, y, place, dx);
    assert_tensor_close(place, ((double[]){0, 1, 3, 4}), 4, 0, 0, "places");
    assert_tensor_close(dx, ((double[]){1, 1, 0, 1, 1, 0, 0, 0, 0}), 9, 0, 0, "dx");
    pool_of((double[]){1, 0, 5, 0, -INFINITY, 0, 3, 0, 5}, y, place, dx);
    assert_tensor_close(y, ((double[]){1, 5, 3, 5}), 4, 0, 0, "y");
    assert_tensor_close(dx, ((double[]){1, 0, 1, 0, 0, 0, 1, 0, 1}), 9, 0, 0, "dx");
}

static void the_first_nan_is_the_largest(void **state)
{
    (void)state;
    double y[4], place[4], dx[9];
    pool_of((double[]){INFINITY, 0, 1, 2, NAN, NAN, 0, 7, 8}, y, place, dx);
    assert_tensor_close(y, ((double[]){NAN, NAN, NAN, NAN}), 4, 0, 0, "y");
    assert_tensor_close(place, ((double[]){4, 4, 4, 4}), 4, 0, 0, "places");
    assert_tensor_close(dx, ((double[]){0, 0, 0, 0, 4, 0, 0, 0, 0}), 9, 0, 0, "dx");
}

/* All elements are negative: a padding of zeros would show. */
static void padding_is_never_the_largest(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = plane(g, 2, 2), y = sg_max_pool2d(x, 2, 2, sg_window_square(1, 1));
    double out[9];
    graph_eval(g, &x, (double *[]){(double[]){-1, -2, -3, -4}}, 1, &y, (double *[]){out}, 1);
    assert_tensor_close(out, ((double[]){-1, -1, -2, -1, -1, -2, -3, -3, -4}), 9, 0, 0, "y");
    sg_graph_free(g);
}

static void a_mean_counts_padding_or_not(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = plane(g, 1, 2), y[2];
    for (int count = 0; count < 2; count++)
        y[count] = sg_avg_pool2d(x, 1, 2, (sg_window){.padding = {0, 1, 0, 1}}, count == 1);
    double out[2][3];
    graph_eval(g, &x, (double *[]){(double[]){6, 10}}, 1, y, (double *[]){out[0], out[1]}, 2);
    assert_tensor_close(out[0], ((double[]){6, 8, 10}), 3, 0, 0, "of elements");
    assert_tensor_close(out[1], ((double[]){3, 8, 5}), 3, 0, 0, "of taps");
    sg_graph_free(g);
}

/* A weight that only meets padding may be anything: its tap adds nothing. */
static void taps_on_padding_add_nothing(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value in[] = {plane(g, 1, 1), sg_input(g, "w", SG_F64, SG_SHAPE(1, 1, 1, 3))}, y[3];
    y[0] = sg_conv2d(in[0], in[1], (sg_window){.padding = {0, 1, 0, 1}}, 1);
    sg_grad(sg_sum_all(y[0]), in, 2, &y[1]);
    double out[3][3];
    double *data[] = {(double[]){2}, (double[]){NAN, 3, INFINITY}};
    graph_eval(g, in, data, 2, y, (double *[]){out[0], out[1], out[2]}, 3);
    assert_tensor_close(out[0], ((double[]){6}), 1, 0, 0, "y");
    assert_tensor_close(out[1], ((double[]){3}), 1, 0, 0, "dx");
    assert_tensor_close(out[2], ((double[]){0, 2, 0}), 3, 0, 0, "dw");
    sg_graph_free(g);
}

typedef sg_value (*builder)(sg_value x, sg_value w);

static sg_value too_large(sg_value x, sg_value w) { return sg_conv2d(x, w, sg_window_square(1, 0), 1); }
static sg_value too_wide(sg_value x, sg_value w) { return sg_conv2d(x, w, (sg_window){.dilation = {9, 9}}, 1); }
static sg_value uneven_groups(sg_value x, sg_value w) { return sg_conv2d(x, w, sg_window_square(1, 4), 3); }
static sg_value no_groups(sg_value x, sg_value w) { return sg_conv2d(x, w, sg_window_square(1, 4), 0); }
static sg_value backwards(sg_value x, sg_value w) { return sg_conv2d(x, w, sg_window_square(-1, 4), 1); }
static sg_value cropped(sg_value x, sg_value w) { return sg_conv2d(x, w, sg_window_square(1, -1), 1); }
static sg_value much_more(sg_value x, sg_value w)
{
    return sg_conv_transpose2d(sg_slice(x, 1, 0, 1), w, sg_window_square(2, 0), 1, 2, 0);
}
static sg_value all_padding(sg_value x, sg_value w) { return (void)w, sg_max_pool2d(x, 2, 2, sg_window_square(1, 2)); }
static sg_value no_window(sg_value x, sg_value w)
{
    return (void)w, sg_avg_pool2d(x, 0, 2, sg_window_square(1, 0), true);
}
static sg_value no_rows(sg_value x, sg_value w)
{
    return (void)w, sg_max_pool2d(sg_slice(x, 2, 0, 0), 3, 2, sg_window_square(1, 2));
}
static sg_value stepped_over(sg_value x, sg_value w)
{
    sg_window window = {.dilation = {9, 1}, .padding = {5, 0, 5, 0}};
    return (void)w, sg_max_pool2d(x, 2, 2, window);
}

static void refusals_say_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        builder build;
        const char *says;
    } rows[] = {
        {too_large, "the kernel covers 5 rows (5 taps, dilation 1), the input with padding has 4"},
        {too_wide, "the kernel covers 37 rows"},
        {uneven_groups, "do not fit with 3 groups"},
        {no_groups, "do not fit with 0 groups"},
        {backwards, "stride must be in [1, 2^31), it is -1"},
        {cropped, "padding must be in [0, 2^31), it is -1"},
        {much_more, "output padding must be in [0, stride), it is 2"},
        {all_padding, "padding alone"},
        {no_window, "the kernel has no rows"},
        {no_rows, "padding alone"},
        {stepped_over, "padding alone"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sg_graph *g = sg_graph_new();
        sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2, 4, 4, 4));
        sg_value w = sg_input(g, "w", SG_F32, SG_SHAPE(1, 4, 5, 5));
        sg_error err = {0};
        assert_true(sg_is_none(rows[i].build(x, w)));
        assert_int_not_equal(sg_graph_status(g, &err), SG_OK);
        if (!strstr(err.text, rows[i].says))
            fail_msg("'%s' does not say '%s'", err.text, rows[i].says);
        sg_graph_free(g);
    }
}

/* sum (conv(x, w))^3 has derivatives up to the sixth in x and w together: the family closes on itself at each order. */
static void fourth_derivatives_exist(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F64, SG_SHAPE(1, 1, 1, 1)), w = sg_input(g, "w", SG_F64, SG_SHAPE(1, 1, 1, 1));
    sg_value y = sg_conv2d(x, w, sg_window_square(1, 0), 1), d = sg_sum_all(sg_mul(y, sg_mul(y, y)));
    const sg_value wrt[] = {x, w, x, w};
    for (int i = 0; i < 4; i++)
        sg_grad(sg_sum_all(d), &wrt[i], 1, &d);
    double out;
    graph_eval(g, (sg_value[]){x, w}, (double *[]){(double[]){5}, (double[]){7}}, 2, &d, (double *[]){&out}, 1);
    assert_tensor_close(&out, ((double[]){36 * 5 * 7}), 1, 1e-12, 0, "d4 of (x w)^3");
    sg_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_of_equal_elements_is_the_largest),
        cmocka_unit_test(the_first_nan_is_the_largest),
        cmocka_unit_test(padding_is_never_the_largest),
        cmocka_unit_test(a_mean_counts_padding_or_not),
        cmocka_unit_test(taps_on_padding_add_nothing),
        cmocka_unit_test(refusals_say_what_is_wrong),
        cmocka_unit_test(fourth_derivatives_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
