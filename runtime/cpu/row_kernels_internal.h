/* row_kernels_internal.h - inner loops over contiguous rows of floats, one table an instruction set.
 *
 * The tables hold the same functions, compiled from row_kernels.h for different vector lengths. No lane's arithmetic depends
 * on the length and sums use a fixed number of lanes, so every table gives the same bits (but for exp_sum). */
#ifndef SG_ROW_KERNELS_INTERNAL_H
#define SG_ROW_KERNELS_INTERNAL_H

#include <stdint.h>

/* Coefficients of one Adam step, see adam.c. */
typedef struct sg_adam_step {
    float beta1, one_beta1, beta2, one_beta2;
    float rate;  /* lr / (1 - beta1^t) */
    float scale; /* 1 / sqrt(1 - beta2^t) */
    float eps;
    float decay; /* lr * weight decay if decoupled, else 0 */
    float l2;    /* weight decay if not decoupled, else 0 */
} sg_adam_step;

/* A row of parameters and their moments, and where they go: outputs may be the inputs. */
typedef struct sg_adam_row {
    const float *p, *m, *v;
    float *p_out, *m_out, *v_out;
} sg_adam_row;

typedef struct sg_row_kernels {
    /* The update of n parameters; outputs may be the inputs. */
    void (*adam)(int64_t n, const sg_adam_step *s, const float *p, const float *g, const float *m, const float *v,
                 float *p_out, float *m_out, float *v_out);
    /* out[0..n) = sum over j in [begin, end) of value[order ? order[j] : j] * w[index[j] * stride .. + n). */
    void (*gather_sum)(int64_t n, int64_t begin, int64_t end, const float *value, const int32_t *order,
                       const int32_t *index, const float *w, int64_t stride, float *out);
    /* The update of n parameters whose gradient is such a sum, most often of few rows: the bits of the two one after the other. */
    void (*gather_adam)(int64_t n, const sg_adam_step *s, int64_t begin, int64_t end, const float *value,
                        const int32_t *order, const int32_t *index, const float *w, int64_t stride,
                        const sg_adam_row *row);
    float (*dot)(int64_t n, const float *a, const float *b);
    float (*sum)(int64_t n, const float *x);
    float (*max)(int64_t n, const float *x); /* NaN if any is, -inf if n is 0 */
    /* out[i] = exp(x[i] - shift) unless out is NULL; returns the sum. Accurate to 1 ulp, not the same on all tables. */
    float (*exp_sum)(int64_t n, const float *x, float shift, float *out);
    void (*scale)(int64_t n, float factor, float *x);
    /* best[i], which stands at at[i], gives way to x[i] at first + i if that is larger, or the first NaN. */
    void (*keep_larger)(int64_t n, const float *x, int32_t first, float *best, int32_t *at);
    /* out[0..n) = sum over `rows` rows of x, `stride` floats apart. */
    void (*sum_columns)(int64_t rows, int64_t n, const float *x, int64_t stride, float *out);
} sg_row_kernels;

/* The table for this machine. */
const sg_row_kernels *sg_row_kernels_best(void);
/* The table whose sums are fastest: rows rarely start on a 64-byte line, so loads of 64 bytes mostly take two. */
const sg_row_kernels *sg_row_kernels_sums(void);

extern const sg_row_kernels sg_row_kernels_x86_64, sg_row_kernels_avx2, sg_row_kernels_avx512;

#endif
