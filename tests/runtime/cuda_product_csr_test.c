/* cuda_product_csr_test.c - products of sparse rows on a GPU with the elementwise steps that follow them in one kernel: against the
 * reference backend, and to the bits of the product alone. Skipped where there is no GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "runtime/runtime.h"
#include "tests/support/gpu_session.h"
#include "tests/support/graph_run.h"

/* Line i has i times 37, modulo most + 1, non-zeros. */
typedef struct problem {
    int64_t lines, columns, width, most;
} problem;

/* One and several tiles of columns, full and broken; lines of no term, of some and of more than a block's lanes take at once. */
static const problem problems[] = {{1, 5, 4, 5},     {9, 40, 36, 30},     {32, 90, 128, 60},   {7, 1000, 132, 700},
                                   {33, 70, 400, 9}, {16, 1836, 512, 90}, {5, 300, 1000, 280}, {40, 20, 4, 20}};
enum { PROBLEMS = sizeof problems / sizeof *problems, N_IN = 8 };
enum { N_OUT = 3 };

static const char *const inputs[N_IN] = {"x.values",  "x.columns",  "x.indptr", "x.t_rows",
                                         "x.t_order", "x.t_indptr", "layer",    "bias"};

static int64_t capacity_of(const problem *p) { return p->lines * (p->most + 16); }

static int64_t count_of(const problem *p, int input)
{
    const int64_t counts[N_IN] = {capacity_of(p), capacity_of(p), p->lines + 1,          capacity_of(p),
                                  capacity_of(p), p->columns + 1, p->columns * p->width, p->width};
    return counts[input];
}

static sg_graph *build(const problem *p, bool with_steps)
{
    sg_graph *g = sg_graph_new();
    sg_csr x = sg_csr_input(g, "x", p->lines, p->columns, capacity_of(p));
    sg_value product = sg_csr_matmul(x, sg_input(g, "layer", SG_F32, SG_SHAPE(p->columns, p->width)));
    sg_result(g, "product", product);
    if (!with_steps)
        return g;
    sg_value hidden = sg_tanh(sg_add(product, sg_input(g, "bias", SG_F32, SG_SHAPE(p->width))));
    sg_result(g, "hidden", hidden);
    sg_result(g, "scaled", sg_mul(hidden, sg_mul_scalar(product, 3)));
    return g;
}

/* What the transposed layout holds is not read. */
static void fill(const problem *p, double **data)
{
    int64_t n = 0;
    for (int k = 0; k < N_IN; k++) {
        assert_non_null(data[k] = calloc((size_t)count_of(p, k), sizeof **data));
        for (int64_t i = 0; strchr(inputs[k], '.') == NULL && i < count_of(p, k); i++)
            data[k][i] = 2 * test_uniform((uint64_t)k, i) - 1;
    }
    for (int64_t line = 0; line < p->lines; line++) {
        for (int64_t i = 0; i < line * 37 % (p->most + 1); i++, n++) {
            data[0][n] = 2 * test_uniform(9, n) - 1;
            data[1][n] = (double)((i * 13 + line) % p->columns);
        }
        data[2][line + 1] = (double)n;
    }
}

static void run(const problem *p, const char *backend, bool with_steps, double *const *data, double *out)
{
    sg_graph *graph = build(p, with_steps);
    sg_store *store = sg_store_new(strcmp(backend, "reference") == 0 ? SG_F64 : SG_F32);
    sg_session *session;
    sg_plan *plan;
    sg_error err = {0};
    sg_session_options options = {.size = sizeof options, .backend = backend};
    if (sg_session_new(&session, store, &options, &err) != SG_OK || sg_plan_new(&plan, session, graph, &err) != SG_OK)
        fail_msg("%s", err.text);
    for (int k = 0; k < (with_steps ? N_IN : N_IN - 1); k++)
        assert_int_equal(sg_plan_feed(plan, inputs[k], data[k], count_of(p, k), NULL), SG_OK);
    for (int i = 0; i < 3; i++) /* the third is a recorded one */
        if (sg_plan_run(plan, &err) != SG_OK)
            fail_msg("%s", err.text);
    if (strcmp(backend, "cuda") == 0) {
        char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);
        sg_plan_print(plan, f);
        fclose(f);
        assert_int_equal(strstr(text, "csr_matmul + ") != NULL, with_steps);
        free(text);
    }
    static const char *const results[N_OUT] = {"product", "hidden", "scaled"};
    for (int j = 0; j < (with_steps ? N_OUT : 1); j++)
        assert_int_equal(sg_plan_fetch(plan, results[j], out + j * p->lines * p->width, p->lines * p->width, NULL),
                         SG_OK);
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
}

static void check(const problem *p)
{
    int64_t count = p->lines * p->width;
    double *data[N_IN], *right = calloc((size_t)(N_OUT * count), sizeof *right);
    double *got = calloc((size_t)(N_OUT * count), sizeof *got), *alone = calloc((size_t)count, sizeof *alone);
    assert_true(right && got && alone);
    fill(p, data);
    run(p, "reference", true, data, right);
    run(p, "cuda", true, data, got);
    run(p, "cuda", false, data, alone);
    for (int64_t i = 0; i < N_OUT * count; i++)
        if (!(fabs(got[i] - right[i]) <= 2e-5 * (1 + fabs(right[i]))))
            fail_msg("%lldx%lld, %lld columns: element %lld of result %lld is %.9g, not %.9g", (long long)p->lines,
                     (long long)p->width, (long long)p->columns, (long long)(i % count), (long long)(i / count), got[i],
                     right[i]);
    assert_memory_equal(got, alone, (size_t)count * sizeof *got);
    for (int k = 0; k < N_IN; k++)
        free(data[k]);
    free(right);
    free(got);
    free(alone);
}

static void steps_follow_sparse_products(void **state)
{
    (void)state;
    for (int i = 0; i < PROBLEMS; i++)
        check(&problems[i]);
}

int main(void)
{
    if (!test_gpu_is_there(NULL))
        return TEST_SKIPPED;
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_follow_sparse_products)};
    return cmocka_run_group_tests_name("sparse products with steps", tests, NULL, NULL);
}
