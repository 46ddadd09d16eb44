/* hvp.c - Hessian-vector products, by the two orders of composing first derivatives. H is symmetric, so both
 *     forward over reverse:  d/dt grad L(x + t v) at t = 0            = H v
 *     reverse over reverse:  grad <grad L(x), v>, v held constant     = H' v
 * are the same vector. The first pushes one tangent through the gradient; the second sweeps back through it. */
#include "autodiff/autodiff.h"

void sg_hvp(sg_value loss, const sg_value *x, const sg_value *v, int32_t n, sg_value *hv, sg_hvp_mode mode)
{
    sg_value *grad = sg_is_none(loss) ? NULL : sg_calloc(n > 0 ? n : 1, sizeof *grad);
    for (int32_t i = 0; !grad && i < n; i++)
        hv[i] = SG_NONE;
    if (!grad && !sg_is_none(loss))
        sg_graph_fail(loss.graph, SG_E_MEMORY, loss, "out of memory in sg_hvp");
    if (!grad)
        return;
    /* The tangents of the loss are part of those of its gradient. Made before the gradient, they stand where a plan can
     * compute them together with the values they belong to, instead of behind the whole backward pass. */
    sg_value slope;
    if (mode == SG_HVP_FORWARD_OVER_REVERSE)
        sg_jvp(&loss, 1, x, v, n, &slope);
    sg_grad(loss, x, n, grad);
    if (mode == SG_HVP_FORWARD_OVER_REVERSE)
        sg_jvp(grad, n, x, v, n, hv);
    else
        sg_vjp(grad, v, n, x, n, hv);
    sg_free(grad);
}
