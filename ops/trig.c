/* trig.c - sin, cos. */
#include "ops/ops_internal.h"

#include <math.h>

SG_EVAL_UNARY(sin_eval, sin(x))
static void sin_vjp(const sg_vjp_args *args) { args->gin[0] = sg_mul(args->gout[0], sg_cos(args->in[0])); }
SG_UNARY_OP(sin, "sin x", 0, 0, sin_eval, sin_vjp)

SG_EVAL_UNARY(cos_eval, cos(x))
static void cos_vjp(const sg_vjp_args *args) { args->gin[0] = sg_neg(sg_mul(args->gout[0], sg_sin(args->in[0]))); }
SG_UNARY_OP(cos, "cos x", 0, 0, cos_eval, cos_vjp)
