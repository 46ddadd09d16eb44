/* reduce.c - samples: sums, means, extremes, products and running sums along axes. */
#include "ops/samples/table_internal.h"

BUILD(sum_all, sg_sum_all(in[0]))
BUILD(sum_last, sg_sum(in[0], -1))
BUILD(sum_first_keep, sg_sum_axes(in[0], SG_AXES(0), true))
BUILD(sum_middle, sg_sum(in[0], 1))
BUILD(sum_outer, sg_sum_axes(in[0], SG_AXES(0, 2), false))
BUILD(sum_outer_keep, sg_sum_axes(in[0], SG_AXES(0, -1), true))
BUILD(sum_inner, sg_sum_axes(in[0], SG_AXES(1, 2), false))
BUILD(sum_turned, sg_sum(sg_transpose(in[0], SG_AXES(1, 0)), -1))
BUILD(sum_columns, sg_sum(sg_slice(in[0], 1, 1, -2), 0))
BUILD(sum_by_row, sg_sum(sg_mul(in[0], in[1]), -1))
BUILD(sum_by_column, sg_sum(sg_mul(in[0], in[1]), -2))
BUILD(sum_of_steps, sg_sum(sg_mul(sg_tanh(in[0]), in[1]), -1))
BUILD(sum_of_steps_down, sg_sum(sg_mul(sg_tanh(in[0]), in[1]), 0))
BUILD(mean_last, sg_mean(in[0], -1))
BUILD(mean_first, sg_mean(in[0], 0))
BUILD(mean_all, sg_mean_all(in[0]))
BUILD(max_last, sg_max(in[0], -1, false))
BUILD(max_first_keep, sg_max(in[0], 0, true))
BUILD(max_middle, sg_max(in[0], 1, false))
BUILD(min_last_keep, sg_min(in[0], -1, true))
BUILD(min_first, sg_min(in[0], 0, false))
BUILD(prod_last, sg_prod(in[0], -1, false))
BUILD(prod_middle_keep, sg_prod(in[0], 1, true))
BUILD(argmax_last, sg_argmax(in[0], -1))
BUILD(argmax_first, sg_argmax(in[0], 0))
BUILD(logsumexp_last, sg_logsumexp(in[0], -1, false))
BUILD(logsumexp_first_keep, sg_logsumexp(in[0], 0, true))
BUILD(logsumexp_middle, sg_logsumexp(in[0], 1, false))
BUILD(cumsum_last, sg_cumsum(in[0], -1))
BUILD(cumsum_first, sg_cumsum(in[0], 0))
BUILD(cumsum_middle, sg_cumsum(in[0], 1))

