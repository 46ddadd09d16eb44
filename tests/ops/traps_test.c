/* traps_test.c - mistakes that other engines have shipped, each as a named test: masked rows, kinks and zeros, tails, randomness,
 * long sums, threads. On both backends where a kernel could get it wrong. Traps with tests elsewhere:
 *
 *     untaken sides of where, unused targets, tied parameters       autodiff/reverse
 *     linear nets, cotangent-linear rules, saved results             autodiff/higher_order, ops/harness
 *     empty axes, prod and ties on the reference                     ops/tensor_rules, ops/conventions
 *     fused attention and norms against their decomposition          ops/harness (decomposed, cpu second and third order)
 *     solvers: zero right-hand side, indefinite, divergence          autodiff/solve, autodiff/implicit
 *     broadcast, zero sizes, odd sizes, equal bits for any threads   ops/harness
 *     slots with a later reader, old versions, aliases, audit        runtime/planner, runtime/alias, runtime/cpu_plan
 *     resized plans, K = 0, steady state without allocation          runtime/plan, runtime/matmul
 *     resume, other shapes, hostile files                            models/train, serialize */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "runtime/runtime.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "NaN and infinities are part of the conventions: build without -ffinite-math-only"
#endif

enum { MOST = 32, BACKENDS = 2 };
static const char *const backends[BACKENDS] = {"reference", "cpu"};

/* Value, gradient and (with a tangent of ones) Hessian product of sum f at x, each n elements; out[0] may be shorter. */
typedef sg_value (*function)(sg_value x);

static void derive(function f, const char *backend, sg_shape shape, const double *x, double out[3][MOST])
{
    sg_graph *graph = sg_graph_new();
    sg_value in = sg_input(graph, "x", SG_F32, shape), y = f(in), g, h, v = sg_ones_like(in);
    sg_value loss = sg_sum_all(y);
    sg_grad(loss, &in, 1, &g);
    sg_hvp(loss, &in, &v, 1, &h, SG_HVP_FORWARD_OVER_REVERSE);
    sg_result(graph, "y", y);
    sg_result(graph, "g", g);
    sg_result(graph, "h", h);
    double *feed = (double *)(uintptr_t)x;
    assert_true(
        graph_run(graph, NULL, backend, 1, (const char *[]){"x"}, &feed, 1, (double *[]){out[0], out[1], out[2]}));
    sg_graph_free(graph);
}

/* An elementwise f on both backends, to `tolerance` of each element. */
static void expect_points(function f, int64_t n, const double *x, const double *y, const double *g, const double *h,
                          double tolerance)
{
    for (int b = 0; b < BACKENDS; b++) {
        double out[3][MOST];
        const double *want[3] = {y, g, h};
        derive(f, backends[b], SG_SHAPE(n), x, out);
        for (int k = 0; k < 3; k++)
            assert_tensor_close(out[k], want[k], n, tolerance, 0, backends[b]);
    }
}

/* ---- masked rows */

static sg_value attend(sg_value x)
{
    sg_value q = sg_slice(x, 1, 0, 2), k = sg_slice(x, 1, 2, 4), v = sg_slice(x, 1, 4, 6);
    const double keep[9] = {1, 0, 1, 0, 0, 0, 1, 1, 1};
    sg_attention_options options = {.mask = sg_constant(x.graph, SG_BOOL, SG_SHAPE(1, 1, 3, 3), keep, 9)};
    sg_shape shape = SG_SHAPE(1, 1, 3, 2);
    return sg_square(sg_attention(sg_reshape(q, shape), sg_reshape(k, shape), sg_reshape(v, shape), &options));
}

/* Row 1 attends to nothing: zeros, no NaN anywhere, and its query has no say in any derivative. */
static void fully_masked_attention_rows_are_zero(void **state)
{
    (void)state;
    double x[18], out[3][MOST];
    for (int b = 0; b < BACKENDS; b++) {
        double other[3][MOST];
        for (int i = 0; i < 18; i++)
            x[i] = 0.3 * (i % 5) - 0.4;
        derive(attend, backends[b], SG_SHAPE(3, 6), x, out);
        for (int i = 0; i < 18; i++)
            assert_true(isfinite(out[1][i]) && isfinite(out[2][i]));
        for (int i = 0; i < 2; i++)
            assert_true(out[0][2 + i] == 0 && out[1][6 + i] == 0 && out[2][6 + i] == 0);
        x[6] = x[7] = 50;
        derive(attend, backends[b], SG_SHAPE(3, 6), x, other);
        assert_memory_equal(out[0], other[0], 6 * sizeof(double));
        assert_memory_equal(out[1], other[1], 18 * sizeof(double));
    }
}

