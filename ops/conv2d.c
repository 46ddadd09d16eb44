/* conv2d.c - two-dimensional convolution (as the field says it: cross-correlation) and its two gradients.
 *
 * Over images n, groups of channels, places (i, j) and taps (p, q), with c running over the channels of o's group,
 *     B(x, w, y) = sum x[n, c, i s - before + p d, ...] w[o, c, p, q] y[n, o, i, j]
 * is linear in each of its three arguments, x [N, C, H, W], w [O, C / groups, kh, kw], y [N, O, places, places]. The three
 * ops are its derivatives in one argument each:
 *     conv2d(x, w) = dB/dy,   conv_transpose2d(y, w) = dB/dx,   conv2d_weight_grad(x, y) = dB/dw,
 * so the derivative of each in either argument is one of the other two, and the family is closed at every order. The
 * sizes of dB/dx and dB/dw do not follow from the arguments alone: they are those of a model, read for its shape. Without
 * a model, conv_transpose2d has the least H that gives these places, plus output_padding (less than the stride) at the end. */
#include "ops/axis_internal.h"
#include "ops/window_internal.h"

enum { GROUPS = SG_WINDOW_ATTRS, OUTPUT_PADDING };
static const sg_attr_spec attrs[] = {SG_WINDOW_SCHEMA, {"groups", SG_ATTR_INT}, {"output_padding", SG_ATTR_INTS}};

#define AXES_X "[images, channels, rows, columns]"
#define AXES_W "weights of four axes (channels, channels of a group, rows, columns)"

/* ------------------------------------------------------------------------------------------------------ shape rules */

/* The shape that conv2d makes of x and w; refuses shapes that do not fit. */
static sg_status places_shape(const sg_infer_args *a, const sg_shape *x, const sg_shape *w, sg_shape *out)
{
    int64_t groups = a->attr[GROUPS].i, channels;
    SG_TRY(sg_window_check(a));
    if (groups < 1 || w->dim[0] % groups != 0 || !sg_mul_ok(w->dim[1], groups, &channels) || channels != x->dim[1]) {
        char left[SG_SHAPE_TEXT], right[SG_SHAPE_TEXT];
        return sg_infer_fail(a, SG_E_SHAPE, "images %s and weights %s do not fit with %lld groups",
                             sg_shape_format(x, left, sizeof left), sg_shape_format(w, right, sizeof right),
                             (long long)groups);
    }
    *out = *x;
    sg_shape_put(out, 1, w, 0);
    for (int32_t axis = 0; axis < 2; axis++) {
        sg_window_axis v;
        SG_TRY(sg_window_fit(a, axis, x->dim[2 + axis], w->dim[2 + axis], &v));
        out->dim[2 + axis] = v.places;
        if (!sg_window_keeps_size(&v))
            out->name[2 + axis] = NULL;
    }
    return SG_OK;
}

static sg_status check_inputs(const sg_infer_args *a, const char *second)
{
    SG_TRY(sg_require_real(a, 0));
    SG_TRY(sg_require_same_dtype(a, 0, 1));
    SG_TRY(sg_require_rank4(a, 0, AXES_X));
    SG_TRY(sg_require_rank4(a, 1, second));
    a->out_dtype[0] = a->in_dtype[0];
    return SG_OK;
}

static sg_status infer_conv(const sg_infer_args *a)
{
    SG_TRY(check_inputs(a, AXES_W));
    return places_shape(a, &a->in_shape[0], &a->in_shape[1], &a->out_shape[0]);
}

/* The gradients refuse places that the convolution of x and w would not have. */
static sg_status require_places(const sg_infer_args *a, const sg_shape *x, const sg_shape *w, const sg_shape *y)
{
    sg_shape expected;
    char left[SG_SHAPE_TEXT], right[SG_SHAPE_TEXT];
    SG_TRY(places_shape(a, x, w, &expected));
    if (sg_shape_equal(&expected, y))
        return SG_OK;
    return sg_infer_fail(a, SG_E_SHAPE, "the convolution has the shape %s, not %s",
                         sg_shape_format(&expected, left, sizeof left), sg_shape_format(y, right, sizeof right));
}

