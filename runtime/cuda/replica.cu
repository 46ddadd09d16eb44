/* replica.cu - the same copy in each replica. */
#include "runtime/cuda/replica_internal.h"
#include "runtime/cuda/replica.cuh"

enum { BLOCK = 256 };
static const size_t most_blocks = 1024;

/* `n` words, and the bytes behind them. */
template <typename T> __global__ void copy_words(const char *from, char *to, size_t n, size_t bytes, size_t stride)
{
    from = sg_replica_of(from, stride);
    to = sg_replica_of(to, stride);
    size_t thread = blockIdx.x * (size_t)BLOCK + threadIdx.x, threads = gridDim.x * (size_t)BLOCK;
    for (size_t i = thread; i < n; i += threads)
        ((T *)to)[i] = ((const T *)from)[i];
    for (size_t i = n * sizeof(T) + thread; i < bytes; i += threads)
        to[i] = from[i];
}

void sg_cuda_copy_replicas(const void *from, void *to, size_t bytes, int32_t replicas, size_t stride,
                           cudaStream_t stream)
{
    bool wide = ((uintptr_t)from | (uintptr_t)to | stride) % sizeof(int4) == 0;
    size_t n = bytes / (wide ? sizeof(int4) : 1), blocks = (n + BLOCK) / BLOCK;
    dim3 grid((unsigned)(blocks < most_blocks ? blocks : most_blocks), 1, (unsigned)replicas);
    if (wide)
        copy_words<int4><<<grid, BLOCK, 0, stream>>>((const char *)from, (char *)to, n, bytes, stride);
    else
        copy_words<char><<<grid, BLOCK, 0, stream>>>((const char *)from, (char *)to, n, bytes, stride);
}