static sg_value masked_logsumexp(sg_value x)
{
    const double mask[4] = {-INFINITY, -INFINITY, 0, 0};
    return sg_logsumexp(sg_add(x, sg_constant(x.graph, SG_F32, SG_SHAPE(2, 2), mask, 4)), -1, false);
}

static void logsumexp_of_masked_rows_has_gradient_zero(void **state)
{
    (void)state;
    const double x[4] = {1, 2, 0, 0}, g[4] = {0, 0, 0.5, 0.5}, h[4] = {0};
    for (int b = 0; b < BACKENDS; b++) {
        double out[3][MOST];
        derive(masked_logsumexp, backends[b], SG_SHAPE(2, 2), x, out);
        assert_true(out[0][0] == -INFINITY);
        assert_tensor_close(out[1], g, 4, 1e-6, 0, backends[b]);
        assert_tensor_close(out[2], h, 4, 0, 1e-7, backends[b]);
    }
}

static sg_value dense_loss(sg_value z)
{
    const double p[3] = {0.5, 0.5, 0};
    return sg_softmax_cross_entropy_dense(z, sg_constant(z.graph, SG_F32, SG_SHAPE(3), p, 3));
}

static sg_value divergence(sg_value log_p)
{
    const double log_q[3] = {-1, -1, -INFINITY};
    return sg_kl_divergence(log_p, sg_constant(log_p.graph, SG_F32, SG_SHAPE(3), log_q, 3));
}

/* Classes of probability 0 with logit -inf: no 0 * inf, and what is left is the loss of the others. */
static void impossible_classes_take_part_with_zero(void **state)
{
    (void)state;
    const double x[3] = {0, 0, -INFINITY}, log_p[3] = {-M_LN2, -M_LN2, -INFINITY};
    /* e^l (l + 1) with slope e^l (l + 2) and curvature e^l (l + 3) at l = -log 2. */
    const double g[3] = {1 - M_LN2 / 2, 1 - M_LN2 / 2, 0}, h[3] = {1.5 - M_LN2 / 2, 1.5 - M_LN2 / 2, 0}, zero[3] = {0};
    for (int b = 0; b < BACKENDS; b++) {
        double out[3][MOST];
        derive(dense_loss, backends[b], SG_SHAPE(3), x, out);
        assert_tensor_close(out[0], (double[]){M_LN2}, 1, 1e-6, 0, backends[b]);
        assert_tensor_close(out[1], zero, 3, 0, 1e-7, backends[b]);
        assert_tensor_close(out[2], zero, 3, 0, 1e-7, backends[b]);
        derive(divergence, backends[b], SG_SHAPE(3), log_p, out);
        assert_tensor_close(out[0], (double[]){1 - M_LN2}, 1, 1e-6, 0, backends[b]);
        assert_tensor_close(out[1], g, 3, 1e-6, 0, backends[b]);
        assert_tensor_close(out[2], h, 3, 1e-6, 0, backends[b]);
    }
}

static void targets_out_of_range_are_errors(void **state)
{
    (void)state;
    for (int b = 0; b < BACKENDS; b++)
        for (int bad = 0; bad < 2; bad++) {
            sg_graph *graph = sg_graph_new();
            sg_store *store = sg_store_new(b == 0 ? SG_F64 : SG_F32);
            sg_value z = sg_input(graph, "z", SG_F32, SG_SHAPE(2, 3)), t = sg_input(graph, "t", SG_I32, SG_SHAPE(2));
            sg_result(graph, "loss", sg_sum_all(sg_softmax_cross_entropy(z, t)));
            sg_session *session;
            sg_plan *plan;
            sg_error err = {0};
            sg_session_options options = {.size = sizeof options, .backend = backends[b], .threads = 1};
            const double target[2] = {0, bad ? 3 : -2};
            assert_int_equal(sg_session_new(&session, store, &options, &err), SG_OK);
            assert_int_equal(sg_plan_new(&plan, session, graph, &err), SG_OK);
            assert_int_equal(sg_plan_feed(plan, "z", (double[6]){0}, 6, &err), SG_OK);
            assert_int_equal(sg_plan_feed(plan, "t", target, 2, &err), SG_OK);
            assert_int_not_equal(sg_plan_run(plan, &err), SG_OK);
            sg_plan_free(plan);
            sg_session_free(session);
            sg_store_free(store);
            sg_graph_free(graph);
        }
}

