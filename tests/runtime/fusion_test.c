/* fusion_test.c - random elementwise graphs with broadcasting, row sums and draws: fused and unfused on the cpu, with several
 * numbers of threads, against the reference backend. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "runtime/cpu/program_internal.h"
#include "runtime/fuse_internal.h"
#include "runtime/runtime.h"
#include "tests/support/graph_run.h"

enum { MOST = 64, MOST_INPUTS = 12, MOST_RESULTS = 12 };

/* ---- random graphs */

typedef struct maker {
    uint64_t seed;
    int64_t drawn;
    sg_graph *graph;
    sg_scope scope;
    sg_shape space;
    sg_value real[MOST], exact[MOST]; /* exact: the same number in float and double, safe to compare */
    int32_t n_real, n_exact, n_in, n_results;
    char names[MOST_INPUTS][8];
    bool draws;
} maker;

static int32_t pick(maker *m, int32_t n) { return (int32_t)(test_uniform(m->seed, m->drawn++) * n); }

static void add_real(maker *m, sg_value v)
{
    if (m->n_real < MOST)
        m->real[m->n_real++] = v;
}

static sg_value any_real(maker *m) { return m->real[pick(m, m->n_real)]; }
static sg_value any_exact(maker *m) { return m->exact[pick(m, m->n_exact)]; }

static void add_input(maker *m, bool full)
{
    sg_shape shape = sg_shape_scalar();
    int32_t skip = full ? 0 : pick(m, m->space.rank + 1);
    for (int32_t i = skip; i < m->space.rank; i++)
        shape.dim[shape.rank++] = full || pick(m, 3) ? m->space.dim[i] : 1;
    snprintf(m->names[m->n_in], sizeof m->names[0], "x%d", m->n_in);
    sg_value x = sg_input(m->graph, m->names[m->n_in++], SG_F32, shape);
    m->exact[m->n_exact++] = x;
    add_real(m, x);
}

static sg_value bounded(sg_value x) { return sg_clip(x, -4, 4); }

static sg_value random_unary(maker *m)
{
    sg_value x = any_real(m);
    switch (pick(m, 18)) {
    case 0:
        return sg_neg(x);
    case 1:
        return sg_abs(x);
    case 2:
        return sg_exp(bounded(x));
    case 3:
        return sg_log(sg_add_scalar(sg_square(x), 0.5));
    case 4:
        return sg_tanh(x);
    case 5:
        return sg_sigmoid(x);
    case 6:
        return sg_softplus(x);
    case 7:
        return sg_log_sigmoid(x);
    case 8:
        return sg_relu(x);
    case 9:
        return sg_erf(x);
    case 10:
        return sg_sin(bounded(x));
    case 11:
        return sg_sqrt(sg_abs(sg_add_scalar(sg_square(x), 0.1)));
    case 12:
        return sg_reciprocal(sg_add_scalar(sg_square(x), 1));
    case 13:
        return sg_leaky_relu(x, 0.125);
    case 14:
        return sg_elu(bounded(x), 0.5);
    case 15:
        return sg_expm1(bounded(x));
    case 16:
        return sg_log1p(sg_square(x));
    default:
        return sg_stop_gradient(sg_cos(bounded(x)));
    }
}

static sg_value random_binary(maker *m)
{
    sg_value x = bounded(any_real(m)), y = bounded(any_real(m)), a = any_exact(m), b = any_exact(m);
    switch (pick(m, 12)) {
    case 0:
        return sg_add(x, y);
    case 1:
        return sg_sub(x, y);
    case 2:
        return sg_mul(x, y);
    case 3:
        return sg_div(x, sg_add_scalar(sg_square(y), 1));
    case 4:
        return sg_maximum(x, y);
    case 5:
        return sg_minimum(x, y);
    case 6:
        return sg_where(sg_less(a, b), x, y);
    case 7:
        return sg_cast(sg_logical_and(sg_greater_equal(a, b), sg_not_equal(a, x)), SG_F32);
    case 8:
        return sg_where(sg_logical_or(sg_equal(a, b), sg_is_finite(x)), x, sg_fill_like(y, 0.25));
    case 9:
        return sg_add(x, sg_cast(sg_cast(sg_floor(sg_mul_scalar(a, 8)), SG_I32), SG_F32));
    case 10:
        return sg_mul(x, sg_broadcast_like(sg_add_scalar(a, 1), sg_add(a, b)));
    default:
        return sg_xlogy(sg_abs(x), sg_add_scalar(sg_square(y), 0.5));
    }
}

