/* reductions_shape.c - golden cases: reductions, shapes, rows and elements by index. */
#include "cli/golden/golden_internal.h"

/* ---- reductions over several axes */

static void sum(sg_golden *g)
{
    int32_t axes[SG_MAX_RANK];
    sg_value x = sg_golden_in(g, "x");
    int32_t n = sg_golden_axes(g, "axes", sg_rank_of(x), axes);
    sg_golden_out(g, "out", sg_sum_axes(x, n, axes, sg_golden_flag(g, "keepdims")));
}

static void mean(sg_golden *g)
{
    int32_t axes[SG_MAX_RANK];
    sg_value x = sg_golden_in(g, "x");
    int32_t n = sg_golden_axes(g, "axes", sg_rank_of(x), axes);
    sg_golden_out(g, "out", sg_mean_axes(x, n, axes, sg_golden_flag(g, "keepdims")));
}

/* One axis after the other, kept until the end. For extremes this equals all at once where no two elements are equal. */
static void one_by_one(sg_golden *g, sg_value (*reduce)(sg_value x, int32_t axis, bool keep))
{
    int32_t axes[SG_MAX_RANK];
    sg_value x = sg_golden_in(g, "x");
    int32_t rank = sg_rank_of(x), n = sg_golden_axes(g, "axes", rank, axes);
    bool dropped[SG_MAX_RANK] = {false};
    for (int32_t i = 0; i < n; i++) {
        x = reduce(x, axes[i], true);
        dropped[(axes[i] + rank) % rank] = !sg_golden_flag(g, "keepdims");
    }
    for (int32_t axis = rank - 1; axis >= 0; axis--)
        if (dropped[axis])
            x = sg_squeeze(x, axis);
    sg_golden_out(g, "out", x);
}

static void max(sg_golden *g) { one_by_one(g, sg_max); }
static void min(sg_golden *g) { one_by_one(g, sg_min); }
static void prod(sg_golden *g) { one_by_one(g, sg_prod); }
static void logsumexp(sg_golden *g) { one_by_one(g, sg_logsumexp); }

static int32_t axis_of(sg_golden *g) { return (int32_t)sg_golden_int(g, "axis"); }

static void argmax(sg_golden *g) { sg_golden_out(g, "out", sg_argmax(sg_golden_in(g, "x"), axis_of(g))); }
static void argmin(sg_golden *g) { sg_golden_out(g, "out", sg_argmin(sg_golden_in(g, "x"), axis_of(g))); }
static void cumsum(sg_golden *g) { sg_golden_out(g, "out", sg_cumsum(sg_golden_in(g, "x"), axis_of(g))); }

static void norm(sg_golden *g) { sg_golden_out(g, "out", sg_sqrt(sg_sum(sg_square(sg_golden_in(g, "x")), -1))); }

/* ---- shape */

static sg_shape shape_attr(sg_golden *g)
{
    int64_t dim[SG_MAX_RANK];
    int32_t rank = sg_golden_ints(g, "shape", dim, SG_MAX_RANK);
    return sg_shape_make(rank, dim);
}

static sg_value zeros(sg_golden *g, sg_shape shape)
{
    return sg_constant(sg_golden_graph(g), SG_F32, shape, &(double){0}, 1);
}

static void reshape(sg_golden *g) { sg_golden_out(g, "out", sg_reshape(sg_golden_in(g, "x"), shape_attr(g))); }

static void broadcast_to(sg_golden *g)
{
    sg_golden_out(g, "out", sg_broadcast_like(sg_golden_in(g, "x"), zeros(g, shape_attr(g))));
}

static void transpose(sg_golden *g)
{
    int32_t order[SG_MAX_RANK];
    sg_value x = sg_golden_in(g, "x");
    int32_t n = sg_golden_axes(g, "perm", sg_rank_of(x), order);
    sg_golden_out(g, "out", sg_transpose(x, n, order));
}

static void concat(sg_golden *g)
{
    enum { MOST = 16 };
    sg_value part[MOST];
    int32_t n = sg_golden_inputs(g);
    if (n > MOST)
        sg_golden_refuse(g, "more than %d inputs", (int)MOST);
    for (int32_t i = 0; i < n && i < MOST; i++)
        part[i] = sg_golden_in_at(g, i);
    sg_golden_out(g, "out", sg_concat(part, n < MOST ? n : MOST, axis_of(g)));
}

/* Entry `axis` of a list of lists of whole numbers. */
static void numbers_at(sg_golden *g, const char *name, size_t axis, int64_t *out, size_t count)
{
    const json_t *list = json_array_get(sg_golden_attr(g, name), axis);
    if (json_array_size(list) != count)
        sg_golden_refuse(g, "attrs.%s[%d] is no list of %d numbers", name, (int)axis, (int)count);
    for (size_t i = 0; i < count; i++)
        out[i] = json_integer_value(json_array_get(list, i));
}

