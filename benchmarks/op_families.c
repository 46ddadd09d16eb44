/* op_families.c - the operators that `bench ops` knows, each built from the numbers of a shape. */
#include "benchmarks/op_families_internal.h"

#include "autodiff/autodiff.h"
#include "models/models.h"
#include "ops/ops.h"

/* ---- operands */

static sg_value operand(sg_op_bench *b, const char *name, sg_shape shape)
{
    sg_value v = sg_input(b->graph, name, b->dtype, shape);
    if (b->n_in < SG_OP_OPERANDS)
        b->in[b->n_in++] = v;
    return v;
}

static sg_value rows(sg_op_bench *b) { return operand(b, "x", SG_SHAPE(b->d[0], b->d[1])); }
static sg_value vector(sg_op_bench *b, const char *name, int64_t n) { return operand(b, name, SG_SHAPE(n)); }

/* ---- elementwise, by rows */

#define UNARY(op)                                                                                                      \
    static sg_value build_##op(sg_op_bench *b) { return sg_##op(rows(b)); }
UNARY(exp)
UNARY(tanh)
UNARY(sigmoid)
UNARY(softplus)
UNARY(gelu)
UNARY(relu)

static sg_value build_add(sg_op_bench *b)
{
    sg_value x = rows(b);
    return sg_add(x, operand(b, "y", SG_SHAPE(b->d[0], b->d[1])));
}

static sg_value build_bias_softplus(sg_op_bench *b)
{
    sg_value x = rows(b);
    return sg_softplus(sg_add(x, vector(b, "c", b->d[1])));
}

static sg_value build_bias_gelu(sg_op_bench *b)
{
    sg_value x = rows(b);
    return sg_gelu(sg_add(x, vector(b, "c", b->d[1])));
}

static sg_value build_softmax(sg_op_bench *b) { return sg_softmax(rows(b), -1); }
static sg_value build_sum_rows(sg_op_bench *b) { return sg_sum(rows(b), 1); }
static sg_value build_sum_columns(sg_op_bench *b) { return sg_sum(rows(b), 0); }

static sg_value build_layer_norm(sg_op_bench *b)
{
    sg_value x = rows(b), gamma = vector(b, "gamma", b->d[1]);
    return sg_layer_norm(x, gamma, vector(b, "beta", b->d[1]), 1e-5);
}

static sg_value build_rms_norm(sg_op_bench *b)
{
    sg_value x = rows(b);
    return sg_rms_norm(x, vector(b, "gamma", b->d[1]), 1e-5);
}

/* images x channels x height x width, in 32 groups or as many as there are channels */
static sg_value images(sg_op_bench *b) { return operand(b, "x", SG_SHAPE(b->d[0], b->d[1], b->d[2], b->d[3])); }

static sg_value build_group_norm(sg_op_bench *b)
{
    sg_value x = images(b), gamma = vector(b, "gamma", b->d[1]);
    int64_t groups = b->d[1] % 32 == 0 ? 32 : b->d[1];
    return sg_group_norm(x, groups, gamma, vector(b, "beta", b->d[1]), 1e-5);
}

static sg_value build_batch_norm(sg_op_bench *b)
{
    sg_value x = images(b), gamma = vector(b, "gamma", b->d[1]), beta = vector(b, "beta", b->d[1]);
    sg_value mean = sg_input(b->graph, "mean", b->dtype, SG_SHAPE(b->d[1]));
    return sg_batch_norm(x, gamma, beta, mean, sg_input(b->graph, "variance", b->dtype, SG_SHAPE(b->d[1])), 0.1, 1e-5)
        .y;
}

/* The target is label 0 of each row. */
static sg_value build_cross_entropy(sg_op_bench *b)
{
    sg_value z = rows(b);
    sg_value target = sg_sum_axes(sg_zeros_like(z), SG_AXES(1), false);
    return sg_sum_all(sg_softmax_cross_entropy(z, sg_cast(target, SG_I32)));
}

static sg_value build_bce(sg_op_bench *b)
{
    sg_value z = rows(b);
    return sg_bce_with_logits(z, operand(b, "y", SG_SHAPE(b->d[0], b->d[1])));
}

/* Rows of a table by random numbers: d rows of the table, width, and how many are taken. */
static sg_value build_gather(sg_op_bench *b)
{
    return sg_gather(rows(b), sg_input(b->graph, "ids", SG_I32, SG_SHAPE(b->d[2])));
}

static sg_value build_bernoulli(sg_op_bench *b)
{
    sg_value z = operand(b, "z", SG_SHAPE(b->d[0], b->d[2]));
    return sg_bernoulli(sg_scope_root(b->graph, b->store), sg_tile_axis(sg_sigmoid(z), 1, b->d[1]));
}

