/* joined_adam_test.c - an Adam step joined with the product that is its gradient, sparse or dense: values of the two apart (for sparse
 * rows their bits), equal bits for every number of threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "runtime/runtime.h"

enum { ROWS = 5, COLUMNS = 67, CAPACITY = 40, LAYER = 67 * 560 };

/* A layer [m, n] and a batch of k rows, sparse or dense; whether the gradient is a result too. */
typedef struct net {
    int64_t m, n, k;
    bool sparse, also_read;
    double bad_pointer; /* added to a pointer of the sparse batch */
} net;

static sg_graph *build(sg_store *store, const net *s)
{
    sg_graph *g = sg_graph_new();
    sg_scope root = sg_scope_root(g, store);
    sg_value dy = sg_input(g, "dy", SG_F32, SG_SHAPE(s->k, s->n)), grad;
    if (s->sparse)
        grad = sg_csr_t_matmul(sg_csr_input(g, "x", s->k, s->m, CAPACITY), dy);
    else
        grad = sg_matmul_tn(sg_input(g, "x", SG_F32, SG_SHAPE(s->k, s->m)), dy);
    sg_adam_state a = {sg_param(root, "p", SG_SHAPE(s->m, s->n), sg_init_normal(0, 1)),
                       sg_state(root, "m", SG_F32, SG_SHAPE(s->m, s->n), sg_init_normal(0, 1)),
                       sg_state(root, "v", SG_F32, SG_SHAPE(s->m, s->n), sg_init_constant(0.5))};
    sg_adam_state next = sg_adam(a, grad, sg_scalar(g, 0.01), sg_scalar(g, 3), 0.9, 0.999, 1e-8, 0.1, true);
    sg_assign(a.p, next.p);
    sg_assign(a.m, next.m);
    sg_assign(a.v, next.v);
    sg_result(g, "norm", s->also_read ? sg_sum_all(sg_square(grad)) : sg_scalar(g, 0));
    return g;
}

static bool prints(const sg_plan *plan, const char *text)
{
    char *out = NULL;
    size_t size;
    FILE *f = open_memstream(&out, &size);
    sg_plan_print(plan, f);
    fclose(f);
    bool found = strstr(out, text) != NULL;
    free(out);
    return found;
}

static void feed_dense(sg_plan *plan, const char *name, int64_t count, int step)
{
    double *values = malloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++)
        values[i] = 0.01 * (double)(i * step % 23) - 0.1;
    assert_int_equal(sg_plan_feed(plan, name, values, count, NULL), SG_OK);
    free(values);
}

/* Row r has the non-zeros r, r + 9, r + 18, ...: columns are hit up to four times, some never. */
static void feed_sparse(sg_plan *plan, double bad_pointer)
{
    double values[CAPACITY] = {0}, columns[CAPACITY] = {0}, t_rows[CAPACITY] = {0}, t_order[CAPACITY] = {0};
    double indptr[ROWS + 1] = {0}, t_indptr[COLUMNS + 1] = {0};
    int n = 0, t = 0;
    for (int r = 0; r < ROWS; r++) {
        for (int c = r == 0 ? 0 : 3 + r % 2; c < COLUMNS && n < CAPACITY; c += r == 0 ? 9 : 7, n++) {
            columns[n] = c;
            values[n] = 0.1 * n - 1;
        }
        indptr[r + 1] = n;
    }
    for (int c = 0; c < COLUMNS; c++) {
        for (int r = 0; r < ROWS; r++)
            for (int e = (int)indptr[r]; e < (int)indptr[r + 1]; e++)
                if ((int)columns[e] == c) {
                    t_rows[t] = r;
                    t_order[t++] = e;
                }
        t_indptr[c + 1] = t;
    }
    t_indptr[3] += bad_pointer;
    sg_plan_feed(plan, "x.values", values, CAPACITY, NULL);
    sg_plan_feed(plan, "x.columns", columns, CAPACITY, NULL);
    sg_plan_feed(plan, "x.indptr", indptr, ROWS + 1, NULL);
    sg_plan_feed(plan, "x.t_rows", t_rows, CAPACITY, NULL);
    sg_plan_feed(plan, "x.t_order", t_order, CAPACITY, NULL);
    sg_plan_feed(plan, "x.t_indptr", t_indptr, COLUMNS + 1, NULL);
}