static sg_value random_special(maker *m)
{
    sg_value x = any_real(m);
    int32_t rank = sg_rank_of(x);
    switch (pick(m, 4)) {
    case 0:
        return rank ? sg_expand_dims(sg_mul_scalar(sg_sum(bounded(x), -1), 0.01), -1) : x;
    case 1:
        return sg_mul_scalar(sg_sum_all(bounded(x)), 0.001);
    case 2:
        return m->draws ? sg_bernoulli(m->scope, sg_sigmoid(any_exact(m))) : sg_square(bounded(x));
    default:
        return m->draws ? sg_normal_like(m->scope, x) : sg_sign(any_exact(m));
    }
}

static void add_result(maker *m, sg_value v)
{
    char name[16];
    snprintf(name, sizeof name, "y%d", m->n_results);
    if (m->n_results < MOST_RESULTS && m->n_results++ < MOST_RESULTS)
        sg_result(m->graph, name, v);
}

static void make_graph(maker *m, int32_t steps)
{
    add_input(m, true);
    for (int32_t k = 0; k < 4; k++)
        add_input(m, false);
    for (int32_t k = 0; k < steps; k++) {
        int32_t kind = pick(m, 8);
        sg_value v = kind < 3 ? random_unary(m) : kind < 7 ? random_binary(m) : random_special(m);
        add_real(m, v);
        if (pick(m, 5) == 0)
            add_result(m, v);
    }
    add_result(m, m->real[m->n_real - 1]);
    add_result(m, sg_sum(sg_mul(bounded(m->real[m->n_real - 1]), m->real[0]), -1));
    sg_value wide = sg_add(bounded(m->real[m->n_real - 2]), m->real[0]);
    add_result(m, sg_less(m->exact[1], m->exact[0]));
    add_result(m, sg_sum_all(sg_tanh(wide)));
}

/* ---- running */

typedef struct outcome {
    double *data[MOST_RESULTS];
    int64_t count[MOST_RESULTS];
} outcome;

static void run(maker *m, const char *backend, int32_t threads, bool no_fusion, outcome *out)
{
    sg_error err = {0};
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_session_options options = {sizeof options, .backend = backend, .threads = threads, .no_fusion = no_fusion};
    sg_store *store = sg_store_copy(m->scope.store, strcmp(backend, "reference") == 0 ? SG_F64 : SG_F32);
    if (sg_session_new(&session, store, &options, &err) != SG_OK ||
        sg_plan_new(&plan, session, m->graph, &err) != SG_OK)
        fail_msg("seed %d: %s", (int)m->seed, err.text);
    for (int32_t k = 0; k < m->n_in; k++) {
        if (!sg_plan_input_shape(plan, m->names[k]))
            continue; /* a pass leaves out what nobody reads */
        int64_t n = sg_shape_count(sg_plan_input_shape(plan, m->names[k]));
        double *x = sg_calloc(n + 1, sizeof *x);
        for (int64_t i = 0; i < n; i++)
            x[i] = (float)(4 * test_uniform(1000 + m->seed, k * 1000003 + i) - 2);
        assert_int_equal(sg_plan_feed(plan, m->names[k], x, n, &err), SG_OK);
        sg_free(x);
    }
    for (int32_t again = 0; again < 2; again++)
        if (sg_plan_run(plan, &err) != SG_OK)
            fail_msg("seed %d: %s", (int)m->seed, err.text);
    for (int32_t k = 0; k < m->n_results; k++) {
        char name[16];
        snprintf(name, sizeof name, "y%d", k);
        out->count[k] = sg_shape_count(sg_plan_result_shape(plan, name));
        out->data[k] = sg_calloc(out->count[k] + 1, sizeof(double));
        assert_int_equal(sg_plan_fetch(plan, name, out->data[k], out->count[k], &err), SG_OK);
    }
    sg_plan_free(plan);
    sg_session_free(session);
    sg_store_free(store);
}

static void release(outcome *o)
{
    for (int32_t k = 0; k < MOST_RESULTS; k++)
        sg_free(o->data[k]);
    memset(o, 0, sizeof *o);
}

