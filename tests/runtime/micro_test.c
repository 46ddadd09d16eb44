/* micro_test.c - the vectorised micro-kernels of each instruction set that this machine has: conventions at NaN, infinities and
 * tails, accuracy, draws with the bits of the scalar source, sums with the same bits everywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu_internal.h"
#include "runtime/cpu/micro_internal.h"
#include "tests/support/graph_run.h"

static const sg_micro_set *const all_sets[] = {&sg_micro_sse2, &sg_micro_avx2, &sg_micro_avx512};

static int32_t set_count(void) { return (int32_t)sg_cpu_isa_level() + 1; }

static void apply(const sg_micro_set *set, sg_micro_op op, const float *a, const float *b, const float *c,
                  const float *imm, float *out, int64_t n)
{
    const void *src[3] = {a, b ? b : a, c ? c : a};
    intptr_t mask[3] = {-1, -1, -1};
    set->fn[op](out, src, mask, imm, n);
}

static float at(const sg_micro_set *set, sg_micro_op op, float x, float y)
{
    float a[33], b[33], out[33], imm[2] = {-1, 1};
    for (int i = 0; i < 33; i++) {
        a[i] = x;
        b[i] = y;
    }
    apply(set, op, a, b, b, imm, out, 33);
    for (int i = 1; i < 33; i++) /* full vectors and tails agree */
        assert_memory_equal(&out[0], &out[i], sizeof out[0]);
    return out[0];
}

static void test_nan_propagates(void **state)
{
    (void)state;
    static const sg_micro_op unary[] = {
        SG_MICRO_NEG,      SG_MICRO_ABS,        SG_MICRO_SIGN,        SG_MICRO_FLOOR, SG_MICRO_EXP,
        SG_MICRO_EXPM1,    SG_MICRO_LOG,        SG_MICRO_LOG1P,       SG_MICRO_SQRT,  SG_MICRO_RSQRT,
        SG_MICRO_SQUARE,   SG_MICRO_RECIPROCAL, SG_MICRO_SIN,         SG_MICRO_COS,   SG_MICRO_TANH,
        SG_MICRO_ERF,      SG_MICRO_SIGMOID,    SG_MICRO_LOG_SIGMOID, SG_MICRO_GELU,  SG_MICRO_GELU_DERIVATIVE,
        SG_MICRO_SOFTPLUS, SG_MICRO_RELU,       SG_MICRO_LEAKY_RELU,  SG_MICRO_ELU,   SG_MICRO_CLIP};
    static const sg_micro_op binary[] = {SG_MICRO_ADD, SG_MICRO_SUB,     SG_MICRO_MUL,
                                         SG_MICRO_DIV, SG_MICRO_MAXIMUM, SG_MICRO_MINIMUM};
    for (int32_t s = 0; s < set_count(); s++) {
        for (size_t k = 0; k < sizeof unary / sizeof unary[0]; k++)
            if (!isnan(at(all_sets[s], unary[k], NAN, 0)))
                fail_msg("set %d: unary op %d of NaN is not NaN", s, unary[k]);
        for (size_t k = 0; k < sizeof binary / sizeof binary[0]; k++)
            if (!isnan(at(all_sets[s], binary[k], NAN, 1)) || !isnan(at(all_sets[s], binary[k], 1, NAN)))
                fail_msg("set %d: binary op %d of NaN is not NaN", s, binary[k]);
        assert_true(isnan(at(all_sets[s], SG_MICRO_XLOGY, 0, NAN)));
        assert_true(isnan(at(all_sets[s], SG_MICRO_XLOGY, NAN, 1)));
        assert_true(at(all_sets[s], SG_MICRO_IS_FINITE, NAN, 0) == 0);
        assert_true(at(all_sets[s], SG_MICRO_NOT_EQUAL, NAN, NAN) == 1);
        assert_true(at(all_sets[s], SG_MICRO_EQUAL, NAN, NAN) == 0);
        assert_true(at(all_sets[s], SG_MICRO_LESS, NAN, 1) == 0 &&
                    at(all_sets[s], SG_MICRO_GREATER_EQUAL, 1, NAN) == 0);
    }
}

