/* op_samples.c - the table. Elementwise operators are listed once and expanded over a list of shapes; the others are
 * written out. */
#include "tests/support/op_samples.h"

#include <stdio.h>
#include <string.h>

#include "ops/ops.h"
#include "tests/support/graph_run.h"

/* Tables and the macros that write them keep one row a line. */
/* clang-format off */
#define REAL(shape_, low_, high_) {.dtype = SG_F32, .shape = shape_, .fill = FILL_UNIFORM, .low = low_, .high = high_}
#define AWAY(shape_, low_, high_) {.dtype = SG_F32, .shape = shape_, .fill = FILL_AWAY, .low = low_, .high = high_}
#define DISTINCT(shape_) {.dtype = SG_F32, .shape = shape_, .fill = FILL_DISTINCT}
#define FRACTION(shape_, low_, high_) {.dtype = SG_F32, .shape = shape_, .fill = FILL_FRACTION, .low = low_, .high = high_}
#define FLAG(shape_) {.dtype = SG_BOOL, .shape = shape_, .fill = FILL_FLAG}
#define INDEX(shape_, low_, high_) {.dtype = SG_I32, .shape = shape_, .fill = FILL_INDEX, .low = low_, .high = high_}
#define GIVEN_I32(shape_, ...) {.dtype = SG_I32, .shape = shape_, .fill = FILL_GIVEN, .given = (const double[]){__VA_ARGS__}}
#define GIVEN_F32(shape_, ...) {.dtype = SG_F32, .shape = shape_, .fill = FILL_GIVEN, .given = (const double[]){__VA_ARGS__}}
/* Shapes as constant expressions, so that the table is static. */
#define S0 {.rank = 0}
#define S1(a) {.rank = 1, .dim = {a}}
#define S2(a, b) {.rank = 2, .dim = {a, b}}
#define S3(a, b, c) {.rank = 3, .dim = {a, b, c}}
#define S4(a, b, c, d) {.rank = 4, .dim = {a, b, c, d}}
/* clang-format on */

/* --------------------------------------------------------------------------------------- elementwise, one input */

static void build_unary(const op_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)scope;
    out[0] = s->unary(in[0]);
}

static sg_value leaky_relu(sg_value x) { return sg_leaky_relu(x, 0.1); }
static sg_value elu(sg_value x) { return sg_elu(x, 0.7); }
static sg_value clip(sg_value x) { return sg_clip(x, -1, 1); }

typedef struct unary_row {
    const char *op;
    sg_value (*build)(sg_value);
    sample_fill fill;
    double low, high;
    bool flat;
} unary_row;

/* clang-format off */
static const unary_row unary_rows[] = {
    {"neg", sg_neg, FILL_UNIFORM, -2, 2, false},
    {"abs", sg_abs, FILL_AWAY, 0.2, 2, false},
    {"sign", sg_sign, FILL_AWAY, 0.2, 2, true},
    {"floor", sg_floor, FILL_FRACTION, -3, 3, true},
    {"exp", sg_exp, FILL_UNIFORM, -2, 1.5, false},
    {"expm1", sg_expm1, FILL_UNIFORM, -1.5, 1.5, false},
    {"log", sg_log, FILL_UNIFORM, 0.4, 3, false},
    {"log1p", sg_log1p, FILL_UNIFORM, -0.5, 3, false},
    {"sqrt", sg_sqrt, FILL_UNIFORM, 0.4, 3, false},
    {"rsqrt", sg_rsqrt, FILL_UNIFORM, 0.4, 3, false},
    {"square", sg_square, FILL_UNIFORM, -2, 2, false},
    {"reciprocal", sg_reciprocal, FILL_AWAY, 0.5, 2, false},
    {"sin", sg_sin, FILL_UNIFORM, -3, 3, false},
    {"cos", sg_cos, FILL_UNIFORM, -3, 3, false},
    {"tanh", sg_tanh, FILL_UNIFORM, -2, 2, false},
    {"erf", sg_erf, FILL_UNIFORM, -2, 2, false},
    {"erfc", sg_erfc, FILL_UNIFORM, -2, 2, false},
    {"sigmoid", sg_sigmoid, FILL_UNIFORM, -4, 4, false},
    {"log_sigmoid", sg_log_sigmoid, FILL_UNIFORM, -4, 4, false},
    {"softplus", sg_softplus, FILL_UNIFORM, -4, 4, false},
    {"relu", sg_relu, FILL_AWAY, 0.2, 2, false},
    {"leaky_relu", leaky_relu, FILL_AWAY, 0.2, 2, false},
    {"elu", elu, FILL_AWAY, 0.2, 2, false},
    {"gelu", sg_gelu, FILL_UNIFORM, -2, 2, false},
    {"gelu_tanh", sg_gelu_tanh, FILL_UNIFORM, -2, 2, false},
    {"clip", clip, FILL_FRACTION, -3, 3, false},
    {"is_finite", sg_is_finite, FILL_UNIFORM, -2, 2, true},
    {"stop_gradient", sg_stop_gradient, FILL_UNIFORM, -2, 2, true},
};
/* clang-format on */

