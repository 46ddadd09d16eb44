/* pool.c - the largest element, and the mean, of each window that slides over rows and columns of [N, C, H, W].
 *
 * max_pool2d also returns where the largest element stands, as a place in its plane: row W + column. With it
 *     y = gather(x, place),   dx = scatter(dy, place),   ty = gather(tx, place)
 * along the flattened planes, and as the place is piecewise constant, these two linear ops close the family at every order. The
 * first of equal elements in row-major order is taken (unlike the reductions, where ties share: a place has one number), and
 * the first NaN if there is one. Padding never is the largest.
 *
 * avg_pool2d is linear; its transpose avg_pool2d_grad spreads each dy over its window. The sum is divided by all taps, or by
 * those that are not padding. */
#include "ops/pool_internal.h"

#include <math.h>

#include "ops/axis_internal.h"

static const sg_attr_spec max_attrs[] = {SG_WINDOW_SCHEMA, {"kernel", SG_ATTR_INTS}};
static const sg_attr_spec avg_attrs[] = {SG_WINDOW_SCHEMA, {"kernel", SG_ATTR_INTS}, {"count_padding", SG_ATTR_INT}};

/* ------------------------------------------------------------------------------------------------------ shape rules */

/* Every place has a tap on an element if no padding reaches beyond the kernel and no tap steps over the whole input. */
static sg_status refuse_empty_places(const sg_infer_args *a, const sg_window_axis *w)
{
    int64_t reach = w->dilation * (w->kernel - 1);
    if (w->before <= reach && w->after <= reach &&
        (w->before + w->after == 0 || w->kernel == 1 || w->dilation <= w->size))
        return SG_OK;
    return sg_infer_fail(
        a, SG_E_SHAPE,
        "some windows would hold padding alone (size %lld, padding %lld and %lld, kernel %lld, dilation "
        "%lld)",
        (long long)w->size, (long long)w->before, (long long)w->after, (long long)w->kernel, (long long)w->dilation);
}

static sg_status places_shape(const sg_infer_args *a, const sg_shape *x, sg_shape *out)
{
    SG_TRY(sg_window_check(a));
    if (a->attr[SG_POOL_KERNEL].count != 2)
        return sg_infer_fail(a, SG_E_ARGUMENT, "kernel needs 2 numbers, it has %lld",
                             (long long)a->attr[SG_POOL_KERNEL].count);
    *out = *x;
    for (int32_t axis = 0; axis < 2; axis++) {
        sg_window_axis w;
        SG_TRY(sg_window_fit(a, axis, x->dim[2 + axis], a->attr[SG_POOL_KERNEL].ints[axis], &w));
        SG_TRY(refuse_empty_places(a, &w));
        out->dim[2 + axis] = w.places;
        if (!sg_window_keeps_size(&w))
            out->name[2 + axis] = NULL;
    }
    return SG_OK;
}

static sg_status infer_avg(const sg_infer_args *a)
{
    SG_TRY(sg_require_real(a, 0));
    SG_TRY(sg_require_rank4(a, 0, "[images, channels, rows, columns]"));
    a->out_dtype[0] = a->in_dtype[0];
    return places_shape(a, &a->in_shape[0], &a->out_shape[0]);
}

static sg_status infer_max(const sg_infer_args *a)
{
    int64_t plane;
    SG_TRY(infer_avg(a));
    if (!sg_mul_ok(a->in_shape[0].dim[2], a->in_shape[0].dim[3], &plane) || plane > INT32_MAX)
        return sg_infer_fail(a, SG_E_SHAPE, "a plane has more than 2^31 - 1 elements");
    a->out_shape[1] = a->out_shape[0];
    a->out_dtype[1] = SG_I32;
    return SG_OK;
}

static sg_status infer_avg_grad(const sg_infer_args *a)
{
    char left[SG_SHAPE_TEXT], right[SG_SHAPE_TEXT];
    sg_shape expected;
    SG_TRY(sg_require_real(a, 0));
    SG_TRY(sg_require_rank4(a, 0, "[images, channels, rows, columns]"));
    SG_TRY(sg_require_rank4(a, 1, "[images, channels, rows, columns]"));
    SG_TRY(places_shape(a, &a->in_shape[1], &expected));
    a->out_shape[0] = a->in_shape[1];
    a->out_dtype[0] = a->in_dtype[0];
    if (sg_shape_equal(&expected, &a->in_shape[0]))
        return SG_OK;
    return sg_infer_fail(a, SG_E_SHAPE, "pooling the model has the shape %s, not %s",
                         sg_shape_format(&expected, left, sizeof left),
                         sg_shape_format(&a->in_shape[0], right, sizeof right));
}

