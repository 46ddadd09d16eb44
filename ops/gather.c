/* gather.c - gather picks rows of a table, scatter_rows adds rows up; each is the other's transpose.
 *
 *     gather:        y[i, :] = table[index[i], :]                       i over all axes of index
 *     scatter_rows:  y[r, :] = sum of x[i, :] over i with index[i] = r      shaped like `model`
 *
 * <gather(t), g> = sum_i <t[index[i]], g[i]> = <t, scatter_rows(g)>. Repeated indices add up. Backends report an index
 * out of range as an error; the reference rule, which cannot fail, gives NaN rows (gather) or adds NaN to the whole
 * result. */
#include "ops/axis_internal.h"

#include <math.h>

static int64_t row_size(const sg_shape *table) { return sg_split_at(table, 0).inner; }

/* [index..., rest of table], with the first axis of the table replaced by those of the index. */
static sg_status rows_shape(const sg_infer_args *a, const sg_shape *table, const sg_shape *index, sg_shape *out)
{
    if (table->rank < 1)
        return sg_infer_fail(a, SG_E_SHAPE, "a scalar has no rows");
    if (index->rank + table->rank - 1 > SG_MAX_RANK)
        return sg_infer_fail(a, SG_E_SHAPE, "the result would have more than %d axes", SG_MAX_RANK);
    *out = *index;
    for (int32_t i = 1; i < table->rank; i++)
        sg_shape_put(out, out->rank++, table, i);
    return SG_OK;
}

static sg_status infer_gather(const sg_infer_args *a)
{
    SG_TRY(sg_require_dtype(a, 1, SG_I32));
    a->out_dtype[0] = a->in_dtype[0];
    return rows_shape(a, &a->in_shape[0], &a->in_shape[1], &a->out_shape[0]);
}

static void vjp_gather(const sg_vjp_args *a)
{
    if (a->need[0])
        a->gin[0] = sg_scatter_rows(a->gout[0], a->in[1], a->in[0]);
}

static void eval_gather(const sg_eval_args *a)
{
    int64_t rows = a->in[0].shape->dim[0], width = row_size(a->in[0].shape);
    for (int64_t i = 0, n = sg_shape_count(a->in[1].shape); i < n; i++) {
        double row = a->in[1].data[i];
        bool valid = row >= 0 && row < (double)rows;
        for (int64_t j = 0; j < width; j++)
            a->out[0].data[i * width + j] = valid ? a->in[0].data[(int64_t)row * width + j] : NAN;
    }
}

static sg_cost cost_gather(const sg_cost_args *a)
{
    double n = (double)sg_shape_count(&a->out_shape[0]), indices = (double)sg_shape_count(&a->in_shape[1]);
    return (sg_cost){0, 2 * n * (double)sg_dtype_size(a->out_dtype[0]) + 4 * indices};
}

const sg_op sg_op_gather = {
    .name = "gather",
    .summary = "y[i] = table[index[i]]",
    .n_in = 2,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .linear = 1,
    .infer = infer_gather,
    .vjp = vjp_gather,
    .eval = eval_gather,
    .cost = cost_gather,
};

sg_value sg_gather(sg_value table, sg_value index) { return sg_build_binary(&sg_op_gather, table, index); }

static sg_status infer_scatter(const sg_infer_args *a)
{
    SG_TRY(sg_require_real(a, 0));
    SG_TRY(sg_require_dtype(a, 1, SG_I32));
    sg_shape rows;
    SG_TRY(rows_shape(a, &a->in_shape[2], &a->in_shape[1], &rows));
    if (!sg_shape_equal(&rows, &a->in_shape[0])) {
        char text[SG_SHAPE_TEXT];
        return sg_infer_fail(a, SG_E_SHAPE, "index and model ask for rows of shape %s",
                             sg_shape_format(&rows, text, sizeof text));
    }
    a->out_shape[0] = a->in_shape[2];
    a->out_dtype[0] = a->in_dtype[0];
    return SG_OK;
}

static void vjp_scatter(const sg_vjp_args *a)
{
    if (a->need[0])
        a->gin[0] = sg_gather(a->gout[0], a->in[1]);
}

static void eval_scatter(const sg_eval_args *a)
{
    int64_t rows = a->out[0].shape->dim[0], width = row_size(a->out[0].shape), total = rows * width;
    for (int64_t j = 0; j < total; j++)
        a->out[0].data[j] = 0;
    for (int64_t i = 0, n = sg_shape_count(a->in[1].shape); i < n; i++) {
        double row = a->in[1].data[i];
        if (row >= 0 && row < (double)rows)
            for (int64_t j = 0; j < width; j++)
                a->out[0].data[(int64_t)row * width + j] += a->in[0].data[i * width + j];
        else
            for (int64_t j = 0; j < total; j++)
                a->out[0].data[j] = NAN;
    }
}

static sg_cost cost_scatter(const sg_cost_args *a)
{
    double n = (double)sg_shape_count(&a->in_shape[0]), m = (double)sg_shape_count(&a->out_shape[0]);
    double bytes = (2 * n + m) * (double)sg_dtype_size(a->out_dtype[0]);
    return (sg_cost){n, bytes + 4 * (double)sg_shape_count(&a->in_shape[1])};
}

const sg_op sg_op_scatter_rows = {
    .name = "scatter_rows",
    .summary = "y[r] = sum of x[i] with index[i] = r, shaped like a model",
    .n_in = 3,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .linear = 1,
    .shape_only = 1 << 2,
    .infer = infer_scatter,
    .vjp = vjp_scatter,
    .eval = eval_scatter,
    .cost = cost_scatter,
};

sg_value sg_scatter_rows(sg_value x, sg_value index, sg_value model)
{
    sg_value in[] = {x, index, model};
    return sg_build_op(&sg_op_scatter_rows, in, 3, NULL);
}

sg_value sg_scatter_add(sg_value x, sg_value index, sg_value source)
{
    return sg_add(x, sg_scatter_rows(source, index, x));
}

/* The axis goes to the front, and the axes of the index from there to its place. */
sg_value sg_take(sg_value x, sg_value index, int32_t axis)
{
    if (!sg_common_graph((sg_value[]){x, index}, 2))
        return SG_NONE;
    int32_t rank = sg_rank_of(x), front = sg_axis_of(x, rank, axis), moved = sg_rank_of(index);
    if (front < 0)
        return SG_NONE;
    int32_t order[SG_MAX_RANK], n = 0;
    order[n++] = front;
    for (int32_t i = 0; i < rank; i++)
        if (i != front)
            order[n++] = i;
    sg_value y = sg_gather(sg_transpose(x, n, order), index);
    if (sg_is_none(y))
        return SG_NONE;
    n = 0;
    for (int32_t i = 0; i < front; i++)
        order[n++] = moved + i;
    for (int32_t i = 0; i < moved; i++)
        order[n++] = i;
    for (int32_t i = moved + front; i < moved + rank - 1; i++)
        order[n++] = i;
    return sg_transpose(y, n, order);
}