static void pad(sg_golden *g)
{
    sg_value x = sg_golden_in(g, "x");
    for (int32_t axis = 0; axis < sg_rank_of(x); axis++) {
        int64_t amount[2];
        numbers_at(g, "before_after", (size_t)axis, amount, 2);
        x = sg_pad_with(x, axis, amount[0], amount[1], sg_golden_real_or(g, "value", 0));
    }
    sg_golden_out(g, "out", x);
}

/* Steps other than 1 pick rows by index. */
static sg_value slice_axis(sg_golden *g, sg_value x, int32_t axis, const int64_t range[3])
{
    int64_t size = sg_dim_of(x, axis), step = range[2], n = 0;
    int64_t begin = range[0] < 0 ? range[0] + size : range[0], end = range[1] < 0 ? range[1] + size : range[1];
    if (step == 1)
        return sg_slice(x, axis, begin, end);
    if (step < 1 || begin < 0 || end > size) {
        sg_golden_refuse(g, "attrs.start_stop_step[%d] is out of range", (int)axis);
        return SG_NONE;
    }
    double *index = sg_calloc(size + 1, sizeof *index);
    for (int64_t i = begin; index && i < end; i += step)
        index[n++] = (double)i;
    sg_value rows = index ? sg_constant(sg_golden_graph(g), SG_I32, SG_SHAPE(n), index, n) : SG_NONE;
    sg_free(index);
    return sg_take(x, rows, axis);
}

static void slice(sg_golden *g)
{
    sg_value x = sg_golden_in(g, "x");
    size_t n = json_array_size(sg_golden_attr(g, "start_stop_step"));
    for (size_t axis = 0; axis < n; axis++) {
        int64_t range[3];
        numbers_at(g, "start_stop_step", axis, range, 3);
        x = slice_axis(g, x, (int32_t)axis, range);
    }
    sg_golden_out(g, "out", x);
}

/* ---- indexing */

static void gather(sg_golden *g)
{
    sg_golden_out(g, "out", sg_take(sg_golden_in(g, "x"), sg_golden_in(g, "index"), axis_of(g)));
}

static void gather_elements(sg_golden *g)
{
    sg_golden_out(g, "out", sg_gather_elements(sg_golden_in(g, "x"), sg_golden_in(g, "index"), axis_of(g)));
}

static void tanh_of_rows(sg_golden *g)
{
    sg_golden_out(g, "out", sg_sum(sg_tanh(sg_gather(sg_golden_in(g, "x"), sg_golden_in(g, "index"))), 0));
}

static void scatter_add(sg_golden *g)
{
    sg_value x = sg_golden_in(g, "x");
    if (axis_of(g) != 0)
        sg_golden_refuse(g, "scatter_add is built along axis 0");
    sg_golden_out(g, "out", sg_scatter_add(x, sg_golden_in(g, "index"), sg_golden_in(g, "src")));
}

static void scatter_add_elements(sg_golden *g)
{
    sg_value x = sg_golden_in(g, "x"), index = sg_golden_in(g, "index");
    sg_golden_out(g, "out", sg_scatter_add_elements(x, index, sg_golden_in(g, "src"), axis_of(g)));
}

static void segment_sum(sg_golden *g)
{
    sg_value x = sg_golden_in(g, "x"), segment = sg_golden_in(g, "segment");
    sg_golden_out(g, "out", sg_segment_sum(x, segment, sg_golden_int(g, "segments")));
}

/* The k largest; the k smallest are the largest of -x. */
static void top_k(sg_golden *g)
{
    bool largest = !sg_golden_attr(g, "largest") || sg_golden_flag(g, "largest");
    sg_value x = sg_golden_in(g, "x"), places, picked;
    picked = sg_top_k(largest ? x : sg_neg(x), sg_golden_int(g, "k"), axis_of(g), &places);
    sg_golden_out(g, "values", largest ? picked : sg_neg(picked));
    sg_golden_out(g, "indices", places);
}

static void one_hot(sg_golden *g)
{
    if (sg_golden_int_or(g, "axis", -1) != -1)
        sg_golden_refuse(g, "one_hot is built along the last axis");
    sg_golden_out(g, "out", sg_one_hot(sg_golden_in(g, "index"), sg_golden_int(g, "depth")));
}

#define ROW(name)                                                                                                      \
    {                                                                                                                  \
#name, NULL, name, 0                                                                                           \
    }
/* clang-format off */
static const sg_golden_row rows[] = {
    ROW(sum), ROW(mean), ROW(max), ROW(min), ROW(prod), ROW(logsumexp), ROW(argmax), ROW(argmin), ROW(cumsum),
    ROW(reshape), ROW(broadcast_to), ROW(transpose), ROW(concat), ROW(pad), ROW(slice),
    ROW(gather), ROW(gather_elements), ROW(scatter_add), ROW(scatter_add_elements), ROW(segment_sum), ROW(top_k), ROW(one_hot),
    {"expression", "sqrt(sum(x*x, axis -1))", norm, 0},
    {"gather", "sum(tanh(gather(x, index)), axis 0)", tanh_of_rows, 0},
};
/* clang-format on */

SG_GOLDEN_TABLE(reductions_shape, rows);
