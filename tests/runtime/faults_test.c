/* Indices out of range: each backend tells the same status, operator, node, value, limit and position, of the lowest one. The cpu
 * is always tried, a GPU where there is one. And a plan that does not fit a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "runtime/runtime.h"

enum { WIDTH = 3, ROWS = 5, PICKS = 700, STEPS = 4 };

/* Inputs are 0, an index that is always right, except where `wrong` says otherwise. */
typedef struct trial {
    const char *text; /* the end of the message */
    sg_value (*build)(sg_graph *graph);
    const char *input;
    struct {
        int64_t at;
        double value;
    } wrong[4];
} trial;

static sg_value table(sg_graph *g, int64_t rows) { return sg_input(g, "table", SG_F32, SG_SHAPE(rows, WIDTH)); }

static sg_value index_of(sg_graph *g) { return sg_input(g, "index", SG_I32, SG_SHAPE(PICKS)); }

static sg_value gather(sg_graph *g) { return sg_gather(table(g, ROWS), index_of(g)); }

static sg_value scatter(sg_graph *g)
{
    return sg_scatter_rows(table(g, PICKS), index_of(g), sg_input(g, "like", SG_F32, SG_SHAPE(ROWS, WIDTH)));
}

static sg_value one_hot(sg_graph *g) { return sg_one_hot(index_of(g), ROWS); }

static sg_value segments(sg_graph *g) { return sg_segment_max(table(g, PICKS), index_of(g), ROWS); }

static sg_value elements(sg_graph *g)
{
    sg_value index = sg_input(g, "index", SG_I32, SG_SHAPE(PICKS, WIDTH));
    return sg_gather_elements(table(g, ROWS), index, 0);
}

static sg_value scattered_elements(sg_graph *g)
{
    sg_value index = sg_input(g, "index", SG_I32, SG_SHAPE(PICKS, WIDTH));
    return sg_scatter_elements(table(g, PICKS), index, sg_input(g, "like", SG_F32, SG_SHAPE(ROWS, WIDTH)), 0);
}

static sg_value few_elements(sg_graph *g)
{
    sg_value index = sg_input(g, "index", SG_I32, SG_SHAPE(40, WIDTH));
    return sg_scatter_elements(table(g, 40), index, sg_input(g, "like", SG_F32, SG_SHAPE(ROWS, WIDTH)), 0);
}

static sg_value product(sg_graph *g) { return sg_csr_matmul(sg_csr_input(g, "x", STEPS, ROWS, PICKS), table(g, ROWS)); }

/* Where steps follow in one kernel, the product is named all the same. */
static sg_value layer(sg_graph *g)
{
    sg_value weights = sg_input(g, "wide table", SG_F32, SG_SHAPE(ROWS, 4));
    sg_value product = sg_csr_matmul(sg_csr_input(g, "x", STEPS, ROWS, PICKS), weights);
    return sg_tanh(sg_add(sg_named(product, "the layer"), product));
}

static sg_value transposed(sg_graph *g)
{
    return sg_csr_t_matmul(sg_csr_input(g, "x", STEPS, ROWS, PICKS), table(g, STEPS));
}

static sg_value targets(sg_graph *g) { return sg_softmax_cross_entropy(table(g, PICKS), index_of(g)); }

static const trial trials[] = {
    {"index 9 at position 40 is outside [0, 5)", gather, "index", {{603, -2}, {40, 9}, {41, 7}}},
    {"index -1 at position 0 is outside [0, 5)", gather, "index", {{0, -1}, {699, 5}}},
    {"index 5 at position 7 is outside [0, 5)", scatter, "index", {{7, 5}, {300, 6}}},
    {"index 8 at position 699 is outside [0, 5)", one_hot, "index", {{699, 8}}},
    {"index 5 at position 2 is outside [0, 5)", segments, "index", {{2, 5}, {3, -1}}},
    {"index -7 at position 1000 is outside [0, 5)", elements, "index", {{1000, -7}, {2000, 9}}},
    {"index 5 at position 4 is outside [0, 5)", scattered_elements, "index", {{4, 5}, {2099, 9}}},
    {"index 5 at position 4 is outside [0, 5)", few_elements, "index", {{4, 5}, {100, 9}}},
    {"columns[17] = 5 is outside [0, 5)", product, "x.columns", {{17, 5}, {600, -4}}},
    {"indptr[2] = 100 is outside [300, capacity 700]", product, "x.indptr", {{2, 100}}},
    {"indptr[1] = 701 is outside [0, capacity 700]", product, "x.indptr", {{1, 701}}},
    {"indptr[0] = -1 is outside [0, capacity 700]", product, "x.indptr", {{0, -1}}},
    {"columns[17] = 5 is outside [0, 5)", layer, "x.columns", {{17, 5}, {600, -4}}},
    {"indptr[2] = 100 is outside [300, capacity 700]", layer, "x.indptr", {{2, 100}}},
    {"t_rows[3] = 4 is outside [0, 4)", transposed, "x.t_rows", {{3, 4}, {500, 4}}},
    {"t_order[9] = 700 is outside [0, 700)", transposed, "x.t_order", {{9, 700}, {11, -1}}},
    {"target 3 at position 30 is neither -1 nor in [0, 3)", targets, "index", {{30, 3}, {31, -2}}},
};
enum { TRIALS = sizeof trials / sizeof *trials };

