/* ops.c - single operators, at the sizes of the training step and of common layers. */
#include <string.h>

#include "autodiff/autodiff.h"
#include "benchmarks/benchmarks.h"
#include "models/models.h"
#include "ops/ops.h"

typedef struct op_case {
    const char *name;
    sg_value (*build)(sg_graph *graph, sg_store *store);
} op_case;

static sg_value input(sg_graph *g, const char *name, int64_t rows, int64_t columns)
{
    return sg_input(g, name, SG_F32, SG_SHAPE(rows, columns));
}

#define UNARY_CASE(op)                                                                                                 \
    static sg_value op##_case(sg_graph *g, sg_store *s)                                                                \
    {                                                                                                                  \
        (void)s;                                                                                                       \
        return sg_##op(input(g, "x", 8192, 1024));                                                                     \
    }
UNARY_CASE(exp)
UNARY_CASE(tanh)
UNARY_CASE(sigmoid)
UNARY_CASE(softplus)
UNARY_CASE(gelu)
UNARY_CASE(relu)

#define MATMUL_CASE(name, builder, r1, c1, r2, c2)                                                                     \
    static sg_value name(sg_graph *g, sg_store *s)                                                                     \
    {                                                                                                                  \
        (void)s;                                                                                                       \
        return builder(input(g, "a", r1, c1), input(g, "b", r2, c2));                                                  \
    }
MATMUL_CASE(first_layer, sg_matmul, 32, 1836, 1836, 400)
MATMUL_CASE(hidden_layer, sg_matmul, 32, 400, 400, 400)
MATMUL_CASE(label_scores, sg_matmul_nt, 32, 400, 159, 400)
MATMUL_CASE(global_term, sg_matmul_nt, 672, 159, 200, 159)
MATMUL_CASE(first_gradient, sg_matmul_tn, 32, 1836, 32, 400)
MATMUL_CASE(global_gradient, sg_matmul_tn, 672, 200, 672, 159)
MATMUL_CASE(predict_layer, sg_matmul, 4096, 1836, 1836, 400)
MATMUL_CASE(square, sg_matmul, 1024, 1024, 1024, 1024)

/* The convolutions of the segmentation net on 288 crops, or a quarter of them, and their gradients. */
static sg_value image(sg_graph *g, const char *name, int64_t n, int64_t channels, int64_t side)
{
    return sg_input(g, name, SG_F32, SG_SHAPE(n, channels, side, side));
}

#define CONV_CASE(name, n, channels, side, filters, kernel, stride, padding)                                           \
    static sg_value name(sg_graph *g, sg_store *s)                                                                     \
    {                                                                                                                  \
        (void)s;                                                                                                       \
        return sg_conv2d(image(g, "x", n, channels, side), image(g, "w", filters, channels, kernel),                   \
                         sg_window_square(stride, padding), 1);                                                        \
    }                                                                                                                  \
    static sg_value name##_gradient(sg_graph *g, sg_store *s, int wrt)                                                 \
    {                                                                                                                  \
        sg_value y = name(g, s), in[2], gradient;                                                                      \
        for (int k = 0; k < 2; k++)                                                                                    \
            in[k] = sg_value_at(g, sg_node_of(y)->in[k]);                                                              \
        sg_value g_y = sg_input(g, "g", SG_F32, *sg_shape_of(y));                                                      \
        sg_vjp(&y, &g_y, 1, &in[wrt], 1, &gradient);                                                                   \
        return gradient;                                                                                               \
    }                                                                                                                  \
    static sg_value name##_dx(sg_graph *g, sg_store *s) { return name##_gradient(g, s, 0); }                           \
    static sg_value name##_dw(sg_graph *g, sg_store *s) { return name##_gradient(g, s, 1); }
CONV_CASE(conv_first, 288, 3, 24, 64, 5, 1, 2)
CONV_CASE(conv_second, 72, 64, 24, 128, 5, 2, 2)
CONV_CASE(conv_third, 72, 128, 12, 128, 5, 2, 2)
CONV_CASE(conv_head, 288, 64, 24, 2, 1, 1, 0)

static sg_value softmax_case(sg_graph *g, sg_store *s)
{
    (void)s;
    return sg_softmax(input(g, "x", 8192, 1024), -1);
}

/* Layer normalisation as a layer of width 1024 has it; its gradient by x, gamma and beta; and the product of that gradient's
 * derivative with a direction. */
