/* elementwise.c - samples: operators that act on elements. Each is listed once and expanded over a list of shapes. */
#include "ops/samples/table_internal.h"

static void build_unary(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)scope;
    out[0] = s->unary(in[0]);
}

static void build_binary(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)scope;
    out[0] = s->binary(in[0], in[1]);
}

static sg_value leaky_relu(sg_value x) { return sg_leaky_relu(x, 0.1); }
static sg_value elu(sg_value x) { return sg_elu(x, 0.7); }
static sg_value gelu_derivative(sg_value x) { return sg_build(x.graph, sg_op_find("gelu_derivative"), &x, 1, NULL); }
static sg_value clip(sg_value x) { return sg_clip(x, -1, 1); }

/* The cotangent behind a gelu and its sum over rows, the gradient of a bias, which may be one node; in one body with a second
 * result that others read; both. */
static sg_value behind_gelu(const sg_value *in) { return sg_mul(in[1], gelu_derivative(in[0])); }
static sg_value over_rows(sg_value x) { return sg_sum(sg_cast(x, SG_F32), 0); }

static void gelu_sums(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    out[0] = behind_gelu(in);
    out[1] = over_rows(out[0]);
}

static void gelu_sums_of_steps(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    out[0] = behind_gelu(in);
    out[1] = over_rows(sg_square(out[0]));
}

static void gelu_sums_read(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    sg_value g = behind_gelu(in);
    out[0] = sg_softplus(g);
    out[1] = over_rows(g);
    out[2] = sg_sum(sg_cast(g, SG_F32), -1);
}

static void gelu_read(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    out[0] = behind_gelu(in);
    out[1] = sg_tanh(out[0]);
}

BUILD(where3, sg_where(in[0], in[1], in[2]))
BUILD(logical_not, sg_logical_not(in[0]))
BUILD(cast_real, sg_cast(in[0], SG_F32))
BUILD(cast_double, sg_cast(in[0], SG_F64))
BUILD(cast_index, sg_cast(in[0], SG_I32))
BUILD(exp_large, sg_exp(in[0]))
BUILD(mul_large, sg_mul(in[0], in[1]))

/* clang-format off */
#define UNARY_AT(text_, shape_, op_, build_, fill_, low_, high_, flat_)                                                \
    {op_, "", text_, 1, 1, {{.dtype = SG_F32, .shape = shape_, .fill = fill_, .low = low_, .high = high_}},            \
     .build = build_unary, .unary = build_, .flat = flat_}
#define UNARY(...)                                                                                                     \
    UNARY_AT("[]", S0, __VA_ARGS__), UNARY_AT("[1]", S1(1), __VA_ARGS__), UNARY_AT("[3]", S1(3), __VA_ARGS__),         \
    UNARY_AT("[33]", S1(33), __VA_ARGS__), UNARY_AT("[2, 5]", S2(2, 5), __VA_ARGS__),                                  \
    UNARY_AT("[2, 0, 3]", S3(2, 0, 3), __VA_ARGS__)