static void fill(sg_plan *plan, const char *name, const trial *t)
{
    const sg_shape *shape = sg_plan_input_shape(plan, name);
    if (!shape)
        return;
    int64_t n = sg_shape_count(shape);
    double *data = calloc((size_t)n, sizeof *data);
    assert_non_null(data);
    if (strstr(name, "indptr")) /* two long lines, then empty ones */
        for (int64_t i = 1; i < n; i++)
            data[i] = i == 1 ? 300 : PICKS;
    for (int k = 0; k < 4 && strcmp(name, t->input) == 0; k++)
        if (t->wrong[k].value != 0)
            data[t->wrong[k].at] = t->wrong[k].value;
    sg_error err = {0};
    if (sg_plan_feed(plan, name, data, n, &err) != SG_OK)
        fail_msg("%s: %s", name, err.text);
    free(data);
}

/* The first run goes launch by launch, the third is recorded; after a failure the plan goes on. */
static void fail_on(const char *backend, const trial *t, int turn, sg_error *err)
{
    static const char *const names[] = {"table",     "wide table", "index",    "like",      "x.values",
                                        "x.columns", "x.indptr",   "x.t_rows", "x.t_order", "x.t_indptr"};
    sg_store *store = sg_store_new(SG_F32);
    sg_graph *graph = sg_graph_new();
    sg_session *session;
    sg_plan *plan;
    sg_error here = {0};
    sg_session_options options = {.size = sizeof options, .backend = backend, .threads = 1};
    trial right = *t;
    right.input = "nothing is wrong";
    sg_result(graph, "out", sg_named(t->build(graph), "the node"));
    if (sg_session_new(&session, store, &options, &here) != SG_OK || sg_plan_new(&plan, session, graph, &here) != SG_OK)
        fail_msg("%s", here.text);
    for (int i = 0; i < turn + 2; i++) {
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            fill(plan, names[k], i == turn ? t : &right);
        sg_status status = sg_plan_run(plan, &here);
        if (status == SG_OK)
            status = sg_session_wait(session, &here);
        assert_int_equal(status, i == turn ? SG_E_DATA : SG_OK);
        if (i == turn)
            *err = here;
    }
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
}

static void faults_on_the_cpu(void **state)
{
    (void)state;
    for (int i = 0; i < TRIALS; i++) {
        sg_error err = {0};
        fail_on("cpu", &trials[i], 0, &err);
        if (!strstr(err.text, trials[i].text))
            fail_msg("expected \"%s\", got \"%s\"", trials[i].text, err.text);
        assert_true(err.node[0] && strstr(err.text, err.node));
    }
}

/* Devices lower a graph differently, so generated names differ. */
static const char *what(const sg_error *err)
{
    const char *colon = strstr(err->text, "): ");
    return strncmp(err->node, "the ", 4) == 0 || !colon ? err->text : colon;
}

static bool same(const sg_error *a, const sg_error *b)
{
    return strcmp(what(a), what(b)) == 0 && strcmp(a->op, b->op) == 0 && strcmp(a->file, b->file) == 0 &&
           a->line == b->line;
}

static bool there_is_a_gpu(void)
{
    sg_store *store = sg_store_new(SG_F32);
    sg_session *session = NULL;
    sg_error err = {0};
    sg_session_options options = {.size = sizeof options, .backend = "cuda"};
    bool there = sg_session_new(&session, store, &options, &err) == SG_OK;
    if (!there)
        print_message("skipped: %s\n", err.text);
    sg_session_free(session);
    sg_store_free(store);
    return there;
}

static void faults_on_a_gpu(void **state)
{
    (void)state;
    int different = 0;
    if (!there_is_a_gpu())
        skip();
    for (int i = 0; i < TRIALS; i++)
        for (int turn = 0; turn < 3; turn += 2) {
            sg_error cpu = {0}, gpu = {0};
            fail_on("cpu", &trials[i], 0, &cpu);
            fail_on("cuda", &trials[i], turn, &gpu);
            if (same(&cpu, &gpu))
                continue;
            print_error("cpu: %s:%lld %s\ngpu: %s:%lld %s\n", cpu.file, (long long)cpu.line, cpu.text, gpu.file,
                        (long long)gpu.line, gpu.text);
            different++;
        }
    assert_int_equal(different, 0);
}

/* 512 GiB of temporaries: refused when it is planned, with what is needed and what there is. */
static void plans_too_large_for_a_gpu(void **state)
{
    (void)state;
    if (!there_is_a_gpu())
        skip();
    sg_store *store = sg_store_new(SG_F32);
    sg_graph *graph = sg_graph_new();
    sg_session *session;
    sg_plan *plan;
    sg_error err = {0};
    sg_session_options options = {.size = sizeof options, .backend = "cuda"};
    sg_value a = sg_input(graph, "a", SG_F32, SG_SHAPE(1 << 19, 2)),
             b = sg_input(graph, "b", SG_F32, SG_SHAPE(2, 1 << 18));
    sg_result(graph, "sum", sg_sum_all(sg_matmul(a, b)));
    assert_int_equal(sg_session_new(&session, store, &options, &err), SG_OK);
    assert_int_equal(sg_plan_new(&plan, session, graph, &err), SG_E_MEMORY);
    print_message("%s\n", err.text);
    assert_non_null(strstr(err.text, "temporaries 524"));
    assert_non_null(strstr(err.text, "MiB are free"));
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
}

int main(void)
{
    setenv("SEALGRAPH_MODULE_PATH", SG_BINARY_DIR, 0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(faults_on_the_cpu), cmocka_unit_test(faults_on_a_gpu),
                                       cmocka_unit_test(plans_too_large_for_a_gpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