static const struct unary_shape {
    sg_shape shape;
    const char *text;
} unary_shapes[] = {
    {S0, "[]"}, {S1(1), "[1]"}, {S1(3), "[3]"}, {S1(33), "[33]"}, {S2(2, 5), "[2, 5]"}, {S3(2, 0, 3), "[2, 0, 3]"},
};

/* -------------------------------------------------------------------------------- elementwise, two and three inputs */

static void build_binary(const op_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)scope;
    out[0] = s->binary(in[0], in[1]);
}

typedef struct binary_row {
    const char *op;
    sg_value (*build)(sg_value, sg_value);
    sample_input a, b;
    bool flat;
} binary_row;

#define ANY2 REAL(S0, -2, 2), REAL(S0, -2, 2)
#define APART2 DISTINCT(S0), DISTINCT(S0)
#define FLAG2 FLAG(S0), FLAG(S0)
static const binary_row binary_rows[] = {
    {"add", sg_add, ANY2, false},
    {"sub", sg_sub, ANY2, false},
    {"mul", sg_mul, ANY2, false},
    {"div", sg_div, REAL(S0, -2, 2), AWAY(S0, 0.5, 2), false},
    {"pow", sg_pow, REAL(S0, 0.5, 2), REAL(S0, -2, 2), false},
    {"maximum", sg_maximum, APART2, false},
    {"minimum", sg_minimum, APART2, false},
    {"xlogy", sg_xlogy, REAL(S0, 0.2, 2), REAL(S0, 0.4, 3), false},
    {"bce_with_logits", sg_bce_with_logits, REAL(S0, -4, 4), REAL(S0, 0, 1), false},
    {"equal", sg_equal, APART2, true},
    {"not_equal", sg_not_equal, APART2, true},
    {"less", sg_less, APART2, true},
    {"less_equal", sg_less_equal, APART2, true},
    {"greater", sg_greater, APART2, true},
    {"greater_equal", sg_greater_equal, APART2, true},
    {"logical_and", sg_logical_and, FLAG2, true},
    {"logical_or", sg_logical_or, FLAG2, true},
};

static const struct binary_shape {
    sg_shape a, b;
    const char *text;
} binary_shapes[] = {
    {S0, S0, "[]"},
    {S1(33), S1(33), "[33]"},
    {S2(3, 5), S1(5), "[3, 5]"},
    {S2(3, 1), S2(1, 4), "[3, 4]"},
    {S0, S2(2, 3), "[2, 3]"},
    {S3(2, 1, 3), S3(2, 4, 1), "[2, 4, 3]"},
    {S2(0, 3), S1(3), "[0, 3]"},
    {S2(1, 1), S1(1), "[1, 1]"},
};

/* ------------------------------------------------------------------------------------------------- all others */

#define BUILD(name, ...)                                                                                               \
    static void name(const op_sample *s, sg_scope scope, const sg_value *in, sg_value *out)                            \
    {                                                                                                                  \
        (void)s, (void)scope, (void)in;                                                                                \
        out[0] = (__VA_ARGS__);                                                                                        \
    }

BUILD(where3, sg_where(in[0], in[1], in[2]))
BUILD(logical_not, sg_logical_not(in[0]))
BUILD(cast_real, sg_cast(in[0], SG_F32))
BUILD(cast_double, sg_cast(in[0], SG_F64))
BUILD(cast_index, sg_cast(in[0], SG_I32))

BUILD(sum_all, sg_sum_all(in[0]))
BUILD(sum_last, sg_sum(in[0], -1))
BUILD(sum_first_keep, sg_sum_axes(in[0], SG_AXES(0), true))
BUILD(sum_middle, sg_sum(in[0], 1))
BUILD(sum_outer, sg_sum_axes(in[0], SG_AXES(0, 2), false))
BUILD(sum_outer_keep, sg_sum_axes(in[0], SG_AXES(0, -1), true))
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

BUILD(reshape_infer, sg_reshape(in[0], SG_SHAPE(3, -1)))
BUILD(reshape_keep, sg_reshape(in[0], SG_SHAPE(0, 2, -1)))
BUILD(reshape_flat, sg_reshape(in[0], SG_SHAPE(-1)))
BUILD(transpose_2d, sg_transpose(in[0], SG_AXES(1, 0)))
BUILD(transpose_3d, sg_transpose(in[0], SG_AXES(2, 0, 1)))
BUILD(transpose_4d, sg_transpose(in[0], SG_AXES(0, 2, 1, 3)))
BUILD(broadcast_like, sg_broadcast_like(in[0], in[1]))
BUILD(sum_like, sg_sum_like(in[0], in[1]))
BUILD(reshape_like, sg_reshape_like(in[0], in[1]))
BUILD(tile_first, sg_tile_axis(in[0], 0, 3))
BUILD(tile_last, sg_tile_axis(in[0], -1, 4))
BUILD(tile_none, sg_tile_axis(in[0], 1, 0))
BUILD(concat_three, sg_concat(in, 3, 1))
BUILD(concat_first, sg_concat(in, 2, -2))
BUILD(slice_last, sg_slice(in[0], -1, 1, 3))
BUILD(slice_negative, sg_slice(in[0], 0, -3, -1))
BUILD(slice_middle, sg_slice(in[0], 1, 1, 2))
BUILD(slice_empty, sg_slice(in[0], 0, 1, 1))
BUILD(pad_last, sg_pad(in[0], -1, 2, 1))
BUILD(pad_first, sg_pad(in[0], 0, 0, 3))
BUILD(fill_like, sg_fill_like(in[0], 1.25))

