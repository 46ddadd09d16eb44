/* sequence_test.c - LSTMs and linear-chain CRFs: the fused kernels of the operators and of their derivatives on the cpu backend
 * against the decompositions on the reference backend, over sizes, lengths and choices of variables; lengths out of range. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "runtime/backend_internal.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

enum { INPUTS = 8, RESULTS = 24 };

/* A graph with its inputs i0, i1, .. and their elements. */
typedef struct problem {
    sg_graph *graph;
    sg_value in[INPUTS];
    double *feed[INPUTS];
    int32_t n_in;
} problem;

static const char *const names[INPUTS] = {"i0", "i1", "i2", "i3", "i4", "i5", "i6", "i7"};

static sg_value add_input(problem *p, sg_dtype dtype, sg_shape shape)
{
    int64_t n = sg_shape_count(&shape);
    int32_t k = p->n_in++;
    p->feed[k] = test_calloc((size_t)n + 1, sizeof(double));
    for (int64_t i = 0; i < n; i++)
        p->feed[k][i] = (double)(float)(2 * test_uniform((uint64_t)k + 1, i) - 1);
    return p->in[k] = sg_input(p->graph, names[k], dtype, shape);
}

/* Lengths from `steps` down to 0, again and again. */
static sg_value add_lengths(problem *p, int64_t batch, int64_t steps)
{
    sg_value lengths = add_input(p, SG_I32, SG_SHAPE(batch));
    for (int64_t b = 0; b < batch; b++)
        p->feed[p->n_in - 1][b] = (double)(steps - b % (steps + 1));
    return lengths;
}

static void close_problem(problem *p)
{
    for (int32_t k = 0; k < p->n_in; k++)
        test_free(p->feed[k]);
    sg_graph_free(p->graph);
}

static sg_value direction(sg_value v, uint64_t stream)
{
    double data[4096];
    int64_t n = sg_shape_count(sg_shape_of(v));
    assert_true(n <= 4096);
    for (int64_t i = 0; i < n; i++)
        data[i] = (double)(float)(2 * test_uniform(100 + stream, i) - 1);
    return sg_constant(v.graph, sg_dtype_of(v), *sg_shape_of(v), data, n);
}

/* Gradient, tangent of y, and Hessian products in both modes, with respect to the first n inputs that have a bit. */
static void declare_derivatives(problem *p, sg_value loss, sg_value y, unsigned bits)
{
    sg_value x[INPUTS], v[INPUTS], g[INPUTS], h[INPUTS], dy;
    int32_t n = 0;
    for (int32_t k = 0; k < p->n_in; k++)
        if (bits >> k & 1) {
            v[n] = direction(p->in[k], (uint64_t)k);
            x[n++] = p->in[k];
        }
    sg_grad(loss, x, n, g);
    sg_jvp(&y, 1, x, v, n, &dy);
    sg_result(p->graph, "dy", dy);
    for (int mode = 0; mode < 2; mode++) {
        sg_hvp(loss, x, v, n, h, mode ? SG_HVP_REVERSE_OVER_REVERSE : SG_HVP_FORWARD_OVER_REVERSE);
        for (int32_t k = 0; k < n; k++) {
            char name[16];
            snprintf(name, sizeof name, "h%d.%d", mode, (int)k);
            sg_result(p->graph, name, h[k]);
            snprintf(name, sizeof name, "g%d", (int)k);
            if (mode == 0)
                sg_result(p->graph, name, g[k]);
        }
    }
}

static bool has_kernel(sg_graph *graph, const sg_node *node)
{
    sg_shape in[64], out[64];
    sg_dtype in_dtype[64], out_dtype[64];
    for (int32_t k = 0; k < node->n_in; k++) {
        in[k] = *sg_shape_of(sg_value_at(graph, node->in[k]));
        in_dtype[k] = sg_dtype_of(sg_value_at(graph, node->in[k]));
    }
    for (int32_t k = 0; k < node->n_out; k++) {
        out[k] = *sg_shape_of(sg_value_at(graph, node->out + k));
        out_dtype[k] = sg_dtype_of(sg_value_at(graph, node->out + k));
    }
    sg_kernel_spec spec = {node, node->attr, node->n_in, node->n_out, in, out, in_dtype, out_dtype, 1};
    return sg_backend_cpu()->supports(NULL, &spec);
}

