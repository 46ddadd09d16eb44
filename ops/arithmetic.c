/* arithmetic.c - add, sub, mul, div, and shorthands with a number. Broadcasting is undone by the sweep, not here. */
#include "ops/ops_internal.h"

SG_EVAL_BINARY(add_eval, a + b)
static void add_vjp(const sg_vjp_args *args)
{
    args->gin[0] = args->gout[0];
    args->gin[1] = args->gout[0];
}
SG_BINARY_OP(add, "a + b", SG_OP_COMMUTATIVE, 0, sg_infer_binary_number, add_eval, add_vjp)

SG_EVAL_BINARY(sub_eval, a - b)
static void sub_vjp(const sg_vjp_args *args)
{
    args->gin[0] = args->gout[0];
    if (args->need[1])
        args->gin[1] = sg_neg(args->gout[0]);
}
SG_BINARY_OP(sub, "a - b", 0, 0, sg_infer_binary, sub_eval, sub_vjp)

/* d(a b) = b da + a db. */
SG_EVAL_BINARY(mul_eval, a *b)
static void mul_vjp(const sg_vjp_args *args)
{
    if (args->need[0])
        args->gin[0] = sg_mul(args->gout[0], args->in[1]);
    if (args->need[1])
        args->gin[1] = sg_mul(args->gout[0], args->in[0]);
}
SG_BINARY_OP(mul, "a b", SG_OP_COMMUTATIVE, 3, sg_infer_binary, mul_eval, mul_vjp)

/* q = a / b: dq = da / b - q db / b. */
SG_EVAL_BINARY(div_eval, a / b)
static void div_vjp(const sg_vjp_args *args)
{
    sg_value scaled = sg_div(args->gout[0], args->in[1]);
    args->gin[0] = scaled;
    if (args->need[1])
        args->gin[1] = sg_neg(sg_mul(scaled, args->out[0]));
}
SG_BINARY_OP(div, "a / b", 0, 1, sg_infer_binary, div_eval, div_vjp)

sg_value sg_add_scalar(sg_value x, double c) { return sg_add(x, sg_number(x, c)); }

sg_value sg_mul_scalar(sg_value x, double c) { return sg_mul(x, sg_number(x, c)); }
