/* Optimiser steps, gradient clipping, random draws and the generator state, and the decompositions of composites. */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

/* ---- decompositions: build what the descriptor's `decompose` builds, beside the node itself, and compare */

static void decompose(sg_value v, sg_value *out)
{
    const sg_node node = *sg_node_of(v);
    sg_value in[8];
    for (int32_t k = 0; k < node.n_in; k++)
        in[k] = sg_value_at(v.graph, node.in[k]);
    node.op->decompose(&(sg_decompose_args){v.graph, &node, in, out});
}

static void assert_decomposes(sg_value v, const sg_value *x, double *const *feed, int32_t n_x, double atol,
                              const char *name)
{
    double a[64], b[64];
    sg_value part[4], both[2] = {v, SG_NONE};
    int64_t n = sg_shape_count(sg_shape_of(v));
    decompose(v, part);
    both[1] = part[0];
    assert_true(sg_shape_equal(sg_shape_of(v), sg_shape_of(part[0])));
    assert_int_equal(sg_dtype_of(v), sg_dtype_of(part[0]));
    graph_eval(v.graph, x, feed, n_x, both, (double *[]){a, b}, 2);
    assert_tensor_close(b, a, n, 1e-12, atol, name);
}

static void composites_equal_their_decompositions(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value x = sg_input(graph, "x", SG_F64, SG_SHAPE(3, 4)), y = sg_input(graph, "y", SG_F64, SG_SHAPE(4));
    sg_value t = sg_input(graph, "t", SG_I32, SG_SHAPE(3)), in[3] = {x, y, t};
    double inf = INFINITY, px[12] = {1, -20, 0, 35, -inf, -inf, -inf, -inf, 2, -inf, 0.5, -1}, py[4] = {0, 1, 0.25, 1};
    double pt[3] = {3, -1, 2}, *feed[3] = {px, py, pt};
    assert_decomposes(sg_softmax(x, -1), in, feed, 3, 0, "softmax");
    assert_decomposes(sg_softmax(x, 0), in, feed, 3, 0, "softmax of columns");
    assert_decomposes(sg_log_softmax(x, -1), in, feed, 3, 0, "log_softmax");
    assert_decomposes(sg_softmax_cross_entropy(x, t), in, feed, 3, 1e-14, "softmax_cross_entropy");
    for (int i = 4; i < 12; i++)
        px[i] = i - 40 + 10 * (i % 5);
    assert_decomposes(sg_bce_with_logits(x, y), in, feed, 3, 0, "bce_with_logits");
    assert_decomposes(sg_gelu(x), in, feed, 3, 0, "gelu");
    assert_decomposes(sg_gelu_tanh(x), in, feed, 3, 0, "gelu_tanh");
    sg_graph_free(graph);
}

/* A row of all -inf and an ignored target must leave no NaN in the gradient of any row. */
static void masked_rows_have_zero_gradient(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value x = sg_input(graph, "x", SG_F64, SG_SHAPE(3, 2)), t = sg_input(graph, "t", SG_I32, SG_SHAPE(3)),
             in[2] = {x, t};
    sg_value seed = sg_constant(graph, SG_F64, SG_SHAPE(3, 2), (double[]){1, 2, 3, 4, 5, 6}, 6), y = sg_softmax(x, -1),
             g[3];
    sg_vjp(&y, &seed, 1, &x, 1, &g[0]);
    sg_grad(sg_sum_all(sg_softmax_cross_entropy(x, t)), &x, 1, &g[1]);
    sg_grad(sg_sum_all(sg_mul(g[1], seed)), &x, 1, &g[2]);
    double inf = INFINITY, px[6] = {0, 0, -inf, -inf, NAN, 1}, pt[3] = {1, -1, -1}, got[3][6];
    graph_eval(graph, in, (double *[]){px, pt}, 2, g, (double *[]){got[0], got[1], got[2]}, 3);
    assert_tensor_close(got[0], ((double[]){-0.25, 0.25, 0, 0}), 4, 1e-14, 0, "softmax");
    assert_tensor_close(got[1], ((double[]){0.5, -0.5, 0, 0}), 4, 1e-14, 0, "cross-entropy");
    assert_tensor_close(got[2], ((double[]){-0.25, 0.25, 0, 0}), 4, 1e-14, 0, "cross-entropy, second order");
    sg_graph_free(graph);
}

/* ---- Adam */

typedef struct adam_run {
    sg_graph *graph;
    sg_value in[6];
    sg_adam_state next;
} adam_run;

