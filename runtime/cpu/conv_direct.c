/* conv_direct.c - convolutions tap by tap, for numbers that are not finite.
 *
 * A tap on the padding adds nothing, whatever the weight; but some of oneDNN's ways multiply the zeros of a padded copy, and
 * 0 * NaN is not nothing. So where what meets the padding (the weights, or y in their gradient) has a NaN or an infinity, the sum is
 * made of the taps on elements alone, in the order of the reference rule. */
#include "runtime/cpu/conv_internal.h"
#include "runtime/cpu/cpu_internal.h"

#include <string.h>

bool sg_conv_padded(const sg_conv_shape *s)
{
    return s->axis[0].before || s->axis[0].after || s->axis[1].before || s->axis[1].after;
}

enum { SCAN_BLOCK = 1 << 15 };

typedef struct scan {
    const float *v;
    int64_t n;
    int found; /* set by any thread */
} scan;

/* All bits of the exponent are set in infinities and NaNs. */
static void scan_blocks(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    enum { EXPONENT = 0x7f800000 };
    (void)thread;
    scan *s = arg;
    int64_t last = end * SCAN_BLOCK < s->n ? end * SCAN_BLOCK : s->n;
    int32_t found = 0;
    for (int64_t i = begin * SCAN_BLOCK; i < last; i++) {
        int32_t bits;
        memcpy(&bits, s->v + i, sizeof bits);
        found |= (bits & EXPONENT) == EXPONENT;
    }
    if (found)
        __atomic_store_n(&s->found, 1, __ATOMIC_RELAXED);
}

bool sg_conv_finite(int32_t threads, const float *v, int64_t n)
{
    scan s = {v, n, 0};
    sg_cpu_parallel(threads, (n + SCAN_BLOCK - 1) / SCAN_BLOCK, scan_blocks, &s);
    return !s.found;
}

/* Places at which a tap of this axis meets an element: the element at place p is p stride + shift. */
typedef struct span {
    int64_t begin, end, shift;
} span;

static span span_of(const sg_conv_axis *a, int64_t tap)
{
    int64_t shift = tap * a->dilation - a->before, stride = a->stride;
    int64_t begin = shift < 0 ? (-shift + stride - 1) / stride : 0;
    int64_t end = shift >= a->size ? 0 : (a->size - 1 - shift) / stride + 1;
    return (span){begin, end < a->places ? end : a->places, shift};
}

/* One tap of one channel on one image. */
static void run_tap(const sg_conv_shape *s, int64_t row, int64_t column, float *x, float *w, float *y)
{
    const sg_conv_axis *h = &s->axis[0], *v = &s->axis[1];
    span rows = span_of(h, row), columns = span_of(v, column);
    for (int64_t p = rows.begin; p < rows.end; p++)
        for (int64_t q = columns.begin; q < columns.end; q++) {
            float *at_x = x + (p * h->stride + rows.shift) * v->size + q * v->stride + columns.shift;
            float *at_y = y + p * v->places + q;
            if (s->result == SG_CONV_Y)
                *at_y += *at_x * *w;
            else if (s->result == SG_CONV_X)
                *at_x += *at_y * *w;
            else
                *w += *at_x * *at_y;
        }
}

static void run_image(const sg_conv_shape *s, float *x, float *w, float *y)
{
    const sg_conv_axis *h = &s->axis[0], *v = &s->axis[1];
    int64_t x_plane = h->size * v->size, y_plane = h->places * v->places, taps = h->kernel * v->kernel;
    for (int64_t o = 0; o < s->groups * s->out; o++)
        for (int64_t c = 0; c < s->in; c++)
            for (int64_t t = 0; t < taps; t++)
                run_tap(s, t / v->kernel, t % v->kernel, x + (o / s->out * s->in + c) * x_plane,
                        w + o * s->w_out + c * taps + t, y + o * y_plane);
}

void sg_conv_direct(const sg_conv_shape *s, float *x, float *w, float *y, int64_t count)
{
    float *result = s->result == SG_CONV_Y ? y : s->result == SG_CONV_X ? x : w;
    memset(result, 0, (size_t)count * sizeof *result);
    for (int64_t i = 0; i < s->images; i++)
        run_image(s, x + i * s->x_image, w, y + i * s->y_image);
}
