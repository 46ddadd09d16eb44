/* image_internal.h - windows over the last two axes of [N, C, H, W]: pooling, and convolutions that cuDNN does not take. */
#ifndef SG_CUDA_IMAGE_INTERNAL_H
#define SG_CUDA_IMAGE_INTERNAL_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

/* Along one axis tap t of place p reads element p stride - before + t dilation; elements outside [0, size) are padding. */
typedef struct sg_cuda_window {
    int64_t size, kernel, places, stride, dilation, before;
} sg_cuda_window;

typedef struct sg_cuda_pool {
    int64_t planes;
    sg_cuda_window row, col; /* `size` is that of the larger side, also for the gradient */
    bool count_padding;
} sg_cuda_pool;

/* x [images, groups in, H, W], w [groups out, in, kernel, kernel], y [images, groups out, places, places]. */
typedef struct sg_cuda_conv {
    int64_t images, groups, in, out;
    bool bf16; /* the elements; sums are in f32 */
    sg_cuda_window row, col;
} sg_cuda_conv;

#ifdef __cplusplus
extern "C" {
#endif

/* `at`: the place within its plane of each largest element. */
void sg_cuda_max_pool(const sg_cuda_pool *p, const float *x, float *y, int32_t *at, cudaStream_t stream);
void sg_cuda_avg_pool(const sg_cuda_pool *p, const float *x, float *y, cudaStream_t stream);
void sg_cuda_avg_pool_grad(const sg_cuda_pool *p, const float *y, float *x, cudaStream_t stream);

/* The result, and the gradients in x and w, from the definition. Results are not empty. */
void sg_cuda_conv_y(const sg_cuda_conv *c, const void *x, const void *w, void *y, cudaStream_t stream);
void sg_cuda_conv_x(const sg_cuda_conv *c, const void *y, const void *w, void *x, cudaStream_t stream);
void sg_cuda_conv_w(const sg_cuda_conv *c, const void *x, const void *y, void *w, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