/* The operator and its three derivatives are in the graph, and nothing of them is left to a decomposition. */
static void assert_fused(problem *p, const char *op)
{
    static const char *const suffix[] = {"", "_vjp", "_jvp", "_vjp_jvp"};
    for (int32_t s = 0; s < 4; s++) {
        char name[64];
        int32_t found = 0;
        snprintf(name, sizeof name, "%s%s", op, suffix[s]);
        for (int32_t i = 0; i < sg_node_count(p->graph); i++) {
            const sg_node *node = sg_node_at(p->graph, i);
            if (strcmp(node->op->name, name) != 0)
                continue;
            found++;
            assert_true(has_kernel(p->graph, node));
        }
        if (!found)
            fail_msg("no node %s", name);
    }
}

static void run(problem *p, const char *backend, int32_t threads, double **out)
{
    for (int32_t k = 0; k < sg_result_count(p->graph); k++)
        out[k] = test_calloc((size_t)sg_shape_count(sg_shape_of(sg_result_value(p->graph, k))) + 1, sizeof(double));
    assert_true(graph_run(p->graph, NULL, backend, threads, names, p->feed, p->n_in, out));
}

static void compare_within(problem *p, double tolerance)
{
    double *want[RESULTS], *got[RESULTS], *again[RESULTS];
    int32_t n = sg_result_count(p->graph);
    assert_true(n <= RESULTS);
    run(p, "reference", 1, want);
    run(p, "cpu", 1, got);
    run(p, "cpu", 2, again);
    for (int32_t k = 0; k < n; k++) {
        int64_t count = sg_shape_count(sg_shape_of(sg_result_value(p->graph, k)));
        assert_tensor_close(got[k], want[k], count, 0, tolerance * tensor_scale(want[k], count),
                            sg_result_name(p->graph, k));
        assert_memory_equal(got[k], again[k], (size_t)count * sizeof(double));
        test_free(want[k]);
        test_free(got[k]);
        test_free(again[k]);
    }
    close_problem(p);
}

static void compare(problem *p) { compare_within(p, 2e-5); }

/* ------------------------------------------------------------------------------------------------------------ lstm */

/* i0: x, i1: w_ih, i2: w_hh, i3: h, i4: c, i5: lengths. */
static problem make_lstm(int64_t batch, int64_t steps, int64_t hidden, bool ragged, bool reverse, unsigned bits)
{
    problem p = {.graph = sg_graph_new()};
    sg_lstm_weights w = {SG_NONE, SG_NONE, SG_NONE, SG_NONE};
    sg_lstm_state first;
    sg_value x = add_input(&p, SG_F32, SG_SHAPE(batch, steps, 2));
    w.w_ih = add_input(&p, SG_F32, SG_SHAPE(4 * hidden, 2));
    w.w_hh = add_input(&p, SG_F32, SG_SHAPE(4 * hidden, hidden));
    first.h = add_input(&p, SG_F32, SG_SHAPE(batch, hidden));
    first.c = add_input(&p, SG_F32, SG_SHAPE(batch, hidden));
    sg_lstm_result r = sg_lstm(x, ragged ? add_lengths(&p, batch, steps) : SG_NONE, w, first, reverse);
    sg_value loss = sg_add(sg_sum_all(sg_square(r.out)), sg_sum_all(sg_mul(r.last.h, sg_sin(r.last.c))));
    sg_result(p.graph, "out", r.out);
    sg_result(p.graph, "h", r.last.h);
    sg_result(p.graph, "c", r.last.c);
    declare_derivatives(&p, loss, r.out, bits);
    return p;
}

static void lstm_kernels(void **state)
{
    (void)state;
    static const struct {
        int64_t batch, steps, hidden;
        bool ragged, reverse;
    } sizes[] = {{3, 5, 4, true, false}, {19, 3, 5, true, true}, {1, 3, 17, false, false}, {9, 2, 3, false, true}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        problem p = make_lstm(sizes[i].batch, sizes[i].steps, sizes[i].hidden, sizes[i].ragged, sizes[i].reverse, 31);
        assert_fused(&p, "lstm");
        compare(&p);
    }
}

/* Every choice of variables: parts of the kernels fall away. */
static void lstm_variables(void **state)
{
    (void)state;
    for (unsigned bits = 1; bits < 32; bits++) {
        problem p = make_lstm(3, 3, 3, true, bits % 2, bits);
        compare(&p);
    }
}

/* ------------------------------------------------------------------------------------------------------------- crf */

