/* convolution.c - golden family: convolutions, transposed convolutions, pooling. */
#include "cli/golden/golden_internal.h"

/* Stride and padding of the case; dilation where it has one. Padding is the same on opposite sides. */
static sg_window window_of(sg_golden *g)
{
    sg_window w = {{0, 0}, {0, 0}, {0, 0, 0, 0}};
    sg_golden_ints(g, "stride", w.stride, 2);
    sg_golden_ints(g, "dilation", w.dilation, 2);
    sg_golden_ints(g, "padding", w.padding, 2);
    w.padding[2] = w.padding[0];
    w.padding[3] = w.padding[1];
    return w;
}

static sg_value with_bias(sg_value y, sg_value bias) { return sg_add(y, sg_expand_dims(sg_expand_dims(bias, -1), -1)); }

static sg_value biased(sg_golden *g, sg_value y)
{
    return sg_golden_has(g, "b") ? with_bias(y, sg_golden_in(g, "b")) : y;
}

static void conv2d(sg_golden *g)
{
    sg_value y = sg_conv2d(sg_golden_in(g, "x"), sg_golden_in(g, "w"), window_of(g), sg_golden_int_or(g, "groups", 1));
    sg_golden_out(g, "out", biased(g, y));
}

static void conv_transpose2d(sg_golden *g)
{
    int64_t more[2] = {0, 0};
    sg_golden_ints(g, "output_padding", more, 2);
    sg_value y = sg_conv_transpose2d(sg_golden_in(g, "x"), sg_golden_in(g, "w"), window_of(g),
                                     sg_golden_int_or(g, "groups", 1), more[0], more[1]);
    sg_golden_out(g, "out", biased(g, y));
}

static void max_pool2d(sg_golden *g)
{
    int64_t kernel[2] = {0, 0};
    sg_golden_ints(g, "kernel", kernel, 2);
    sg_golden_out(g, "out", sg_max_pool2d(sg_golden_in(g, "x"), kernel[0], kernel[1], window_of(g)));
}

static void avg_pool2d(sg_golden *g)
{
    int64_t kernel[2] = {0, 0};
    sg_golden_ints(g, "kernel", kernel, 2);
    sg_golden_out(g, "out",
                  sg_avg_pool2d(sg_golden_in(g, "x"), kernel[0], kernel[1], window_of(g),
                                sg_golden_flag(g, "count_include_pad")));
}

static void mean(sg_golden *g)
{
    int32_t axes[SG_MAX_RANK];
    sg_value x = sg_golden_in(g, "x");
    int32_t n = sg_golden_axes(g, "axes", sg_rank_of(x), axes);
    sg_golden_out(g, "out", sg_mean_axes(x, n, axes, sg_golden_flag(g, "keepdims")));
}

static void two_convolutions(sg_golden *g)
{
    sg_value x = sg_golden_in(g, "x"), w = sg_golden_in(g, "w"), u = sg_golden_in(g, "u");
    sg_value hidden = with_bias(sg_conv2d(x, w, sg_window_square(2, 1), 1), sg_golden_in(g, "b"));
    sg_golden_out(g, "out", sg_softplus(sg_conv2d(sg_softplus(hidden), u, sg_window_square(1, 0), 1)));
}

static void squares_of_largest(sg_golden *g)
{
    sg_value x = sg_golden_in(g, "x");
    sg_value y = sg_max_pool2d(sg_mul(x, x), 2, 2, sg_window_square(2, 0));
    sg_golden_out(g, "out", sg_sum_axes(sg_square(y), SG_AXES(2, 3), false));
}

static const sg_golden_row rows[] = {
    {"conv2d", NULL, conv2d, 0},
    {"conv_transpose2d", NULL, conv_transpose2d, 0},
    {"max_pool2d", NULL, max_pool2d, 0},
    {"avg_pool2d", NULL, avg_pool2d, 0},
    {"mean", NULL, mean, 0},
    {"expression", "softplus(conv2d(softplus(conv2d(x, w, b, stride 2, padding 1)), u))", two_convolutions, 0},
    {"expression", "sum over h, w of max_pool2d(x*x, 2)^2", squares_of_largest, 0},
};
SG_GOLDEN_TABLE(convolution, rows);
