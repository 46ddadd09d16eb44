/* harness_test.c - every check of every sample in ops/samples. `harness_test PATTERN` runs the tests
 * whose name matches, for example 'gradient: matmul*'. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "ops/samples/samples_internal.h"
#include "runtime/runtime.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

enum { RESULTS = 32 };

/* A sample built in a graph of its own, with the elements of its inputs. */
typedef struct bench {
    const sg_sample *sample;
    char name[256];
    sg_graph *graph;
    sg_store *store;
    sg_scope scope;
    sg_value in[SG_SAMPLE_INPUTS], out[SG_SAMPLE_OUTPUTS];
    double *feed[SG_SAMPLE_INPUTS];
    sg_value wrt[SG_SAMPLE_INPUTS]; /* inputs that take part in derivatives, and their elements */
    double *at[SG_SAMPLE_INPUTS];
    int32_t n_wrt;
} bench;

static int64_t count_of(sg_value v) { return sg_shape_count(sg_shape_of(v)); }

static double *new_elements(int64_t n) { return test_calloc((size_t)n + 1, sizeof(double)); }

static void open_bench(bench *b, const sg_sample *sample, sg_dtype real)
{
    memset(b, 0, sizeof *b);
    b->sample = sample;
    sg_sample_name(sample, b->name, sizeof b->name);
    b->graph = sg_graph_new();
    b->store = sg_store_new(real);
    b->scope = sg_scope_root(b->graph, b->store);
    sg_sample_build(sample, b->scope, b->in, b->out);
    sg_store_initialise(b->store, 1);
    for (int32_t k = 0; k < sample->n_in; k++) {
        b->feed[k] = new_elements(sg_shape_count(&sample->in[k].shape));
        sg_sample_elements(sample, k, b->feed[k]);
        if (sg_sample_moves(sample, k)) {
            b->wrt[b->n_wrt] = b->in[k];
            b->at[b->n_wrt++] = b->feed[k];
        }
    }
}

static void close_bench(bench *b)
{
    for (int32_t k = 0; k < b->sample->n_in; k++)
        test_free(b->feed[k]);
    sg_graph_free(b->graph);
    sg_store_free(b->store);
}

static void assert_sound(const bench *b)
{
    sg_error err = {0};
    if (sg_graph_status(b->graph, &err) != SG_OK || sg_graph_verify(b->graph, &err) != SG_OK)
        fail_msg("%s: %s (op %s, node %s)", b->name, err.text, err.op, err.node);
}

/* A constant like `v` with elements in [-1, 1). */
static sg_value direction(sg_value v, uint64_t stream)
{
    sg_shape shape = *sg_shape_of(v);
    int64_t n = sg_shape_count(&shape);
    double *data = new_elements(n);
    for (int64_t i = 0; i < n; i++)
        data[i] = 2 * test_uniform(1000 + stream, i) - 1;
    sg_value c = sg_constant(v.graph, sg_dtype_of(v), shape, data, n);
    test_free(data);
    return c;
}

/* sum_j <w_j, out_j> + 1/4 <out_j, out_j>: the square makes the cotangent move with the inputs, so that second and
 * third derivatives of linear operators are tested on something else than zero. */
static sg_value loss_of(const bench *b)
{
    sg_value loss = SG_NONE;
    for (int32_t j = 0; j < b->sample->n_out; j++) {
        sg_value y = b->out[j];
        sg_value term = sg_sum_all(sg_add(sg_mul(direction(y, (uint64_t)j), y), sg_mul_scalar(sg_mul(y, y), 0.25)));
        loss = j ? sg_add(loss, sg_cast(term, sg_dtype_of(loss))) : term;
    }
    return loss;
}

static sg_value inner(const sg_value *a, const sg_value *c, int32_t n)
{
    sg_value sum = SG_NONE;
    for (int32_t i = 0; i < n; i++) {
        sg_value term = sg_sum_all(sg_mul(a[i], c[i]));
        sum = i ? sg_add(sum, term) : term;
    }
    return sum;
}

