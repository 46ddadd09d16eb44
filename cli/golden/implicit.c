/* implicit.c - golden cases: curvature products, solvers by products, and implicit gradients. */
#include "cli/golden/implicit_internal.h"

#include <math.h>
#include <string.h>

enum { MOST = 64 };

/* ------------------------------------------------------------------------------------------- solvers on a matrix */

static bool multiply(void *user, const double *v, double *out, sg_error *err)
{
    (void)err;
    sg_golden *g = user;
    int64_t count;
    const double *a = sg_golden_elements(g, "matrix", &count);
    int64_t n = (int64_t)lround(sqrt((double)count));
    for (int64_t i = 0; i < n; i++) {
        out[i] = 0;
        for (int64_t j = 0; j < n; j++)
            out[i] += a[i * n + j] * v[j];
    }
    return true;
}

static sg_graph_map matrix_map(sg_golden *g, sg_value *in, sg_value *out)
{
    *in = sg_fill_like(sg_golden_in(g, "rhs"), 0x1.6a09e667f3bcdp-3);
    *out = sg_matmul(sg_golden_in(g, "matrix"), *in);
    return (sg_graph_map){in, out, 1};
}

/* Run from the host with the options; refuse the case if it ends for another reason than `reason`. */
static void expect_reason(sg_golden *g, const sg_solve_options *o, sg_solve_reason reason, double *x)
{
    int64_t n;
    sg_error err = {0};
    sg_solve_result result;
    const double *b = sg_golden_elements(g, "rhs", &n);
    sg_linear_map map = {multiply, g, n, n};
    if (!b || n > MOST || sg_solve(&map, b, o, x, &result, &err) != SG_OK)
        sg_golden_refuse(g, "%.200s", err.text[0] ? err.text : "the right side does not fit");
    else if (result.reason != reason)
        sg_golden_refuse(g, "ended with '%s', expected '%s'", sg_solve_reason_text(result.reason),
                         sg_solve_reason_text(reason));
}

static void neumann(sg_golden *g)
{
    int32_t terms = (int32_t)sg_golden_int(g, "terms");
    sg_value in, out, b = sg_golden_in(g, "rhs"), q, norms;
    sg_graph_map map = matrix_map(g, &in, &out);
    double x[MOST];
    int64_t one, n;
    const double *alpha = sg_golden_elements(g, "alpha", &one);
    sg_solve_options o = {
        .size = sizeof o, .steps = terms, .scale = alpha ? *alpha : 1, .keep_growing = sg_golden_flag(g, "diverges")};
    expect_reason(g, &o, o.keep_growing ? SG_SOLVE_GROWTH : SG_SOLVE_STEPS, x);
    o.scale_value = sg_golden_in(g, "alpha");
    sg_golden_solutions(&map, &b, o, 0, terms + 1, &q, &norms);
    sg_golden_out(g, "q", q);
    sg_golden_out(g, "norms", norms);
    o = (sg_solve_options){.size = sizeof o, .method = SG_SOLVE_DIRECT};
    expect_reason(g, &o, SG_SOLVE_CONVERGED, x);
    sg_golden_elements(g, "rhs", &n);
    sg_golden_numbers(g, "exact", x, n < MOST ? n : 0);
}

/* As many iterates as the case has: the rows of its output. */
static void conjugate_gradient(sg_golden *g)
{
    int32_t steps = (int32_t)sg_golden_int(g, "max_steps");
    sg_value in, out, b = sg_golden_in(g, "rhs"), x, norms;
    sg_graph_map map = matrix_map(g, &in, &out);
    double at[MOST], size = 0;
    int64_t n;
    const double *rhs = sg_golden_elements(g, "rhs", &n);
    for (int64_t i = 0; i < n; i++)
        size += rhs[i] * rhs[i];
    sg_solve_options o = {.size = sizeof o, .method = SG_SOLVE_CG, .steps = steps};
    o.tolerance = size > 0 ? sg_golden_real(g, "tolerance") / sqrt(size) : 0;
    bool converged = sg_golden_is(g, "reason", "converged"), negative = sg_golden_is(g, "reason", "negative_curvature");
    sg_solve_reason reason = converged ? SG_SOLVE_CONVERGED : negative ? SG_SOLVE_NEGATIVE_CURVATURE : SG_SOLVE_STEPS;
    expect_reason(g, &o, reason, at);
    o.tolerance = 0;
    sg_golden_solutions(&map, &b, o, 0, (int32_t)sg_golden_output_rows(g, "x"), &x, &norms);
    sg_golden_out(g, "x", x);
    sg_golden_out(g, "residuals", norms);
}

/* ------------------------------------------------------------------------------------------------ a quadratic problem */

