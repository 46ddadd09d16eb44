/* Solving with products alone: Neumann series and conjugate gradients from the host and as graphs, what they report when
 * they fail, and the spectra that products reveal. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

enum { N = 5 };

/* A dense matrix as a map, which counts its products. */
typedef struct dense {
    const double *a;
    int64_t n;
    int32_t products;
} dense;

static bool multiply(void *user, const double *v, double *out, sg_error *err)
{
    (void)err;
    dense *d = user;
    d->products++;
    for (int64_t i = 0; i < d->n; i++) {
        out[i] = 0;
        for (int64_t j = 0; j < d->n; j++)
            out[i] += d->a[i * d->n + j] * v[j];
    }
    return true;
}

static sg_linear_map map_of(dense *d) { return (sg_linear_map){multiply, d, d->n, d->n}; }

/* Q diag(eigenvalues) Q' with a product of reflections for Q. */
static void symmetric(const double *eigenvalues, double *a)
{
    double q[N * N] = {0};
    for (int i = 0; i < N; i++)
        q[i * N + i] = 1;
    for (uint64_t k = 0; k < 3; k++) {
        double h[N], hh = 0;
        for (int i = 0; i < N; i++) {
            h[i] = test_uniform(k, i) - 0.5;
            hh += h[i] * h[i];
        }
        for (int r = 0; r < N; r++) {
            double c = 0;
            for (int i = 0; i < N; i++)
                c += q[r * N + i] * h[i];
            for (int i = 0; i < N; i++)
                q[r * N + i] -= 2 * c / hh * h[i];
        }
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            a[i * N + j] = 0;
            for (int k = 0; k < N; k++)
                a[i * N + j] += eigenvalues[k] * q[k * N + i] * q[k * N + j];
        }
}

static const double positive[N] = {0.3, 0.7, 1.1, 2, 3.5}, indefinite[N] = {-0.8, 0.4, 1, 2, 3};
static const double b[N] = {1, -2, 0.5, 3, -0.25};

static sg_solve_result solve_host(const double *a, const sg_solve_options *o, double *x)
{
    dense d = {a, N, 0};
    sg_linear_map map = map_of(&d);
    sg_solve_result result;
    sg_error err = {0};
    if (sg_solve(&map, b, o, x, &result, &err) != SG_OK)
        fail_msg("%s", err.text);
    if (o->method != SG_SOLVE_DIRECT)
        assert_true(d.products <= result.iterations + 1);
    return result;
}

/* The vectors are cut in two tensors, [2] and [3]. */
typedef struct graph_solution {
    double x[N], iterations, residual, reason;
} graph_solution;

static graph_solution solve_as_graph(const double *a, sg_solve_options o, const char *backend)
{
    sg_graph *g = sg_graph_new();
    sg_dtype real = strcmp(backend, "cpu") == 0 ? SG_F32 : SG_F64;
    sg_value A = sg_constant(g, real, SG_SHAPE(N, N), a, N * N), B = sg_constant(g, real, SG_SHAPE(N), b, N);
    sg_value rhs[2] = {sg_slice(B, 0, 0, 2), sg_slice(B, 0, 2, N)}, in[2], out[2], x[2];
    for (int i = 0; i < 2; i++)
        in[i] = sg_fill_like(rhs[i], 0.123456789);
    sg_value product = sg_matmul(A, sg_concat(in, 2, 0));
    out[0] = sg_slice(product, 0, 0, 2);
    out[1] = sg_slice(product, 0, 2, N);
    sg_solve_report report;
    sg_solve_graph(&(sg_graph_map){in, out, 2}, rhs, &o, x, &report);
    sg_result(g, "x", sg_concat(x, 2, 0));
    sg_result(g, "iterations", report.iterations);
    sg_result(g, "residual", report.residual);
    sg_result(g, "reason", report.reason);
    graph_solution s;
    assert_true(
        graph_run(g, NULL, backend, 1, NULL, NULL, 0, (double *[]){s.x, &s.iterations, &s.residual, &s.reason}));
    sg_graph_free(g);
    return s;
}