BUILD(gather, sg_gather(in[0], in[1]))
BUILD(scatter_rows, sg_scatter_rows(in[0], in[1], in[2]))
BUILD(one_hot, sg_one_hot(in[0], 5))
BUILD(matmul, sg_matmul(in[0], in[1]))
BUILD(matmul_nt, sg_matmul_nt(in[0], in[1]))
BUILD(matmul_tn, sg_matmul_tn(in[0], in[1]))
BUILD(matmul_self, sg_matmul_nt(in[0], in[0]))

static sg_csr csr_of(const sg_value *in) { return (sg_csr){in[0], in[1], in[2], in[3], in[4], in[5]}; }

BUILD(exp_large, sg_exp(in[0]))
BUILD(mul_large, sg_mul(in[0], in[1]))
BUILD(csr_matmul, sg_csr_matmul(csr_of(in), in[6]))
BUILD(csr_t_matmul, sg_csr_t_matmul(csr_of(in), in[6]))
BUILD(csr_sddmm, sg_csr_sddmm(csr_of(in), in[6], in[7]))

BUILD(softmax_last, sg_softmax(in[0], -1))
BUILD(softmax_first, sg_softmax(in[0], 0))
BUILD(softmax_middle, sg_softmax(in[0], 1))
BUILD(log_softmax_last, sg_log_softmax(in[0], -1))
BUILD(log_softmax_middle, sg_log_softmax(in[0], 1))
BUILD(cross_entropy, sg_softmax_cross_entropy(in[0], in[1]))

BUILD(layer_norm_plain, sg_layer_norm(in[0], SG_NONE, SG_NONE, 1e-3))
BUILD(layer_norm_scaled, sg_layer_norm(in[0], in[1], SG_NONE, 1e-3))
BUILD(layer_norm_shifted, sg_layer_norm(in[0], SG_NONE, in[1], 1e-3))

static void layer_norm(const op_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)scope;
    out[0] = sg_layer_norm(in[0], in[1], in[2], 1e-3);
    for (int32_t k = 1; k < s->n_out; k++)
        out[k] = sg_output_of(out[0], k);
}

BUILD(uniform_like, sg_uniform_like(scope, in[0]))
BUILD(normal_like, sg_normal_like(scope, in[0]))
BUILD(bernoulli, sg_bernoulli(scope, in[0]))
BUILD(dropout, sg_dropout(scope, in[0], 0.3))

static void rng_advance(const op_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)in;
    sg_rng(scope);
    sg_rng_advance(scope);
    out[0] = sg_rng(scope);
}

static void adam_with(sg_value *out, const sg_value *in, double weight_decay, bool decoupled)
{
    sg_adam_state now = {in[0], in[1], in[2]};
    sg_adam_state next = sg_adam(now, in[3], in[4], in[5], 0.9, 0.99, 1e-3, weight_decay, decoupled);
    out[0] = next.p;
    out[1] = next.m;
    out[2] = next.v;
}

static void adamw(const op_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    adam_with(out, in, 0.1, true);
}

static void adam_l2(const op_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    adam_with(out, in, 0.1, false);
}

/* x <- tanh(x) + w, twice: w is captured. */
static void loop_body(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)body;
    next[0] = sg_add(sg_tanh(state[0]), *(const sg_value *)user);
}

static void repeat(const op_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s;
    sg_value w = in[1];
    sg_repeat(scope.graph, 2, loop_body, &w, in, 1, out, false);
}

/* clang-format off */
/* The matrix of the CSR samples, 4 x 5 with 6 non-zeros in a capacity of 8 and an empty row:
 *     row 0: columns 1, 3;  row 1: none;  row 2: columns 0, 1, 4;  row 3: column 3. */
#define CSR_INPUTS                                                                                                     \
    REAL(S1(8), -1, 1), GIVEN_I32(S1(8), 1, 3, 0, 1, 4, 3, 0, 0), GIVEN_I32(S1(5), 0, 2, 2, 5, 6),                     \
        GIVEN_I32(S1(8), 2, 0, 2, 0, 3, 2, 0, 0), GIVEN_I32(S1(8), 2, 0, 3, 1, 5, 4, 0, 0),                            \
        GIVEN_I32(S1(6), 0, 1, 3, 3, 5, 6)
#define CSR_EMPTY                                                                                                      \
    REAL(S1(2), -1, 1), GIVEN_I32(S1(2), 0, 0), GIVEN_I32(S1(4), 0, 0, 0, 0), GIVEN_I32(S1(2), 0, 0),                  \
        GIVEN_I32(S1(2), 0, 0), GIVEN_I32(S1(6), 0, 0, 0, 0, 0, 0)

/* Only the shape of a model counts; its elements are nobody's business. */
#define MODEL(shape_) {.dtype = SG_F32, .shape = shape_, .fill = FILL_UNIFORM, .low = -1, .high = 1, .constant = true}
#define ADAM_INPUTS(S, ...)                                                                                            \
    REAL(S(__VA_ARGS__), -1, 1), REAL(S(__VA_ARGS__), -1, 1), REAL(S(__VA_ARGS__), 0.3, 1),                            \
        REAL(S(__VA_ARGS__), -1, 1), REAL(S0, 0.1, 0.3), REAL(S0, 2, 3)