static void compare(const maker *m, const char *what, const outcome *a, const outcome *b, double tolerance)
{
    for (int32_t k = 0; k < m->n_results; k++)
        for (int64_t i = 0; i < a->count[k]; i++) {
            double x = a->data[k][i], y = b->data[k][i], size = fmax(1, fabs(y));
            bool same = tolerance == 0 ? memcmp(&x, &y, sizeof x) == 0 : fabs(x - y) <= tolerance * size;
            if (!same && !(isnan(x) && isnan(y)))
                fail_msg("seed %d, %s: result %d element %lld is %.9g, not %.9g", (int)m->seed, what, k, (long long)i,
                         x, y);
        }
}

static void check_made(maker *m, sg_store *store)
{
    sg_store_initialise(store, 1);
    outcome expected = {0}, one = {0}, now = {0};
    run(m, "reference", 1, false, &expected);
    run(m, "cpu", 1, true, &now);
    compare(m, "unfused against reference", &now, &expected, 2e-4);
    release(&now);
    run(m, "cpu", 1, false, &one);
    compare(m, "fused against reference", &one, &expected, 2e-4);
    for (int32_t threads = 2; threads <= 3; threads++) {
        run(m, "cpu", threads, false, &now);
        compare(m, "threads", &now, &one, 0);
        release(&now);
    }
    release(&one);
    release(&expected);
    sg_graph_free(m->graph);
    sg_store_free(store);
}

static void check_graph(uint64_t seed, sg_shape space, int32_t steps, bool draws)
{
    maker m = {.seed = seed, .space = space, .draws = draws, .graph = sg_graph_new()};
    sg_store *store = sg_store_new(SG_F32);
    m.scope = sg_scope_root(m.graph, store);
    sg_rng_seed(store, seed, 7);
    make_graph(&m, steps);
    check_made(&m, store);
}

static void test_random_chains(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 3, 7, 33, 159, 1600};
    for (uint64_t seed = 0; seed < 150; seed++) {
        int64_t dim[3];
        int32_t rank = 1 + (int32_t)(test_uniform(77, (int64_t)seed) * 3);
        for (int32_t i = 0; i < rank; i++) {
            int32_t top = i == rank - 1 ? 6 : rank == 3 ? 3 : 5;
            dim[i] = sizes[(int)(test_uniform(78 + (uint64_t)i, (int64_t)seed) * top)];
        }
        check_graph(seed, sg_shape_make(rank, dim), 6 + (int32_t)(seed % 25), seed % 2 == 0);
    }
}

/* Axes of size 1 behind, between and before those that are summed. */
static void test_sums_beside_axes_of_one(void **state)
{
    (void)state;
    static const struct {
        int32_t rank;
        int64_t dim[5];
        int32_t n;
        int32_t axes[3];
    } cases[] = {{3, {4, 300, 1}, 1, {1}},        {4, {4, 1, 30, 1}, 1, {2}},   {5, {8, 2, 2, 8, 1}, 1, {3}},
                 {5, {3, 5, 1, 7, 1}, 2, {1, 3}}, {4, {1, 5, 1, 6}, 2, {1, 3}}, {4, {3, 1, 1, 9}, 2, {1, 3}},
                 {3, {2, 5000, 1}, 2, {1, 2}},    {3, {0, 5, 1}, 1, {1}},       {3, {5, 0, 1}, 1, {1}}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int keep = 0; keep < 2; keep++) {
            maker m = {.seed = 700 + k, .space = sg_shape_make(cases[k].rank, cases[k].dim), .graph = sg_graph_new()};
            sg_store *store = sg_store_new(SG_F32);
            m.scope = sg_scope_root(m.graph, store);
            add_input(&m, true);
            sg_value y = sg_tanh(m.real[0]);
            add_result(&m, sg_sum_axes(y, cases[k].n, cases[k].axes, keep));
            add_result(&m, y);
            check_made(&m, store);
        }
}

static void test_empty_spaces(void **state)
{
    (void)state;
    check_graph(500, SG_SHAPE(0), 12, true);
    check_graph(501, SG_SHAPE(3, 0), 12, true);
    check_graph(502, SG_SHAPE(0, 5), 12, true);
    check_graph(503, SG_SHAPE(2, 0, 3), 20, false);
}

static void test_long_rows(void **state)
{
    (void)state;
    check_graph(600, SG_SHAPE(3, 40000), 15, true);
    check_graph(601, SG_SHAPE(100000), 15, true);
    check_graph(602, SG_SHAPE(40000, 3), 15, false);
}

/* ---- steps on sums: on a GPU chains go on with them. The pass alone, by the reference rules before and after it */

enum { SUMS = 24 };

