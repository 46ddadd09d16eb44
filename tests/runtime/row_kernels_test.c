/* row_kernels_test.c - the tables of row kernels that this machine can run give the same bits, for rows of every length around those
 * of vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cpu/cpu_internal.h"
#include "runtime/cpu/row_kernels_internal.h"
#include "tests/support/kernel_run.h"

enum { MOST = 330, ROWS = 9, TABLES = 3, RESULTS = 5 + 3 * 7 };

static const sg_row_kernels *const tables[TABLES] = {&sg_row_kernels_x86_64, &sg_row_kernels_avx2,
                                                     &sg_row_kernels_avx512};

static float numbers[ROWS * MOST], factor[ROWS];

static void fill(void)
{
    double *from = test_numbers(7, ROWS * MOST);
    for (int32_t i = 0; i < ROWS * MOST; i++)
        numbers[i] = (float)from[i];
    for (int32_t i = 0; i < ROWS; i++)
        factor[i] = 0.3F * (float)i - 1;
    test_free_all();
}

static void gather(const sg_row_kernels *k, int64_t n, float *out)
{
    static const int32_t index[] = {3, 0, 8, 8, 1, 5, 2, 7, 4}, order[] = {2, 1, 0, 3, 8, 5, 6, 7, 4};
    k->gather_sum(n, 0, ROWS, factor, NULL, index, numbers, MOST, out);
    k->gather_sum(n, 2, 5, factor, order, index, numbers, MOST, out + MOST);
    k->gather_sum(n, 4, 4, factor, order, index, numbers, MOST, out + 2 * MOST);
}

static void step(const sg_row_kernels *k, int64_t n, float *out)
{
    const sg_adam_step s = {0.9F, 0.1F, 0.999F, 0.001F, 0.01F, 1.5F, 1e-8F, 1e-3F, 0.1F};
    const float *p = numbers, *g = numbers + MOST, *m = numbers + 2 * MOST;
    float v[MOST];
    for (int64_t i = 0; i < n; i++)
        v[i] = numbers[3 * MOST + i] * numbers[3 * MOST + i];
    k->adam(n, &s, p, g, m, v, out, out + MOST, out + 2 * MOST);
    static const int32_t index[] = {3, 0, 8, 8, 1, 5};
    for (int64_t terms = 0; terms <= 5; terms++) {
        float *to = out + 3 * (1 + terms) * MOST;
        const sg_adam_row row = {p, m, v, to, to + MOST, to + 2 * MOST};
        k->gather_adam(n, &s, 1, 1 + terms, factor, NULL, index, numbers, MOST, &row);
    }
}

static void results(const sg_row_kernels *k, int64_t n, float *out)
{
    memset(out, 0, RESULTS * MOST * sizeof *out);
    gather(k, n, out);
    k->sum_columns(ROWS, n, numbers, MOST, out + 3 * MOST);
    out[4 * MOST] = k->dot(n, numbers + 1, numbers + MOST);
    out[4 * MOST + 1] = k->sum(n, numbers + 3);
    if (n > 0)
        out[4 * MOST + 2] = k->max(n, numbers + 5);
    step(k, n, out + 5 * MOST);
}

static void tables_give_the_same_bits(void **state)
{
    (void)state;
    static float want[RESULTS * MOST], got[RESULTS * MOST];
    fill();
    for (int64_t n = 0; n < MOST - 8; n += n < 70 ? 1 : 13) {
        results(tables[0], n, want);
        for (int32_t t = 1; t < TABLES && t <= (int32_t)sg_cpu_isa_level(); t++) {
            results(tables[t], n, got);
            assert_memory_equal(got, want, sizeof want);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables_give_the_same_bits)};
    return cmocka_run_group_tests_name("row kernels", tests, NULL, NULL);
}
