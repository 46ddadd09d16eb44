/* gelu.c - Gaussian error linear units (Hendrycks and Gimpel 2016), exact and in the tanh form. */
#include "ops/ops_internal.h"

#include <math.h>

/* Beyond +-SATURATED densities and lower tails are 0 in every precision. Where they meet a power of x, that power sees x clipped
 * to this range, so that it cannot overflow into inf * 0. */
#define SATURATED 100.0
static sg_value saturate(sg_value x) { return sg_clip(x, -SATURATED, SATURATED); }
static double saturate_64(double x) { return x < -SATURATED ? -SATURATED : x > SATURATED ? SATURATED : x; }
static sg_value saturate_below(sg_value x) { return sg_clip(x, -SATURATED, INFINITY); }
static double saturate_below_64(double x) { return x < -SATURATED ? -SATURATED : x; }

/* e^(-x^2 / 2) / sqrt(2 pi) */
static sg_value density(sg_value x)
{
    return sg_mul_scalar(sg_exp(sg_mul_scalar(sg_square(x), -0.5)), 0.5 * M_2_SQRTPI * M_SQRT1_2);
}

/* P(Z <= x) = erfc(-x / sqrt 2) / 2: the same as (1 + erf(x / sqrt 2)) / 2 without the cancellation at x << 0. */
static sg_value distribution(sg_value x) { return sg_mul_scalar(sg_erfc(sg_mul_scalar(x, -M_SQRT1_2)), 0.5); }
static double distribution_64(double x) { return 0.5 * erfc(-M_SQRT1_2 * x); }

SG_EVAL_UNARY(gelu_eval, saturate_below_64(x) * distribution_64(x))
static void gelu_decompose(const sg_decompose_args *args)
{
    args->out[0] = sg_mul(saturate_below(args->in[0]), distribution(args->in[0]));
}

static void gelu_vjp(const sg_vjp_args *args)
{
    args->gin[0] = sg_mul(args->gout[0], sg_build_unary(&sg_op_gelu_derivative, args->in[0]));
}

const sg_op sg_op_gelu = {
    .name = "gelu",
    .summary = "x (1 + erf(x / sqrt 2)) / 2",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_ELEMENTWISE | SG_OP_COMPOSITE,
    .infer = sg_infer_unary,
    .vjp = gelu_vjp,
    .decompose = gelu_decompose,
    .eval = gelu_eval,
};

/* P(Z <= x) + x p(x) with the density p. As p' = -x p, its derivative is p(x) (2 - x^2). */
SG_EVAL_UNARY(derivative_eval, distribution_64(x) + 0.5 * M_2_SQRTPI * M_SQRT1_2 * saturate_64(x) * exp(-0.5 * x * x))
static void derivative_decompose(const sg_decompose_args *args)
{
    sg_value x = args->in[0];
    args->out[0] = sg_add(distribution(x), sg_mul(saturate(x), density(x)));
}

static void derivative_vjp(const sg_vjp_args *args)
{
    sg_value x = saturate(args->in[0]);
    sg_value slope = sg_mul(density(x), sg_sub(sg_number(x, 2), sg_square(x)));
    args->gin[0] = sg_mul(args->gout[0], slope);
}

const sg_op sg_op_gelu_derivative = {
    .name = "gelu_derivative",
    .summary = "(1 + erf(x / sqrt 2)) / 2 + x e^(-x^2 / 2) / sqrt(2 pi), the derivative of gelu",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_ELEMENTWISE | SG_OP_COMPOSITE,
    .infer = sg_infer_unary,
    .vjp = derivative_vjp,
    .decompose = derivative_decompose,
    .eval = derivative_eval,
};

sg_value sg_gelu(sg_value x) { return sg_build_unary(&sg_op_gelu, x); }

/* x (1 + tanh u) / 2 = x s(2u) with u = sqrt(2 / pi) (x + 0.044715 x^3). The cube sees x clipped to +-SATURATED: there
 * s(2u) is 0 or 1 to the last bit in every precision, and its slope is 0. */
#define CUBIC 0.044715
#define TWICE_SQRT_2_PI (2 * M_SQRT2 / sqrt(M_PI))

static double gelu_tanh_64(double x)
{
    double c = saturate_64(x);
    return saturate_below_64(x) * sg_sigmoid64(TWICE_SQRT_2_PI * (c + CUBIC * c * c * c));
}

SG_EVAL_UNARY(gelu_tanh_eval, gelu_tanh_64(x))
static void gelu_tanh_decompose(const sg_decompose_args *args)
{
    sg_value x = args->in[0], c = saturate(x);
    sg_value factor = sg_add_scalar(sg_mul_scalar(sg_square(c), CUBIC), 1);
    sg_value twice_u = sg_mul_scalar(sg_mul(c, factor), TWICE_SQRT_2_PI);
    args->out[0] = sg_mul(saturate_below(x), sg_sigmoid(twice_u));
}

const sg_op sg_op_gelu_tanh = {
    .name = "gelu_tanh",
    .summary = "x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_ELEMENTWISE | SG_OP_COMPOSITE,
    .infer = sg_infer_unary,
    .decompose = gelu_tanh_decompose,
    .eval = gelu_tanh_eval,
};

sg_value sg_gelu_tanh(sg_value x) { return sg_build_unary(&sg_op_gelu_tanh, x); }