static sg_value norm_of(sg_graph *g, sg_value wrt[3])
{
    wrt[0] = input(g, "x", 8192, 1024);
    wrt[1] = sg_input(g, "gamma", SG_F32, SG_SHAPE(1024));
    wrt[2] = sg_input(g, "beta", SG_F32, SG_SHAPE(1024));
    return sg_layer_norm(wrt[0], wrt[1], wrt[2], 1e-5);
}

static sg_value layer_norm_case(sg_graph *g, sg_store *s)
{
    (void)s;
    sg_value wrt[3];
    return norm_of(g, wrt);
}

static sg_value layer_norm_gradient(sg_graph *g, sg_store *s)
{
    (void)s;
    sg_value wrt[3], grad[3], seed = input(g, "g", 8192, 1024), y = norm_of(g, wrt);
    sg_vjp(&y, &seed, 1, wrt, 3, grad);
    sg_result(g, "ggamma", grad[1]);
    sg_result(g, "gbeta", grad[2]);
    return grad[0];
}

static sg_value layer_norm_hvp(sg_graph *g, sg_store *s)
{
    (void)s;
    sg_value wrt[3], grad[3], moved[3], seed = input(g, "g", 8192, 1024), y = norm_of(g, wrt);
    sg_value along[3] = {input(g, "tx", 8192, 1024), sg_input(g, "tgamma", SG_F32, SG_SHAPE(1024)),
                         sg_input(g, "tbeta", SG_F32, SG_SHAPE(1024))};
    sg_vjp(&y, &seed, 1, wrt, 3, grad);
    sg_jvp(grad, 3, wrt, along, 3, moved);
    sg_result(g, "hgamma", moved[1]);
    return moved[0];
}

static sg_value cross_entropy_gradient(sg_graph *g, sg_store *s)
{
    (void)s;
    sg_value z = input(g, "z", 8192, 1024), grad;
    sg_value target = sg_sum_axes(sg_zeros_like(z), SG_AXES(1), false);
    sg_grad(sg_sum_all(sg_softmax_cross_entropy(z, sg_cast(target, SG_I32))), &z, 1, &grad);
    return grad;
}

static sg_value row_sum(sg_graph *g, sg_store *s)
{
    (void)s;
    return sg_sum(input(g, "x", 8192, 1024), 1);
}

static sg_value column_sum(sg_graph *g, sg_store *s)
{
    (void)s;
    return sg_sum(input(g, "x", 672, 200), 0);
}

static sg_value bias_softplus(sg_graph *g, sg_store *s)
{
    (void)s;
    return sg_softplus(sg_add(input(g, "x", 672, 200), sg_input(g, "c", SG_F32, SG_SHAPE(200))));
}

static sg_value candidates(sg_graph *g, sg_store *s)
{
    return sg_bernoulli(sg_scope_root(g, s), sg_tile_axis(sg_sigmoid(input(g, "z", 32, 159)), 1, 20));
}

static sg_value adamw(sg_graph *g, sg_store *s)
{
    sg_scope root = sg_scope_root(g, s);
    sg_value p = sg_param(root, "p", SG_SHAPE(1000, 1000), sg_init_normal(0, 0.1));
    sg_value grad = input(g, "g", 1000, 1000), rate = sg_scalar(g, 1e-3);
    sg_adam_options options = sg_adam_defaults(1e-5);
    sg_adam_step(sg_scope_sub(root, "adam"), &p, &grad, 1, rate, &options);
    return sg_sum_all(sg_scalar(g, 0));
}

/* q, k and v apart: a program that knew them equal could do less. */
static sg_value attention_of(sg_graph *g, int64_t batch, int64_t heads, int64_t rows, int64_t width, sg_value in[3])
{
    static const char *const names[] = {"q", "k", "v"};
    for (int32_t i = 0; i < 3; i++)
        in[i] = sg_input(g, names[i], SG_F32, SG_SHAPE(batch, heads, rows, width));
    return sg_attention(in[0], in[1], in[2], NULL);
}

static sg_value attention_case(sg_graph *g, sg_store *s)
{
    (void)s;
    return attention_of(g, 16, 12, 256, 64, (sg_value[3]){SG_NONE});
}

