/* implicit_mlc.c - golden cases: the implicit method on a tiny multi-label problem, theta the task-net, phi the loss-net, with
 * one feature layer each:
 *
 *     inner = mean_b [ sum_i BCE(z_i, y_i) + lambda E(x, p) ],   p = sigmoid(z),   E = -S, or -sigmoid(S)
 *     outer = mean_b of one of
 *       ssvm   [ D(p, y) - E(x, p) + E(x, y) ]_+
 *       dvn    -s log(-E(x, p)) - (1 - s) log(1 + E(x, p)),   s = softF1(p, y)
 *       cd     -log e^{-E(x, y)} / sum_k e^{-E(x, y_k) + D(y_k, y)},   y_0 = y with D = 0
 *       nce    the same with -log P(y_k | x) added to every exponent
 *
 * D = 1 - softF1. Samples are straight-through: y_k = sample + p - stop(p). attrs.through says where theta enters. */
#include "cli/golden/implicit_internal.h"

#include "models/models.h"

#include <string.h>

static const char *const theta_names[] = {"task.W1", "task.c1", "task.G"};
static const char *const phi_names[] = {"energy.W1", "energy.c1", "energy.B", "energy.M", "energy.m0", "energy.v"};
enum { THETA = 3, PHI = 6 };

static sg_value features(sg_value x, const sg_value *w) { return sg_softplus(sg_add(sg_matmul_nt(x, w[0]), w[1])); }

/* y [B, K, L] -> S [B, K] */
static sg_value score(sg_value x, const sg_value *phi, sg_value y)
{
    sg_value bias = sg_expand_dims(sg_matmul_nt(features(x, phi), phi[2]), 1);
    sg_value global = sg_softplus(sg_add(sg_matmul_nt(y, phi[3]), phi[4]));
    return sg_add(sg_sum(sg_mul(y, bias), -1), sg_matmul(global, phi[5]));
}

/* 2 sum(p y) / (sum p + sum y), p [B, K, L], y [B, 1, L] -> [B, K] */
static sg_value soft_f1(sg_value p, sg_value y)
{
    sg_value both = sg_sum(sg_mul(p, y), -1);
    return sg_div(sg_mul_scalar(both, 2), sg_add(sg_sum(p, -1), sg_sum(y, -1)));
}

static sg_value drop_candidate(sg_value v) { return sg_squeeze(v, 1); }

typedef struct outer_parts {
    sg_value x, y, z, p, samples; /* y [B, 1, L]; p [B, 1, L] */
    const sg_value *phi;
    bool energies, scores, log_p; /* does theta enter there? */
} outer_parts;

static sg_value through(bool enters, sg_value v) { return enters ? v : sg_stop_gradient(v); }

static sg_value ssvm(const outer_parts *o)
{
    sg_value cost = sg_sub(sg_ones_like(sg_sum(o->p, -1)), soft_f1(through(o->scores, o->p), o->y));
    sg_value gap = sg_sub(score(o->x, o->phi, through(o->energies, o->p)), score(o->x, o->phi, o->y));
    return sg_relu(drop_candidate(sg_add(cost, gap)));
}

static sg_value dvn(const outer_parts *o)
{
    sg_value s = soft_f1(through(o->scores, o->p), o->y);
    return drop_candidate(sg_bce_with_logits(score(o->x, o->phi, through(o->energies, o->p)), s));
}

static sg_value contrastive(const outer_parts *o, bool noise)
{
    sg_value moved = sg_add(o->samples, sg_sub(o->p, sg_stop_gradient(o->p)));
    sg_value candidates = sg_concat((sg_value[]){o->y, through(o->energies, moved)}, 2, 1);
    sg_value f1 = soft_f1(through(o->scores, moved), o->y), cost = sg_sub(sg_ones_like(f1), f1);
    cost = sg_pad(cost, 1, 1, 0); /* the gold costs nothing */
    sg_value r = sg_add(score(o->x, o->phi, candidates), cost);
    if (noise) {
        sg_value fixed = sg_concat((sg_value[]){o->y, o->samples}, 2, 1);
        r = sg_sub(r, sg_log_bernoulli(through(o->log_p, o->z), fixed));
    }
    return sg_sub(sg_logsumexp(r, 1, false), sg_squeeze(sg_slice(r, 1, 0, 1), 1));
}

static sg_value primary(sg_golden *g, const outer_parts *o)
{
    if (sg_golden_is(g, "primary", "ssvm"))
        return ssvm(o);
    if (sg_golden_is(g, "primary", "dvn"))
        return dvn(o);
    if (!sg_golden_is(g, "primary", "cd") && !sg_golden_is(g, "primary", "nce"))
        sg_golden_refuse(g, "attrs.primary is none of ssvm, dvn, cd, nce");
    return contrastive(o, sg_golden_is(g, "primary", "nce"));
}