/* ------------------------------------------------------------------------------------------------ derivative rules */

/* Each plane as one row: [N, C, H W]. */
static sg_value planes(sg_value x)
{
    sg_attr codes = sg_attr_ints((int64_t[]){0, 0, -1}, 3);
    return sg_build_op(&sg_op_reshape, &x, 1, &codes);
}

static void vjp_max(const sg_vjp_args *a)
{
    if (sg_is_none(a->gout[0]))
        return;
    sg_value dx = sg_scatter_elements(planes(a->gout[0]), planes(a->out[1]), planes(a->in[0]), 2);
    a->gin[0] = sg_reshape_like(dx, a->in[0]);
}

static void jvp_max(const sg_jvp_args *a)
{
    sg_value ty = sg_gather_elements(planes(a->tin[0]), planes(a->out[1]), 2);
    a->tout[0] = sg_reshape_like(ty, a->out[0]);
}

static void vjp_avg(const sg_vjp_args *a)
{
    a->gin[0] = sg_build_op(&sg_op_avg_pool2d_grad, (sg_value[]){a->gout[0], a->in[0]}, 2, a->node->attr);
}

static void vjp_avg_grad(const sg_vjp_args *a)
{
    if (a->need[0])
        a->gin[0] = sg_build_op(&sg_op_avg_pool2d, &a->gout[0], 1, a->node->attr);
}

/* ----------------------------------------------------------------------------------------------- reference kernels */

/* Taps t with 0 <= first + t dilation < size, first being the element of tap 0. */
void sg_pool_taps(const sg_window_axis *w, int64_t place, int64_t *begin, int64_t *end)
{
    int64_t first = sg_window_element(w, place, 0), taps = (w->size - first + w->dilation - 1) / w->dilation;
    *begin = first < 0 ? (-first + w->dilation - 1) / w->dilation : 0;
    *end = taps < w->kernel ? taps : w->kernel;
}

typedef struct pool {
    int64_t planes;
    sg_window_axis row, col;
} pool;

static pool pool_of(const sg_attr *attr, const sg_shape *x, const sg_shape *y)
{
    const int64_t *kernel = attr[SG_POOL_KERNEL].ints;
    return (pool){
        .planes = x->dim[0] * x->dim[1],
        .row = sg_window_of(attr, 0, x->dim[2], kernel[0], y->dim[2]),
        .col = sg_window_of(attr, 1, x->dim[3], kernel[1], y->dim[3]),
    };
}

/* Steps `tap` (-1 at first) to the next tap of place (i, j) that lies on an element, in row-major order, and returns that
 * element's place in the plane; -1 after the last. */
static int64_t next_element(const pool *p, int64_t i, int64_t j, int64_t *tap)
{
    for (++*tap; *tap < p->row.kernel * p->col.kernel; ++*tap) {
        int64_t r = sg_window_element(&p->row, i, *tap / p->col.kernel);
        int64_t c = sg_window_element(&p->col, j, *tap % p->col.kernel);
        if (r >= 0 && r < p->row.size && c >= 0 && c < p->col.size)
            return r * p->col.size + c;
    }
    return -1;
}

static void eval_max(const sg_eval_args *a)
{
    pool p = pool_of(a->attr, a->in[0].shape, a->out[0].shape);
    for (int64_t k = 0; k < p.planes * p.row.places * p.col.places; k++) {
        int64_t j = k % p.col.places, i = k / p.col.places % p.row.places, plane = k / p.col.places / p.row.places;
        const double *x = a->in[0].data + plane * p.row.size * p.col.size;
        int64_t tap = -1, best = next_element(&p, i, j, &tap);
        for (int64_t at = best; at >= 0 && !isnan(x[best]); at = next_element(&p, i, j, &tap))
            if (x[at] > x[best] || isnan(x[at]))
                best = at;
        a->out[0].data[k] = x[best];
        a->out[1].data[k] = (double)best;
    }
}

