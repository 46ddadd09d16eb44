/* cross_entropy_test.c - the fused kernels of softmax_cross_entropy and its derivatives against the mechanical decomposition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "tests/support/kernel_run.h"

static const struct {
    int64_t rows, classes;
} sizes[] = {{4, 5}, {1, 1}, {7, 33}, {90, 257}, {0, 3}, {5, 130}, {3, 9001}};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Every fifth target is ignored; a class that is no target has the logit -inf. */
static double *targets(int64_t rows, int64_t classes)
{
    double *target = test_indices(9, rows, classes > 1 ? classes - 1 : 1);
    for (int64_t r = 2; r < rows; r += 5)
        target[r] = -1;
    return target;
}

static double *logits(int64_t rows, int64_t classes)
{
    double *z = test_numbers(8, rows * classes);
    for (int64_t i = 0; i < rows * classes; i++)
        z[i] *= 4;
    for (int64_t r = 1; r < rows && classes > 1; r += 3)
        z[r * classes + classes - 1] = -INFINITY;
    return z;
}

/* With a cotangent (`reverse`) and tangents of the logits and of it, as far as asked for. */
static void check(const char *op, bool reverse, bool moves, bool seed_moves, const sg_attr *attr)
{
    for (int s = 0; s < SIZES; s++) {
        int64_t rows = sizes[s].rows, classes = sizes[s].classes;
        sg_graph *g = sg_graph_new();
        sg_value in[5] = {sg_input(g, "z", SG_F32, SG_SHAPE(rows, classes)), sg_input(g, "k", SG_I32, SG_SHAPE(rows))};
        double *data[5] = {logits(rows, classes), targets(rows, classes)};
        int32_t n = 2;
        if (reverse) {
            in[n] = sg_input(g, "g", SG_F32, SG_SHAPE(rows));
            data[n++] = test_numbers(1, rows);
        }
        if (moves) {
            in[n] = sg_input(g, "t", SG_F32, SG_SHAPE(rows, classes));
            data[n++] = test_numbers(2, rows * classes);
        }
        if (seed_moves) {
            in[n] = sg_input(g, "tg", SG_F32, SG_SHAPE(rows));
            data[n++] = test_numbers(3, rows);
        }
        kernel_check(sg_build(g, sg_op_find(op), in, n, attr), data, 1e-5);
        sg_graph_free(g);
        test_free_all();
    }
}

static const int64_t first = 0, z_and_g[] = {0, 2};
#define FIRST sg_attr_ints(&first, 1)

static void test_loss(void **state)
{
    (void)state;
    check("softmax_cross_entropy", false, false, false, NULL);
}

static void test_first(void **state)
{
    (void)state;
    check("softmax_cross_entropy_vjp", true, false, false, (sg_attr[]){FIRST, FIRST});
    check("softmax_cross_entropy_jvp", false, true, false, (sg_attr[]){FIRST});
}

static void test_second(void **state)
{
    (void)state;
    static const char op[] = "softmax_cross_entropy_vjp_jvp";
    check(op, true, true, false, (sg_attr[]){FIRST, FIRST, FIRST});
    check(op, true, false, true, (sg_attr[]){FIRST, FIRST, sg_attr_ints(z_and_g + 1, 1)});
    check(op, true, true, true, (sg_attr[]){FIRST, FIRST, sg_attr_ints(z_and_g, 2)});
}

static void test_target_out_of_range(void **state)
{
    (void)state;
    double z[6] = {0}, above[2] = {0, 3}, below[2] = {-2, 0};
    char text[256];
    sg_graph *g = sg_graph_new();
    sg_value y =
        sg_softmax_cross_entropy(sg_input(g, "z", SG_F32, SG_SHAPE(2, 3)), sg_input(g, "k", SG_I32, SG_SHAPE(2)));
    assert_true(kernel_fails(y, (double *[]){z, above}, text, sizeof text));
    assert_non_null(strstr(text, "target 3 at position 1"));
    assert_true(kernel_fails(y, (double *[]){z, below}, text, sizeof text));
    assert_non_null(strstr(text, "target -2 at position 0"));
    sg_graph_free(g);
    test_free_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_first),
        cmocka_unit_test(test_second),
        cmocka_unit_test(test_target_out_of_range),
    };
    sg_autodiff_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