/* ---- kinks and zeros */

static sg_value squared_norm(sg_value x) { return sg_sum_all(sg_square(x)); }

static sg_value norm(sg_value x)
{
    sg_value length;
    sg_clip_factor(&x, 1, 1, &length);
    return length;
}

static void norms_at_zero(void **state)
{
    (void)state;
    const double x[3] = {0}, zero[3] = {0}, two[3] = {2, 2, 2};
    for (int b = 0; b < BACKENDS; b++) {
        double out[3][MOST];
        derive(squared_norm, backends[b], SG_SHAPE(3), x, out);
        assert_tensor_close(out[1], zero, 3, 0, 0, "gradient of the squared norm");
        assert_tensor_close(out[2], two, 3, 0, 0, "Hessian of the squared norm");
        derive(norm, backends[b], SG_SHAPE(3), x, out);
        assert_tensor_close(out[1], zero, 3, 0, 0, "subgradient of the norm");
        assert_tensor_close(out[2], zero, 3, 0, 0, "second order of the norm");
    }
}

static sg_value squared_layer_norm(sg_value x) { return sg_square(sg_layer_norm(x, SG_NONE, SG_NONE, 1e-5)); }

static void layer_norm_of_a_constant_row_is_finite(void **state)
{
    (void)state;
    const double x[8] = {3, 3, 3, 3, 1, 2, 3, 4};
    for (int b = 0; b < BACKENDS; b++) {
        double out[3][MOST];
        derive(squared_layer_norm, backends[b], SG_SHAPE(2, 4), x, out);
        for (int i = 0; i < 8; i++)
            assert_true(isfinite(out[0][i]) && isfinite(out[1][i]) && isfinite(out[2][i]));
        for (int i = 0; i < 4; i++)
            assert_true(out[0][i] == 0 && out[1][i] == 0);
    }
}

static sg_value powers(sg_value x)
{
    const double exponent[4] = {0, 1, 2, 3};
    return sg_pow(x, sg_constant(x.graph, SG_F32, SG_SHAPE(4), exponent, 4));
}

static void powers_of_zero_to_second_order(void **state)
{
    (void)state;
    const double x[4] = {0}, y[4] = {1, 0, 0, 0}, g[4] = {0, 1, 0, 0}, h[4] = {0, 0, 2, 0};
    expect_points(powers, 4, x, y, g, h, 0);
}

static sg_value products(sg_value x) { return sg_prod(x, -1, false); }

/* One zero: the others' product; two: only the mixed second derivatives of the pair are left. With ones as tangent
 * h_i = sum_j d2/dx_i dx_j. */
static void products_with_zeros_to_second_order(void **state)
{
    (void)state;
    const double x[6] = {0, 2, 3, 0, 0, 5}, y[2] = {0, 0}, g[6] = {6, 0, 0, 0, 0, 0}, h[6] = {5, 3, 2, 5, 5, 0};
    for (int b = 0; b < BACKENDS; b++) {
        double out[3][MOST];
        derive(products, backends[b], SG_SHAPE(2, 3), x, out);
        assert_tensor_close(out[0], y, 2, 0, 0, backends[b]);
        assert_tensor_close(out[1], g, 6, 1e-6, 0, backends[b]);
        assert_tensor_close(out[2], h, 6, 1e-6, 0, backends[b]);
    }
}

/* Ties and kinks are decided on subnormal numbers as on others. */
static void relu_and_max_at_subnormals(void **state)
{
    (void)state;
    const double x[4] = {1e-40, -1e-40, 0, 1}, g[4] = {1, 0, 0, 1}, h[4] = {0}, pair[2] = {1e-40, 1e-40};
    const double half[2] = {0.5, 0.5}, first[2] = {1, 0}, near[2] = {2e-40, 1e-40};
    for (int b = 0; b < BACKENDS; b++) {
        double out[3][MOST];
        derive(sg_relu, backends[b], SG_SHAPE(4), x, out);
        assert_tensor_close(out[1], g, 4, 0, 0, backends[b]);
        assert_tensor_close(out[2], h, 4, 0, 0, backends[b]);
    }
    for (int b = 0; b < BACKENDS; b++)
        for (int apart = 0; apart < 2; apart++) {
            sg_graph *graph = sg_graph_new();
            sg_value v = sg_input(graph, "x", SG_F32, SG_SHAPE(2)), g2, m = sg_max(v, 0, false);
            sg_grad(m, &v, 1, &g2);
            sg_result(graph, "g", g2);
            double got[2], *feed = (double *)(uintptr_t)(apart ? near : pair);
            assert_true(graph_run(graph, NULL, backends[b], 1, (const char *[]){"x"}, &feed, 1, (double *[]){got}));
            assert_tensor_close(got, apart ? first : half, 2, 0, 0, backends[b]);
            sg_graph_free(graph);
        }
}

