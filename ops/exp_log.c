/* exp_log.c - exp, expm1, log, log1p. */
#include "ops/ops_internal.h"

#include <math.h>

/* exp' = exp. */
SG_EVAL_UNARY(exp_eval, exp(x))
static void exp_vjp(const sg_vjp_args *args) { args->gin[0] = sg_mul(args->gout[0], args->out[0]); }
SG_UNARY_OP(exp, "e^x", SG_OP_FULL, 0, exp_eval, exp_vjp)

/* expm1' = e^x, computed as such: expm1(x) + 1 has lost the tail at x << 0. */
SG_EVAL_UNARY(expm1_eval, expm1(x))
static void expm1_vjp(const sg_vjp_args *args) { args->gin[0] = sg_mul(args->gout[0], sg_exp(args->in[0])); }
SG_UNARY_OP(expm1, "e^x - 1, exact near 0", SG_OP_FULL, 0, expm1_eval, expm1_vjp)

/* log' = 1 / x. */
SG_EVAL_UNARY(log_eval, log(x))
static void log_vjp(const sg_vjp_args *args) { args->gin[0] = sg_div(args->gout[0], args->in[0]); }
SG_UNARY_OP(log, "log x", SG_OP_FULL, 0, log_eval, log_vjp)

/* log1p' = 1 / (1 + x). */
SG_EVAL_UNARY(log1p_eval, log1p(x))
static void log1p_vjp(const sg_vjp_args *args) { args->gin[0] = sg_div(args->gout[0], sg_add_scalar(args->in[0], 1)); }
SG_UNARY_OP(log1p, "log(1 + x), exact near 0", SG_OP_FULL, 0, log1p_eval, log1p_vjp)
