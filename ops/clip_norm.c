/* clip_norm.c - the factor of gradient clipping by the global norm. */
#include "ops/ops_internal.h"

/* sqrt(x) with derivative 0 at 0: the norm's subgradient of least length. The inner `where` keeps sqrt'(0) = inf from
 * meeting the zero cotangent. */
static sg_value norm_of(sg_value squares)
{
    sg_value zero = sg_equal(squares, sg_number(squares, 0));
    return sg_where(zero, sg_number(squares, 0), sg_sqrt(sg_where(zero, sg_number(squares, 1), squares)));
}

sg_value sg_clip_factor(const sg_value *g, int32_t n, double limit, sg_value *norm)
{
    sg_value squares = SG_NONE;
    if (n > 0 && !sg_require_setting(g[0], limit >= 0, "clip_factor", "limit", limit, "in [0, inf]"))
        return SG_NONE;
    for (int32_t k = 0; k < n; k++) {
        sg_value sum = sg_sum_all(sg_square(g[k]));
        squares = k == 0 ? sum : sg_add(squares, sum);
    }
    sg_value length = norm_of(squares);
    if (norm)
        *norm = length;
    return sg_minimum(sg_number(length, 1), sg_div(sg_number(length, limit), sg_add_scalar(length, 1e-6)));
}
