/* nvrtc_internal.h - kernels compiled from source text at run time. */
#ifndef SG_CUDA_NVRTC_INTERNAL_H
#define SG_CUDA_NVRTC_INTERNAL_H

#include "runtime/cuda/cuda_internal.h"

/* The kernel `name` of a source text; programs are kept by text as long as the process lives. Multiplications and additions are
 * not contracted, so that draws have the bits that they have everywhere. */
sg_status sg_cuda_compile(const sg_device *device, const char *source, const char *name, cudaKernel_t *out,
                          sg_error *err);

#endif