/* -------------------------------------------------------------------------------------------------- shape, value */

static void test_shape(void **state)
{
    bench b;
    open_bench(&b, *state, SG_F64);
    char text[SG_SHAPE_TEXT];
    assert_sound(&b);
    assert_string_equal(sg_shape_format(sg_shape_of(b.out[0]), text, sizeof text), b.sample->shape);
    const char *op = sg_node_of(b.out[0])->op->name;
    bool found = strcmp(op, b.sample->op) == 0;
    for (int32_t i = 0; i < sg_node_count(b.graph); i++)
        found = found || strcmp(sg_node_at(b.graph, i)->op->name, b.sample->op) == 0;
    if (!found)
        fail_msg("%s: the sample contains no node of this operator (it ends in %s)", b.name, op);
    close_bench(&b);
}

/* Results of a bench's graph on a backend; `what` says which expressions to declare. */
typedef struct results {
    double *data[RESULTS];
    int64_t n[RESULTS];
    int32_t count;
} results;

static void declare(bench *b, const char *prefix, const sg_value *v, int32_t n)
{
    for (int32_t k = 0; k < n; k++) {
        char name[32];
        snprintf(name, sizeof name, "%s%d", prefix, (int)k);
        sg_result(b->graph, name, v[k]);
    }
}

static void declare_values(bench *b) { declare(b, "y", b->out, b->sample->n_out); }

static void declare_gradient(bench *b)
{
    sg_value g[SG_SAMPLE_INPUTS];
    sg_grad(loss_of(b), b->wrt, b->n_wrt, g);
    declare(b, "g", g, b->n_wrt);
}

static void declare_second_order(bench *b)
{
    sg_value v[SG_SAMPLE_INPUTS], h[SG_SAMPLE_INPUTS];
    sg_value loss = loss_of(b);
    for (int32_t i = 0; i < b->n_wrt; i++)
        v[i] = direction(b->wrt[i], 10 + (uint64_t)i);
    sg_hvp(loss, b->wrt, v, b->n_wrt, h, SG_HVP_FORWARD_OVER_REVERSE);
    declare(b, "f", h, b->n_wrt);
    sg_hvp(loss, b->wrt, v, b->n_wrt, h, SG_HVP_REVERSE_OVER_REVERSE);
    declare(b, "r", h, b->n_wrt);
}

static void run_on(const sg_sample *sample, const char *backend, int32_t threads, void (*what)(bench *), results *out)
{
    static const char *const names[SG_SAMPLE_INPUTS] = {"x0", "x1", "x2",  "x3",  "x4",  "x5",  "x6",  "x7",
                                                        "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15"};
    bench b;
    open_bench(&b, sample, strcmp(backend, "reference") == 0 ? SG_F64 : SG_F32);
    what(&b);
    assert_sound(&b);
    out->count = sg_result_count(b.graph);
    for (int32_t k = 0; k < out->count; k++) {
        out->n[k] = count_of(sg_result_value(b.graph, k));
        out->data[k] = new_elements(out->n[k]);
    }
    bool ok = graph_run(b.graph, b.store, backend, threads, names, b.feed, sample->n_in, out->data);
    if (!ok)
        fail_msg("%s: does not run on %s", b.name, backend);
    close_bench(&b);
}

static void free_results(results *r)
{
    for (int32_t k = 0; k < r->count; k++)
        test_free(r->data[k]);
}

static void compare_backends(const sg_sample *sample, void (*what)(bench *), double tolerance)
{
    results want, got;
    char name[256];
    bool ok = true;
    run_on(sample, "reference", 1, what, &want);
    run_on(sample, "cpu", 1, what, &got);
    sg_sample_name(sample, name, sizeof name);
    for (int32_t k = 0; k < want.count; k++) {
        char label[320];
        snprintf(label, sizeof label, "%s, result %d", name, (int)k);
        double atol = tolerance * tensor_scale(want.data[k], want.n[k]);
        ok = tensor_is_close(got.data[k], want.data[k], want.n[k], 0, atol, label) && ok;
    }
    free_results(&want);
    free_results(&got);
    assert_true(ok);
}

