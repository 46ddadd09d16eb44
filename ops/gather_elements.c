/* gather_elements.c - picking single elements along an axis by an index tensor of the same rank, and its transpose.
 *
 *     gather_elements:   y[o, i, j] = x[o, index[o, i, j], j]              (NumPy's take_along_axis)
 *     scatter_elements:  y[o, r, j] = sum of x[o, i, j] over i with index[o, i, j] = r      shaped like `model`
 *
 * with o and j over the axes before and after the one indexed. <gather(x), g> = <x, scatter(g)>; repeated indices add up,
 * in their order. Backends report an index out of range as an error; the reference rule, which cannot fail, gives NaN
 * (gather) or a whole result of NaN (scatter). */
#include "ops/axis_internal.h"

#include <math.h>

static const sg_attr_spec attrs[] = {{"axis", SG_ATTR_INT}};

/* `index` has the sizes of `full` but for the indexed axis. */
static sg_status check_index(const sg_infer_args *a, const sg_shape *full, const sg_shape *index, int32_t *axis)
{
    char left[SG_SHAPE_TEXT], right[SG_SHAPE_TEXT];
    SG_TRY(sg_require_dtype(a, 1, SG_I32));
    SG_TRY(sg_require_front_axis(a, full->rank, a->attr[0].i, axis));
    bool fits = index->rank == full->rank;
    for (int32_t i = 0; fits && i < full->rank; i++)
        fits = i == *axis || index->dim[i] == full->dim[i];
    if (fits)
        return SG_OK;
    return sg_infer_fail(a, SG_E_SHAPE, "an index of shape %s does not fit %s along axis %d",
                         sg_shape_format(index, left, sizeof left), sg_shape_format(full, right, sizeof right), *axis);
}

static sg_status infer_gather(const sg_infer_args *a)
{
    int32_t axis;
    SG_TRY(check_index(a, &a->in_shape[0], &a->in_shape[1], &axis));
    sg_shape out = a->in_shape[0];
    sg_shape_put(&out, axis, &a->in_shape[1], axis);
    a->out_shape[0] = out;
    a->out_dtype[0] = a->in_dtype[0];
    return SG_OK;
}

static void vjp_gather(const sg_vjp_args *a)
{
    if (a->need[0])
        a->gin[0] = sg_scatter_elements(a->gout[0], a->in[1], a->in[0], (int32_t)a->node->attr[0].i);
}

static void eval_gather(const sg_eval_args *a)
{
    sg_axis_split x = sg_split_at(a->in[0].shape, a->attr[0].i), y = sg_split_at(a->out[0].shape, a->attr[0].i);
    for (int64_t at = 0, n = y.outer * y.size * y.inner; at < n; at++) {
        double index = a->in[1].data[at];
        int64_t outer = at / (y.size * y.inner), column = at % y.inner;
        bool valid = index >= 0 && index < (double)x.size;
        a->out[0].data[at] = valid ? a->in[0].data[(outer * x.size + (int64_t)index) * x.inner + column] : NAN;
    }
}

static sg_cost cost(const sg_cost_args *a)
{
    double moved = (double)sg_shape_count(&a->in_shape[1]), out = (double)sg_shape_count(&a->out_shape[0]);
    double size = (double)sg_dtype_size(a->out_dtype[0]);
    return (sg_cost){0, (moved + out) * size + 4 * moved};
}

const sg_op sg_op_gather_elements = {
    .name = "gather_elements",
    .summary = "y[.., i, ..] = x[.., index[.., i, ..], ..] along an axis",
    .n_in = 2,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .linear = 1,
    .attrs = attrs,
    .n_attrs = 1,
    .infer = infer_gather,
    .vjp = vjp_gather,
    .eval = eval_gather,
    .cost = cost,
};

static sg_status infer_scatter(const sg_infer_args *a)
{
    int32_t axis;
    SG_TRY(sg_require_real(a, 0));
    SG_TRY(sg_require_same_shape(a, 0, 1));
    SG_TRY(check_index(a, &a->in_shape[2], &a->in_shape[1], &axis));
    a->out_shape[0] = a->in_shape[2];
    a->out_dtype[0] = a->in_dtype[0];
    return SG_OK;
}

static void vjp_scatter(const sg_vjp_args *a)
{
    if (a->need[0])
        a->gin[0] = sg_gather_elements(a->gout[0], a->in[1], (int32_t)a->node->attr[0].i);
}

static void eval_scatter(const sg_eval_args *a)
{
    sg_axis_split x = sg_split_at(a->in[0].shape, a->attr[0].i), y = sg_split_at(a->out[0].shape, a->attr[0].i);
    int64_t total = y.outer * y.size * y.inner;
    bool valid = true;
    for (int64_t at = 0; at < total; at++)
        a->out[0].data[at] = 0;
    for (int64_t at = 0, n = x.outer * x.size * x.inner; at < n && valid; at++) {
        double index = a->in[1].data[at];
        valid = index >= 0 && index < (double)y.size;
        if (valid) {
            int64_t outer = at / (x.size * x.inner), column = at % x.inner;
            a->out[0].data[(outer * y.size + (int64_t)index) * y.inner + column] += a->in[0].data[at];
        }
    }
    for (int64_t at = 0; at < total && !valid; at++)
        a->out[0].data[at] = NAN;
}

static sg_cost cost_scatter(const sg_cost_args *a)
{
    sg_cost c = cost(a);
    c.flops = (double)sg_shape_count(&a->in_shape[0]);
    return c;
}

const sg_op sg_op_scatter_elements = {
    .name = "scatter_elements",
    .summary = "y[.., r, ..] = sum of x[.., i, ..] with index[.., i, ..] = r, shaped like a model",
    .n_in = 3,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .linear = 1,
    .shape_only = 1 << 2,
    .attrs = attrs,
    .n_attrs = 1,
    .infer = infer_scatter,
    .vjp = vjp_scatter,
    .eval = eval_scatter,
    .cost = cost_scatter,
};

static sg_value build(const sg_op *op, const sg_value *in, int32_t n_in, sg_value full, int32_t axis)
{
    if (sg_is_none(full))
        return SG_NONE;
    int32_t front = sg_axis_of(full, sg_rank_of(full), axis);
    if (front < 0)
        return SG_NONE;
    sg_attr attr = sg_attr_int(front);
    return sg_build_op(op, in, n_in, &attr);
}

sg_value sg_gather_elements(sg_value x, sg_value index, int32_t axis)
{
    return build(&sg_op_gather_elements, (sg_value[]){x, index}, 2, x, axis);
}

sg_value sg_scatter_elements(sg_value x, sg_value index, sg_value model, int32_t axis)
{
    return build(&sg_op_scatter_elements, (sg_value[]){x, index, model}, 3, model, axis);
}

sg_value sg_scatter_add_elements(sg_value x, sg_value index, sg_value source, int32_t axis)
{
    return sg_add(x, sg_scatter_elements(source, index, x, axis));
}