/* theta'A theta/2 - theta'B phi + sum(w softplus(C theta + D phi)), and the outer loss of attrs.outer. */
static void quadratic(const sg_golden_source *s, sg_golden_problem *p)
{
    sg_value theta = sg_golden_take(s, "theta"), phi = sg_golden_take(s, "phi"), A = sg_golden_take(s, "A");
    sg_value B = sg_golden_take(s, "B"), C = sg_golden_take(s, "C"), D = sg_golden_take(s, "D");
    sg_value bend = sg_mul_scalar(sg_sum_all(sg_mul(theta, sg_matmul(A, theta))), 0.5);
    sg_value kinks = sg_softplus(sg_add(sg_matmul(C, theta), sg_matmul(D, phi)));
    sg_value coupling = sg_sum_all(sg_mul(theta, sg_matmul(B, phi)));
    p->inner = sg_add(sg_sub(bend, coupling), sg_sum_all(sg_mul(sg_golden_take(s, "w"), kinks)));
    sg_value outer = sg_mul_scalar(sg_sum_all(sg_square(sg_sub(theta, sg_golden_take(s, "t")))), 0.5);
    sg_value head = sg_slice(theta, 0, 0, sg_dim_of(phi, 0));
    sg_value small = sg_add(sg_sum_all(sg_sin(theta)), sg_sum_all(sg_mul(head, phi)));
    outer = sg_add(outer, sg_mul_scalar(sg_sum_all(sg_square(phi)), 0.05));
    p->outer = sg_add(outer, sg_mul_scalar(small, 0.1));
    p->theta[0] = theta;
    p->phi[0] = phi;
    p->n_theta = p->n_phi = 1;
}

static sg_value unit(sg_value like, int64_t i)
{
    double data[MOST] = {0};
    int64_t n = sg_shape_count(sg_shape_of(like));
    data[i < MOST ? i : 0] = 1;
    return sg_constant(like.graph, sg_dtype_of(like), SG_SHAPE(n), data, n < MOST ? n : MOST);
}

/* Gradients e - c of every row of q. */
static sg_value gradients(const sg_golden_problem *p, sg_value e, sg_value q, sg_value *products)
{
    sg_value rows[MOST], c[MOST];
    int32_t n = (int32_t)sg_dim_of(q, 0);
    for (int32_t i = 0; i < n && i < MOST; i++) {
        c[i] = sg_golden_mixed(p, sg_squeeze(sg_slice(q, 0, i, i + 1), 0));
        rows[i] = sg_sub(e, c[i]);
    }
    if (products)
        *products = sg_golden_rows(c, n);
    return sg_golden_rows(rows, n);
}

static void quadratic_matrices(sg_golden *g, const sg_golden_problem *p)
{
    sg_value columns[MOST], rows[MOST];
    int32_t n = (int32_t)sg_dim_of(p->theta[0], 0);
    for (int32_t i = 0; i < n && i < MOST; i++) {
        sg_value e = unit(p->theta[0], i);
        sg_hvp(p->inner, p->theta, &e, 1, &columns[i], SG_HVP_REVERSE_OVER_REVERSE);
        rows[i] = sg_golden_mixed(p, e);
    }
    sg_golden_out(g, "hessian", sg_golden_rows(columns, n));
    sg_golden_out(g, "mixed", sg_golden_rows(rows, n));
}

static void implicit_quadratic(sg_golden *g)
{
    sg_golden_problem p;
    quadratic(&(sg_golden_source){g, NULL}, &p);
    sg_value x[2] = {p.theta[0], p.phi[0]}, ae[2], g_inner, in, out, q, norms, gradient;
    sg_grad(p.outer, x, 2, ae);
    sg_grad(p.inner, x, 1, &g_inner);
    sg_golden_out(g, "inner", p.inner);
    sg_golden_out(g, "outer", p.outer);
    sg_golden_out(g, "inner_grad_theta", g_inner);
    sg_golden_out(g, "outer_grad_theta", ae[0]);
    sg_golden_out(g, "outer_grad_phi", ae[1]);
    quadratic_matrices(g, &p);
    sg_graph_map map = sg_hvp_map(p.inner, p.theta, 1, 0, &in, &out);
    sg_solve_options o = {.size = sizeof o, .scale_value = sg_golden_in(g, "alpha"), .keep_growing = true};
    sg_golden_solutions(&map, ae, o, 0, (int32_t)sg_golden_output_rows(g, "neumann_q"), &q, &norms);
    sg_golden_out(g, "neumann_q", q);
    sg_golden_out(g, "neumann_norms", norms);
    sg_golden_out(g, "neumann_gradient", gradients(&p, ae[1], q, NULL));
    o = (sg_solve_options){.size = sizeof o, .method = SG_SOLVE_CG};
    sg_golden_solutions(&map, ae, o, 0, (int32_t)sg_golden_output_rows(g, "cg_q"), &q, &norms);
    sg_golden_out(g, "cg_q", q);
    sg_golden_out(g, "cg_residuals", norms);
    sg_golden_out(g, "cg_gradient", gradients(&p, ae[1], q, NULL));
    sg_solve_report report;
    sg_bilevel levels = {p.inner, p.outer, p.theta, p.phi, 1, 1};
    o.steps = 2 * (int32_t)sg_dim_of(p.theta[0], 0);
    o.tolerance = 1e-12;
    sg_solve_graph(&map, ae, &o, &q, &report);
    sg_implicit_grad(&levels, &o, &gradient, &report);
    sg_golden_out(g, "q", q);
    sg_golden_out(g, "c", sg_golden_mixed(&p, q));
    sg_golden_out(g, "gradient", gradient);
}

