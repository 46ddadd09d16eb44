/* cuda_sums_test.c - steps on the sums that a chain ends in, on a GPU, against no fusion: of rows added up by a warp and by a block, of
 * columns, with operands of the sums' shape and spread to it. Skipped where there is no GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "ops/ops.h"
#include "runtime/runtime.h"
#include "tests/support/gpu_session.h"

enum { N_IN = 5, N_OUT = 5, MOST = 1 << 14 };

typedef struct problem {
    int64_t outer, middle, inner;
} problem;
static const problem problems[] = {{32, 21, 200}, {3, 7, 1999}, {5, 40, 33}, {2, 64, 3}, {4, 3, 2048}};

static const char *const names[N_IN] = {"x", "y", "row", "one", "column"};
static const char *const results[N_OUT] = {"score", "moments", "columns", "signs", "kept"};

/* x and y [A, B, C], row [A, B], one [A, 1], column [A, C]. */
static void build(const problem *p, sg_graph *g)
{
    int64_t a = p->outer, b = p->middle, c = p->inner;
    const sg_shape shape[N_IN] = {SG_SHAPE(a, b, c), SG_SHAPE(a, b, c), SG_SHAPE(a, b), SG_SHAPE(a, 1), SG_SHAPE(a, c)};
    sg_value in[N_IN];
    for (int32_t k = 0; k < N_IN; k++)
        in[k] = sg_input(g, names[k], SG_F32, shape[k]);
    sg_value x = in[0], y = in[1], row = in[2], one = in[3], column = in[4];
    sg_value sum = sg_sum_axes(sg_mul(x, y), 1, (int32_t[]){2}, true);
    sg_result(g, results[0], sg_tanh(sg_sub(sg_add(sg_reshape(sum, shape[2]), row), one)));
    sg_value first = sg_sum(x, 2), second = sg_sum(sg_square(x), 2);
    sg_result(g, results[1],
              sg_sub(sg_mul_scalar(second, 1.0 / (double)c), sg_square(sg_mul_scalar(first, 1.0 / (double)c))));
    sg_result(g, results[2], sg_mul(sg_add(sg_sum(sg_exp(sg_neg(x)), 1), column), one));
    sg_result(g, results[3], sg_cast(sg_greater(sg_sum(sg_add(x, y), 2), row), SG_F32));
    sg_value kept = sg_sum(sg_abs(y), 2);
    sg_result(g, results[4], sg_add(kept, sg_mul(sg_sigmoid(kept), one)));
}

/* Returns the number of steps. */
static int32_t run(const problem *p, bool no_fusion, float *out)
{
    test_gpu_graph g = {.graph = sg_graph_new(),
                        .store = sg_store_new(SG_F32),
                        .inputs = names,
                        .n_in = N_IN,
                        .results = results,
                        .n_out = N_OUT,
                        .most = 1,
                        .no_fusion = no_fusion};
    build(p, g.graph);
    int32_t steps = test_gpu_run(&g, out, MOST);
    sg_graph_free(g.graph);
    sg_store_free(g.store);
    return steps;
}

static void steps_on_sums(void **state)
{
    static float fused[MOST], again[MOST], apart[MOST];
    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        memset(fused, 0, sizeof fused);
        memset(again, 0, sizeof again);
        memset(apart, 0, sizeof apart);
        int32_t with = run(&problems[i], false, fused), without = run(&problems[i], true, apart);
        run(&problems[i], false, again);
        assert_memory_equal(fused, again, sizeof fused);
        assert_true(with <= N_OUT + 1 && with < without); /* the two moments are sums of two chains */
        for (int32_t k = 0; k < MOST; k++)
            if (!(fabsf(fused[k] - apart[k]) <= 2e-5f * (1 + fabsf(apart[k]))))
                fail_msg("problem %d: number %d is %.9g fused, %.9g apart", (int)i, (int)k, (double)fused[k],
                         (double)apart[k]);
    }
}

int main(void)
{
    if (!test_gpu_is_there(NULL))
        return TEST_SKIPPED;
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_on_sums)};
    return cmocka_run_group_tests_name("cuda sums", tests, NULL, NULL);
}