/* clang-format off */
static const sg_sample rows[] = {
    {"sum", "all", "[]", 1, 1, {REAL(S3(2, 3, 4), -1, 1)}, .build = sum_all},
    {"sum", "all", "[]", 1, 1, {REAL(S2(33, 33), -1, 1)}, .build = sum_all},
    {"sum", "last", "[3, 5]", 1, 1, {REAL(S3(3, 5, 33), -1, 1)}, .build = sum_last},
    {"sum", "first", "[1, 33]", 1, 1, {REAL(S2(3, 33), -1, 1)}, .build = sum_first_keep},
    {"sum", "middle", "[2, 4]", 1, 1, {REAL(S3(2, 3, 4), -1, 1)}, .build = sum_middle},
    {"sum", "outer", "[3]", 1, 1, {REAL(S3(2, 3, 4), -1, 1)}, .build = sum_outer},
    {"sum", "outer", "[1, 3, 1]", 1, 1, {REAL(S3(2, 3, 4), -1, 1)}, .build = sum_outer_keep},
    {"sum", "empty", "[2, 3]", 1, 1, {REAL(S3(2, 0, 3), -1, 1)}, .build = sum_middle},
    {"mean", "last", "[3]", 1, 1, {REAL(S2(3, 33), -1, 1)}, .build = mean_last},
    {"mean", "first", "[4]", 1, 1, {REAL(S2(3, 4), -1, 1)}, .build = mean_first},
    {"mean", "all", "[]", 1, 1, {REAL(S3(2, 3, 4), -1, 1)}, .build = mean_all},
    {"mean", "one", "[1]", 1, 1, {REAL(S2(1, 1), -1, 1)}, .build = mean_last},
    {"mean", "other axis empty", "[0]", 1, 1, {REAL(S2(0, 3), -1, 1)}, .build = mean_last},
    {"max", "last", "[3]", 1, 1, {DISTINCT(S2(3, 33))}, .build = max_last},
    {"max", "first", "[1, 4]", 1, 1, {DISTINCT(S2(3, 4))}, .build = max_first_keep},
    {"max", "middle", "[2, 4]", 1, 1, {DISTINCT(S3(2, 3, 4))}, .build = max_middle},
    {"max", "one", "[1]", 1, 1, {DISTINCT(S2(1, 1))}, .build = max_last},
    {"max", "other axis empty", "[0]", 1, 1, {DISTINCT(S2(0, 3))}, .build = max_last},
    {"min", "last", "[3, 1]", 1, 1, {DISTINCT(S2(3, 33))}, .build = min_last_keep},
    {"min", "first", "[4]", 1, 1, {DISTINCT(S2(3, 4))}, .build = min_first},
    {"prod", "last", "[3]", 1, 1, {AWAY(S2(3, 5), 0.5, 1.5)}, .build = prod_last},
    {"prod", "middle", "[2, 1, 2]", 1, 1, {AWAY(S3(2, 3, 2), 0.5, 1.5)}, .build = prod_middle_keep},
    {"prod", "zeros", "[3]", 1, 1, {GIVEN_F32(S2(3, 3), 1.5, 0, -0.5, 0, 0, 2, 0.5, 1, 2)}, .build = prod_last},
    {"prod", "one", "[1]", 1, 1, {AWAY(S2(1, 1), 0.5, 1.5)}, .build = prod_last},
    {"prod", "empty", "[2]", 1, 1, {REAL(S2(2, 0), 1, 2)}, .build = prod_last},
    {"argmax", "last", "[3]", 1, 1, {DISTINCT(S2(3, 33))}, .build = argmax_last, .flat = true},
    {"argmax", "first", "[4]", 1, 1, {DISTINCT(S2(3, 4))}, .build = argmax_first, .flat = true},
    {"argmax", "other axis empty", "[0]", 1, 1, {DISTINCT(S2(0, 4))}, .build = argmax_last, .flat = true},
    {"logsumexp", "last", "[3]", 1, 1, {REAL(S2(3, 33), -2, 2)}, .build = logsumexp_last},
    {"logsumexp", "first", "[1, 4]", 1, 1, {REAL(S2(3, 4), -2, 2)}, .build = logsumexp_first_keep},
    {"logsumexp", "middle", "[2, 4]", 1, 1, {REAL(S3(2, 3, 4), -2, 2)}, .build = logsumexp_middle},
    {"logsumexp", "one", "[1]", 1, 1, {REAL(S2(1, 1), -2, 2)}, .build = logsumexp_last},
    {"logsumexp", "empty", "[0]", 1, 1, {REAL(S2(0, 3), -2, 2)}, .build = logsumexp_last},
    {"cumsum", "last", "[3, 33]", 1, 1, {REAL(S2(3, 33), -1, 1)}, .build = cumsum_last},
    {"cumsum", "first", "[3, 4]", 1, 1, {REAL(S2(3, 4), -1, 1)}, .build = cumsum_first},
    {"cumsum", "middle", "[2, 3, 4]", 1, 1, {REAL(S3(2, 3, 4), -1, 1)}, .build = cumsum_middle},
    {"cumsum", "empty", "[3, 0]", 1, 1, {REAL(S2(3, 0), -1, 1)}, .build = cumsum_last},
    {"sum", "large, last", "[301]", 1, 1, {REAL(S2(301, 257), -1, 1)}, .build = sum_last, .large = true},
    {"sum", "large, first", "[1, 257]", 1, 1, {REAL(S2(301, 257), -1, 1)}, .build = sum_first_keep, .large = true},
    {"sum", "large, first of many", "[1, 64]", 1, 1, {REAL(S2(9001, 64), -1, 1)}, .build = sum_first_keep, .large = true},
    {"sum", "large, all", "[]", 1, 1, {REAL(S2(301, 257), -1, 1)}, .build = sum_all, .large = true},
    {"logsumexp", "large", "[301]", 1, 1, {REAL(S2(301, 257), -2, 2)}, .build = logsumexp_last, .large = true},
    {"sum", "long, all", "[]", 1, 1, {REAL(S1(20011), -1, 1)}, .build = sum_all, .large = true},
    {"sum", "long, last", "[2]", 1, 1, {REAL(S2(2, 17001), -1, 1)}, .build = sum_last, .large = true},
    {"sum", "long, last", "[1]", 1, 1, {REAL(S2(1, 1025), -1, 1)}, .build = sum_last, .large = true},
    {"sum", "short, last of many", "[5003]", 1, 1, {REAL(S2(5003, 3), -1, 1)}, .build = sum_last, .large = true},
    {"sum", "short, last of many", "[1030]", 1, 1, {REAL(S2(1030, 9), -1, 1)}, .build = sum_last, .large = true},
    {"sum", "long, first", "[1, 1]", 1, 1, {REAL(S2(4099, 1), -1, 1)}, .build = sum_first_keep, .large = true},
    {"sum", "long, first", "[1, 3]", 1, 1, {REAL(S2(5003, 3), -1, 1)}, .build = sum_first_keep, .large = true},
    {"sum", "short, first of many", "[1, 5003]", 1, 1, {REAL(S2(3, 5003), -1, 1)}, .build = sum_first_keep, .large = true},
    {"sum", "short, first of many", "[1, 2051]", 1, 1, {REAL(S2(9, 2051), -1, 1)}, .build = sum_first_keep, .large = true},
    {"sum", "long, middle", "[3, 5]", 1, 1, {REAL(S3(3, 1027, 5), -1, 1)}, .build = sum_middle, .large = true},
    {"sum", "long, middle", "[2, 1]", 1, 1, {REAL(S3(2, 2049, 1), -1, 1)}, .build = sum_middle, .large = true},
    {"sum", "long, outer", "[3]", 1, 1, {REAL(S3(65, 3, 67), -1, 1)}, .build = sum_outer, .large = true},
    {"sum", "long, inner", "[3]", 1, 1, {REAL(S3(3, 65, 67), -1, 1)}, .build = sum_inner, .large = true},
    {"sum", "long, turned", "[3]", 1, 1, {REAL(S2(2051, 3), -1, 1)}, .build = sum_turned, .large = true},
    {"sum", "long, of columns", "[4]", 1, 1, {REAL(S2(2051, 7), -1, 1)}, .build = sum_columns, .large = true},
    {"sum", "long, of steps", "[3]", 2, 1, {REAL(S2(3, 4099), -1, 1), REAL(S2(3, 4099), -1, 1)}, .build = sum_of_steps, .large = true},
    {"sum", "long, of steps", "[5]", 2, 1, {REAL(S2(2051, 5), -1, 1), REAL(S2(2051, 5), -1, 1)}, .build = sum_of_steps_down, .large = true},
    {"sum", "short, of steps", "[2051]", 2, 1, {REAL(S2(2051, 5), -1, 1), REAL(S1(5), -1, 1)}, .build = sum_of_steps, .large = true},
    {"sum", "long, by a row", "[515]", 2, 1, {REAL(S2(515, 65), -1, 1), REAL(S2(1, 65), -1, 1)}, .build = sum_by_row, .large = true},
    {"sum", "long, by a row", "[3, 2]", 2, 1, {REAL(S3(3, 2, 1027), -1, 1), REAL(S3(3, 1, 1027), -1, 1)}, .build = sum_by_row, .large = true},
    {"sum", "long, by a column", "[33]", 2, 1, {REAL(S2(1027, 33), -1, 1), REAL(S2(1027, 1), -1, 1)}, .build = sum_by_column, .large = true},
    {"mean", "long, last", "[3]", 1, 1, {REAL(S2(3, 5003), -1, 1)}, .build = mean_last, .large = true},
    {"mean", "long, first", "[3]", 1, 1, {REAL(S2(5003, 3), -1, 1)}, .build = mean_first, .large = true},
    {"max", "long, last", "[2]", 1, 1, {REAL(S2(2, 17001), -1, 1)}, .build = max_last, .large = true},
    {"max", "long, first", "[1, 3]", 1, 1, {REAL(S2(5003, 3), -1, 1)}, .build = max_first_keep, .large = true},
    {"max", "long, middle", "[3, 5]", 1, 1, {REAL(S3(3, 1027, 5), -1, 1)}, .build = max_middle, .large = true},
    {"max", "short, last of many", "[2051]", 1, 1, {REAL(S2(2051, 3), -1, 1)}, .build = max_last, .large = true},
    {"min", "long, last", "[1, 1]", 1, 1, {REAL(S2(1, 4099), -1, 1)}, .build = min_last_keep, .large = true},
    {"min", "short, first of many", "[2051]", 1, 1, {REAL(S2(3, 2051), -1, 1)}, .build = min_first, .large = true},
    {"prod", "long, last", "[3]", 1, 1, {REAL(S2(3, 131), 0.9, 1.1)}, .build = prod_last, .large = true},
    {"prod", "long, middle", "[3, 1, 2]", 1, 1, {REAL(S3(3, 67, 2), 0.9, 1.1)}, .build = prod_middle_keep, .large = true},
    {"argmax", "long, last", "[2]", 1, 1, {REAL(S2(2, 17001), -1, 1)}, .build = argmax_last, .flat = true, .large = true},
    {"argmax", "long, first", "[3]", 1, 1, {REAL(S2(5003, 3), -1, 1)}, .build = argmax_first, .flat = true, .large = true},
    {"logsumexp", "long, last", "[2]", 1, 1, {REAL(S2(2, 33001), -2, 2)}, .build = logsumexp_last, .large = true},
    {"logsumexp", "long, last", "[3]", 1, 1, {REAL(S2(3, 1025), -2, 2)}, .build = logsumexp_last, .large = true},
    {"logsumexp", "long, first", "[1, 3]", 1, 1, {REAL(S2(2051, 3), -2, 2)}, .build = logsumexp_first_keep, .large = true},
    {"logsumexp", "long, middle", "[3, 5]", 1, 1, {REAL(S3(3, 1027, 5), -2, 2)}, .build = logsumexp_middle, .large = true},
    {"logsumexp", "short, last of many", "[2051]", 1, 1, {REAL(S2(2051, 2), -2, 2)}, .build = logsumexp_last, .large = true},
    {"cumsum", "long, last", "[3, 4099]", 1, 1, {REAL(S2(3, 4099), -1, 1)}, .build = cumsum_last, .large = true},
    {"cumsum", "long, first", "[2051, 3]", 1, 1, {REAL(S2(2051, 3), -1, 1)}, .build = cumsum_first, .large = true},
    {"cumsum", "long, middle", "[3, 1027, 5]", 1, 1, {REAL(S3(3, 1027, 5), -1, 1)}, .build = cumsum_middle, .large = true},
    {"cumsum", "short, last of many", "[2051, 3]", 1, 1, {REAL(S2(2051, 3), -1, 1)}, .build = cumsum_last, .large = true},
};
/* clang-format on */

const sg_sample_table sg_samples_reduce = TABLE(rows);