static void assert_close(float x, double expected)
{
    double unit = fmax(fabs(expected) * 0x1p-23, 0x1p-149);
    if (!(x == expected || fabs(x - expected) <= 4 * unit))
        fail_msg("%.9g is not %.9g", x, expected);
}

static void test_kinks_and_tails(void **state)
{
    (void)state;
    for (int32_t k = 0; k < set_count(); k++) {
        const sg_micro_set *s = all_sets[k];
        assert_close(at(s, SG_MICRO_SOFTPLUS, 100, 0), 100);
        assert_close(at(s, SG_MICRO_SOFTPLUS, -100, 0), exp(-100));
        assert_close(at(s, SG_MICRO_SOFTPLUS, -INFINITY, 0), 0);
        assert_close(at(s, SG_MICRO_SOFTPLUS, INFINITY, 0), INFINITY);
        assert_close(at(s, SG_MICRO_SIGMOID, 100, 0), 1);
        assert_close(at(s, SG_MICRO_SIGMOID, -100, 0), exp(-100));
        assert_close(at(s, SG_MICRO_SIGMOID, -INFINITY, 0), 0);
        assert_close(at(s, SG_MICRO_LOG_SIGMOID, 100, 0), -exp(-100));
        assert_close(at(s, SG_MICRO_LOG_SIGMOID, -100, 0), -100);
        assert_close(at(s, SG_MICRO_LOG_SIGMOID, -INFINITY, 0), -INFINITY);
        assert_close(at(s, SG_MICRO_GELU, INFINITY, 0), INFINITY);
        assert_close(at(s, SG_MICRO_GELU, -INFINITY, 0), 0);
        assert_close(at(s, SG_MICRO_GELU, 0, 0), 0);
        assert_close(at(s, SG_MICRO_GELU_DERIVATIVE, INFINITY, 0), 1);
        assert_close(at(s, SG_MICRO_GELU_DERIVATIVE, -INFINITY, 0), 0);
        assert_close(at(s, SG_MICRO_GELU_DERIVATIVE, 0, 0), 0.5);
        assert_close(at(s, SG_MICRO_LOG, 0, 0), -INFINITY);
        assert_true(isnan(at(s, SG_MICRO_LOG, -1, 0)));
        assert_close(at(s, SG_MICRO_EXP, 200, 0), INFINITY);
        assert_close(at(s, SG_MICRO_EXP, -200, 0), 0);
        assert_close(at(s, SG_MICRO_POW, 0, 0), 1);
        assert_close(at(s, SG_MICRO_XLOGY, 0, 0), 0);
        assert_close(at(s, SG_MICRO_XLOGY, 0, -3), 0);
        assert_close(at(s, SG_MICRO_SIGN, -0.0f, 0), 0);
        assert_close(at(s, SG_MICRO_CLIP, 7, 0), 1);
        assert_close(at(s, SG_MICRO_RELU, -7, 0), 0);
        assert_close(at(s, SG_MICRO_TANH, 100, 0), 1);
    }
}

static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }
static double sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static double log_sigmoid(double x) { return -softplus(-x); }
static double gelu(double x) { return 0.5 * x * erfc(-M_SQRT1_2 * x); }
static double gelu_derivative(double x)
{
    return 0.5 * erfc(-M_SQRT1_2 * x) + 0.5 * M_2_SQRTPI * M_SQRT1_2 * x * exp(-0.5 * x * x);
}

static void test_accuracy(void **state)
{
    (void)state;
    static const struct {
        sg_micro_op op;
        double (*exact)(double);
        double low, high;
    } cases[] = {{SG_MICRO_SOFTPLUS, softplus, -104, 30},
                 {SG_MICRO_SIGMOID, sigmoid, -104, 30},
                 {SG_MICRO_LOG_SIGMOID, log_sigmoid, -30, 104},
                 {SG_MICRO_SOFTPLUS, softplus, -1, 1},
                 {SG_MICRO_GELU, gelu, -14, 6},
                 {SG_MICRO_GELU, gelu, -1, 1},
                 {SG_MICRO_GELU_DERIVATIVE, gelu_derivative, -13, -1},
                 {SG_MICRO_GELU_DERIVATIVE, gelu_derivative, -0.5, 6},
                 {SG_MICRO_EXP, exp, -80, 80},
                 {SG_MICRO_LOG, log, 0.001, 10},
                 {SG_MICRO_TANH, tanh, -5, 5},
                 {SG_MICRO_ERF, erf, -4, 4},
                 {SG_MICRO_SIN, sin, -20, 20},
                 {SG_MICRO_EXPM1, expm1, -3, 3}};
    float x[999], y[999];
    for (int32_t s = 0; s < set_count(); s++)
        for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
            for (int i = 0; i < 999; i++)
                x[i] = (float)(cases[k].low + (cases[k].high - cases[k].low) * test_uniform(k, i));
            apply(all_sets[s], cases[k].op, x, NULL, NULL, NULL, y, 999);
            for (int i = 0; i < 999; i++)
                assert_close(y[i], cases[k].exact(x[i]));
        }
}

