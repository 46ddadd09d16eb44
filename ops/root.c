/* root.c - sqrt, rsqrt, square, reciprocal. */
#include "ops/ops_internal.h"

#include <math.h>

/* sqrt' = 1 / (2 sqrt x), infinite at 0. */
SG_EVAL_UNARY(sqrt_eval, sqrt(x))
static void sqrt_vjp(const sg_vjp_args *args)
{
    args->gin[0] = sg_div(sg_mul_scalar(args->gout[0], 0.5), args->out[0]);
}
SG_UNARY_OP(sqrt, "square root", SG_OP_FULL, 0, sqrt_eval, sqrt_vjp)

/* y = x^(-1/2), y' = -x^(-3/2) / 2 = -(y / x) / 2. */
SG_EVAL_UNARY(rsqrt_eval, 1 / sqrt(x))
static void rsqrt_vjp(const sg_vjp_args *args)
{
    sg_value slope = sg_mul_scalar(sg_div(args->out[0], args->in[0]), -0.5);
    args->gin[0] = sg_mul(args->gout[0], slope);
}
SG_UNARY_OP(rsqrt, "1 / sqrt x", SG_OP_FULL, 0, rsqrt_eval, rsqrt_vjp)

/* (x^2)' = 2 x. */
SG_EVAL_UNARY(square_eval, x *x)
static void square_vjp(const sg_vjp_args *args) { args->gin[0] = sg_mul(args->gout[0], sg_mul_scalar(args->in[0], 2)); }
SG_UNARY_OP(square, "x^2", 0, 0, square_eval, square_vjp)

/* y = 1 / x, y' = -y^2. */
SG_EVAL_UNARY(reciprocal_eval, 1 / x)
static void reciprocal_vjp(const sg_vjp_args *args)
{
    args->gin[0] = sg_neg(sg_mul(args->gout[0], sg_square(args->out[0])));
}
SG_UNARY_OP(reciprocal, "1 / x", SG_OP_FULL, 0, reciprocal_eval, reciprocal_vjp)
