/* sum.c - y = sum of x over axes.
 *
 * Linear; the transpose of adding up is copying:  dx = dy, with the reduced axes put back as size 1, broadcast to x.
 * An empty sum is 0. */
#include "ops/axis_internal.h"

#include <string.h>

enum { AXES, KEEP };
static const sg_attr_spec attrs[] = {{"axes", SG_ATTR_INTS}, {"keep", SG_ATTR_INT}};

static bool is_reduced(const sg_attr *attr, int32_t axis)
{
    for (int64_t i = 0; i < attr[AXES].count; i++)
        if (attr[AXES].ints[i] == axis)
            return true;
    return false;
}

static sg_status infer(const sg_infer_args *a)
{
    const sg_shape *x = &a->in_shape[0];
    if (!sg_dtype_is_real(a->in_dtype[0]))
        return sg_infer_fail(a, SG_E_DTYPE, "needs a real input, not %s: use sg_cast", sg_dtype_name(a->in_dtype[0]));
    for (int64_t i = 0; i < a->attr[AXES].count; i++) {
        int64_t axis = a->attr[AXES].ints[i];
        if (axis < 0 || axis >= x->rank)
            return sg_infer_fail(a, SG_E_ARGUMENT, "axis %lld does not exist in an input of rank %d", (long long)axis,
                                 x->rank);
        if (i > 0 && axis <= a->attr[AXES].ints[i - 1])
            return sg_infer_fail(a, SG_E_ARGUMENT, "the axes are not in ascending order");
    }
    sg_shape out = sg_shape_scalar();
    for (int32_t i = 0; i < x->rank; i++) {
        if (!is_reduced(a->attr, i)) {
            sg_shape_put(&out, out.rank++, x, i);
        } else if (a->attr[KEEP].i) {
            out.dim[out.rank] = 1;
            out.name[out.rank++] = NULL;
        }
    }
    a->out_shape[0] = out;
    a->out_dtype[0] = a->in_dtype[0];
    return SG_OK;
}

static void vjp(const sg_vjp_args *a)
{
    const sg_attr *attr = a->node->attr;
    sg_value g = a->gout[0];
    if (!attr[KEEP].i)
        g = sg_expand_axes(g, (int32_t)attr[AXES].count, attr[AXES].ints);
    a->gin[0] = sg_broadcast_like(g, a->in[0]);
}

/* The shape with reduced axes kept as 1 broadcasts to x: adding x up along that broadcast is the sum. */
static void eval(const sg_eval_args *a)
{
    const sg_shape *x = a->in[0].shape;
    sg_shape kept = *x;
    for (int64_t i = 0; i < a->attr[AXES].count; i++)
        kept.dim[a->attr[AXES].ints[i]] = 1;
    memset(a->out[0].data, 0, (size_t)sg_shape_count(&kept) * sizeof(double));
    for (int64_t i = 0, n = sg_shape_count(x); i < n; i++)
        a->out[0].data[sg_broadcast_offset(&kept, x, i)] += a->in[0].data[i];
}

static sg_cost cost(const sg_cost_args *a)
{
    double n = (double)sg_shape_count(&a->in_shape[0]), m = (double)sg_shape_count(&a->out_shape[0]);
    return (sg_cost){n, (n + m) * (double)sg_dtype_size(a->in_dtype[0])};
}

const sg_op sg_op_sum = {
    .name = "sum",
    .summary = "y = sum of x over axes",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .linear = 1,
    .attrs = attrs,
    .n_attrs = 2,
    .infer = infer,
    .vjp = vjp,
    .eval = eval,
    .cost = cost,
};

sg_value sg_sum_axes(sg_value x, int32_t n, const int32_t *axes, bool keep)
{
    int64_t sorted[SG_MAX_RANK];
    if (sg_is_none(x) || !sg_axes_of(x, n, axes, sorted))
        return SG_NONE;
    if (n == 0)
        return x;
    sg_attr attr[] = {sg_attr_ints(sorted, n), sg_attr_int(keep)};
    return sg_build(x.graph, &sg_op_sum, &x, 1, attr);
}

sg_value sg_sum(sg_value x, int32_t axis) { return sg_sum_axes(x, 1, &axis, false); }

sg_value sg_sum_all(sg_value x)
{
    static const int32_t all[SG_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    return sg_sum_axes(x, sg_rank_of(x), all, false);
}
