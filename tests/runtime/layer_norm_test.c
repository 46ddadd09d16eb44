/* layer_norm_test.c - the fused kernels of layer_norm and of its derivatives against the mechanical decomposition on the reference
 * backend, for every choice of inputs that move or are asked for, and at the edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "ops/derivative_internal.h"
#include "tests/support/graph_run.h"
#include "tests/support/kernel_run.h"
#include "tests/support/tensor_check.h"

#define EPS 1e-3

static const struct {
    int64_t rows, n;
} sizes[] = {{3, 5}, {1, 1}, {4, 16}, {2, 33}, {70, 257}, {600, 19}, {0, 7}, {5, 0}, {19, 768}, {3, 1100}};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* x, gamma, beta, the hints mean and 1 / sqrt(..), the cotangent g of y; then tangents of x, gamma, beta and g. */
enum { X, GAMMA, BETA, MEAN, RSTD, G, TX, TGAMMA, TBETA, TG, OPERANDS };

typedef struct problem {
    sg_graph *graph;
    sg_value in[OPERANDS];
    double *data[OPERANDS];
} problem;

static void statistics(const double *x, int64_t n, double *mean, double *rstd)
{
    double sum = 0, square = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        square += (x[i] - sum) * (x[i] - sum) / (double)n;
    *mean = n > 0 ? sum : NAN;
    *rstd = n > 0 ? 1 / sqrt(square + EPS) : NAN;
}

static problem make(int64_t rows, int64_t n)
{
    static const char *const names[] = {"x", "gamma", "beta", "mean", "rstd", "g", "tx", "tgamma", "tbeta", "tg"};
    problem p = {.graph = sg_graph_new()};
    for (int k = 0; k < OPERANDS; k++) {
        bool row = k == GAMMA || k == BETA || k == TGAMMA || k == TBETA, known = k == MEAN || k == RSTD;
        sg_shape shape = row ? SG_SHAPE(n) : known ? SG_SHAPE(rows, 1) : SG_SHAPE(rows, n);
        p.in[k] = sg_input(p.graph, names[k], SG_F32, shape);
        p.data[k] = test_numbers((uint64_t)k + 1, sg_shape_count(&shape));
    }
    for (int64_t r = 0; r < rows; r++)
        statistics(p.data[X] + r * n, n, &p.data[MEAN][r], &p.data[RSTD][r]);
    return p;
}

/* The operands taken by number. */
static void check(const problem *p, const char *op, const int32_t *take, int32_t n_in, const sg_attr *attr)
{
    sg_value in[OPERANDS];
    double *data[OPERANDS];
    for (int32_t k = 0; k < n_in; k++) {
        in[k] = p->in[take[k]];
        data[k] = p->data[take[k]];
    }
    kernel_check(sg_build(p->graph, sg_op_find(op), in, n_in, attr), data, 2e-5);
}

/* The members of `from` with a bit in `bits`; returns how many. */
static int32_t choose(unsigned bits, const int64_t *from, int32_t n, int64_t *out)
{
    int32_t count = 0;
    for (int32_t i = 0; i < n; i++)
        if (bits >> i & 1)
            out[count++] = from[i];
    return count;
}

static void test_forward(void **state)
{
    (void)state;
    static const int32_t take[] = {X, GAMMA, BETA};
    for (int s = 0; s < SIZES; s++) {
        problem p = make(sizes[s].rows, sizes[s].n);
        check(&p, "layer_norm", take, 3, (sg_attr[]){sg_attr_int(1), sg_attr_real(EPS)});
        sg_graph_free(p.graph);
        test_free_all();
    }
}

static void test_vjp(void **state)
{
    (void)state;
    static const int64_t inputs[] = {X, GAMMA, BETA}, y = 0;
    static const int32_t take[] = {X, GAMMA, BETA, MEAN, RSTD, G};
    for (int s = 0; s < SIZES; s++)
        for (unsigned bits = 1; bits < 8; bits++) {
            int64_t wrt[3];
            problem p = make(sizes[s].rows, sizes[s].n);
            sg_attr attr[] = {sg_attr_int(1), sg_attr_real(EPS), sg_attr_ints(wrt, choose(bits, inputs, 3, wrt)),
                              sg_attr_ints(&y, 1)};
            check(&p, "layer_norm_vjp", take, 6, attr);
            sg_graph_free(p.graph);
            test_free_all();
        }
}

static void test_jvp(void **state)
{
    (void)state;
    static const int64_t inputs[] = {X, GAMMA, BETA};
    for (int s = 0; s < SIZES; s++)
        for (unsigned bits = 1; bits < 8; bits++) {
            int64_t moving[3];
            int32_t take[OPERANDS] = {X, GAMMA, BETA, MEAN, RSTD}, n = choose(bits, inputs, 3, moving);
            for (int32_t i = 0; i < n; i++)
                take[5 + i] = TX + (int32_t)moving[i];
            problem p = make(sizes[s].rows, sizes[s].n);
            sg_attr attr[] = {sg_attr_int(1), sg_attr_real(EPS), sg_attr_ints(moving, n)};
            check(&p, "layer_norm_jvp", take, 5 + n, attr);
            sg_graph_free(p.graph);
            test_free_all();
        }
}

static void test_vjp_jvp(void **state)
{
    (void)state;
    static const int64_t outputs[] = {X, GAMMA, BETA}, inputs[] = {X, GAMMA, BETA, G}, y = 0;
    for (int s = 0; s < SIZES; s++)
        for (unsigned bits = 1; bits < 128; bits++) {
            int64_t moving[4], wrt[3];
            int32_t take[OPERANDS] = {X, GAMMA, BETA, MEAN, RSTD, G};
            int32_t n_wrt = choose(bits & 7, outputs, 3, wrt), n = choose(bits >> 3, inputs, 4, moving);
            if (n_wrt == 0 || n == 0 || (sizes[s].rows > 4 && bits % 9 != 0))
                continue;
            for (int32_t i = 0; i < n; i++)
                take[6 + i] = moving[i] == G ? TG : TX + (int32_t)moving[i];
            problem p = make(sizes[s].rows, sizes[s].n);
            sg_attr attr[] = {sg_attr_int(1), sg_attr_real(EPS), sg_attr_ints(wrt, n_wrt), sg_attr_ints(&y, 1),
                              sg_attr_ints(moving, n)};
            check(&p, "layer_norm_vjp_jvp", take, 6 + n, attr);
            sg_graph_free(p.graph);
            test_free_all();
        }
}

/* Deviations of 1 around 10^4: the mean of squares minus the square of the mean would have no digit left in float. */
static void test_large_offset(void **state)
{
    (void)state;
    enum { N = 100 };
    double x[N], y[N], want[N], mean, rstd;
    for (int i = 0; i < N; i++)
        x[i] = 10000 + (double)(i * 37 % N - 50) / 32;
    statistics(x, N, &mean, &rstd);
    for (int i = 0; i < N; i++)
        want[i] = (x[i] - mean) * rstd;
    sg_graph *g = sg_graph_new();
    sg_result(g, "y", sg_layer_norm(sg_input(g, "x", SG_F32, SG_SHAPE(N)), SG_NONE, SG_NONE, EPS));
    assert_true(graph_run(g, NULL, "cpu", 1, (const char *const[]){"x"}, (double *[]){x}, 1, (double *[]){y}));
    assert_tensor_close(y, want, N, 1e-6, 1e-6, "large offset");
    sg_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward), cmocka_unit_test(test_vjp),          cmocka_unit_test(test_jvp),
        cmocka_unit_test(test_vjp_jvp), cmocka_unit_test(test_large_offset),
    };
    sg_autodiff_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