/* Host, loop and unrolled graph on both backends agree in everything they report. */
static void check_forms(const double *a, sg_solve_options o, double tolerance)
{
    double x[N];
    sg_solve_result host = solve_host(a, &o, x);
    for (int form = 0; form < 4; form++) {
        o.unroll = form & 1;
        const char *backend = form & 2 ? "cpu" : "reference";
        graph_solution s = solve_as_graph(a, o, backend);
        double accuracy = form & 2 ? 1e-4 : tolerance;
        assert_tensor_close(s.x, x, N, accuracy, accuracy * tensor_scale(x, N), backend);
        assert_int_equal(s.iterations, host.iterations);
        assert_int_equal(s.reason, host.reason);
        assert_true(fabs(s.residual - host.residual) <= accuracy * fmax(1, host.residual));
    }
}

/* ---------------------------------------------------------------------------------------------------------- Neumann */

/* The formula of K terms, in its order of operations. */
static void neumann_formula(const double *a, int terms, double alpha, double delta, double *x)
{
    double u[N];
    memcpy(u, b, sizeof u);
    memcpy(x, b, sizeof u);
    for (int k = 0; k < terms; k++) {
        double w[N];
        multiply(&(dense){a, N, 0}, u, w, NULL);
        for (int i = 0; i < N; i++)
            u[i] -= alpha * (w[i] + delta * u[i]);
        for (int i = 0; i < N; i++)
            x[i] += u[i];
    }
    for (int i = 0; i < N; i++)
        x[i] *= alpha;
}

static void neumann_is_its_formula(void **state)
{
    (void)state;
    double a[N * N], x[N], want[N];
    symmetric(positive, a);
    for (int terms = 0; terms <= 20; terms += terms < 5 ? 1 : 5) {
        sg_solve_options o = {.size = sizeof o, .steps = terms, .scale = 0.2, .damping = 0.05};
        sg_solve_result r = solve_host(a, &o, x);
        neumann_formula(a, terms, 0.2, 0.05, want);
        assert_tensor_close(x, want, N, 1e-14, 1e-15, "K terms");
        assert_int_equal(r.iterations, terms);
        assert_int_equal(r.reason, SG_SOLVE_STEPS);
        assert_false(r.converged);
        check_forms(a, o, 1e-14);
    }
}

/* Many terms approach the solution, and the residual reported is the residual of the sum without its last term. */
static void neumann_converges(void **state)
{
    (void)state;
    double a[N * N], x[N], w[N];
    symmetric(positive, a);
    sg_solve_options o = {.size = sizeof o, .steps = 1000, .scale = 0.5, .tolerance = 1e-10};
    sg_solve_result r = solve_host(a, &o, x);
    assert_true(r.converged);
    assert_int_equal(r.reason, SG_SOLVE_CONVERGED);
    assert_true(r.iterations < 200 && r.residual <= 1e-10);
    multiply(&(dense){a, N, 0}, x, w, NULL);
    assert_tensor_close(w, b, N, 1e-9, 1e-9, "A x = b");
    sg_solve_options shorter = {.size = sizeof o, .steps = 7, .scale = 0.2}, longer = shorter;
    longer.steps = 8;
    solve_host(a, &shorter, x);
    multiply(&(dense){a, N, 0}, x, w, NULL);
    double rr = 0, bb = 0;
    for (int i = 0; i < N; i++) {
        rr += (b[i] - w[i]) * (b[i] - w[i]);
        bb += b[i] * b[i];
    }
    assert_true(fabs(solve_host(a, &longer, x).residual - sqrt(rr / bb)) < 1e-12);
    sg_solve_options few = {.size = sizeof o, .steps = 60, .scale = 0.5, .tolerance = 1e-3};
    check_forms(a, few, 1e-12);
}

