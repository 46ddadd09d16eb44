/* tile_axis.c - a new axis along which y repeats x: y[o, k, j] = x[o, j] for k < size.
 *
 * Linear; each element is used `size` times:  dx = sum of dy over the new axis. */
#include "ops/axis_internal.h"

enum { AXIS, SIZE };
static const sg_attr_spec attrs[] = {{"axis", SG_ATTR_INT}, {"size", SG_ATTR_INT}};

static sg_status infer(const sg_infer_args *a)
{
    const sg_shape *x = &a->in_shape[0];
    int32_t axis;
    if (x->rank == SG_MAX_RANK)
        return sg_infer_fail(a, SG_E_SHAPE, "a shape has at most %d axes", SG_MAX_RANK);
    SG_TRY(sg_require_front_axis(a, x->rank + 1, a->attr[AXIS].i, &axis));
    if (a->attr[SIZE].i < 0)
        return sg_infer_fail(a, SG_E_ARGUMENT, "the new axis has size %lld", (long long)a->attr[SIZE].i);
    sg_shape out = {.rank = x->rank + 1};
    for (int32_t i = 0; i < x->rank; i++)
        sg_shape_put(&out, i < axis ? i : i + 1, x, i);
    out.dim[axis] = a->attr[SIZE].i;
    a->out_shape[0] = out;
    a->out_dtype[0] = a->in_dtype[0];
    return SG_OK;
}

static void vjp(const sg_vjp_args *a) { a->gin[0] = sg_sum(a->gout[0], (int32_t)a->node->attr[AXIS].i); }

static void eval(const sg_eval_args *a)
{
    sg_axis_split v = sg_split_at(a->out[0].shape, a->attr[AXIS].i);
    for (int64_t o = 0; o < v.outer; o++)
        for (int64_t k = 0; k < v.size; k++)
            for (int64_t j = 0; j < v.inner; j++)
                a->out[0].data[(o * v.size + k) * v.inner + j] = a->in[0].data[o * v.inner + j];
}

const sg_op sg_op_tile_axis = {
    .name = "tile_axis",
    .summary = "x repeated along a new axis",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .linear = 1,
    .attrs = attrs,
    .n_attrs = 2,
    .infer = infer,
    .vjp = vjp,
    .eval = eval,
};

sg_value sg_tile_axis(sg_value x, int32_t axis, int64_t size)
{
    if (sg_is_none(x))
        return SG_NONE;
    int32_t front = sg_axis_of(x, sg_rank_of(x) + 1, axis);
    if (front < 0)
        return SG_NONE;
    sg_attr attr[] = {sg_attr_int(front), sg_attr_int(size)};
    return sg_build_op(&sg_op_tile_axis, &x, 1, attr);
}
