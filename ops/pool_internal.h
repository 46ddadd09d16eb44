/* pool_internal.h - the attributes of pooling ops, for their kernels. */
#ifndef SG_POOL_INTERNAL_H
#define SG_POOL_INTERNAL_H

#include "ops/window_internal.h"

enum { SG_POOL_KERNEL = SG_WINDOW_ATTRS, SG_POOL_COUNT_PADDING };

/* The taps [*begin, *end) of a place that lie on elements, not on padding; the shape rule leaves no place without. */
void sg_pool_taps(const sg_window_axis *w, int64_t place, int64_t *begin, int64_t *end);

#endif