/* Sums over one axis, and steps on these, on the values that they are spread to, and on both. */
static void add_steps_on_sums(maker *m, int32_t steps)
{
    sg_value sum[SUMS];
    int32_t n = 0;
    for (; n < 4; n++)
        sum[n] = sg_sum_axes(sg_mul(bounded(any_real(m)), m->real[0]), 1, (int32_t[]){pick(m, m->space.rank)}, n % 2);
    for (int32_t k = 0; k < steps && n < SUMS; k++) {
        sg_value a = sum[pick(m, n)], b = sum[pick(m, n)], v = sg_tanh(a);
        bool alike = sg_shape_equal(sg_shape_of(a), sg_shape_of(b)), wide = sg_rank_of(a) == m->space.rank;
        int32_t kind = pick(m, 6);
        if (kind < 2 && alike)
            v = kind ? sg_add(a, b) : sg_mul(bounded(a), bounded(b));
        else if (kind == 2)
            v = sg_square(bounded(sg_reshape(a, *sg_shape_of(a))));
        else if (kind == 3 && wide)
            v = sg_sum_axes(sg_mul(bounded(a), m->real[0]), 1, (int32_t[]){pick(m, m->space.rank)}, true);
        else if (kind == 4 && wide && sg_rank_of(m->exact[1]) == 0)
            v = sg_sub(a, m->exact[1]);
        sum[n++] = v;
        if (pick(m, 3) == 0)
            add_result(m, v);
    }
    add_result(m, sum[n - 1]);
}

static bool any_sum(const sg_node *node, const sg_sum_form *form)
{
    (void)node;
    return form->length >= 1;
}

static bool is_sum(const sg_node *node) { return strcmp(node->op->name, "sum") == 0; }

/* What a kernel relies on: steps on sums read of their chain sums and each other alone, and no sum reads them. */
static void check_body(const maker *m, sg_graph *body)
{
    int32_t nodes = sg_node_count(body), results = sg_result_count(body), n = 0;
    int32_t *roots = sg_calloc(nodes + results + 1, sizeof *roots);
    bool *before = sg_calloc(nodes + 1, sizeof *before);
    const sg_shape *space = NULL;
    for (int32_t i = 0; i < nodes; i++)
        if (is_sum(sg_node_at(body, i))) {
            roots[n++] = sg_node_at(body, i)->in[0];
            space = sg_shape_of(sg_value_at(body, sg_node_at(body, i)->in[0]));
        }
    for (int32_t j = 0; space && j < results; j++)
        if (sg_shape_equal(sg_shape_of(sg_result_value(body, j)), space))
            roots[n++] = sg_result_value(body, j).id;
    sg_graph_reach(body, roots, n, false, before);
    for (int32_t i = 0; space && i < nodes; i++) {
        const sg_node *node = sg_node_at(body, i);
        for (int32_t k = 0; k < node->n_in && !is_sum(node); k++) {
            const sg_node *from = sg_node_of(sg_value_at(body, node->in[k]));
            bool step = !(from->op->flags & SG_OP_LEAF) && !is_sum(from);
            if (sg_fuse_reads(node, k) && ((before[i] && is_sum(from)) || (!before[i] && step && before[from->index])))
                fail_msg("seed %d: %s reads %s", (int)m->seed, node->name, from->name);
        }
    }
    sg_free(roots);
    sg_free(before);
}

static int32_t fuse_sums(maker *m, bool after)
{
    const sg_fuse_rules rules = {.has = sg_program_has, .sums = any_sum, .after_sums = after};
    sg_error err = {0};
    sg_graph *from = m->graph, *to = sg_graph_new();
    outcome expected = {0}, now = {0};
    run(m, "reference", 1, true, &expected);
    if (sg_fuse_chains(from, to, &rules, &err) != SG_OK)
        fail_msg("seed %d: %s", (int)m->seed, err.text);
    for (int32_t i = 0; i < sg_node_count(to); i++)
        if (sg_node_at(to, i)->op == &sg_op_fused)
            check_body(m, sg_node_at(to, i)->attr[0].graph);
    m->graph = to;
    run(m, "reference", 1, true, &now);
    compare(m, "chains with sums", &now, &expected, 1e-9);
    m->graph = from;
    int32_t nodes = sg_node_count(to);
    release(&expected);
    release(&now);
    sg_graph_free(to);
    return nodes;
}

