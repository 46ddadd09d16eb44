/* sign.c - neg, abs, sign, floor. */
#include "ops/ops_internal.h"

#include <math.h>

SG_EVAL_UNARY(neg_eval, -x)
static void neg_vjp(const sg_vjp_args *args) { args->gin[0] = sg_neg(args->gout[0]); }
SG_UNARY_OP(neg, "-x", 0, 1, neg_eval, neg_vjp)

/* sign(0) = 0, and NaN stays NaN. */
SG_EVAL_UNARY(sign_eval, x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x)
SG_UNARY_OP(sign, "-1, 0 or 1", SG_OP_ZERO_GRAD, 0, sign_eval, NULL)

/* abs' = sign, so abs'(0) = 0, and the second derivative is zero everywhere. */
SG_EVAL_UNARY(abs_eval, fabs(x))
static void abs_vjp(const sg_vjp_args *args) { args->gin[0] = sg_mul(args->gout[0], sg_sign(args->in[0])); }
SG_UNARY_OP(abs, "|x|", 0, 0, abs_eval, abs_vjp)

SG_EVAL_UNARY(floor_eval, floor(x))
SG_UNARY_OP(floor, "largest whole number <= x", SG_OP_ZERO_GRAD, 0, floor_eval, NULL)