static adam_run adam_new(int64_t n, double beta1, double beta2, double eps, double decay, bool decoupled)
{
    adam_run run = {.graph = sg_graph_new()};
    const char *names[6] = {"p", "g", "m", "v", "lr", "t"};
    for (int k = 0; k < 6; k++)
        run.in[k] = sg_input(run.graph, names[k], SG_F64, k < 4 ? SG_SHAPE(n) : sg_shape_scalar());
    sg_adam_state now = {run.in[0], run.in[2], run.in[3]};
    run.next = sg_adam(now, run.in[1], run.in[4], run.in[5], beta1, beta2, eps, decay, decoupled);
    return run;
}

/* One step by the kernel and by the decomposition; state is p, m, v. */
static void adam_step(adam_run *run, double *const *state, double *g, double lr, double t)
{
    double out[2][3][8], *feed[6] = {state[0], g, state[1], state[2], &lr, &t}, *to[6];
    sg_value y[6] = {run->next.p, run->next.m, run->next.v};
    int64_t n = sg_shape_count(sg_shape_of(run->in[0]));
    decompose(run->next.p, &y[3]);
    for (int k = 0; k < 6; k++)
        to[k] = out[k / 3][k % 3];
    graph_eval(run->graph, run->in, feed, 6, y, to, 6);
    for (int k = 0; k < 3; k++) {
        assert_tensor_close(out[1][k], out[0][k], n, 1e-13, 1e-16, "decomposition");
        memcpy(state[k], out[0][k], (size_t)n * sizeof(double));
    }
}

static void read_array(const json_t *tensor, int64_t from, int64_t n, double *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = json_number_value(json_array_get(json_object_get(tensor, "data"), (size_t)(from + i)));
}

static void adam_case(const json_t *test)
{
    const json_t *attrs = json_object_get(test, "attrs"), *in = json_object_get(test, "inputs");
    const json_t *want = json_object_get(test, "outputs"), *betas = json_object_get(attrs, "betas");
    const char *name = json_string_value(json_object_get(test, "name"));
    bool decoupled = strcmp(json_string_value(json_object_get(test, "op")), "adamw") == 0;
    adam_run run = adam_new(4, json_number_value(json_array_get(betas, 0)), json_number_value(json_array_get(betas, 1)),
                            json_number_value(json_object_get(attrs, "eps")),
                            json_number_value(json_object_get(attrs, "weight_decay")), decoupled);
    double p[4], m[4] = {0}, v[4] = {0}, g[4], expected[4], lr = json_number_value(json_object_get(attrs, "lr"));
    read_array(json_object_get(in, "p"), 0, 4, p);
    for (int64_t t = 1; t <= 5; t++) {
        read_array(json_object_get(in, "gradients"), 4 * (t - 1), 4, g);
        adam_step(&run, (double *[]){p, m, v}, g, lr, (double)t);
        read_array(json_object_get(want, "p"), 4 * (t - 1), 4, expected);
        assert_tensor_close(p, expected, 4, 1e-12, 1e-15, name);
    }
    read_array(json_object_get(want, "v"), 0, 4, expected);
    assert_tensor_close(v, expected, 4, 1e-12, 0, name);
    sg_graph_free(run.graph);
}

static json_t *load_optimisers(void)
{
    char path[4096];
    const char *shared = getenv("SG_SHARED");
    snprintf(path, sizeof path, "%s/golden/optimisers.json", shared ? shared : SG_SOURCE_DIR "/../shared");
    return json_load_file(path, 0, NULL);
}

static void adam_matches_golden_traces(void **state)
{
    (void)state;
    json_t *root = load_optimisers();
    if (!root) {
        print_message("skipped: no golden/optimisers.json under $SG_SHARED or beside the source tree\n");
        skip();
    }
    int ran = 0;
    for (size_t i = 0; i < json_array_size(json_object_get(root, "cases")); i++) {
        const json_t *test = json_array_get(json_object_get(root, "cases"), i);
        const char *op = json_string_value(json_object_get(test, "op"));
        bool plain = !json_object_get(json_object_get(test, "attrs"), "amsgrad");
        if (plain && strncmp(op, "adam", 4) == 0) {
            adam_case(test);
            ran++;
        }
    }
    json_decref(root);
    assert_int_equal(ran, 12);
}

/* At g = m = v = 0 the step is 0, its derivative in g is -lr / eps times the mean's share (1 - b1) / (1 - b1^t) = 1
 * at t = 1, and the square root contributes nothing, at first and second order. */
