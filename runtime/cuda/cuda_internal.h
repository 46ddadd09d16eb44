/* cuda_internal.h - what the files of runtime/cuda share: the device, the table of kernels, and how a kernel reports a
 * failure that depends on values.
 *
 * Host code is C and device code is in .cu files, which export plain functions (extern "C": pointers, sizes, a stream). A
 * launch only enqueues work on launch->stream: it may not allocate, synchronise or call back, so that a whole run can be
 * captured into one CUDA graph. Its pointers are addresses of the device. */
#ifndef SG_CUDA_INTERNAL_H
#define SG_CUDA_INTERNAL_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "runtime/backend_internal.h"
#include "runtime/cuda/fault_internal.h"
#include "runtime/cuda/replica_internal.h"

typedef struct sg_cuda_site sg_cuda_site;

struct sg_device {
    int32_t index;
    int32_t capability; /* 10 major + minor */
    int32_t processors; /* streaming multiprocessors */
    int32_t replicas;   /* that run side by side */
    cudaStream_t stream;
    cudaEvent_t uploaded;        /* after the latest copy to the device */
    struct sg_cuda_slabs *slabs; /* memory of several replicas (slabs.c), or NULL */
    cublasLtHandle_t blas;
    struct cudnnContext *dnn;                  /* opened by the first that needs it */
    struct sg_cuda_cudnn_attention *attention; /* plans made so far */
    bool tf32;                        /* products of f32 may round their operands to TF32: only when asked for */
    struct sg_cuda_capture *capture;  /* the recording under way (record.c) */
    sg_cuda_fault *fault_at;          /* in memory of the device */
    volatile int *raised, *raised_at; /* a word of the host, and the same as kernels see it */
    sg_cuda_site *site;               /* 1 .. n_sites */
    int32_t n_sites, site_capacity;
    char text[512];
};

/* One op's implementation. A table may hold several rows for one op: the first whose `supports` agrees is used. Without
 * `supports` it takes every node of the op that has no operand in bf16. */
typedef struct sg_cuda_kernel {
    const sg_op *op;
    bool (*supports)(const sg_kernel_spec *spec);
    sg_status (*prepare)(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err);
} sg_cuda_kernel;

/* The row for this node, or NULL (kernel_table.c). */
const sg_cuda_kernel *sg_cuda_find(const sg_kernel_spec *spec);

/* For prepare of a kernel that can fail: the number by which it names its node in sg_cuda_raise_at. */
int32_t sg_cuda_site_of(sg_device *device, const sg_kernel_spec *spec);
/* For products with sparse rows: what to call their arrays. The texts must be constants. */
void sg_cuda_site_arrays(sg_device *device, int32_t site, const char *pointers, const char *index);

/* SG_E_DEVICE with CUDA's text, unless `code` is success. */
sg_status sg_cuda_check(cudaError_t code, const char *what, sg_error *err);

/* The libraries want their workspace on 256 bytes; the arena gives 64, so that they get some bytes more. */
enum { SG_CUDA_WORKSPACE_LINE = 256 };
static inline size_t sg_cuda_workspace_bytes(size_t wanted) { return wanted ? wanted + SG_CUDA_WORKSPACE_LINE : 0; }
static inline void *sg_cuda_workspace_of(const sg_launch *l)
{
    return (void *)(((uintptr_t)l->workspace + SG_CUDA_WORKSPACE_LINE - 1) & ~(uintptr_t)(SG_CUDA_WORKSPACE_LINE - 1));
}

static inline sg_cuda_where sg_cuda_where_of(const sg_launch *l)
{
    return (sg_cuda_where){(cudaStream_t)l->stream, l->stride, (unsigned)l->replicas};
}

/* For the end of a launch: true unless the last launch was refused. */
bool sg_cuda_launched(sg_error *err);

#endif
