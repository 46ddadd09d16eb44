/* maximum.c - maximum, minimum of two inputs. Ties give half the cotangent to each side (the middle of the
 * subdifferential); NaN in either input propagates. */
#include "ops/ops_internal.h"

#include <math.h>

/* Route g by a comparison that says where each side wins. */
static void route(const sg_vjp_args *args, sg_value (*wins)(sg_value, sg_value))
{
    sg_value a = args->in[0], b = args->in[1], g = args->gout[0];
    sg_value tie = sg_equal(a, b), half = sg_mul_scalar(g, 0.5), zero = sg_number(g, 0);
    if (args->need[0])
        args->gin[0] = sg_where(tie, half, sg_where(wins(a, b), g, zero));
    if (args->need[1])
        args->gin[1] = sg_where(tie, half, sg_where(wins(b, a), g, zero));
}

static void maximum_vjp(const sg_vjp_args *args) { route(args, sg_greater); }
SG_EVAL_BINARY(maximum_eval, isnan(a) ? a : isnan(b) ? b : a < b ? b : a)
SG_BINARY_OP(maximum, "max(a, b)", SG_OP_COMMUTATIVE, 0, sg_infer_binary, maximum_eval, maximum_vjp)

static void minimum_vjp(const sg_vjp_args *args) { route(args, sg_less); }
SG_EVAL_BINARY(minimum_eval, isnan(a) ? a : isnan(b) ? b : a > b ? b : a)
SG_BINARY_OP(minimum, "min(a, b)", SG_OP_COMMUTATIVE, 0, sg_infer_binary, minimum_eval, minimum_vjp)
