/* concat.c - the inputs one after the other along an axis.
 *
 * Linear in all inputs together: ty = concat(tx), with zeros for an input that does not move; dx_k is the part of dy
 * that x_k became. Where an input before x_k has a named size, the part is counted from the end, so that the derivative
 * follows a resized axis. */
#include "ops/axis_internal.h"

static const sg_attr_spec attrs[] = {{"axis", SG_ATTR_INT}};

static sg_status infer(const sg_infer_args *a)
{
    if (a->n_in < 1)
        return sg_infer_fail(a, SG_E_ARGUMENT, "needs at least one input");
    sg_shape out = a->in_shape[0];
    int32_t axis;
    SG_TRY(sg_require_front_axis(a, out.rank, a->attr[0].i, &axis));
    for (int32_t k = 1; k < a->n_in; k++) {
        const sg_shape *x = &a->in_shape[k];
        SG_TRY(sg_require_same_dtype(a, 0, k));
        if (x->rank != out.rank)
            return sg_infer_fail(a, SG_E_SHAPE, "inputs 0 and %d have ranks %d and %d", k, out.rank, x->rank);
        for (int32_t i = 0; i < out.rank; i++) {
            if (i != axis && x->dim[i] != out.dim[i])
                return sg_infer_fail(a, SG_E_SHAPE, "inputs 0 and %d differ along axis %d: %lld and %lld", k, i,
                                     (long long)out.dim[i], (long long)x->dim[i]);
            if (i != axis && !out.name[i])
                out.name[i] = x->name[i];
        }
        if (__builtin_add_overflow(out.dim[axis], x->dim[axis], &out.dim[axis]))
            return sg_infer_fail(a, SG_E_SHAPE, "axis %d is too long", axis);
    }
    if (a->n_in > 1)
        out.name[axis] = NULL;
    a->out_shape[0] = out;
    a->out_dtype[0] = a->in_dtype[0];
    return SG_OK;
}

static bool is_named(sg_value x, int32_t axis) { return sg_shape_of(x)->name[axis] != NULL; }

static void vjp(const sg_vjp_args *a)
{
    int32_t axis = (int32_t)a->node->attr[0].i, n = a->node->n_in;
    int64_t begin = 0, behind = 0;
    bool named_before = false;
    for (int32_t k = 0; k < n; k++)
        behind += sg_dim_of(a->in[k], axis);
    for (int32_t k = 0; k < n; k++) {
        int64_t size = sg_dim_of(a->in[k], axis), end = begin + size;
        if (a->need[k] && size > 0) {
            bool to_end = behind == size, from_end = named_before || (is_named(a->in[k], axis) && !to_end);
            int64_t first = named_before ? -behind : begin;
            int64_t last = to_end ? SG_SLICE_END : from_end ? size - behind : end;
            a->gin[k] = sg_slice_places(a->gout[0], axis, first, last);
        }
        named_before = named_before || is_named(a->in[k], axis);
        begin = end;
        behind -= size;
    }
}

static void jvp(const sg_jvp_args *a)
{
    int32_t n = a->node->n_in;
    sg_value *t = sg_calloc(n, sizeof *t);
    if (!t) {
        sg_graph_fail(a->graph, SG_E_MEMORY, a->out[0], "out of memory in the forward rule of concat");
        return;
    }
    for (int32_t k = 0; k < n; k++)
        t[k] = sg_is_none(a->tin[k]) ? sg_zeros_like(a->in[k]) : a->tin[k];
    a->tout[0] = sg_build(a->graph, a->node->op, t, n, a->node->attr);
    sg_free(t);
}

static void eval(const sg_eval_args *a)
{
    sg_axis_split y = sg_split_at(a->out[0].shape, a->attr[0].i);
    int64_t begin = 0;
    for (int32_t k = 0; k < a->n_in; k++) {
        sg_axis_split x = sg_split_at(a->in[k].shape, a->attr[0].i);
        for (int64_t o = 0; o < x.outer; o++)
            for (int64_t i = 0; i < x.size; i++)
                for (int64_t j = 0; j < x.inner; j++)
                    a->out[0].data[(o * y.size + begin + i) * y.inner + j] =
                        a->in[k].data[(o * x.size + i) * x.inner + j];
        begin += x.size;
    }
}

const sg_op sg_op_concat = {
    .name = "concat",
    .summary = "inputs one after the other along an axis",
    .n_in = SG_VARIADIC,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .attrs = attrs,
    .n_attrs = 1,
    .infer = infer,
    .vjp = vjp,
    .jvp = jvp,
    .eval = eval,
};

sg_value sg_concat(const sg_value *x, int32_t n, int32_t axis)
{
    sg_graph *graph = sg_common_graph(x, n);
    if (!graph)
        return SG_NONE;
    int32_t front = sg_axis_of(x[0], sg_rank_of(x[0]), axis);
    if (front < 0)
        return SG_NONE;
    if (n == 1)
        return x[0];
    sg_attr attr = sg_attr_int(front);
    return sg_build(graph, &sg_op_concat, x, n, &attr);
}