static sg_status infer_weight_grad(const sg_infer_args *a)
{
    SG_TRY(check_inputs(a, AXES_X));
    SG_TRY(sg_require_rank4(a, 2, AXES_W));
    a->out_shape[0] = a->in_shape[2];
    return require_places(a, &a->in_shape[0], &a->in_shape[2], &a->in_shape[1]);
}

/* The elements that a window with `places` places covers, without padding, and `more` at the end. */
static sg_status covered(const sg_infer_args *a, int32_t axis, int64_t places, int64_t kernel, int64_t more,
                         int64_t *out)
{
    sg_window_axis v = sg_window_of(a->attr, axis, 0, kernel, places);
    int64_t steps, reach, size;
    if (more < 0 || more >= v.stride)
        return sg_infer_fail(a, SG_E_ARGUMENT, "output padding must be in [0, stride), it is %lld", (long long)more);
    if (places < 1 || kernel < 1)
        return sg_infer_fail(a, SG_E_SHAPE, "input and kernel need at least one row and one column");
    if (!sg_mul_ok(places - 1, v.stride, &steps) || !sg_mul_ok(kernel - 1, v.dilation, &reach) ||
        __builtin_add_overflow(steps, reach, &size) || __builtin_add_overflow(size, more + 1, &size))
        return sg_infer_fail(a, SG_E_SHAPE, "the result would have too many elements");
    *out = size - v.before - v.after;
    if (*out < 1)
        return sg_infer_fail(a, SG_E_SHAPE, "the padding takes all %lld %s away", (long long)size,
                             axis == 0 ? "rows" : "columns");
    return SG_OK;
}

static sg_status infer_transpose(const sg_infer_args *a)
{
    if (a->n_in != 2 && a->n_in != 3)
        return sg_infer_fail(a, SG_E_ARGUMENT, "needs two or three inputs");
    SG_TRY(check_inputs(a, AXES_W));
    SG_TRY(sg_window_check(a));
    const sg_shape *y = &a->in_shape[0], *w = &a->in_shape[1];
    sg_shape *x = &a->out_shape[0];
    if (a->n_in == 3) {
        SG_TRY(sg_require_rank4(a, 2, AXES_X));
        *x = a->in_shape[2];
        return require_places(a, x, w, y);
    }
    if (a->attr[OUTPUT_PADDING].count != 2)
        return sg_infer_fail(a, SG_E_ARGUMENT, "output padding needs 2 numbers");
    *x = *y;
    x->name[1] = NULL;
    if (a->attr[GROUPS].i < 1 || !sg_mul_ok(w->dim[1], a->attr[GROUPS].i, &x->dim[1]))
        return sg_infer_fail(a, SG_E_ARGUMENT, "the number of groups is %lld", (long long)a->attr[GROUPS].i);
    for (int32_t axis = 0; axis < 2; axis++) {
        SG_TRY(covered(a, axis, y->dim[2 + axis], w->dim[2 + axis], a->attr[OUTPUT_PADDING].ints[axis],
                       &x->dim[2 + axis]));
        sg_window_axis v = sg_window_of(a->attr, axis, x->dim[2 + axis], w->dim[2 + axis], y->dim[2 + axis]);
        if (!sg_window_keeps_size(&v))
            x->name[2 + axis] = NULL;
    }
    return require_places(a, x, w, y);
}

/* -------------------------------------------------------------------------------------------------------- builders */

static sg_value transpose_like(sg_value y, sg_value w, sg_value model, const sg_attr *attr)
{
    static const int64_t none[2] = {0, 0};
    sg_attr all[] = {attr[0], attr[1], attr[2], attr[GROUPS], sg_attr_ints(none, 2)};
    return sg_build_op(&sg_op_conv_transpose2d, (sg_value[]){y, w, model}, 3, all);
}

static sg_value weight_grad(sg_value x, sg_value y, sg_value model, const sg_attr *attr)
{
    return sg_build_op(&sg_op_conv2d_weight_grad, (sg_value[]){x, y, model}, 3, attr);
}