static sg_value build_adamw(sg_op_bench *b)
{
    sg_scope root = sg_scope_root(b->graph, b->store);
    sg_value p = sg_param(root, "p", SG_SHAPE(b->d[0], b->d[1]), sg_init_uniform(-0.1, 0.1));
    sg_value grad = operand(b, "g", SG_SHAPE(b->d[0], b->d[1])), rate = sg_scalar(b->graph, 1e-3);
    sg_adam_options options = sg_adam_defaults(1e-5);
    sg_adam_step(sg_scope_sub(root, "adam"), &p, &grad, 1, rate, &options);
    return sg_sum_all(sg_scalar(b->graph, 0));
}

/* ---- products: MxKxN, or both operands as they lie: 32x400*159x400 */

typedef sg_value product_fn(sg_value a, sg_value b);

static sg_value product(sg_op_bench *b, product_fn *multiply, sg_shape first, sg_shape second)
{
    bool lying = b->n_d == 4;
    sg_value x = operand(b, "a", lying ? SG_SHAPE(b->d[0], b->d[1]) : first);
    return multiply(x, operand(b, "b", lying ? SG_SHAPE(b->d[2], b->d[3]) : second));
}

static sg_value build_matmul(sg_op_bench *b)
{
    return product(b, sg_matmul, SG_SHAPE(b->d[0], b->d[1]), SG_SHAPE(b->d[1], b->d[2]));
}

static sg_value build_matmul_nt(sg_op_bench *b)
{
    return product(b, sg_matmul_nt, SG_SHAPE(b->d[0], b->d[1]), SG_SHAPE(b->d[2], b->d[1]));
}

static sg_value build_matmul_tn(sg_op_bench *b)
{
    return product(b, sg_matmul_tn, SG_SHAPE(b->d[1], b->d[0]), SG_SHAPE(b->d[1], b->d[2]));
}

/* ---- convolutions: images x channels x height x width, filters x height x width, and the stride if it is not 1; padded so that
 * stride 1 keeps the size */

static sg_value build_conv2d(sg_op_bench *b)
{
    sg_value x = operand(b, "x", SG_SHAPE(b->d[0], b->d[1], b->d[2], b->d[3]));
    sg_value w = operand(b, "w", SG_SHAPE(b->d[4], b->d[1], b->d[5], b->d[6]));
    return sg_conv2d(x, w, sg_window_square(b->n_d > 7 ? b->d[7] : 1, b->d[5] / 2), 1);
}

static sg_value convolution_gradient(sg_op_bench *b, int by)
{
    sg_value y = build_conv2d(b), seed = sg_input(b->graph, "g", b->dtype, *sg_shape_of(y)), gradient;
    sg_vjp(&y, &seed, 1, &b->in[by], 1, &gradient);
    return gradient;
}

static sg_value build_conv2d_dx(sg_op_bench *b) { return convolution_gradient(b, 0); }
static sg_value build_conv2d_dw(sg_op_bench *b) { return convolution_gradient(b, 1); }

/* ---- sequences */

/* batch x heads x rows x width; q, k and v apart: a program that knew them equal could do less. */
static sg_value build_attention(sg_op_bench *b)
{
    sg_shape shape = SG_SHAPE(b->d[0], b->d[1], b->d[2], b->d[3]);
    sg_value q = operand(b, "q", shape), k = operand(b, "k", shape);
    return sg_attention(q, k, operand(b, "v", shape), NULL);
}

enum { LSTM_INPUTS = 100 };

/* One direction of a tagger: sentences x words x hidden units, 100 inputs a word. */
static sg_value build_lstm(sg_op_bench *b)
{
    int64_t units = b->d[2];
    sg_value x = operand(b, "x", SG_SHAPE(b->d[0], b->d[1], LSTM_INPUTS));
    sg_value w_ih = operand(b, "w_ih", SG_SHAPE(4 * units, LSTM_INPUTS));
    sg_value w_hh = operand(b, "w_hh", SG_SHAPE(4 * units, units));
    sg_lstm_weights w = {w_ih, w_hh, sg_input(b->graph, "b", b->dtype, SG_SHAPE(4 * units)), SG_NONE};
    return sg_lstm(x, SG_NONE, w, (sg_lstm_state){SG_NONE, SG_NONE}, false).out;
}

/* sentences x words x tags */
static sg_crf crf_operands(sg_op_bench *b, sg_value *emissions)
{
    int64_t tags = b->d[2];
    *emissions = operand(b, "emissions", SG_SHAPE(b->d[0], b->d[1], tags));
    sg_value transitions = operand(b, "transitions", SG_SHAPE(tags, tags)), start = vector(b, "start", tags);
    return (sg_crf){transitions, start, vector(b, "end", tags)};
}

