/* cuda_replicas_test.c - sums, draws, elementwise chains and sparse products of one of several replicas on a GPU have the bits of those
 * of a replica alone, though other threads make them. Skipped where there is no GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "runtime/runtime.h"
#include "tests/support/graph_run.h"
#include "tests/support/gpu_session.h"

enum { REPLICAS = 9, ROWS = 32, COLUMNS = 300, CAPACITY = 70 * ROWS, MOST_RESULTS = 32 };

/* What a graph keeps, each in a state of the store. */
typedef struct kept {
    const char *name[MOST_RESULTS];
    int64_t count[MOST_RESULTS];
    int32_t n;
} kept;

static void keep(kept *k, sg_scope scope, const char *name, sg_value v)
{
    sg_shape shape = *sg_shape_of(v);
    k->name[k->n] = name;
    k->count[k->n++] = sg_shape_count(&shape);
    sg_assign(sg_state(scope, name, SG_F32, shape, sg_init_constant(0)), v);
}

static sg_value normal(sg_scope scope, const char *name, sg_shape shape)
{
    return sg_param(scope, name, shape, sg_init_normal(0, 1));
}

static void keep_sums(kept *k, sg_scope s)
{
    keep(k, s, "sum64", sg_sum(normal(s, "a", SG_SHAPE(672, 200)), 0));
    keep(k, s, "sum8", sg_sum(normal(s, "b", SG_SHAPE(32, 400)), 0));
    keep(k, s, "sum16", sg_sum(normal(s, "c", SG_SHAPE(3, 50, 100)), 1));
    keep(k, s, "sum32", sg_sum(normal(s, "d", SG_SHAPE(2, 101, 36)), 1));
    keep(k, s, "narrow", sg_sum(normal(s, "e", SG_SHAPE(300, 8)), 0));
    keep(k, s, "odd", sg_sum(normal(s, "f", SG_SHAPE(300, 33)), 0));
}

static void keep_chains(kept *k, sg_scope s)
{
    sg_value cube = normal(s, "cube", SG_SHAPE(ROWS, 21, 159)), each = normal(s, "each", SG_SHAPE(ROWS, 21, 1));
    sg_value row = normal(s, "row", SG_SHAPE(ROWS, 1, 159)), wide = normal(s, "wide", SG_SHAPE(672, 200));
    sg_value tall = normal(s, "tall", SG_SHAPE(70, 93, 90));
    keep(k, s, "columns", sg_sum(sg_mul(cube, each), 1));
    keep(k, s, "long", sg_add_scalar(sg_sum(sg_square(tall), 1), 1));
    keep(k, s, "rows", sg_sum(sg_mul(cube, row), 2));
    keep(k, s, "broken", sg_sum(sg_mul(tall, normal(s, "over", SG_SHAPE(93, 90))), 2));
    keep(k, s, "sigmoid", sg_mul(sg_sigmoid(sg_mul_scalar(wide, 30)), normal(s, "bias", SG_SHAPE(200))));
    keep(k, s, "mask", sg_bernoulli(s, sg_sigmoid(normal(s, "p", SG_SHAPE(ROWS, 400)))));
    keep(k, s, "dropped", sg_dropout(s, normal(s, "q", SG_SHAPE(ROWS, 159)), 0.5));
}

static void keep_products(kept *k, sg_scope s, sg_csr x)
{
    keep(k, s, "sparse", sg_csr_matmul(x, normal(s, "layer", SG_SHAPE(COLUMNS, 400))));
    keep(k, s, "slice", sg_csr_matmul(x, normal(s, "thin", SG_SHAPE(COLUMNS, 36))));
    keep(k, s, "layer1",
         sg_dropout(s,
                    sg_softplus(sg_add(sg_csr_matmul(x, normal(s, "W1", SG_SHAPE(COLUMNS, 400))),
                                       normal(s, "c1", SG_SHAPE(400)))),
                    0.5));
    keep(k, s, "vector", sg_matmul(normal(s, "v", SG_SHAPE(1, 333)), normal(s, "w", SG_SHAPE(333, 52))));
}

