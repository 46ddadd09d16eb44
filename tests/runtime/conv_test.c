/* conv_test.c - convolutions, their gradients and pooling on the cpu backend: every cut (chunks of images, blocks of channels
 * and groups, a smaller last chunk), plain and blocked layouts, empty sizes, NaN. kernel_check compares with the reference
 * and wants equal bits for 1, 2 and 3 threads, from outputs and workspace full of NaN. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "tests/support/kernel_run.h"
#include "tests/support/tensor_check.h"

typedef struct conv_case {
    int64_t images, channels, rows, columns, out, kernel_rows, kernel_columns, groups;
    sg_window window;
} conv_case;

static sg_value gradient(const char *op, sg_value a, sg_value b, sg_value model, sg_value y)
{
    const int64_t none[2] = {0, 0};
    sg_attr attr[5];
    const sg_node *node = sg_node_of(y);
    for (int i = 0; i < 4; i++)
        attr[i] = node->attr[i];
    attr[4] = sg_attr_ints(none, 2);
    return sg_build(y.graph, sg_op_find(op), (sg_value[]){a, b, model}, 3, attr);
}

/* Every seventh number of an operand is NaN, infinite or neither; or the last is NaN, which stands on a corner of the window or image. */
static void spoil(double *data, int64_t n, bool one)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY, 1};
    for (int64_t i = one ? n - 1 : 0; i < n; i += 7)
        data[i] = one ? NAN : bad[i / 7 % 4];
}

/* `bad`: an operand to spoil, in one place from 3 on, below 0 none. Taps on the padding add nothing, whatever they are multiplied by. */
static void check(const conv_case *c, int bad)
{
    sg_graph *g = sg_graph_new();
    sg_shape shape[3] = {SG_SHAPE(c->images, c->channels, c->rows, c->columns),
                         SG_SHAPE(c->out, c->channels / c->groups, c->kernel_rows, c->kernel_columns)};
    sg_value x = sg_input(g, "x", SG_F32, shape[0]), w = sg_input(g, "w", SG_F32, shape[1]);
    sg_value y = sg_conv2d(x, w, c->window, c->groups);
    shape[2] = *sg_shape_of(y);
    sg_value dy = sg_input(g, "dy", SG_F32, shape[2]);
    double *data[3];
    for (int k = 0; k < 3; k++)
        data[k] = test_numbers((uint64_t)k, sg_shape_count(&shape[k]));
    if (bad >= 0)
        spoil(data[bad % 3], sg_shape_count(&shape[bad % 3]), bad >= 3);
    kernel_check(y, data, 2e-6 * (double)(sg_shape_count(&shape[1]) > 4096 ? 4 : 1));
    kernel_check(gradient("conv_transpose2d", dy, w, x, y), (double *[]){data[2], data[1], data[0]}, 1e-5);
    kernel_check(gradient("conv2d_weight_grad", x, dy, w, y), (double *[]){data[0], data[2], data[1]}, 1e-5);
    sg_graph_free(g);
    test_free_all();
}

#define PAD(p)                                                                                                         \
    {                                                                                                                  \
        p, p, p, p                                                                                                     \
    }

