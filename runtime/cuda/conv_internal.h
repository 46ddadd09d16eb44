/* conv_internal.h - convolutions by cuDNN, between conv.c (the ops) and conv_cudnn.c. */
#ifndef SG_CUDA_CONV_INTERNAL_H
#define SG_CUDA_CONV_INTERNAL_H

#include "runtime/cuda/cuda_internal.h"
#include "runtime/cuda/image_internal.h"

typedef enum sg_cuda_conv_result { SG_CUDA_CONV_Y, SG_CUDA_CONV_X, SG_CUDA_CONV_W } sg_cuda_conv_result;

typedef struct sg_cuda_cudnn_conv sg_cuda_cudnn_conv;

/* *out is NULL if cuDNN has no deterministic algorithm for this convolution, whose tensors are not empty. */
sg_status sg_cuda_cudnn_conv_new(sg_device *device, const sg_cuda_conv *shape, sg_cuda_conv_result result,
                                 sg_cuda_cudnn_conv **out, size_t *workspace, sg_error *err);
/* One of x, w, y is the result. */
bool sg_cuda_cudnn_conv_run(const sg_cuda_cudnn_conv *conv, const void *x, const void *w, const void *y, void *out,
                            void *workspace, cudaStream_t stream, sg_error *err);
void sg_cuda_cudnn_conv_free(sg_cuda_cudnn_conv *conv);

/* Release what the device keeps of cuDNN. */
void sg_cuda_cudnn_close(sg_device *device);

#endif
