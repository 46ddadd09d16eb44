/* onednn_internal.h - matrix products by oneDNN. Its types and its versions stay in onednn.c. */
#ifndef SG_ONEDNN_INTERNAL_H
#define SG_ONEDNN_INTERNAL_H

#include "graph/graph.h"

/* c [m, n] = a [m, k] b [k, n] in strict f32. Operands are given by element strides: a transposed operand swaps its two,
 * nothing is copied. One of each operand's strides must be 1. */
typedef struct sg_gemm_shape {
    int64_t m, n, k;
    int64_t a_row, a_col;
    int64_t b_row, b_col;
    int64_t c_row;
} sg_gemm_shape;

/* A primitive that runs on the calling thread, usable by `threads` threads at once. */
typedef struct sg_onednn_gemm sg_onednn_gemm;

sg_status sg_onednn_gemm_new(sg_onednn_gemm **out, const sg_gemm_shape *shape, int32_t threads, sg_error *err);
void sg_onednn_gemm_free(sg_onednn_gemm *gemm);
/* Scratch bytes one thread needs, 64-byte aligned. */
size_t sg_onednn_gemm_scratch(const sg_onednn_gemm *gemm);
/* c = a b on the calling thread, which is number `thread` of those using the primitive. False on failure. */
bool sg_onednn_gemm_run(sg_onednn_gemm *gemm, int32_t thread, const float *a, const float *b, float *c, void *scratch);
/* Writes "oneDNN 3.2.0". */
void sg_onednn_version(char *out, size_t size);

#endif
