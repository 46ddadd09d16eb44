/* draw_key.c - a draw as a value. `draw_key` is the address of a draw (Philox key and upper counter words, see
 * random_internal.h) at this step and loop iteration; `keyed_uniform` evaluates it, as often as wanted, with the same bits.
 *
 * A composite that uses random numbers takes a key as an input: it is then a pure function of its inputs, and its
 * derivatives, its decomposition and fused kernels draw the same numbers without storing them. */
#include "ops/ops_internal.h"

#include "graph/random_internal.h"

static const sg_attr_spec stream_attrs[] = {{"stream", SG_ATTR_INT}};

static sg_status require_words(const sg_infer_args *args, int32_t input, const char *what)
{
    char text[SG_SHAPE_TEXT];
    SG_TRY(sg_require_dtype(args, input, SG_I32));
    const sg_shape *shape = &args->in_shape[input];
    if (shape->rank == 1 && shape->dim[0] == 4)
        return SG_OK;
    return sg_infer_fail(args, SG_E_SHAPE, "%s must be [4], it is %s", what, sg_shape_format(shape, text, sizeof text));
}

static sg_status key_infer(const sg_infer_args *args)
{
    SG_TRY(require_words(args, 0, "the generator state"));
    return sg_infer_same(args);
}

static void key_eval(const sg_eval_args *args)
{
    int32_t rng[4];
    for (int32_t i = 0; i < 4; i++)
        rng[i] = (int32_t)args->in[0].data[i];
    sg_draw draw = sg_draw_make((uint64_t)args->attr[0].i, rng, args->run.repeat);
    double *out = args->out[0].data;
    out[0] = (int32_t)draw.key[0];
    out[1] = (int32_t)draw.key[1];
    out[2] = (int32_t)draw.counter2;
    out[3] = (int32_t)draw.counter3;
}

const sg_op sg_op_draw_key = {
    .name = "draw_key",
    .summary = "address of a draw at this step and iteration",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_RANDOM | SG_OP_ZERO_GRAD | SG_OP_FULL,
    .attrs = stream_attrs,
    .n_attrs = 1,
    .infer = key_infer,
    .eval = key_eval,
};

sg_value sg_draw_key(sg_scope scope)
{
    sg_attr stream = sg_attr_int((int64_t)sg_draw_stream(scope));
    sg_value rng = sg_rng(scope);
    return sg_build_op(&sg_op_draw_key, &rng, 1, &stream);
}

static sg_status uniform_infer(const sg_infer_args *args)
{
    SG_TRY(require_words(args, 1, "the key of a draw"));
    return sg_infer_unary(args);
}

static void uniform_eval(const sg_eval_args *args)
{
    const double *word = args->in[1].data;
    sg_draw draw = sg_draw_of_key((int32_t[4]){(int32_t)word[0], (int32_t)word[1], (int32_t)word[2], (int32_t)word[3]});
    int64_t n = sg_shape_count(args->out[0].shape);
    for (int64_t i = 0; i < n; i++)
        args->out[0].data[i] = sg_uniform_from_bits(sg_random_bits(draw, (uint64_t)i));
}

/* About ten rounds of two multiplications for each block of four. */
static sg_cost uniform_cost(const sg_cost_args *args)
{
    double n = (double)sg_shape_count(args->out_shape);
    return (sg_cost){20 * n, n * (double)sg_dtype_size(args->out_dtype[0])};
}

const sg_op sg_op_keyed_uniform = {
    .name = "keyed_uniform",
    .summary = "uniform on [0, 1), shaped like the model: the draw that a key names",
    .n_in = 2,
    .n_out = 1,
    .flags = SG_OP_ZERO_GRAD | SG_OP_FULL,
    .shape_only = 1,
    .infer = uniform_infer,
    .eval = uniform_eval,
    .cost = uniform_cost,
};

sg_value sg_keyed_uniform(sg_value key, sg_value model)
{
    return sg_build_op(&sg_op_keyed_uniform, (sg_value[]){model, key}, 2, NULL);
}
