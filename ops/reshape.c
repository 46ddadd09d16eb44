/* reshape.c - the same elements, in row-major order, under another shape.
 *
 * The attribute `shape` holds one code for each axis of the result, so that no size of a named dimension is kept:
 *      d > 0         the size d;  SG_RESHAPE_EMPTY stands for a literal 0
 *      0             the size (and name) of the source axis at the same place
 *      -2 - k        the size (and name) of source axis k
 *      -1            at most once: the product of the source sizes that no code copies, over the literal sizes
 * sg_reshape takes a full shape and finds these codes; sg_expand_dims and sg_squeeze write them directly.
 *
 * Linear; dx is dy under the shape of x (reshape_like, which reads x for its shape alone). */
#include "ops/axis_internal.h"

#include <string.h>

#define SG_RESHAPE_EMPTY INT64_MIN

static const sg_attr_spec attrs[] = {{"shape", SG_ATTR_INTS}};

/* The source axis that a code names, which may lie outside the source; -1 for a code that names none. */
static int64_t copied_axis(int64_t code, int32_t place)
{
    if (code == 0)
        return place;
    return code <= -2 && code != SG_RESHAPE_EMPTY ? -(code + 2) : -1;
}

/* The size that -1 stands for; false if it is not a whole number. */
static bool inferred_size(const sg_shape *from, const bool *copied, int64_t literal, int64_t *out)
{
    int64_t rest = 1;
    for (int32_t i = 0; i < from->rank; i++)
        if (!copied[i] && !sg_mul_ok(rest, from->dim[i], &rest))
            return false;
    *out = literal > 0 ? rest / literal : 0;
    return literal > 0 ? rest % literal == 0 : rest == 0;
}

static sg_status refuse(const sg_infer_args *a, const sg_shape *to)
{
    char text[SG_SHAPE_TEXT];
    return sg_infer_fail(a, SG_E_SHAPE, "the elements do not fill the shape %s",
                         sg_shape_format(to, text, sizeof text));
}

static sg_status infer(const sg_infer_args *a)
{
    const sg_shape *from = &a->in_shape[0];
    if (a->attr[0].count > SG_MAX_RANK)
        return sg_infer_fail(a, SG_E_SHAPE, "a shape has at most %d axes", SG_MAX_RANK);
    sg_shape to = sg_shape_scalar();
    bool copied[SG_MAX_RANK] = {false};
    int64_t literal = 1;
    int32_t open = -1;
    for (; to.rank < a->attr[0].count; to.rank++) {
        int64_t code = a->attr[0].ints[to.rank];
        int64_t k = copied_axis(code, to.rank);
        to.dim[to.rank] = code == SG_RESHAPE_EMPTY ? 0 : code;
        to.name[to.rank] = NULL;
        if (k >= from->rank)
            return sg_infer_fail(a, SG_E_SHAPE, "axis %d is to keep the size of axis %lld, which does not exist",
                                 to.rank, (long long)k);
        if (k >= 0) {
            sg_shape_put(&to, to.rank, from, (int32_t)k);
            copied[k] = true;
        } else if (code == -1 && open >= 0) {
            return sg_infer_fail(a, SG_E_SHAPE, "only one axis may be -1");
        } else if (code == -1) {
            open = to.rank;
            to.dim[open] = 1;
        } else if (!sg_mul_ok(literal, to.dim[to.rank], &literal)) {
            return sg_infer_fail(a, SG_E_SHAPE, "the shape has too many elements");
        }
    }
    if (open >= 0 && !inferred_size(from, copied, literal, &to.dim[open]))
        return refuse(a, &to);
    if (sg_shape_count(&to) != sg_shape_count(from))
        return refuse(a, &to);
    a->out_shape[0] = to;
    a->out_dtype[0] = a->in_dtype[0];
    return SG_OK;
}

static void vjp(const sg_vjp_args *a) { a->gin[0] = sg_reshape_like(a->gout[0], a->in[0]); }

static void eval(const sg_eval_args *a)
{
    size_t bytes = (size_t)sg_shape_count(a->out[0].shape) * sizeof(double);
    if (bytes)
        memcpy(a->out[0].data, a->in[0].data, bytes);
}

static sg_cost cost(const sg_cost_args *a)
{
    (void)a;
    return (sg_cost){0, 0};
}

const sg_op sg_op_reshape = {
    .name = "reshape",
    .summary = "the elements of x under another shape",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .linear = 1,
    .attrs = attrs,
    .n_attrs = 1,
    .infer = infer,
    .vjp = vjp,
    .eval = eval,
    .cost = cost,
};

static sg_status infer_like(const sg_infer_args *a)
{
    if (sg_shape_count(&a->in_shape[0]) != sg_shape_count(&a->in_shape[1]))
        return refuse(a, &a->in_shape[1]);
    a->out_shape[0] = a->in_shape[1];
    a->out_dtype[0] = a->in_dtype[0];
    return SG_OK;
}

const sg_op sg_op_reshape_like = {
    .name = "reshape_like",
    .summary = "the elements of x under the shape of a model",
    .n_in = 2,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .linear = 1,
    .shape_only = 1 << 1,
    .infer = infer_like,
    .vjp = vjp,
    .eval = eval,
    .cost = cost,
};

sg_value sg_reshape_like(sg_value x, sg_value model)
{
    if (!sg_is_none(x) && !sg_is_none(model) && sg_shape_same(sg_shape_of(x), sg_shape_of(model)))
        return x;
    return sg_build_binary(&sg_op_reshape_like, x, model);
}

/* ------------------------------------------------------------------------------------------------ finding the codes */

