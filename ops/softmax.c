/* softmax.c - softmax, masked_softmax and log_softmax along one axis. All are composites of logsumexp; the rules below are the
 * derivatives of that decomposition in the form that reuses the output. */
#include "ops/ops_internal.h"

#include <math.h>

static const sg_attr_spec axis_attrs[] = {{"axis", SG_ATTR_INT}};

static sg_status axis_infer(const sg_infer_args *args)
{
    int32_t axis;
    SG_TRY(sg_require_axis(args, args->in_shape[0].rank, args->attr[0].i, &axis));
    return sg_infer_unary(args);
}

static int32_t axis_of(const sg_node *node) { return (int32_t)node->attr[0].i; }

static sg_value sum_keep(sg_value x, int32_t axis) { return sg_sum_axes(x, 1, &axis, true); }

/* x - logsumexp(x), as s - logsumexp(s) with s = x - max x, which is the same but keeps the digits of differences where the numbers
 * are large: in float32 logsumexp(x) of equal x is x alone from 1e8 on. A row whose largest is not finite is s itself: -inf
 * throughout is left there, not turned into -inf + inf; beside an infinity all else is -inf, and it is NaN; a NaN spreads. */
static sg_value normalise(sg_value x, int32_t axis)
{
    if (sg_shape_of(x) && sg_shape_of(x)->dim[axis < 0 ? axis + sg_shape_of(x)->rank : axis] == 0)
        return x;
    sg_value zero = sg_number(x, 0), top = sg_stop_gradient(sg_max(x, axis, true));
    sg_value s = sg_sub(x, sg_where(sg_equal(top, sg_number(x, -INFINITY)), zero, top));
    return sg_sub(s, sg_where(sg_is_finite(top), sg_logsumexp(s, axis, true), zero));
}

/* The two numbers that the decomposition subtracts one after the other. */
static double row_shift(const double *x, sg_axis_split split, double *rest)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < split.size; i++)
        top = x[i * split.inner] > top || isnan(x[i * split.inner]) ? x[i * split.inner] : top;
    *rest = 0;
    if (!isfinite(top))
        return top == -INFINITY ? 0 : top;
    for (int64_t i = 0; i < split.size; i++)
        sum += exp(x[i * split.inner] - top);
    *rest = log(sum);
    return top;
}

static void eval(const sg_eval_args *args, bool logarithm)
{
    sg_axis_split split = sg_split_at(args->in[0].shape, args->attr[0].i);
    for (int64_t o = 0; o < split.outer; o++) {
        for (int64_t j = 0; j < split.inner; j++) {
            const double *x = args->in[0].data + o * split.size * split.inner + j;
            double *y = args->out[0].data + (x - args->in[0].data);
            double rest, shift = row_shift(x, split, &rest);
            for (int64_t i = 0; i < split.size; i++) {
                double value = x[i * split.inner] - shift - rest;
                y[i * split.inner] = logarithm ? value : exp(value);
            }
        }
    }
}

/* A maximum, an exponential, a sum and a product an element. */
static sg_cost softmax_cost(const sg_cost_args *args)
{
    double n = (double)sg_shape_count(args->in_shape);
    return (sg_cost){5 * n, 2 * n * (double)sg_dtype_size(args->in_dtype[0])};
}

/* y = softmax(x): dy_i/dx_j = y_i (delta_ij - y_j), so the product with g is y (g - sum_j g_j y_j). The matrix is
 * symmetric: the forward rule is the same formula. In a row of all -inf y = 0, hence also the derivative. */
static sg_value softmax_product(sg_value y, sg_value g, int32_t axis)
{
    return sg_mul(y, sg_sub(g, sum_keep(sg_mul(g, y), axis)));
}

static void softmax_vjp(const sg_vjp_args *args)
{
    args->gin[0] = softmax_product(args->out[0], args->gout[0], axis_of(args->node));
}

static void softmax_jvp(const sg_jvp_args *args)
{
    args->tout[0] = softmax_product(args->out[0], args->tin[0], axis_of(args->node));
}

static void softmax_decompose(const sg_decompose_args *args)
{
    args->out[0] = sg_exp(normalise(args->in[0], axis_of(args->node)));
}

static void softmax_eval(const sg_eval_args *args) { eval(args, false); }

const sg_op sg_op_softmax = {
    .name = "softmax",
    .summary = "e^x_i / sum_j e^x_j along an axis; zeros for a row of all -inf",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_COMPOSITE | SG_OP_FULL,
    .attrs = axis_attrs,
    .n_attrs = 1,
    .infer = axis_infer,
    .vjp = softmax_vjp,
    .jvp = softmax_jvp,
    .decompose = softmax_decompose,
    .eval = softmax_eval,
    .cost = softmax_cost,
};

