/* tile_kernels_internal.h - products and softmax rows of tiles that stay in the caches, one table an instruction set.
 *
 * Rows are padded to whole vectors: every count `n` of columns here is a multiple of SG_TILE_LANES, and so are the strides
 * between rows of b and c. Padding holds zeros (scores: -inf). A sum runs over its terms in their order or over a
 * fixed number of lanes, whatever the vector length; instruction sets differ in whether a product is rounded before it is added. */
#ifndef SG_TILE_KERNELS_INTERNAL_H
#define SG_TILE_KERNELS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SG_TILE_LANES 16

static inline int64_t sg_tile_pad(int64_t n) { return (n + SG_TILE_LANES - 1) / SG_TILE_LANES * SG_TILE_LANES; }

typedef struct sg_tile_kernels {
    /* c [m, n] = a [m, k] b [k, n], or added to it. Element (i, l) of a lies at i * a_row + l * a_col. */
    void (*gemm)(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row, int64_t a_col, const float *b,
                 int64_t b_row, float *c, int64_t c_row, bool add);
    /* The same where one operand comes from far, k is above 0 and nothing is added to. b is asked for some rows ahead, or,
     * if `next` is not NULL, a line of what begins there is asked for with each step of k. */
    void (*thin_gemm)(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row, int64_t a_col, const float *b,
                      int64_t b_row, float *c, int64_t c_row, const float *next);
    /* out [columns, rows] = x', x [rows, columns]; any sizes. */
    void (*turn)(int64_t rows, int64_t columns, const float *x, int64_t x_row, float *out, int64_t out_row);
    /* out [columns, rows_pad] = factor * x', x [rows, columns] with rows `x_row` apart; the padding becomes zero. */
    void (*transpose)(int64_t rows, int64_t columns, float factor, const float *x, int64_t x_row, float *out,
                      int64_t out_row);

    /* x[j] becomes -inf where keep[j * step] is 0, for the first `count` columns. */
    void (*mask)(int64_t count, const uint8_t *keep, int64_t step, float *x);
    /* x[j] += bias[j * step] for the first `count` columns. */
    void (*add)(int64_t count, const float *bias, int64_t step, float *x);
    /* The largest element; NaN if any is. */
    float (*max)(int64_t n, const float *x);
    /* x becomes exp(x - shift); its sum. */
    float (*exp_sum)(int64_t n, float shift, float *x);
    /* u of a draw becomes the factor of dropout: `factor` where u >= rate, else 0. */
    void (*keep)(int64_t n, float rate, float factor, float *u);
    void (*multiply)(int64_t n, const float *factor, float *x);
    void (*scale)(int64_t n, float factor, const float *x, float *out);

    /* Rows of the derivatives of p = softmax(s), o = (p o m) v; m is NULL without dropout. See attention_derivative.c.
     * p becomes p o m, dp becomes the cotangent of s times scale; `shift` is added to each element before p multiplies it. Returns
     * what is not finite if a result of the row is not. */
    float (*softmax_vjp)(int64_t n, const float *m, float scale, float shift, float *p, float *dp);
    /* t, the tangent of s, becomes that of p o m, and p becomes p o m. Returns the tangent of the row's logsumexp. */
    float (*softmax_jvp)(int64_t n, const float *m, float *p, float *t);
    /* The tangents of softmax_vjp's results: t, of s, becomes that of p o m; dt, of dp, that of the cotangent of s. Returns
     * the same. */
    float (*softmax_vjp_jvp)(int64_t n, const float *m, float scale, float shift, float shift_t, float *p, float *t,
                             float *dp, float *dt);
} sg_tile_kernels;

const sg_tile_kernels *sg_tile_kernels_best(void);

extern const sg_tile_kernels sg_tile_kernels_x86_64, sg_tile_kernels_avx2, sg_tile_kernels_avx512;

#endif
