/* docs/conventions.md on every backend of the build: value, gradient of the sum and second derivative, at kinks, ties,
 * singular points, NaN, in masked and empty rows, and for shapes without elements. Numbers are ones that floats hold. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "runtime/runtime.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

enum { MOST = 8 };
static const double inf = INFINITY, nan_ = NAN;

typedef struct row {
    const char *name;
    sg_value (*build)(sg_value x);
    int64_t rows, columns; /* x is [rows, columns] */
    double x[MOST];
    int64_t n; /* elements of the result */
    double value[MOST], first[MOST], second[MOST];
} row;

/* ---- elementwise */
static sg_value leaky(sg_value x) { return sg_leaky_relu(x, 0.25); }
static sg_value elu(sg_value x) { return sg_elu(x, 2); }
static sg_value clip(sg_value x) { return sg_clip(x, -1, 1); }
static sg_value flag(sg_value x) { return sg_cast(sg_is_finite(x), SG_F32); }
static sg_value column(sg_value x, int64_t k) { return sg_slice(x, 1, k, k + 1); }
#define PAIR(name, op)                                                                                                 \
    static sg_value name(sg_value x) { return op(column(x, 0), column(x, 1)); }
PAIR(pair_maximum, sg_maximum)
PAIR(pair_minimum, sg_minimum)
PAIR(pair_xlogy, sg_xlogy)
PAIR(pair_bce, sg_bce_with_logits)
static sg_value pair_less(sg_value x) { return sg_cast(sg_less(column(x, 0), column(x, 1)), SG_F32); }
static sg_value guarded_log(sg_value x)
{
    sg_value zero = sg_zeros_like(x), positive = sg_greater(x, zero);
    return sg_where(positive, sg_log(sg_where(positive, x, sg_ones_like(x))), zero);
}

/* x^0, x^1, x^2 */
static sg_value powers(sg_value x)
{
    return sg_pow(x, sg_constant(x.graph, SG_F32, SG_SHAPE(3), (double[]){0, 1, 2}, 3));
}

/* ---- rows */
static sg_value sum(sg_value x) { return sg_sum(x, -1); }
static sg_value mean(sg_value x) { return sg_mean(x, -1); }
static sg_value prod(sg_value x) { return sg_prod(x, -1, false); }
static sg_value max(sg_value x) { return sg_max(x, -1, false); }
static sg_value min(sg_value x) { return sg_min(x, -1, false); }
static sg_value logsumexp(sg_value x) { return sg_logsumexp(x, -1, false); }
static sg_value argmax(sg_value x) { return sg_cast(sg_argmax(x, -1), SG_F32); }
static sg_value softmax_first(sg_value x) { return column(sg_softmax(x, -1), 0); }
static sg_value softmax(sg_value x) { return sg_softmax(x, -1); }
static sg_value log_softmax(sg_value x) { return sg_log_softmax(x, -1); }
static sg_value kept_positive(sg_value x) { return sg_masked_softmax(x, sg_greater(x, sg_zeros_like(x)), -1); }
static sg_value ignored(sg_value x)
{
    double target[MOST] = {-1, 1};
    int64_t rows = sg_dim_of(x, 0);
    return sg_softmax_cross_entropy(x, sg_constant(x.graph, SG_I32, SG_SHAPE(rows), target, rows));
}
static sg_value layer_norm(sg_value x) { return column(sg_layer_norm(x, SG_NONE, SG_NONE, 0), 0); }
static sg_value layer_norm_eps(sg_value x) { return sg_layer_norm(x, SG_NONE, SG_NONE, 0.25); }
static sg_value rms_norm(sg_value x) { return sg_rms_norm(x, sg_ones_like(sg_sum(x, 0)), 0); }
static sg_value nothing_contracted(sg_value x) { return sg_matmul(x, sg_zeros_like(sg_transpose(x, SG_AXES(1, 0)))); }
static sg_value layer(sg_value x) { return sg_softplus(sg_matmul_nt(x, x)); }

