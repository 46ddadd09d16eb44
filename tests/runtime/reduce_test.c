/* reduce_test.c - sums over any set of axes, and what runs along one axis, on the cpu backend. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "runtime/runtime.h"
#include "tests/support/kernel_run.h"

static void check_sum(sg_shape shape, int32_t mask, bool keep)
{
    sg_graph *g = sg_graph_new();
    int32_t axes[SG_MAX_RANK], n = 0;
    for (int32_t i = 0; i < shape.rank; i++)
        if (mask >> i & 1)
            axes[n++] = i;
    double *data[] = {test_numbers(1, sg_shape_count(&shape))};
    sg_value x = sg_input(g, "x", SG_F32, shape), y = sg_sum_axes(x, n, axes, keep);
    if (!sg_same(x, y))
        kernel_check(y, data, 2e-5);
    sg_graph_free(g);
    test_free_all();
}

static void check_sum_like(sg_shape shape, sg_shape model)
{
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, shape), m = sg_input(g, "m", SG_F32, model);
    double *data[] = {test_numbers(1, sg_shape_count(&shape)), test_numbers(2, sg_shape_count(&model))};
    kernel_check(sg_sum_like(x, m), data, 2e-5);
    sg_graph_free(g);
    test_free_all();
}

static void test_all_axis_sets(void **state)
{
    (void)state;
    for (int32_t mask = 1; mask < 32; mask++)
        check_sum(SG_SHAPE(3, 1, 5, 4, 33), mask, mask & 1);
    for (int32_t mask = 1; mask < 16; mask++)
        check_sum(SG_SHAPE(1, 17, 1, 3), mask, false);
}

static void test_long_sums(void **state)
{
    (void)state;
    check_sum(SG_SHAPE(672, 200), 1, false);
    check_sum(SG_SHAPE(672, 200), 2, false);
    check_sum(SG_SHAPE(672, 200), 3, false);
    check_sum(SG_SHAPE(50001), 1, false);
    check_sum(SG_SHAPE(3, 20000), 2, false);
    check_sum(SG_SHAPE(30000, 3), 1, false);
    check_sum(SG_SHAPE(2, 3000, 7), 2, false);
    check_sum(SG_SHAPE(1025, 65), 1, true);
}

static void test_sum_like(void **state)
{
    (void)state;
    check_sum_like(SG_SHAPE(32, 20, 159), SG_SHAPE(159));
    check_sum_like(SG_SHAPE(32, 20, 159), SG_SHAPE(32, 1, 159));
    check_sum_like(SG_SHAPE(32, 20, 159), SG_SHAPE(20, 1));
    check_sum_like(SG_SHAPE(4, 3, 5), SG_SHAPE(4, 1, 1));
    check_sum_like(SG_SHAPE(4, 3, 5), sg_shape_scalar());
    check_sum_like(SG_SHAPE(1, 1, 5), SG_SHAPE(5));
    check_sum_like(SG_SHAPE(0, 5), SG_SHAPE(5));
    check_sum_like(SG_SHAPE(4, 0), SG_SHAPE(1, 0));
}

static void test_empty_sums(void **state)
{
    (void)state;
    check_sum(SG_SHAPE(0, 5), 1, false);
    check_sum(SG_SHAPE(0, 5), 2, false);
    check_sum(SG_SHAPE(0, 5), 3, false);
    check_sum(SG_SHAPE(4, 0, 3), 2, true);
}

/* Errors must not grow with the number of elements: 0.1 added a million times, where one running sum is off by 1 %. */
static void test_accuracy(void **state)
{
    (void)state;
    int64_t rows = 1000000;
    sg_graph *g = sg_graph_new();
    double *data[] = {test_array(rows)};
    for (int64_t i = 0; i < rows; i++)
        data[0][i] = 0.1f;
    kernel_check(sg_sum(sg_input(g, "x", SG_F32, SG_SHAPE(rows)), 0), data, 5e-6);
    kernel_check(sg_sum(sg_input(g, "c", SG_F32, SG_SHAPE(rows, 1)), 0), data, 5e-6);
    kernel_check(sg_sum(sg_input(g, "d", SG_F32, SG_SHAPE(rows / 50, 50)), 0), data, 5e-6);
    sg_graph_free(g);
    test_free_all();
}

/* ---- along one axis */

enum { ALONG_OPS = 9 };

static sg_value along(int op, sg_value x, int32_t axis)
{
    switch (op) {
    case 0:
        return sg_max(x, axis, false);
    case 1:
        return sg_min(x, axis, true);
    case 2:
        return sg_prod(x, axis, false);
    case 3:
        return sg_argmax(x, axis);
    case 4:
        return sg_logsumexp(x, axis, false);
    case 5:
        return sg_cumsum(x, axis);
    case 6:
        return sg_softmax(x, axis);
    case 7:
        return sg_log_softmax(x, axis);
    default:
        return sg_logsumexp(x, axis, true);
    }
}

