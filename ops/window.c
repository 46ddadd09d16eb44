/* window.c - sizes and attributes of sliding windows; see window_internal.h. */
#include "ops/window_internal.h"

static sg_status check_list(const sg_infer_args *a, int32_t attr, int64_t count, int64_t least, const char *name)
{
    if (a->attr[attr].count != count)
        return sg_infer_fail(a, SG_E_ARGUMENT, "%s needs %lld numbers, it has %lld", name, (long long)count,
                             (long long)a->attr[attr].count);
    for (int64_t i = 0; i < count; i++)
        if (a->attr[attr].ints[i] < least || a->attr[attr].ints[i] > INT32_MAX)
            return sg_infer_fail(a, SG_E_ARGUMENT, "%s must be in [%lld, 2^31), it is %lld", name, (long long)least,
                                 (long long)a->attr[attr].ints[i]);
    return SG_OK;
}

sg_status sg_window_check(const sg_infer_args *a)
{
    SG_TRY(check_list(a, SG_WINDOW_STRIDE, 2, 1, "stride"));
    SG_TRY(check_list(a, SG_WINDOW_DILATION, 2, 1, "dilation"));
    return check_list(a, SG_WINDOW_PADDING, 4, 0, "padding");
}

sg_window_axis sg_window_of(const sg_attr *attr, int32_t axis, int64_t size, int64_t kernel, int64_t places)
{
    return (sg_window_axis){
        .size = size,
        .kernel = kernel,
        .places = places,
        .stride = attr[SG_WINDOW_STRIDE].ints[axis],
        .dilation = attr[SG_WINDOW_DILATION].ints[axis],
        .before = attr[SG_WINDOW_PADDING].ints[axis],
        .after = attr[SG_WINDOW_PADDING].ints[axis + 2],
    };
}

sg_status sg_window_fit(const sg_infer_args *a, int32_t axis, int64_t size, int64_t kernel, sg_window_axis *out)
{
    sg_window_axis w = sg_window_of(a->attr, axis, size, kernel, 0);
    const char *name = axis == 0 ? "rows" : "columns";
    if (kernel < 1)
        return sg_infer_fail(a, SG_E_SHAPE, "the kernel has no %s", name);
    int64_t reach, padded;
    if (!sg_mul_ok(kernel - 1, w.dilation, &reach) || reach == INT64_MAX ||
        __builtin_add_overflow(size, w.before + w.after, &padded))
        return sg_infer_fail(a, SG_E_SHAPE, "%lld %s are too many", (long long)size, name);
    if (reach + 1 > padded)
        return sg_infer_fail(a, SG_E_SHAPE,
                             "the kernel covers %lld %s (%lld taps, dilation %lld), the input with padding has %lld",
                             (long long)reach + 1, name, (long long)kernel, (long long)w.dilation, (long long)padded);
    w.places = (padded - reach - 1) / w.stride + 1;
    *out = w;
    return SG_OK;
}

bool sg_window_keeps_size(const sg_window_axis *w)
{
    return w->stride == 1 && w->before + w->after == w->dilation * (w->kernel - 1);
}

sg_status sg_require_rank4(const sg_infer_args *a, int32_t input, const char *axes)
{
    char text[SG_SHAPE_TEXT];
    if (a->in_shape[input].rank == 4)
        return SG_OK;
    return sg_infer_fail(a, SG_E_SHAPE, "input %d must be %s, its shape is %s", (int)input, axes,
                         sg_shape_format(&a->in_shape[input], text, sizeof text));
}

void sg_window_attrs(const sg_window *window, sg_window_room *room, sg_attr *attr)
{
    for (int i = 0; i < 2; i++) {
        room->stride[i] = window->stride[i] ? window->stride[i] : 1;
        room->dilation[i] = window->dilation[i] ? window->dilation[i] : 1;
    }
    attr[SG_WINDOW_STRIDE] = sg_attr_ints(room->stride, 2);
    attr[SG_WINDOW_DILATION] = sg_attr_ints(room->dilation, 2);
    attr[SG_WINDOW_PADDING] = sg_attr_ints(window->padding, 4);
}
