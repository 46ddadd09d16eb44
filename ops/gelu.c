/* gelu.c - Gaussian error linear units (Hendrycks and Gimpel 2016), exact and in the tanh form. */
#include "ops/ops_internal.h"

#include <math.h>

/* x P(Z <= x) = x erfc(-x / sqrt 2) / 2: the same as x (1 + erf(x / sqrt 2)) / 2 without the cancellation at x << 0. */
SG_EVAL_UNARY(gelu_eval, 0.5 * x * erfc(-M_SQRT1_2 * x))
static void gelu_decompose(const sg_decompose_args *args)
{
    sg_value x = args->in[0];
    sg_value twice_p = sg_erfc(sg_mul_scalar(x, -M_SQRT1_2));
    args->out[0] = sg_mul(sg_mul_scalar(x, 0.5), twice_p);
}

const sg_op sg_op_gelu = {
    .name = "gelu",
    .summary = "x (1 + erf(x / sqrt 2)) / 2",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_ELEMENTWISE | SG_OP_COMPOSITE,
    .infer = sg_infer_unary,
    .decompose = gelu_decompose,
    .eval = gelu_eval,
};

sg_value sg_gelu(sg_value x) { return sg_build_unary(&sg_op_gelu, x); }

/* x (1 + tanh u) / 2 = x s(2u) with u = sqrt(2 / pi) (x + 0.044715 x^3). The cube sees x clipped to +-SATURATED: there
 * s(2u) is 0 or 1 to the last bit in every precision, its slope is 0, and x^3 can no longer overflow into inf * 0. */
#define SATURATED 100.0
#define CUBIC 0.044715
#define TWICE_SQRT_2_PI (2 * M_SQRT2 / sqrt(M_PI))

static double gelu_tanh_64(double x)
{
    double c = fmin(fmax(x, -SATURATED), SATURATED);
    return x * sg_sigmoid64(TWICE_SQRT_2_PI * (c + CUBIC * c * c * c));
}

SG_EVAL_UNARY(gelu_tanh_eval, gelu_tanh_64(x))
static void gelu_tanh_decompose(const sg_decompose_args *args)
{
    sg_value x = args->in[0], c = sg_clip(x, -SATURATED, SATURATED);
    sg_value factor = sg_add_scalar(sg_mul_scalar(sg_square(c), CUBIC), 1);
    sg_value twice_u = sg_mul_scalar(sg_mul(c, factor), TWICE_SQRT_2_PI);
    args->out[0] = sg_mul(x, sg_sigmoid(twice_u));
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
