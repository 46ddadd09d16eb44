/* adam_test.c - the fused Adam step against the reference rule. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "tests/support/kernel_run.h"

typedef struct setting {
    double beta1, beta2, eps, weight_decay;
    bool decoupled;
} setting;

static void check(const setting *s, int64_t n, double t)
{
    sg_graph *g = sg_graph_new();
    sg_shape shape = SG_SHAPE(n), scalar = sg_shape_scalar();
    sg_adam_state now = {sg_input(g, "p", SG_F32, shape), sg_input(g, "m", SG_F32, shape),
                         sg_input(g, "v", SG_F32, shape)};
    sg_value grad = sg_input(g, "g", SG_F32, shape);
    sg_adam_state next = sg_adam(now, grad, sg_input(g, "lr", SG_F32, scalar), sg_input(g, "t", SG_F32, scalar),
                                 s->beta1, s->beta2, s->eps, s->weight_decay, s->decoupled);
    double lr = (float)3e-3,
           *data[] = {test_numbers(1, n), test_numbers(2, n), test_numbers(3, n), test_numbers(4, n), &lr, &t};
    for (int64_t i = 0; i < n; i++)
        data[3][i] = fabs(data[3][i]);
    kernel_check(next.p, data, 1e-6);
    sg_graph_free(g);
    test_free_all();
}

static void test_settings(void **state)
{
    (void)state;
    const setting settings[] = {{0.9, 0.999, 1e-8, 0, true},
                                {0.9, 0.999, 1e-8, 0.01, true},
                                {0.9, 0.999, 1e-8, 0.01, false},
                                {0, 0.99, 1e-6, 0, true}};
    const int64_t sizes[] = {0, 1, 3, 15, 16, 17, 33, 4096, 4097, 20000};
    for (int s = 0; s < 4; s++)
        for (int n = 0; n < 10; n++) {
            check(&settings[s], sizes[n], 1);
            check(&settings[s], sizes[n], 1000);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_settings)};
    return cmocka_run_group_tests_name("adam", tests, NULL, NULL);
}