/* ---- tails */

static sg_value bce_of_one(sg_value z) { return sg_bce_with_logits(z, sg_ones_like(z)); }

static void bce_at_zero_and_far_out(void **state)
{
    (void)state;
    const double x[3] = {0, 80, -80}, y[3] = {M_LN2, exp(-80), 80}, g[3] = {-0.5, -exp(-80), -1};
    const double h[3] = {0.25, exp(-80), exp(-80)};
    expect_points(bce_of_one, 3, x, y, g, h, 2e-6);
}

static void softplus_far_out(void **state)
{
    (void)state;
    const double x[4] = {80, -80, 1000, -1000}, y[4] = {80, exp(-80), 1000, 0}, g[4] = {1, exp(-80), 1, 0};
    const double h[4] = {exp(-80), exp(-80), 0, 0};
    expect_points(sg_softplus, 4, x, y, g, h, 2e-6);
}

static void sigmoid_tails_are_not_flushed(void **state)
{
    (void)state;
    const double x[2] = {40, -40}, s = exp(-40), y[2] = {1, s}, g[2] = {s, s}, h[2] = {-s, s};
    expect_points(sg_sigmoid, 2, x, y, g, h, 2e-6);
}

/* x^3 overflows there: no inf * 0. */
static void gelu_far_out(void **state)
{
    (void)state;
    const double x[4] = {1e15, -1e15, 1e30, -1e30}, y[4] = {1e15, 0, 1e30, 0}, g[4] = {1, 0, 1, 0}, h[4] = {0};
    expect_points(sg_gelu_tanh, 4, x, y, g, h, 1e-6);
    expect_points(sg_gelu, 4, x, y, g, h, 1e-6);
}

static void nan_passes_through(void **state)
{
    (void)state;
    const function f[] = {sg_relu, sg_abs, sg_sigmoid, sg_softplus, sg_tanh};
    const double x[1] = {NAN};
    for (size_t i = 0; i < sizeof f / sizeof *f; i++)
        for (int b = 0; b < BACKENDS; b++) {
            double out[3][MOST];
            derive(f[i], backends[b], SG_SHAPE(1), x, out);
            assert_true(isnan(out[0][0]));
        }
}

/* ---- randomness */

static void masks_are_the_same_in_all_derivatives(void **state)
{
    (void)state;
    for (int b = 0; b < BACKENDS; b++) {
        sg_graph *graph = sg_graph_new();
        sg_store *store = sg_store_new(b == 0 ? SG_F64 : SG_F32);
        sg_scope scope = sg_scope_root(graph, store);
        sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(MOST)), v = sg_ones_like(x), g, h;
        sg_value y = sg_dropout(scope, x, 0.5), loss = sg_sum_all(sg_square(y));
        sg_value other = sg_dropout(scope, x, 0.5);
        sg_grad(loss, &x, 1, &g);
        sg_hvp(loss, &x, &v, 1, &h, SG_HVP_REVERSE_OVER_REVERSE);
        sg_result(graph, "y", y);
        sg_result(graph, "g", g);
        sg_result(graph, "h", h);
        sg_result(graph, "other", other);
        sg_result(graph, "difference", sg_sub(y, y));
        sg_store_initialise(store, 3);
        double ones[MOST], out[5][MOST], *feed = ones;
        int differ = 0;
        for (int i = 0; i < MOST; i++)
            ones[i] = 1;
        assert_true(graph_run(graph, store, backends[b], 1, (const char *[]){"x"}, &feed, 1,
                              (double *[]){out[0], out[1], out[2], out[3], out[4]}));
        for (int i = 0; i < MOST; i++) { /* kept elements are doubled: 4 x^2 has slopes 8 and 8 */
            assert_true(out[0][i] == 0 || out[0][i] == 2);
            assert_true(out[1][i] == 4 * out[0][i] && out[2][i] == 4 * out[0][i] && out[4][i] == 0);
            differ += out[3][i] != out[0][i];
        }
        assert_true(differ > 0); /* two draws that look equal are two draws */
        sg_store_free(store);
        sg_graph_free(graph);
    }
}

