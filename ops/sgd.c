/* sgd.c - builder of the step of stochastic gradient descent with momentum (Polyak 1964; Nesterov's form as in Sutskever et al.
 * 2013). Elementwise: the runtime fuses it into one pass, and derivatives pass through it. */
#include "ops/ops_internal.h"

#include <math.h>

/* u is read with momentum alone. */
static bool has_forms(sg_sgd_state now, sg_value g, sg_value lr, bool with_u)
{
    if (sg_is_none(now.p))
        return true;
    sg_shape shape = *sg_shape_of(now.p), number = sg_shape_scalar();
    sg_dtype dtype = sg_dtype_of(now.p);
    return sg_require_form(g, &shape, dtype, "sgd", "g") && sg_require_form(lr, &number, dtype, "sgd", "lr") &&
           (!with_u || sg_require_form(now.u, &shape, dtype, "sgd", "u"));
}

/* g <- g + decay p;  u <- momentum u + g;  p <- p - lr (u, or with Nesterov g + momentum u). */
sg_sgd_state sg_sgd(sg_sgd_state now, sg_value g, sg_value lr, double momentum, double weight_decay, bool nesterov)
{
    if (!sg_require_setting(now.p, isfinite(momentum) && momentum >= 0, "sgd", "momentum", momentum, "in [0, inf)") ||
        !sg_require_setting(now.p, isfinite(weight_decay), "sgd", "weight_decay", weight_decay, "finite"))
        return (sg_sgd_state){SG_NONE, SG_NONE};
    if (!has_forms(now, g, lr, momentum != 0))
        return (sg_sgd_state){SG_NONE, SG_NONE};
    if (weight_decay != 0)
        g = sg_add(g, sg_mul_scalar(now.p, weight_decay));
    sg_value u = momentum != 0 ? sg_add(sg_mul_scalar(now.u, momentum), g) : g;
    sg_value step = nesterov && momentum != 0 ? sg_add(g, sg_mul_scalar(u, momentum)) : u;
    return (sg_sgd_state){sg_sub(now.p, sg_mul(lr, step)), u};
}
