/* cuda_place_test.c - where the plan puts the operands of a product changes no bit of it, on a GPU: with the tensor that is added
 * dying there or read again later, with memory in use before or not. Skipped where there is no GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "runtime/runtime.h"
#include "tests/support/gpu_session.h"
#include "tests/support/graph_run.h"

/* y = x A + u B, two products of bf16 where the second is added to the first. */
typedef struct problem {
    int64_t rows, inner, columns;
    bool transposed; /* A', B' */
} problem;

static const problem problems[] = {{1024, 768, 256, false},  {1024, 768, 256, true}, {200, 130, 96, false},
                                   {2048, 3072, 768, false}, {2048, 768, 768, true}, {77, 64, 8, false}};

enum { ALONE, KEPT, CROWDED, PLACES };

static sg_value product(sg_value x, sg_value w, const problem *p)
{
    return p->transposed ? sg_matmul_nt(x, w) : sg_matmul(x, w);
}

static void build(const problem *p, int place, sg_graph *g)
{
    sg_shape matrix = p->transposed ? SG_SHAPE(p->columns, p->inner) : SG_SHAPE(p->inner, p->columns);
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(p->rows, p->inner)), u = sg_input(g, "u", SG_F32, *sg_shape_of(x));
    sg_value A = sg_input(g, "A", SG_F32, matrix), B = sg_input(g, "B", SG_F32, matrix);
    sg_value first = product(x, A, p);
    sg_value y = sg_add(first, product(u, B, p));
    if (place == CROWDED) /* made before, read after */
        sg_result(g, "more", sg_sum_all(sg_mul(sg_square(product(u, A, p)), y)));
    if (place == KEPT)
        sg_result(g, "more", sg_sum_all(sg_mul(first, y)));
    sg_result(g, "y", y);
}

/* Runs three times: the third is a recorded one. */
static float *run(const problem *p, int place)
{
    static const char *const names[] = {"x", "u", "A", "B"};
    sg_error err = {0};
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_store *store = sg_store_new(SG_F32);
    sg_graph *graph = sg_graph_new();
    build(p, place, graph);
    sg_session_options options = {.size = sizeof options, .backend = "cuda", .precision = "bf16"};
    if (sg_session_new(&session, store, &options, &err) != SG_OK || sg_plan_new(&plan, session, graph, &err) != SG_OK)
        fail_msg("%s", err.text);
    for (int32_t k = 0; k < 4; k++) {
        float *x = sg_plan_input(plan, names[k]);
        int64_t n = sg_shape_count(sg_plan_input_shape(plan, names[k]));
        for (int64_t i = 0; i < n; i++)
            x[i] = (float)(2 * test_uniform((uint64_t)k + 1, i) - 1);
    }
    for (int i = 0; i < 3; i++)
        if (sg_plan_run(plan, &err) != SG_OK)
            fail_msg("%s", err.text);
    size_t bytes = (size_t)(p->rows * p->columns) * sizeof(float);
    float *y = malloc(bytes);
    assert_non_null(y);
    memcpy(y, sg_plan_result(plan, "y"), bytes);
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
    return y;
}

static void equal_bits_at_every_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        const problem *p = &problems[i];
        float *alone = run(p, ALONE);
        for (int place = KEPT; place < PLACES; place++) {
            float *other = run(p, place);
            int64_t n = p->rows * p->columns, unlike = 0;
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

int main(void)
{
    sg_store *store = sg_store_new(SG_F32);
    sg_session *session = test_gpu_session(store);
    bool there = session != NULL;
    sg_session_free(session);
    sg_store_free(store);
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_bits_at_every_place)};
    return there ? cmocka_run_group_tests(tests, NULL, NULL) : TEST_SKIPPED;
}
