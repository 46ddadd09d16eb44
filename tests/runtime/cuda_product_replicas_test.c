/* cuda_product_replicas_test.c - a product, with steps that follow it, of one of several replicas on a GPU has the bits of that of a
 * replica alone, though other blocks compute it. Skipped where there is no GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "ops/ops.h"
#include "runtime/runtime.h"
#include "tests/support/gpu_session.h"

enum { REPLICAS = 5 };
typedef enum form { NN, NT, TN } form;

/* Sums in one part and in several, with rows of whole and of broken packs; tiles that the edges fill and cut. */
static const struct problem {
    int64_t m, n, k;
    form form;
} problems[] = {
    {32, 400, 400, NN},  {32, 400, 400, NT}, {32, 400, 400, TN}, {32, 159, 400, NT},   {32, 400, 159, NN},
    {33, 161, 333, NN},  {48, 300, 200, NT}, {40, 203, 450, TN}, {32, 400, 1836, NN},  {32, 159, 200, NN},
    {400, 400, 32, TN},  {159, 400, 32, TN}, {301, 77, 61, NN},  {672, 200, 159, NT},  {200, 159, 672, TN},
    {131, 333, 401, NN}, {7, 9, 11, NT},     {1, 200, 672, NN},  {130, 136, 1050, NT}, {70, 41, 130, NN},
};
enum { N_PROBLEMS = sizeof problems / sizeof *problems };

static const char *folder_of(int32_t i)
{
    static char name[N_PROBLEMS][16];
    snprintf(name[i], sizeof name[i], "product%d", (int)i);
    return name[i];
}

static sg_graph *build(sg_store *store)
{
    sg_graph *g = sg_graph_new();
    for (int32_t i = 0; i < N_PROBLEMS; i++) {
        const struct problem *p = &problems[i];
        sg_scope scope = sg_scope_sub(sg_scope_root(g, store), folder_of(i));
        sg_init normal = sg_init_normal(0, 1);
        sg_value a = sg_param(scope, "a", p->form == TN ? SG_SHAPE(p->k, p->m) : SG_SHAPE(p->m, p->k), normal);
        sg_value b = sg_param(scope, "b", p->form == NT ? SG_SHAPE(p->n, p->k) : SG_SHAPE(p->k, p->n), normal);
        sg_value row = sg_param(scope, "row", SG_SHAPE(p->n), normal);
        sg_value whole = sg_param(scope, "whole", SG_SHAPE(p->m, p->n), normal);
        sg_value c = sg_state(scope, "c", SG_F32, SG_SHAPE(p->m, p->n), sg_init_constant(0));
        sg_value product = p->form == NN ? sg_matmul(a, b) : p->form == NT ? sg_matmul_nt(a, b) : sg_matmul_tn(a, b);
        sg_assign(c, sg_mul(sg_add(product, sg_broadcast_like(row, product)), whole));
    }
    return g;
}

/* The products of the last of several replicas, or of the only one. */
static void run(int replicas, double *const *out)
{
    sg_store *store[REPLICAS];
    sg_graph *graph = NULL;
    sg_session *session;
    sg_plan *plan;
    for (int r = replicas; r-- > 0;) {
        store[r] = sg_store_new(SG_F32);
        sg_graph_free(graph);
        graph = build(store[r]);
        sg_store_initialise(store[r], r == replicas - 1 ? 1 : 2 + (uint64_t)r);
    }
    sg_session_options options = {.size = sizeof options, .backend = "cuda", .replicas = replicas, .more = store + 1};
    assert_int_equal(sg_session_new(&session, store[0], &options, NULL), SG_OK);
    assert_int_equal(sg_plan_new(&plan, session, graph, NULL), SG_OK);
    assert_int_equal(sg_plan_run(plan, NULL), SG_OK);
    for (int32_t i = 0; i < N_PROBLEMS; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s/c", folder_of(i));
        assert_int_equal(sg_store_get(store[replicas - 1], name, out[i], problems[i].m * problems[i].n, NULL), SG_OK);
    }
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    for (int r = 0; r < replicas; r++)
        sg_store_free(store[r]);
}

static void replicas_have_the_bits_of_one_alone(void **state)
{
    double *alone[N_PROBLEMS], *among[N_PROBLEMS];
    (void)state;
    for (int32_t i = 0; i < N_PROBLEMS; i++) {
        size_t count = (size_t)(problems[i].m * problems[i].n);
        assert_non_null(alone[i] = calloc(count, sizeof(double)));
        assert_non_null(among[i] = calloc(count, sizeof(double)));
    }
    run(1, alone);
    run(REPLICAS, among);
    for (int32_t i = 0; i < N_PROBLEMS; i++) {
        const struct problem *p = &problems[i];
        for (int64_t e = 0; e < p->m * p->n; e++)
            if (!(alone[i][e] == among[i][e]))
                fail_msg("%lld x %lld x %lld, form %d, element %lld: %.9g alone, %.9g among %d", (long long)p->m,
                         (long long)p->n, (long long)p->k, (int)p->form, (long long)e, alone[i][e], among[i][e],
                         REPLICAS);
        free(alone[i]);
        free(among[i]);
    }
}

int main(void)
{
    if (!test_gpu_is_there(NULL))
        return TEST_SKIPPED;
    const struct CMUnitTest tests[] = {cmocka_unit_test(replicas_have_the_bits_of_one_alone)};
    return cmocka_run_group_tests_name("products of replicas", tests, NULL, NULL);
}
