/* broadcast.c - broadcast_like and its transpose sum_like. The second input gives the target shape and is never read.
 *
 * broadcast_like copies x along the axes that NumPy's rule adds or stretches; sum_like adds up along these axes. Both
 * are linear and each is the other's transpose:  <broadcast(x), y> = <x, sum(y)>. */
#include "ops/axis_internal.h"

#include <string.h>

static bool broadcasts_to(const sg_shape *from, const sg_shape *to)
{
    sg_shape wide;
    return sg_shape_broadcast(from, to, &wide) && sg_shape_equal(&wide, to);
}

static sg_status refuse(const sg_infer_args *a, const sg_shape *from, const sg_shape *to)
{
    char small[SG_SHAPE_TEXT], wide[SG_SHAPE_TEXT];
    return sg_infer_fail(a, SG_E_SHAPE, "%s does not broadcast to %s", sg_shape_format(from, small, sizeof small),
                         sg_shape_format(to, wide, sizeof wide));
}

static sg_status infer_broadcast(const sg_infer_args *a)
{
    if (!broadcasts_to(&a->in_shape[0], &a->in_shape[1]))
        return refuse(a, &a->in_shape[0], &a->in_shape[1]);
    a->out_shape[0] = a->in_shape[1];
    a->out_dtype[0] = a->in_dtype[0];
    return SG_OK;
}

static void vjp_broadcast(const sg_vjp_args *a) { a->gin[0] = sg_sum_like(a->gout[0], a->in[0]); }

static void eval_broadcast(const sg_eval_args *a)
{
    for (int64_t i = 0, n = sg_shape_count(a->out[0].shape); i < n; i++)
        a->out[0].data[i] = a->in[0].data[sg_broadcast_offset(a->in[0].shape, a->out[0].shape, i)];
}

const sg_op sg_op_broadcast_like = {
    .name = "broadcast_like",
    .summary = "x broadcast to the shape of a model",
    .n_in = 2,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .linear = 1,
    .shape_only = 1 << 1,
    .infer = infer_broadcast,
    .vjp = vjp_broadcast,
    .eval = eval_broadcast,
};

static sg_status infer_sum(const sg_infer_args *a)
{
    SG_TRY(sg_require_real(a, 0));
    if (!broadcasts_to(&a->in_shape[1], &a->in_shape[0]))
        return refuse(a, &a->in_shape[1], &a->in_shape[0]);
    a->out_shape[0] = a->in_shape[1];
    a->out_dtype[0] = a->in_dtype[0];
    return SG_OK;
}

static void vjp_sum(const sg_vjp_args *a) { a->gin[0] = sg_broadcast_like(a->gout[0], a->in[0]); }

static void eval_sum(const sg_eval_args *a)
{
    const sg_shape *x = a->in[0].shape, *y = a->out[0].shape;
    memset(a->out[0].data, 0, (size_t)sg_shape_count(y) * sizeof(double));
    for (int64_t i = 0, n = sg_shape_count(x); i < n; i++)
        a->out[0].data[sg_broadcast_offset(y, x, i)] += a->in[0].data[i];
}

static sg_cost cost_sum(const sg_cost_args *a)
{
    double n = (double)sg_shape_count(&a->in_shape[0]), m = (double)sg_shape_count(&a->out_shape[0]);
    return (sg_cost){n, (n + m) * (double)sg_dtype_size(a->in_dtype[0])};
}

const sg_op sg_op_sum_like = {
    .name = "sum_like",
    .summary = "x summed over the axes that broadcasting a model to x would add",
    .n_in = 2,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .linear = 1,
    .shape_only = 1 << 1,
    .infer = infer_sum,
    .vjp = vjp_sum,
    .eval = eval_sum,
    .cost = cost_sum,
};

/* Nothing to do where the shapes agree under every binding. */
static sg_value build(const sg_op *op, sg_value x, sg_value model)
{
    if (!sg_is_none(x) && !sg_is_none(model) && sg_shape_same(sg_shape_of(x), sg_shape_of(model)))
        return x;
    return sg_build_binary(op, x, model);
}

sg_value sg_broadcast_like(sg_value x, sg_value model) { return build(&sg_op_broadcast_like, x, model); }

sg_value sg_sum_like(sg_value x, sg_value model) { return build(&sg_op_sum_like, x, model); }
