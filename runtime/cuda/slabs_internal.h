/* slabs_internal.h - memory of a device that was opened for several replicas. */
#ifndef SG_CUDA_SLABS_INTERNAL_H
#define SG_CUDA_SLABS_INTERNAL_H

#include "runtime/cuda/cuda_internal.h"

typedef struct sg_cuda_slabs sg_cuda_slabs;

sg_status sg_cuda_slabs_open(sg_device *device, int32_t replicas, sg_error *err);
void sg_cuda_slabs_close(sg_device *device);
size_t sg_cuda_slabs_stride(const sg_cuda_slabs *slabs);
/* NULL if there is no room. */
void *sg_cuda_slabs_allocate(sg_cuda_slabs *slabs, size_t bytes);
void sg_cuda_slabs_release(sg_cuda_slabs *slabs, void *memory);

#endif
