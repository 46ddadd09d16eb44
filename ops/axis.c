/* axis.c - axes and strides; see axis_internal.h. */
#include "ops/axis_internal.h"

#include <string.h>

int32_t sg_axis_of(sg_value near, int32_t rank, int32_t axis)
{
    int32_t front = axis < 0 ? rank + axis : axis;
    if (front >= 0 && front < rank)
        return front;
    char text[SG_SHAPE_TEXT];
    sg_graph_fail(near.graph, SG_E_ARGUMENT, near, "axis %d does not exist: rank %d, input of shape %s", axis, rank,
                  sg_shape_format(sg_shape_of(near), text, sizeof text));
    return -1;
}

bool sg_axes_of(sg_value x, int32_t n, const int32_t *axes, int64_t *out)
{
    int32_t rank = sg_rank_of(x);
    bool used[SG_MAX_RANK] = {false};
    if (n < 0) {
        sg_graph_fail(x.graph, SG_E_ARGUMENT, x, "%d axes given", n);
        return false;
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t axis = sg_axis_of(x, rank, axes[i]);
        if (axis < 0)
            return false;
        if (used[axis]) {
            sg_graph_fail(x.graph, SG_E_ARGUMENT, x, "axis %d is given twice", axes[i]);
            return false;
        }
        used[axis] = true;
    }
    for (int32_t axis = 0; axis < rank; axis++)
        if (used[axis])
            *out++ = axis;
    return true;
}

bool sg_shape_same(const sg_shape *a, const sg_shape *b)
{
    if (!sg_shape_equal(a, b))
        return false;
    for (int32_t i = 0; i < a->rank; i++) {
        const char *p = a->name[i], *q = b->name[i];
        if (p != q && (!p || !q || strcmp(p, q) != 0))
            return false;
    }
    return true;
}

int64_t sg_broadcast_offset(const sg_shape *from, const sg_shape *to, int64_t flat)
{
    int64_t offset = 0, stride = 1;
    for (int32_t i = to->rank - 1, j = from->rank - 1; j >= 0; i--, j--) {
        int64_t place = flat % to->dim[i];
        flat /= to->dim[i];
        if (from->dim[j] != 1)
            offset += place * stride;
        stride *= from->dim[j];
    }
    return offset;
}
