/* Losses that are written as expressions of operators against shared/golden: values, vjp, jvp, Hessian products in
 * both modes and third derivatives, computed elsewhere in float64. (Those that are operators themselves:
 * tests/ops/golden_test.c.) */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "tests/support/golden_case.h"

static sg_value number(sg_value like, double value)
{
    return sg_constant(like.graph, sg_dtype_of(like), sg_shape_scalar(), &value, 1);
}

static sg_value reduced(const json_t *test, sg_value losses)
{
    if (golden_attr_is(test, "reduction", "none"))
        return losses;
    return golden_attr_is(test, "reduction", "sum") ? sg_sum_all(losses) : sg_mean_all(losses);
}

/* -(w y log s(z) + (1 - y) log s(-z)). */
static sg_value weighted_bce(const json_t *test, const sg_value *in)
{
    sg_value z = in[0], y = in[1];
    sg_value positive = sg_mul(sg_mul(in[2], y), sg_log_sigmoid(z));
    sg_value negative = sg_mul(sg_sub(number(y, 1), y), sg_log_sigmoid(sg_neg(z)));
    return reduced(test, sg_neg(sg_add(positive, negative)));
}

/* (1 - e) CE(z, y) + e mean_c -log p_c over the rows that are kept. */
static sg_value smoothed_cross_entropy(const json_t *test, const sg_value *in)
{
    double e = golden_attr_real(test, "smoothing");
    sg_value kept = sg_not_equal(in[1], number(in[1], -100)), weight = sg_cast(kept, SG_F64);
    sg_value sharp = sg_softmax_cross_entropy(in[0], sg_where(kept, in[1], number(in[1], -1)));
    sg_value flat = sg_mul(weight, sg_neg(sg_mean(sg_log_softmax(in[0], -1), -1)));
    sg_value row = sg_add(sg_mul(sharp, number(sharp, 1 - e)), sg_mul(flat, number(flat, e)));
    return sg_div(sg_sum_all(row), sg_sum_all(weight));
}

/* 1 + z_j - z_y for the wrong labels j, and `away` in the place of the right one. */
static sg_value margins(const sg_value *in, double away)
{
    sg_value z = in[0], right = sg_cast(sg_one_hot(in[1], sg_dim_of(z, -1)), SG_F64);
    sg_value gold = sg_expand_dims(sg_sum(sg_mul(z, right), -1), -1);
    return sg_where(sg_cast(right, SG_BOOL), number(z, away), sg_add_scalar(sg_sub(z, gold), 1));
}

static sg_value hinge(const json_t *test, const char *op, const sg_value *in)
{
    if (strcmp(op, "hinge_structured") == 0)
        return sg_mean_all(sg_relu(sg_add(sg_sub(in[0], in[1]), in[2])));
    if (golden_attr_is(test, "kind", "crammer_singer"))
        return sg_mean_all(sg_relu(sg_max(margins(in, -1e30), -1, false)));
    if (golden_attr_is(test, "kind", "weston_watkins"))
        return sg_mean_all(sg_sum(sg_relu(margins(in, 0)), -1));
    sg_value loss = sg_relu(sg_sub(number(in[0], golden_attr_real(test, "margin")), sg_mul(in[0], in[1])));
    return sg_mean_all(strcmp(op, "hinge_squared") == 0 ? sg_square(loss) : loss);
}

static sg_value divergence(const json_t *test, const char *op, const sg_value *in)
{
    sg_value row;
    if (strcmp(op, "kl_bernoulli") == 0) {
        sg_value a = in[0], b = in[1];
        sg_value one = sg_mul(sg_sigmoid(a), sg_sub(sg_log_sigmoid(a), sg_log_sigmoid(b)));
        sg_value zero = sg_mul(sg_sigmoid(sg_neg(a)), sg_sub(sg_log_sigmoid(sg_neg(a)), sg_log_sigmoid(sg_neg(b))));
        row = sg_add(one, zero);
    } else if (json_object_get(json_object_get(test, "inputs"), "log_p")) {
        row = sg_mul(sg_exp(in[0]), sg_sub(in[0], in[1]));
    } else {
        row = sg_sub(sg_xlogy(in[0], in[0]), sg_mul(in[0], sg_log_softmax(in[1], -1)));
    }
    return sg_mean_all(sg_sum(row, -1));
}

static sg_value expression(const json_t *test, const sg_value *in)
{
    if (golden_attr_is(test, "expression", "mean over rows of the sum over labels of bce_with_logits"))
        return sg_mean_all(sg_sum(sg_bce_with_logits(in[0], in[1]), -1));
    if (golden_attr_is(test, "expression", "mean over rows of sum_i softplus(z_i) - z_i sigmoid(z_i)"))
        return sg_mean_all(sg_sum(sg_sub(sg_softplus(in[0]), sg_mul(in[0], sg_sigmoid(in[0]))), -1));
    return SG_NONE;
}

static sg_value build(const json_t *test, const sg_value *in, int32_t n_in)
{
    const char *op = json_string_value(json_object_get(test, "op"));
    if (strcmp(op, "bce_with_logits") == 0 && n_in == 3)
        return weighted_bce(test, in);
    if (strcmp(op, "softmax_cross_entropy") == 0 && golden_attr_real(test, "smoothing") > 0)
        return smoothed_cross_entropy(test, in);
    if (strcmp(op, "softmax_cross_entropy_dense") == 0)
        return sg_mean_all(sg_neg(sg_sum(sg_mul(in[1], sg_log_softmax(in[0], -1)), -1)));
    if (strcmp(op, "mse") == 0)
        return reduced(test, sg_square(sg_sub(in[0], in[1])));
    if (strcmp(op, "l1") == 0)
        return reduced(test, sg_abs(sg_sub(in[0], in[1])));
    if (strncmp(op, "hinge", 5) == 0)
        return hinge(test, op, in);
    if (strncmp(op, "kl", 2) == 0)
        return divergence(test, op, in);
    return strcmp(op, "expression") == 0 ? expression(test, in) : SG_NONE;
}

static void composed_losses(void **state)
{
    (void)state;
    golden_run_family("losses", 20, build);
}

int main(void)
{
    if (!golden_exists("losses")) {
        print_message("skipped: no golden/losses.json under $SG_SHARED or beside the source tree\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(composed_losses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