/* Negative curvature: the series ends before the first term that grows, and says so. */
static void divergence_is_reported(void **state)
{
    (void)state;
    double a[N * N], x[N], want[N];
    symmetric(indefinite, a);
    sg_solve_options o = {.size = sizeof o, .steps = 30, .scale = 0.3};
    sg_solve_result r = solve_host(a, &o, x);
    assert_int_equal(r.reason, SG_SOLVE_GROWTH);
    assert_false(r.converged);
    assert_true(r.iterations < 30);
    neumann_formula(a, r.iterations, 0.3, 0, want);
    assert_tensor_close(x, want, N, 1e-14, 1e-15, "terms before the growth");
    check_forms(a, o, 1e-13);
    o.keep_growing = true;
    o.steps = 12;
    r = solve_host(a, &o, x);
    assert_int_equal(r.reason, SG_SOLVE_GROWTH);
    assert_int_equal(r.iterations, 12);
    neumann_formula(a, 12, 0.3, 0, want);
    assert_tensor_close(x, want, N, 1e-14, 1e-15, "all terms");
    check_forms(a, o, 1e-13);
    o.keep_growing = false;
    o.damping = 0.9; /* lifts the spectrum above 0: the cure */
    o.steps = 1000;
    o.tolerance = 1e-8;
    assert_true(solve_host(a, &o, x).converged);
    /* a scale too large diverges on a positive matrix too */
    symmetric(positive, a);
    sg_solve_options wild = {.size = sizeof o, .steps = 9, .scale = 2};
    assert_int_equal(solve_host(a, &wild, x).reason, SG_SOLVE_GROWTH);
    check_forms(a, wild, 1e-13);
}

/* ----------------------------------------------------------------------------------------------- conjugate gradients */

static void cg_solves(void **state)
{
    (void)state;
    double a[N * N], x[N], direct[N];
    symmetric(positive, a);
    sg_solve_options o = {.size = sizeof o, .method = SG_SOLVE_CG, .steps = 20, .tolerance = 1e-12};
    sg_solve_result r = solve_host(a, &o, x);
    assert_true(r.converged && r.iterations <= N + 1);
    o.method = SG_SOLVE_DIRECT;
    assert_true(solve_host(a, &o, direct).converged);
    assert_tensor_close(x, direct, N, 1e-10, 1e-10, "conjugate gradients");
    o = (sg_solve_options){.size = sizeof o, .method = SG_SOLVE_CG, .steps = 3, .damping = 0.2};
    r = solve_host(a, &o, x);
    assert_int_equal(r.reason, SG_SOLVE_STEPS);
    assert_false(r.converged);
    check_forms(a, o, 1e-12);
    o.tolerance = 0.3;
    assert_true(solve_host(a, &o, x).converged);
    check_forms(a, o, 1e-12);
    o.steps = 0;
    check_forms(a, o, 1e-12);
}

static void indefinite_cg_is_reported(void **state)
{
    (void)state;
    double a[N * N], x[N];
    symmetric(indefinite, a);
    sg_solve_options o = {.size = sizeof o, .method = SG_SOLVE_CG, .steps = 20, .tolerance = 1e-12};
    sg_solve_result r = solve_host(a, &o, x);
    assert_int_equal(r.reason, SG_SOLVE_NEGATIVE_CURVATURE);
    assert_false(r.converged);
    assert_true(r.residual > 1e-12 && r.iterations < N);
    check_forms(a, o, 1e-12);
    o.damping = 1;
    assert_true(solve_host(a, &o, x).converged);
    check_forms(
        a, (sg_solve_options){.size = sizeof o, .method = SG_SOLVE_CG, .steps = 20, .tolerance = 1e-3, .damping = 1},
        1e-9);
}

/* ---------------------------------------------------------------------------------------------------------- failures */

