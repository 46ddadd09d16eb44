/* image.c - samples: convolutions and pooling. */
#include "ops/samples/table_internal.h"

#define WINDOW(...) ((sg_window){__VA_ARGS__})

BUILD(conv, sg_conv2d(in[0], in[1], WINDOW(.padding = {0}), 1))
BUILD(conv_same, sg_conv2d(in[0], in[1], sg_window_square(1, 1), 1))
BUILD(conv_wide, sg_conv2d(in[0], in[1], sg_window_square(1, 2), 1))
BUILD(conv_strided, sg_conv2d(in[0], in[1], WINDOW(.stride = {2, 3}, .padding = {1, 2, 1, 2}), 1))
BUILD(conv_halved, sg_conv2d(in[0], in[1], sg_window_square(2, 2), 1))
BUILD(conv_dilated, sg_conv2d(in[0], in[1], WINDOW(.dilation = {2, 2}, .padding = {1, 1, 1, 1}), 1))
BUILD(conv_uneven, sg_conv2d(in[0], in[1], WINDOW(.stride = {2, 1}, .padding = {0, 1, 2, 0}), 1))
BUILD(conv_grouped, sg_conv2d(in[0], in[1], sg_window_square(1, 1), 2))
BUILD(conv_depthwise, sg_conv2d(in[0], in[1], sg_window_square(2, 1), sg_dim_of(in[0], 1)))

BUILD(conv_apart, sg_conv2d(in[0], in[1], WINDOW(.stride = {3, 3}, .dilation = {2, 1}, .padding = {2, 1, 2, 1}), 3))

BUILD(up, sg_conv_transpose2d(in[0], in[1], WINDOW(.padding = {0}), 1, 0, 0))
BUILD(up_twice, sg_conv_transpose2d(in[0], in[1], sg_window_square(2, 1), 1, 0, 0))
BUILD(up_more, sg_conv_transpose2d(in[0], in[1], sg_window_square(2, 1), 1, 1, 1))
BUILD(up_grouped, sg_conv_transpose2d(in[0], in[1], WINDOW(.dilation = {1, 2}), 2, 0, 0))
BUILD(up_uneven, sg_conv_transpose2d(in[0], in[1], WINDOW(.stride = {3, 2}, .padding = {1, 0, 0, 2}), 1, 2, 0))

/* The gradients, which have no builder of their own: as other tables do, by name. */
static sg_value gradient(const char *op, const sg_value *in, const int64_t *window, int64_t groups)
{
    static const int64_t none[2] = {0, 0};
    sg_attr attr[] = {sg_attr_ints(window, 2), sg_attr_ints(window + 2, 2), sg_attr_ints(window + 4, 4),
                      sg_attr_int(groups), sg_attr_ints(none, 2)};
    return sg_build(in[0].graph, sg_op_find(op), in, 3, attr);
}
#define GRADIENT(op, groups, ...) gradient(op, in, (const int64_t[]){__VA_ARGS__}, groups)

BUILD(input_grad, GRADIENT("conv_transpose2d", 1, 2, 2, 1, 1, 1, 1, 1, 1))
BUILD(weight_grad, GRADIENT("conv2d_weight_grad", 1, 1, 1, 1, 1, 0, 0, 0, 0))
BUILD(weight_grad_strided, GRADIENT("conv2d_weight_grad", 1, 2, 2, 1, 1, 1, 1, 1, 1))
BUILD(weight_grad_wide, GRADIENT("conv2d_weight_grad", 1, 2, 2, 1, 1, 2, 2, 2, 2))
BUILD(weight_grad_grouped, GRADIENT("conv2d_weight_grad", 2, 1, 1, 2, 1, 1, 0, 0, 1))

BUILD(max_halves, sg_max_pool2d(in[0], 2, 2, sg_window_square(2, 0)))
BUILD(max_whole, sg_max_pool2d(in[0], 33, 35, WINDOW(.padding = {0})))
BUILD(mean_whole, sg_avg_pool2d(in[0], 33, 35, WINDOW(.padding = {0}), true))
BUILD(max_padded, sg_max_pool2d(in[0], 3, 3, sg_window_square(2, 1)))
BUILD(max_dilated, sg_max_pool2d(in[0], 2, 3, WINDOW(.dilation = {2, 1}, .padding = {0, 1, 1, 0})))
BUILD(mean_halves, sg_avg_pool2d(in[0], 2, 2, sg_window_square(2, 0), true))
BUILD(mean_padded, sg_avg_pool2d(in[0], 3, 3, sg_window_square(2, 1), true))
BUILD(mean_of_elements, sg_avg_pool2d(in[0], 3, 2, WINDOW(.stride = {2, 1}, .padding = {1, 1, 0, 0}), false))
BUILD(mean_dilated, sg_avg_pool2d(in[0], 2, 2, WINDOW(.dilation = {2, 3}, .padding = {1, 1, 1, 1}), false))

