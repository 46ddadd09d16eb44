/* Mixed, Gauss-Newton and difference products, and gradients through a minimiser: against dense matrices, against
 * re-solving the inner problem, and against differentiating the inner steps themselves. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "runtime/runtime.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

enum { T = 4, P = 3, C = 5, PARTS = 2 };

static const sg_hvp_mode modes[2] = {SG_HVP_FORWARD_OVER_REVERSE, SG_HVP_REVERSE_OVER_REVERSE};

/* theta in two tensors [3] and [1], phi [3]. */
typedef struct problem {
    sg_graph *graph;
    sg_value theta[PARTS], phi;
    sg_bilevel levels;
} problem;

static sg_value matrix(sg_graph *g, int64_t rows, int64_t columns, uint64_t stream)
{
    double data[32];
    for (int64_t i = 0; i < rows * columns; i++)
        data[i] = test_uniform(stream, i) - 0.5;
    return sg_constant(g, SG_F64, SG_SHAPE(rows, columns), data, rows * columns);
}

/* inner = |t|^2 / 2 - t' B phi + sum softplus(C t + D phi);  outer = sum (t - 1)^2 / 2 + sum sin(t) / 10 + |phi|^2 / 20 */
static void losses(problem *p)
{
    sg_graph *g = p->graph;
    sg_value t = sg_concat(p->theta, PARTS, 0), phi = p->phi;
    sg_value hinge = sg_add(sg_matmul(matrix(g, C, T, 2), t), sg_matmul(matrix(g, C, P, 3), phi));
    sg_value inner = sg_mul_scalar(sg_sum_all(sg_square(t)), 0.5);
    inner = sg_sub(inner, sg_sum_all(sg_mul(t, sg_matmul(matrix(g, T, P, 1), phi))));
    p->levels.inner = sg_add(inner, sg_sum_all(sg_softplus(hinge)));
    sg_value outer = sg_mul_scalar(sg_sum_all(sg_square(sg_add_scalar(t, -1))), 0.5);
    outer = sg_add(outer, sg_mul_scalar(sg_sum_all(sg_sin(t)), 0.1));
    p->levels.outer = sg_add(outer, sg_mul_scalar(sg_sum_all(sg_square(phi)), 0.05));
}

static problem new_problem(void)
{
    problem p = {.graph = sg_graph_new()};
    p.theta[0] = sg_input(p.graph, "theta0", SG_F64, SG_SHAPE(3));
    p.theta[1] = sg_input(p.graph, "theta1", SG_F64, SG_SHAPE(1));
    p.phi = sg_input(p.graph, "phi", SG_F64, SG_SHAPE(P));
    losses(&p);
    return p;
}

static sg_bilevel levels_of(const problem *p)
{
    sg_bilevel levels = p->levels;
    levels.theta = p->theta;
    levels.n_theta = PARTS;
    levels.phi = &p->phi;
    levels.n_phi = 1;
    return levels;
}

/* Evaluate y at a flat point. */
static void evaluate(const problem *p, const double *theta, const double *phi, const sg_value *y, double *const *out,
                     int32_t n)
{
    sg_value x[3] = {p->theta[0], p->theta[1], p->phi};
    double first[3], second = theta[3], at[P];
    memcpy(first, theta, sizeof first);
    memcpy(at, phi, sizeof at);
    graph_eval(p->graph, x, (double *[]){first, &second, at}, 3, y, out, n);
}

/* A product of the graph as a host map: v is fed to placeholders, the point is fixed. */
typedef struct host_map {
    const problem *p;
    const double *theta, *phi;
    sg_value v[PARTS], out[PARTS];
    int32_t n_out;
} host_map;