static const op_sample written[] = {
    {"where", "", "[33]", 3, 1, {FLAG(S1(33)), REAL(S1(33), -2, 2), REAL(S1(33), -2, 2)}, .build = where3},
    {"where", "", "[3, 4]", 3, 1, {FLAG(S2(3, 1)), REAL(S2(1, 4), -2, 2), REAL(S0, -2, 2)}, .build = where3},
    {"where", "", "[0, 4]", 3, 1, {FLAG(S2(0, 1)), REAL(S1(4), -2, 2), REAL(S0, -2, 2)}, .build = where3},
    {"logical_not", "", "[3]", 1, 1, {FLAG(S1(3))}, .build = logical_not, .flat = true},
    {"logical_not", "", "[0]", 1, 1, {FLAG(S1(0))}, .build = logical_not, .flat = true},
    {"cast", "bool to f32", "[5]", 1, 1, {FLAG(S1(5))}, .build = cast_real, .flat = true},
    {"cast", "i32 to f32", "[5]", 1, 1, {INDEX(S1(5), -9, 9)}, .build = cast_real, .flat = true},
    {"cast", "f32 to i32", "[5]", 1, 1, {FRACTION(S1(5), -3, 3)}, .build = cast_index, .flat = true},
    {"cast", "f32 to f64", "[2, 3]", 1, 1, {REAL(S2(2, 3), -2, 2)}, .build = cast_double, .reference_only = true},

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

    {"reshape", "", "[3, 4]", 1, 1, {REAL(S2(2, 6), -1, 1)}, .build = reshape_infer},
    {"reshape", "", "[3, 2, 2]", 1, 1, {REAL(S2(3, 4), -1, 1)}, .build = reshape_keep},
    {"reshape", "", "[0]", 1, 1, {REAL(S2(0, 3), -1, 1)}, .build = reshape_flat},
    {"reshape", "", "[1]", 1, 1, {REAL(S0, -1, 1)}, .build = reshape_flat},
    {"transpose", "", "[33, 3]", 1, 1, {REAL(S2(3, 33), -1, 1)}, .build = transpose_2d},
    {"transpose", "", "[4, 2, 3]", 1, 1, {REAL(S3(2, 3, 4), -1, 1)}, .build = transpose_3d},
    {"transpose", "", "[2, 4, 3, 5]", 1, 1, {REAL(S4(2, 3, 4, 5), -1, 1)}, .build = transpose_4d},
    {"transpose", "", "[3, 0]", 1, 1, {REAL(S2(0, 3), -1, 1)}, .build = transpose_2d},
    {"broadcast_like", "", "[3, 5]", 2, 1, {REAL(S1(5), -1, 1), MODEL(S2(3, 5))}, .build = broadcast_like},
    {"broadcast_like", "", "[2, 3, 4]", 2, 1, {REAL(S2(3, 1), -1, 1), MODEL(S3(2, 3, 4))}, .build = broadcast_like},
    {"broadcast_like", "", "[33]", 2, 1, {REAL(S0, -1, 1), MODEL(S1(33))}, .build = broadcast_like},
    {"broadcast_like", "", "[0, 3]", 2, 1, {REAL(S1(3), -1, 1), MODEL(S2(0, 3))}, .build = broadcast_like},
    {"sum_like", "", "[5]", 2, 1, {REAL(S2(3, 5), -1, 1), MODEL(S1(5))}, .build = sum_like},
    {"sum_like", "", "[3, 1]", 2, 1, {REAL(S3(2, 3, 4), -1, 1), MODEL(S2(3, 1))}, .build = sum_like},
    {"sum_like", "", "[]", 2, 1, {REAL(S2(3, 33), -1, 1), MODEL(S0)}, .build = sum_like},
    {"sum_like", "", "[3]", 2, 1, {REAL(S2(0, 3), -1, 1), MODEL(S1(3))}, .build = sum_like},
    {"reshape_like", "", "[3, 4]", 2, 1, {REAL(S2(2, 6), -1, 1), MODEL(S2(3, 4))}, .build = reshape_like},
    {"reshape_like", "", "[3, 0]", 2, 1, {REAL(S2(0, 2), -1, 1), MODEL(S2(3, 0))}, .build = reshape_like},
    {"tile_axis", "first", "[3, 2, 5]", 1, 1, {REAL(S2(2, 5), -1, 1)}, .build = tile_first},
    {"tile_axis", "last", "[3, 4]", 1, 1, {REAL(S1(3), -1, 1)}, .build = tile_last},
    {"tile_axis", "", "[3]", 1, 1, {REAL(S0, -1, 1)}, .build = tile_first},
    {"tile_axis", "no copy", "[3, 0]", 1, 1, {REAL(S1(3), -1, 1)}, .build = tile_none},
    {"concat", "", "[2, 6]", 3, 1, {REAL(S2(2, 1), -1, 1), REAL(S2(2, 3), -1, 1), REAL(S2(2, 2), -1, 1)}, .build = concat_three},
    {"concat", "one empty", "[3, 2]", 2, 1, {REAL(S2(3, 2), -1, 1), REAL(S2(0, 2), -1, 1)}, .build = concat_first},
    {"slice", "", "[3, 2]", 1, 1, {REAL(S2(3, 5), -1, 1)}, .build = slice_last},
    {"slice", "", "[2, 3]", 1, 1, {REAL(S2(5, 3), -1, 1)}, .build = slice_negative},
    {"slice", "", "[2, 1, 4]", 1, 1, {REAL(S3(2, 3, 4), -1, 1)}, .build = slice_middle},
    {"slice", "", "[0, 3]", 1, 1, {REAL(S2(2, 3), -1, 1)}, .build = slice_empty},
    {"pad", "", "[3, 6]", 1, 1, {REAL(S2(3, 3), -1, 1)}, .build = pad_last},
    {"pad", "", "[5, 3]", 1, 1, {REAL(S2(2, 3), -1, 1)}, .build = pad_first},
    {"pad", "", "[3, 3]", 1, 1, {REAL(S2(0, 3), -1, 1)}, .build = pad_first},
    {"fill_like", "", "[2, 3]", 1, 1, {MODEL(S2(2, 3))}, .build = fill_like},
    {"fill_like", "", "[0]", 1, 1, {MODEL(S1(0))}, .build = fill_like},

    {"gather", "repeated", "[4, 3]", 2, 1, {REAL(S2(5, 3), -1, 1), GIVEN_I32(S1(4), 3, 0, 3, 4)}, .build = gather},
    {"gather", "2d index", "[2, 3]", 2, 1, {REAL(S1(33), -1, 1), INDEX(S2(2, 3), 0, 33)}, .build = gather},
    {"gather", "no index", "[0, 3]", 2, 1, {REAL(S2(5, 3), -1, 1), INDEX(S1(0), 0, 5)}, .build = gather},
    {"gather", "", "[3]", 2, 1, {REAL(S2(5, 3), -1, 1), INDEX(S0, 0, 5)}, .build = gather},
    {"scatter_rows", "", "[5, 3]", 3, 1, {REAL(S2(4, 3), -1, 1), GIVEN_I32(S1(4), 3, 0, 3, 4), MODEL(S2(5, 3))}, .build = scatter_rows},
    {"scatter_rows", "", "[33]", 3, 1, {REAL(S2(2, 3), -1, 1), INDEX(S2(2, 3), 0, 33), MODEL(S1(33))}, .build = scatter_rows},
    {"scatter_rows", "", "[5, 3]", 3, 1, {REAL(S2(0, 3), -1, 1), INDEX(S1(0), 0, 5), MODEL(S2(5, 3))}, .build = scatter_rows},
    {"one_hot", "", "[3, 5]", 1, 1, {INDEX(S1(3), 0, 5)}, .build = one_hot, .flat = true},
    {"one_hot", "", "[0, 5]", 1, 1, {INDEX(S1(0), 0, 5)}, .build = one_hot, .flat = true},
    {"matmul", "", "[2, 4]", 2, 1, {REAL(S2(2, 3), -1, 1), REAL(S2(3, 4), -1, 1)}, .build = matmul},
    {"matmul", "", "[33, 17]", 2, 1, {REAL(S2(33, 65), -1, 1), REAL(S2(65, 17), -1, 1)}, .build = matmul},
    {"matmul", "", "[1, 1]", 2, 1, {REAL(S2(1, 1), -1, 1), REAL(S2(1, 1), -1, 1)}, .build = matmul},
    {"matmul", "nt", "[3, 5]", 2, 1, {REAL(S2(3, 33), -1, 1), REAL(S2(5, 33), -1, 1)}, .build = matmul_nt},
    {"matmul", "tn", "[3, 5]", 2, 1, {REAL(S2(33, 3), -1, 1), REAL(S2(33, 5), -1, 1)}, .build = matmul_tn},
    {"matmul", "twice the same", "[3, 3]", 1, 1, {REAL(S2(3, 4), -1, 1)}, .build = matmul_self},
    {"matmul", "batch", "[2, 3, 2]", 2, 1, {REAL(S3(2, 3, 4), -1, 1), REAL(S3(2, 4, 2), -1, 1)}, .build = matmul},
    {"matmul", "batch nt", "[2, 3, 2]", 2, 1, {REAL(S3(2, 3, 4), -1, 1), REAL(S3(2, 2, 4), -1, 1)}, .build = matmul_nt},
    {"matmul", "batch tn", "[2, 3, 2]", 2, 1, {REAL(S3(2, 4, 3), -1, 1), REAL(S3(2, 4, 2), -1, 1)}, .build = matmul_tn},
    {"matmul", "batch of b", "[2, 3, 3]", 2, 1, {REAL(S2(3, 2), -1, 1), REAL(S3(2, 2, 3), -1, 1)}, .build = matmul},
    {"matmul", "batch of a", "[5, 3, 4]", 2, 1, {REAL(S3(5, 3, 2), -1, 1), REAL(S2(2, 4), -1, 1)}, .build = matmul},
    {"matmul", "batch of a nt", "[5, 3, 4]", 2, 1, {REAL(S3(5, 3, 2), -1, 1), REAL(S2(4, 2), -1, 1)}, .build = matmul_nt},
    {"matmul", "batch axes", "[2, 3, 3, 2]", 2, 1, {REAL(S4(2, 1, 3, 2), -1, 1), REAL(S3(3, 2, 2), -1, 1)}, .build = matmul},
    {"matmul", "vector", "[3]", 2, 1, {REAL(S2(3, 4), -1, 1), REAL(S1(4), -1, 1)}, .build = matmul},
    {"matmul", "vector", "[2]", 2, 1, {REAL(S1(3), -1, 1), REAL(S2(3, 2), -1, 1)}, .build = matmul},
    {"matmul", "dot", "[]", 2, 1, {REAL(S1(4), -1, 1), REAL(S1(4), -1, 1)}, .build = matmul},
    {"matmul", "batch vector", "[2, 3]", 2, 1, {REAL(S3(2, 3, 4), -1, 1), REAL(S1(4), -1, 1)}, .build = matmul},
    {"matmul", "no terms", "[2, 3]", 2, 1, {REAL(S2(2, 0), -1, 1), REAL(S2(0, 3), -1, 1)}, .build = matmul},
    {"matmul", "no rows", "[0, 3]", 2, 1, {REAL(S2(0, 2), -1, 1), REAL(S2(2, 3), -1, 1)}, .build = matmul},
    {"csr_matmul", "", "[4, 3]", 7, 1, {CSR_INPUTS, REAL(S2(5, 3), -1, 1)}, .build = csr_matmul},
    {"csr_matmul", "", "[4, 33]", 7, 1, {CSR_INPUTS, REAL(S2(5, 33), -1, 1)}, .build = csr_matmul},
    {"csr_matmul", "no entries", "[3, 3]", 7, 1, {CSR_EMPTY, REAL(S2(5, 3), -1, 1)}, .build = csr_matmul},
    {"csr_t_matmul", "", "[5, 3]", 7, 1, {CSR_INPUTS, REAL(S2(4, 3), -1, 1)}, .build = csr_t_matmul},
    {"csr_t_matmul", "no entries", "[5, 3]", 7, 1, {CSR_EMPTY, REAL(S2(3, 3), -1, 1)}, .build = csr_t_matmul},
    {"csr_sddmm", "", "[8]", 8, 1, {CSR_INPUTS, REAL(S2(4, 3), -1, 1), REAL(S2(5, 3), -1, 1)}, .build = csr_sddmm},
    {"csr_sddmm", "no entries", "[2]", 8, 1, {CSR_EMPTY, REAL(S2(3, 3), -1, 1), REAL(S2(5, 3), -1, 1)}, .build = csr_sddmm},

    {"softmax", "last", "[3, 5]", 1, 1, {REAL(S2(3, 5), -2, 2)}, .build = softmax_last},
    {"softmax", "last", "[3, 33]", 1, 1, {REAL(S2(3, 33), -2, 2)}, .build = softmax_last},
    {"softmax", "first", "[3, 4]", 1, 1, {REAL(S2(3, 4), -2, 2)}, .build = softmax_first},
    {"softmax", "middle", "[2, 3, 4]", 1, 1, {REAL(S3(2, 3, 4), -2, 2)}, .build = softmax_middle},
    {"softmax", "one", "[3, 1]", 1, 1, {REAL(S2(3, 1), -2, 2)}, .build = softmax_last},
    {"softmax", "empty", "[0, 3]", 1, 1, {REAL(S2(0, 3), -2, 2)}, .build = softmax_last},
    {"log_softmax", "last", "[3, 33]", 1, 1, {REAL(S2(3, 33), -2, 2)}, .build = log_softmax_last},
    {"log_softmax", "middle", "[2, 3, 4]", 1, 1, {REAL(S3(2, 3, 4), -2, 2)}, .build = log_softmax_middle},
    {"log_softmax", "empty", "[0, 3]", 1, 1, {REAL(S2(0, 3), -2, 2)}, .build = log_softmax_last},
    {"softmax_cross_entropy", "", "[4]", 2, 1, {REAL(S2(4, 5), -2, 2), GIVEN_I32(S1(4), 2, 0, -1, 4)}, .build = cross_entropy},
    {"softmax_cross_entropy", "", "[2, 3]", 2, 1, {REAL(S3(2, 3, 33), -2, 2), INDEX(S2(2, 3), 0, 33)}, .build = cross_entropy},
    {"softmax_cross_entropy", "empty", "[0]", 2, 1, {REAL(S2(0, 3), -2, 2), INDEX(S1(0), 0, 3)}, .build = cross_entropy},
    {"layer_norm", "", "[3, 5]", 3, 3, {REAL(S2(3, 5), -2, 2), REAL(S1(5), 0.5, 2), REAL(S1(5), -1, 1)}, .build = layer_norm},
    {"layer_norm", "", "[2, 3, 33]", 3, 1, {REAL(S3(2, 3, 33), 1, 3), REAL(S1(33), 0.5, 2), REAL(S1(33), -1, 1)}, .build = layer_norm},
    {"layer_norm", "two axes", "[2, 3, 4]", 3, 3, {REAL(S3(2, 3, 4), -2, 2), REAL(S2(3, 4), 0.5, 2), REAL(S2(3, 4), -1, 1)}, .build = layer_norm},
    {"layer_norm", "plain", "[3, 5]", 1, 1, {REAL(S2(3, 5), -2, 2)}, .build = layer_norm_plain},
    {"layer_norm", "scaled", "[3, 5]", 2, 1, {REAL(S2(3, 5), -2, 2), REAL(S1(5), 0.5, 2)}, .build = layer_norm_scaled},
    {"layer_norm", "shifted", "[3, 5]", 2, 1, {REAL(S2(3, 5), -2, 2), REAL(S1(5), -1, 1)}, .build = layer_norm_shifted},
    {"layer_norm", "one", "[3, 1]", 3, 3, {REAL(S2(3, 1), -2, 2), REAL(S1(1), 0.5, 2), REAL(S1(1), -1, 1)}, .build = layer_norm},
    {"layer_norm", "vector", "[4]", 3, 1, {REAL(S1(4), -2, 2), REAL(S1(4), 0.5, 2), REAL(S1(4), -1, 1)}, .build = layer_norm},
    {"layer_norm", "empty", "[0, 3]", 3, 3, {REAL(S2(0, 3), -2, 2), REAL(S1(3), 0.5, 2), REAL(S1(3), -1, 1)}, .build = layer_norm},
    {"layer_norm", "empty rows", "[3, 0]", 3, 1, {REAL(S2(3, 0), -2, 2), REAL(S1(0), 0.5, 2), REAL(S1(0), -1, 1)}, .build = layer_norm},
    {"uniform_like", "", "[3, 33]", 1, 1, {MODEL(S2(3, 33))}, .build = uniform_like},
    {"uniform_like", "", "[0, 3]", 1, 1, {MODEL(S2(0, 3))}, .build = uniform_like},
    {"normal_like", "", "[3, 33]", 1, 1, {MODEL(S2(3, 33))}, .build = normal_like},
    {"normal_like", "", "[1]", 1, 1, {MODEL(S1(1))}, .build = normal_like},
    {"uniform_like", "bernoulli", "[33]", 1, 1, {REAL(S1(33), 0.1, 0.9)}, .build = bernoulli, .flat = true},
    {"uniform_like", "dropout", "[33]", 1, 1, {REAL(S1(33), -1, 1)}, .build = dropout},
    {"rng_advance", "", "[4]", 0, 1, {{0}}, .build = rng_advance, .flat = true},
    {"adam", "decoupled", "[3, 5]", 6, 3, {ADAM_INPUTS(S2, 3, 5)}, .build = adamw},
    {"adam", "l2", "[33]", 6, 3, {ADAM_INPUTS(S1, 33)}, .build = adam_l2},
    {"adam", "empty", "[0]", 6, 3, {ADAM_INPUTS(S1, 0)}, .build = adamw},
    {"exp", "large", "[301, 257]", 1, 1, {REAL(S2(301, 257), -2, 1)}, .build = exp_large, .large = true},
    {"mul", "large", "[301, 257]", 2, 1, {REAL(S2(301, 257), -1, 1), REAL(S1(257), -1, 1)}, .build = mul_large, .large = true},
    {"sum", "large, last", "[301]", 1, 1, {REAL(S2(301, 257), -1, 1)}, .build = sum_last, .large = true},
    {"sum", "large, first", "[1, 257]", 1, 1, {REAL(S2(301, 257), -1, 1)}, .build = sum_first_keep, .large = true},
    {"sum", "large, all", "[]", 1, 1, {REAL(S2(301, 257), -1, 1)}, .build = sum_all, .large = true},
    {"layer_norm", "large", "[301, 257]", 3, 3, {REAL(S2(301, 257), -2, 2), REAL(S1(257), 0.5, 2), REAL(S1(257), -1, 1)},
     .build = layer_norm, .large = true},
    {"softmax", "large", "[301, 257]", 1, 1, {REAL(S2(301, 257), -2, 2)}, .build = softmax_last, .large = true},
    {"logsumexp", "large", "[301]", 1, 1, {REAL(S2(301, 257), -2, 2)}, .build = logsumexp_last, .large = true},
    {"softmax_cross_entropy", "large", "[301]", 2, 1, {REAL(S2(301, 257), -2, 2), INDEX(S1(301), 0, 257)},
     .build = cross_entropy, .large = true},
    {"matmul", "large", "[301, 131]", 2, 1, {REAL(S2(301, 257), -0.2, 0.2), REAL(S2(257, 131), -0.2, 0.2)},
     .build = matmul, .large = true},
    {"matmul", "large, nt", "[301, 131]", 2, 1, {REAL(S2(301, 257), -0.2, 0.2), REAL(S2(131, 257), -0.2, 0.2)},
     .build = matmul_nt, .large = true},
    {"gather", "large", "[3001, 33]", 2, 1, {REAL(S2(101, 33), -0.2, 0.2), INDEX(S1(3001), 0, 101)}, .build = gather, .large = true},
    {"scatter_rows", "large", "[101, 33]", 3, 1,
     {REAL(S2(3001, 33), -0.2, 0.2), INDEX(S1(3001), 0, 101), MODEL(S2(101, 33))}, .build = scatter_rows, .large = true},
    {"transpose", "large", "[257, 301]", 1, 1, {REAL(S2(301, 257), -1, 1)}, .build = transpose_2d, .large = true},
    {"uniform_like", "large dropout", "[301, 257]", 1, 1, {REAL(S2(301, 257), -1, 1)}, .build = dropout, .large = true},
    {"adam", "large", "[301, 257]", 6, 3, {ADAM_INPUTS(S2, 301, 257)}, .build = adamw, .large = true},
    {"repeat", "", "[3]", 2, 1, {REAL(S1(3), -1, 1), REAL(S1(3), -1, 1)}, .build = repeat, .flat = true},
};
/* clang-format on */

