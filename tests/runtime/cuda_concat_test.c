/* cuda_concat_test.c - concats whose operands are computed where they will lie, on a GPU: the same bits as without fusion, for draws,
 * chains and plain operands, along every axis, at sizes that fit packs of elements and at others. Skipped where there is no GPU. */
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

enum { PARTS = 4, N_OUT = 4, MOST = 1 << 19 };

typedef struct problem {
    int64_t outer, size[PARTS], inner;
    int32_t axis;
    bool packs;
} problem;

static const problem problems[] = {
    {1, {1, 20, 3, 1}, 159, 1, false}, {6, {1, 20, 0, 2}, 159, 1, true},   {6, {1, 20, 4, 3}, 160, 1, true},
    {5, {8, 4, 4, 4}, 31, 1, true},    {33, {4, 16, 8, 4}, 1, 1, true},    {33, {3, 17, 8, 5}, 1, 1, true},
    {1, {64, 33, 1, 2}, 40, 0, true},  {2, {129, 200, 3, 8}, 97, 1, true}, {0, {1, 2, 3, 4}, 5, 1, false},
};

static const char *const names[PARTS] = {"a", "b", "c", "d"};
static const char *const results[N_OUT] = {"joined", "gathered", "after", "plain"};

static sg_shape shape_of(const problem *p, int64_t size)
{
    return p->axis == 0 ? SG_SHAPE(size, p->inner) : SG_SHAPE(p->outer, size, p->inner);
}

static void build(const problem *p, sg_graph *g, sg_store *store)
{
    sg_scope scope = sg_scope_root(g, store);
    sg_value x[PARTS], part[PARTS];
    for (int32_t k = 0; k < PARTS; k++)
        x[k] = sg_input(g, names[k], SG_F32, shape_of(p, p->size[k]));
    part[0] = x[0];
    part[1] = sg_bernoulli(scope, sg_sigmoid(x[1]));
    part[2] = sg_mul(sg_tanh(x[2]), sg_add_scalar(x[2], 1));
    part[3] = sg_normal_like(scope, x[3]);
    sg_value joined = sg_concat(part, PARTS, p->axis);
    sg_value twice = sg_square(x[1]), both[] = {twice, sg_neg(x[2]), twice};
    sg_value gathered = sg_concat(both, 3, p->axis);
    sg_result(g, results[0], joined);
    sg_result(g, results[1], gathered);
    sg_result(g, results[2], sg_exp(sg_neg(sg_square(gathered))));
    sg_result(g, results[3], sg_concat(x, PARTS, p->axis));
}

/* Returns the number of steps. */
static int32_t run(const problem *p, bool no_fusion, float *out)
{
    test_gpu_graph g = {.graph = sg_graph_new(),
                        .store = sg_store_new(SG_F32),
                        .inputs = names,
                        .n_in = PARTS,
                        .results = results,
                        .n_out = N_OUT,
                        .most = 2,
                        .no_fusion = no_fusion};
    build(p, g.graph, g.store);
    sg_store_initialise(g.store, 3);
    int32_t steps = test_gpu_run(&g, out, MOST);
    sg_graph_free(g.graph);
    sg_store_free(g.store);
    return steps;
}

static void same_bits(void **state)
{
    static float fused[MOST], apart[MOST];
    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        memset(fused, 0, sizeof fused);
        memset(apart, 0, sizeof apart);
        setenv("SEALGRAPH_CUDA_BUSY", problems[i].packs ? "0" : "512", 1);
        int32_t with = run(&problems[i], false, fused), without = run(&problems[i], true, apart);
        assert_true(with < without);
        for (int32_t k = 0; k < MOST; k++)
            if (memcmp(&fused[k], &apart[k], sizeof fused[k]) != 0)
                fail_msg("problem %d: number %d is %.9g fused, %.9g apart", (int)i, (int)k, (double)fused[k],
                         (double)apart[k]);
    }
    unsetenv("SEALGRAPH_CUDA_BUSY");
}

int main(void)
{
    if (!test_gpu_is_there(NULL))
        return TEST_SKIPPED;
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits)};
    return cmocka_run_group_tests_name("cuda concat", tests, NULL, NULL);
}
