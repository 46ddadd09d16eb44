/* conv_internal.h - what conv.c asks of conv_direct.c. */
#ifndef SG_CPU_CONV_INTERNAL_H
#define SG_CPU_CONV_INTERNAL_H

#include "runtime/cpu/onednn_internal.h"

#include <stdbool.h>
#include <stdint.h>

bool sg_conv_padded(const sg_conv_shape *shape);
/* Is none of n elements NaN or infinite? By up to `threads` threads of the run. */
bool sg_conv_finite(int32_t threads, const float *v, int64_t n);
/* The result, of `count` elements, from the other two of x, w and y; the shape is that of the whole. */
void sg_conv_direct(const sg_conv_shape *shape, float *x, float *w, float *y, int64_t count);

#endif