/* ------------------------------------------------------------------------------------------------------- curvature */

/* One feature layer, z = G softplus(W x + c), with the loss that attrs.loss names. */
static void curved(const sg_golden_source *s, sg_golden_problem *p)
{
    static const char *const names[] = {"task.W1", "task.c1", "task.G"};
    sg_value x = sg_golden_take(s, "x"), y = sg_golden_take(s, "targets");
    for (p->n_theta = 0; p->n_theta < 3; p->n_theta++)
        p->theta[p->n_theta] = sg_golden_take(s, names[p->n_theta]);
    sg_value a = sg_softplus(sg_add(sg_matmul_nt(x, p->theta[0]), p->theta[1]));
    p->z = sg_matmul_nt(a, p->theta[2]);
    if (sg_golden_is(s->g, "loss", "batch mean"))
        p->inner = sg_mean_all(sg_softmax_cross_entropy(p->z, y));
    else if (sg_golden_is(s->g, "loss", "mean over all entries"))
        p->inner = sg_mean_all(sg_square(sg_sub(p->z, y)));
    else
        p->inner = sg_mean_all(sg_sum(sg_bce_with_logits(p->z, y), -1));
}

typedef struct spectrum {
    double smallest, largest, diagonal[MOST], trace;
} spectrum;

static sg_status measure(void *user, const sg_linear_map *map, sg_error *err)
{
    spectrum *s = user;
    static double a[MOST * MOST];
    sg_lanczos_result r;
    if (map->n_in > MOST)
        return sg_fail(err, SG_E_ARGUMENT, "the case has more than %d parameters", MOST);
    SG_TRY(sg_lanczos(map, &(sg_lanczos_options){.size = sizeof(sg_lanczos_options)}, &r, err));
    SG_TRY(sg_dense_matrix(map, a, err));
    s->smallest = r.smallest;
    s->largest = r.largest;
    s->trace = 0;
    for (int64_t i = 0; i < map->n_in; i++)
        s->trace += s->diagonal[i] = a[i * map->n_in + i];
    return SG_OK;
}

static void curvature(sg_golden *g)
{
    sg_golden_problem p;
    sg_value v[SG_GOLDEN_TENSORS], d[SG_GOLDEN_TENSORS];
    curved(&(sg_golden_source){g, NULL}, &p);
    int64_t n = sg_shape_count(sg_shape_of(sg_golden_in(g, "v")));
    sg_golden_out(g, "loss", p.inner);
    sg_grad(p.inner, p.theta, p.n_theta, d);
    sg_golden_out(g, "gradient", sg_flatten(d, p.n_theta));
    sg_unflatten(sg_golden_in(g, "v"), p.theta, p.n_theta, v);
    sg_hvp(p.inner, p.theta, v, p.n_theta, d, SG_HVP_FORWARD_OVER_REVERSE);
    sg_golden_out(g, "hvp", sg_flatten(d, p.n_theta));
    sg_ggn_vp(p.inner, &p.z, 1, p.theta, v, p.n_theta, d);
    sg_golden_out(g, "ggn_vp", sg_flatten(d, p.n_theta));
    spectrum hessian = {0}, ggn = {0};
    sg_golden_drive(g, curved, SG_GOLDEN_HESSIAN, measure, &hessian);
    sg_golden_drive(g, curved, SG_GOLDEN_GGN, measure, &ggn);
    sg_golden_numbers(g, "hessian_diagonal", hessian.diagonal, n);
    sg_golden_numbers(g, "hessian_trace", &hessian.trace, 1);
    sg_golden_numbers(g, "eigenvalue_min", &hessian.smallest, 1);
    sg_golden_numbers(g, "eigenvalue_max", &hessian.largest, 1);
    sg_golden_numbers(g, "ggn_eigenvalue_max", &ggn.largest, 1);
    sg_golden_numbers(g, "ggn_diagonal", ggn.diagonal, n);
}

static const sg_golden_row rows[] = {
    {"neumann", NULL, neumann, SG_GOLDEN_TRACE},
    {"conjugate_gradient", NULL, conjugate_gradient, SG_GOLDEN_TRACE},
    {"implicit_quadratic", NULL, implicit_quadratic, SG_GOLDEN_TRACE},
    {"implicit_mlc", NULL, sg_golden_implicit_mlc, SG_GOLDEN_TRACE},
    {"curvature", NULL, curvature, SG_GOLDEN_TRACE},
};
SG_GOLDEN_TABLE(implicit, rows);
