/* csr_test.c - products with sparse rows on the cpu backend, and what they answer to index arrays that do not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "tests/support/graph_run.h"
#include "tests/support/kernel_run.h"

enum { VALUES, COLUMNS, INDPTR, T_ROWS, T_ORDER, T_INDPTR, N_ARRAYS };

typedef struct matrix {
    int64_t rows, columns, capacity;
    double *data[N_ARRAYS];
} matrix;

/* About `density` of the places are non-zero; the rest of the capacity holds rubbish that must not be read. */
static matrix make_matrix(int64_t rows, int64_t columns, double density, int64_t spare)
{
    matrix x = {rows, columns, 0, {0}};
    int64_t count = 0;
    for (int64_t i = 0; i < rows * columns; i++)
        count += test_uniform(9, i) < density;
    x.capacity = count + spare;
    for (int k = 0; k < N_ARRAYS; k++)
        x.data[k] = test_array(k == INDPTR ? rows + 1 : k == T_INDPTR ? columns + 1 : x.capacity);
    for (int64_t i = 0, e = 0; i < rows; i++, x.data[INDPTR][i] = (double)e)
        for (int64_t c = 0; c < columns; c++)
            if (test_uniform(9, i * columns + c) < density) {
                x.data[VALUES][e] = (float)(2 * test_uniform(8, e) - 1);
                x.data[COLUMNS][e++] = (double)c;
            }
    int64_t at = 0;
    for (int64_t c = 0; c < columns; c++, x.data[T_INDPTR][c] = (double)at)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t e = (int64_t)x.data[INDPTR][i]; e < (int64_t)x.data[INDPTR][i + 1]; e++)
                if (x.data[COLUMNS][e] == (double)c) {
                    x.data[T_ROWS][at] = (double)i;
                    x.data[T_ORDER][at++] = (double)e;
                }
    for (int64_t e = count; e < x.capacity; e++)
        x.data[COLUMNS][e] = x.data[T_ROWS][e] = x.data[T_ORDER][e] = 1 << 30;
    return x;
}

typedef enum product { MATMUL, T_MATMUL, SDDMM } product;

static sg_value build(sg_graph *g, product p, const matrix *x, int64_t n)
{
    sg_csr in = sg_csr_input(g, "x", x->rows, x->columns, x->capacity);
    sg_value tall = sg_input(g, "w", SG_F32, SG_SHAPE(x->columns, n)),
             flat = sg_input(g, "g", SG_F32, SG_SHAPE(x->rows, n));
    return p == MATMUL     ? sg_csr_matmul(in, tall)
           : p == T_MATMUL ? sg_csr_t_matmul(in, flat)
                           : sg_csr_sddmm(in, flat, tall);
}

static void operands(product p, const matrix *x, int64_t n, double **data)
{
    memcpy(data, x->data, sizeof x->data);
    double *tall = test_numbers(1, x->columns * n), *flat = test_numbers(2, x->rows * n);
    data[N_ARRAYS] = p == MATMUL ? tall : flat;
    data[N_ARRAYS + 1] = tall;
}

static void check(int64_t rows, int64_t columns, int64_t n, double density, int64_t spare)
{
    for (product p = MATMUL; p <= SDDMM; p++) {
        sg_graph *g = sg_graph_new();
        matrix x = make_matrix(rows, columns, density, spare);
        double *data[N_ARRAYS + 2];
        operands(p, &x, n, data);
        kernel_check(build(g, p, &x, n), data, 1e-5);
        sg_graph_free(g);
        test_free_all();
    }
}

static void test_shapes(void **state)
{
    (void)state;
    const int64_t widths[] = {1, 3, 15, 16, 17, 33, 129, 400};
    for (int w = 0; w < 8; w++) {
        check(1, 1, widths[w], 0.9, 0);
        check(5, 7, widths[w], 0.3, 4);
        check(32, 90, widths[w], 0.04, 50);
    }
    check(32, 300, 600, 0.04, 10);
}

static void test_empty(void **state)
{
    (void)state;
    check(4, 6, 5, 0, 0);
    check(4, 6, 5, 0, 3);
    check(0, 6, 5, 0, 0);
    check(4, 0, 5, 0, 0);
    check(4, 6, 0, 0.5, 0);
}

static void expect_error(product p, int array, int64_t place, double value, const char *words)
{
    sg_graph *g = sg_graph_new();
    matrix x = make_matrix(5, 7, 0.5, 2);
    double *data[N_ARRAYS + 2];
    char text[SG_ERROR_TEXT];
    operands(p, &x, 8, data);
    data[array][place] = value;
    assert_true(kernel_fails(build(g, p, &x, 8), data, text, sizeof text));
    if (!strstr(text, words))
        fail_msg("\"%s\" does not contain \"%s\"", text, words);
    sg_graph_free(g);
    test_free_all();
}

static void test_bad_indices(void **state)
{
    (void)state;
    expect_error(MATMUL, COLUMNS, 1, 7, "columns[1] = 7 is outside [0, 7)");
    expect_error(MATMUL, COLUMNS, 0, -1, "columns[0] = -1");
    expect_error(MATMUL, INDPTR, 0, -3, "indptr[0] = -3");
    expect_error(MATMUL, INDPTR, 5, 1e6, "indptr[5] = 1000000");
    expect_error(MATMUL, INDPTR, 2, 0, "indptr[2] = 0");
    expect_error(T_MATMUL, T_ROWS, 2, 5, "t_rows[2] = 5 is outside [0, 5)");
    expect_error(T_MATMUL, T_ORDER, 2, 1000, "t_order[2] = 1000");
    expect_error(T_MATMUL, T_INDPTR, 7, 1000, "t_indptr[7] = 1000");
    expect_error(SDDMM, COLUMNS, 1, 9, "columns[1] = 9");
    expect_error(SDDMM, INDPTR, 5, 1000, "indptr[5] = 1000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes), cmocka_unit_test(test_empty),
                                       cmocka_unit_test(test_bad_indices)};
    return cmocka_run_group_tests_name("csr", tests, NULL, NULL);
}