/* Of a 3x3 window, by name; padding does not count. */
static sg_value mean_gradient(const sg_value *in, int64_t stride, int64_t padding)
{
    const int64_t strides[] = {stride, stride}, ones[] = {1, 1}, kernel[] = {3, 3};
    const int64_t paddings[] = {padding, padding, padding, padding};
    sg_attr attr[] = {sg_attr_ints(strides, 2), sg_attr_ints(ones, 2), sg_attr_ints(paddings, 4),
                      sg_attr_ints(kernel, 2), sg_attr_int(0)};
    return sg_build(in[0].graph, sg_op_find("avg_pool2d_grad"), in, 2, attr);
}
BUILD(mean_grad, mean_gradient(in, 2, 1))

/* clang-format off */
static const sg_sample rows[] = {
    {"conv2d", "", "[2, 3, 2, 3]", 2, 1, {REAL(S4(2, 2, 4, 5), -1, 1), REAL(S4(3, 2, 3, 3), -1, 1)}, .build = conv},
    {"conv2d", "padding", "[1, 2, 3, 4]", 2, 1, {REAL(S4(1, 2, 3, 4), -1, 1), REAL(S4(2, 2, 3, 3), -1, 1)}, .build = conv_same},
    {"conv2d", "stride", "[2, 2, 3, 2]", 2, 1, {REAL(S4(2, 1, 5, 4), -1, 1), REAL(S4(2, 1, 2, 3), -1, 1)}, .build = conv_strided},
    {"conv2d", "dilation", "[1, 2, 5, 4]", 2, 1, {REAL(S4(1, 2, 5, 4), -1, 1), REAL(S4(2, 2, 2, 2), -1, 1)}, .build = conv_dilated},
    {"conv2d", "uneven padding", "[1, 2, 3, 4]", 2, 1, {REAL(S4(1, 1, 5, 4), -1, 1), REAL(S4(2, 1, 3, 2), -1, 1)}, .build = conv_uneven},
    {"conv2d", "groups", "[2, 2, 3, 3]", 2, 1, {REAL(S4(2, 4, 3, 3), -1, 1), REAL(S4(2, 2, 3, 3), -1, 1)}, .build = conv_grouped},
    {"conv2d", "depthwise", "[1, 6, 2, 2]", 2, 1, {REAL(S4(1, 3, 4, 3), -1, 1), REAL(S4(6, 1, 3, 3), -1, 1)}, .build = conv_depthwise},
    {"conv2d", "1x1", "[2, 2, 3, 3]", 2, 1, {REAL(S4(2, 3, 3, 3), -1, 1), REAL(S4(2, 3, 1, 1), -1, 1)}, .build = conv},
    {"conv2d", "padding alone", "[1, 1, 3, 3]", 2, 1, {REAL(S4(1, 1, 1, 1), -1, 1), REAL(S4(1, 1, 3, 3), -1, 1)}, .build = conv_wide},
    {"conv2d", "no images", "[0, 3, 2, 3]", 2, 1, {REAL(S4(0, 2, 4, 5), -1, 1), REAL(S4(3, 2, 3, 3), -1, 1)}, .build = conv},
    {"conv2d", "no channels", "[2, 3, 2, 3]", 2, 1, {REAL(S4(2, 0, 4, 5), -1, 1), REAL(S4(3, 0, 3, 3), -1, 1)}, .build = conv},
    {"conv_transpose2d", "", "[1, 3, 5, 4]", 2, 1, {REAL(S4(1, 2, 3, 2), -1, 1), REAL(S4(2, 3, 3, 3), -1, 1)}, .build = up},
    {"conv_transpose2d", "stride", "[2, 2, 4, 6]", 2, 1, {REAL(S4(2, 2, 2, 3), -1, 1), REAL(S4(2, 2, 4, 4), -1, 1)}, .build = up_twice},
    {"conv_transpose2d", "output padding", "[1, 2, 6, 4]", 2, 1, {REAL(S4(1, 2, 3, 2), -1, 1), REAL(S4(2, 2, 3, 3), -1, 1)}, .build = up_more},
    {"conv_transpose2d", "groups", "[1, 2, 3, 6]", 2, 1, {REAL(S4(1, 4, 2, 2), -1, 1), REAL(S4(4, 1, 2, 3), -1, 1)}, .build = up_grouped},
    {"conv_transpose2d", "uneven padding", "[2, 1, 7, 3]", 2, 1, {REAL(S4(2, 2, 2, 2), -1, 1), REAL(S4(2, 1, 3, 3), -1, 1)}, .build = up_uneven},
    {"conv_transpose2d", "no images", "[0, 2, 4, 6]", 2, 1, {REAL(S4(0, 2, 2, 3), -1, 1), REAL(S4(2, 2, 4, 4), -1, 1)}, .build = up_twice},
    {"conv_transpose2d", "of a model", "[2, 1, 4, 5]", 3, 1,
     {REAL(S4(2, 2, 2, 3), -1, 1), REAL(S4(2, 1, 3, 3), -1, 1), MODEL(S4(2, 1, 4, 5))}, .build = input_grad},
    {"conv2d_weight_grad", "", "[2, 3, 2, 2]", 3, 1,
     {REAL(S4(2, 3, 3, 3), -1, 1), REAL(S4(2, 2, 2, 2), -1, 1), MODEL(S4(2, 3, 2, 2))}, .build = weight_grad},
    {"conv2d_weight_grad", "stride", "[2, 1, 3, 3]", 3, 1,
     {REAL(S4(3, 1, 4, 5), -1, 1), REAL(S4(3, 2, 2, 3), -1, 1), MODEL(S4(2, 1, 3, 3))}, .build = weight_grad_strided},
    {"conv2d_weight_grad", "groups", "[4, 1, 2, 2]", 3, 1,
     {REAL(S4(2, 2, 3, 3), -1, 1), REAL(S4(2, 4, 2, 3), -1, 1), MODEL(S4(4, 1, 2, 2))}, .build = weight_grad_grouped},
    {"conv2d_weight_grad", "no images", "[2, 3, 2, 2]", 3, 1,
     {REAL(S4(0, 3, 3, 3), -1, 1), REAL(S4(0, 2, 2, 2), -1, 1), MODEL(S4(2, 3, 2, 2))}, .build = weight_grad},
    {"max_pool2d", "", "[2, 2, 2, 2]", 1, 1, {DISTINCT(S4(2, 2, 4, 4))}, .build = max_halves},
    {"max_pool2d", "padding", "[1, 2, 3, 2]", 1, 1, {DISTINCT(S4(1, 2, 5, 4))}, .build = max_padded},
    {"max_pool2d", "dilation", "[1, 2, 4, 4]", 1, 1, {DISTINCT(S4(1, 2, 5, 5))}, .build = max_dilated},
    {"max_pool2d", "no images", "[0, 2, 2, 2]", 1, 1, {DISTINCT(S4(0, 2, 4, 4))}, .build = max_halves},
    {"avg_pool2d", "", "[2, 2, 2, 2]", 1, 1, {REAL(S4(2, 2, 4, 4), -1, 1)}, .build = mean_halves},
    {"avg_pool2d", "padding", "[1, 2, 3, 2]", 1, 1, {REAL(S4(1, 2, 5, 4), -1, 1)}, .build = mean_padded},
    {"avg_pool2d", "of elements", "[1, 2, 2, 4]", 1, 1, {REAL(S4(1, 2, 4, 4), -1, 1)}, .build = mean_of_elements},
    {"avg_pool2d", "dilation", "[1, 1, 3, 4]", 1, 1, {REAL(S4(1, 1, 3, 5), -1, 1)}, .build = mean_dilated},
    {"avg_pool2d", "no channels", "[2, 0, 2, 2]", 1, 1, {REAL(S4(2, 0, 4, 4), -1, 1)}, .build = mean_halves},
    {"avg_pool2d_grad", "", "[1, 2, 5, 4]", 2, 1, {REAL(S4(1, 2, 3, 2), -1, 1), MODEL(S4(1, 2, 5, 4))}, .build = mean_grad},
    {"max_pool2d", "large", "[9, 3, 20, 20]", 1, 1, {REAL(S4(9, 3, 40, 40), -1, 1)}, .build = max_padded, .large = true},
    {"avg_pool2d", "large", "[9, 3, 20, 20]", 1, 1, {REAL(S4(9, 3, 40, 40), -1, 1)}, .build = mean_padded, .large = true},
    {"conv2d", "large", "[18, 32, 6, 5]", 2, 1, {REAL(S4(18, 16, 12, 9), -0.5, 0.5), REAL(S4(32, 16, 5, 5), -0.5, 0.5)},
     .build = conv_halved, .large = true},
    {"conv_transpose2d", "large", "[9, 32, 14, 18]", 2, 1, {REAL(S4(9, 48, 7, 9), -0.5, 0.5), REAL(S4(48, 32, 4, 4), -0.5, 0.5)},
     .build = up_twice, .large = true},
    {"conv2d_weight_grad", "large", "[32, 16, 5, 5]", 3, 1,
     {REAL(S4(18, 16, 12, 9), -0.5, 0.5), REAL(S4(18, 32, 6, 5), -0.5, 0.5), MODEL(S4(32, 16, 5, 5))},
     .build = weight_grad_wide, .large = true},
    {"conv2d", "one pixel", "[2, 3, 1, 1]", 2, 1, {REAL(S4(2, 120, 3, 3), -0.5, 0.5), REAL(S4(3, 120, 3, 3), -0.5, 0.5)}, .build = conv, .large = true},
    {"conv2d", "one pixel, many images", "[131, 5, 1, 1]", 2, 1, {REAL(S4(131, 3, 3, 3), -1, 1), REAL(S4(5, 3, 3, 3), -1, 1)}, .build = conv, .large = true},
    {"conv2d", "one pixel, one channel", "[1, 1, 1, 1]", 2, 1, {REAL(S4(1, 1, 33, 35), -1, 1), REAL(S4(1, 1, 33, 35), -1, 1)}, .build = conv, .large = true},
    {"conv2d", "1x1, many pixels", "[1, 3, 35, 67]", 2, 1, {REAL(S4(1, 17, 35, 67), -1, 1), REAL(S4(3, 17, 1, 1), -1, 1)}, .build = conv, .large = true},
    {"conv2d", "groups, dilation, stride", "[3, 33, 5, 7]", 2, 1, {REAL(S4(3, 15, 15, 19), -1, 1), REAL(S4(33, 5, 3, 3), -1, 1)}, .build = conv_apart, .large = true},
    {"conv2d", "depthwise, many channels", "[2, 70, 5, 4]", 2, 1, {REAL(S4(2, 35, 9, 7), -1, 1), REAL(S4(70, 1, 3, 3), -1, 1)}, .build = conv_depthwise, .large = true},
    {"conv2d", "groups, many channels", "[2, 66, 5, 5]", 2, 1, {REAL(S4(2, 34, 5, 5), -1, 1), REAL(S4(66, 17, 3, 3), -1, 1)}, .build = conv_grouped, .large = true},
    {"conv_transpose2d", "of one pixel", "[3, 5, 4, 4]", 2, 1, {REAL(S4(3, 260, 1, 1), -1, 1), REAL(S4(260, 5, 4, 4), -0.5, 0.5)}, .build = up, .large = true},
    {"conv_transpose2d", "groups, dilation", "[2, 34, 6, 11]", 2, 1, {REAL(S4(2, 36, 5, 7), -1, 1), REAL(S4(36, 17, 2, 3), -0.5, 0.5)}, .build = up_grouped, .large = true},
    {"conv2d_weight_grad", "of one pixel", "[3, 5, 3, 3]", 3, 1,
     {REAL(S4(515, 5, 3, 3), -0.5, 0.5), REAL(S4(515, 3, 1, 1), -0.5, 0.5), MODEL(S4(3, 5, 3, 3))}, .build = weight_grad, .large = true},
    {"conv2d_weight_grad", "one weight", "[1, 1, 1, 1]", 3, 1,
     {REAL(S4(3, 1, 35, 33), -1, 1), REAL(S4(3, 1, 35, 33), -1, 1), MODEL(S4(1, 1, 1, 1))}, .build = weight_grad, .large = true},
    {"max_pool2d", "one pixel", "[2, 3, 1, 1]", 1, 1, {REAL(S4(2, 3, 33, 35), -1, 1)}, .build = max_whole, .large = true},
    {"avg_pool2d", "one pixel", "[2, 3, 1, 1]", 1, 1, {REAL(S4(2, 3, 33, 35), -1, 1)}, .build = mean_whole, .large = true},
    {"max_pool2d", "many images", "[515, 1, 1, 1]", 1, 1, {REAL(S4(515, 1, 3, 3), -1, 1)}, .build = max_halves, .large = true},
    {"avg_pool2d", "many channels", "[1, 1027, 2, 1]", 1, 1, {REAL(S4(1, 1027, 4, 3), -1, 1)}, .build = mean_halves, .large = true},
};
/* clang-format on */

const sg_sample_table sg_samples_image = TABLE(rows);