static void check_along(sg_shape shape, double *data, double rtol)
{
    for (int32_t axis = 0; axis < shape.rank; axis++)
        for (int op = 0; op < ALONG_OPS; op++) {
            if (shape.dim[axis] == 0 && (op < 2 || op == 3))
                continue;
            sg_graph *g = sg_graph_new();
            kernel_check(along(op, sg_input(g, "x", SG_F32, shape), axis), &data, rtol);
            sg_graph_free(g);
        }
    test_free_all();
}

static void test_along(void **state)
{
    (void)state;
    const sg_shape shapes[] = {SG_SHAPE(1),        SG_SHAPE(7),        SG_SHAPE(33),
                               SG_SHAPE(5, 3),     SG_SHAPE(3, 1, 17), SG_SHAPE(2, 40, 35),
                               SG_SHAPE(300, 131), SG_SHAPE(0, 4),     SG_SHAPE(4, 0)};
    for (int i = 0; i < 9; i++)
        check_along(shapes[i], test_numbers((uint64_t)i, sg_shape_count(&shapes[i])), 2e-6);
}

/* Ties, infinities, NaN, rows of all -inf: every row and column of the table meets some of them. */
static void test_special(void **state)
{
    (void)state;
    const double special[] = {0, -0.0, 1, 1, -1, INFINITY, -INFINITY, NAN, 100, -100, 88, -104, 1e-40};
    sg_shape shape = SG_SHAPE(12, 37);
    double *x = test_array(12 * 37);
    for (int64_t i = 0; i < 12 * 37; i++)
        x[i] = (float)special[(i * 7 + i / 37) % 13];
    for (int64_t j = 0; j < 37; j++) {
        x[j] = -INFINITY;
        x[37 + j] = j == 20 ? NAN : 1;
        x[2 * 37 + j] = j % 2;
        x[3 * 37 + j] = j == 36 ? INFINITY : 2;
        x[4 * 37 + j] = j == 35 ? 1e-38 : -INFINITY;
    }
    for (int op = 0; op < ALONG_OPS; op++)
        for (int32_t axis = 0; axis < 2; axis++) {
            if (op == 2)
                continue; /* products of these overflow in f32 only */
            sg_graph *g = sg_graph_new();
            kernel_check(along(op, sg_input(g, "x", SG_F32, shape), axis), &x, 2e-6);
            sg_graph_free(g);
        }
    test_free_all();
}

/* Decomposed, in float32: equal scores share the probability, however large they are. */
static void test_large_scores(void **state)
{
    (void)state;
    enum { N = 4 };
    static const double size[] = {1, -50, 1e5, 1e8, -1e20, 3e38};
    for (size_t k = 0; k < sizeof size / sizeof *size; k++) {
        sg_graph *g = sg_graph_new();
        sg_store *store = sg_store_new(SG_F32);
        sg_session *session;
        sg_plan *plan;
        sg_error err = {0};
        double x[N] = {size[k], size[k], size[k], size[k]}, p[N], log_p[N];
        sg_value in = sg_input(g, "x", SG_F32, SG_SHAPE(N));
        sg_result(g, "p", sg_softmax(in, 0));
        sg_result(g, "log p", sg_log_softmax(in, 0));
        sg_session_options options = {.size = sizeof options, .backend = "cpu", .decompose = "all", .threads = 1};
        if (sg_session_new(&session, store, &options, &err) != SG_OK || sg_plan_new(&plan, session, g, &err) != SG_OK ||
            sg_plan_feed(plan, "x", x, N, &err) != SG_OK || sg_plan_run(plan, &err) != SG_OK ||
            sg_plan_fetch(plan, "p", p, N, &err) != SG_OK || sg_plan_fetch(plan, "log p", log_p, N, &err) != SG_OK)
            fail_msg("%s", err.text);
        for (int i = 0; i < N; i++)
            assert_true(fabs(p[i] - 0.25) < 1e-6 && fabs(log_p[i] + log(4)) < 1e-6);
        sg_plan_free(plan);
        sg_session_free(session);
        sg_graph_free(g);
        sg_store_free(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_axis_sets), cmocka_unit_test(test_long_sums),
                                       cmocka_unit_test(test_sum_like),      cmocka_unit_test(test_empty_sums),
                                       cmocka_unit_test(test_accuracy),      cmocka_unit_test(test_along),
                                       cmocka_unit_test(test_special),       cmocka_unit_test(test_large_scores)};
    return cmocka_run_group_tests_name("reduce", tests, NULL, NULL);
}
