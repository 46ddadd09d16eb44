/* cuda_place_test.c - where the plan puts the operands of a product changes no bit of it, on a GPU: with the tensor that is added
 * dying there or read again later, with memory in use before or not. And an Adam step whose gradient is rows of a tensor, which it reads
 * there. Skipped where there is no GPU. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "models/models.h"
#include "ops/ops.h"
#include "runtime/runtime.h"
#include "tests/support/gpu_session.h"
#include "tests/support/graph_run.h"

/* y = w + u B in bf16, as it is read by a product, z = y C. Here w is rows of x A, a tensor that the product u B is added to. */
typedef struct problem {
    int64_t rows, inner, columns;
    bool transposed; /* A', B' */
} problem;

static const problem problems[] = {{1024, 768, 256, false},  {1024, 768, 256, true}, {200, 130, 96, false},
                                   {2048, 3072, 768, false}, {2048, 768, 768, true}, {77, 64, 8, false}};

enum { ALONE, KEPT, CROWDED, PLACES };
enum { WIDTH = 64 /* of z */ };

static sg_value product(sg_value x, sg_value w, const problem *p)
{
    return p->transposed ? sg_matmul_nt(x, w) : sg_matmul(x, w);
}

static void build(const problem *p, int place, sg_graph *g)
{
    sg_shape matrix = p->transposed ? SG_SHAPE(p->columns, p->inner) : SG_SHAPE(p->inner, p->columns);
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(p->rows + 1, p->inner));
    sg_value u = sg_input(g, "u", SG_F32, SG_SHAPE(p->rows, p->inner));
    sg_value A = sg_input(g, "A", SG_F32, matrix), B = sg_input(g, "B", SG_F32, matrix);
    sg_value C = sg_input(g, "C", SG_F32, SG_SHAPE(p->columns, WIDTH));
    sg_value w = sg_slice(product(x, A, p), 0, 1, p->rows + 1);
    sg_value y = sg_add(w, product(u, B, p));
    if (place == CROWDED) /* made before, read after */
        sg_result(g, "more", sg_sum_all(sg_matmul(sg_mul(product(u, A, p), y), C)));
    if (place == KEPT)
        sg_result(g, "more", sg_sum_all(sg_matmul(sg_mul(w, y), C)));
    sg_result(g, "z", sg_matmul(y, C));
}

/* z */
static float *run(const problem *p, int place)
{
    static const char *const names[] = {"x", "u", "A", "B", "C"}, *const z[] = {"z"};
    test_gpu_graph g = {.graph = sg_graph_new(),
                        .store = sg_store_new(SG_F32),
                        .inputs = names,
                        .n_in = 5,
                        .results = z,
                        .n_out = 1,
                        .most = 1,
                        .precision = "bf16"};
    build(p, place, g.graph);
    float *out = calloc((size_t)(p->rows * WIDTH), sizeof *out);
    assert_non_null(out);
    test_gpu_run(&g, out, p->rows * WIDTH);
    sg_graph_free(g.graph);
    sg_store_free(g.store);
    return out;
}

static void equal_bits_at_every_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        const problem *p = &problems[i];
        float *alone = run(p, ALONE);
        for (int place = KEPT; place < PLACES; place++) {
            float *other = run(p, place);
            int64_t n = p->rows * WIDTH, unlike = 0;
            for (int64_t k = 0; k < n; k++)
                unlike += memcmp(&alone[k], &other[k], sizeof *alone) != 0;
            if (unlike)
                fail_msg("problem %zu, place %d: %lld of %lld elements differ", i, place, (long long)unlike,
                         (long long)n);
            free(other);
        }
        free(alone);
    }
}

/* ---- rows of a tensor */

enum { ROWS = 4, STEPS = 3, LONGEST = 32 };

/* The parameter after some steps; `text` is where the plan is told. */
static void step_on_rows(const char *backend, int64_t first, int64_t width, double *out, char **text)
{
    sg_error err = {0};
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    size_t length = 0;
    sg_store *store = sg_store_new(SG_F32);
    sg_graph *graph = sg_graph_new();
    sg_scope scope = sg_scope_root(graph, store);
    sg_value p = sg_param(scope, "p", SG_SHAPE(ROWS, width), sg_init_normal(0, 1));
    sg_value all = sg_square(sg_input(graph, "g", SG_F32, SG_SHAPE(3 * ROWS, width)));
    sg_value g = sg_slice(all, 0, first, first + ROWS);
    const sg_adam_options adam = sg_adam_defaults(0.1);
    sg_adam_step(sg_scope_sub(scope, "adam"), &p, &g, 1, sg_scalar(graph, 0.01), &adam);
    sg_result(graph, "all", all);
    sg_store_initialise(store, 3);
    sg_session_options options = {.size = sizeof options, .backend = backend};
    if (sg_session_new(&session, store, &options, &err) != SG_OK || sg_plan_new(&plan, session, graph, &err) != SG_OK)
        fail_msg("%s", err.text);
    double data[3 * ROWS * LONGEST];
    for (int64_t i = 0; i < 3 * ROWS * width; i++)
        data[i] = (float)(2 * test_uniform(1, i) - 1);
    assert_int_equal(sg_plan_feed(plan, "g", data, 3 * ROWS * width, &err), SG_OK);
    for (int i = 0; i < STEPS; i++)
        if (sg_plan_run(plan, &err) != SG_OK)
            fail_msg("%s", err.text);
    FILE *print = open_memstream(text, &length);
    assert_non_null(print);
    sg_plan_print(plan, print);
    fclose(print);
    assert_int_equal(sg_store_get(store, "p", out, ROWS * width, &err), SG_OK);
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
}

static void steps_read_rows_where_they_lie(void **state)
{
    (void)state;
    static const struct {
        int64_t first, width;
        bool there; /* else a step would have no aligned words */
    } cases[] = {{0, 32, true}, {4, 32, true}, {8, 32, true}, {5, 4, true}, {1, 3, false}, {4, 3, true}};
    double want[ROWS * LONGEST], got[ROWS * LONGEST];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text[2];
        step_on_rows("cpu", cases[i].first, cases[i].width, want, &text[0]);
        step_on_rows("cuda", cases[i].first, cases[i].width, got, &text[1]);
        for (int64_t k = 0; k < ROWS * cases[i].width; k++)
            assert_true(fabs(want[k] - got[k]) <= 1e-5 * (1 + fabs(want[k])));
        if ((strstr(text[1], "rows_adam") != NULL) != cases[i].there)
            fail_msg("case %zu:\n%s", i, text[1]);
        free(text[0]);
        free(text[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_bits_at_every_place),
                                       cmocka_unit_test(steps_read_rows_where_they_lie)};
    return test_gpu_is_there(NULL) ? cmocka_run_group_tests(tests, NULL, NULL) : TEST_SKIPPED;
}