/* ------------------------------------------------------------------------------------------------ the whole list */

#define COUNT(array) (int32_t)(sizeof(array) / sizeof((array)[0]))
enum { UNARY = sizeof unary_rows / sizeof *unary_rows * (sizeof unary_shapes / sizeof *unary_shapes) };
enum { BINARY = sizeof binary_rows / sizeof *binary_rows * (sizeof binary_shapes / sizeof *binary_shapes) };
enum { WRITTEN = sizeof written / sizeof *written };

static op_sample expanded[UNARY + BINARY + WRITTEN];

static void expand_unary(op_sample *at)
{
    for (int32_t i = 0; i < COUNT(unary_rows); i++) {
        for (int32_t k = 0; k < COUNT(unary_shapes); k++) {
            const unary_row *r = &unary_rows[i];
            sample_input in = {SG_F32, unary_shapes[k].shape, r->fill, r->low, r->high, NULL, false};
            *at++ = (op_sample){r->op,          "", unary_shapes[k].text, 1, 1, {in}, build_unary, .unary = r->build,
                                .flat = r->flat};
        }
    }
}

static void expand_binary(op_sample *at)
{
    for (int32_t i = 0; i < COUNT(binary_rows); i++) {
        for (int32_t k = 0; k < COUNT(binary_shapes); k++) {
            const binary_row *r = &binary_rows[i];
            sample_input a = r->a, b = r->b;
            a.shape = binary_shapes[k].a;
            b.shape = binary_shapes[k].b;
            *at++ = (op_sample){
                r->op, "", binary_shapes[k].text, 2, 1, {a, b}, build_binary, .binary = r->build, .flat = r->flat};
        }
    }
}

