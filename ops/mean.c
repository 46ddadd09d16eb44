/* mean.c - y = (sum of x over axes) / (number of elements summed). An empty mean is 0 / 0 = NaN.
 *
 * The number is read from shapes each time the graph is planned, so that it follows a resized dimension: it is the
 * product over the reduced axes k of sum(1 over axis k). */
#include "ops/axis_internal.h"
#include "ops/reduce_internal.h"

enum { AXES };
static const sg_attr_spec attrs[] = {{"axes", SG_ATTR_INTS}};

/* Ones along axis k alone. The sum that the ones are shaped like is read for its shape and never computed. */
static sg_value axis_size(sg_value x, int32_t axis)
{
    int32_t others[SG_MAX_RANK], n = 0;
    for (int32_t i = 0; i < sg_rank_of(x); i++)
        if (i != axis)
            others[n++] = i;
    return sg_sum_all(sg_ones_like(sg_sum_axes(x, n, others, false)));
}

sg_value sg_count_axes(sg_value x, int32_t n, const int32_t *axes)
{
    sg_value count = sg_number(x, 1);
    for (int32_t i = 0; i < n; i++)
        count = i == 0 ? axis_size(x, axes[i]) : sg_mul(count, axis_size(x, axes[i]));
    return count;
}

static void decompose(const sg_decompose_args *a)
{
    const sg_attr *axes = &a->node->attr[AXES];
    int32_t list[SG_MAX_RANK], n = (int32_t)axes->count;
    for (int32_t i = 0; i < n; i++)
        list[i] = (int32_t)axes->ints[i];
    a->out[0] = sg_div(sg_sum_axes(a->in[0], n, list, false), sg_count_axes(a->in[0], n, list));
}

static sg_status infer(const sg_infer_args *a)
{
    sg_attr attr[] = {a->attr[AXES], sg_attr_int(0)};
    sg_infer_args as_sum = *a;
    as_sum.attr = attr;
    return sg_op_sum.infer(&as_sum);
}

const sg_op sg_op_mean = {
    .name = "mean",
    .summary = "y = mean of x over axes",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_COMPOSITE | SG_OP_FOLLOWS,
    .linear = 1,
    .attrs = attrs,
    .n_attrs = 1,
    .infer = infer,
    .decompose = decompose,
};

sg_value sg_mean_axes(sg_value x, int32_t n, const int32_t *axes, bool keep)
{
    int64_t sorted[SG_MAX_RANK];
    if (sg_is_none(x) || !sg_axes_of(x, n, axes, sorted))
        return SG_NONE;
    if (n == 0)
        return x;
    sg_attr attr[] = {sg_attr_ints(sorted, n)};
    sg_value mean = sg_build(x.graph, &sg_op_mean, &x, 1, attr);
    return keep ? sg_expand_axes(mean, n, sorted) : mean;
}

sg_value sg_mean(sg_value x, int32_t axis) { return sg_mean_axes(x, 1, &axis, false); }

sg_value sg_mean_all(sg_value x)
{
    static const int32_t all[SG_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    return sg_mean_axes(x, sg_rank_of(x), all, false);
}