static bool apply(void *user, const double *v, double *out, sg_error *err)
{
    host_map *m = user;
    sg_value x[5] = {m->p->theta[0], m->p->theta[1], m->p->phi, m->v[0], m->v[1]};
    double feed[5][T];
    memcpy(feed[0], m->theta, 3 * sizeof *feed[0]);
    feed[1][0] = m->theta[3];
    memcpy(feed[2], m->phi, P * sizeof *feed[2]);
    memcpy(feed[3], v, 3 * sizeof *feed[3]);
    feed[4][0] = v[3];
    double *in[5] = {feed[0], feed[1], feed[2], feed[3], feed[4]};
    return sg_reference_eval(m->p->graph, x, in, 5, m->out, (double *[]){out, out + 3}, m->n_out, err) == SG_OK;
}

static void placeholders(host_map *m, problem *p, const double *theta, const double *phi)
{
    *m = (host_map){.p = p, .theta = theta, .phi = phi};
    m->v[0] = sg_input(p->graph, "v0", SG_F64, SG_SHAPE(3));
    m->v[1] = sg_input(p->graph, "v1", SG_F64, SG_SHAPE(1));
}

static sg_linear_map hessian_of(host_map *m, problem *p, const double *theta, const double *phi)
{
    placeholders(m, p, theta, phi);
    m->n_out = PARTS;
    sg_hvp(p->levels.inner, p->theta, m->v, PARTS, m->out, SG_HVP_FORWARD_OVER_REVERSE);
    return (sg_linear_map){apply, m, T, T};
}

static sg_linear_map mixed_of(host_map *m, problem *p, const double *theta, const double *phi, sg_hvp_mode mode)
{
    placeholders(m, p, theta, phi);
    m->n_out = 1;
    sg_mixed_hvp(p->levels.inner, p->theta, m->v, PARTS, &p->phi, 1, m->out, mode);
    return (sg_linear_map){apply, m, T, P};
}

/* Newton's method on the inner problem; its gradient ends below 1e-13. */
static void solve_inner(problem *p, const double *phi, double *theta)
{
    sg_value g[PARTS];
    sg_grad(p->levels.inner, p->theta, PARTS, g);
    host_map m;
    sg_linear_map hessian = hessian_of(&m, p, theta, phi);
    double gradient[T], step[T], size = 1;
    for (int i = 0; i < 30 && size > 1e-14; i++) {
        sg_solve_result r;
        sg_solve_options o = {.size = sizeof o, .method = SG_SOLVE_DIRECT};
        evaluate(p, theta, phi, g, (double *[]){gradient, gradient + 3}, PARTS);
        assert_int_equal(sg_solve(&hessian, gradient, &o, step, &r, NULL), SG_OK);
        size = 0;
        for (int k = 0; k < T; k++) {
            theta[k] -= step[k];
            size = fmax(size, fabs(step[k]));
        }
    }
    assert_true(size <= 1e-12);
}

static double outer_at(problem *p, const double *phi, const double *start)
{
    double theta[T], value;
    memcpy(theta, start, sizeof theta);
    solve_inner(p, phi, theta);
    evaluate(p, theta, phi, &p->levels.outer, (double *[]){&value}, 1);
    return value;
}

static const double phi_at[P] = {0.4, -0.7, 0.9};

/* e - M' H^-1 a with dense matrices and elimination. */
static void dense_gradient(problem *p, const double *theta, double damping, double *grad)
{
    host_map hm, mm;
    sg_linear_map hessian = hessian_of(&hm, p, theta, phi_at), mixed = mixed_of(&mm, p, theta, phi_at, modes[1]);
    double H[T * T], M[P * T], a[T], e[P], q[T];
    assert_int_equal(sg_dense_matrix(&hessian, H, NULL), SG_OK);
    assert_int_equal(sg_dense_matrix(&mixed, M, NULL), SG_OK);
    for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j++)
            assert_true(fabs(H[i * T + j] - H[j * T + i]) < 1e-14);
    sg_value x[3] = {p->theta[0], p->theta[1], p->phi}, g[3];
    sg_grad(p->levels.outer, x, 3, g);
    evaluate(p, theta, phi_at, g, (double *[]){a, a + 3, e}, 3);
    sg_solve_options o = {.size = sizeof o, .method = SG_SOLVE_DIRECT, .damping = damping};
    sg_solve_result r;
    assert_int_equal(sg_solve(&hessian, a, &o, q, &r, NULL), SG_OK);
    assert_true(r.converged && r.residual < 1e-12);
    for (int j = 0; j < P; j++) {
        grad[j] = e[j];
        for (int i = 0; i < T; i++)
            grad[j] -= M[j * T + i] * q[i];
    }
}