static void adam_is_differentiable_at_zero_moments(void **state)
{
    (void)state;
    adam_run run = adam_new(2, 0.9, 0.999, 1e-8, 0, true);
    sg_value g[3], one = sg_sum_all(run.next.p);
    sg_grad(one, &run.in[1], 1, &g[0]);
    sg_grad(sg_sum_all(sg_square(run.next.p)), &run.in[1], 1, &g[1]);
    sg_grad(sg_sum_all(g[1]), &run.in[1], 1, &g[2]);
    double p[2] = {3, -1}, zero[2] = {0, 0}, lr = 1e-3, t = 1, got[3][2];
    graph_eval(run.graph, run.in, (double *[]){p, zero, zero, zero, &lr, &t}, 6, g,
               (double *[]){got[0], got[1], got[2]}, 3);
    assert_tensor_close(got[0], ((double[]){-1e5, -1e5}), 2, 1e-10, 0, "dp/dg");
    assert_tensor_close(got[1], ((double[]){-6e5, 2e5}), 2, 1e-10, 0, "d p^2/dg");
    assert_tensor_close(got[2], ((double[]){2e10, 2e10}), 2, 1e-10, 0, "d2 p^2/dg2");
    sg_graph_free(run.graph);
}

static void adam_refuses_bad_arguments(void **state)
{
    (void)state;
    sg_error err = {0};
    adam_run run = adam_new(2, 1, 0.999, 1e-8, 0, true);
    assert_true(sg_is_none(run.next.p) && sg_is_none(run.next.m) && sg_is_none(run.next.v));
    assert_int_equal(sg_graph_status(run.graph, &err), SG_E_ARGUMENT);
    assert_non_null(strstr(err.text, "beta1"));
    sg_graph_free(run.graph);
}

/* ---- clipping */

static void clip_factor(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        sg_graph *graph = sg_graph_new();
        sg_value g[2] = {sg_input(graph, "a", SG_F64, SG_SHAPE(2)), sg_input(graph, "b", SG_F64, sg_shape_scalar())},
                 y[4];
        y[0] = sg_clip_factor(g, 2, 2.5, &y[1]);
        sg_grad(sg_mul(y[0], y[1]), &g[0], 1, &y[2]);
        sg_grad(sg_sum_all(y[2]), &g[0], 1, &y[3]);
        double scale[3] = {0, 0.1, 1}, a[2] = {2 * scale[k], 1 * scale[k]}, b = 2 * scale[k], f, norm, da[2], dda[2];
        graph_eval(graph, g, (double *[]){a, &b}, 2, y, (double *[]){&f, &norm, da, dda}, 4);
        double want_norm = 3 * scale[k], want = fmin(1, 2.5 / (want_norm + 1e-6));
        assert_tensor_close(&norm, &want_norm, 1, 1e-15, 0, "norm");
        assert_tensor_close(&f, &want, 1, 1e-15, 0, "factor");
        for (int i = 0; i < 2; i++)
            assert_true(isfinite(da[i]) && isfinite(dda[i]));
        if (k == 0)
            assert_tensor_close(da, ((double[]){0, 0}), 2, 0, 0, "gradient at norm 0");
        if (k == 1)
            assert_tensor_close(da, ((double[]){2.0 / 3, 1.0 / 3}), 2, 1e-14, 0, "gradient below the limit");
        sg_graph_free(graph);
    }
}

/* ---- draws */

enum { DRAWS = 4096 };

static void draw_once(uint64_t seed, uint64_t step, const char *path, double *uniform, double *normal)
{
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F64);
    sg_rng_seed(store, seed, step);
    sg_scope scope = sg_scope_sub(sg_scope_root(graph, store), path);
    sg_value model = sg_input(graph, "model", SG_F32, SG_SHAPE(DRAWS)), y[2];
    y[0] = sg_uniform_like(scope, model);
    y[1] = sg_normal_like(scope, model);
    double *unread = sg_calloc(DRAWS, sizeof *unread);
    graph_eval(graph, &model, &unread, 1, y, (double *[]){uniform, normal}, 2);
    sg_free(unread);
    sg_graph_free(graph);
    sg_store_free(store);
}

static bool same_draws(const double *a, const double *b) { return memcmp(a, b, DRAWS * sizeof *a) == 0; }

static void draws_depend_on_seed_step_and_scope_alone(void **state)
{
    (void)state;
    static double u[5][DRAWS], n[5][DRAWS];
    draw_once(7, 3, "a", u[0], n[0]);
    draw_once(7, 3, "a", u[1], n[1]);
    draw_once(8, 3, "a", u[2], n[2]);
    draw_once(7, 4, "a", u[3], n[3]);
    draw_once(7, 3, "b", u[4], n[4]);
    assert_true(same_draws(u[0], u[1]) && same_draws(n[0], n[1]));
    for (int k = 2; k < 5; k++)
        assert_false(same_draws(u[0], u[k]) || same_draws(n[0], n[k]));
}

