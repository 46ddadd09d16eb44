/* cuda_numbers_test.c - steps on single numbers that join the chain which reads them, where each thread does them once, on a GPU, against
 * no fusion. Skipped where there is no GPU. */
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

enum { N_IN = 4, N_OUT = 6, MOST = 1 << 15 };
static const char *const names[N_IN] = {"x", "weights", "number", "one"};
static const char *const results[N_OUT] = {"scaled", "rows", "product", "filled", "joined", "number"};

/* exp(-a) / (1 + b^2). What two chains read would be in memory: each reads its own. */
static sg_value rate(sg_value a, sg_value b) { return sg_div(sg_exp(sg_neg(a)), sg_add_scalar(sg_square(b), 1)); }

static void build(sg_graph *g)
{
    const sg_shape shape[N_IN] = {SG_SHAPE(32, 70), SG_SHAPE(70, 45), sg_shape_scalar(), SG_SHAPE(1)};
    sg_value in[N_IN];
    for (int32_t k = 0; k < N_IN; k++)
        in[k] = sg_input(g, names[k], SG_F32, shape[k]);
    sg_value x = in[0], number = in[2], one = in[3];
    sg_result(g, results[0], sg_mul(x, rate(number, number)));
    sg_result(g, results[1], sg_add(sg_sum(sg_mul(x, sg_tanh(number)), 1), sg_exp(one)));
    sg_result(g, results[2], sg_tanh(sg_mul(sg_matmul(x, in[1]), rate(one, one))));
    sg_result(g, results[3], sg_sub(sg_sigmoid(x), sg_reshape(sg_fill_like(number, 3), SG_SHAPE(1, 1))));
    sg_result(g, results[4], sg_concat((sg_value[]){sg_mul(x, sg_cos(number)), sg_div(x, sg_sigmoid(one))}, 2, 0));
    sg_result(g, results[5], sg_sin(number));
}

/* Returns the number of steps. */
static int32_t run(bool no_fusion, float *out)
{
    test_gpu_graph g = {.graph = sg_graph_new(),
                        .store = sg_store_new(SG_F32),
                        .inputs = names,
                        .n_in = N_IN,
                        .results = results,
                        .n_out = N_OUT,
                        .most = 1,
                        .no_fusion = no_fusion};
    build(g.graph);
    int32_t steps = test_gpu_run(&g, out, MOST);
    sg_graph_free(g.graph);
    sg_store_free(g.store);
    return steps;
}

static void numbers_are_computed_where_they_are_read(void **state)
{
    static float fused[MOST], again[MOST], apart[MOST];
    (void)state;
    int32_t with = run(false, fused), without = run(true, apart);
    run(false, again);
    assert_memory_equal(fused, again, sizeof fused);
    assert_int_equal(with, N_OUT);
    assert_true(without > N_OUT);
    for (int32_t k = 0; k < MOST; k++)
        if (!(fabsf(fused[k] - apart[k]) <= 2e-5f * (1 + fabsf(apart[k]))))
            fail_msg("number %d is %.9g fused, %.9g apart", (int)k, (double)fused[k], (double)apart[k]);
}

int main(void)
{
    if (!test_gpu_is_there(NULL))
        return TEST_SKIPPED;
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_are_computed_where_they_are_read)};
    return cmocka_run_group_tests_name("numbers in chains", tests, NULL, NULL);
}