/* i0: emissions, i1: transitions, i2: start, i3: end, i4: lengths. */
static problem make_crf(int64_t batch, int64_t steps, int64_t tags, bool ragged, bool forbidden, unsigned bits)
{
    problem p = {.graph = sg_graph_new()};
    sg_crf crf;
    sg_value e = add_input(&p, SG_F32, SG_SHAPE(batch, steps, tags));
    crf.transitions = add_input(&p, SG_F32, SG_SHAPE(tags, tags));
    crf.start = add_input(&p, SG_F32, SG_SHAPE(tags));
    crf.end = add_input(&p, SG_F32, SG_SHAPE(tags));
    if (forbidden) {
        p.feed[1][1] = -INFINITY; /* from the first tag to the second */
        p.feed[2][tags - 1] = -INFINITY;
    }
    sg_value lengths = ragged ? add_lengths(&p, batch, steps) : SG_NONE;
    sg_value log_z = sg_crf_log_partition(crf, e, lengths), path = sg_crf_viterbi(crf, e, lengths);
    sg_result(p.graph, "log_z", log_z);
    sg_result(p.graph, "marginals", sg_crf_marginals(crf, e, lengths));
    sg_result(p.graph, "path", path);
    sg_result(p.graph, "score", sg_crf_score(crf, e, path, lengths));
    declare_derivatives(&p, sg_sum_all(sg_square(log_z)), log_z, bits);
    return p;
}

static void crf_kernels(void **state)
{
    (void)state;
    static const struct {
        int64_t batch, steps, tags;
        bool ragged, forbidden;
    } sizes[] = {{5, 4, 3, true, false}, {9, 3, 19, true, true}, {1, 5, 2, false, true}, {2, 1, 1, false, false}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        problem p = make_crf(sizes[i].batch, sizes[i].steps, sizes[i].tags, sizes[i].ragged, sizes[i].forbidden, 15);
        assert_fused(&p, "crf_log_partition");
        compare(&p);
    }
}

static void crf_variables(void **state)
{
    (void)state;
    for (unsigned bits = 1; bits < 16; bits++) {
        problem p = make_crf(6, 3, 4, true, bits % 2, bits);
        compare(&p);
    }
}

/* Transitions so far apart that their exponentials do not fit beside each other in a float. */
static void crf_far_apart(void **state)
{
    (void)state;
    problem p = make_crf(5, 4, 6, true, false, 15);
    for (int32_t i = 0; i < 36; i++)
        p.feed[1][i] *= 120;
    compare_within(&p, 2e-4); /* log Z and with it the cotangent are in the hundreds, and so is their rounding */
}

/* Posteriors of a row sum to 1 at each of its steps and are 0 behind. */
static void marginals_are_probabilities(void **state)
{
    (void)state;
    enum { BATCH = 4, STEPS = 3, TAGS = 5 };
    problem p = make_crf(BATCH, STEPS, TAGS, true, false, 1);
    double *out[RESULTS];
    run(&p, "cpu", 1, out);
    for (int b = 0; b < BATCH; b++)
        for (int t = 0; t < STEPS; t++) {
            double sum = 0, want = t < p.feed[4][b];
            for (int k = 0; k < TAGS; k++)
                sum += out[1][(b * STEPS + t) * TAGS + k];
            assert_tensor_close(&sum, &want, 1, 0, 1e-6, "sum of posteriors");
        }
    for (int32_t k = 0; k < sg_result_count(p.graph); k++)
        test_free(out[k]);
    close_problem(&p);
}

/* --------------------------------------------------------------------------------------------------------- lengths */

static void length_out_of_range(void **state)
{
    (void)state;
    static const char *const backends[] = {"reference", "cpu"};
    for (int i = 0; i < 8; i++) {
        problem p = i < 4 ? make_lstm(2, 3, 2, true, false, 1) : make_crf(2, 3, 2, true, false, 1);
        double *out[RESULTS];
        p.feed[p.n_in - 1][1] = i % 2 ? 4 : -1;
        for (int32_t k = 0; k < sg_result_count(p.graph); k++)
            out[k] = test_calloc((size_t)sg_shape_count(sg_shape_of(sg_result_value(p.graph, k))) + 1, sizeof(double));
        assert_false(graph_run(p.graph, NULL, backends[i / 2 % 2], 1, names, p.feed, p.n_in, out));
        for (int32_t k = 0; k < sg_result_count(p.graph); k++)
            test_free(out[k]);
        close_problem(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lstm_kernels),
                                       cmocka_unit_test(lstm_variables),
                                       cmocka_unit_test(crf_kernels),
                                       cmocka_unit_test(crf_variables),
                                       cmocka_unit_test(crf_far_apart),
                                       cmocka_unit_test(length_out_of_range),
                                       cmocka_unit_test(marginals_are_probabilities)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