static void implicit_as_graph(problem *p, const double *theta, const sg_solve_options *o, double *grad, double *report)
{
    sg_bilevel levels = levels_of(p);
    sg_value g;
    sg_solve_report r;
    sg_implicit_grad(&levels, o, &g, &r);
    evaluate(p, theta, phi_at, (sg_value[]){g, r.iterations, r.residual, r.reason},
             (double *[]){grad, report, report + 1, report + 2}, 4);
}

/* Acceptance: the dense solve to 1e-8, and central differences of the outer loss with the inner problem solved. */
static void implicit_gradient(void **state)
{
    (void)state;
    problem p = new_problem();
    double theta[T] = {0}, want[P], got[P], report[3], difference[P];
    solve_inner(&p, phi_at, theta);
    dense_gradient(&p, theta, 0, want);
    for (int j = 0; j < P; j++) {
        double phi[P], h = 1e-5;
        memcpy(phi, phi_at, sizeof phi);
        phi[j] = phi_at[j] + h;
        double high = outer_at(&p, phi, theta);
        phi[j] = phi_at[j] - h;
        difference[j] = (high - outer_at(&p, phi, theta)) / (2 * h);
    }
    assert_tensor_close(want, difference, P, 1e-8, 1e-9, "dense solve against re-solving");
    sg_solve_options cg = {.size = sizeof cg, .method = SG_SOLVE_CG, .steps = 10, .tolerance = 1e-13};
    sg_solve_options series = {.size = sizeof cg, .steps = 200, .scale = 0.5, .tolerance = 1e-12};
    for (int unroll = 0; unroll < 2; unroll++) {
        cg.unroll = unroll;
        implicit_as_graph(&p, theta, &cg, got, report);
        assert_tensor_close(got, want, P, 1e-10, 1e-10, "conjugate gradients");
        assert_int_equal(report[2], SG_SOLVE_CONVERGED);
    }
    implicit_as_graph(&p, theta, &series, got, report);
    assert_tensor_close(got, want, P, 1e-9, 1e-9, "Neumann series");
    assert_int_equal(report[2], SG_SOLVE_CONVERGED);
    cg.unroll = false;
    cg.difference_step = 1e-4;
    cg.tolerance = 1e-7;
    implicit_as_graph(&p, theta, &cg, got, report);
    assert_tensor_close(got, want, P, 1e-6, 1e-6, "products by differences");
    assert_true(fabs(got[0] - want[0]) > 0);
    sg_graph_free(p.graph);
}

/* Away from the inner minimum, with damping, from the host: the same formula at the given point. */
static void implicit_from_the_host(void **state)
{
    (void)state;
    problem p = new_problem();
    double theta[T] = {0.3, -0.2, 0.5, 1}, want[P], got[P], a[T], e[P];
    dense_gradient(&p, theta, 0.25, want);
    host_map hm, mm;
    sg_linear_map hessian = hessian_of(&hm, &p, theta, phi_at), mixed = mixed_of(&mm, &p, theta, phi_at, modes[0]);
    sg_value x[3] = {p.theta[0], p.theta[1], p.phi}, g[3];
    sg_grad(p.levels.outer, x, 3, g);
    evaluate(&p, theta, phi_at, g, (double *[]){a, a + 3, e}, 3);
    static const sg_solve_method methods[] = {SG_SOLVE_NEUMANN, SG_SOLVE_CG, SG_SOLVE_DIRECT};
    for (int i = 0; i < 3; i++) {
        sg_solve_options o = {
            .size = sizeof o, .method = methods[i], .steps = 300, .scale = 0.4, .damping = 0.25, .tolerance = 1e-12};
        sg_solve_result r;
        assert_int_equal(sg_implicit_solve(&hessian, &mixed, a, e, &o, got, &r, NULL), SG_OK);
        assert_true(r.converged);
        assert_tensor_close(got, want, P, 1e-9, 1e-9, "from the host");
    }
    sg_graph_free(p.graph);
}

