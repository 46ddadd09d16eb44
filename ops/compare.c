/* compare.c - comparisons and logic. BOOL results, zero derivative. A comparison with NaN is false, but for
 * not_equal. */
#include "ops/ops_internal.h"

#include <math.h>

#define COMPARISON(NAME, SUMMARY, FLAGS, OPERATOR)                                                                     \
    SG_EVAL_BINARY(NAME##_eval, a OPERATOR b)                                                                          \
    SG_BINARY_OP(NAME, SUMMARY, SG_OP_ZERO_GRAD | (FLAGS), 0, sg_infer_compare, NAME##_eval, NULL)

COMPARISON(equal, "a = b", SG_OP_COMMUTATIVE, ==)
COMPARISON(not_equal, "a != b", SG_OP_COMMUTATIVE, !=)
COMPARISON(less, "a < b", 0, <)
COMPARISON(less_equal, "a <= b", 0, <=)
COMPARISON(greater, "a > b", 0, >)
COMPARISON(greater_equal, "a >= b", 0, >=)

SG_EVAL_BINARY(logical_and_eval, a != 0 && b != 0)
SG_BINARY_OP(logical_and, "a and b", SG_OP_ZERO_GRAD | SG_OP_COMMUTATIVE, 0, sg_infer_logical, logical_and_eval, NULL)

SG_EVAL_BINARY(logical_or_eval, a != 0 || b != 0)
SG_BINARY_OP(logical_or, "a or b", SG_OP_ZERO_GRAD | SG_OP_COMMUTATIVE, 0, sg_infer_logical, logical_or_eval, NULL)

SG_EVAL_UNARY(logical_not_eval, x == 0)
const sg_op sg_op_logical_not = {
    .name = "logical_not",
    .summary = "not a",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_ELEMENTWISE | SG_OP_ZERO_GRAD,
    .infer = sg_infer_logical,
    .eval = logical_not_eval,
};

sg_value sg_logical_not(sg_value x) { return sg_build_unary(&sg_op_logical_not, x); }

static sg_status is_finite_infer(const sg_infer_args *args)
{
    SG_TRY(sg_infer_unary(args));
    args->out_dtype[0] = SG_BOOL;
    return SG_OK;
}

SG_EVAL_UNARY(is_finite_eval, isfinite(x) ? 1 : 0)
const sg_op sg_op_is_finite = {
    .name = "is_finite",
    .summary = "x is neither infinite nor NaN",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_ELEMENTWISE | SG_OP_ZERO_GRAD,
    .infer = is_finite_infer,
    .eval = is_finite_eval,
};

sg_value sg_is_finite(sg_value x) { return sg_build_unary(&sg_op_is_finite, x); }
