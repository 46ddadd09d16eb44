/* matmul_test.c - products on the cpu backend: odd shapes, transposes, broadcast batches, empty sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "tests/support/kernel_run.h"

typedef enum form { NN, NT, TN } form;

static sg_value product(form f, sg_value a, sg_value b)
{
    return f == NN ? sg_matmul(a, b) : f == NT ? sg_matmul_nt(a, b) : sg_matmul_tn(a, b);
}

static sg_shape with_batch(const sg_shape *batch, int64_t rows, int64_t cols)
{
    sg_shape s = *batch;
    s.dim[s.rank++] = rows;
    s.dim[s.rank++] = cols;
    return s;
}

static void check(form f, sg_shape batch_a, sg_shape batch_b, int64_t m, int64_t n, int64_t k)
{
    sg_shape a = f == TN ? with_batch(&batch_a, k, m) : with_batch(&batch_a, m, k);
    sg_shape b = f == NT ? with_batch(&batch_b, n, k) : with_batch(&batch_b, k, n);
    sg_graph *g = sg_graph_new();
    sg_value y = product(f, sg_input(g, "a", SG_F32, a), sg_input(g, "b", SG_F32, b));
    double *data[] = {test_numbers(1, sg_shape_count(&a)), test_numbers(2, sg_shape_count(&b))};
    kernel_check(y, data, 1e-5);
    sg_graph_free(g);
    test_free_all();
}

static void test_sizes(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 3, 16, 33, 129};
    sg_shape none = sg_shape_scalar();
    for (form f = NN; f <= TN; f++)
        for (int m = 0; m < 5; m++)
            for (int n = 0; n < 5; n++)
                for (int k = 0; k < 5; k++)
                    check(f, none, none, sizes[m], sizes[n], sizes[k]);
}

/* The products of the SEAL step, and one with tiles on every edge. */
static void test_layers(void **state)
{
    (void)state;
    sg_shape none = sg_shape_scalar();
    check(NN, none, none, 32, 400, 300);
    check(NT, none, none, 32, 159, 400);
    check(NT, none, none, 672, 200, 159);
    check(NN, none, none, 672, 159, 200);
    check(TN, none, none, 200, 159, 672);
    check(TN, none, none, 400, 159, 32);
    check(NN, none, none, 45, 208, 300);
    check(NN, none, none, 32, 159, 200);
    check(NN, none, none, 45, 47, 600);
    check(NN, none, none, 5, 49, 1100);
    check(NT, none, none, 45, 130, 300);
    check(NT, none, none, 64, 300, 130);
    check(NN, none, none, 300, 530, 70);
    check(NN, none, none, 640, 1, 200);
    check(TN, none, none, 200, 1, 640);
    check(NN, none, none, 640, 200, 1);
}

static void test_empty(void **state)
{
    (void)state;
    sg_shape none = sg_shape_scalar(), zero = SG_SHAPE(0), two = SG_SHAPE(2);
    for (form f = NN; f <= TN; f++) {
        check(f, none, none, 0, 5, 4);
        check(f, none, none, 5, 0, 4);
        check(f, none, none, 5, 4, 0);
        check(f, zero, zero, 5, 4, 3);
        check(f, two, two, 3, 4, 0);
    }
}

static void test_batches(void **state)
{
    (void)state;
    for (form f = NN; f <= TN; f++) {
        check(f, SG_SHAPE(3), SG_SHAPE(3), 5, 7, 9);
        check(f, SG_SHAPE(3), sg_shape_scalar(), 5, 7, 9);
        check(f, sg_shape_scalar(), SG_SHAPE(3), 5, 7, 9);
        check(f, SG_SHAPE(2, 3), SG_SHAPE(3), 5, 7, 9);
        check(f, SG_SHAPE(2, 1), SG_SHAPE(1, 3), 17, 33, 8);
        check(f, SG_SHAPE(2, 3), SG_SHAPE(2, 1), 1, 1, 20);
        check(f, SG_SHAPE(1, 4, 1), SG_SHAPE(2, 4, 3), 6, 5, 4);
        check(f, SG_SHAPE(4, 20), sg_shape_scalar(), 1, 40, 30);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes), cmocka_unit_test(test_layers),
                                       cmocka_unit_test(test_empty), cmocka_unit_test(test_batches)};
    return cmocka_run_group_tests_name("matmul", tests, NULL, NULL);
}
