/* The parameter store and the shared source of random numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/random_internal.h"

/* Known answers of Philox4x32-10 published with the Random123 library. */
static void philox_gives_the_published_answers(void **state)
{
    (void)state;
    uint32_t out[4];
    sg_philox((uint32_t[4]){0, 0, 0, 0}, (uint32_t[2]){0, 0}, out);
    assert_true(out[0] == 0x6627e8d5 && out[1] == 0xe169c58d && out[2] == 0xbc57ac4c && out[3] == 0x9b00dbd8);
    sg_philox((uint32_t[4]){~0u, ~0u, ~0u, ~0u}, (uint32_t[2]){~0u, ~0u}, out);
    assert_true(out[0] == 0x408f276d && out[1] == 0x41c83b0e && out[2] == 0xa20bc7c6 && out[3] == 0x6d5451fd);
}

static void logarithm_is_exact_to_rounding(void **state)
{
    (void)state;
    for (double x = 1e-10; x < 1; x *= 1.37)
        assert_true(fabs(sg_exact_log(x) / log(x) - 1) < 4e-16);
}

static void draws_have_the_right_moments(void **state)
{
    (void)state;
    enum { N = 200000 };
    const int32_t rng[4] = {7, 0, 3, 0};
    double u1 = 0, u2 = 0, n1 = 0, n2 = 0, n4 = 0;
    for (int i = 0; i < N; i++) {
        double u = sg_random_uniform(5, rng, 0, (uint64_t)i), z = sg_random_normal(6, rng, 0, (uint64_t)i);
        assert_true(u >= 0 && u < 1 && isfinite(z));
        u1 += u, u2 += u * u, n1 += z, n2 += z * z, n4 += z * z * z * z;
    }
    assert_true(fabs(u1 / N - 0.5) < 0.003 && fabs(u2 / N - 1.0 / 3) < 0.003);
    assert_true(fabs(n1 / N) < 0.01 && fabs(n2 / N - 1) < 0.015 && fabs(n4 / N - 3) < 0.12);
}

static void every_coordinate_moves_a_draw(void **state)
{
    (void)state;
    const int32_t a[4] = {1, 2, 3, 4};
    uint32_t base = sg_random_bits(sg_draw_make(9, a, 5), 6);
    for (int k = 0; k < 4; k++) {
        int32_t b[4] = {1, 2, 3, 4};
        b[k]++;
        assert_true(sg_random_bits(sg_draw_make(9, b, 5), 6) != base);
    }
    assert_true(sg_random_bits(sg_draw_make(8, a, 5), 6) != base);
    assert_true(sg_random_bits(sg_draw_make(9, a, 6), 6) != base);
    assert_true(sg_random_bits(sg_draw_make(9, a, 5 + ((uint64_t)1 << 32)), 6) != base);
    assert_true(sg_random_bits(sg_draw_make(9, a, 5), 7) != base);
    assert_true(sg_random_bits(sg_draw_make(9, a, 5), 6 + ((uint64_t)1 << 35)) != base);
}

static void entries_start_alike_in_any_order(void **state)
{
    (void)state;
    sg_store *one = sg_store_new(SG_F32), *two = sg_store_new(SG_F64);
    sg_shape shape = SG_SHAPE(3, 5);
    int32_t at;
    double a[15], b[15];
    sg_store_add(one, "x", SG_F32, &shape, sg_init_kaiming_uniform(5), true, &at, NULL);
    sg_store_add(one, "y", SG_F32, &shape, sg_init_normal(0, 2), true, &at, NULL);
    sg_store_add(two, "y", SG_F32, &shape, sg_init_normal(0, 2), true, &at, NULL);
    sg_store_initialise(one, 11);
    sg_store_initialise(two, 11);
    assert_int_equal(sg_store_get(one, "y", a, 15, NULL), SG_OK);
    assert_int_equal(sg_store_get(two, "y", b, 15, NULL), SG_OK);
    for (int i = 0; i < 15; i++)
        assert_true(fabs(a[i] - b[i]) < 1e-6);
    assert_int_equal(sg_store_get(one, "x", a, 15, NULL), SG_OK);
    for (int i = 0; i < 15; i++)
        assert_true(fabs(a[i]) <= sqrt(6.0 / 5));
    assert_int_equal(sg_store_get(one, "z", a, 15, NULL), SG_E_NAME);
    assert_int_equal(sg_store_get(one, "x", a, 14, NULL), SG_E_SHAPE);
    sg_store *copy = sg_store_copy(one, SG_F64);
    assert_int_equal(sg_store_get(copy, "x", b, 15, NULL), SG_OK);
    assert_memory_equal(a, b, sizeof a);
    assert_true((uintptr_t)sg_store_at(copy, 0)->data % 64 == 0);
    sg_store_free(copy);
    sg_store_free(one);
    sg_store_free(two);
}

static void errors_are_formatted_with_their_place(void **state)
{
    (void)state;
    sg_error err;
    char text[800];
    assert_int_equal(sg_fail_at(&err, SG_E_DATA, "a.arff", 3, 7, "bad value '%s'", "x"), SG_E_DATA);
    assert_string_equal(sg_error_format(&err, text, sizeof text), "a.arff:3:7: bad value 'x'");
    sg_fail(&err, SG_E_IO, "cannot open");
    assert_string_equal(sg_error_format(&err, text, sizeof text), "cannot open");
    assert_string_equal(sg_status_text(SG_E_SHAPE), "shapes do not fit");
    assert_int_equal(sg_fail(NULL, SG_E_IO, "x"), SG_E_IO);
}

static void starts_are_checked(void **state)
{
    (void)state;
    static const struct {
        sg_init init;
        sg_status status;
    } tried[] = {{{SG_INIT_CONSTANT, NAN, 0}, SG_E_ARGUMENT},      {{SG_INIT_CONSTANT, -INFINITY, 0}, SG_OK},
                 {{SG_INIT_UNIFORM, -INFINITY, 1}, SG_E_ARGUMENT}, {{SG_INIT_UNIFORM, 0, NAN}, SG_E_ARGUMENT},
                 {{SG_INIT_UNIFORM, 1, 0}, SG_E_ARGUMENT},         {{SG_INIT_UNIFORM, 1, 1}, SG_OK},
                 {{SG_INIT_NORMAL, 0, -1}, SG_E_ARGUMENT},         {{SG_INIT_NORMAL, NAN, 1}, SG_E_ARGUMENT},
                 {{SG_INIT_NORMAL, 0, INFINITY}, SG_E_ARGUMENT},   {{SG_INIT_NORMAL, 0, 0}, SG_OK}};
    sg_shape shape = SG_SHAPE(2);
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        sg_store *store = sg_store_new(SG_F32);
        sg_error err = {0};
        int32_t at;
        assert_int_equal(sg_store_add(store, "w", SG_F32, &shape, tried[i].init, true, &at, &err), tried[i].status);
        assert_true(tried[i].status == SG_OK || strstr(err.text, "store entry 'w' cannot start as"));
        sg_store_free(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_answers),
        cmocka_unit_test(logarithm_is_exact_to_rounding),
        cmocka_unit_test(draws_have_the_right_moments),
        cmocka_unit_test(every_coordinate_moves_a_draw),
        cmocka_unit_test(entries_start_alike_in_any_order),
        cmocka_unit_test(errors_are_formatted_with_their_place),
        cmocka_unit_test(starts_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
