/* cumsum.c - y_i = sum_{j <= i} x_j over one axis (j >= i if reversed).
 *
 * Linear: x_j enters every y_i with i >= j, so dx_j = sum_{i >= j} dy_i, the sum in the other direction. */
#include "ops/axis_internal.h"

enum { AXIS, REVERSE };
static const sg_attr_spec attrs[] = {{"axis", SG_ATTR_INT}, {"reverse", SG_ATTR_INT}};

static sg_status infer(const sg_infer_args *a)
{
    int32_t axis;
    SG_TRY(sg_require_front_axis(a, a->in_shape[0].rank, a->attr[AXIS].i, &axis));
    return sg_infer_unary(a);
}

static void vjp(const sg_vjp_args *a)
{
    const sg_attr *attr = a->node->attr;
    a->gin[0] = sg_cumsum_along(a->gout[0], (int32_t)attr[AXIS].i, !attr[REVERSE].i);
}

static void eval(const sg_eval_args *a)
{
    sg_axis_split v = sg_split_at(a->in[0].shape, a->attr[AXIS].i);
    for (int64_t o = 0; o < v.outer; o++) {
        for (int64_t j = 0; j < v.inner; j++) {
            double sum = 0;
            for (int64_t step = 0; step < v.size; step++) {
                int64_t i = a->attr[REVERSE].i ? v.size - 1 - step : step;
                int64_t at = (o * v.size + i) * v.inner + j;
                a->out[0].data[at] = sum += a->in[0].data[at];
            }
        }
    }
}

const sg_op sg_op_cumsum = {
    .name = "cumsum",
    .summary = "y_i = sum of x_j with j <= i over an axis",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_FULL,
    .linear = 1,
    .attrs = attrs,
    .n_attrs = 2,
    .infer = infer,
    .vjp = vjp,
    .eval = eval,
};

sg_value sg_cumsum_along(sg_value x, int32_t axis, bool reverse)
{
    if (sg_is_none(x))
        return SG_NONE;
    int32_t front = sg_axis_of(x, sg_rank_of(x), axis);
    if (front < 0)
        return SG_NONE;
    sg_attr attr[] = {sg_attr_int(front), sg_attr_int(reverse)};
    return sg_build_op(&sg_op_cumsum, &x, 1, attr);
}

sg_value sg_cumsum(sg_value x, int32_t axis) { return sg_cumsum_along(x, axis, false); }