/* ---- long sums, repeated rows */

/* Ones add up exactly in f32 beyond where a sum one by one would stick or lose digits; so do 3000 gradients of one row. */
static void long_sums_are_exact(void **state)
{
    (void)state;
    enum { LONG = 70000, ROWS = 3000 };
    sg_graph *graph = sg_graph_new();
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(1)),
             one = sg_constant(graph, SG_F32, SG_SHAPE(LONG), &(double){1}, 1);
    sg_value index = sg_constant(graph, SG_I32, SG_SHAPE(ROWS), &(double){1}, 1);
    sg_value table = sg_constant(graph, SG_F32, SG_SHAPE(3, 2), &(double){1}, 1), v = sg_ones_like(table), g, h;
    sg_value wide = sg_mul(x, one), rows = sg_gather(table, index);
    sg_value loss = sg_sum_all(sg_mul_scalar(sg_square(rows), 0.5));
    sg_grad(loss, &table, 1, &g);
    sg_hvp(loss, &table, &v, 1, &h, SG_HVP_FORWARD_OVER_REVERSE);
    sg_result(graph, "sum", sg_sum_all(wide));
    sg_result(graph, "mean", sg_mean_all(wide));
    sg_result(graph, "g", g);
    sg_result(graph, "h", h);
    const double want[6] = {0, 0, ROWS, ROWS, 0, 0};
    double feed = 1, sum, mean, grad[6], hessian[6];
    assert_true(graph_run(graph, NULL, "cpu", 2, (const char *[]){"x"}, (double *[]){&feed}, 1,
                          (double *[]){&sum, &mean, grad, hessian}));
    assert_true(sum == LONG && mean == 1);
    assert_tensor_close(grad, want, 6, 0, 0, "gradient of repeated rows");
    assert_tensor_close(hessian, want, 6, 0, 0, "Hessian product of repeated rows");
    sg_graph_free(graph);
}

/* 2^32 elements are counted, costed and never allocated. */
static void more_than_two_billion_elements(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(65536, 65536)), y = sg_sum(sg_exp(x), -1), g;
    sg_grad(sg_sum_all(y), &x, 1, &g);
    sg_error err = {0};
    assert_int_equal(sg_graph_status(graph, &err), SG_OK);
    assert_true(sg_shape_count(sg_shape_of(g)) == INT64_C(1) << 32);
    assert_true(sg_node_cost(graph, sg_node_of(sg_exp(x))).bytes >= 2 * 4 * 0x1p32);
    sg_graph_free(graph);
}

/* ---- steady state */

static int64_t allocations;
static void *counting_allocate(void *user, size_t bytes)
{
    (void)user;
    allocations++;
    return malloc(bytes);
}
static void *counting_resize(void *user, void *old, size_t bytes)
{
    (void)user;
    allocations++;
    return realloc(old, bytes);
}
static void counting_release(void *user, void *old)
{
    (void)user;
    free(old);
}

static void a_thousand_hessian_products_allocate_nothing(void **state)
{
    (void)state;
    sg_allocator_set(&(sg_allocator){counting_allocate, counting_resize, counting_release, NULL});
    for (int b = 0; b < BACKENDS; b++) {
        sg_graph *graph = sg_graph_new();
        sg_store *store = sg_store_new(b == 0 ? SG_F64 : SG_F32);
        sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(4, 5)), v = sg_input(graph, "v", SG_F32, SG_SHAPE(5, 3)), h;
        sg_value w = sg_param(sg_scope_root(graph, store), "w", SG_SHAPE(5, 3), sg_init_uniform(-1, 1));
        sg_hvp(sg_sum_all(sg_softplus(sg_softmax(sg_matmul(x, w), -1))), &w, &v, 1, &h, SG_HVP_FORWARD_OVER_REVERSE);
        sg_result(graph, "h", h);
        sg_store_initialise(store, 1);
        sg_session *session;
        sg_plan *plan;
        sg_error err = {0};
        sg_session_options options = {.size = sizeof options, .backend = backends[b], .threads = 1};
        assert_int_equal(sg_session_new(&session, store, &options, &err), SG_OK);
        assert_int_equal(sg_plan_new(&plan, session, graph, &err), SG_OK);
        assert_true(allocations > 0);
        allocations = 0;
        for (int i = 0; i < 1000; i++)
            assert_int_equal(sg_plan_run(plan, &err), SG_OK);
        assert_int_equal(allocations, 0);
        sg_plan_free(plan);
        sg_session_free(session);
        sg_store_free(store);
        sg_graph_free(graph);
    }
    sg_allocator_set(&(sg_allocator){0});
}

