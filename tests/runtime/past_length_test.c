/* What lies past the length of a row has no influence, whatever it is: values, tangents, gradients and Hessian products are the same
 * numbers with NaN and infinities there as with anything else, in fused kernels and decompositions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/lstm_internal.h"
#include "ops/ops_internal.h"
#include "runtime/runtime.h"
#include "tests/support/graph_run.h"

enum { BATCH = 5, STEPS = 4, HIDDEN = 3, TAGS = 3, INPUTS = 9, RESULTS = 40, MOST = 512 };

static const double lengths[BATCH] = {4, 2, 0, 1, 3};

/* Inputs x0, x1, .. of numbers: those [BATCH, STEPS, width] have something past the lengths. */
typedef struct problem {
    sg_graph *graph;
    sg_store *store;
    sg_value in[INPUTS], lengths;
    int32_t n_in;
} problem;

static sg_value number_input(problem *p, sg_shape shape)
{
    char name[16];
    int32_t k = p->n_in++;
    assert_true(k < INPUTS && sg_shape_count(&shape) <= MOST);
    snprintf(name, sizeof name, "x%d", (int)k);
    return p->in[k] = sg_input(p->graph, name, SG_F32, shape);
}

/* ---- what is tried: each gives its results that depend on rows, with 0 past the lengths */

static int32_t lstm_op(problem *p, bool reverse, sg_value out[])
{
    sg_attr attr = sg_attr_int(reverse);
    sg_value in[5];
    in[SG_LSTM_Z] = number_input(p, SG_SHAPE(BATCH, STEPS, 4 * HIDDEN));
    in[SG_LSTM_W] = number_input(p, SG_SHAPE(4 * HIDDEN, HIDDEN));
    in[SG_LSTM_H0] = number_input(p, SG_SHAPE(BATCH, HIDDEN));
    in[SG_LSTM_C0] = number_input(p, SG_SHAPE(BATCH, HIDDEN));
    in[SG_LSTM_LENGTHS] = p->lengths;
    sg_value node = sg_build_op(&sg_op_lstm, in, 5, &attr);
    for (int32_t k = 0; k < 3; k++)
        out[k] = sg_output_of(node, k);
    return 3;
}

static int32_t lstm_forward(problem *p, sg_value out[]) { return lstm_op(p, false, out); }
static int32_t lstm_reverse(problem *p, sg_value out[]) { return lstm_op(p, true, out); }

static int32_t bilstm(problem *p, sg_value out[])
{
    sg_lstm_weights w[2];
    sg_value x = number_input(p, SG_SHAPE(BATCH, STEPS, 2));
    for (int k = 0; k < 2; k++) {
        w[k] = (sg_lstm_weights){SG_NONE, SG_NONE, SG_NONE, SG_NONE};
        w[k].w_ih = number_input(p, SG_SHAPE(4 * HIDDEN, 2));
        w[k].w_hh = number_input(p, SG_SHAPE(4 * HIDDEN, HIDDEN));
        w[k].b_ih = number_input(p, SG_SHAPE(4 * HIDDEN));
    }
    sg_bilstm_result r = sg_bilstm(x, p->lengths, w[0], w[1]);
    out[0] = r.out;
    out[1] = r.forward.h;
    out[2] = r.backward.c;
    return 3;
}

static int32_t crf(problem *p, sg_value out[])
{
    sg_value e = number_input(p, SG_SHAPE(BATCH, STEPS, TAGS));
    sg_crf c;
    c.transitions = number_input(p, SG_SHAPE(TAGS, TAGS));
    c.start = number_input(p, SG_SHAPE(TAGS));
    c.end = number_input(p, SG_SHAPE(TAGS));
    sg_value path = sg_crf_viterbi(c, e, p->lengths);
    out[0] = sg_crf_log_partition(c, e, p->lengths);
    out[1] = sg_crf_score(c, e, path, p->lengths);
    out[2] = sg_crf_marginals(c, e, p->lengths);
    out[3] = sg_crf_log_likelihood(c, e, sg_cast(sg_zeros_like(sg_sum(e, 2)), SG_I32), p->lengths);
    return 4;
}

static const struct {
    const char *name;
    int32_t (*build)(problem *p, sg_value out[]);
} tried[] = {{"lstm", lstm_forward}, {"lstm in reverse", lstm_reverse}, {"bilstm", bilstm}, {"crf", crf}};

/* ---- one graph with everything that is compared */

static void add_results(problem *p, const char *kind, const sg_value *v, int32_t n)
{
    for (int32_t k = 0; k < n; k++) {
        char name[32];
        snprintf(name, sizeof name, "%s %d", kind, (int)k);
        sg_result(p->graph, name, v[k]);
    }
}

/* Tangents are an input too where x is rows, and so is the cotangent of a result of rows: they can be anything past the lengths. The loss
 * is a sum of squares, so that its Hessian is not zero. */
