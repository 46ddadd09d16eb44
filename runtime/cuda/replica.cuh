/* replica.cuh - kernels that do several replicas in one launch: the z axis of the grid counts them, and what a pointer stands for is
 * `stride` bytes further in each. */
#ifndef SG_CUDA_REPLICA_CUH
#define SG_CUDA_REPLICA_CUH

#include "runtime/cuda/replica_internal.h"

static inline dim3 sg_replica_grid(dim3 blocks, const sg_cuda_where &where)
{
    return dim3(blocks.x, blocks.y, where.replicas);
}

/* The kernel's last parameter is the stride. */
#define SG_CUDA_LAUNCH_EACH(kernel, blocks, threads, where, ...)                                                       \
    kernel<<<sg_replica_grid(blocks, where), threads, 0, (where).stream>>>(__VA_ARGS__, (where).stride)
/* The same for a kernel whose threads all begin with sg_wait. */
#define SG_CUDA_LAUNCH_EARLY(kernel, blocks, threads, where, ...)                                                      \
    sg_cuda_overlap((where).stream), SG_CUDA_LAUNCH_EACH(kernel, blocks, threads, where, __VA_ARGS__)

/* What the launches before this one have written is there from here on. */
__device__ static inline void sg_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* From here on, in every block, the next launch may begin, if it is one that waits by itself. */
__device__ static inline void sg_let_next_begin()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* How far a replica's memory is from the first's. All lanes agree, but as the compiler does not know that, it keeps what is computed from
 * it instead of computing it again in a loop. */
__device__ static inline size_t sg_replica_offset(size_t stride)
{
    return __shfl_sync(0xffffffffu, (unsigned long long)blockIdx.z * stride, 0);
}

template <typename T> __device__ T *sg_replica_of(T *p, size_t stride)
{
    return p ? (T *)((char *)p + blockIdx.z * stride) : p;
}

template <typename T> __device__ const T *sg_replica_of(const T *p, size_t stride)
{
    return p ? (const T *)((const char *)p + blockIdx.z * stride) : p;
}

#endif