static void mlc(const sg_golden_source *s, sg_golden_problem *p)
{
    sg_golden *g = s->g;
    for (p->n_theta = 0; p->n_theta < THETA; p->n_theta++)
        p->theta[p->n_theta] = sg_golden_take(s, theta_names[p->n_theta]);
    for (p->n_phi = 0; p->n_phi < PHI; p->n_phi++)
        p->phi[p->n_phi] = sg_golden_take(s, phi_names[p->n_phi]);
    sg_value x = sg_golden_take(s, "x"), y = sg_golden_take(s, "y");
    p->z = sg_matmul_nt(features(x, p->theta), p->theta[2]);
    bool all = sg_golden_is(g, "through", "all");
    outer_parts o = {.x = x,
                     .y = sg_expand_dims(y, 1),
                     .z = p->z,
                     .p = sg_expand_dims(sg_sigmoid(p->z), 1),
                     .samples = sg_golden_take(s, "samples"),
                     .phi = p->phi,
                     .energies = all,
                     .scores = sg_golden_is(g, "through", "score"),
                     .log_p = all || sg_golden_is(g, "through", "log_p")};
    sg_value S = drop_candidate(score(x, p->phi, o.p));
    sg_value energy = sg_neg(sg_golden_is(g, "energy_term", "sigmoid") ? sg_sigmoid(S) : S);
    sg_value task = sg_sum(sg_bce_with_logits(p->z, y), -1);
    p->inner = sg_mean_all(sg_add(task, sg_mul_scalar(energy, sg_golden_real(g, "lambda"))));
    p->outer = sg_mean_all(primary(g, &o));
}

/* The exact solution by elimination, and the extremes of H. */
typedef struct exact {
    double a[32], q[32], delta, smallest, largest;
    int64_t n;
} exact;

static sg_status solve_exactly(void *user, const sg_linear_map *map, sg_error *err)
{
    exact *s = user;
    sg_lanczos_result spectrum;
    sg_solve_result result;
    sg_solve_options o = {.size = sizeof o, .method = SG_SOLVE_DIRECT, .damping = s->delta};
    if (map->n_in != s->n)
        return sg_fail(err, SG_E_SHAPE, "the Hessian has %lld rows, its right side %lld", (long long)map->n_in,
                       (long long)s->n);
    SG_TRY(sg_lanczos(map, &(sg_lanczos_options){.size = sizeof(sg_lanczos_options)}, &spectrum, err));
    s->smallest = spectrum.smallest;
    s->largest = spectrum.largest;
    return sg_solve(map, s->a, &o, s->q, &result, err);
}

/* a at the point, evaluated beside the graph, for the host's solver. */
static bool right_side(sg_golden *g, exact *s)
{
    sg_error err = {0};
    sg_graph *graph = sg_graph_new();
    sg_golden_problem p;
    sg_value a[THETA];
    bool ok = graph != NULL;
    if (ok) {
        mlc(&(sg_golden_source){g, graph}, &p);
        sg_grad(p.outer, p.theta, THETA, a);
        sg_value flat = sg_flatten(a, THETA);
        s->n = sg_is_none(flat) ? 0 : sg_dim_of(flat, 0);
        ok = s->n > 0 && s->n <= 32 &&
             sg_reference_eval(graph, NULL, NULL, 0, &flat, (double *[]){s->a}, 1, &err) == SG_OK;
    }
    if (!ok)
        sg_golden_refuse(g, "%.200s", err.text[0] ? err.text : "the right side cannot be built");
    sg_graph_free(graph);
    return ok;
}

static void exact_rows(sg_golden *g, const sg_golden_problem *p, sg_value e)
{
    exact s = {0};
    int64_t one;
    const double *delta = sg_golden_elements(g, "delta", &one);
    if (!delta || !right_side(g, &s))
        return;
    s.delta = *delta;
    sg_golden_drive(g, mlc, SG_GOLDEN_HESSIAN, solve_exactly, &s);
    sg_value c = sg_golden_mixed(p, sg_constant(e.graph, sg_dtype_of(e), SG_SHAPE(s.n), s.q, s.n));
    sg_golden_numbers(g, "exact_q", s.q, s.n);
    sg_golden_out(g, "exact_c", c);
    sg_golden_out(g, "exact_g", sg_sub(e, c));
    sg_golden_numbers(g, "eigenvalue_min", &s.smallest, 1);
    sg_golden_numbers(g, "eigenvalue_max", &s.largest, 1);
}

void sg_golden_implicit_mlc(sg_golden *g)
{
    enum { ROWS = 16 };
    sg_golden_problem p;
    mlc(&(sg_golden_source){g, NULL}, &p);
    sg_value x[THETA + PHI], ae[THETA + PHI], in[THETA], out[THETA], q, norms, c[ROWS], grad[ROWS];
    memcpy(x, p.theta, sizeof(sg_value) * THETA);
    memcpy(x + THETA, p.phi, sizeof(sg_value) * PHI);
    sg_grad(p.outer, x, THETA + PHI, ae);
    sg_value e = sg_flatten(ae + THETA, PHI);
    sg_golden_out(g, "l_aux", p.inner);
    sg_golden_out(g, "l_prim", p.outer);
    sg_golden_out(g, "a", sg_flatten(ae, THETA));
    sg_golden_out(g, "e", e);
    sg_graph_map map = sg_hvp_map(p.inner, p.theta, THETA, 0, in, out);
    sg_solve_options o = {.size = sizeof o,
                          .scale_value = sg_golden_in(g, "alpha"),
                          .damping_value = sg_golden_in(g, "delta"),
                          .keep_growing = true};
    int32_t rows = (int32_t)sg_golden_output_rows(g, "neumann_q");
    sg_golden_solutions(&map, ae, o, 0, rows, &q, &norms);
    for (int32_t i = 0; i < rows && i < ROWS; i++) {
        c[i] = sg_golden_mixed(&p, sg_squeeze(sg_slice(q, 0, i, i + 1), 0));
        grad[i] = sg_sub(e, c[i]);
    }
    sg_golden_out(g, "neumann_q", q);
    sg_golden_out(g, "neumann_norms", norms);
    sg_golden_out(g, "neumann_c", sg_golden_rows(c, rows));
    sg_golden_out(g, "neumann_g", sg_golden_rows(grad, rows));
    exact_rows(g, &p, e);
}
