/* Elementwise operators and losses against shared/golden: values computed elsewhere in float64, with the vector-Jacobian and
 * Jacobian-vector products, Hessian products and third derivatives of <cotangent, f>. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "tests/support/golden_case.h"

/* ---- the function of a case, by the field's name of the op */

typedef struct named_unary {
    const char *name;
    sg_value (*build)(sg_value);
} named_unary;
static const named_unary unary[] = {
    {"neg", sg_neg},
    {"abs", sg_abs},
    {"sign", sg_sign},
    {"exp", sg_exp},
    {"expm1", sg_expm1},
    {"log", sg_log},
    {"log1p", sg_log1p},
    {"sqrt", sg_sqrt},
    {"rsqrt", sg_rsqrt},
    {"square", sg_square},
    {"reciprocal", sg_reciprocal},
    {"sin", sg_sin},
    {"cos", sg_cos},
    {"tanh", sg_tanh},
    {"erf", sg_erf},
    {"sigmoid", sg_sigmoid},
    {"log_sigmoid", sg_log_sigmoid},
    {"relu", sg_relu},
};

typedef struct named_binary {
    const char *name;
    sg_value (*build)(sg_value, sg_value);
} named_binary;
static const named_binary binary[] = {
    {"add", sg_add}, {"sub", sg_sub},         {"mul", sg_mul},         {"div", sg_div},
    {"pow", sg_pow}, {"maximum", sg_maximum}, {"minimum", sg_minimum}, {"xlogy", sg_xlogy},
};

static sg_value number(sg_value like, double value)
{
    return sg_constant(like.graph, sg_dtype_of(like), sg_shape_scalar(), &value, 1);
}

static sg_value reduced(const json_t *test, sg_value losses, sg_value kept)
{
    if (golden_attr_is(test, "reduction", "none"))
        return losses;
    if (golden_attr_is(test, "reduction", "sum"))
        return sg_sum_all(losses);
    if (sg_is_none(kept))
        return sg_mean_all(losses);
    sg_value count = sg_sum_all(sg_cast(kept, SG_F64));
    return sg_div(sg_sum_all(losses), sg_maximum(count, number(count, 1)));
}

/* The cases mark ignored targets with -100, the operator with -1. */
static sg_value cross_entropy(const json_t *test, const sg_value *in)
{
    sg_value kept = sg_not_equal(in[1], number(in[1], -100));
    sg_value target = sg_where(kept, in[1], number(in[1], -1));
    return reduced(test, sg_softmax_cross_entropy(in[0], target), kept);
}

static sg_value parametric(const json_t *test, const char *op, const sg_value *in)
{
    sg_value x = in[0];
    if (strcmp(op, "leaky_relu") == 0)
        return sg_leaky_relu(x, golden_attr_real(test, "slope"));
    if (strcmp(op, "elu") == 0)
        return sg_elu(x, golden_attr_real(test, "alpha"));
    if (strcmp(op, "clip") == 0)
        return sg_clip(x, golden_attr_real(test, "min"), golden_attr_real(test, "max"));
    if (strcmp(op, "gelu") == 0)
        return golden_attr_is(test, "approximate", "tanh") ? sg_gelu_tanh(x) : sg_gelu(x);
    if (strcmp(op, "softplus") == 0) {
        double beta = golden_attr_real(test, "beta") == 0 ? 1 : golden_attr_real(test, "beta");
        sg_value b = number(x, beta);
        return sg_div(sg_softplus(sg_mul(x, b)), b);
    }
    if (strcmp(op, "softmax") == 0)
        return sg_softmax(x, (int32_t)golden_attr_real(test, "axis"));
    if (strcmp(op, "log_softmax") == 0)
        return sg_log_softmax(x, (int32_t)golden_attr_real(test, "axis"));
    return SG_NONE;
}

/* The formulas that attrs.expression gives. */
static sg_value expression(const json_t *test, const sg_value *in, int32_t n_in)
{
    sg_value x = in[0], y = in[1];
    if (golden_attr_is(test, "expression", "where(c, x*x, y*y*y)"))
        return sg_where(in[0], sg_square(in[1]), sg_mul(sg_square(in[2]), in[2]));
    if (golden_attr_is(test, "expression", "where(x>0, log(where(x>0, x, 1)), x)")) {
        sg_value positive = sg_greater(x, number(x, 0));
        return sg_where(positive, sg_log(sg_where(positive, x, number(x, 1))), x);
    }
    if (golden_attr_is(test, "expression", "tanh(x*y) + exp(-x*x)*softplus(y)/(1+sigmoid(x-y))")) {
        sg_value bump = sg_mul(sg_exp(sg_neg(sg_square(x))), sg_softplus(y));
        return sg_add(sg_tanh(sg_mul(x, y)), sg_div(bump, sg_add_scalar(sg_sigmoid(sg_sub(x, y)), 1)));
    }
    return n_in == 3 ? sg_where(in[0], in[1], in[2]) : SG_NONE;
}

static sg_value build(const json_t *test, const sg_value *in, int32_t n_in)
{
    const char *op = json_string_value(json_object_get(test, "op"));
    for (size_t i = 0; i < sizeof unary / sizeof *unary; i++)
        if (strcmp(op, unary[i].name) == 0)
            return unary[i].build(in[0]);
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
        if (strcmp(op, binary[i].name) == 0)
            return binary[i].build(in[0], in[1]);
    if (strcmp(op, "where") == 0 || strcmp(op, "expression") == 0)
        return expression(test, in, n_in);
    if (strcmp(op, "masked_softmax") == 0)
        return sg_softmax(sg_where(in[1], in[0], number(in[0], -INFINITY)), (int32_t)golden_attr_real(test, "axis"));
    if (strcmp(op, "bce_with_logits") == 0 && n_in == 2)
        return reduced(test, sg_bce_with_logits(in[0], in[1]), SG_NONE);
    if (strcmp(op, "softmax_cross_entropy") == 0 && golden_attr_real(test, "smoothing") == 0)
        return cross_entropy(test, in);
    return parametric(test, op, in);
}

static void elementwise(void **state)
{
    (void)state;
    golden_run_family("elementwise", 118, build);
}

static void losses(void **state)
{
    (void)state;
    golden_run_family("losses", 23, build);
}

int main(void)
{
    if (!golden_exists("elementwise")) {
        print_message("skipped: no golden/elementwise.json under $SG_SHARED or beside the source tree\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(elementwise), cmocka_unit_test(losses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