static void test_draw_bits(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 3, 4, 63, 64, 65, 1000};
    static const uint64_t starts[] = {0, 1, 2, 3, 4, 159, 0x3fffffff0u};
    int32_t rng[4] = {123, -5, 77, 1};
    float out[1000];
    for (int32_t s = 0; s < set_count(); s++)
        for (size_t a = 0; a < sizeof starts / sizeof starts[0]; a++)
            for (size_t b = 0; b < sizeof lengths / sizeof lengths[0]; b++) {
                sg_draw draw = sg_draw_make(99, rng, 3);
                all_sets[s]->uniform(out, draw, starts[a], lengths[b]);
                for (int64_t i = 0; i < lengths[b]; i++)
                    assert_true(out[i] == sg_random_uniform(99, rng, 3, starts[a] + (uint64_t)i));
                all_sets[s]->normal(out, draw, starts[a], lengths[b]);
                for (int64_t i = 0; i < lengths[b]; i++) {
                    float expected = sg_random_normal(99, rng, 3, starts[a] + (uint64_t)i);
                    assert_memory_equal(&out[i], &expected, sizeof expected);
                }
            }
}

/* The threshold between centre and tail, and the far tail, which random elements hardly meet. */
static void test_rare_normals(void **state)
{
    (void)state;
    float moments[3] = {0}, out[64000];
    int32_t rng[4] = {1, 2, 3, 4}, beyond_five = 0;
    for (int32_t s = 0; s < set_count(); s++) {
        all_sets[s]->normal(out, sg_draw_make(5, rng, 0), 0, 64000);
        for (int i = 0; i < 64000; i++) {
            float expected = sg_random_normal(5, rng, 0, (uint64_t)i);
            assert_memory_equal(&out[i], &expected, sizeof expected);
            moments[s] += out[i] * out[i] / 64000;
            beyond_five += fabsf(out[i]) > 4;
        }
        assert_true(fabsf(moments[s] - 1) < 0.03f);
    }
    assert_true(beyond_five > 0);
}

static void test_sums(void **state)
{
    (void)state;
    static float x[5000];
    for (int i = 0; i < 5000; i++)
        x[i] = 1;
    for (int32_t s = 0; s < set_count(); s++)
        assert_true(all_sets[s]->sum(x, -1, 4096) == 4096);
    for (int i = 0; i < 5000; i++)
        x[i] = (float)test_uniform(3, i) - 0.3f;
    for (int64_t n = 0; n < 5000; n += 37)
        for (int32_t s = 1; s < set_count(); s++)
            assert_true(all_sets[s]->sum(x, -1, n) == all_sets[0]->sum(x, -1, n));
}

static void test_integers(void **state)
{
    (void)state;
    float reals[5] = {2.9f, -2.9f, 1e20f, -1e20f, NAN};
    int32_t expected[5] = {2, -2, INT32_MAX, INT32_MIN, 0}, out[5];
    for (int32_t s = 0; s < set_count(); s++) {
        apply(all_sets[s], SG_MICRO_I_FROM_F, reals, NULL, NULL, NULL, (float *)out, 5);
        assert_memory_equal(out, expected, sizeof out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nan_propagates), cmocka_unit_test(test_kinks_and_tails), cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_draw_bits),      cmocka_unit_test(test_rare_normals),    cmocka_unit_test(test_sums),
        cmocka_unit_test(test_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
