/* nvrtc_internal.h - kernels compiled from source text at run time. */
#ifndef SG_CUDA_NVRTC_INTERNAL_H
#define SG_CUDA_NVRTC_INTERNAL_H

#include "runtime/cuda/cuda_internal.h"

/* The kernel `name` of a source text; programs are kept by text until the device closes. Multiplications and additions are not
 * contracted, so that draws have the bits that they have everywhere. */
sg_status sg_cuda_compile(sg_device *device, const char *source, const char *name, cudaKernel_t *out, sg_error *err);
void sg_cuda_programs_free(sg_device *device);

#endif