/* Weights that were computed from phi: the derivatives are partial ones, whatever made the point. */
static void inner_steps_are_not_entered(void **state)
{
    (void)state;
    problem p = new_problem();
    sg_value start[PARTS] = {p.theta[0], p.theta[1]};
    sg_value shift = sg_mul_scalar(sg_sum_all(sg_exp(p.phi)), 0.1);
    for (int i = 0; i < PARTS; i++)
        p.theta[i] = sg_add(start[i], shift); /* now a function of phi */
    losses(&p);
    sg_bilevel levels = levels_of(&p);
    sg_solve_options o = {.size = sizeof o, .method = SG_SOLVE_CG, .steps = 10, .tolerance = 1e-13};
    sg_value g;
    sg_solve_report r;
    sg_implicit_grad(&levels, &o, &g, &r);
    double theta[T] = {0.3, -0.2, 0.5, 1}, from[T], moved = 0, got[P], want[P];
    for (int j = 0; j < P; j++)
        moved += 0.1 * exp(phi_at[j]);
    for (int i = 0; i < T; i++)
        from[i] = theta[i] - moved;
    problem at = p;
    memcpy(at.theta, start, sizeof start);
    evaluate(&at, from, phi_at, &g, (double *[]){got}, 1);
    problem plain = new_problem();
    dense_gradient(&plain, theta, 0, want);
    assert_tensor_close(got, want, P, 1e-10, 1e-10, "partial derivatives");
    sg_graph_free(plain.graph);
    sg_graph_free(p.graph);
}

/* Both modes of the mixed product against the columns of a difference quotient. */
static void mixed_products(void **state)
{
    (void)state;
    problem p = new_problem();
    double theta[T] = {0.3, -0.2, 0.5, 1}, M[2][P * T], high[P], low[P];
    for (int m = 0; m < 2; m++) {
        host_map mm;
        sg_linear_map mixed = mixed_of(&mm, &p, theta, phi_at, modes[m]);
        assert_int_equal(sg_dense_matrix(&mixed, M[m], NULL), SG_OK);
    }
    assert_tensor_close(M[0], M[1], P * T, 1e-13, 1e-14, "modes");
    sg_value g;
    sg_grad(p.levels.inner, &p.phi, 1, &g);
    for (int i = 0; i < T; i++) {
        double at[T], h = 1e-5;
        memcpy(at, theta, sizeof at);
        at[i] = theta[i] + h;
        evaluate(&p, at, phi_at, &g, (double *[]){high}, 1);
        at[i] = theta[i] - h;
        evaluate(&p, at, phi_at, &g, (double *[]){low}, 1);
        for (int j = 0; j < P; j++)
            assert_true(fabs((high[j] - low[j]) / (2 * h) - M[0][j * T + i]) < 1e-9);
    }
    sg_graph_free(p.graph);
}

