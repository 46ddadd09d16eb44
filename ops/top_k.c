/* top_k.c - places of the k largest elements along an axis, largest first; ties in order of place.
 *
 * Only the places come from an operator of its own. The values are picked at these places by gather_elements, whose
 * derivatives are theirs: the cotangent goes back to where each value came from, and the places, being integers, do not
 * move. A NaN counts as larger than every number, as in argmax. */
#include "ops/axis_internal.h"

#include <math.h>

enum { AXIS, COUNT };
static const sg_attr_spec attrs[] = {{"axis", SG_ATTR_INT}, {"k", SG_ATTR_INT}};

static sg_status infer(const sg_infer_args *a)
{
    int32_t axis;
    SG_TRY(sg_require_real(a, 0));
    SG_TRY(sg_require_front_axis(a, a->in_shape[0].rank, a->attr[AXIS].i, &axis));
    sg_shape out = a->in_shape[0];
    if (a->attr[COUNT].i < 0 || a->attr[COUNT].i > out.dim[axis])
        return sg_infer_fail(a, SG_E_ARGUMENT, "k = %lld, axis %d has size %lld", (long long)a->attr[COUNT].i, axis,
                             (long long)out.dim[axis]);
    out.dim[axis] = a->attr[COUNT].i;
    out.name[axis] = NULL;
    a->out_shape[0] = out;
    a->out_dtype[0] = SG_I32;
    return SG_OK;
}

/* Does a come before b, where a has the lower place? */
static bool not_behind(double a, double b) { return isnan(a) || a >= b; }

/* Rank by counting: an element goes to the place given by the number of those before it. */
static void row_top_k(const double *x, int64_t size, int64_t inner, int64_t k, double *y)
{
    for (int64_t i = 0; i < size; i++) {
        int64_t before = 0;
        for (int64_t j = 0; j < i; j++)
            before += not_behind(x[j * inner], x[i * inner]);
        for (int64_t j = i + 1; j < size; j++)
            before += !not_behind(x[i * inner], x[j * inner]);
        if (before < k)
            y[before * inner] = (double)i;
    }
}

static void eval(const sg_eval_args *a)
{
    sg_axis_split x = sg_split_at(a->in[0].shape, a->attr[AXIS].i);
    int64_t k = a->attr[COUNT].i;
    for (int64_t o = 0; o < x.outer; o++)
        for (int64_t j = 0; j < x.inner; j++)
            row_top_k(a->in[0].data + o * x.size * x.inner + j, x.size, x.inner, k,
                      a->out[0].data + o * k * x.inner + j);
}

/* A heap of k: log2 k comparisons an element. */
static sg_cost cost(const sg_cost_args *a)
{
    double n = (double)sg_shape_count(&a->in_shape[0]), m = (double)sg_shape_count(&a->out_shape[0]);
    double bytes = n * (double)sg_dtype_size(a->in_dtype[0]) + m * (double)sg_dtype_size(a->out_dtype[0]);
    return (sg_cost){n * log2(2 + (double)a->attr[COUNT].i), bytes};
}

const sg_op sg_op_top_k = {
    .name = "top_k",
    .summary = "places of the k largest elements along an axis, in order",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_ZERO_GRAD | SG_OP_FULL,
    .attrs = attrs,
    .n_attrs = 2,
    .infer = infer,
    .eval = eval,
    .cost = cost,
};

sg_value sg_top_k(sg_value x, int64_t k, int32_t axis, sg_value *indices)
{
    if (indices)
        *indices = SG_NONE;
    if (sg_is_none(x))
        return SG_NONE;
    int32_t front = sg_axis_of(x, sg_rank_of(x), axis);
    if (front < 0)
        return SG_NONE;
    sg_attr attr[] = {sg_attr_int(front), sg_attr_int(k)};
    sg_value places = sg_build_op(&sg_op_top_k, &x, 1, attr);
    if (indices)
        *indices = places;
    return sg_gather_elements(x, places, front);
}