static bool refuse(void *user, const double *v, double *out, sg_error *err)
{
    (void)user, (void)v, (void)out;
    sg_fail(err, SG_E_DEVICE, "no device");
    return false;
}

static void failures(void **state)
{
    (void)state;
    double a[N * N] = {0}, x[N];
    sg_solve_options o = {.size = sizeof o, .method = SG_SOLVE_DIRECT};
    assert_int_equal(solve_host(a, &o, x).reason, SG_SOLVE_SINGULAR);
    a[0] = NAN;
    for (int method = SG_SOLVE_NEUMANN; method <= SG_SOLVE_CG; method++) {
        o = (sg_solve_options){.size = sizeof o, .method = method, .steps = 4, .scale = 1};
        sg_solve_result r = solve_host(a, &o, x);
        assert_int_equal(r.reason, SG_SOLVE_NOT_FINITE);
        assert_int_equal(r.iterations, 0);
        check_forms(a, o, 1e-12);
    }
    sg_error err;
    sg_solve_result r;
    sg_linear_map broken = {refuse, NULL, N, N}, wide = {refuse, NULL, N, N + 1},
                  large = {refuse, NULL, 1 << 20, 1 << 20};
    assert_int_equal(sg_solve(&broken, b, &o, x, &r, &err), SG_E_DEVICE);
    assert_string_equal(err.text, "no device");
    assert_int_equal(sg_solve(&wide, b, &o, x, &r, &err), SG_E_SHAPE);
    o = (sg_solve_options){.size = sizeof o, .steps = 4};
    assert_int_equal(sg_solve(&broken, b, &o, x, &r, &err), SG_E_ARGUMENT);
    assert_non_null(strstr(err.text, "scale"));
    assert_int_equal(sg_dense_matrix(&large, NULL, &err), SG_E_ARGUMENT);
    assert_non_null(strstr(err.text, "refused"));
    for (int reason = SG_SOLVE_STEPS; reason <= SG_SOLVE_SINGULAR; reason++)
        assert_true(strlen(sg_solve_reason_text(reason)) > 5);
}

/* ---------------------------------------------------------------------------------------------------------- spectra */

static void lanczos_finds_extremes(void **state)
{
    (void)state;
    double a[N * N];
    sg_error err;
    for (int signs = 0; signs < 2; signs++) {
        symmetric(indefinite, a);
        dense d = {a, N, 0};
        sg_linear_map map = map_of(&d);
        sg_lanczos_result r;
        sg_lanczos_options o = {.size = sizeof o, .seed = 3, .rademacher = signs};
        assert_int_equal(sg_lanczos(&map, &o, &r, &err), SG_OK);
        assert_true(r.converged);
        assert_true(fabs(r.smallest + 0.8) < 1e-12 && fabs(r.largest - 3) < 1e-12);
    }
    /* an eigenvalue of multiplicity n exhausts the space at once */
    double identity[N * N] = {0};
    for (int i = 0; i < N; i++)
        identity[i * N + i] = i == 3 ? -2 : 1;
    dense d = {identity, N, 0};
    sg_linear_map map = map_of(&d);
    sg_lanczos_result r;
    sg_lanczos_options o = {.size = sizeof o};
    assert_int_equal(sg_lanczos(&map, &o, &r, &err), SG_OK);
    assert_true(r.converged && fabs(r.smallest + 2) < 1e-12 && fabs(r.largest - 1) < 1e-12);
}