/* Gauss-Newton of (z - y)^2 / 2 with z = sin(A t): J'J, without the curvature of the sine. */
static void gauss_newton(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double t_at[P] = {0.3, -0.8, 1.2}, v_at[P] = {1, 0.5, -2}, want[P] = {0}, got[P], A[C * P];
    sg_value t = sg_input(g, "t", SG_F64, SG_SHAPE(P)), v = sg_input(g, "v", SG_F64, SG_SHAPE(P)), gv;
    sg_value a = matrix(g, C, P, 7), z = sg_sin(sg_matmul(a, t));
    sg_value loss = sg_add(sg_mul_scalar(sg_sum_all(sg_square(sg_add_scalar(z, -0.5))), 0.5),
                           sg_sum_all(sg_exp(t))); /* what does not pass z is left out */
    sg_ggn_vp(loss, &z, 1, &t, &v, 1, &gv);
    graph_eval(g, (sg_value[]){t, v}, (double *[]){t_at, v_at}, 2, (sg_value[]){gv, a}, (double *[]){got, A}, 2);
    for (int k = 0; k < C; k++) {
        double slope = 0, jv = 0;
        for (int i = 0; i < P; i++)
            slope += A[k * P + i] * t_at[i];
        for (int i = 0; i < P; i++)
            jv += cos(slope) * A[k * P + i] * v_at[i];
        for (int i = 0; i < P; i++)
            want[i] += cos(slope) * A[k * P + i] * jv;
    }
    assert_tensor_close(got, want, P, 1e-12, 1e-13, "J'J v");
    sg_graph_free(g);
}

/* The product of a vector of zeros is zero, not a quotient of nothing. */
static void differences_of_zero(void **state)
{
    (void)state;
    problem p = new_problem();
    double theta[T] = {0.3, -0.2, 0.5, 1}, got[T], zeros[T] = {0};
    sg_value v[PARTS] = {sg_zeros_like(p.theta[0]), sg_zeros_like(p.theta[1])}, hv[PARTS];
    sg_hvp_difference(p.levels.inner, p.theta, v, PARTS, 1e-4, hv);
    evaluate(&p, theta, phi_at, hv, (double *[]){got, got + 3}, PARTS);
    assert_tensor_close(got, zeros, T, 0, 0, "H 0");
    sg_hvp_difference(p.levels.inner, p.theta, v, PARTS, 0, hv);
    assert_int_equal(sg_graph_status(p.graph, NULL), SG_E_ARGUMENT);
    sg_graph_free(p.graph);
}

/* ------------------------------------------------------------------------------------------- through unrolled steps */

typedef struct descent {
    sg_value phi;
} descent;

static void descend(void *user, sg_graph *graph, const sg_value *state, sg_value *next)
{
    problem inner = {.graph = graph, .theta = {state[0], state[1]}, .phi = ((descent *)user)->phi};
    sg_value g[PARTS];
    losses(&inner);
    sg_grad(inner.levels.inner, inner.theta, PARTS, g);
    for (int i = 0; i < PARTS; i++)
        next[i] = sg_sub(state[i], sg_mul_scalar(g[i], 0.2));
}

/* Gradient steps unrolled: the hypergradient is that of the steps, so differences of the same program agree; with many
 * steps it approaches the implicit one. As a loop, derivatives are refused and the value is the same. */
static void unrolled_hypergradient(void **state)
{
    (void)state;
    double theta[T] = {0.3, -0.2, 0.5, 1}, phi[P], got[P], value[2];
    for (int steps = 5; steps <= 80; steps += 75) {
        problem p = new_problem();
        sg_value start[PARTS] = {p.theta[0], p.theta[1]}, end[PARTS], looped[PARTS], g;
        descent d = {p.phi};
        sg_repeat(p.graph, steps, descend, &d, start, PARTS, end, true);
        sg_repeat(p.graph, steps, descend, &d, start, PARTS, looped, false);
        problem last = p, loop = p;
        memcpy(last.theta, end, sizeof end);
        memcpy(loop.theta, looped, sizeof looped);
        losses(&last);
        losses(&loop);
        sg_grad(last.levels.outer, &p.phi, 1, &g);
        evaluate(&p, theta, phi_at, &g, (double *[]){got}, 1);
        evaluate(&p, theta, phi_at, (sg_value[]){last.levels.outer, loop.levels.outer},
                 (double *[]){&value[0], &value[1]}, 2);
        assert_true(value[0] == value[1]);
        for (int j = 0; j < P; j++) {
            double high, low, h = 1e-5;
            memcpy(phi, phi_at, sizeof phi);
            phi[j] = phi_at[j] + h;
            evaluate(&p, theta, phi, &last.levels.outer, (double *[]){&high}, 1);
            phi[j] = phi_at[j] - h;
            evaluate(&p, theta, phi, &last.levels.outer, (double *[]){&low}, 1);
            assert_true(fabs((high - low) / (2 * h) - got[j]) < 1e-9);
        }
        sg_grad(loop.levels.outer, &p.phi, 1, &g);
        assert_int_equal(sg_graph_status(p.graph, NULL), SG_E_UNSUPPORTED);
        sg_graph_free(p.graph);
    }
    problem p = new_problem();
    double minimum[T], want[P];
    memcpy(minimum, theta, sizeof minimum);
    solve_inner(&p, phi_at, minimum);
    dense_gradient(&p, minimum, 0, want);
    assert_tensor_close(got, want, P, 1e-6, 1e-6, "80 steps");
    sg_graph_free(p.graph);
}