int32_t op_sample_count(void) { return COUNT(expanded); }

const op_sample *op_sample_at(int32_t index)
{
    if (!expanded[0].op) {
        expand_unary(expanded);
        expand_binary(expanded + UNARY);
        memcpy(expanded + UNARY + BINARY, written, sizeof written);
    }
    return &expanded[index];
}

const char *op_sample_name(const op_sample *sample, char *out, size_t size)
{
    int n = snprintf(out, size, "%s", sample->op);
    for (int32_t k = 0; k < sample->n_in && n < (int)size; k++) {
        char text[SG_SHAPE_TEXT];
        sg_shape_format(&sample->in[k].shape, text, sizeof text);
        n += snprintf(out + n, size - (size_t)n, "%s%s", k ? "x" : " ", text);
    }
    if (n < (int)size)
        snprintf(out + n, size - (size_t)n, " %s", sample->note);
    return out;
}

bool op_sample_moves(const op_sample *sample, int32_t k)
{
    return !sample->flat && sample->in[k].dtype == SG_F32 && !sample->in[k].constant;
}

/* Element i of input k is the lattice point p(i) / 4 + k / 16 - 16 with a permutation p of 0..127: elements, also of
 * different inputs, are at least 1/16 apart. */
static double distinct(int64_t i, int32_t k)
{
    int64_t p = (i * 37 + 11) % 128;
    return (double)p / 4 + (double)k / 16 - 16;
}