static void test_cpu_value(void **state) { compare_backends(*state, declare_values, 1e-5); }

static void test_cpu_gradient(void **state) { compare_backends(*state, declare_gradient, 1e-5); }

static void test_cpu_second_order(void **state) { compare_backends(*state, declare_second_order, 1e-4); }

static void test_deterministic(void **state)
{
    results first, again, threads;
    void (*what)(bench *) = ((const sg_sample *)*state)->flat ? declare_values : declare_second_order;
    run_on(*state, "cpu", 1, what, &first);
    run_on(*state, "cpu", 1, what, &again);
    run_on(*state, "cpu", 2, what, &threads);
    for (int32_t k = 0; k < first.count; k++) {
        assert_memory_equal(first.data[k], again.data[k], (size_t)first.n[k] * sizeof(double));
        assert_memory_equal(first.data[k], threads.data[k], (size_t)first.n[k] * sizeof(double));
    }
    free_results(&first);
    free_results(&again);
    free_results(&threads);
}

/* ---------------------------------------------------------------------------------------------------- derivatives */

/* The reference backend at the bench's point: inputs that gradcheck does not move (indices, masks) keep their
 * elements. */
static bool evaluate_bench(void *user, sg_graph *graph, const sg_value *x, double *const *feed, int32_t n_x,
                           const sg_value *y, double *const *out, int32_t n_y, sg_error *err)
{
    const bench *b = user;
    double *all[SG_SAMPLE_INPUTS];
    memcpy(all, b->feed, sizeof all);
    for (int32_t k = 0; k < b->sample->n_in; k++)
        for (int32_t i = 0; i < n_x; i++)
            if (sg_same(b->in[k], x[i]))
                all[k] = feed[i];
    return sg_reference_eval(graph, b->in, all, b->sample->n_in, y, out, n_y, err) == SG_OK;
}

static void test_derivatives(void **state)
{
    bench b;
    open_bench(&b, *state, SG_F64);
    sg_gradcheck_options options = {.size = sizeof options, .order = 3, .directions = 1, .seed = 7};
    sg_gradcheck_result result;
    sg_evaluator here = {evaluate_bench, &b};
    sg_error err = {0};
    if (b.n_wrt && sg_gradcheck(loss_of(&b), b.wrt, b.at, b.n_wrt, &here, &options, &result, &err) != SG_OK)
        fail_msg("%s: %s (op %s, node %s)", b.name, err.text, err.op, err.node);
    assert_sound(&b);
    if (b.n_wrt && !result.passed)
        fail_msg("%s: %s; worst by order: adjoint %.2g, 1st %.2g, 2nd %.2g, 3rd %.2g", b.name, result.where,
                 result.worst[0], result.worst[1], result.worst[2], result.worst[3]);
    close_bench(&b);
}

