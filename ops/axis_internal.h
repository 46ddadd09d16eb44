/* axis_internal.h - axes and strides, shared by reductions, shape ops, indexing and products. */
#ifndef SG_AXIS_INTERNAL_H
#define SG_AXIS_INTERNAL_H

#include "ops/ops_internal.h"

/* `axis` counted from the front for a value of rank `rank`, or -1 after recording an error at `near`. */
int32_t sg_axis_of(sg_value near, int32_t rank, int32_t axis);
/* The axes counted from the front, ascending, into out[SG_MAX_RANK]; false after recording an error (repeated axis). */
bool sg_axes_of(sg_value x, int32_t n, const int32_t *axes, int64_t *out);

/* Equal sizes and equal names: equal also after every rebinding, so that an op between the two may be left out. */
bool sg_shape_same(const sg_shape *a, const sg_shape *b);
static inline void sg_shape_put(sg_shape *s, int32_t axis, const sg_shape *from, int32_t from_axis)
{
    s->dim[axis] = from->dim[from_axis];
    s->name[axis] = from->name[from_axis];
}

/* Offset of the element of `from` that element `flat` of `to` reads when `from` is broadcast to `to`. */
int64_t sg_broadcast_offset(const sg_shape *from, const sg_shape *to, int64_t flat);

/* x, reduced over `axes` (ascending), with these axes put back as size 1. */
sg_value sg_expand_axes(sg_value x, int32_t n, const int64_t *axes);

/* How many elements a sum over these axes (counted from the front) adds up: a rank-0 value of x's dtype that follows
 * resized dimensions. */
sg_value sg_count_axes(sg_value x, int32_t n, const int32_t *axes);

extern const sg_op sg_op_reshape;

/* cumsum from the end towards the front if `reverse`. */
sg_value sg_cumsum_along(sg_value x, int32_t axis, bool reverse);

/* slice with places as the node stores them: counted from the front, or if negative from the end; SG_SLICE_END is the
 * end itself. sg_pad_like is its transpose: zeros shaped like `model` with x in [begin, end) of `axis`. */
#define SG_SLICE_END INT64_MAX
sg_value sg_slice_places(sg_value x, int32_t axis, int64_t begin, int64_t end);
sg_value sg_pad_like(sg_value x, sg_value model, int32_t axis, int64_t begin, int64_t end);
/* A place of slice's or pad's attributes in an axis of `size`. */
static inline int64_t sg_slice_place(int64_t place, int64_t size)
{
    if (place == SG_SLICE_END)
        return size;
    return place < 0 ? size + place : place;
}
/* Zeros before x in the output of a pad node (attributes {axis, begin, end}, one or two inputs). */
static inline int64_t sg_pad_before(const sg_attr *attr, const sg_shape *out)
{
    return sg_slice_place(attr[1].i, out->dim[attr[0].i]);
}

#endif
