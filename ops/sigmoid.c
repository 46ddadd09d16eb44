/* sigmoid.c - tanh, sigmoid, log_sigmoid, softplus. All derivatives are products of sigmoids of x and -x: 1 - s(x) and
 * 1 - tanh(x)^2 are 0 in the tails long before the true value is. */
#include "ops/ops_internal.h"

#include <math.h>

/* tanh' = 1 - tanh^2 = 4 / (e^x + e^-x)^2 = 4 s(2x) s(-2x), with s(2x) = e^x / (e^x + e^-x). */
SG_EVAL_UNARY(tanh_eval, tanh(x))
static void tanh_vjp(const sg_vjp_args *args)
{
    sg_value twice = sg_mul_scalar(args->in[0], 2);
    sg_value slope = sg_mul(sg_sigmoid(twice), sg_sigmoid(sg_neg(twice)));
    args->gin[0] = sg_mul(args->gout[0], sg_mul_scalar(slope, 4));
}
SG_UNARY_OP(tanh, "tanh x", 0, 0, tanh_eval, tanh_vjp)

/* s' = e^-x / (1 + e^-x)^2 = s(x) s(-x). */
SG_EVAL_UNARY(sigmoid_eval, sg_sigmoid64(x))
static void sigmoid_vjp(const sg_vjp_args *args)
{
    sg_value slope = sg_mul(args->out[0], sg_sigmoid(sg_neg(args->in[0])));
    args->gin[0] = sg_mul(args->gout[0], slope);
}
SG_UNARY_OP(sigmoid, "1 / (1 + e^-x)", 0, 0, sigmoid_eval, sigmoid_vjp)

/* (log s)' = s' / s = s(-x). */
SG_EVAL_UNARY(log_sigmoid_eval, -sg_softplus64(-x))
static void log_sigmoid_vjp(const sg_vjp_args *args)
{
    args->gin[0] = sg_mul(args->gout[0], sg_sigmoid(sg_neg(args->in[0])));
}
SG_UNARY_OP(log_sigmoid, "log sigmoid(x) = -softplus(-x)", SG_OP_FULL, 0, log_sigmoid_eval, log_sigmoid_vjp)

/* softplus' = e^x / (1 + e^x) = s(x). */
SG_EVAL_UNARY(softplus_eval, sg_softplus64(x))
static void softplus_vjp(const sg_vjp_args *args) { args->gin[0] = sg_mul(args->gout[0], sg_sigmoid(args->in[0])); }
SG_UNARY_OP(softplus, "log(1 + e^x)", 0, 0, softplus_eval, softplus_vjp)