/* <J u, c> = <u, J' c> with independent u and c; and J' (2 c - 3 d) = 2 J' c - 3 J' d. */
static void test_adjoint_and_linear(void **state)
{
    bench b;
    open_bench(&b, *state, SG_F64);
    int32_t n = b.n_wrt, m = n ? b.sample->n_out : 0; /* operators that read a shape only have nothing to move */
    sg_value u[SG_SAMPLE_INPUTS], c[SG_SAMPLE_OUTPUTS], d[SG_SAMPLE_OUTPUTS], e[SG_SAMPLE_OUTPUTS],
        ju[SG_SAMPLE_OUTPUTS];
    sg_value gc[SG_SAMPLE_INPUTS], gd[SG_SAMPLE_INPUTS], ge[SG_SAMPLE_INPUTS];
    for (int32_t i = 0; i < n; i++)
        u[i] = direction(b.wrt[i], 20 + (uint64_t)i);
    for (int32_t j = 0; j < m; j++) {
        c[j] = direction(b.out[j], 40 + (uint64_t)j);
        d[j] = direction(b.out[j], 60 + (uint64_t)j);
        e[j] = sg_sub(sg_mul_scalar(c[j], 2), sg_mul_scalar(d[j], 3));
    }
    sg_jvp(b.out, m, b.wrt, u, n, ju);
    sg_vjp(b.out, c, m, b.wrt, n, gc);
    sg_vjp(b.out, d, m, b.wrt, n, gd);
    sg_vjp(b.out, e, m, b.wrt, n, ge);
    sg_value sums[2] = {inner(ju, c, m), inner(u, gc, n)};
    assert_sound(&b);
    double f = 0, r = 0;
    graph_eval(b.graph, b.in, b.feed, b.sample->n_in, sums, (double *[]){&f, &r}, n ? 2 : 0);
    assert_tensor_close(&f, &r, 1, 1e-11, 1e-11, b.name);
    for (int32_t i = 0; i < n; i++) {
        int64_t size = count_of(b.wrt[i]);
        double *got = new_elements(size), *want = new_elements(size);
        sg_value sum = sg_sub(sg_mul_scalar(gc[i], 2), sg_mul_scalar(gd[i], 3));
        graph_eval(b.graph, b.in, b.feed, b.sample->n_in, (sg_value[]){ge[i], sum}, (double *[]){got, want}, 2);
        assert_tensor_close(got, want, size, 1e-11, 1e-11, b.name);
        test_free(got);
        test_free(want);
    }
    close_bench(&b);
}

/* The descriptor's word: with flag `linear` for input k, f(2 a - 3 c) = 2 f(a) - 3 f(c), the other inputs fixed. */
static void check_linear_input(const sg_sample *sample, int32_t k)
{
    bench b;
    open_bench(&b, sample, SG_F64);
    sg_value in[SG_SAMPLE_INPUTS], y[3];
    sg_value a = b.in[k], c = direction(a, 80), x[3] = {a, c, sg_sub(sg_mul_scalar(a, 2), sg_mul_scalar(c, 3))};
    for (int32_t i = 0; i < 3; i++) {
        memcpy(in, b.in, sizeof in);
        in[k] = x[i];
        sg_value out[SG_SAMPLE_OUTPUTS];
        sample->build(sample, b.scope, in, out);
        y[i] = out[0];
    }
    int64_t n = count_of(y[0]);
    double *got = new_elements(n), *want = new_elements(n);
    sg_value sum = sg_sub(sg_mul_scalar(y[0], 2), sg_mul_scalar(y[1], 3));
    assert_sound(&b);
    graph_eval(b.graph, b.in, b.feed, sample->n_in, (sg_value[]){y[2], sum}, (double *[]){got, want}, 2);
    assert_tensor_close(got, want, n, 1e-12, 1e-12, b.name);
    test_free(got);
    test_free(want);
    close_bench(&b);
}

static void test_linear_flag(void **state)
{
    const sg_sample *sample = *state;
    const sg_op *op = sg_op_find(sample->op);
    if (sample->n_in != op->n_in)
        return; /* one input feeds two operands: the whole is not linear in it */
    for (int32_t k = 0; k < sample->n_in; k++)
        if (op->linear >> k & 1 && sg_sample_moves(sample, k))
            check_linear_input(sample, k);
}

/* A derivative that is zero by mathematics is zero, not an error. */
static void test_flat(void **state)
{
    bench b;
    open_bench(&b, *state, SG_F64);
    uint32_t flags = sg_op_find(b.sample->op)->flags;
    for (int32_t k = 0; k < b.sample->n_in && flags & (SG_OP_ZERO_GRAD | SG_OP_STOP); k++) {
        if (b.sample->in[k].dtype != SG_F32 || strcmp(b.sample->op, "repeat") == 0)
            continue;
        sg_value loss = sg_sum_all(sg_cast(b.out[0], SG_F32)), g;
        sg_grad(loss, &b.in[k], 1, &g);
        assert_sound(&b);
        int64_t n = count_of(g);
        double *got = new_elements(n), *want = new_elements(n);
        graph_eval(b.graph, b.in, b.feed, b.sample->n_in, &g, &got, 1);
        assert_tensor_close(got, want, n, 0, 0, b.name);
        test_free(got);
        test_free(want);
    }
    close_bench(&b);
}