/* Gradient and Hessian product of <out, out> / 2 in q, k and v. */
static sg_value attention_gradient(sg_graph *g, sg_store *s)
{
    (void)s;
    sg_value in[3], grad[3];
    sg_value out = attention_of(g, 16, 12, 256, 64, in);
    sg_grad(sg_mul_scalar(sg_sum_all(sg_square(out)), 0.5), in, 3, grad);
    sg_result(g, "dk", grad[1]);
    sg_result(g, "dv", grad[2]);
    return grad[0];
}

static sg_value attention_hvp(sg_graph *g, sg_store *s)
{
    (void)s;
    sg_value in[3], v[3], hv[3];
    sg_value out = attention_of(g, 16, 12, 256, 64, in);
    for (int32_t i = 0; i < 3; i++)
        v[i] = sg_input(g, i == 0 ? "vq" : i == 1 ? "vk" : "vv", SG_F32, SG_SHAPE(16, 12, 256, 64));
    sg_hvp(sg_mul_scalar(sg_sum_all(sg_square(out)), 0.5), in, v, 3, hv, SG_HVP_FORWARD_OVER_REVERSE);
    sg_result(g, "hk", hv[1]);
    sg_result(g, "hv", hv[2]);
    return hv[0];
}

/* Gradient of a scalar by the values given, or its Hessian product with the same values as direction; the first result. */
static sg_value first_derivative(sg_value loss, const sg_value *wrt, int32_t n, bool second)
{
    sg_value out[8];
    if (second)
        sg_hvp(loss, wrt, wrt, n, out, SG_HVP_FORWARD_OVER_REVERSE);
    else
        sg_grad(loss, wrt, n, out);
    for (int32_t i = 1; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", (int)i);
        sg_result(loss.graph, name, out[i]);
    }
    return out[0];
}

/* One direction of a tagger: 32 sentences of 64 words, 100 inputs, 128 hidden units. */
static sg_value lstm_of(sg_graph *g, sg_value wrt[3])
{
    wrt[0] = sg_input(g, "x", SG_F32, SG_SHAPE(32, 64, 100));
    wrt[1] = input(g, "w_ih", 512, 100);
    wrt[2] = input(g, "w_hh", 512, 128);
    sg_lstm_weights w = {wrt[1], wrt[2], sg_input(g, "b", SG_F32, SG_SHAPE(512)), SG_NONE};
    return sg_lstm(wrt[0], SG_NONE, w, (sg_lstm_state){SG_NONE, SG_NONE}, false).out;
}

static sg_value lstm_case(sg_graph *g, sg_store *s)
{
    (void)s;
    sg_value wrt[3];
    return lstm_of(g, wrt);
}

static sg_value lstm_gradient(sg_graph *g, sg_store *s)
{
    (void)s;
    sg_value wrt[3], loss = sg_sum_all(sg_square(lstm_of(g, wrt)));
    return first_derivative(loss, wrt, 3, false);
}

static sg_value lstm_hvp(sg_graph *g, sg_store *s)
{
    (void)s;
    sg_value wrt[3], loss = sg_sum_all(sg_square(lstm_of(g, wrt)));
    return first_derivative(loss, wrt, 3, true);
}

/* 32 sentences of 64 words, 25 tags. */
static sg_value crf_of(sg_graph *g, sg_value wrt[4])
{
    wrt[0] = sg_input(g, "emissions", SG_F32, SG_SHAPE(32, 64, 25));
    wrt[1] = input(g, "transitions", 25, 25);
    wrt[2] = sg_input(g, "start", SG_F32, SG_SHAPE(25));
    wrt[3] = sg_input(g, "end", SG_F32, SG_SHAPE(25));
    return sg_crf_log_partition((sg_crf){wrt[1], wrt[2], wrt[3]}, wrt[0], SG_NONE);
}

static sg_value crf_case(sg_graph *g, sg_store *s)
{
    (void)s;
    sg_value wrt[4];
    return crf_of(g, wrt);
}

static sg_value crf_gradient(sg_graph *g, sg_store *s)
{
    (void)s;
    sg_value wrt[4], loss = sg_sum_all(crf_of(g, wrt));
    return first_derivative(loss, wrt, 4, false);
}

static sg_value crf_hvp(sg_graph *g, sg_store *s)
{
    (void)s;
    sg_value wrt[4], loss = sg_sum_all(crf_of(g, wrt));
    return first_derivative(loss, wrt, 4, true);
}