/* clang-format off */
static const row rows[] = {
    {"relu", sg_relu, 1, 3, {0, 3, nan_}, 3, {0, 3, nan_}, {0, 1, 0}, {0}},
    {"leaky_relu", leaky, 1, 2, {0, -2}, 2, {0, -0.5}, {0.25, 0.25}, {0}},
    {"elu", elu, 1, 1, {0}, 1, {0}, {2}, {2}},
    {"abs", sg_abs, 1, 3, {0, -2, nan_}, 3, {0, 2, nan_}, {0, -1, nan_}, {0}},
    {"sign", sg_sign, 1, 3, {0, -3, 2}, 3, {0, -1, 1}, {0}, {0}},
    {"floor", sg_floor, 1, 2, {-0.5, 2}, 2, {-1, 2}, {0}, {0}},
    {"clip", clip, 1, 5, {-1, 1, 2, 0.5, nan_}, 5, {-1, 1, 1, 0.5, nan_}, {1, 1, 0, 1, 0}, {0}},
    {"sqrt", sg_sqrt, 1, 1, {0}, 1, {0}, {inf}, {-inf}},
    {"log", sg_log, 1, 1, {0}, 1, {-inf}, {inf}, {-inf}},
    {"softplus", sg_softplus, 1, 3, {0, 1000, -1000}, 3, {M_LN2, 1000, 0}, {0.5, 1, 0}, {0.25, 0, 0}},
    {"sigmoid", sg_sigmoid, 1, 3, {0, inf, -inf}, 3, {0.5, 1, 0}, {0.25, 0, 0}, {0, 0, 0}},
    {"tanh", sg_tanh, 1, 2, {0, nan_}, 2, {0, nan_}, {1, nan_}, {0, nan_}},
    {"is_finite", flag, 1, 3, {1, inf, nan_}, 3, {1, 0, 0}, {0}, {0}},
    {"guarded log", guarded_log, 1, 3, {-1, 0, 2}, 3, {0, 0, M_LN2}, {0, 0, 0.5}, {0, 0, -0.25}},
    {"maximum", pair_maximum, 4, 2, {2, 2, 1, 3, 0, -0.0, nan_, 1}, 4, {2, 3, 0, nan_}, {0.5, 0.5, 0, 1, 0.5, 0.5, 0, 0}, {0}},
    {"minimum", pair_minimum, 3, 2, {2, 2, 1, 3, inf, inf}, 3, {2, 1, inf}, {0.5, 0.5, 1, 0, 0.5, 0.5}, {0}},
    {"pow", powers, 1, 3, {0, 0, 0}, 3, {1, 0, 0}, {0, 1, 0}, {0, 0, 2}},
    {"xlogy", pair_xlogy, 2, 2, {0, 0, 0, 4}, 2, {0, 0}, {0, 0, 1.3862943611198906, 0}, {0, 0, 0.25, 0.25}},
    {"bce", pair_bce, 3, 2, {0, 1, -100, 1, 1000, 0}, 3, {M_LN2, 100, 1000}, {-0.5, 0, -1, 100, 1, -1000}, {-0.75, -1, -1, -1, -1, -1}},
    {"less", pair_less, 2, 2, {1, 2, nan_, 2}, 2, {1, 0}, {0}, {0}},
    {"sum of nothing", sum, 2, 0, {0}, 2, {0, 0}, {0}, {0}},
    {"prod of nothing", prod, 2, 0, {0}, 2, {1, 1}, {0}, {0}},
    {"mean of nothing", mean, 2, 0, {0}, 2, {nan_, nan_}, {0}, {0}},
    {"logsumexp of nothing", logsumexp, 2, 0, {0}, 2, {-inf, -inf}, {0}, {0}},
    {"logsumexp of -inf", logsumexp, 2, 2, {-inf, -inf, 0, 0}, 2, {-inf, M_LN2}, {0, 0, 0.5, 0.5}, {0}},
    {"no rows", sum, 0, 3, {0}, 0, {0}, {0}, {0}},
    {"no rows, softmax", softmax, 0, 3, {0}, 0, {0}, {0}, {0}},
    {"no rows, products", layer, 0, 3, {0}, 0, {0}, {0}, {0}},
    {"K = 0", nothing_contracted, 2, 0, {0}, 4, {0, 0, 0, 0}, {0}, {0}},
    {"max", max, 2, 3, {3, 3, 1, 1, nan_, 2}, 2, {3, nan_}, {0.5, 0.5, 0, nan_, nan_, nan_}, {0}},
    {"min", min, 1, 3, {2, 1, 1}, 1, {1}, {0, 0.5, 0.5}, {0}},
    {"argmax", argmax, 3, 2, {5, 5, 1, 2, 1, nan_}, 3, {0, 1, 1}, {0}, {0}},
    {"prod with zeros", prod, 2, 3, {0, 2, 3, 0, 0, 4}, 2, {0, 0}, {6, 0, 0, 0, 0, 0}, {5, 3, 2, 4, 4, 0}},
    {"softmax of -inf", softmax, 1, 3, {-inf, -inf, -inf}, 3, {0, 0, 0}, {0}, {0}},
    {"softmax beside -inf", softmax_first, 1, 2, {0, -inf}, 1, {1}, {0, 0}, {0}},
    {"log_softmax of -inf", log_softmax, 1, 2, {-inf, -inf}, 2, {-inf, -inf}, {1, 1}, {0, 0}},
    {"masked softmax", kept_positive, 2, 2, {1, -5, -1, -2}, 4, {1, 0, 0, 0}, {0}, {0}},
    {"layer_norm of a constant row", layer_norm_eps, 1, 4, {1.5, 1.5, 1.5, 1.5}, 4, {0, 0, 0, 0}, {0}, {0}},
    {"layer_norm of a constant row, eps 0", layer_norm, 2, 4, {1.5, 1.5, 1.5, 1.5, -1, 1, -1, 1}, 2, {nan_, -1},
     {nan_, nan_, nan_, nan_, 0.5, 0, -0.5, 0}, {nan_, nan_, nan_, nan_, 0, 0, 0, 0}},
    {"rms_norm of zeros, eps 0", rms_norm, 2, 2, {0, 0, -1, 1}, 4, {nan_, nan_, -1, 1}, {nan_, nan_, 1, 1}, {nan_, nan_, 1, -1}},
    {"ignored target", ignored, 2, 2, {7, -3, 0, 0}, 2, {0, M_LN2}, {0, 0, 0.5, -0.5}, {0}},
};
/* clang-format on */