static double taps_counted(const pool *p, bool padding, int64_t i, int64_t j)
{
    if (padding)
        return (double)(p->row.kernel * p->col.kernel);
    double n = 0;
    for (int64_t tap = -1; next_element(p, i, j, &tap) >= 0;)
        n++;
    return n;
}

/* y from x, or x from y. */
static void average(const sg_attr *attr, sg_tensor64 x, sg_tensor64 y, bool spread)
{
    pool p = pool_of(attr, x.shape, y.shape);
    for (int64_t k = 0, n = spread ? sg_shape_count(x.shape) : 0; k < n; k++)
        x.data[k] = 0;
    for (int64_t k = 0; k < p.planes * p.row.places * p.col.places; k++) {
        int64_t j = k % p.col.places, i = k / p.col.places % p.row.places, plane = k / p.col.places / p.row.places;
        double *plane_x = x.data + plane * p.row.size * p.col.size, sum = 0;
        double count = taps_counted(&p, attr[SG_POOL_COUNT_PADDING].i != 0, i, j);
        int64_t at;
        for (int64_t tap = -1; (at = next_element(&p, i, j, &tap)) >= 0;) {
            if (spread)
                plane_x[at] += y.data[k] / count;
            else
                sum += plane_x[at];
        }
        if (!spread)
            y.data[k] = sum / count;
    }
}

static void eval_avg(const sg_eval_args *a) { average(a->attr, a->in[0], a->out[0], false); }

static void eval_avg_grad(const sg_eval_args *a) { average(a->attr, a->out[0], a->in[0], true); }

/* One operation for each tap of each place. */
static sg_cost cost(const sg_cost_args *a)
{
    double x = (double)sg_shape_count(&a->in_shape[0]), y = (double)sg_shape_count(&a->out_shape[0]);
    double places = x < y ? x : y, outputs = a->n_out == 2 ? 2 * y : y;
    const int64_t *kernel = a->attr[SG_POOL_KERNEL].ints;
    return (sg_cost){places * (double)kernel[0] * (double)kernel[1],
                     (x + outputs) * (double)sg_dtype_size(a->in_dtype[0])};
}

const sg_op sg_op_max_pool2d = {
    .name = "max_pool2d",
    .summary = "the largest element of each window; also its place in the plane",
    .n_in = 1,
    .n_out = 2,
    .flags = SG_OP_FOLLOWS,
    .attrs = max_attrs,
    .n_attrs = 4,
    .infer = infer_max,
    .vjp = vjp_max,
    .jvp = jvp_max,
    .eval = eval_max,
    .cost = cost,
};

const sg_op sg_op_avg_pool2d = {
    .name = "avg_pool2d",
    .summary = "the mean of each window",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .linear = 1,
    .attrs = avg_attrs,
    .n_attrs = 5,
    .infer = infer_avg,
    .vjp = vjp_avg,
    .eval = eval_avg,
    .cost = cost,
};

const sg_op sg_op_avg_pool2d_grad = {
    .name = "avg_pool2d_grad",
    .summary = "the transpose of avg_pool2d: each element spread over its window, shaped like a model",
    .n_in = 2,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .linear = 1,
    .shape_only = 1 << 1,
    .attrs = avg_attrs,
    .n_attrs = 5,
    .infer = infer_avg_grad,
    .vjp = vjp_avg_grad,
    .eval = eval_avg_grad,
    .cost = cost,
};

/* -------------------------------------------------------------------------------------------------------- builders */

static sg_value build(const sg_op *op, sg_value x, int64_t rows, int64_t columns, const sg_window *window, bool padding)
{
    sg_window_room room;
    const int64_t kernel[] = {rows, columns};
    sg_attr attr[SG_POOL_COUNT_PADDING + 1];
    sg_window_attrs(window, &room, attr);
    attr[SG_POOL_KERNEL] = sg_attr_ints(kernel, 2);
    attr[SG_POOL_COUNT_PADDING] = sg_attr_int(padding);
    return sg_build_op(op, &x, 1, attr);
}

sg_value sg_max_pool2d(sg_value x, int64_t rows, int64_t columns, sg_window window)
{
    return build(&sg_op_max_pool2d, x, rows, columns, &window, false);
}

sg_value sg_avg_pool2d(sg_value x, int64_t rows, int64_t columns, sg_window window, bool count_padding)
{
    return build(&sg_op_avg_pool2d, x, rows, columns, &window, count_padding);
}
