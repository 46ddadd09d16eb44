/* norm_kernels_internal.h - loops over one row of layer normalisation and of its derivatives, one table an instruction set.
 *
 * With mean m and r = 1 / sqrt(variance + eps) of the row, u = (x - m) r is the normalised row. Sums use a fixed number of lanes, so
 * every table gives the same bits. */
#ifndef SG_NORM_KERNELS_INTERNAL_H
#define SG_NORM_KERNELS_INTERNAL_H

#include <stdint.h>

/* A row of n elements. gamma and beta have n elements too. */
typedef struct sg_norm_row {
    int64_t n;
    const float *x, *gamma;
    float mean, rstd;
} sg_norm_row;

/* Means over a row that the tangent of the reverse derivative needs, see layer_norm.c. */
enum { SG_NORM_H, SG_NORM_HU, SG_NORM_T, SG_NORM_TU, SG_NORM_HT, SG_NORM_DH, SG_NORM_DHU, SG_NORM_SUMS };

typedef struct sg_norm_kernels {
    /* sum[0] = sum (x - shift), sum[1] = sum (x - shift)^2. */
    void (*deviations)(int64_t n, const float *x, float shift, float sum[2]);
    /* y = u gamma + beta; y may be x. */
    void (*normalise)(const sg_norm_row *row, const float *beta, float *y);

    /* sum[0] = sum h, sum[1] = sum h u with h = gamma g. */
    void (*vjp_sums)(const sg_norm_row *row, const float *g, float sum[2]);
    /* gx = r (h - a - u b); gx may be g. */
    void (*vjp)(const sg_norm_row *row, const float *g, float a, float b, float *gx);
    /* ggamma += g u, gbeta += g. */
    void (*vjp_columns)(const sg_norm_row *row, const float *g, float *ggamma, float *gbeta);

    /* y = gamma r (t - a - u b) + tgamma u + tbeta. */
    void (*jvp)(const sg_norm_row *row, const float *t, float a, float b, const float *tgamma, const float *tbeta,
                float *y);

    /* The sums of h, h u, t, t u, h t, dh and dh u with h = gamma g, dh = gamma dg + dgamma g. */
    void (*second_sums)(const sg_norm_row *row, const float *g, const float *t, const float *dgamma, const float *dg,
                        float sum[SG_NORM_SUMS]);
    /* The tangent of gx; `mean` are those sums over n. */
    void (*second)(const sg_norm_row *row, const float *g, const float *t, const float *dgamma, const float *dg,
                   const float mean[SG_NORM_SUMS], float *out);
    /* dggamma += dg u + g du with du = r (t - a - u b), dgbeta += dg. */
    void (*second_columns)(const sg_norm_row *row, const float *g, const float *t, const float *dg, float a, float b,
                           float *dggamma, float *dgbeta);
} sg_norm_kernels;

const sg_norm_kernels *sg_norm_kernels_best(void);

extern const sg_norm_kernels sg_norm_kernels_x86_64, sg_norm_kernels_avx2, sg_norm_kernels_avx512;

#endif