static double element(const sample_input *in, uint64_t stream, int64_t i, int32_t k)
{
    double u = test_uniform(stream, 2 * i), v = test_uniform(stream, 2 * i + 1);
    switch (in->fill) {
    case FILL_UNIFORM:
        return in->low + u * (in->high - in->low);
    case FILL_AWAY:
        return (v < 0.5 ? -1 : 1) * (in->low + u * (in->high - in->low));
    case FILL_FRACTION:
        return in->low + (double)(int64_t)(v * (in->high - in->low)) + 0.2 + 0.6 * u;
    case FILL_DISTINCT:
        return distinct(i, k);
    case FILL_INDEX:
        return in->low + (double)(int64_t)(u * (in->high - in->low));
    case FILL_FLAG:
        return u < 0.5;
    case FILL_GIVEN:
        return in->given[i];
    }
    return 0;
}

void op_sample_fill(const op_sample *sample, int32_t k, double *out)
{
    int64_t n = sg_shape_count(&sample->in[k].shape);
    uint64_t stream = 17 * (uint64_t)(sample - expanded) + (uint64_t)k;
    for (int64_t i = 0; i < n; i++)
        out[i] = (double)(float)element(&sample->in[k], stream, i, k);
}

void op_sample_build(const op_sample *sample, sg_scope scope, sg_value *in, sg_value *out)
{
    for (int32_t k = 0; k < sample->n_in; k++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", (int)k);
        in[k] = sg_input(scope.graph, name, sample->in[k].dtype, sample->in[k].shape);
    }
    sample->build(sample, scope, in, out);
}