static sg_value viterbi_case(sg_graph *g, sg_store *s)
{
    (void)s;
    sg_value wrt[4];
    crf_of(g, wrt);
    return sg_crf_viterbi((sg_crf){wrt[1], wrt[2], wrt[3]}, wrt[0], SG_NONE);
}

static const op_case cases[] = {
    {"matmul/32x1836*1836x400", first_layer},
    {"matmul/32x400*400x400", hidden_layer},
    {"matmul_nt/32x400*159x400", label_scores},
    {"matmul_nt/672x159*200x159", global_term},
    {"matmul_tn/32x1836*32x400", first_gradient},
    {"matmul_tn/672x200*672x159", global_gradient},
    {"matmul/4096x1836*1836x400", predict_layer},
    {"matmul/1024x1024*1024x1024", square},
    {"conv2d/288x3x24x24,64x5x5", conv_first},
    {"conv2d_dx/288x3x24x24,64x5x5", conv_first_dx},
    {"conv2d_dw/288x3x24x24,64x5x5", conv_first_dw},
    {"conv2d/72x64x24x24,128x5x5/2", conv_second},
    {"conv2d_dx/72x64x24x24,128x5x5/2", conv_second_dx},
    {"conv2d_dw/72x64x24x24,128x5x5/2", conv_second_dw},
    {"conv2d/72x128x12x12,128x5x5/2", conv_third},
    {"conv2d_dx/72x128x12x12,128x5x5/2", conv_third_dx},
    {"conv2d_dw/72x128x12x12,128x5x5/2", conv_third_dw},
    {"conv2d/288x64x24x24,2x1x1", conv_head},
    {"conv2d_dx/288x64x24x24,2x1x1", conv_head_dx},
    {"conv2d_dw/288x64x24x24,2x1x1", conv_head_dw},
    {"exp/8192x1024", exp_case},
    {"tanh/8192x1024", tanh_case},
    {"sigmoid/8192x1024", sigmoid_case},
    {"softplus/8192x1024", softplus_case},
    {"gelu/8192x1024", gelu_case},
    {"relu/8192x1024", relu_case},
    {"softmax/8192x1024", softmax_case},
    {"lstm/32x64x128", lstm_case},
    {"lstm_gradient/32x64x128", lstm_gradient},
    {"lstm_hvp/32x64x128", lstm_hvp},
    {"crf_log_partition/32x64x25", crf_case},
    {"crf_gradient/32x64x25", crf_gradient},
    {"crf_hvp/32x64x25", crf_hvp},
    {"crf_viterbi/32x64x25", viterbi_case},
    {"attention/16x12x256x64", attention_case},
    {"attention_gradient/16x12x256x64", attention_gradient},
    {"attention_hvp/16x12x256x64", attention_hvp},
    {"layer_norm/8192x1024", layer_norm_case},
    {"layer_norm_gradient/8192x1024", layer_norm_gradient},
    {"layer_norm_hvp/8192x1024", layer_norm_hvp},
    {"cross_entropy_gradient/8192x1024", cross_entropy_gradient},
    {"sum_rows/8192x1024", row_sum},
    {"sum_columns/672x200", column_sum},
    {"bias_softplus/672x200", bias_softplus},
    {"bernoulli/32x20x159", candidates},
    {"adamw/1000x1000", adamw},
};

static sg_status one_op(sg_bench *bench, const op_case *o, sg_error *err)
{
    sg_bench_case c = {.name = o->name, .graph = sg_graph_new(), .store = sg_store_new(SG_F32), .feed = sg_bench_fill};
    sg_status status = c.graph && c.store ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK) {
        sg_result(c.graph, "y", o->build(c.graph, c.store));
        sg_store_initialise(c.store, 1);
        status = sg_bench_time(bench, &c, err);
    }
    sg_store_free(c.store);
    sg_graph_free(c.graph);
    return status;
}

sg_status sg_bench_ops(sg_bench *bench, const char *only, sg_error *err)
{
    int measured = 0;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        if (only && !strstr(cases[k].name, only))
            continue;
        if (bench->stop && bench->stop(bench->user))
            return sg_fail(err, SG_E_INTERRUPTED, "stopped before every row was measured");
        SG_TRY(one_op(bench, &cases[k], err));
        measured++;
    }
    return measured ? SG_OK : sg_fail(err, SG_E_ARGUMENT, "no benchmark's name holds '%s'", only);
}
