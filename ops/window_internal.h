/* window_internal.h - windows that slide over the last two axes of [N, C, H, W], shared by convolution and pooling.
 *
 * Along one axis tap t of place p reads element  p stride - before + t dilation;  elements outside [0, size) are padding.
 * There are  floor((before + size + after - dilation (kernel - 1) - 1) / stride) + 1  places. */
#ifndef SG_WINDOW_INTERNAL_H
#define SG_WINDOW_INTERNAL_H

#include "ops/ops_internal.h"

/* The first attributes of every op with a window: {rows, columns}, {rows, columns}, {top, left, bottom, right}. */
enum { SG_WINDOW_STRIDE, SG_WINDOW_DILATION, SG_WINDOW_PADDING, SG_WINDOW_ATTRS };
/* clang-format off */
#define SG_WINDOW_SCHEMA {"stride", SG_ATTR_INTS}, {"dilation", SG_ATTR_INTS}, {"padding", SG_ATTR_INTS}
/* clang-format on */

/* One of the two axes: rows (0) or columns (1). */
typedef struct sg_window_axis {
    int64_t size, kernel, places; /* elements without padding, taps, positions of the window */
    int64_t stride, dilation, before, after;
} sg_window_axis;

/* Refuse attributes of the wrong length or out of range; all are at most 2^31 - 1 afterwards. */
sg_status sg_window_check(const sg_infer_args *args);
/* The axis for these sizes, `places` by the formula above. Refuses windows that do not fit, and empty kernels. */
sg_status sg_window_fit(const sg_infer_args *args, int32_t axis, int64_t size, int64_t kernel, sg_window_axis *out);
/* The same of attributes and sizes that the shape rule has accepted. */
sg_window_axis sg_window_of(const sg_attr *attr, int32_t axis, int64_t size, int64_t kernel, int64_t places);
/* Does every size of the axis give as many places as it has elements? Then the name of the axis is kept. */
bool sg_window_keeps_size(const sg_window_axis *w);
sg_status sg_require_rank4(const sg_infer_args *args, int32_t input, const char *axes);

static inline int64_t sg_window_element(const sg_window_axis *w, int64_t place, int64_t tap)
{
    return place * w->stride - w->before + tap * w->dilation;
}

/* The user's window as attributes; `room` holds the numbers until the node is built. */
typedef struct sg_window_room {
    int64_t stride[2], dilation[2];
} sg_window_room;
void sg_window_attrs(const sg_window *window, sg_window_room *room, sg_attr *attr);

#endif
