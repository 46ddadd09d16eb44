/* backend.c - a GPU as a device: opening, and the way from a node to its kernel. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/attention_cudnn_internal.h"
#include "runtime/cuda/chain_internal.h"
#include "runtime/cuda/conv_internal.h"
#include "runtime/cuda/memory_internal.h"
#include "runtime/cuda/slabs_internal.h"

/* Converting to bf16, products of it, and copies to shared memory beside the computation are instructions from sm_80 on. */
enum { LEAST_CAPABILITY = 80 };

sg_status sg_cuda_check(cudaError_t code, const char *what, sg_error *err)
{
    if (code == cudaSuccess)
        return SG_OK;
    return sg_fail(err, code == cudaErrorMemoryAllocation ? SG_E_MEMORY : SG_E_DEVICE, "CUDA: %s: %s", what,
                   cudaGetErrorString(code));
}

bool sg_cuda_launched(sg_error *err) { return sg_cuda_check(cudaGetLastError(), "launch", err) == SG_OK; }

/* ---- opening */

/* "cuda" or "cuda:N" */
static sg_status read_index(const char *spec, int32_t *index, sg_error *err)
{
    const char *number = spec ? strchr(spec, ':') : NULL;
    char *end = NULL;
    *index = 0;
    if (!number)
        return SG_OK;
    long n = isdigit((unsigned char)number[1]) ? strtol(number + 1, &end, 10) : -1;
    if (n < 0 || n > 1023 || *end)
        return sg_fail(err, SG_E_ARGUMENT, "device \"%s\": expected \"cuda\" or \"cuda:N\" with N from 0", spec);
    *index = (int32_t)n;
    return SG_OK;
}

static sg_status find_device(int32_t index, sg_error *err)
{
    int n = 0;
    cudaError_t code = cudaGetDeviceCount(&n);
    if (code == cudaErrorInsufficientDriver)
        return sg_fail(err, SG_E_DEVICE, "no NVIDIA driver for CUDA %d.%d on this machine", CUDART_VERSION / 1000,
                       CUDART_VERSION % 1000 / 10);
    if (code == cudaErrorNoDevice || (code == cudaSuccess && n == 0))
        return sg_fail(err, SG_E_DEVICE, "no CUDA device on this machine");
    SG_TRY(sg_cuda_check(code, "looking for devices", err));
    if (index < n)
        return SG_OK;
    if (n == 1)
        return sg_fail(err, SG_E_DEVICE, "no device cuda:%d: this machine has cuda:0", (int)index);
    return sg_fail(err, SG_E_DEVICE, "no device cuda:%d: this machine has cuda:0 to cuda:%d", (int)index, n - 1);
}

static sg_status describe_device(sg_device *d, sg_error *err)
{
    struct cudaDeviceProp p;
    SG_TRY(sg_cuda_check(cudaSetDevice(d->index), "choosing the device", err));
    SG_TRY(sg_cuda_check(cudaGetDeviceProperties(&p, d->index), "device properties", err));
    d->capability = 10 * p.major + p.minor;
    d->processors = p.multiProcessorCount;
    if (d->capability < LEAST_CAPABILITY)
        return sg_fail(err, SG_E_DEVICE, "cuda:%d, %s, has compute capability %d.%d; %d.%d or later is needed",
                       (int)d->index, p.name, p.major, p.minor, LEAST_CAPABILITY / 10, LEAST_CAPABILITY % 10);
    snprintf(d->text, sizeof d->text, "cuda:%d %s, %.0f GiB, CUDA %d.%d, cuBLASLt %zu", (int)d->index, p.name,
             (double)p.totalGlobalMem / (1 << 30), CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10,
             cublasLtGetVersion());
    return SG_OK;
}

static sg_status open_parts(sg_device *d, const sg_device_options *options, sg_error *err)
{
    SG_TRY(read_index(options->spec, &d->index, err));
    SG_TRY(find_device(d->index, err));
    SG_TRY(describe_device(d, err));
    SG_TRY(sg_cuda_check(cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking), "stream", err));
    SG_TRY(sg_cuda_check(cudaEventCreateWithFlags(&d->uploaded, cudaEventDisableTiming), "event", err));
    SG_TRY(sg_cuda_fault_open(d, err));
    cublasStatus_t code = cublasLtCreate(&d->blas);
    if (code != CUBLAS_STATUS_SUCCESS)
        return sg_fail(err, SG_E_DEVICE, "cuBLASLt: opening: %s", cublasLtGetStatusString(code));
    d->tf32 = options->tf32;
    d->replicas = options->replicas;
    return options->replicas > 1 ? sg_cuda_slabs_open(d, options->replicas, err) : SG_OK;
}

static void cuda_close(sg_device *d)
{
    sg_cuda_cudnn_attention_free_all(d);
    sg_cuda_cudnn_close(d);
    sg_cuda_slabs_close(d);
    if (d->blas)
        cublasLtDestroy(d->blas);
    sg_cuda_fault_close(d);
    if (d->uploaded)
        cudaEventDestroy(d->uploaded);
    if (d->stream)
        cudaStreamDestroy(d->stream);
    sg_free(d);
}

static sg_status cuda_open(const sg_device_options *options, sg_device **out, sg_error *err)
{
    sg_device *d = sg_calloc(1, sizeof *d);
    if (!d)
        return sg_fail(err, SG_E_MEMORY, "out of memory opening the cuda backend");
    sg_status status = open_parts(d, options, err);
    if (status != SG_OK) {
        cuda_close(d);
        return status;
    }
    *out = d;
    return SG_OK;
}

static const char *cuda_describe(const sg_device *d) { return d->text; }

/* ---- kernels */

static bool cuda_computes(const sg_device *d, sg_dtype dtype)
{
    (void)d;
    return dtype == SG_BF16;
}

static bool cuda_supports(const sg_device *d, const sg_kernel_spec *spec)
{
    (void)d;
    return sg_cuda_find(spec) != NULL;
}

static sg_status cuda_prepare(sg_device *d, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    const sg_cuda_kernel *kernel = sg_cuda_find(spec);
    if (!kernel)
        return sg_fail(err, SG_E_UNSUPPORTED, "backend \"cuda\" has no kernel for node %s (%s)", spec->node->name,
                       spec->node->op->name);
    memset(out, 0, sizeof *out);
    return kernel->prepare(d, spec, out, err);
}

/* ---- the module */

__attribute__((visibility("default"))) const sg_backend *sg_backend_module(uint32_t abi, sg_error *err);

const sg_backend *sg_backend_module(uint32_t abi, sg_error *err)
{
    static const sg_backend backend = {
        .name = "cuda",
        .tf32 = true,
        .real = SG_F32,
        .apart = &sg_cuda_apart,
        .open = cuda_open,
        .close = cuda_close,
        .describe = cuda_describe,
        .computes = cuda_computes,
        .supports = cuda_supports,
        .prepare = cuda_prepare,
        .fuse = sg_cuda_fuse,
        .allocate = sg_cuda_allocate,
        .release = sg_cuda_release,
    };
    if (abi == SG_BACKEND_ABI)
        return &backend;
    sg_fail(err, SG_E_DEVICE, "the CUDA module is of another version of sealgraph (interface %d, the program has %u)",
            SG_BACKEND_ABI, (unsigned)abi);
    return NULL;
}
