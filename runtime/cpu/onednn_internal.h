/* onednn_internal.h - matrix products (onednn.c) and convolutions (onednn_conv.c) by oneDNN, whose types stay in these files. */
#ifndef SG_ONEDNN_INTERNAL_H
#define SG_ONEDNN_INTERNAL_H

#include <omp.h>

#include "graph/graph.h"

/* oneDNN asks OpenMP how many threads a call may use: one, the caller, until what it was is given back. */
static inline int sg_onednn_begin(void)
{
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    return threads;
}
static inline void sg_onednn_end(int threads) { omp_set_num_threads(threads); }

/* c [m, n] = a [m, k] b [k, n] in strict f32, or added to c. Operands are given by element strides: a transposed operand swaps its two,
 * nothing is copied. One of each operand's strides must be 1. */
typedef struct sg_gemm_shape {
    int64_t m, n, k;
    int64_t a_row, a_col;
    int64_t b_row, b_col;
    int64_t c_row;
    bool add;
} sg_gemm_shape;

/* A primitive that runs on the calling thread, usable by `threads` threads at once. */
typedef struct sg_onednn_gemm sg_onednn_gemm;

sg_status sg_onednn_gemm_new(sg_onednn_gemm **out, const sg_gemm_shape *shape, int32_t threads, sg_error *err);
void sg_onednn_gemm_free(sg_onednn_gemm *gemm);
/* Scratch bytes one thread needs, 64-byte aligned. */
size_t sg_onednn_gemm_scratch(const sg_onednn_gemm *gemm);
/* c = a b on the calling thread, which is number `thread` of those using the primitive. False on failure. */
bool sg_onednn_gemm_run(sg_onednn_gemm *gemm, int32_t thread, const float *a, const float *b, float *c, void *scratch);

/* One of the three tensors of a convolution y [images, out, places] = x [images, in, sizes] * w [out, in / groups, taps] from
 * the other two. Operands are packed row-major but for the steps between images, channels of w. */
typedef enum sg_conv_result { SG_CONV_Y, SG_CONV_X, SG_CONV_W } sg_conv_result;
/* How x and y lie while it is computed: as they are (by matrix products), in oneDNN's blocks, or with channels last. */
typedef enum sg_conv_layout { SG_CONV_PLAIN, SG_CONV_BLOCKED, SG_CONV_CHANNELS_LAST } sg_conv_layout;
typedef struct sg_conv_axis {
    int64_t size, kernel, places, stride, dilation, before, after;
} sg_conv_axis;
typedef struct sg_conv_shape {
    sg_conv_result result;
    sg_conv_layout layout;
    int64_t images, groups, in, out; /* channels of one group */
    sg_conv_axis axis[2];
    int64_t x_image, y_image, w_out; /* elements between images of x and y, and between out channels of w */
} sg_conv_shape;

typedef struct sg_onednn_conv sg_onednn_conv;
sg_status sg_onednn_conv_new(sg_onednn_conv **out, const sg_conv_shape *shape, int32_t threads, sg_error *err);
void sg_onednn_conv_free(sg_onednn_conv *conv);
/* Bytes of w in the primitive's layout, 0 if it takes w as it is or w is the result; written by sg_onednn_conv_pack. */
size_t sg_onednn_conv_packed(const sg_onednn_conv *conv);
bool sg_onednn_conv_pack(sg_onednn_conv *conv, int32_t thread, const float *w, float *packed, void *scratch);
/* Scratch bytes one thread needs, 64-byte aligned: the operands in the primitive's layout, and oneDNN's own. */
size_t sg_onednn_conv_scratch(const sg_onednn_conv *conv);
/* Computes the result on the calling thread, number `thread`. w is the packed one if there is one. */
bool sg_onednn_conv_run(sg_onednn_conv *conv, int32_t thread, float *x, float *w, float *y, void *scratch);

/* Writes "oneDNN 3.2.0". */
void sg_onednn_version(char *out, size_t size);

#endif
