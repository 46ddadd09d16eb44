/* power.c - pow, xlogy: functions of two inputs with singular points that the rules must step around. The pattern is
 * where(bad, safe, f(where(bad, harmless, x))): the inner `where` keeps infinities out of f and of its derivatives,
 * for a zero cotangent times an infinite slope is NaN, not zero. */
#include "ops/ops_internal.h"

#include <math.h>

static sg_value is_zero(sg_value x) { return sg_equal(x, sg_number(x, 0)); }

/* p = a^b.
 *   dp/da = b a^(b-1). Only at a = b = 0 is this 0 * inf instead of 0; the exponent there is taken as 1 - 1,
 *     giving 0 * 1. Since the rule applies to a^(b-1) again, a = 0 with b = 1, 2, .. is right at every order.
 *   dp/db = a^b log a, whose limit at a = 0 is 0 for b > 0; taken as 0 for every b, with its derivatives. */
static void pow_vjp(const sg_vjp_args *args)
{
    sg_value a = args->in[0], b = args->in[1], g = args->gout[0];
    sg_value zero_base = is_zero(a);
    if (args->need[0]) {
        sg_value exponent = sg_where(sg_logical_and(zero_base, is_zero(b)), sg_number(b, 1), b);
        args->gin[0] = sg_mul(g, sg_mul(b, sg_pow(a, sg_add_scalar(exponent, -1))));
    }
    if (args->need[1]) {
        sg_value base = sg_where(zero_base, sg_number(a, 1), a);
        sg_value slope = sg_where(zero_base, sg_number(a, 0), sg_mul(sg_pow(base, b), sg_log(base)));
        args->gin[1] = sg_mul(g, slope);
    }
}
SG_EVAL_BINARY(pow_eval, pow(a, b))
SG_BINARY_OP(pow, "a^b, 0^0 = 1", SG_OP_FULL, 0, sg_infer_binary, pow_eval, pow_vjp)

/* f = x log y, and 0 at x = 0 unless y is NaN. df/dx = log y, df/dy = x / y; where x = 0 and y <= 0 both are taken
 * as 0. */
static void xlogy_vjp(const sg_vjp_args *args)
{
    sg_value x = args->in[0], y = args->in[1], g = args->gout[0];
    sg_value bad = sg_logical_and(is_zero(x), sg_less_equal(y, sg_number(y, 0)));
    sg_value safe_y = sg_where(bad, sg_number(y, 1), y);
    if (args->need[0])
        args->gin[0] = sg_mul(g, sg_log(safe_y));
    if (args->need[1])
        args->gin[1] = sg_mul(g, sg_div(sg_where(bad, sg_number(x, 0), x), safe_y));
}
SG_EVAL_BINARY(xlogy_eval, a == 0 && !isnan(b) ? 0 : a * log(b))
SG_BINARY_OP(xlogy, "a log b, 0 at a = 0", SG_OP_FULL, 0, sg_infer_binary, xlogy_eval, xlogy_vjp)