static bool has_names(const sg_shape *s, int32_t begin, int32_t end)
{
    for (int32_t i = begin; i < end; i++)
        if (s->name[i])
            return true;
    return false;
}

static int64_t keep_code(int32_t place, int32_t source) { return place == source ? 0 : -2 - (int64_t)source; }

/* Codes for the target axes [j0, j1) that hold the elements of the source axes [i0, i1): a single axis is kept, and the
 * first axis of one other group becomes -1. Groups with a name have the first claim on it. */
static void code_group(const sg_shape *from, int32_t i0, int32_t i1, int32_t j0, int32_t j1, bool named, bool *open,
                       int64_t *code)
{
    if (i1 - i0 == 1 && j1 - j0 == 1) {
        code[j0] = keep_code(j0, i0);
    } else if (*open && (!named || has_names(from, i0, i1))) {
        *open = false;
        code[j0] = -1;
    }
}

/* Walk both shapes together and cut them where the products of sizes agree: there the axes between two cuts hold the
 * same elements. Axes of size 1 are passed on the side that has them alone. */
static void find_codes(const sg_shape *from, const sg_shape *to, bool named, bool *open, int64_t *code)
{
    int32_t i = 0, j = 0;
    while (i < from->rank && j < to->rank) {
        if (to->dim[j] == 1 && from->dim[i] != 1) {
            j++;
            continue;
        }
        if (from->dim[i] == 1 && to->dim[j] != 1) {
            i++;
            continue;
        }
        int32_t i0 = i, j0 = j;
        int64_t left = from->dim[i++], right = to->dim[j++];
        while (left != right) {
            bool grown = left < right ? i < from->rank && sg_mul_ok(left, from->dim[i++], &left)
                                      : j < to->rank && sg_mul_ok(right, to->dim[j++], &right);
            if (!grown)
                return;
        }
        code_group(from, i0, i, j0, j, named, open, code);
    }
}

/* An empty tensor keeps the axes that match in place; any other 0 is meant as a size. */
static void code_empty(const sg_shape *from, const sg_shape *to, int64_t *code)
{
    for (int32_t i = 0; i < to->rank; i++)
        if (to->dim[i] == 0 && (i >= from->rank || from->dim[i] != 0))
            code[i] = SG_RESHAPE_EMPTY;
}

sg_value sg_reshape(sg_value x, sg_shape shape)
{
    if (sg_is_none(x))
        return SG_NONE;
    sg_shape from = *sg_shape_of(x);
    int64_t code[SG_MAX_RANK];
    bool identity = shape.rank == from.rank, open = false, full = true;
    for (int32_t i = 0; i < shape.rank; i++) {
        if (shape.dim[i] < -1)
            return sg_graph_fail(x.graph, SG_E_ARGUMENT, x, "reshape: axis %d has size %lld", i,
                                 (long long)shape.dim[i]);
        bool in_place = i < from.rank && shape.dim[i] == from.dim[i];
        code[i] = in_place ? 0 : shape.dim[i];
        identity = identity && (in_place || shape.dim[i] == 0);
        open = open || shape.dim[i] == -1;
        full = full && shape.dim[i] > 0;
    }
    if (identity)
        return x;
    if (full) {
        bool unused = true;
        find_codes(&from, &shape, true, &unused, code);
        find_codes(&from, &shape, false, &unused, code);
    } else if (!open && sg_shape_count(&from) == 0) {
        code_empty(&from, &shape, code);
    }
    sg_attr attr = sg_attr_ints(code, shape.rank);
    return sg_build_op(&sg_op_reshape, &x, 1, &attr);
}

/* ------------------------------------------------------------------------------------------------- axes of size one */

sg_value sg_expand_axes(sg_value x, int32_t n, const int64_t *axes)
{
    if (sg_is_none(x))
        return SG_NONE;
    sg_shape from = *sg_shape_of(x);
    int64_t code[SG_MAX_RANK];
    int32_t source = 0, done = 0;
    if (from.rank + n > SG_MAX_RANK)
        return sg_graph_fail(x.graph, SG_E_SHAPE, x, "a shape has at most %d axes", SG_MAX_RANK);
    for (int32_t i = 0; i < from.rank + n; i++) {
        if (done < n && axes[done] == i) {
            code[i] = 1;
            done++;
        } else {
            code[i] = keep_code(i, source);
            source++;
        }
    }
    sg_attr attr = sg_attr_ints(code, from.rank + n);
    return sg_build_op(&sg_op_reshape, &x, 1, &attr);
}

sg_value sg_expand_dims(sg_value x, int32_t axis)
{
    if (sg_is_none(x))
        return SG_NONE;
    int64_t front = sg_axis_of(x, sg_rank_of(x) + 1, axis);
    return front < 0 ? SG_NONE : sg_expand_axes(x, 1, &front);
}

sg_value sg_squeeze(sg_value x, int32_t axis)
{
    if (sg_is_none(x))
        return SG_NONE;
    sg_shape from = *sg_shape_of(x);
    int32_t front = sg_axis_of(x, from.rank, axis), n = 0;
    if (front < 0)
        return SG_NONE;
    if (from.dim[front] != 1)
        return sg_graph_fail(x.graph, SG_E_SHAPE, x, "squeeze: axis %d has size %lld, not 1", axis,
                             (long long)from.dim[front]);
    int64_t code[SG_MAX_RANK];
    for (int32_t i = 0; i < from.rank; i++) {
        if (i != front) {
            code[n] = keep_code(n, i);
            n++;
        }
    }
    sg_attr attr = sg_attr_ints(code, n);
    return sg_build_op(&sg_op_reshape, &x, 1, &attr);
}