static void build(problem *p, int which)
{
    sg_value out[4], dy[4], dx[INPUTS], g[INPUTS], h[INPUTS], loss = SG_NONE;
    p->lengths = sg_input(p->graph, "lengths", SG_I32, SG_SHAPE(BATCH));
    int32_t n = tried[which].build(p, out), n_x = p->n_in;
    dx[0] = number_input(p, *sg_shape_of(p->in[0]));
    for (int32_t k = 1; k < n_x; k++)
        dx[k] = sg_sin(sg_mul_scalar(p->in[k], 3));
    for (int32_t k = 0; k < n; k++) {
        sg_value square = sg_sum_all(sg_square(out[k]));
        loss = k ? sg_add(loss, square) : square;
    }
    add_results(p, "value", out, n);
    sg_jvp(out, n, p->in, dx, n_x, dy);
    add_results(p, "tangent", dy, n);
    sg_grad(loss, p->in, n_x, g);
    add_results(p, "gradient", g, n_x);
    for (int mode = 0; mode < 2; mode++) {
        sg_hvp(loss, p->in, dx, n_x, h, mode ? SG_HVP_REVERSE_OVER_REVERSE : SG_HVP_FORWARD_OVER_REVERSE);
        add_results(p, mode ? "reverse hvp" : "forward hvp", h, n_x);
    }
    if (sg_rank_of(out[0]) == 3) {
        sg_value cotangent = number_input(p, *sg_shape_of(out[0]));
        sg_vjp(out, &cotangent, 1, p->in, n_x, g);
        add_results(p, "vjp", g, n_x);
    }
}

/* Numbers in (-1, 1), and `past` past the lengths. */
static void feed(const problem *p, sg_plan *plan, double past)
{
    sg_error err;
    double data[MOST];
    for (int32_t k = 0; k < p->n_in; k++) {
        const sg_shape *shape = sg_shape_of(p->in[k]);
        int64_t width = shape->dim[2], n = sg_shape_count(shape);
        char name[16];
        for (int64_t i = 0; i < n; i++) {
            bool is_past = shape->rank == 3 && (double)(i / width % STEPS) >= lengths[i / width / STEPS];
            data[i] = is_past ? past : (double)(float)(2 * test_uniform((uint64_t)k + 1, i) - 1);
        }
        snprintf(name, sizeof name, "x%d", (int)k);
        assert_int_equal(sg_plan_feed(plan, name, data, n, &err), SG_OK);
    }
    assert_int_equal(sg_plan_feed(plan, "lengths", lengths, BATCH, &err), SG_OK);
}

static void run(const problem *p, sg_plan *plan, double past, double out[RESULTS][MOST])
{
    sg_error err;
    feed(p, plan, past);
    if (sg_plan_run(plan, &err) != SG_OK)
        fail_msg("%s", err.text);
    for (int32_t r = 0; r < sg_result_count(p->graph); r++) {
        int64_t n = sg_shape_count(sg_shape_of(sg_result_value(p->graph, r)));
        assert_true(n <= MOST);
        assert_int_equal(sg_plan_fetch(plan, sg_result_name(p->graph, r), out[r], n, &err), SG_OK);
    }
}

static void check(int which, const char *backend, const char *decompose)
{
    static const double past[] = {NAN, INFINITY, -INFINITY, 1e30};
    static double wanted[RESULTS][MOST], is[RESULTS][MOST];
    problem p = {.graph = sg_graph_new()};
    sg_session_options options = {.size = sizeof options, .backend = backend, .decompose = decompose, .threads = 1};
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_error err;
    p.store = sg_store_new(strcmp(backend, "reference") == 0 ? SG_F64 : SG_F32);
    build(&p, which);
    assert_true(sg_result_count(p.graph) <= RESULTS);
    if (sg_session_new(&session, p.store, &options, &err) != SG_OK ||
        sg_plan_new(&plan, session, p.graph, &err) != SG_OK)
        fail_msg("%s", err.text);
    run(&p, plan, 0.5, wanted);
    for (size_t k = 0; k < sizeof past / sizeof *past; k++) {
        run(&p, plan, past[k], is);
        for (int32_t r = 0; r < sg_result_count(p.graph); r++)
            for (int64_t i = 0; i < sg_shape_count(sg_shape_of(sg_result_value(p.graph, r))); i++)
                if (!isfinite(wanted[r][i]) || is[r][i] != wanted[r][i])
                    fail_msg("%s on %s%s, %g past the lengths: %s [%lld] is %g, with 0.5 there %g", tried[which].name,
                             backend, decompose ? ", decomposed" : "", past[k], sg_result_name(p.graph, r),
                             (long long)i, is[r][i], wanted[r][i]);
    }
    sg_plan_free(plan);
    sg_session_free(session);
    sg_store_free(p.store);
    sg_graph_free(p.graph);
}

static void nothing_past_a_length_counts(void **state)
{
    (void)state;
    for (int which = 0; which < (int)(sizeof tried / sizeof *tried); which++) {
        check(which, "cpu", NULL);
        check(which, "cpu", "all");
        check(which, "reference", NULL);
        check(which, "reference", "all");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_past_a_length_counts)};
    return cmocka_run_group_tests_name("past the lengths", tests, NULL, NULL);
}