/* p, m, v after two runs; whether the plan has the joined node. */
static bool run(const net *s, bool no_fusion, int threads, double *out)
{
    sg_error err;
    sg_session *session;
    sg_plan *plan;
    sg_store *store = sg_store_new(SG_F32);
    sg_graph *graph = build(store, s);
    sg_store_initialise(store, 1);
    sg_session_options options = {.size = sizeof options, .threads = threads, .no_fusion = no_fusion, .audit = true};
    assert_int_equal(sg_session_new(&session, store, &options, NULL), SG_OK);
    assert_int_equal(sg_plan_new(&plan, session, graph, NULL), SG_OK);
    bool joined = prints(plan, s->sparse ? "sparse_adam" : "product_adam");
    if (s->sparse)
        feed_sparse(plan, s->bad_pointer);
    else
        feed_dense(plan, "x", s->k * s->m, 1);
    feed_dense(plan, "dy", s->k * s->n, 7);
    for (int i = 0; i < 2; i++)
        assert_int_equal(sg_plan_run(plan, &err), s->bad_pointer ? SG_E_DATA : SG_OK);
    if (s->bad_pointer)
        assert_non_null(strstr(err.text, "t_indptr"));
    static const char *names[] = {"p", "m", "v"};
    for (int k = 0; k < 3; k++)
        assert_int_equal(sg_store_get(store, names[k], out + k * s->m * s->n, s->m * s->n, NULL), SG_OK);
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
    return joined;
}

static double apart[3 * LAYER], joined[3 * LAYER], first[3 * LAYER];

/* Only the dense kernel adds up in another order than the product alone, or with products that are not rounded. */
static void check(net s, bool expect_joined)
{
    int64_t count = 3 * s.m * s.n;
    double tolerance = s.sparse || !expect_joined ? 0 : 1e-5;
    assert_true(count <= 3 * LAYER);
    assert_false(run(&s, true, 1, apart));
    for (int threads = 1; threads <= 3; threads++) {
        assert_int_equal(run(&s, false, threads, joined), expect_joined);
        for (int64_t i = 0; i < count; i++)
            if (!(fabs(apart[i] - joined[i]) <= tolerance * (1 + fabs(apart[i]))))
                fail_msg("element %ld: %g apart, %g joined", (long)i, apart[i], joined[i]);
        if (threads > 1)
            assert_memory_equal(first, joined, (size_t)count * sizeof *joined);
        memcpy(first, joined, (size_t)count * sizeof *joined);
    }
}

/* One row and many, one block of columns and two of which the second is narrower. */
static void joined_and_separate_agree(void **state)
{
    (void)state;
    check((net){.m = 67, .n = 48, .k = 5}, true);
    check((net){.m = 2, .n = 16, .k = 2}, true);
    check((net){.m = 67, .n = 560, .k = 33}, true);
}

/* Rows of whole vectors, of vectors and a rest, and below a vector. */
static void sparse_ones_give_the_same_bits(void **state)
{
    (void)state;
    const int64_t widths[] = {1, 5, 16, 33, 64, 90, 400};
    for (int i = 0; i < 7; i++)
        check((net){.m = COLUMNS, .n = widths[i], .k = ROWS, .sparse = true}, true);
}

static void what_does_not_fit_stays_apart(void **state)
{
    (void)state;
    check((net){.m = 20, .n = 33, .k = 5}, false);
    check((net){.m = 20, .n = 32, .k = 300}, false);
    check((net){.m = 20, .n = 32, .k = 5, .also_read = true}, false);
    check((net){.m = COLUMNS, .n = 33, .k = ROWS, .sparse = true, .also_read = true}, false);
}

static void bad_pointers_are_refused(void **state)
{
    (void)state;
    net s = {.m = COLUMNS, .n = 33, .k = ROWS, .sparse = true, .bad_pointer = 1000};
    assert_true(run(&s, false, 2, joined));
    s.bad_pointer = -1000;
    assert_true(run(&s, false, 2, joined));
}

/* ---- updates clipped by the global norm, in a loop */

enum { CLIPPED_WIDTH = 20, CLIPPED = COLUMNS * CLIPPED_WIDTH, TIMES = 4, BAD_TIME = 2 };

typedef struct clipped {
    sg_store *store;
    sg_csr x;
    sg_value dy, late;
} clipped;

