/* random.c - draws and the state they depend on. A draw is a function of (stream, seed, step, loop iteration,
 * element), so it can be evaluated again, on any backend, with the same bits; see random_internal.h. */
#include "ops/ops_internal.h"

#include "graph/random_internal.h"

static const sg_attr_spec stream_attrs[] = {{"stream", SG_ATTR_INT}};

static sg_status require_rng(const sg_infer_args *args, int32_t input)
{
    char text[SG_SHAPE_TEXT];
    SG_TRY(sg_require_dtype(args, input, SG_I32));
    const sg_shape *shape = &args->in_shape[input];
    if (shape->rank == 1 && shape->dim[0] == 4)
        return SG_OK;
    return sg_infer_fail(args, SG_E_SHAPE, "the generator state must be [4], it is %s",
                         sg_shape_format(shape, text, sizeof text));
}

static sg_status draw_infer(const sg_infer_args *args)
{
    SG_TRY(require_rng(args, 1));
    return sg_infer_unary(args);
}

static void words_of(const sg_tensor64 *rng, int32_t words[4])
{
    for (int32_t i = 0; i < 4; i++)
        words[i] = (int32_t)rng->data[i];
}

static void draw(const sg_eval_args *args, float (*random)(uint64_t, const int32_t *, uint64_t, uint64_t))
{
    int32_t rng[4];
    words_of(&args->in[1], rng);
    int64_t n = sg_shape_count(args->out[0].shape);
    for (int64_t i = 0; i < n; i++)
        args->out[0].data[i] = random((uint64_t)args->attr[0].i, rng, args->run.repeat, (uint64_t)i);
}

static void uniform_eval(const sg_eval_args *args) { draw(args, sg_random_uniform); }

static void normal_eval(const sg_eval_args *args) { draw(args, sg_random_normal); }

/* About ten rounds of two multiplications for each block of four, and the transformation. */
static sg_cost draw_cost(const sg_cost_args *args)
{
    double n = (double)sg_shape_count(args->out_shape);
    return (sg_cost){20 * n, n * (double)sg_dtype_size(args->out_dtype[0])};
}

#define DRAW(NAME, SUMMARY, EVAL)                                                                                      \
    const sg_op sg_op_##NAME = {                                                                                       \
        .name = #NAME,                                                                                                 \
        .summary = SUMMARY,                                                                                            \
        .n_in = 2,                                                                                                     \
        .n_out = 1,                                                                                                    \
        .flags = SG_OP_RANDOM | SG_OP_ZERO_GRAD | SG_OP_FULL,                                                          \
        .shape_only = 1,                                                                                               \
        .attrs = stream_attrs,                                                                                         \
        .n_attrs = 1,                                                                                                  \
        .infer = draw_infer,                                                                                           \
        .eval = EVAL,                                                                                                  \
        .cost = draw_cost,                                                                                             \
    };                                                                                                                 \
    sg_value sg_##NAME(sg_scope scope, sg_value model) { return build_draw(&sg_op_##NAME, scope, model); }

static sg_value build_draw(const sg_op *op, sg_scope scope, sg_value model)
{
    sg_attr stream = sg_attr_int((int64_t)sg_draw_stream(scope));
    return sg_build_op(op, (sg_value[]){model, sg_rng(scope)}, 2, &stream);
}

DRAW(uniform_like, "uniform on [0, 1), shaped like the model", uniform_eval)
DRAW(normal_like, "standard normal, shaped like the model", normal_eval)

/* ---- the state */

static sg_status rng_advance_infer(const sg_infer_args *args)
{
    SG_TRY(require_rng(args, 0));
    return sg_infer_same(args);
}

static void rng_advance_eval(const sg_eval_args *args)
{
    int32_t rng[4];
    words_of(&args->in[0], rng);
    uint64_t step = ((uint64_t)(uint32_t)rng[3] << 32 | (uint32_t)rng[2]) + 1;
    double *out = args->out[0].data;
    out[0] = rng[0];
    out[1] = rng[1];
    out[2] = (int32_t)(uint32_t)step;
    out[3] = (int32_t)(uint32_t)(step >> 32);
}

const sg_op sg_op_rng_advance = {
    .name = "rng_advance",
    .summary = "generator state with its 64-bit step plus one",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_ZERO_GRAD | SG_OP_FULL,
    .infer = rng_advance_infer,
    .eval = rng_advance_eval,
};

sg_value sg_rng(sg_scope scope)
{
    sg_scope root = sg_scope_root(scope.graph, scope.store);
    return sg_state(root, "rng", SG_I32, SG_SHAPE(4), sg_init_zeros());
}

void sg_rng_advance(sg_scope scope)
{
    sg_value rng = sg_rng(scope);
    sg_assign(rng, sg_build_unary(&sg_op_rng_advance, rng));
}

void sg_rng_seed(sg_store *store, uint64_t seed, uint64_t step)
{
    sg_shape shape = SG_SHAPE(4);
    double words[4] = {(int32_t)(uint32_t)seed, (int32_t)(uint32_t)(seed >> 32), (int32_t)(uint32_t)step,
                       (int32_t)(uint32_t)(step >> 32)};
    int32_t index;
    if (sg_store_add(store, "rng", SG_I32, &shape, sg_init_zeros(), false, &index, NULL) == SG_OK)
        sg_store_set(store, "rng", words, 4, NULL);
}

/* ---- what is built from draws */

sg_value sg_bernoulli(sg_scope scope, sg_value p)
{
    return sg_cast(sg_less(sg_uniform_like(scope, p), p), sg_dtype_of(p));
}

/* x / (1 - rate) with probability 1 - rate, else 0: the expectation is x. */
sg_value sg_dropout(sg_scope scope, sg_value x, double rate)
{
    if (!(rate >= 0 && rate < 1))
        return sg_graph_fail(scope.graph, SG_E_ARGUMENT, x, "dropout rate %g is outside [0, 1)", rate);
    if (rate == 0 || sg_is_none(x))
        return x;
    sg_value kept = sg_greater_equal(sg_uniform_like(scope, x), sg_number(x, rate));
    sg_value mask = sg_mul_scalar(sg_cast(kept, sg_dtype_of(x)), 1 / (1 - rate));
    return sg_mul(x, mask);
}