static sg_value build_crf_log_partition(sg_op_bench *b)
{
    sg_value emissions;
    sg_crf crf = crf_operands(b, &emissions);
    return sg_crf_log_partition(crf, emissions, SG_NONE);
}

static sg_value build_crf_viterbi(sg_op_bench *b)
{
    sg_value emissions;
    sg_crf crf = crf_operands(b, &emissions);
    return sg_crf_viterbi(crf, emissions, SG_NONE);
}

/* ---- the table */

#define FAMILY(name, least, most, flags)                                                                               \
    {                                                                                                                  \
#name, build_##name, least, most, flags                                                                        \
    }

const sg_op_family sg_op_families[] = {FAMILY(matmul, 3, 4, 0),
                                       FAMILY(matmul_nt, 3, 4, 0),
                                       FAMILY(matmul_tn, 3, 4, 0),
                                       FAMILY(conv2d, 7, 8, 0),
                                       FAMILY(conv2d_dx, 7, 8, SG_OP_VALUE_ONLY),
                                       FAMILY(conv2d_dw, 7, 8, SG_OP_VALUE_ONLY),
                                       FAMILY(exp, 2, 2, 0),
                                       FAMILY(tanh, 2, 2, 0),
                                       FAMILY(sigmoid, 2, 2, 0),
                                       FAMILY(softplus, 2, 2, 0),
                                       FAMILY(gelu, 2, 2, 0),
                                       FAMILY(relu, 2, 2, 0),
                                       FAMILY(add, 2, 2, 0),
                                       FAMILY(softmax, 2, 2, 0),
                                       FAMILY(layer_norm, 2, 2, 0),
                                       FAMILY(rms_norm, 2, 2, 0),
                                       FAMILY(group_norm, 4, 4, SG_OP_BY_NAME),
                                       FAMILY(batch_norm, 4, 4, SG_OP_BY_NAME),
                                       FAMILY(cross_entropy, 2, 2, 0),
                                       FAMILY(bce, 2, 2, 0),
                                       FAMILY(sum_rows, 2, 2, 0),
                                       FAMILY(sum_columns, 2, 2, 0),
                                       FAMILY(bias_softplus, 2, 2, 0),
                                       FAMILY(bias_gelu, 2, 2, 0),
                                       FAMILY(adamw, 2, 2, SG_OP_F32_ONLY | SG_OP_VALUE_ONLY),
                                       FAMILY(gather, 3, 3, SG_OP_BY_NAME),
                                       FAMILY(attention, 4, 4, 0),
                                       FAMILY(lstm, 3, 3, SG_OP_F32_ONLY | SG_OP_BY_NAME),
                                       FAMILY(crf_log_partition, 3, 3, SG_OP_F32_ONLY | SG_OP_BY_NAME),
                                       FAMILY(crf_viterbi, 3, 3, SG_OP_F32_ONLY | SG_OP_BY_NAME | SG_OP_VALUE_ONLY),
                                       FAMILY(bernoulli, 3, 3, SG_OP_F32_ONLY | SG_OP_BY_NAME | SG_OP_VALUE_ONLY),
                                       {0}};

/* ---- orders */

/* The operands' cotangents for a cotangent g of the value, and their derivative along directions of all operands. */
static void declare_derivatives(sg_op_bench *b, sg_value y, int order)
{
    sg_value grad[SG_OP_OPERANDS], along[SG_OP_OPERANDS], moved[SG_OP_OPERANDS], *out = grad;
    char name[32];
    sg_value seed = sg_input(b->graph, "g", sg_dtype_of(y), *sg_shape_of(y));
    sg_vjp(&y, &seed, 1, b->in, b->n_in, grad);
    for (int32_t i = 0; order == 2 && i < b->n_in; i++) {
        snprintf(name, sizeof name, "t%d", (int)i);
        along[i] = sg_input(b->graph, name, sg_dtype_of(b->in[i]), *sg_shape_of(b->in[i]));
    }
    if (order == 2) {
        sg_jvp(grad, b->n_in, b->in, along, b->n_in, moved);
        out = moved;
    }
    for (int32_t i = 0; i < b->n_in; i++) {
        snprintf(name, sizeof name, "d%d", (int)i);
        sg_result(b->graph, name, out[i]);
    }
}

void sg_op_bench_build(sg_op_bench *b, const sg_op_family *family, int order)
{
    sg_value y = family->build(b);
    if (order == 0 || sg_is_none(y))
        sg_result(b->graph, "y", y);
    else
        declare_derivatives(b, y, order);
}
