/* erf.c - erf, erfc. Both are primitives: 1 - erf(x) is 0 from x = 6 on, where erfc(x) still has all its digits. */
#include "ops/ops_internal.h"

#include <math.h>

/* 2 / sqrt(pi) e^(-x^2), the derivative of erf. */
static sg_value gauss(sg_value x) { return sg_mul_scalar(sg_exp(sg_neg(sg_square(x))), M_2_SQRTPI); }

SG_EVAL_UNARY(erf_eval, erf(x))
static void erf_vjp(const sg_vjp_args *args) { args->gin[0] = sg_mul(args->gout[0], gauss(args->in[0])); }
SG_UNARY_OP(erf, "2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x", 0, 0, erf_eval, erf_vjp)

SG_EVAL_UNARY(erfc_eval, erfc(x))
static void erfc_vjp(const sg_vjp_args *args) { args->gin[0] = sg_neg(sg_mul(args->gout[0], gauss(args->in[0]))); }
SG_UNARY_OP(erfc, "1 - erf(x), exact in the tail", 0, 0, erfc_eval, erfc_vjp)