static int32_t failures(const row *r, const char *backend)
{
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(strcmp(backend, "reference") == 0 ? SG_F64 : SG_F32);
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(r->rows, r->columns)), y = r->build(x), first, second;
    sg_grad(sg_sum_all(y), &x, 1, &first);
    sg_grad(sg_sum_all(first), &x, 1, &second);
    sg_result(graph, "value", y);
    sg_result(graph, "first", first);
    sg_result(graph, "second", second);
    assert_int_equal(sg_shape_count(sg_shape_of(y)), r->n);
    double at[MOST], got[3][MOST];
    int32_t bad = 0;
    char name[96];
    memcpy(at, r->x, sizeof at);
    assert_true(graph_run(graph, store, backend, 1, (const char *[]){"x"}, (double *[]){at}, 1,
                          (double *[]){got[0], got[1], got[2]}));
    snprintf(name, sizeof name, "%s on %s, value", r->name, backend);
    bad += !tensor_is_close(got[0], r->value, r->n, 1e-6, 1e-12, name);
    snprintf(name, sizeof name, "%s on %s, first derivative", r->name, backend);
    bad += !tensor_is_close(got[1], r->first, r->rows * r->columns, 1e-6, 1e-12, name);
    snprintf(name, sizeof name, "%s on %s, second derivative", r->name, backend);
    bad += !tensor_is_close(got[2], r->second, r->rows * r->columns, 1e-6, 1e-12, name);
    sg_graph_free(graph);
    sg_store_free(store);
    return bad;
}

static void every_backend(void **state)
{
    (void)state;
    char names[256], *rest = names;
    snprintf(names, sizeof names, "%s", sg_backend_names());
    int32_t backends = 0, bad = 0;
    for (char *name; (name = strsep(&rest, ", ")) != NULL;) {
        if (!*name)
            continue;
        backends++;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            bad += failures(&rows[i], name);
    }
    assert_true(backends >= 2);
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_backend)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
