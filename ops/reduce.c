/* reduce.c - shape rule and builder of the reductions over one axis; see reduce_internal.h. */
#include "ops/reduce_internal.h"

#include "ops/axis_internal.h"

const sg_attr_spec sg_reduce_attrs[2] = {{"axis", SG_ATTR_INT}, {"keep", SG_ATTR_INT}};

sg_status sg_reduce_infer(const sg_infer_args *a)
{
    sg_attr attr[] = {sg_attr_ints(&a->attr[SG_REDUCE_AXIS].i, 1), a->attr[SG_REDUCE_KEEP]};
    sg_infer_args as_sum = *a;
    as_sum.attr = attr;
    return sg_op_sum.infer(&as_sum);
}

sg_cost sg_reduce_cost(const sg_cost_args *a)
{
    double n = (double)sg_shape_count(&a->in_shape[0]), m = (double)sg_shape_count(&a->out_shape[0]);
    return (sg_cost){n, n * (double)sg_dtype_size(a->in_dtype[0]) + m * (double)sg_dtype_size(a->out_dtype[0])};
}

sg_value sg_reduce_build(const sg_op *op, sg_value x, int32_t axis, bool keep)
{
    if (sg_is_none(x))
        return SG_NONE;
    int32_t front = sg_axis_of(x, sg_rank_of(x), axis);
    if (front < 0)
        return SG_NONE;
    sg_attr attr[] = {sg_attr_int(front), sg_attr_int(keep)};
    return sg_build(x.graph, op, &x, 1, attr);
}

sg_value sg_reduce_keep(const sg_node *node, sg_value reduced)
{
    if (node->attr[SG_REDUCE_KEEP].i)
        return reduced;
    return sg_expand_axes(reduced, 1, &node->attr[SG_REDUCE_AXIS].i);
}