static void draws_have_the_right_moments(void **state)
{
    (void)state;
    static double u[DRAWS], n[DRAWS];
    double mean_u = 0, mean_n = 0, square_u = 0, square_n = 0;
    draw_once(1, 0, "a", u, n);
    for (int i = 0; i < DRAWS; i++) {
        assert_true(u[i] >= 0 && u[i] < 1 && u[i] == (float)u[i] && n[i] == (float)n[i]);
        assert_true(u[i] * 0x1p24 == floor(u[i] * 0x1p24));
        mean_u += u[i] / DRAWS;
        mean_n += n[i] / DRAWS;
        square_u += u[i] * u[i] / DRAWS;
        square_n += n[i] * n[i] / DRAWS;
    }
    assert_true(fabs(mean_u - 0.5) < 5 * sqrt(1.0 / 12 / DRAWS) && fabs(mean_n) < 5 / sqrt(DRAWS));
    assert_true(fabs(square_u - 1.0 / 3) < 5 * sqrt(4.0 / 45 / DRAWS) && fabs(square_n - 1) < 5 * sqrt(2.0 / DRAWS));
}

static void dropout_and_bernoulli(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F64);
    sg_rng_seed(store, 5, 0);
    sg_scope scope = sg_scope_root(graph, store);
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(DRAWS)), y[4], loss;
    assert_true(sg_same(sg_dropout(scope, x, 0), x));
    y[0] = sg_dropout(scope, x, 0.25);
    y[1] = sg_dropout(scope, x, 0.25);
    y[2] = sg_bernoulli(scope, sg_mul_scalar(x, 0.1));
    loss = sg_sum_all(y[0]);
    sg_grad(loss, &x, 1, &y[3]);
    static double at[DRAWS], out[4][DRAWS];
    for (int i = 0; i < DRAWS; i++)
        at[i] = 3;
    graph_eval(graph, &x, (double *[]){at}, 1, y, (double *[]){out[0], out[1], out[2], out[3]}, 4);
    int kept = 0, ones = 0;
    for (int i = 0; i < DRAWS; i++) {
        assert_true(out[0][i] == 0 || out[0][i] == 4);
        assert_true(out[2][i] == 0 || out[2][i] == 1);
        assert_true(out[3][i] == out[0][i] / 3); /* the gradient uses the mask of the value */
        kept += out[0][i] != 0;
        ones += out[2][i] == 1;
    }
    assert_true(abs(kept - 3 * DRAWS / 4) < 150 && abs(ones - 3 * DRAWS / 10) < 150);
    assert_false(same_draws(out[0], out[1])); /* equal draws are not one draw */
    sg_error err = {0};
    assert_true(sg_is_none(sg_dropout(scope, x, 1)));
    assert_int_equal(sg_graph_status(graph, &err), SG_E_ARGUMENT);
    sg_graph_free(graph);
    sg_store_free(store);
}

static void the_step_counts_in_64_bits(void **state)
{
    (void)state;
    const double before[3][2] = {{0, 0}, {-1, 7}, {-1, -1}}, after[3][2] = {{1, 0}, {0, 8}, {0, 0}};
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F64);
    sg_scope scope = sg_scope_root(graph, store);
    sg_rng_seed(store, UINT64_C(0xfffffffe00000005), UINT64_C(0x100000002));
    double words[4];
    assert_int_equal(sg_store_get(store, "rng", words, 4, NULL), SG_OK);
    assert_tensor_close(words, ((double[]){5, -2, 2, 1}), 4, 0, 0, "seed and step");
    sg_value rng = sg_rng(sg_scope_sub(scope, "deep"));
    assert_true(sg_same(rng, sg_rng(scope)));
    sg_rng_advance(scope);
    sg_value next = sg_rng(scope);
    assert_false(sg_same(rng, next));
    for (int k = 0; k < 3; k++) {
        double in[4] = {11, -12, before[k][0], before[k][1]}, out[4];
        graph_eval(graph, &rng, (double *[]){in}, 1, &next, (double *[]){out}, 1);
        assert_tensor_close(out, ((double[]){11, -12, after[k][0], after[k][1]}), 4, 0, 0, "advance");
    }
    sg_graph_free(graph);
    sg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(composites_equal_their_decompositions),
        cmocka_unit_test(masked_rows_have_zero_gradient),
        cmocka_unit_test(adam_matches_golden_traces),
        cmocka_unit_test(adam_is_differentiable_at_zero_moments),
        cmocka_unit_test(adam_refuses_bad_arguments),
        cmocka_unit_test(clip_factor),
        cmocka_unit_test(draws_depend_on_seed_step_and_scope_alone),
        cmocka_unit_test(draws_have_the_right_moments),
        cmocka_unit_test(dropout_and_bernoulli),
        cmocka_unit_test(the_step_counts_in_64_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
