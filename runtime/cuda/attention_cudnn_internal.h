/* attention_cudnn_internal.h - attention by cuDNN, where it has a kernel that is faster than ours. */
#ifndef SG_CUDA_ATTENTION_CUDNN_INTERNAL_H
#define SG_CUDA_ATTENTION_CUDNN_INTERNAL_H

#include "runtime/cuda/attention_internal.h"
#include "runtime/cuda/cuda_internal.h"

typedef struct sg_cuda_cudnn_attention sg_cuda_cudnn_attention;

/* NULL in *out: to be computed by our kernels. What is made belongs to the device, which has one for each set of sizes. */
sg_status sg_cuda_cudnn_attention_find(sg_device *device, const sg_cuda_attention *a, sg_cuda_cudnn_attention **out,
                                       sg_error *err);
size_t sg_cuda_cudnn_attention_workspace(const sg_cuda_cudnn_attention *c);
bool sg_cuda_cudnn_attention_run(const sg_cuda_cudnn_attention *c, const sg_cuda_attention_operands *x, void *workspace,
                                 cudaStream_t stream, sg_error *err);
void sg_cuda_cudnn_attention_free_all(sg_device *device);

#endif