/* ---- threads */

typedef struct job {
    sg_plan *plan;
    float *result;
    sg_status status;
} job;

static void *run_elsewhere(void *user)
{
    job *j = user;
    sg_error err = {0};
    j->status = sg_plan_run(j->plan, &err);
    return NULL;
}

static sg_graph *products_graph(void)
{
    sg_graph *graph = sg_graph_new();
    sg_value a = sg_input(graph, "a", SG_F32, SG_SHAPE(96, 160)), b = sg_input(graph, "b", SG_F32, SG_SHAPE(160, 64));
    sg_result(graph, "y", sg_matmul(sg_tanh(sg_matmul(a, b)), sg_swap_axes(b, 0, 1)));
    return graph;
}

/* Plans compiled here and run on other threads, two sessions at once and with other numbers of threads: equal bits. */
static void plans_run_on_other_threads(void **state)
{
    (void)state;
    enum { PLANS = 3, ELEMENTS = 96 * 160 };
    sg_store *store[PLANS];
    sg_session *session[PLANS];
    sg_graph *graph = products_graph();
    job jobs[PLANS] = {{0}};
    pthread_t threads[PLANS];
    sg_error err = {0};
    static double a[ELEMENTS], b[160 * 64];
    for (int i = 0; i < ELEMENTS; i++)
        a[i] = test_uniform(1, i) - 0.5;
    for (int i = 0; i < 160 * 64; i++)
        b[i] = test_uniform(2, i) - 0.5;
    for (int k = 0; k < PLANS; k++) {
        sg_session_options options = {.size = sizeof options, .backend = "cpu", .threads = 1 + k % 2};
        store[k] = sg_store_new(SG_F32);
        assert_int_equal(sg_session_new(&session[k], store[k], &options, &err), SG_OK);
        assert_int_equal(sg_plan_new(&jobs[k].plan, session[k], graph, &err), SG_OK);
        assert_int_equal(sg_plan_feed(jobs[k].plan, "a", a, ELEMENTS, &err), SG_OK);
        assert_int_equal(sg_plan_feed(jobs[k].plan, "b", b, 160 * 64, &err), SG_OK);
    }
    for (int k = 0; k < PLANS; k++)
        assert_int_equal(pthread_create(&threads[k], NULL, run_elsewhere, &jobs[k]), 0);
    for (int k = 0; k < PLANS; k++) {
        pthread_join(threads[k], NULL);
        assert_int_equal(jobs[k].status, SG_OK);
        assert_memory_equal(sg_plan_result(jobs[k].plan, "y"), sg_plan_result(jobs[0].plan, "y"),
                            ELEMENTS * sizeof(float));
    }
    for (int k = 0; k < PLANS; k++) {
        sg_plan_free(jobs[k].plan);
        sg_session_free(session[k]);
        sg_store_free(store[k]);
    }
    sg_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fully_masked_attention_rows_are_zero),
        cmocka_unit_test(logsumexp_of_masked_rows_has_gradient_zero),
        cmocka_unit_test(impossible_classes_take_part_with_zero),
        cmocka_unit_test(targets_out_of_range_are_errors),
        cmocka_unit_test(norms_at_zero),
        cmocka_unit_test(layer_norm_of_a_constant_row_is_finite),
        cmocka_unit_test(powers_of_zero_to_second_order),
        cmocka_unit_test(products_with_zeros_to_second_order),
        cmocka_unit_test(relu_and_max_at_subnormals),
        cmocka_unit_test(bce_at_zero_and_far_out),
        cmocka_unit_test(softplus_far_out),
        cmocka_unit_test(sigmoid_tails_are_not_flushed),
        cmocka_unit_test(gelu_far_out),
        cmocka_unit_test(nan_passes_through),
        cmocka_unit_test(masks_are_the_same_in_all_derivatives),
        cmocka_unit_test(long_sums_are_exact),
        cmocka_unit_test(more_than_two_billion_elements),
        cmocka_unit_test(a_thousand_hessian_products_allocate_nothing),
        cmocka_unit_test(plans_run_on_other_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