/* -------------------------------------------------------------------------------------------------------- closure */

static bool has_sample(const char *op, bool differentiated)
{
    for (int32_t i = 0; i < sg_sample_count(); i++)
        if (strcmp(sg_sample_at(i)->op, op) == 0 && !(differentiated && sg_sample_at(i)->flat))
            return true;
    return false;
}

static void test_every_op_has_a_sample(void **state)
{
    (void)state;
    int32_t missing = 0;
    for (int32_t i = 0; i < sg_op_count(); i++) {
        const sg_op *op = sg_op_at(i);
        if (op->flags & SG_OP_LEAF)
            continue;
        while (
            op->parent) /* derivative composites appear when the samples of what they differentiate are differentiated */
            op = op->parent;
        bool differentiable = !(op->flags & (SG_OP_ZERO_GRAD | SG_OP_STOP));
        if (!has_sample(op->name, differentiable)) {
            print_error("operator '%s' has no %ssample\n", op->name, differentiable ? "differentiated " : "");
            missing++;
        }
    }
    assert_int_equal(missing, 0);
}

/* Operators that only appear inside rules: each node that first, second and third derivatives contain must have rules
 * of its own or a zero derivative by contract. */
static void test_rules_are_closed(void **state)
{
    (void)state;
    int32_t open = 0;
    for (int32_t i = 0; i < sg_op_count(); i++) {
        const sg_op *op = sg_op_at(i);
        if (op->flags & (SG_OP_LEAF | SG_OP_ZERO_GRAD | SG_OP_STOP) || op->vjp || op->decompose)
            continue;
        print_error("operator '%s' has no vjp and no decomposition\n", op->name);
        open++;
    }
    assert_int_equal(open, 0);
}

/* ------------------------------------------------------------------------------------------------------- the list */

static const struct check {
    const char *name;
    CMUnitTestFunction run;
    bool flat, cpu; /* also for samples without derivatives; needs the cpu backend */
} checks[] = {
    {"shape", test_shape, true, false},
    {"derivatives", test_derivatives, false, false},
    {"adjoint", test_adjoint_and_linear, false, false},
    {"linear flag", test_linear_flag, false, false},
    {"cpu value", test_cpu_value, true, true},
    {"cpu gradient", test_cpu_gradient, false, true},
    {"cpu second order", test_cpu_second_order, false, true},
    {"same bits", test_deterministic, true, true},
};
enum { CHECKS = sizeof checks / sizeof *checks };

static struct CMUnitTest make(const char *check, CMUnitTestFunction run, const sg_sample *sample)
{
    char name[320], what[256];
    snprintf(name, sizeof name, "%s: %s", check, sg_sample_name(sample, what, sizeof what));
    return (struct CMUnitTest){strdup(name), run, NULL, NULL, (void *)(uintptr_t)sample};
}

int main(int argc, char **argv)
{
    int32_t n = 0, samples = sg_sample_count();
    struct CMUnitTest *tests = calloc((size_t)samples * (CHECKS + 1) + 2, sizeof *tests);
    if (!tests)
        return 1;
    for (int32_t i = 0; i < samples; i++) {
        const sg_sample *s = sg_sample_at(i);
        for (int32_t c = 0; c < CHECKS; c++)
            if ((!s->flat || checks[c].flat) && !(checks[c].cpu && s->reference_only) && !(s->large && !checks[c].cpu))
                tests[n++] = make(checks[c].name, checks[c].run, s);
        if (s->flat)
            tests[n++] = make("zero derivative", test_flat, s);
    }
    tests[n++] = (struct CMUnitTest){"every op has a sample", test_every_op_has_a_sample, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"rules are closed", test_rules_are_closed, NULL, NULL, NULL};
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    int failed = _cmocka_run_group_tests("ops/harness", tests, (size_t)n, NULL, NULL);
    for (int32_t i = 0; i < n - 2; i++)
        free((char *)tests[i].name);
    free(tests);
    return failed;
}
