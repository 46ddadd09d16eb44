/* slice.c - slice keeps [begin, end) of one axis; pad puts zeros around. Each is the other's transpose.
 *
 * Both carry {axis, begin, end} as places in the longer of the two tensors: counted from the front, or, if negative,
 * from its end; SG_SLICE_END is the end itself. The places are kept as given, so that they follow a resizing (an end
 * equal to the size of the axis means the end of the axis, at every size); dx of a slice is dy between zeros, in a
 * tensor shaped like x (a second input of pad, read for its shape alone). */
#include "ops/axis_internal.h"

enum { AXIS, BEGIN, END };
static const sg_attr_spec attrs[] = {{"axis", SG_ATTR_INT}, {"begin", SG_ATTR_INT}, {"end", SG_ATTR_INT}};

static sg_status check_places(const sg_infer_args *a, int64_t begin, int64_t end, int64_t size)
{
    if (begin >= 0 && begin <= end && end <= size)
        return SG_OK;
    return sg_infer_fail(a, SG_E_SHAPE, "[%lld, %lld) does not lie in axis %lld of size %lld", (long long)begin,
                         (long long)end, (long long)a->attr[AXIS].i, (long long)size);
}

static sg_status infer(const sg_infer_args *a)
{
    int32_t axis;
    SG_TRY(sg_require_front_axis(a, a->in_shape[0].rank, a->attr[AXIS].i, &axis));
    sg_shape out = a->in_shape[0];
    int64_t size = out.dim[axis];
    int64_t begin = sg_slice_place(a->attr[BEGIN].i, size), end = sg_slice_place(a->attr[END].i, size);
    SG_TRY(check_places(a, begin, end, size));
    out.dim[axis] = end - begin;
    out.name[axis] = NULL;
    a->out_shape[0] = out;
    a->out_dtype[0] = a->in_dtype[0];
    return SG_OK;
}

static void vjp(const sg_vjp_args *a)
{
    const sg_attr *attr = a->node->attr;
    a->gin[0] = sg_pad_like(a->gout[0], a->in[0], (int32_t)attr[AXIS].i, attr[BEGIN].i, attr[END].i);
}

static void eval(const sg_eval_args *a)
{
    sg_axis_split x = sg_split_at(a->in[0].shape, a->attr[AXIS].i), y = sg_split_at(a->out[0].shape, a->attr[AXIS].i);
    int64_t begin = sg_slice_place(a->attr[BEGIN].i, x.size);
    for (int64_t o = 0; o < y.outer; o++)
        for (int64_t i = 0; i < y.size; i++)
            for (int64_t j = 0; j < y.inner; j++)
                a->out[0].data[(o * y.size + i) * y.inner + j] = a->in[0].data[(o * x.size + begin + i) * x.inner + j];
}

static sg_cost cost(const sg_cost_args *a)
{
    double n = (double)sg_shape_count(&a->out_shape[0]) * (double)sg_dtype_size(a->out_dtype[0]);
    return (sg_cost){0, 2 * n};
}

const sg_op sg_op_slice = {
    .name = "slice",
    .summary = "[begin, end) of an axis of x",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .linear = 1,
    .attrs = attrs,
    .n_attrs = 3,
    .infer = infer,
    .vjp = vjp,
    .eval = eval,
    .cost = cost,
};

sg_value sg_slice_places(sg_value x, int32_t axis, int64_t begin, int64_t end)
{
    sg_attr attr[] = {sg_attr_int(axis), sg_attr_int(begin), sg_attr_int(end)};
    return sg_build_op(&sg_op_slice, &x, 1, attr);
}

sg_value sg_slice(sg_value x, int32_t axis, int64_t begin, int64_t end)
{
    if (sg_is_none(x))
        return SG_NONE;
    int32_t front = sg_axis_of(x, sg_rank_of(x), axis);
    if (front < 0)
        return SG_NONE;
    int64_t size = sg_dim_of(x, front);
    if (begin == 0 && sg_slice_place(end, size) == size)
        return x;
    if (end == size)
        return sg_slice_places(x, front, begin, SG_SLICE_END);
    return sg_slice_places(x, front, begin, end);
}

/* ----------------------------------------------------------------------------------------------------------- pad */