static sg_value conv(sg_value x, sg_value w, const sg_attr *attr)
{
    return sg_build_op(&sg_op_conv2d, (sg_value[]){x, w}, 2, attr);
}

sg_value sg_conv2d(sg_value x, sg_value w, sg_window window, int64_t groups)
{
    sg_window_room room;
    sg_attr attr[OUTPUT_PADDING];
    sg_window_attrs(&window, &room, attr);
    attr[GROUPS] = sg_attr_int(groups);
    return conv(x, w, attr);
}

sg_value sg_conv_transpose2d(sg_value x, sg_value w, sg_window window, int64_t groups, int64_t more_rows,
                             int64_t more_columns)
{
    sg_window_room room;
    sg_attr attr[OUTPUT_PADDING + 1];
    const int64_t more[] = {more_rows, more_columns};
    sg_window_attrs(&window, &room, attr);
    attr[GROUPS] = sg_attr_int(groups);
    attr[OUTPUT_PADDING] = sg_attr_ints(more, 2);
    return sg_build_op(&sg_op_conv_transpose2d, (sg_value[]){x, w}, 2, attr);
}

/* ------------------------------------------------------------------------------------------------ derivative rules */

static void vjp_conv(const sg_vjp_args *a)
{
    if (a->need[0])
        a->gin[0] = transpose_like(a->gout[0], a->in[1], a->in[0], a->node->attr);
    if (a->need[1])
        a->gin[1] = weight_grad(a->in[0], a->gout[0], a->in[1], a->node->attr);
}

static void vjp_transpose(const sg_vjp_args *a)
{
    if (a->need[0])
        a->gin[0] = conv(a->gout[0], a->in[1], a->node->attr);
    if (a->need[1])
        a->gin[1] = weight_grad(a->gout[0], a->in[0], a->in[1], a->node->attr);
}

static void vjp_weight_grad(const sg_vjp_args *a)
{
    if (a->need[0])
        a->gin[0] = transpose_like(a->in[1], a->gout[0], a->in[0], a->node->attr);
    if (a->need[1])
        a->gin[1] = conv(a->in[0], a->gout[0], a->node->attr);
}

/* ----------------------------------------------------------------------------------------------- reference kernels */

typedef struct sizes {
    int64_t images, groups, in, out; /* channels of a group */
    sg_window_axis row, col;
} sizes;

static sizes sizes_of(const sg_attr *attr, const sg_shape *x, const sg_shape *w, const sg_shape *y)
{
    return (sizes){
        .images = x->dim[0],
        .groups = attr[GROUPS].i,
        .in = w->dim[1],
        .out = w->dim[0] / attr[GROUPS].i,
        .row = sg_window_of(attr, 0, x->dim[2], w->dim[2], y->dim[2]),
        .col = sg_window_of(attr, 1, x->dim[3], w->dim[3], y->dim[3]),
    };
}

enum { WANT_X, WANT_W, WANT_Y };

/* All taps of the place (i, j) of channel o of image n. */
static void add_place(const sizes *s, int64_t n, int64_t o, int64_t i, int64_t j, double *x, double *w, double *y,
                      int want)
{
    int64_t group = o / s->out;
    double *at_y = y + ((n * s->groups * s->out + o) * s->row.places + i) * s->col.places + j;
    for (int64_t c = 0; c < s->in; c++) {
        for (int64_t p = 0; p < s->row.kernel; p++) {
            for (int64_t q = 0; q < s->col.kernel; q++) {
                int64_t h = sg_window_element(&s->row, i, p), v = sg_window_element(&s->col, j, q);
                if (h < 0 || h >= s->row.size || v < 0 || v >= s->col.size)
                    continue;
                double *at_x = x + (((n * s->groups + group) * s->in + c) * s->row.size + h) * s->col.size + v;
                double *at_w = w + ((o * s->in + c) * s->row.kernel + p) * s->col.kernel + q;
                if (want == WANT_X)
                    *at_x += *at_w * *at_y;
                else if (want == WANT_W)
                    *at_w += *at_x * *at_y;
                else
                    *at_y += *at_x * *at_w;
            }
        }
    }
}