/* Serial, chunked and blocked: the numbers are chosen so that each cut of conv.c is taken. */
static void convolutions(void **state)
{
    (void)state;
    static const conv_case cases[] = {
        {1, 1, 1, 1, 1, 1, 1, 1, {.padding = PAD(0)}},
        {2, 3, 7, 5, 4, 3, 2, 1, {.padding = {1, 0, 2, 1}}},
        {17, 3, 12, 12, 16, 5, 5, 1, {.padding = PAD(2)}}, /* the first layer of the segmentation net */
        {19, 16, 9, 11, 32, 5, 5, 1, {.stride = {2, 2}, .padding = PAD(2)}},   /* a smaller last chunk */
        {1, 64, 6, 6, 64, 5, 5, 1, {.stride = {2, 2}, .padding = PAD(2)}},     /* one image: blocks of channels */
        {3, 96, 5, 5, 96, 3, 3, 1, {.padding = PAD(1)}},                       /* blocks and chunks */
        {9, 64, 8, 8, 2, 1, 1, 1, {.padding = PAD(0)}},                        /* 1x1: products of matrices */
        {9, 20, 8, 8, 24, 1, 1, 1, {.stride = {2, 2}, .padding = PAD(0)}},     /* 1x1 with a stride */
        {5, 24, 8, 9, 24, 3, 3, 24, {.padding = PAD(1)}},                      /* depthwise */
        {2, 12, 8, 9, 24, 3, 3, 6, {.stride = {2, 1}, .padding = PAD(1)}},     /* groups */
        {1, 48, 8, 8, 32, 3, 3, 2, {.padding = PAD(1)}},                       /* one image: blocks of groups */
        {4, 16, 13, 11, 16, 3, 3, 1, {.dilation = {2, 3}, .padding = PAD(2)}}, /* dilation */
        {3, 16, 5, 4, 16, 3, 3, 1, {.stride = {3, 3}, .padding = PAD(0)}},     /* rows that no place reads */
        {2, 5, 3, 3, 6, 3, 3, 1, {.padding = PAD(4)}},                         /* places on the padding alone */
        {2, 16, 2, 2, 16, 1, 1, 1, {.stride = {3, 3}, .padding = PAD(1)}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int bad = -1; bad < 6; bad++)
            check(&cases[i], bad);
}

static void empty_sizes(void **state)
{
    (void)state;
    static const conv_case cases[] = {
        {0, 3, 4, 4, 2, 3, 3, 1, {.padding = PAD(1)}},
        {2, 0, 4, 4, 2, 3, 3, 1, {.padding = PAD(1)}},
        {2, 3, 4, 4, 0, 3, 3, 1, {.padding = PAD(1)}},
        {2, 3, 0, 4, 2, 3, 3, 1, {.padding = PAD(2)}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(&cases[i], -1);
}

/* kernel x kernel, dilation and padding on all sides but the bottom, which has one less where it can. */
static void pool(int64_t planes, int64_t rows, int64_t columns, int64_t kernel, int64_t stride, int64_t dilation,
                 int64_t padding, bool with_nan)
{
    sg_graph *g = sg_graph_new();
    sg_shape shape = SG_SHAPE(planes, 3, rows, columns);
    sg_window w = {.stride = {stride, stride},
                   .dilation = {dilation, dilation},
                   .padding = {padding, padding, padding > 0 ? padding - 1 : 0, padding}};
    int64_t n = sg_shape_count(&shape);
    double *data = test_indices(3, n, 5); /* many ties */
    for (int64_t i = 0; i < n && with_nan; i += 7)
        data[i] = NAN;
    sg_value x = sg_input(g, "x", SG_F32, shape);
    sg_value largest = sg_max_pool2d(x, kernel, kernel, w);
    kernel_check(largest, &data, 0);
    for (int count = 0; count < 2; count++) {
        sg_value mean = sg_avg_pool2d(x, kernel, kernel, w, count == 1);
        sg_shape places = *sg_shape_of(mean);
        sg_value dy = sg_input(g, count ? "dy" : "dz", SG_F32, places);
        kernel_check(mean, &data, 1e-6);
        sg_value dx = sg_build(g, sg_op_find("avg_pool2d_grad"), (sg_value[]){dy, x}, 2, sg_node_of(mean)->attr);
        kernel_check(dx, (double *[]){test_numbers(5, sg_shape_count(&places)), data}, 1e-6);
    }
    sg_graph_free(g);
    test_free_all();
}

static void pooling(void **state)
{
    (void)state;
    for (int nan = 0; nan < 2; nan++) {
        pool(2, 4, 4, 2, 2, 1, 0, nan);
        pool(1, 9, 37, 3, 2, 1, 1, nan);
        pool(2, 7, 5, 3, 1, 2, 2, nan);
        pool(1, 5, 6, 1, 3, 1, 0, nan);
        pool(1, 1, 1, 3, 1, 1, 2, nan);
        pool(0, 4, 4, 2, 2, 1, 0, nan);
        pool(9, 40, 40, 3, 2, 1, 1, nan); /* several threads */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(convolutions), cmocka_unit_test(empty_sizes),
                                       cmocka_unit_test(pooling)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
