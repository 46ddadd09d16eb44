/* transpose.c - axis i of y is axis order[i] of x.
 *
 * Linear; dx is dy under the inverse permutation. */
#include "ops/axis_internal.h"

static const sg_attr_spec attrs[] = {{"order", SG_ATTR_INTS}};

static sg_status infer(const sg_infer_args *a)
{
    const sg_shape *x = &a->in_shape[0];
    const int64_t *order = a->attr[0].ints;
    if (a->attr[0].count != x->rank)
        return sg_infer_fail(a, SG_E_ARGUMENT, "%lld axes given for an input of rank %d", (long long)a->attr[0].count,
                             x->rank);
    bool used[SG_MAX_RANK] = {false};
    sg_shape out = *x;
    for (int32_t i = 0; i < x->rank; i++) {
        if (order[i] < 0 || order[i] >= x->rank || used[order[i]])
            return sg_infer_fail(a, SG_E_ARGUMENT, "the order is not a permutation of the axes");
        used[order[i]] = true;
        sg_shape_put(&out, i, x, (int32_t)order[i]);
    }
    a->out_shape[0] = out;
    a->out_dtype[0] = a->in_dtype[0];
    return SG_OK;
}

static void vjp(const sg_vjp_args *a)
{
    const sg_attr *order = &a->node->attr[0];
    int32_t inverse[SG_MAX_RANK];
    for (int32_t i = 0; i < (int32_t)order->count; i++)
        inverse[order->ints[i]] = i;
    a->gin[0] = sg_transpose(a->gout[0], (int32_t)order->count, inverse);
}

static void eval(const sg_eval_args *a)
{
    const sg_shape *x = a->in[0].shape, *y = a->out[0].shape;
    int64_t stride[SG_MAX_RANK], step = 1;
    for (int32_t i = x->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= x->dim[i];
    }
    for (int64_t flat = 0, n = sg_shape_count(y); flat < n; flat++) {
        int64_t from = 0, rest = flat;
        for (int32_t i = y->rank - 1; i >= 0; i--) {
            from += rest % y->dim[i] * stride[a->attr[0].ints[i]];
            rest /= y->dim[i];
        }
        a->out[0].data[flat] = a->in[0].data[from];
    }
}

const sg_op sg_op_transpose = {
    .name = "transpose",
    .summary = "axes of x in another order",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .linear = 1,
    .attrs = attrs,
    .n_attrs = 1,
    .infer = infer,
    .vjp = vjp,
    .eval = eval,
};

sg_value sg_transpose(sg_value x, int32_t n, const int32_t *order)
{
    if (sg_is_none(x))
        return SG_NONE;
    if (n < 0 || n > SG_MAX_RANK)
        return sg_graph_fail(x.graph, SG_E_ARGUMENT, x, "transpose: %d axes given", n);
    int64_t front[SG_MAX_RANK];
    bool identity = n == sg_rank_of(x);
    for (int32_t i = 0; i < n; i++) {
        if ((front[i] = sg_axis_of(x, sg_rank_of(x), order[i])) < 0)
            return SG_NONE;
        identity = identity && front[i] == i;
    }
    if (identity)
        return x;
    sg_attr attr = sg_attr_ints(front, n);
    return sg_build_op(&sg_op_transpose, &x, 1, &attr);
}

sg_value sg_swap_axes(sg_value x, int32_t a, int32_t b)
{
    if (sg_is_none(x))
        return SG_NONE;
    int32_t rank = sg_rank_of(x), order[SG_MAX_RANK];
    int32_t i = sg_axis_of(x, rank, a), j = sg_axis_of(x, rank, b);
    if (i < 0 || j < 0)
        return SG_NONE;
    for (int32_t k = 0; k < rank; k++)
        order[k] = k == i ? j : k == j ? i : k;
    return sg_transpose(x, rank, order);
}
