/* logaddexp.c - y = log(e^a + e^b) = max(a, b) + softplus(-|a - b|), the log domain's sum.
 *
 * Its slopes are the shares s(a - b) of a and s(b - a) of b, s the sigmoid. Equal infinities must not be subtracted: there
 * a - b counts as 0. A side at -inf is an absent term: it has slope 0, also when both are. */
#include "ops/ops_internal.h"

#include <math.h>

static sg_value difference(sg_value a, sg_value b) { return sg_where(sg_equal(a, b), sg_number(a, 0), sg_sub(a, b)); }

static sg_value share(sg_value of, sg_value other)
{
    return sg_where(sg_equal(of, sg_number(of, -INFINITY)), sg_number(of, 0), sg_sigmoid(difference(of, other)));
}

static void vjp(const sg_vjp_args *args)
{
    sg_value a = args->in[0], b = args->in[1], g = args->gout[0];
    if (args->need[0])
        args->gin[0] = sg_mul(g, share(a, b));
    if (args->need[1])
        args->gin[1] = sg_mul(g, share(b, a));
}

static void decompose(const sg_decompose_args *args)
{
    sg_value a = args->in[0], b = args->in[1];
    args->out[0] = sg_add(sg_maximum(a, b), sg_softplus(sg_neg(sg_abs(difference(a, b)))));
}

static double logaddexp64(double a, double b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    double top = a > b ? a : b;
    return isinf(top) ? top : top + log1p(exp((a > b ? b : a) - top));
}

SG_EVAL_BINARY(eval, logaddexp64(a, b))

const sg_op sg_op_logaddexp = {
    .name = "logaddexp",
    .summary = "log(e^a + e^b)",
    .n_in = 2,
    .n_out = 1,
    .flags = SG_OP_ELEMENTWISE | SG_OP_COMPOSITE | SG_OP_COMMUTATIVE | SG_OP_FULL,
    .infer = sg_infer_binary,
    .vjp = vjp,
    .decompose = decompose,
    .eval = eval,
};

sg_value sg_logaddexp(sg_value a, sg_value b) { return sg_build_binary(&sg_op_logaddexp, a, b); }
