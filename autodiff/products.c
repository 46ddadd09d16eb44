/* products.c - products with second derivatives other than the Hessian's: mixed and Gauss-Newton, exact and by
 * differences.
 *
 * Mixed. With M_ji = d2 L / dphi_j dtheta_i both orders of composition give M v:
 *     forward over reverse:  d/dt grad_phi L(theta + t v, phi) at t = 0
 *     reverse over reverse:  grad_phi <grad_theta L, v>, v held constant
 *
 * Gauss-Newton. L(z(theta)) has the Hessian J' L_zz J + sum_k L_zk d2 z_k; the first term alone is positive semidefinite
 * where L is convex in z. One tangent forward (J v), one product with L_zz, one sweep back (J'). */
#include "autodiff/autodiff.h"

#include <math.h>

#include "autodiff/arguments_internal.h"
#include "autodiff/partial_internal.h"
#include "ops/ops.h"

static void give_none(sg_value *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        out[i] = SG_NONE;
}

static sg_value *new_values(sg_graph *graph, int64_t n, const char *function)
{
    sg_value *values = sg_calloc(n > 0 ? n : 1, sizeof *values);
    if (!values)
        sg_graph_fail(graph, SG_E_MEMORY, SG_NONE, "out of memory in %s", function);
    return values;
}

/* ----------------------------------------------------------------------------------------------------------- mixed */

/* Theta and phi stand side by side in every sweep, so that the one is held where the other moves, even if it was
 * computed from it. */
typedef struct pair {
    sg_value *x, *d; /* [theta, phi], and a derivative of each */
    int32_t n_theta, n_phi;
} pair;

static void pair_fill(pair *p, const sg_value *theta, const sg_value *phi, sg_value *work)
{
    p->x = work;
    p->d = work + p->n_theta + p->n_phi;
    for (int32_t i = 0; i < p->n_theta + p->n_phi; i++) {
        p->x[i] = i < p->n_theta ? theta[i] : phi[i - p->n_theta];
        p->d[i] = SG_NONE;
    }
}

static void mixed_forward(sg_value loss, pair *p, const sg_value *v, sg_value *out, sg_value *grad)
{
    int32_t n = p->n_theta + p->n_phi;
    sg_partial_grad(loss, p->x, n, grad);
    for (int32_t i = 0; i < p->n_theta; i++)
        p->d[i] = v[i];
    sg_partial_jvp(grad + p->n_theta, p->n_phi, p->x, p->d, n, out);
}

static void mixed_reverse(sg_value loss, pair *p, const sg_value *v, sg_value *out, sg_value *grad)
{
    int32_t n = p->n_theta + p->n_phi;
    sg_partial_grad(loss, p->x, n, grad);
    sg_partial_vjp(grad, v, p->n_theta, p->x, n, p->d);
    for (int32_t j = 0; j < p->n_phi; j++)
        out[j] = p->d[p->n_theta + j];
}

void sg_mixed_hvp(sg_value loss, const sg_value *theta, const sg_value *v, int32_t n_theta, const sg_value *phi,
                  int32_t n_phi, sg_value *out, sg_hvp_mode mode)
{
    sg_graph *graph = NULL;
    sg_arguments inner = {0}, outer = {0}, losses = {0};
    give_none(out, n_phi);
    bool ok = sg_check_loss(loss, "sg_mixed_hvp") &&
              sg_arguments_take(&losses, &graph, "sg_mixed_hvp", "loss", &loss, NULL, NULL, 1) &&
              sg_arguments_take(&inner, &graph, "sg_mixed_hvp", "theta", theta, "v", v, n_theta) &&
              sg_arguments_take(&outer, &graph, "sg_mixed_hvp", "phi", phi, NULL, NULL, n_phi);
    sg_value *work = ok ? new_values(graph, 3 * ((int64_t)n_theta + n_phi), "sg_mixed_hvp") : NULL;
    if (work) {
        pair p = {.n_theta = n_theta, .n_phi = n_phi};
        sg_value *grad = work + 2 * ((int64_t)n_theta + n_phi);
        pair_fill(&p, inner.value, outer.value, work);
        (mode == SG_HVP_FORWARD_OVER_REVERSE ? mixed_forward : mixed_reverse)(losses.value[0], &p, inner.direction, out,
                                                                              grad);
    }
    sg_free(work);
    sg_arguments_free(&losses);
    sg_arguments_free(&inner);
    sg_arguments_free(&outer);
}

/* ---------------------------------------------------------------------------------------------------- Gauss-Newton */