static void test_steps_on_sums(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 5, 9};
    int32_t with = 0, without = 0;
    for (uint64_t seed = 1000; seed < 1150; seed++) {
        int64_t dim[3];
        int32_t rank = 1 + (int32_t)(seed % 3);
        for (int32_t i = 0; i < rank; i++)
            dim[i] = sizes[(int)(test_uniform(90 + (uint64_t)i, (int64_t)seed) * 4)];
        maker m = {.seed = seed, .space = sg_shape_make(rank, dim), .draws = seed % 2, .graph = sg_graph_new()};
        sg_store *store = sg_store_new(SG_F32);
        m.scope = sg_scope_root(m.graph, store);
        sg_rng_seed(store, seed, 7);
        make_graph(&m, 3);
        add_steps_on_sums(&m, 4 + (int32_t)(seed % 16));
        sg_store_initialise(store, 1);
        with += fuse_sums(&m, true);
        without += fuse_sums(&m, false);
        sg_graph_free(m.graph);
        sg_store_free(store);
    }
    assert_true(with < without);
}

/* ---- steps on single numbers: they join the chain that reads them where the backend does them once for all its elements */

static int32_t nodes_of(sg_value y, bool numbers_once)
{
    const sg_fuse_rules rules = {.has = sg_program_has, .sums = any_sum, .numbers_once = numbers_once};
    sg_error err = {0};
    sg_graph *to = sg_graph_new();
    int32_t count = 0;
    sg_result(y.graph, "y", y);
    assert_int_equal(sg_fuse_chains(y.graph, to, &rules, &err), SG_OK);
    bool *live = sg_calloc(sg_node_count(to), sizeof *live);
    sg_graph_reach(to, &(int32_t){sg_result_value(to, 0).id}, 1, false, live);
    for (int32_t i = 0; i < sg_node_count(to); i++)
        count += live[i] && !(sg_node_at(to, i)->op->flags & SG_OP_LEAF);
    sg_free(live);
    sg_graph_free(to);
    sg_graph_free(y.graph);
    return count;
}

typedef struct operands {
    sg_value x, a; /* of `rows` times 4 elements; a number */
} operands;
static operands operands_of(int64_t rows)
{
    sg_graph *g = sg_graph_new();
    return (operands){sg_input(g, "x", SG_F32, SG_SHAPE(rows, 4)), sg_input(g, "a", SG_F32, sg_shape_scalar())};
}

static sg_value scaled(int64_t rows, int32_t steps)
{
    operands o = operands_of(rows);
    for (int32_t k = 0; k < steps; k++)
        o.a = sg_exp(o.a);
    return sg_mul(o.x, o.a);
}

/* The update of a clipped gradient, which may take up the factor. */
static sg_value clipped(void)
{
    operands o = operands_of(3);
    sg_value lr = sg_scalar(o.x.graph, 0.1), t = sg_scalar(o.x.graph, 1);
    return sg_adam((sg_adam_state){o.x, o.x, o.x}, sg_mul(o.x, sg_exp(o.a)), lr, t, 0.9, 0.99, 1e-8, 0, true).p;
}

static void test_single_numbers(void **state)
{
    (void)state;
    assert_int_equal(nodes_of(scaled(3, 1), true), 1);
    assert_int_equal(nodes_of(scaled(3, 1), false), 2);
    assert_int_equal(nodes_of(scaled(3, 8), true), 1);
    assert_int_equal(nodes_of(scaled(3, 9), true), 2);
    assert_int_equal(nodes_of(scaled(1 << 20, 8), true), 1);
    assert_int_equal(nodes_of(scaled((1 << 20) + 1, 1), true), 2);
    assert_int_equal(nodes_of(clipped(), true), 3); /* exp, mul, adam */
}

/* ---- loops: bodies are fused too, and their draws move with the iteration */

static void loop_body(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    maker *m = user;
    sg_scope scope = sg_scope_in(sg_scope_sub(m->scope, "loop"), body);
    sg_value noise = sg_mul_scalar(sg_normal_like(scope, state[0]), 0.1);
    sg_value moved = sg_add(sg_tanh(sg_add(state[0], noise)), sg_mul_scalar(m->exact[0], 0.5));
    sg_value total = sg_param(scope, "total", SG_SHAPE(5), sg_init_zeros());
    sg_assign(total, sg_add(total, sg_sum(sg_square(moved), -1)));
    next[0] = moved;
    next[1] = sg_add(state[1], sg_sum(sg_abs(moved), -1));
}

