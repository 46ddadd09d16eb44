/* warp.cuh - instructions of a warp that C++ has no words for: products of small matrices on the tensor cores, and copies to
 * shared memory that go on while the thread computes. Addresses in shared memory are 32-bit. */
#ifndef SG_CUDA_WARP_CUH
#define SG_CUDA_WARP_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#define SG_LAUNCH_SHARED(kernel, blocks, threads, bytes, stream, ...)                                                  \
    do {                                                                                                               \
        if ((blocks) == 0)                                                                                             \
            break;                                                                                                     \
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(bytes));                       \
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);  \
        kernel<<<blocks, threads, bytes, stream>>>(__VA_ARGS__);                                                       \
    } while (0)

extern __shared__ __align__(1024) unsigned char sg_shared_memory[];
__device__ static inline uint32_t sg_shared_base() { return (uint32_t)__cvta_generic_to_shared(sg_shared_memory); }

/* 16 bytes from global to shared memory, or 16 zero bytes. */
__device__ static inline void sg_copy16(uint32_t to, const void *from, bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
__device__ static inline void sg_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ static inline void sg_copy_wait() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

/* Four 8 x 8 matrices of 16-bit elements: lane 8 m + r names the address of row r of matrix m; it gets in word m elements
 * 2 (lane % 4) and the next of row lane / 4, or transposed. */
__device__ static inline void sg_load_matrix(uint32_t r[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}
__device__ static inline void sg_load_transposed(uint32_t r[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

/* c [16, 8] += a [16, 16] b [16, 8], a and b of bf16. */
__device__ static inline void sg_multiply_add(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Two numbers as bf16, rounded to nearest, the first in the lower half. */
__device__ static inline uint32_t sg_pack_bf16(float low, float high)
{
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

/* 2^x to 2 ulp; 2^-inf = 0. */
__device__ static inline float sg_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
