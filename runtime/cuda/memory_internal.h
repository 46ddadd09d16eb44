/* memory_internal.h - memory of the device, transfers, and recorded runs (memory.c). */
#ifndef SG_CUDA_MEMORY_INTERNAL_H
#define SG_CUDA_MEMORY_INTERNAL_H

#include "runtime/cuda/cuda_internal.h"

extern const sg_apart sg_cuda_apart;
void *sg_cuda_allocate(sg_device *device, size_t bytes);
void sg_cuda_release(sg_device *device, void *memory);
/* Report and clear what a kernel has found (backend.c). Call it when the stream is idle. */
sg_status sg_cuda_take_fault(sg_device *device, sg_error *err);

#endif