sg_value sg_softmax(sg_value x, int32_t axis)
{
    return sg_build_op(&sg_op_softmax, &x, 1, (sg_attr[]){sg_attr_int(axis)});
}

/* Softmax of x with -inf where `keep` is false, so the rules are those of softmax: y is 0 there. */
static void masked_decompose(const sg_decompose_args *args)
{
    sg_value x = sg_where(args->in[1], args->in[0], sg_number(args->in[0], -INFINITY));
    args->out[0] = sg_softmax(x, axis_of(args->node));
}

static void masked_vjp(const sg_vjp_args *args)
{
    if (args->need[0])
        args->gin[0] = softmax_product(args->out[0], args->gout[0], axis_of(args->node));
}

static sg_status masked_infer(const sg_infer_args *args)
{
    SG_TRY(axis_infer(args));
    SG_TRY(sg_require_dtype(args, 1, SG_BOOL));
    sg_shape both;
    char x[SG_SHAPE_TEXT], keep[SG_SHAPE_TEXT];
    if (sg_shape_broadcast(&args->in_shape[0], &args->in_shape[1], &both) && sg_shape_equal(&both, &args->in_shape[0]))
        return SG_OK;
    return sg_infer_fail(args, SG_E_SHAPE, "a mask of shape %s does not broadcast to %s",
                         sg_shape_format(&args->in_shape[1], keep, sizeof keep),
                         sg_shape_format(&args->in_shape[0], x, sizeof x));
}

static void masked_eval(const sg_eval_args *args)
{
    const sg_tensor64 *y = &args->out[0], masked = {y->shape, y->data};
    sg_walk walk;
    sg_walk_begin(&walk, y->shape, args->in, 2);
    for (int64_t i = 0, n = sg_shape_count(y->shape); i < n; i++, sg_walk_next(&walk))
        y->data[i] = args->in[1].data[walk.offset[1]] != 0 ? args->in[0].data[i] : -INFINITY;
    sg_eval_args softmax = *args;
    softmax.in = &masked;
    eval(&softmax, false);
}

const sg_op sg_op_masked_softmax = {
    .name = "masked_softmax",
    .summary = "softmax along an axis over the elements that a mask keeps, 0 at the others",
    .n_in = 2,
    .n_out = 1,
    .flags = SG_OP_COMPOSITE | SG_OP_FULL,
    .attrs = axis_attrs,
    .n_attrs = 1,
    .infer = masked_infer,
    .vjp = masked_vjp,
    .jvp = softmax_jvp,
    .decompose = masked_decompose,
    .eval = masked_eval,
    .cost = softmax_cost,
};

sg_value sg_masked_softmax(sg_value x, sg_value keep, int32_t axis)
{
    return sg_build_op(&sg_op_masked_softmax, (sg_value[]){x, keep}, 2, (sg_attr[]){sg_attr_int(axis)});
}

/* y_i = x_i - log sum_j e^x_j: dy_i/dx_j = delta_ij - p_j with p = softmax(x).
 *   reverse: g - p sum_i g_i.   forward: t - sum_j p_j t_j. */
static void log_softmax_vjp(const sg_vjp_args *args)
{
    int32_t axis = axis_of(args->node);
    sg_value g = args->gout[0];
    args->gin[0] = sg_sub(g, sg_mul(sg_softmax(args->in[0], axis), sum_keep(g, axis)));
}

static void log_softmax_jvp(const sg_jvp_args *args)
{
    int32_t axis = axis_of(args->node);
    sg_value t = args->tin[0];
    args->tout[0] = sg_sub(t, sum_keep(sg_mul(sg_softmax(args->in[0], axis), t), axis));
}

static void log_softmax_decompose(const sg_decompose_args *args)
{
    args->out[0] = normalise(args->in[0], axis_of(args->node));
}

static void log_softmax_eval(const sg_eval_args *args) { eval(args, true); }

const sg_op sg_op_log_softmax = {
    .name = "log_softmax",
    .summary = "x_i - log sum_j e^x_j along an axis; -inf for a row of all -inf",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_COMPOSITE | SG_OP_FULL,
    .attrs = axis_attrs,
    .n_attrs = 1,
    .infer = axis_infer,
    .vjp = log_softmax_vjp,
    .jvp = log_softmax_jvp,
    .decompose = log_softmax_decompose,
    .eval = log_softmax_eval,
    .cost = softmax_cost,
};

sg_value sg_log_softmax(sg_value x, int32_t axis)
{
    return sg_build_op(&sg_op_log_softmax, &x, 1, (sg_attr[]){sg_attr_int(axis)});
}
