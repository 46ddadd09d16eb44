/* implicit.c - the gradient of an outer loss through the minimiser of an inner one.
 *
 * Where g(t, phi) = d inner / dtheta = 0 defines the minimiser t(phi), differentiating g(t(phi), phi) = 0 gives
 *
 *     H t' + dg/dphi = 0,     d outer / dphi = e + (t')' a = e - (dg/dphi)' H^-1 a
 *
 * (H is symmetric). So one solve with a on the right side, then one mixed product; the Jacobian t' is never made. */
#include "autodiff/autodiff.h"

#include <string.h>

#include "autodiff/arguments_internal.h"
#include "autodiff/partial_internal.h"
#include "autodiff/solve_internal.h"
#include "ops/ops.h"

static bool take(const sg_bilevel *p, sg_arguments *losses, sg_arguments *theta, sg_arguments *phi)
{
    sg_graph *graph = NULL;
    sg_value loss[2] = {p->inner, p->outer};
    return sg_check_loss(p->inner, "sg_implicit_grad") && sg_check_loss(p->outer, "sg_implicit_grad") &&
           sg_arguments_take(losses, &graph, "sg_implicit_grad", "loss", loss, NULL, NULL, 2) &&
           sg_arguments_take(theta, &graph, "sg_implicit_grad", "theta", p->theta, NULL, NULL, p->n_theta) &&
           sg_arguments_take(phi, &graph, "sg_implicit_grad", "phi", p->phi, NULL, NULL, p->n_phi);
}

/* work: x = [theta, phi] and the outer gradient [a, e]; map inputs, outputs, q; the mixed product. */
static void build(const sg_bilevel *p, const sg_solve_options *o, sg_value *grad, sg_solve_report *report,
                  sg_value *work)
{
    int32_t n = p->n_theta, m = p->n_phi;
    sg_value *x = work, *ae = x + n + m, *in = ae + n + m, *out = in + n, *q = out + n, *c = q + n;
    memcpy(x, p->theta, (size_t)n * sizeof *x);
    memcpy(x + n, p->phi, (size_t)m * sizeof *x);
    sg_partial_grad(p->outer, x, n + m, ae);
    sg_graph_map hessian = sg_hvp_map(p->inner, p->theta, n, o->difference_step, in, out);
    sg_solve_graph(&hessian, ae, o, q, report);
    if (o->difference_step > 0)
        sg_mixed_hvp_difference(p->inner, p->theta, q, n, p->phi, m, o->difference_step, c);
    else
        sg_mixed_hvp(p->inner, p->theta, q, n, p->phi, m, c, SG_HVP_FORWARD_OVER_REVERSE);
    for (int32_t j = 0; j < m; j++)
        grad[j] = sg_sub(ae[n + j], c[j]);
}

void sg_implicit_grad(const sg_bilevel *problem, const sg_solve_options *options, sg_value *grad,
                      sg_solve_report *report)
{
    sg_arguments losses = {0}, theta = {0}, phi = {0};
    for (int32_t j = 0; j < problem->n_phi; j++)
        grad[j] = SG_NONE;
    *report = (sg_solve_report){SG_NONE, SG_NONE, SG_NONE};
    if (take(problem, &losses, &theta, &phi)) {
        sg_bilevel here = *problem;
        here.inner = losses.value[0];
        here.outer = losses.value[1];
        here.theta = theta.value;
        here.phi = phi.value;
        sg_value *work = sg_calloc(5 * (int64_t)here.n_theta + 3 * (int64_t)here.n_phi + 1, sizeof *work);
        if (work)
            build(&here, options, grad, report, work);
        else
            sg_graph_fail(here.inner.graph, SG_E_MEMORY, here.inner, "out of memory in sg_implicit_grad");
        sg_free(work);
    }
    sg_arguments_free(&losses);
    sg_arguments_free(&theta);
    sg_arguments_free(&phi);
}

sg_status sg_implicit_solve(const sg_linear_map *hessian, const sg_linear_map *mixed, const double *a, const double *e,
                            const sg_solve_options *options, double *grad, sg_solve_result *result, sg_error *err)
{
    if (mixed->n_in != hessian->n_in)
        return sg_fail(err, SG_E_SHAPE, "the mixed product takes %lld numbers, the Hessian's %lld",
                       (long long)mixed->n_in, (long long)hessian->n_in);
    double *q = sg_calloc(hessian->n_in + mixed->n_out + 1, sizeof *q), *c = q + hessian->n_in;
    if (!q)
        return sg_fail(err, SG_E_MEMORY, "out of memory for an implicit gradient of %lld numbers",
                       (long long)mixed->n_out);
    sg_status status = sg_solve(hessian, a, options, q, result, err);
    if (status == SG_OK)
        status = sg_map_apply(mixed, q, c, err);
    for (int64_t j = 0; status == SG_OK && j < mixed->n_out; j++)
        grad[j] = e[j] - c[j];
    sg_free(q);
    return status;
}
