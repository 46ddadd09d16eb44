/* max.c - y = max or min of x over one axis; argmax and argmin.
 *
 * With the set A of arguments where x equals y, ties share the cotangent evenly (the mean of the subgradient's
 * corners):
 *     dx_i = dy [x_i = y] / |A|,      ty = sum_i tx_i [x_i = y] / |A|.
 * The share is piecewise constant, so all higher derivatives are zero. A NaN in the row makes y NaN and, by 0 / 0, the
 * shares of that row NaN. An empty axis has no maximum: an error. argmax and argmin take the lowest index among ties and
 * the first NaN. */
#include "ops/axis_internal.h"
#include "ops/reduce_internal.h"

#include <math.h>

static sg_status infer(const sg_infer_args *a)
{
    SG_TRY(sg_reduce_infer(a));
    if (a->in_shape[0].dim[a->attr[SG_REDUCE_AXIS].i] == 0) {
        char text[SG_SHAPE_TEXT];
        return sg_infer_fail(a, SG_E_SHAPE, "axis %lld of %s is empty: it has no extreme element",
                             (long long)a->attr[SG_REDUCE_AXIS].i, sg_shape_format(&a->in_shape[0], text, sizeof text));
    }
    return SG_OK;
}

static sg_value share(const sg_node *node, sg_value x, sg_value y)
{
    int32_t axis = (int32_t)node->attr[SG_REDUCE_AXIS].i;
    sg_value hit = sg_cast(sg_equal(x, sg_reduce_keep(node, y)), sg_dtype_of(x));
    return sg_div(hit, sg_sum_axes(hit, 1, &axis, true));
}

static void vjp(const sg_vjp_args *a)
{
    sg_value g = sg_reduce_keep(a->node, a->gout[0]);
    a->gin[0] = sg_mul(g, share(a->node, a->in[0], a->out[0]));
}

static void jvp(const sg_jvp_args *a)
{
    int32_t axis = (int32_t)a->node->attr[SG_REDUCE_AXIS].i;
    sg_value moved = sg_mul(a->tin[0], share(a->node, a->in[0], a->out[0]));
    a->tout[0] = sg_sum_axes(moved, 1, &axis, a->node->attr[SG_REDUCE_KEEP].i != 0);
}

/* Index of the extreme element of a row with stride `inner`; the first NaN wins over everything. */
static int64_t extreme(const double *row, int64_t size, int64_t inner, double sign)
{
    int64_t best = 0;
    for (int64_t i = 0; i < size; i++) {
        double v = row[i * inner];
        if (isnan(v))
            return i;
        if (sign * v > sign * row[best * inner])
            best = i;
    }
    return best;
}

static void eval_extreme(const sg_eval_args *a, double sign, bool index)
{
    sg_axis_split v = sg_split_at(a->in[0].shape, (int32_t)a->attr[SG_REDUCE_AXIS].i);
    for (int64_t o = 0; o < v.outer; o++) {
        for (int64_t j = 0; j < v.inner; j++) {
            const double *row = a->in[0].data + o * v.size * v.inner + j;
            int64_t best = extreme(row, v.size, v.inner, sign);
            a->out[0].data[o * v.inner + j] = index ? (double)best : row[best * v.inner];
        }
    }
}

static void eval_max(const sg_eval_args *a) { eval_extreme(a, 1, false); }

static void eval_min(const sg_eval_args *a) { eval_extreme(a, -1, false); }

static void eval_argmax(const sg_eval_args *a) { eval_extreme(a, 1, true); }

static void eval_argmin(const sg_eval_args *a) { eval_extreme(a, -1, true); }

const sg_op sg_op_max = {
    .name = "max",
    .summary = "y = max of x over an axis; ties share the cotangent",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .attrs = sg_reduce_attrs,
    .n_attrs = 2,
    .infer = infer,
    .vjp = vjp,
    .jvp = jvp,
    .eval = eval_max,
    .cost = sg_reduce_cost,
};

const sg_op sg_op_min = {
    .name = "min",
    .summary = "y = min of x over an axis; ties share the cotangent",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .attrs = sg_reduce_attrs,
    .n_attrs = 2,
    .infer = infer,
    .vjp = vjp,
    .jvp = jvp,
    .eval = eval_min,
    .cost = sg_reduce_cost,
};

static sg_status infer_place(const sg_infer_args *a)
{
    sg_attr attr[] = {a->attr[SG_REDUCE_AXIS], sg_attr_int(0)};
    sg_infer_args as_max = *a;
    as_max.attr = attr;
    SG_TRY(infer(&as_max));
    a->out_dtype[0] = SG_I32;
    return SG_OK;
}

const sg_op sg_op_argmax = {
    .name = "argmax",
    .summary = "y = lowest index of the max of x over an axis",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_ZERO_GRAD | SG_OP_FULL,
    .attrs = sg_reduce_attrs,
    .n_attrs = 1,
    .infer = infer_place,
    .eval = eval_argmax,
    .cost = sg_reduce_cost,
};

const sg_op sg_op_argmin = {
    .name = "argmin",
    .summary = "y = lowest index of the min of x over an axis",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_ZERO_GRAD | SG_OP_FULL,
    .attrs = sg_reduce_attrs,
    .n_attrs = 1,
    .infer = infer_place,
    .eval = eval_argmin,
    .cost = sg_reduce_cost,
};

sg_value sg_max(sg_value x, int32_t axis, bool keep) { return sg_reduce_build(&sg_op_max, x, axis, keep); }

sg_value sg_min(sg_value x, int32_t axis, bool keep) { return sg_reduce_build(&sg_op_min, x, axis, keep); }

sg_value sg_argmax(sg_value x, int32_t axis) { return sg_reduce_build(&sg_op_argmax, x, axis, false); }

sg_value sg_argmin(sg_value x, int32_t axis) { return sg_reduce_build(&sg_op_argmin, x, axis, false); }
