/* replica_internal.h - what is done to several replicas of a piece of memory, `stride` bytes apart. */
#ifndef SG_CUDA_REPLICA_INTERNAL_H
#define SG_CUDA_REPLICA_INTERNAL_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

/* Where a kernel's work is to be done: the stream, and the replicas; its pointers are those of the first. */
typedef struct sg_cuda_where {
    cudaStream_t stream;
    size_t stride;
    unsigned replicas;
} sg_cuda_where;

#ifdef __cplusplus
extern "C" {
#endif

void sg_cuda_copy_replicas(const void *from, void *to, size_t bytes, int32_t replicas, size_t stride,
                           cudaStream_t stream);
/* Before a launch whose threads all begin with sg_wait: in a recording it may start while the launches that it depends on end
 * (record.c). */
void sg_cuda_overlap(cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