static sg_graph *build(sg_store *store, kept *k)
{
    sg_graph *g = sg_graph_new();
    sg_scope root = sg_scope_root(g, store);
    k->n = 0;
    keep_sums(k, root);
    keep_chains(k, root);
    keep_products(k, root, sg_csr_input(g, "x", ROWS, COLUMNS, CAPACITY));
    return g;
}

/* Rows of 0, 37, 74, 111 non-zeros and so on; what the transposed layout holds is not read. */
static void feed(sg_plan *plan)
{
    static double values[CAPACITY], columns[CAPACITY], indptr[ROWS + 1], none[CAPACITY + COLUMNS + 1];
    int n = 0;
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < r % 4 * 37; i++, n++) {
            values[n] = 2 * test_uniform(1, n) - 1;
            columns[n] = (i * 13 + r) % COLUMNS;
        }
        indptr[r + 1] = n;
    }
    assert_int_equal(sg_plan_feed(plan, "x.values", values, CAPACITY, NULL), SG_OK);
    assert_int_equal(sg_plan_feed(plan, "x.columns", columns, CAPACITY, NULL), SG_OK);
    assert_int_equal(sg_plan_feed(plan, "x.indptr", indptr, ROWS + 1, NULL), SG_OK);
    assert_int_equal(sg_plan_feed(plan, "x.t_rows", none, CAPACITY, NULL), SG_OK);
    assert_int_equal(sg_plan_feed(plan, "x.t_order", none, CAPACITY, NULL), SG_OK);
    assert_int_equal(sg_plan_feed(plan, "x.t_indptr", none, COLUMNS + 1, NULL), SG_OK);
}

/* The results of the last of several replicas, or of the only one. */
static void run(int replicas, kept *k, double **out)
{
    sg_store *store[REPLICAS];
    sg_graph *graph = NULL;
    sg_session *session;
    sg_plan *plan;
    for (int r = replicas; r-- > 0;) {
        uint64_t seed = r == replicas - 1 ? 1 : 2 + (uint64_t)r;
        store[r] = sg_store_new(SG_F32);
        sg_graph_free(graph);
        graph = build(store[r], k);
        sg_rng_seed(store[r], seed, 0);
        sg_store_initialise(store[r], seed);
    }
    sg_session_options options = {.size = sizeof options, .backend = "cuda", .replicas = replicas, .more = store + 1};
    assert_int_equal(sg_session_new(&session, store[0], &options, NULL), SG_OK);
    assert_int_equal(sg_plan_new(&plan, session, graph, NULL), SG_OK);
    feed(plan);
    assert_int_equal(sg_plan_run(plan, NULL), SG_OK);
    for (int32_t i = 0; i < k->n; i++) {
        assert_non_null(out[i] = calloc((size_t)k->count[i], sizeof(double)));
        assert_int_equal(sg_store_get(store[replicas - 1], k->name[i], out[i], k->count[i], NULL), SG_OK);
    }
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    for (int r = 0; r < replicas; r++)
        sg_store_free(store[r]);
}

static void replicas_have_the_bits_of_one_alone(void **state)
{
    double *alone[MOST_RESULTS], *among[MOST_RESULTS];
    kept k;
    (void)state;
    run(1, &k, alone);
    run(REPLICAS, &k, among);
    for (int32_t i = 0; i < k.n; i++) {
        for (int64_t e = 0; e < k.count[i]; e++)
            if (memcmp(&alone[i][e], &among[i][e], sizeof(double)) != 0)
                fail_msg("%s, element %lld: %.9g alone, %.9g among %d", k.name[i], (long long)e, alone[i][e],
                         among[i][e], REPLICAS);
        free(alone[i]);
        free(among[i]);
    }
}

int main(void)
{
    if (!test_gpu_is_there(NULL))
        return TEST_SKIPPED;
    const struct CMUnitTest tests[] = {cmocka_unit_test(replicas_have_the_bits_of_one_alone)};
    return cmocka_run_group_tests_name("replicas", tests, NULL, NULL);
}
