/* An Adam step joined with the sparse product that is its gradient gives the bits of the two kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "runtime/runtime.h"

enum { ROWS = 5, COLUMNS = 67, WIDTH = 33, CAPACITY = 40 };

typedef struct batch {
    double values[CAPACITY], columns[CAPACITY], indptr[ROWS + 1], t_rows[CAPACITY], t_order[CAPACITY],
        t_indptr[COLUMNS + 1];
} batch;

/* Row r has the non-zeros r, r + 9, r + 18, ...: some columns are hit twice, some never. */
static void fill(batch *b)
{
    int n = 0, t = 0;
    memset(b, 0, sizeof *b);
    for (int r = 0; r < ROWS; r++) {
        for (int c = r; c < COLUMNS && n < CAPACITY; c += 9, n++) {
            b->columns[n] = c;
            b->values[n] = 0.1 * n - 1;
        }
        b->indptr[r + 1] = n;
    }
    for (int c = 0; c < COLUMNS; c++) {
        for (int r = 0; r < ROWS; r++)
            for (int e = (int)b->indptr[r]; e < (int)b->indptr[r + 1]; e++)
                if ((int)b->columns[e] == c) {
                    b->t_rows[t] = r;
                    b->t_order[t++] = e;
                }
        b->t_indptr[c + 1] = t;
    }
}

static sg_graph *build(sg_store *store, bool also_read)
{
    sg_graph *g = sg_graph_new();
    sg_scope root = sg_scope_root(g, store);
    sg_csr x = sg_csr_input(g, "x", ROWS, COLUMNS, CAPACITY);
    sg_value grad = sg_csr_t_matmul(x, sg_input(g, "g", SG_F32, SG_SHAPE(ROWS, WIDTH)));
    sg_adam_state s = {sg_param(root, "p", SG_SHAPE(COLUMNS, WIDTH), sg_init_normal(0, 1)),
                       sg_state(root, "m", SG_F32, SG_SHAPE(COLUMNS, WIDTH), sg_init_normal(0, 1)),
                       sg_state(root, "v", SG_F32, SG_SHAPE(COLUMNS, WIDTH), sg_init_constant(0.5))};
    sg_adam_state next = sg_adam(s, grad, sg_scalar(g, 0.01), sg_scalar(g, 3), 0.9, 0.999, 1e-8, 0.1, true);
    sg_assign(s.p, next.p);
    sg_assign(s.m, next.m);
    sg_assign(s.v, next.v);
    sg_result(g, "norm", also_read ? sg_sum_all(sg_square(grad)) : sg_scalar(g, 0));
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

/* p, m, v after one run. */
static void run(bool no_fusion, bool also_read, int threads, bool expect_joined, double *out, sg_status expected,
                double bad_pointer)
{
    batch b;
    double g[ROWS * WIDTH];
    sg_error err;
    sg_session *session;
    sg_plan *plan;
    fill(&b);
    b.t_indptr[3] += bad_pointer;
    for (int i = 0; i < ROWS * WIDTH; i++)
        g[i] = 0.01 * (i % 23) - 0.1;
    sg_store *store = sg_store_new(SG_F32);
    sg_graph *graph = build(store, also_read);
    sg_store_initialise(store, 1);
    sg_session_options options = {.size = sizeof options, .threads = threads, .no_fusion = no_fusion, .audit = true};
    assert_int_equal(sg_session_new(&session, store, &options, NULL), SG_OK);
    assert_int_equal(sg_plan_new(&plan, session, graph, NULL), SG_OK);
    assert_int_equal(prints(plan, "sparse_adam"), expect_joined);
    sg_plan_feed(plan, "x.values", b.values, CAPACITY, NULL);
    sg_plan_feed(plan, "x.columns", b.columns, CAPACITY, NULL);
    sg_plan_feed(plan, "x.indptr", b.indptr, ROWS + 1, NULL);
    sg_plan_feed(plan, "x.t_rows", b.t_rows, CAPACITY, NULL);
    sg_plan_feed(plan, "x.t_order", b.t_order, CAPACITY, NULL);
    sg_plan_feed(plan, "x.t_indptr", b.t_indptr, COLUMNS + 1, NULL);
    sg_plan_feed(plan, "g", g, ROWS * WIDTH, NULL);
    assert_int_equal(sg_plan_run(plan, &err), expected);
    if (expected != SG_OK)
        assert_non_null(strstr(err.text, "t_indptr"));
    static const char *names[] = {"p", "m", "v"};
    for (int k = 0; k < 3; k++)
        assert_int_equal(sg_store_get(store, names[k], out + k * COLUMNS * WIDTH, COLUMNS * WIDTH, NULL), SG_OK);
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
}

static double apart[3 * COLUMNS * WIDTH], joined[3 * COLUMNS * WIDTH];

static void joined_and_separate_give_the_same_bits(void **state)
{
    (void)state;
    run(true, false, 1, false, apart, SG_OK, 0);
    for (int threads = 1; threads <= 3; threads++) {
        run(false, false, threads, true, joined, SG_OK, 0);
        assert_memory_equal(apart, joined, sizeof apart);
    }
}

static void a_gradient_that_is_read_elsewhere_is_kept(void **state)
{
    (void)state;
    run(false, true, 2, false, joined, SG_OK, 0);
    assert_memory_equal(apart, joined, sizeof apart);
}

static void bad_pointers_are_refused(void **state)
{
    (void)state;
    run(false, false, 2, true, joined, SG_E_DATA, 1000);
    run(false, false, 2, true, joined, SG_E_DATA, -1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(joined_and_separate_give_the_same_bits),
                                       cmocka_unit_test(a_gradient_that_is_read_elsewhere_is_kept),
                                       cmocka_unit_test(bad_pointers_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
