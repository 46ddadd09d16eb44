/* infer.c - shape rules shared by operators. */
#include "ops/ops_internal.h"

sg_status sg_require_real(const sg_infer_args *args, int32_t input)
{
    if (sg_dtype_is_real(args->in_dtype[input]))
        return SG_OK;
    return sg_infer_fail(args, SG_E_DTYPE, "input %d must be real, it is %s", (int)input,
                         sg_dtype_name(args->in_dtype[input]));
}

sg_status sg_require_dtype(const sg_infer_args *args, int32_t input, sg_dtype dtype)
{
    if (args->in_dtype[input] == dtype)
        return SG_OK;
    return sg_infer_fail(args, SG_E_DTYPE, "input %d must be %s, it is %s", (int)input, sg_dtype_name(dtype),
                         sg_dtype_name(args->in_dtype[input]));
}

sg_status sg_require_same_dtype(const sg_infer_args *args, int32_t a, int32_t b)
{
    if (args->in_dtype[a] == args->in_dtype[b])
        return SG_OK;
    return sg_infer_fail(args, SG_E_DTYPE, "inputs %d and %d have dtypes %s and %s; cast one of them", (int)a, (int)b,
                         sg_dtype_name(args->in_dtype[a]), sg_dtype_name(args->in_dtype[b]));
}

sg_status sg_require_fraction(const sg_infer_args *args, int32_t attr)
{
    double x = args->attr[attr].f;
    return x >= 0 && x < 1
               ? SG_OK
               : sg_infer_fail(args, SG_E_ARGUMENT, "%s = %g is outside [0, 1)", args->op->attrs[attr].name, x);
}

sg_status sg_require_not_negative(const sg_infer_args *args, int32_t attr)
{
    double x = args->attr[attr].f;
    return x >= 0 ? SG_OK : sg_infer_fail(args, SG_E_ARGUMENT, "%s = %g is negative", args->op->attrs[attr].name, x);
}

bool sg_require_setting(sg_value at, bool good, const char *builder, const char *name, double value, const char *must)
{
    if (!good && !sg_is_none(at))
        sg_graph_fail(at.graph, SG_E_ARGUMENT, at, "%s: %s = %g must be %s", builder, name, value, must);
    return good;
}

bool sg_require_form(sg_value x, const sg_shape *shape, sg_dtype dtype, const char *builder, const char *name)
{
    char has[SG_SHAPE_TEXT], must[SG_SHAPE_TEXT];
    if (sg_is_none(x) || (sg_shape_equal(sg_shape_of(x), shape) && sg_dtype_of(x) == dtype))
        return true;
    sg_graph_fail(x.graph, SG_E_SHAPE, x, "%s: %s is %s %s and must be %s %s", builder, name,
                  sg_dtype_name(sg_dtype_of(x)), sg_shape_format(sg_shape_of(x), has, sizeof has), sg_dtype_name(dtype),
                  sg_shape_format(shape, must, sizeof must));
    return false;
}

static sg_status refuse_shapes(const sg_infer_args *args, int32_t a, int32_t b, const char *why)
{
    char left[SG_SHAPE_TEXT], right[SG_SHAPE_TEXT];
    return sg_infer_fail(args, SG_E_SHAPE, "shapes %s and %s of inputs %d and %d %s",
                         sg_shape_format(&args->in_shape[a], left, sizeof left),
                         sg_shape_format(&args->in_shape[b], right, sizeof right), (int)a, (int)b, why);
}

sg_status sg_require_same_shape(const sg_infer_args *args, int32_t a, int32_t b)
{
    if (sg_shape_equal(&args->in_shape[a], &args->in_shape[b]))
        return SG_OK;
    return refuse_shapes(args, a, b, "must be equal");
}

sg_status sg_require_scalar(const sg_infer_args *args, int32_t input)
{
    char text[SG_SHAPE_TEXT];
    if (args->in_shape[input].rank == 0)
        return SG_OK;
    return sg_infer_fail(args, SG_E_SHAPE, "input %d must have rank 0, its shape is %s", (int)input,
                         sg_shape_format(&args->in_shape[input], text, sizeof text));
}

sg_status sg_broadcast_inputs(const sg_infer_args *args, sg_shape *out)
{
    sg_shape shape = args->in_shape[0];
    for (int32_t k = 1; k < args->n_in; k++) {
        sg_shape wider;
        if (!sg_shape_broadcast(&shape, &args->in_shape[k], &wider)) {
            int32_t other = k - 1; /* one of those before it has another size along some axis */
            while (other > 0 && sg_shape_broadcast(&args->in_shape[other], &args->in_shape[k], &wider))
                other--;
            return refuse_shapes(args, other, k, "do not broadcast");
        }
        shape = wider;
    }
    *out = shape;
    return SG_OK;
}

sg_status sg_require_axis(const sg_infer_args *args, int32_t rank, int64_t axis, int32_t *out)
{
    if (axis < -(int64_t)rank || axis >= rank)
        return sg_infer_fail(args, SG_E_ARGUMENT, "axis %lld is outside a shape of rank %d", (long long)axis,
                             (int)rank);
    *out = (int32_t)(axis < 0 ? axis + rank : axis);
    return SG_OK;
}

sg_status sg_require_front_axis(const sg_infer_args *args, int32_t rank, int64_t axis, int32_t *out)
{
    if (axis < 0)
        return sg_infer_fail(args, SG_E_ARGUMENT, "axis %lld is not counted from the front", (long long)axis);
    return sg_require_axis(args, rank, axis, out);
}

sg_status sg_infer_same(const sg_infer_args *args)
{
    args->out_shape[0] = args->in_shape[0];
    args->out_dtype[0] = args->in_dtype[0];
    return SG_OK;
}

sg_status sg_infer_unary(const sg_infer_args *args)
{
    SG_TRY(sg_require_real(args, 0));
    return sg_infer_same(args);
}

sg_status sg_infer_binary(const sg_infer_args *args)
{
    SG_TRY(sg_require_real(args, 0));
    SG_TRY(sg_require_same_dtype(args, 0, 1));
    args->out_dtype[0] = args->in_dtype[0];
    return sg_broadcast_inputs(args, &args->out_shape[0]);
}

static sg_status require_number(const sg_infer_args *args, int32_t input)
{
    if (args->in_dtype[input] == SG_I32 || sg_dtype_is_real(args->in_dtype[input]))
        return SG_OK;
    return sg_infer_fail(args, SG_E_DTYPE, "input %d must be real or i32, it is %s: use sg_cast", (int)input,
                         sg_dtype_name(args->in_dtype[input]));
}

sg_status sg_infer_binary_number(const sg_infer_args *args)
{
    SG_TRY(require_number(args, 0));
    SG_TRY(sg_require_same_dtype(args, 0, 1));
    args->out_dtype[0] = args->in_dtype[0];
    return sg_broadcast_inputs(args, &args->out_shape[0]);
}

sg_status sg_infer_compare(const sg_infer_args *args)
{
    SG_TRY(require_number(args, 0));
    SG_TRY(sg_require_same_dtype(args, 0, 1));
    args->out_dtype[0] = SG_BOOL;
    return sg_broadcast_inputs(args, &args->out_shape[0]);
}

sg_status sg_infer_logical(const sg_infer_args *args)
{
    for (int32_t k = 0; k < args->n_in; k++)
        SG_TRY(sg_require_dtype(args, k, SG_BOOL));
    args->out_dtype[0] = SG_BOOL;
    return sg_broadcast_inputs(args, &args->out_shape[0]);
}