/* In one iteration the gradient is `late` times as long as in the others. */
static void clipped_update(void *user, sg_graph *g, const sg_value *state, sg_value *next)
{
    const clipped *c = user;
    sg_scope root = sg_scope_root(g, c->store);
    sg_shape layer = SG_SHAPE(COLUMNS, CLIPPED_WIDTH);
    sg_value t0 = sg_state(root, "t", SG_F32, sg_shape_scalar(), sg_init_zeros()), t = sg_add_scalar(t0, 1);
    sg_value factor, scale = sg_where(sg_equal(t, sg_scalar(g, BAD_TIME)), c->late, sg_scalar(g, 1));
    sg_adam_state a = {sg_param(root, "p", layer, sg_init_normal(0, 1)),
                       sg_state(root, "m", SG_F32, layer, sg_init_normal(0, 1)),
                       sg_state(root, "v", SG_F32, layer, sg_init_constant(0.5))};
    sg_value gradient = sg_csr_t_matmul(c->x, sg_mul(c->dy, scale));
    factor = sg_clip_factor(&gradient, 1, 0.1, NULL);
    sg_adam_state to = sg_adam(a, sg_mul(gradient, factor), sg_scalar(g, 0.01), t, 0.9, 0.999, 1e-8, 0.1, true);
    sg_assign(a.p, to.p);
    sg_assign(a.m, to.m);
    sg_assign(a.v, to.v);
    sg_assign(t0, t);
    next[0] = sg_add(state[0], factor);
}

static void run_clipped(const char *backend, bool no_fusion, double late, double *out)
{
    clipped c = {.store = sg_store_new(strcmp(backend, "reference") == 0 ? SG_F64 : SG_F32)};
    sg_graph *g = sg_graph_new();
    sg_session *session;
    sg_plan *plan;
    c.x = sg_csr_input(g, "x", ROWS, COLUMNS, CAPACITY);
    c.dy = sg_input(g, "dy", SG_F32, SG_SHAPE(ROWS, CLIPPED_WIDTH));
    c.late = sg_input(g, "late", SG_F32, sg_shape_scalar());
    sg_value factors = sg_scalar(g, 0);
    sg_repeat(g, TIMES, clipped_update, &c, &factors, 1, &factors, false);
    sg_result(g, "factors", factors);
    sg_store_initialise(c.store, 1);
    sg_session_options options = {.size = sizeof options, .backend = backend, .threads = 2, .no_fusion = no_fusion};
    assert_int_equal(sg_session_new(&session, c.store, &options, NULL), SG_OK);
    assert_int_equal(sg_plan_new(&plan, session, g, NULL), SG_OK);
    feed_sparse(plan, 0);
    feed_dense(plan, "dy", ROWS * CLIPPED_WIDTH, 7);
    assert_int_equal(sg_plan_feed(plan, "late", &late, 1, NULL), SG_OK);
    assert_int_equal(sg_plan_run(plan, NULL), SG_OK);
    static const char *names[] = {"p", "m", "v"};
    for (int k = 0; k < 3; k++)
        assert_int_equal(sg_store_get(c.store, names[k], out + k * CLIPPED, CLIPPED, NULL), SG_OK);
    assert_int_equal(sg_plan_fetch(plan, "factors", out + 3 * CLIPPED, 1, NULL), SG_OK);
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(g);
    sg_store_free(c.store);
}

/* A step is the dense one's in each iteration, with that iteration's factor, in rows without a gradient as well: a factor of NaN makes
 * their gradient 0 * NaN, from then on. */
static void idle_rows_of_clipped_steps(void **state)
{
    (void)state;
    static double wanted[3 * CLIPPED + 1], is[3 * CLIPPED + 1];
    for (int bad = 0; bad < 2; bad++) {
        run_clipped("reference", true, bad ? NAN : 5, wanted);
        for (int no_fusion = 0; no_fusion < 2; no_fusion++) {
            run_clipped("cpu", no_fusion, bad ? NAN : 5, is);
            for (int i = 0; i < 3 * CLIPPED + 1; i++)
                if (isnan(wanted[i]) != bad || isnan(is[i]) != bad || fabs(is[i] - wanted[i]) > 1e-5)
                    fail_msg("element %d: %g, on reference %g", i, is[i], wanted[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joined_and_separate_agree), cmocka_unit_test(sparse_ones_give_the_same_bits),
        cmocka_unit_test(what_does_not_fit_stays_apart), cmocka_unit_test(bad_pointers_are_refused),
        cmocka_unit_test(idle_rows_of_clipped_steps)};
    return cmocka_run_group_tests_name("joined adam", tests, NULL, NULL);
}