/* One of the three tensors, which starts as zeros, from the other two. */
static void contract(const sg_attr *attr, sg_tensor64 x, sg_tensor64 w, sg_tensor64 y, int want)
{
    sizes s = sizes_of(attr, x.shape, w.shape, y.shape);
    sg_tensor64 result = want == WANT_X ? x : want == WANT_W ? w : y;
    for (int64_t i = 0, n = sg_shape_count(result.shape); i < n; i++)
        result.data[i] = 0;
    for (int64_t n = 0; n < s.images; n++)
        for (int64_t o = 0; o < s.groups * s.out; o++)
            for (int64_t i = 0; i < s.row.places; i++)
                for (int64_t j = 0; j < s.col.places; j++)
                    add_place(&s, n, o, i, j, x.data, w.data, y.data, want);
}

static void eval_conv(const sg_eval_args *a) { contract(a->attr, a->in[0], a->in[1], a->out[0], WANT_Y); }

static void eval_transpose(const sg_eval_args *a) { contract(a->attr, a->out[0], a->in[1], a->in[0], WANT_X); }

static void eval_weight_grad(const sg_eval_args *a) { contract(a->attr, a->in[0], a->out[0], a->in[1], WANT_W); }

/* A product and a sum for each tap of each place, taps on the padding counted too. */
static sg_cost cost_of(const sg_cost_args *a, const sg_shape *w, const sg_shape *y)
{
    double taps = (double)w->dim[1] * (double)w->dim[2] * (double)w->dim[3];
    double elements = (double)sg_shape_count(&a->in_shape[0]) + (double)sg_shape_count(&a->in_shape[1]) +
                      (double)sg_shape_count(&a->out_shape[0]);
    return (sg_cost){2 * (double)sg_shape_count(y) * taps, elements * (double)sg_dtype_size(a->out_dtype[0])};
}

static sg_cost cost_conv(const sg_cost_args *a) { return cost_of(a, &a->in_shape[1], &a->out_shape[0]); }

static sg_cost cost_transpose(const sg_cost_args *a) { return cost_of(a, &a->in_shape[1], &a->in_shape[0]); }

static sg_cost cost_weight_grad(const sg_cost_args *a) { return cost_of(a, &a->out_shape[0], &a->in_shape[1]); }

const sg_op sg_op_conv2d = {
    .name = "conv2d",
    .summary = "y[n, o] = sum over channels and taps of x[n, c] at the window times w[o, c]",
    .n_in = 2,
    .n_out = 1,
    .flags = SG_OP_LOW,
    .linear = 3,
    .attrs = attrs,
    .n_attrs = OUTPUT_PADDING,
    .infer = infer_conv,
    .vjp = vjp_conv,
    .eval = eval_conv,
    .cost = cost_conv,
};

const sg_op sg_op_conv_transpose2d = {
    .name = "conv_transpose2d",
    .summary = "the transpose of conv2d in x: its gradient, or a convolution that enlarges",
    .n_in = SG_VARIADIC,
    .n_out = 1,
    .flags = SG_OP_LOW,
    .linear = 3,
    .shape_only = 1 << 2,
    .attrs = attrs,
    .n_attrs = OUTPUT_PADDING + 1,
    .infer = infer_transpose,
    .vjp = vjp_transpose,
    .eval = eval_transpose,
    .cost = cost_transpose,
};

const sg_op sg_op_conv2d_weight_grad = {
    .name = "conv2d_weight_grad",
    .summary = "the transpose of conv2d in w: sum of x at the window times y, shaped like a model",
    .n_in = 3,
    .n_out = 1,
    .flags = SG_OP_LOW,
    .linear = 3,
    .shape_only = 1 << 2,
    .attrs = attrs,
    .n_attrs = OUTPUT_PADDING,
    .infer = infer_weight_grad,
    .vjp = vjp_weight_grad,
    .eval = eval_weight_grad,
    .cost = cost_weight_grad,
};