void sg_ggn_vp(sg_value loss, const sg_value *z, int32_t n_z, const sg_value *theta, const sg_value *v, int32_t n,
               sg_value *gv)
{
    sg_graph *graph = NULL;
    sg_arguments outputs = {0}, weights = {0}, losses = {0};
    give_none(gv, n);
    bool ok = sg_check_loss(loss, "sg_ggn_vp") &&
              sg_arguments_take(&losses, &graph, "sg_ggn_vp", "loss", &loss, NULL, NULL, 1) &&
              sg_arguments_take(&outputs, &graph, "sg_ggn_vp", "z", z, NULL, NULL, n_z) &&
              sg_arguments_take(&weights, &graph, "sg_ggn_vp", "theta", theta, "v", v, n);
    sg_value *work = ok ? new_values(graph, 3 * (int64_t)n_z, "sg_ggn_vp") : NULL;
    if (work) {
        sg_value *jv = work, *grad = work + n_z, *hjv = work + 2 * n_z;
        sg_partial_jvp(outputs.value, n_z, weights.value, weights.direction, n, jv);
        sg_partial_grad(losses.value[0], outputs.value, n_z, grad);
        sg_partial_jvp(grad, n_z, outputs.value, jv, n_z, hjv);
        sg_partial_vjp(outputs.value, hjv, n_z, weights.value, n, gv);
    }
    sg_free(work);
    sg_arguments_free(&losses);
    sg_arguments_free(&outputs);
    sg_arguments_free(&weights);
}

/* ------------------------------------------------------------------------------------------------------ differences */

/* e = step / |v|; any e will do for v = 0. */
static sg_value step_size(const sg_value *v, int32_t n, double step)
{
    sg_value norm = sg_vector_norm(v, n), zero = sg_zeros_like(norm);
    return sg_div(sg_fill_like(norm, step), sg_where(sg_greater(norm, zero), norm, sg_ones_like(norm)));
}

/* out = [g(theta + e v) - g(theta - e v)] / 2e for gradients g with respect to anything. work: n + 2 n_g. */
static void central_difference(const sg_value *g, int32_t n_g, const sg_arguments *theta, int32_t n, double step,
                               sg_value *out, sg_value *work)
{
    sg_value *moved = work, *high = work + n, *low = high + n_g, e = step_size(theta->direction, n, step);
    for (int32_t i = 0; i < n; i++)
        moved[i] = sg_add(theta->value[i], sg_mul(e, theta->direction[i]));
    sg_substitute(e.graph, g, n_g, theta->value, moved, n, high);
    for (int32_t i = 0; i < n; i++)
        moved[i] = sg_sub(theta->value[i], sg_mul(e, theta->direction[i]));
    sg_substitute(e.graph, g, n_g, theta->value, moved, n, low);
    for (int32_t j = 0; j < n_g; j++)
        out[j] = sg_div(sg_sub(high[j], low[j]), sg_mul_scalar(e, 2));
}

void sg_mixed_hvp_difference(sg_value loss, const sg_value *theta, const sg_value *v, int32_t n_theta,
                             const sg_value *phi, int32_t n_phi, double step, sg_value *out)
{
    sg_graph *graph = NULL;
    sg_arguments inner = {0}, outer = {0}, losses = {0};
    give_none(out, n_phi);
    bool ok = sg_check_loss(loss, "sg_mixed_hvp_difference") && n_theta > 0 &&
              sg_arguments_take(&losses, &graph, "sg_mixed_hvp_difference", "loss", &loss, NULL, NULL, 1) &&
              sg_arguments_take(&inner, &graph, "sg_mixed_hvp_difference", "theta", theta, "v", v, n_theta) &&
              sg_arguments_take(&outer, &graph, "sg_mixed_hvp_difference", "phi", phi, NULL, NULL, n_phi);
    int64_t n = (int64_t)n_theta + n_phi;
    sg_value *work = ok ? new_values(graph, 3 * n + n_theta + 2 * (int64_t)n_phi, "sg_mixed_hvp_difference") : NULL;
    if (work && !(step > 0 && isfinite(step)))
        sg_graph_fail(graph, SG_E_ARGUMENT, loss, "differences need a positive step, not %g", step);
    else if (work) {
        pair p = {.n_theta = n_theta, .n_phi = n_phi};
        pair_fill(&p, inner.value, outer.value, work);
        sg_partial_grad(losses.value[0], p.x, (int32_t)n, work + 2 * n);
        central_difference(work + 2 * n + n_theta, n_phi, &inner, n_theta, step, out, work + 3 * n);
    }
    sg_free(work);
    sg_arguments_free(&losses);
    sg_arguments_free(&inner);
    sg_arguments_free(&outer);
}

void sg_hvp_difference(sg_value loss, const sg_value *theta, const sg_value *v, int32_t n, double step, sg_value *hv)
{
    sg_mixed_hvp_difference(loss, theta, v, n, theta, n, step, hv);
}