static void test_loop_bodies(void **state)
{
    (void)state;
    maker m = {.seed = 900, .space = SG_SHAPE(5, 33), .graph = sg_graph_new()};
    sg_store *store = sg_store_new(SG_F32);
    m.scope = sg_scope_root(m.graph, store);
    sg_rng_seed(store, 5, 6);
    add_input(&m, true);
    sg_value start[2] = {m.exact[0], sg_sum(m.exact[0], -1)}, end[2];
    sg_repeat(m.graph, 4, loop_body, &m, start, 2, end, false);
    add_result(&m, sg_square(sg_neg(end[0])));
    add_result(&m, end[1]);
    sg_store_initialise(store, 1);
    outcome expected = {0}, one = {0}, two = {0};
    run(&m, "reference", 1, false, &expected);
    run(&m, "cpu", 1, false, &one);
    run(&m, "cpu", 2, false, &two);
    compare(&m, "loop against reference", &one, &expected, 1e-5);
    compare(&m, "threads in a loop", &two, &one, 0);
    release(&expected);
    release(&one);
    release(&two);
    sg_graph_free(m.graph);
    sg_store_free(store);
}

/* ---- what becomes of a graph: number of kernels and of chains, and what must not be merged */

static sg_plan_info plan_info(sg_graph *graph, sg_store *store, char *text, size_t size)
{
    sg_error err = {0};
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_session_options options = {sizeof options, .backend = "cpu", .threads = 1};
    if (sg_session_new(&session, store, &options, &err) != SG_OK || sg_plan_new(&plan, session, graph, &err) != SG_OK)
        fail_msg("%s", err.text);
    sg_plan_info info = sg_plan_describe(plan);
    FILE *out = fmemopen(text, size, "w");
    assert_non_null(out);
    sg_plan_print(plan, out);
    fclose(out);
    sg_plan_free(plan);
    sg_session_free(session);
    return info;
}

static void test_grouping(void **state)
{
    (void)state;
    char text[8192];
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F32);
    sg_scope scope = sg_scope_root(graph, store);
    /* candidates of a distribution and their log-probabilities: log p stays at [B, L], all else is one chain with a row sum */
    sg_value z = sg_input(graph, "z", SG_F32, SG_SHAPE(4, 50)), p = sg_sigmoid(z);
    sg_value y = sg_bernoulli(scope, sg_tile_axis(p, 1, 6));
    sg_value log_p = sg_expand_dims(sg_log_sigmoid(z), 1);
    sg_result(graph, "y", y);
    sg_result(graph, "s", sg_sum(sg_mul(y, log_p), -1));
    sg_store_initialise(store, 1);
    sg_plan_info info = plan_info(graph, store, text, sizeof text);
    assert_int_equal(info.nodes, 3);
    assert_int_equal(info.fused, 1);
    assert_non_null(strstr(text, "[4, 6, 50]"));
    sg_graph_free(graph);

    /* a path that leaves the chain through a matrix product and comes back: two chains */
    graph = sg_graph_new();
    sg_value a = sg_input(graph, "a", SG_F32, SG_SHAPE(20, 20)), b = sg_mul(sg_exp(a), a);
    sg_result(graph, "c", sg_add(sg_neg(sg_matmul(b, b)), b));
    info = plan_info(graph, store, text, sizeof text);
    assert_int_equal(info.nodes, 3);
    assert_int_equal(info.fused, 2);
    sg_graph_free(graph);
    sg_store_free(store);
}

/* Counted on the way to the refusal, without an overflow. */
static void test_spaces_beyond_memory(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_store *store = sg_store_new(SG_F32);
    sg_session *session;
    sg_plan *plan = NULL;
    sg_error err = {0};
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE((int64_t)1 << 60));
    sg_result(g, "y", sg_sum(sg_exp(x), 0));
    assert_int_equal(sg_session_new(&session, store, NULL, &err), SG_OK);
    assert_int_equal(sg_plan_new(&plan, session, g, &err), SG_E_SHAPE);
    assert_non_null(strstr(err.text, "too large"));
    sg_session_free(session);
    sg_graph_free(g);
    sg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_chains),        cmocka_unit_test(test_sums_beside_axes_of_one),
        cmocka_unit_test(test_empty_spaces),         cmocka_unit_test(test_long_rows),
        cmocka_unit_test(test_steps_on_sums),        cmocka_unit_test(test_single_numbers),
        cmocka_unit_test(test_loop_bodies),          cmocka_unit_test(test_grouping),
        cmocka_unit_test(test_spaces_beyond_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
