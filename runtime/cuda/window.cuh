/* window.cuh - which taps of a place lie on elements, and which places have a tap on an element. */
#ifndef SG_CUDA_WINDOW_CUH
#define SG_CUDA_WINDOW_CUH

#include "runtime/cuda/device.cuh"
#include "runtime/cuda/image_internal.h"

__device__ static inline int64_t element_of(const sg_cuda_window &w, int64_t place, int64_t tap)
{
    return place * w.stride - w.before + tap * w.dilation;
}

/* The taps [*begin, *end) of a place that lie on elements; for convolutions there may be none (*end <= *begin). */
__device__ static inline void taps_of(const sg_cuda_window &w, int64_t place, int64_t *begin, int64_t *end)
{
    int64_t first = element_of(w, place, 0), rest = w.size - first;
    *begin = first < 0 ? (-first + w.dilation - 1) / w.dilation : 0;
    *end = rest <= 0 ? 0 : (rest + w.dilation - 1) / w.dilation;
    *end = *end < w.kernel ? *end : w.kernel;
}

/* The place whose tap `tap` lies on this element, or -1. */
__device__ static inline int64_t place_of(const sg_cuda_window &w, int64_t element, int64_t tap)
{
    int64_t at = element + w.before - tap * w.dilation;
    if (at < 0 || at % w.stride != 0)
        return -1;
    int64_t place = at / w.stride;
    return place < w.places ? place : -1;
}

#endif