static sg_status infer_pad_like(const sg_infer_args *a, int32_t axis)
{
    const sg_shape *x = &a->in_shape[0], *out = &a->in_shape[1];
    if (x->rank != out->rank)
        return sg_infer_fail(a, SG_E_SHAPE, "input and model have ranks %d and %d", x->rank, out->rank);
    int64_t size = out->dim[axis];
    int64_t begin = sg_slice_place(a->attr[BEGIN].i, size), end = sg_slice_place(a->attr[END].i, size);
    SG_TRY(check_places(a, begin, end, size));
    for (int32_t i = 0; i < x->rank; i++)
        if (x->dim[i] != (i == axis ? end - begin : out->dim[i]))
            return sg_infer_fail(a, SG_E_SHAPE, "axis %d of the input does not fit the model", i);
    a->out_shape[0] = *out;
    return SG_OK;
}

static sg_status infer_pad(const sg_infer_args *a)
{
    int32_t axis;
    if (a->n_in < 1 || a->n_in > 2)
        return sg_infer_fail(a, SG_E_ARGUMENT, "needs one or two inputs");
    SG_TRY(sg_require_front_axis(a, a->in_shape[0].rank, a->attr[AXIS].i, &axis));
    a->out_dtype[0] = a->in_dtype[0];
    if (a->n_in == 2)
        return infer_pad_like(a, axis);
    sg_shape out = a->in_shape[0];
    int64_t before = a->attr[BEGIN].i, after = a->attr[END].i == SG_SLICE_END ? 0 : a->attr[END].i;
    if (before < 0 || after > 0)
        return sg_infer_fail(a, SG_E_ARGUMENT, "the numbers of zeros must not be negative");
    if (__builtin_add_overflow(out.dim[axis], before, &out.dim[axis]) ||
        __builtin_sub_overflow(out.dim[axis], after, &out.dim[axis]))
        return sg_infer_fail(a, SG_E_SHAPE, "axis %d is too long", axis);
    out.name[axis] = NULL;
    a->out_shape[0] = out;
    return SG_OK;
}

static void vjp_pad(const sg_vjp_args *a)
{
    const sg_attr *attr = a->node->attr;
    a->gin[0] = sg_slice_places(a->gout[0], (int32_t)attr[AXIS].i, attr[BEGIN].i, attr[END].i);
}

static void eval_pad(const sg_eval_args *a)
{
    sg_axis_split x = sg_split_at(a->in[0].shape, a->attr[AXIS].i), y = sg_split_at(a->out[0].shape, a->attr[AXIS].i);
    int64_t before = sg_pad_before(a->attr, a->out[0].shape);
    for (int64_t i = 0, n = y.outer * y.size * y.inner; i < n; i++)
        a->out[0].data[i] = 0;
    for (int64_t o = 0; o < x.outer; o++)
        for (int64_t i = 0; i < x.size; i++)
            for (int64_t j = 0; j < x.inner; j++)
                a->out[0].data[(o * y.size + before + i) * y.inner + j] = a->in[0].data[(o * x.size + i) * x.inner + j];
}

const sg_op sg_op_pad = {
    .name = "pad",
    .summary = "x between zeros along an axis",
    .n_in = SG_VARIADIC,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .linear = 1,
    .shape_only = 1 << 1,
    .attrs = attrs,
    .n_attrs = 3,
    .infer = infer_pad,
    .vjp = vjp_pad,
    .eval = eval_pad,
    .cost = cost,
};

sg_value sg_pad(sg_value x, int32_t axis, int64_t before, int64_t after)
{
    if (sg_is_none(x))
        return SG_NONE;
    int32_t front = sg_axis_of(x, sg_rank_of(x), axis);
    if (front < 0)
        return SG_NONE;
    if (before < 0 || after < 0)
        return sg_graph_fail(x.graph, SG_E_ARGUMENT, x, "pad: %lld zeros before and %lld after", (long long)before,
                             (long long)after);
    if (before == 0 && after == 0)
        return x;
    sg_attr attr[] = {sg_attr_int(front), sg_attr_int(before), sg_attr_int(after ? -after : SG_SLICE_END)};
    return sg_build_op(&sg_op_pad, &x, 1, attr);
}

/* Not x - value padded and value added: that would round x, and fail for an infinite value. */
sg_value sg_pad_with(sg_value x, int32_t axis, int64_t before, int64_t after, double value)
{
    sg_value padded = sg_pad(x, axis, before, after);
    if (sg_is_none(padded) || sg_same(padded, x))
        return padded;
    sg_value inside = sg_cast(sg_pad(sg_ones_like(x), axis, before, after), SG_BOOL);
    return sg_where(inside, padded, sg_number(x, value));
}

sg_value sg_pad_like(sg_value x, sg_value model, int32_t axis, int64_t begin, int64_t end)
{
    sg_value in[] = {x, model};
    sg_attr attr[] = {sg_attr_int(axis), sg_attr_int(begin), sg_attr_int(end)};
    return sg_build_op(&sg_op_pad, in, 2, attr);
}