/* ------------------------------------------------------------------------------------------------- scale from a store */

/* A graph of its own estimates the spectrum and writes the scale to the store; the step graph reads it there. */
static void scale_from_power_iteration(void **state)
{
    (void)state;
    sg_store *store = sg_store_new(SG_F64);
    double theta[T] = {0.3, -0.2, 0.5, 1}, scale, got[P], want[P];
    for (int use = 0; use < 2; use++) {
        problem p = new_problem();
        sg_scope scope = sg_scope_root(p.graph, store);
        sg_value alpha = sg_state(scope, "alpha", SG_F32, sg_shape_scalar(), sg_init_zeros());
        sg_value in[PARTS], out[PARTS], start[PARTS], y = alpha;
        if (use) {
            sg_bilevel levels = levels_of(&p);
            sg_solve_options o = {.size = sizeof o, .steps = 300, .scale_value = alpha, .tolerance = 1e-12};
            sg_solve_report r;
            sg_implicit_grad(&levels, &o, &y, &r);
        } else {
            sg_graph_map map = sg_hvp_map(p.levels.inner, p.theta, PARTS, 0, in, out);
            for (int i = 0; i < PARTS; i++)
                start[i] = sg_normal_like(scope, p.theta[i]);
            sg_power_result r = sg_power_iteration(&map, start, 200, false, NULL);
            sg_value next = sg_div(sg_fill_like(r.value, 0.9), sg_abs(r.value));
            sg_assign(alpha, sg_cast(next, SG_F32));
        }
        sg_result(p.graph, "y", use ? y : sg_scalar(p.graph, 0));
        sg_store_initialise(store, 1);
        double first[3] = {theta[0], theta[1], theta[2]}, second = theta[3], at[P];
        memcpy(at, phi_at, sizeof at);
        assert_true(graph_run(p.graph, store, "reference", 1, (const char *[]){"theta0", "theta1", "phi"},
                              (double *[]){first, &second, at}, 3, (double *[]){got}));
        sg_graph_free(p.graph);
    }
    problem p = new_problem();
    assert_int_equal(sg_store_get(store, "alpha", &scale, 1, NULL), SG_OK);
    host_map m;
    sg_linear_map hessian = hessian_of(&m, &p, theta, phi_at);
    sg_lanczos_result spectrum;
    assert_int_equal(sg_lanczos(&hessian, &(sg_lanczos_options){.size = sizeof(sg_lanczos_options)}, &spectrum, NULL),
                     SG_OK);
    assert_true(fabs(scale * spectrum.largest - 0.9) < 1e-3);
    dense_gradient(&p, theta, 0, want);
    assert_tensor_close(got, want, P, 1e-9, 1e-9, "with the scale from the store");
    sg_graph_free(p.graph);
    sg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(implicit_gradient),
        cmocka_unit_test(implicit_from_the_host),
        cmocka_unit_test(inner_steps_are_not_entered),
        cmocka_unit_test(mixed_products),
        cmocka_unit_test(gauss_newton),
        cmocka_unit_test(differences_of_zero),
        cmocka_unit_test(unrolled_hypergradient),
        cmocka_unit_test(scale_from_power_iteration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
