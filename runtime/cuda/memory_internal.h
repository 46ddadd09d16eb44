/* memory_internal.h - memory of the device and transfers (memory.c), recorded runs (record.c), failures of kernels (fault.c). */
#ifndef SG_CUDA_MEMORY_INTERNAL_H
#define SG_CUDA_MEMORY_INTERNAL_H

#include "runtime/cuda/cuda_internal.h"

extern const sg_apart sg_cuda_apart;
void *sg_cuda_allocate(sg_device *device, size_t bytes);
void sg_cuda_release(sg_device *device, void *memory);
sg_status sg_cuda_record(sg_device *device, sg_status (*body)(void *user, sg_error *err), void *user, void **recording,
                         sg_error *err);
/* How urgent each launch is, as far as the graph can tell, for one that is instantiated with
 * cudaGraphInstantiateFlagUseNodePriority, and that one launch begins it (priority.c). Fails for want of memory only. */
sg_status sg_cuda_prioritize(cudaGraph_t graph, sg_error *err);
sg_status sg_cuda_part(sg_device *device, const int32_t *on, int32_t n, sg_error *err);
sg_status sg_cuda_beside(sg_device *device, sg_error *err);
sg_status sg_cuda_replay(sg_device *device, void *recording, sg_error *err);
void sg_cuda_forget(sg_device *device, void *recording);
sg_status sg_cuda_fault_open(sg_device *device, sg_error *err);
void sg_cuda_fault_close(sg_device *device);
/* Report and clear what a kernel has found; waits for the stream if there is something. */
sg_status sg_cuda_take_fault(sg_device *device, sg_error *err);

#endif