/* `a_` and `b_` are names of fills. */
#define BINARY_AT(text_, a_shape_, b_shape_, op_, build_, a_, b_, flat_)                                               \
    {op_, "", text_, 2, 1, {{.shape = a_shape_, FILL_##a_}, {.shape = b_shape_, FILL_##b_}},                           \
     .build = build_binary, .binary = build_, .flat = flat_}
#define BINARY(...)                                                                                                    \
    BINARY_AT("[]", S0, S0, __VA_ARGS__), BINARY_AT("[33]", S1(33), S1(33), __VA_ARGS__),                              \
    BINARY_AT("[3, 5]", S2(3, 5), S1(5), __VA_ARGS__), BINARY_AT("[3, 4]", S2(3, 1), S2(1, 4), __VA_ARGS__),           \
    BINARY_AT("[2, 3]", S0, S2(2, 3), __VA_ARGS__), BINARY_AT("[2, 4, 3]", S3(2, 1, 3), S3(2, 4, 1), __VA_ARGS__),     \
    BINARY_AT("[0, 3]", S2(0, 3), S1(3), __VA_ARGS__), BINARY_AT("[1, 1]", S2(1, 1), S1(1), __VA_ARGS__)
#define FILL_APART .fill = SG_FILL_DISTINCT
#define FILL_BIT .dtype = SG_BOOL, .fill = SG_FILL_FLAG
#define FILL_ANY .fill = SG_FILL_UNIFORM, .low = -2, .high = 2
#define FILL_BASE .fill = SG_FILL_UNIFORM, .low = 0.5, .high = 2
#define FILL_DIVISOR .fill = SG_FILL_AWAY, .low = 0.5, .high = 2
#define FILL_WEIGHT .fill = SG_FILL_UNIFORM, .low = 0.2, .high = 2
#define FILL_POSITIVE .fill = SG_FILL_UNIFORM, .low = 0.4, .high = 3
#define FILL_LOGIT .fill = SG_FILL_UNIFORM, .low = -4, .high = 4
#define FILL_TARGET .fill = SG_FILL_UNIFORM, .low = 0, .high = 1

static const sg_sample rows[] = {
    UNARY("neg", sg_neg, SG_FILL_UNIFORM, -2, 2, false),
    UNARY("abs", sg_abs, SG_FILL_AWAY, 0.2, 2, false),
    UNARY("sign", sg_sign, SG_FILL_AWAY, 0.2, 2, true),
    UNARY("floor", sg_floor, SG_FILL_FRACTION, -3, 3, true),
    UNARY("exp", sg_exp, SG_FILL_UNIFORM, -2, 1.5, false),
    UNARY("expm1", sg_expm1, SG_FILL_UNIFORM, -1.5, 1.5, false),
    UNARY("log", sg_log, SG_FILL_UNIFORM, 0.4, 3, false),
    UNARY("log1p", sg_log1p, SG_FILL_UNIFORM, -0.5, 3, false),
    UNARY("sqrt", sg_sqrt, SG_FILL_UNIFORM, 0.4, 3, false),
    UNARY("rsqrt", sg_rsqrt, SG_FILL_UNIFORM, 0.4, 3, false),
    UNARY("square", sg_square, SG_FILL_UNIFORM, -2, 2, false),
    UNARY("reciprocal", sg_reciprocal, SG_FILL_AWAY, 0.5, 2, false),
    UNARY("sin", sg_sin, SG_FILL_UNIFORM, -3, 3, false),
    UNARY("cos", sg_cos, SG_FILL_UNIFORM, -3, 3, false),
    UNARY("tanh", sg_tanh, SG_FILL_UNIFORM, -2, 2, false),
    UNARY("erf", sg_erf, SG_FILL_UNIFORM, -2, 2, false),
    UNARY("erfc", sg_erfc, SG_FILL_UNIFORM, -2, 2, false),
    UNARY("sigmoid", sg_sigmoid, SG_FILL_UNIFORM, -4, 4, false),
    UNARY("log_sigmoid", sg_log_sigmoid, SG_FILL_UNIFORM, -4, 4, false),
    UNARY("softplus", sg_softplus, SG_FILL_UNIFORM, -4, 4, false),
    UNARY("relu", sg_relu, SG_FILL_AWAY, 0.2, 2, false),
    UNARY("leaky_relu", leaky_relu, SG_FILL_AWAY, 0.2, 2, false),
    UNARY("elu", elu, SG_FILL_AWAY, 0.2, 2, false),
    UNARY("gelu", sg_gelu, SG_FILL_UNIFORM, -2, 2, false),
    UNARY("gelu_derivative", gelu_derivative, SG_FILL_UNIFORM, -2, 2, false),
    UNARY("gelu_tanh", sg_gelu_tanh, SG_FILL_UNIFORM, -2, 2, false),
    UNARY("clip", clip, SG_FILL_FRACTION, -3, 3, false),
    UNARY("is_finite", sg_is_finite, SG_FILL_UNIFORM, -2, 2, true),
    UNARY("stop_gradient", sg_stop_gradient, SG_FILL_UNIFORM, -2, 2, true),

    BINARY("add", sg_add, ANY, ANY, false),
    BINARY("sub", sg_sub, ANY, ANY, false),
    BINARY("mul", sg_mul, ANY, ANY, false),
    BINARY("div", sg_div, ANY, DIVISOR, false),
    BINARY("pow", sg_pow, BASE, ANY, false),
    BINARY("maximum", sg_maximum, APART, APART, false),
    BINARY("minimum", sg_minimum, APART, APART, false),
    BINARY("xlogy", sg_xlogy, WEIGHT, POSITIVE, false),
    BINARY("logaddexp", sg_logaddexp, APART, APART, false),
    BINARY("bce_with_logits", sg_bce_with_logits, LOGIT, TARGET, false),
    BINARY("equal", sg_equal, APART, APART, true),
    BINARY("not_equal", sg_not_equal, APART, APART, true),
    BINARY("less", sg_less, APART, APART, true),
    BINARY("less_equal", sg_less_equal, APART, APART, true),
    BINARY("greater", sg_greater, APART, APART, true),
    BINARY("greater_equal", sg_greater_equal, APART, APART, true),
    BINARY("logical_and", sg_logical_and, BIT, BIT, true),
    BINARY("logical_or", sg_logical_or, BIT, BIT, true),

    {"where", "", "[33]", 3, 1, {FLAG(S1(33)), REAL(S1(33), -2, 2), REAL(S1(33), -2, 2)}, .build = where3},
    {"where", "", "[3, 4]", 3, 1, {FLAG(S2(3, 1)), REAL(S2(1, 4), -2, 2), REAL(S0, -2, 2)}, .build = where3},
    {"where", "", "[0, 4]", 3, 1, {FLAG(S2(0, 1)), REAL(S1(4), -2, 2), REAL(S0, -2, 2)}, .build = where3},
    {"logical_not", "", "[3]", 1, 1, {FLAG(S1(3))}, .build = logical_not, .flat = true},
    {"logical_not", "", "[0]", 1, 1, {FLAG(S1(0))}, .build = logical_not, .flat = true},
    {"cast", "bool to f32", "[5]", 1, 1, {FLAG(S1(5))}, .build = cast_real, .flat = true},
    {"cast", "i32 to f32", "[5]", 1, 1, {INDEX(S1(5), -9, 9)}, .build = cast_real, .flat = true},
    {"cast", "f32 to i32", "[5]", 1, 1, {FRACTION(S1(5), -3, 3)}, .build = cast_index, .flat = true},
    {"cast", "f32 to f64", "[2, 3]", 1, 1, {REAL(S2(2, 3), -2, 2)}, .build = cast_double, .reference_only = true},
    {"exp", "large", "[301, 257]", 1, 1, {REAL(S2(301, 257), -2, 1)}, .build = exp_large, .large = true},
    {"mul", "large", "[301, 257]", 2, 1, {REAL(S2(301, 257), -1, 1), REAL(S1(257), -1, 1)}, .build = mul_large, .large = true},
    {"exp", "odd size", "[4099]", 1, 1, {REAL(S1(4099), -2, 1)}, .build = exp_large, .large = true},
    {"mul", "odd size, by row", "[515, 7]", 2, 1, {REAL(S2(515, 7), -1, 1), REAL(S2(515, 1), -1, 1)}, .build = mul_large, .large = true},
    {"mul", "odd size, from within", "[3, 515, 5]", 2, 1, {REAL(S3(3, 1, 5), -1, 1), REAL(S2(515, 1), -1, 1)}, .build = mul_large, .large = true},
#define BEHIND_GELU(rows, columns) {REAL(S2(rows, columns), -3, 3), REAL(S2(rows, columns), -1, 1)}
    {"gelu_derivative", "summed over rows", "[3, 1024]", 2, 2, BEHIND_GELU(3, 1024), .build = gelu_sums, .large = true},
    {"gelu_derivative", "summed over rows", "[21, 1280]", 2, 2, BEHIND_GELU(21, 1280), .build = gelu_sums, .large = true},
    {"gelu_derivative", "summed over rows", "[1027, 5]", 2, 2, BEHIND_GELU(1027, 5), .build = gelu_sums, .large = true},
    {"gelu_derivative", "summed over rows, also read", "[5, 1024]", 2, 3, BEHIND_GELU(5, 1024), .build = gelu_sums_read, .large = true},
    {"gelu_derivative", "its squares summed over rows", "[5, 1024]", 2, 2, BEHIND_GELU(5, 1024), .build = gelu_sums_of_steps, .large = true},
    {"gelu_derivative", "also read", "[5, 1024]", 2, 2, BEHIND_GELU(5, 1024), .build = gelu_read, .large = true},
};
/* clang-format on */

const sg_sample_table sg_samples_elementwise = TABLE(rows);
