/* segment.c - reductions over groups of rows: the rows i with segment[i] = s, for s in [0, segments).
 *
 *     sum:   y[s] = sum of x[i]        a scatter_rows; the ids need not be sorted
 *     mean:  y[s] = sum / count        0 for a segment without rows
 *     max:   y[s] = max of x[i]        -inf for a segment without rows; ties share the cotangent evenly, as in max
 *
 * `segment` has the leading axes of x. For max, with the set A_s of rows where x equals y[s],
 *     dx_i = dy[segment_i] [x_i = y[segment_i]] / |A|,      ty[s] = sum over i in s of tx_i [x_i = y[s]] / |A|,
 * a share that is piecewise constant. A NaN among the rows makes y NaN and, by 0 / 0, their shares NaN. */
#include "ops/axis_internal.h"

#include <math.h>

static const sg_attr_spec attrs[] = {{"segments", SG_ATTR_INT}};

static sg_status infer(const sg_infer_args *a)
{
    const sg_shape *x = &a->in_shape[0], *segment = &a->in_shape[1];
    SG_TRY(sg_require_real(a, 0));
    SG_TRY(sg_require_dtype(a, 1, SG_I32));
    bool fits = segment->rank >= 1 && segment->rank <= x->rank;
    for (int32_t i = 0; fits && i < segment->rank; i++)
        fits = segment->dim[i] == x->dim[i];
    if (!fits)
        return sg_infer_fail(a, SG_E_SHAPE, "the segment ids must have the leading axes of the rows");
    if (a->attr[0].i < 0)
        return sg_infer_fail(a, SG_E_ARGUMENT, "%lld segments", (long long)a->attr[0].i);
    sg_shape out = {.rank = x->rank - segment->rank + 1};
    out.dim[0] = a->attr[0].i;
    for (int32_t i = 1; i < out.rank; i++)
        sg_shape_put(&out, i, x, i + segment->rank - 1);
    if (sg_shape_count(&out) < 0)
        return sg_infer_fail(a, SG_E_SHAPE, "%lld segments are too many", (long long)a->attr[0].i);
    a->out_shape[0] = out;
    a->out_dtype[0] = a->in_dtype[0];
    return SG_OK;
}

static sg_value share(const sg_value *in, sg_value y)
{
    sg_value hit = sg_cast(sg_equal(in[0], sg_gather(y, in[1])), sg_dtype_of(in[0]));
    return sg_div(hit, sg_gather(sg_scatter_rows(hit, in[1], y), in[1]));
}

static void vjp(const sg_vjp_args *a)
{
    if (a->need[0])
        a->gin[0] = sg_mul(sg_gather(a->gout[0], a->in[1]), share(a->in, a->out[0]));
}

static void jvp(const sg_jvp_args *a)
{
    if (!sg_is_none(a->tin[0]))
        a->tout[0] = sg_scatter_rows(sg_mul(a->tin[0], share(a->in, a->out[0])), a->in[1], a->out[0]);
}

static void eval(const sg_eval_args *a)
{
    int64_t width = sg_split_at(a->out[0].shape, 0).inner, total = a->attr[0].i * width;
    for (int64_t j = 0; j < total; j++)
        a->out[0].data[j] = -INFINITY;
    for (int64_t i = 0, n = sg_shape_count(a->in[1].shape); i < n; i++) {
        double row = a->in[1].data[i];
        if (!(row >= 0 && row < (double)a->attr[0].i))
            continue; /* backends refuse it */
        double *y = a->out[0].data + (int64_t)row * width;
        const double *x = a->in[0].data + i * width;
        for (int64_t j = 0; j < width; j++)
            y[j] = isnan(x[j]) || x[j] > y[j] ? x[j] : y[j];
    }
}

const sg_op sg_op_segment_max = {
    .name = "segment_max",
    .summary = "y[s] = max of the rows with segment id s; -inf without any",
    .n_in = 2,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .attrs = attrs,
    .n_attrs = 1,
    .infer = infer,
    .vjp = vjp,
    .jvp = jvp,
    .eval = eval,
};

sg_value sg_segment_max(sg_value x, sg_value segment, int64_t segments)
{
    sg_attr attr = sg_attr_int(segments);
    return sg_build_op(&sg_op_segment_max, (sg_value[]){x, segment}, 2, &attr);
}

/* A value of the result's shape, read for its shape alone: no size of a named axis is kept. */
static sg_value result_model(sg_value x, sg_value segment, int64_t segments)
{
    int32_t axes[SG_MAX_RANK];
    for (int32_t i = 0; i < SG_MAX_RANK; i++)
        axes[i] = i;
    return sg_tile_axis(sg_sum_axes(x, sg_rank_of(segment), axes, false), 0, segments);
}

/* What the operators behind a sum would refuse in words of their own. */
static bool ids_fit(sg_value x, sg_value segment, int64_t segments, const char *builder)
{
    if (!sg_common_graph((sg_value[]){x, segment}, 2))
        return false;
    int32_t rank = sg_rank_of(segment);
    bool fits = rank >= 1 && rank <= sg_rank_of(x);
    for (int32_t i = 0; fits && i < rank; i++)
        fits = sg_dim_of(segment, i) == sg_dim_of(x, i);
    if (!fits)
        sg_graph_fail(x.graph, SG_E_SHAPE, x, "%s: the segment ids must have the leading axes of the rows", builder);
    else if (segments < 0)
        sg_graph_fail(x.graph, SG_E_ARGUMENT, x, "%s: %lld segments", builder, (long long)segments);
    return fits && segments >= 0;
}

static sg_value sum_of(sg_value x, sg_value segment, int64_t segments, const char *builder)
{
    return ids_fit(x, segment, segments, builder) ? sg_scatter_rows(x, segment, result_model(x, segment, segments))
                                                  : SG_NONE;
}

sg_value sg_segment_sum(sg_value x, sg_value segment, int64_t segments)
{
    return sum_of(x, segment, segments, "segment_sum");
}

sg_value sg_segment_mean(sg_value x, sg_value segment, int64_t segments)
{
    sg_value sum = sum_of(x, segment, segments, "segment_mean");
    if (sg_is_none(sum))
        return SG_NONE;
    sg_value ones = sg_cast(sg_equal(segment, segment), sg_dtype_of(x));
    sg_value count = sg_segment_sum(ones, segment, segments), least = sg_maximum(count, sg_number(count, 1));
    int64_t axes[SG_MAX_RANK];
    for (int32_t i = 1; i < sg_rank_of(sum); i++)
        axes[i - 1] = i;
    return sg_div(sum, sg_expand_axes(least, sg_rank_of(sum) - 1, axes));
}