/* A larger matrix and few steps: not converged is said, and an eigenvalue is within each residual. */
static void lanczos_residuals_bound(void **state)
{
    (void)state;
    enum { WIDE = 200 };
    static double a[WIDE * WIDE];
    for (int i = 0; i < WIDE; i++)
        a[i * WIDE + i] = 1.0 + i; /* eigenvalues 1..200 */
    dense d = {a, WIDE, 0};
    sg_linear_map map = map_of(&d);
    sg_lanczos_result r;
    sg_lanczos_options o = {.size = sizeof o, .steps = 12, .seed = 1};
    assert_int_equal(sg_lanczos(&map, &o, &r, NULL), SG_OK);
    assert_int_equal(r.reason, SG_SOLVE_STEPS);
    assert_false(r.converged);
    assert_int_equal(d.products, 12);
    assert_true(r.largest <= 200 && r.smallest >= 1);
    assert_true(fabs(r.largest - round(r.largest)) <= r.largest_residual);
    assert_true(fabs(r.smallest - round(r.smallest)) <= r.smallest_residual);
    o.steps = WIDE;
    assert_int_equal(sg_lanczos(&map, &o, &r, NULL), SG_OK);
    assert_true(r.converged && r.iterations <= WIDE);
    assert_true(fabs(r.largest - 200) < 1e-9 && fabs(r.smallest - 1) < 1e-9);
}

static void hutchinson_estimates(void **state)
{
    (void)state;
    double a[N * N], diagonal[N], error[N];
    symmetric(positive, a);
    dense d = {a, N, 0};
    sg_linear_map map = map_of(&d);
    assert_int_equal(sg_hutchinson_diagonal(&map, 4000, 9, diagonal, error, NULL), SG_OK);
    for (int i = 0; i < N; i++) {
        assert_true(error[i] > 0 && error[i] < 0.1);
        assert_true(fabs(diagonal[i] - a[i * N + i]) < 4 * error[i]);
    }
    double again[N];
    assert_int_equal(sg_hutchinson_diagonal(&map, 4000, 9, again, NULL, NULL), SG_OK);
    assert_memory_equal(diagonal, again, sizeof again);
    double scaled[N * N] = {0};
    for (int i = 0; i < N; i++)
        scaled[i * N + i] = i - 1.5;
    dense diagonal_matrix = {scaled, N, 0};
    map = map_of(&diagonal_matrix);
    assert_int_equal(sg_hutchinson_diagonal(&map, 1, 2, diagonal, NULL, NULL), SG_OK); /* one draw is exact */
    for (int i = 0; i < N; i++)
        assert_true(diagonal[i] == i - 1.5);
    assert_int_equal(sg_hutchinson_diagonal(&map, 1, 2, diagonal, error, NULL), SG_E_ARGUMENT);
}

static void power_iteration(void **state)
{
    (void)state;
    double a[N * N];
    symmetric(positive, a);
    for (int unroll = 0; unroll < 2; unroll++) {
        sg_graph *g = sg_graph_new();
        sg_value A = sg_constant(g, SG_F64, SG_SHAPE(N, N), a, N * N),
                 start = sg_constant(g, SG_F64, SG_SHAPE(N), b, N);
        sg_value in = sg_fill_like(start, 0.123456789), out = sg_matmul(A, in), v;
        sg_power_result r = sg_power_iteration(&(sg_graph_map){&in, &out, 1}, &start, 60, unroll, &v);
        double value, residual, at[N];
        graph_eval(g, NULL, NULL, 0, (sg_value[]){r.value, r.residual, v}, (double *[]){&value, &residual, at}, 3);
        assert_true(fabs(value - 3.5) < 1e-10 && residual < 1e-5);
        double length = 0;
        for (int i = 0; i < N; i++)
            length += at[i] * at[i];
        assert_true(fabs(length - 1) < 1e-12);
        sg_graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neumann_is_its_formula),    cmocka_unit_test(neumann_converges),
        cmocka_unit_test(divergence_is_reported),    cmocka_unit_test(cg_solves),
        cmocka_unit_test(indefinite_cg_is_reported), cmocka_unit_test(failures),
        cmocka_unit_test(lanczos_finds_extremes),    cmocka_unit_test(lanczos_residuals_bound),
        cmocka_unit_test(hutchinson_estimates),      cmocka_unit_test(power_iteration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
