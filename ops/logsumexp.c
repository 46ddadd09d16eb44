/* logsumexp.c - y = log sum_i exp(x_i) over one axis, computed as m + log sum_i exp(x_i - m) with m = max x.
 *
 *     dx_i = dy exp(x_i - y) = dy softmax(x)_i,      ty = sum_i softmax(x)_i tx_i.
 * A row of all -inf (or an empty one) gives -inf; softmax gives zeros there, hence a zero gradient. */
#include "ops/axis_internal.h"
#include "ops/reduce_internal.h"

#include <math.h>

static void vjp(const sg_vjp_args *a)
{
    int32_t axis = (int32_t)a->node->attr[SG_REDUCE_AXIS].i;
    a->gin[0] = sg_mul(sg_reduce_keep(a->node, a->gout[0]), sg_softmax(a->in[0], axis));
}

static void jvp(const sg_jvp_args *a)
{
    int32_t axis = (int32_t)a->node->attr[SG_REDUCE_AXIS].i;
    sg_value moved = sg_mul(sg_softmax(a->in[0], axis), a->tin[0]);
    a->tout[0] = sg_sum_axes(moved, 1, &axis, a->node->attr[SG_REDUCE_KEEP].i != 0);
}

static double row_logsumexp(const double *row, int64_t size, int64_t inner)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < size; i++)
        if (isnan(row[i * inner]) || row[i * inner] > top)
            top = row[i * inner];
    if (isinf(top) || isnan(top))
        return top;
    for (int64_t i = 0; i < size; i++)
        sum += exp(row[i * inner] - top);
    return top + log(sum);
}

static void eval(const sg_eval_args *a)
{
    sg_axis_split v = sg_split_at(a->in[0].shape, (int32_t)a->attr[SG_REDUCE_AXIS].i);
    for (int64_t o = 0; o < v.outer; o++)
        for (int64_t j = 0; j < v.inner; j++)
            a->out[0].data[o * v.inner + j] = row_logsumexp(a->in[0].data + o * v.size * v.inner + j, v.size, v.inner);
}

const sg_op sg_op_logsumexp = {
    .name = "logsumexp",
    .summary = "y = log sum exp(x) over an axis",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_FULL,
    .attrs = sg_reduce_attrs,
    .n_attrs = 2,
    .infer = sg_reduce_infer,
    .vjp = vjp,
    .jvp = jvp,
    .eval = eval,
    .cost = sg_reduce_cost,
};

sg_value sg_logsumexp(sg_value x, int32_t axis, bool keep) { return sg_reduce_build(&sg_op_logsumexp, x, axis, keep); }
