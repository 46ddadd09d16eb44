/* rectifier.c - relu, leaky_relu, elu, clip: piecewise functions. The rules route the cotangent with `where`, on the
 * input, so the side not taken gets an exact zero at every order. */
#include "ops/ops_internal.h"

#include <math.h>

static const sg_attr_spec slope_attrs[] = {{"slope", SG_ATTR_REAL}};
static const sg_attr_spec elu_attrs[] = {{"alpha", SG_ATTR_REAL}};
static const sg_attr_spec clip_attrs[] = {{"low", SG_ATTR_REAL}, {"high", SG_ATTR_REAL}};

static sg_value is_positive(sg_value x) { return sg_greater(x, sg_number(x, 0)); }

/* relu'(0) = 0. Written with <= so that NaN falls through to x. */
SG_EVAL_UNARY(relu_eval, x <= 0 ? 0 : x)
static void relu_vjp(const sg_vjp_args *args)
{
    sg_value x = args->in[0], g = args->gout[0];
    args->gin[0] = sg_where(is_positive(x), g, sg_number(x, 0));
}
SG_UNARY_OP(relu, "max(x, 0)", 0, 0, relu_eval, relu_vjp)

/* The slope at 0 is that of the negative side. */
SG_EVAL_UNARY(leaky_relu_eval, x <= 0 ? attr[0].f * x : x)
static void leaky_relu_vjp(const sg_vjp_args *args)
{
    sg_value x = args->in[0], g = args->gout[0];
    args->gin[0] = sg_where(is_positive(x), g, sg_mul_scalar(g, args->node->attr[0].f));
}

const sg_op sg_op_leaky_relu = {
    .name = "leaky_relu",
    .summary = "x if x > 0, else slope x",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_ELEMENTWISE,
    .attrs = slope_attrs,
    .n_attrs = 1,
    .infer = sg_infer_unary,
    .vjp = leaky_relu_vjp,
    .eval = leaky_relu_eval,
};

sg_value sg_leaky_relu(sg_value x, double slope)
{
    return sg_build_op(&sg_op_leaky_relu, &x, 1, (sg_attr[]){sg_attr_real(slope)});
}

/* elu' = alpha e^x for x <= 0. The exponential sees min(x, 0) only, by `where`: e^x would overflow at large x and
 * 0 * inf would reach the next order. */
SG_EVAL_UNARY(elu_eval, x <= 0 ? attr[0].f * expm1(x) : x)
static void elu_vjp(const sg_vjp_args *args)
{
    sg_value x = args->in[0], g = args->gout[0], positive = is_positive(x);
    sg_value slope = sg_mul_scalar(sg_exp(sg_where(positive, sg_number(x, 0), x)), args->node->attr[0].f);
    args->gin[0] = sg_where(positive, g, sg_mul(g, slope));
}

const sg_op sg_op_elu = {
    .name = "elu",
    .summary = "x if x > 0, else alpha (e^x - 1)",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_ELEMENTWISE,
    .attrs = elu_attrs,
    .n_attrs = 1,
    .infer = sg_infer_unary,
    .vjp = elu_vjp,
    .eval = elu_eval,
};

sg_value sg_elu(sg_value x, double alpha) { return sg_build_op(&sg_op_elu, &x, 1, (sg_attr[]){sg_attr_real(alpha)}); }

/* clip' = 1 on the closed interval [low, high], else 0. */
SG_EVAL_UNARY(clip_eval, x<attr[0].f ? attr[0].f : x> attr[1].f ? attr[1].f : x)
static void clip_vjp(const sg_vjp_args *args)
{
    sg_value x = args->in[0];
    sg_value above = sg_greater_equal(x, sg_number(x, args->node->attr[0].f));
    sg_value below = sg_less_equal(x, sg_number(x, args->node->attr[1].f));
    args->gin[0] = sg_where(sg_logical_and(above, below), args->gout[0], sg_number(x, 0));
}

static sg_status clip_infer(const sg_infer_args *args)
{
    double low = args->attr[0].f, high = args->attr[1].f;
    if (!(low <= high))
        return sg_infer_fail(args, SG_E_ARGUMENT, "bounds [%g, %g] are not an interval", low, high);
    return sg_infer_unary(args);
}

const sg_op sg_op_clip = {
    .name = "clip",
    .summary = "min(max(x, low), high)",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_ELEMENTWISE | SG_OP_ANY_REAL,
    .attrs = clip_attrs,
    .n_attrs = 2,
    .infer = clip_infer,
    .vjp = clip_vjp,
    .eval = clip_eval,
};

sg_value sg_clip(sg_value x, double low, double high)
{
    return sg_build_op(&sg_op_clip, &x, 1, (sg_attr[]){sg_attr_real(low), sg_attr_real(high)});
}
