/* memory.c - memory of the device and transfers. Everything goes through the device's one stream, so that order is the order of
 * calls. */
#include "runtime/cuda/memory_internal.h"
#include "runtime/cuda/replica_internal.h"
#include "runtime/cuda/slabs_internal.h"

void *sg_cuda_allocate(sg_device *d, size_t bytes)
{
    void *memory = NULL;
    if (d->slabs)
        return cudaSetDevice(d->index) == cudaSuccess ? sg_cuda_slabs_allocate(d->slabs, bytes) : NULL;
    if (cudaSetDevice(d->index) != cudaSuccess || cudaMalloc(&memory, bytes ? bytes : 1) != cudaSuccess) {
        cudaGetLastError(); /* the failure is told here; later calls are not to meet it again */
        return NULL;
    }
    return memory;
}

/* cudaFree waits for what uses the memory. */
void sg_cuda_release(sg_device *d, void *memory)
{
    if (d->slabs)
        sg_cuda_slabs_release(d->slabs, memory);
    else
        cudaFree(memory);
}

static void *allocate_host(sg_device *d, size_t bytes)
{
    void *memory = NULL;
    if (cudaSetDevice(d->index) != cudaSuccess ||
        cudaHostAlloc(&memory, bytes ? bytes : 1, cudaHostAllocDefault) != cudaSuccess) {
        cudaGetLastError();
        return NULL;
    }
    return memory;
}

static void release_host(sg_device *d, void *memory)
{
    (void)d;
    cudaFreeHost(memory);
}

static sg_status upload(sg_device *d, void *to, const void *from, size_t bytes, sg_error *err)
{
    if (bytes == 0)
        return SG_OK;
    SG_TRY(
        sg_cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, d->stream), "copy to the device", err));
    return sg_cuda_check(cudaEventRecord(d->uploaded, d->stream), "copy to the device", err);
}

static sg_status download(sg_device *d, void *to, const void *from, size_t bytes, sg_error *err)
{
    return bytes == 0 ? SG_OK
                      : sg_cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, d->stream),
                                      "copy from the device", err);
}

static sg_status copy(sg_device *d, void *to, const void *from, size_t bytes, int32_t replicas, sg_error *err)
{
    if (replicas > 1 && bytes > 0) {
        sg_cuda_copy_replicas(from, to, bytes, replicas, sg_cuda_slabs_stride(d->slabs), d->stream);
        return sg_cuda_check(cudaGetLastError(), "copy on the device", err);
    }
    return bytes == 0 ? SG_OK
                      : sg_cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, d->stream),
                                      "copy on the device", err);
}

static sg_status fill(sg_device *d, void *to, int byte, size_t bytes, sg_error *err)
{
    return bytes == 0 ? SG_OK : sg_cuda_check(cudaMemsetAsync(to, byte, bytes, d->stream), "fill on the device", err);
}

static sg_status wait_uploads(sg_device *d, sg_error *err)
{
    return sg_cuda_check(cudaEventSynchronize(d->uploaded), "copy to the device", err);
}

static sg_status make_mark(sg_device *d, void **mark, sg_error *err)
{
    cudaEvent_t event = NULL;
    SG_TRY(sg_cuda_check(cudaSetDevice(d->index), "event", err));
    SG_TRY(sg_cuda_check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event", err));
    *mark = event;
    return SG_OK;
}

static sg_status set_mark(sg_device *d, void *mark, sg_error *err)
{
    return sg_cuda_check(cudaEventRecord(mark, d->stream), "event", err);
}

static sg_status wait_mark(sg_device *d, void *mark, sg_error *err)
{
    SG_TRY(sg_cuda_check(cudaEventSynchronize(mark), "run on the device", err));
    return sg_cuda_take_fault(d, err);
}

static void free_mark(sg_device *d, void *mark)
{
    (void)d;
    cudaEventDestroy(mark);
}

static sg_status wait(sg_device *d, sg_error *err)
{
    SG_TRY(sg_cuda_check(cudaStreamSynchronize(d->stream), "run on the device", err));
    return sg_cuda_take_fault(d, err);
}

static size_t available(sg_device *d)
{
    size_t free_bytes = 0, total = 0;
    if (cudaSetDevice(d->index) != cudaSuccess || cudaMemGetInfo(&free_bytes, &total) != cudaSuccess)
        return 0;
    return free_bytes;
}

static size_t stride(sg_device *d) { return d->slabs ? sg_cuda_slabs_stride(d->slabs) : 0; }

/* Asked for before each launch: another session of the thread may have made another device the current one. */
static void *stream(sg_device *d)
{
    cudaSetDevice(d->index);
    return d->stream;
}

const sg_apart sg_cuda_apart = {
    .allocate_host = allocate_host,
    .release_host = release_host,
    .upload = upload,
    .download = download,
    .copy = copy,
    .fill = fill,
    .wait_uploads = wait_uploads,
    .make_mark = make_mark,
    .set_mark = set_mark,
    .wait_mark = wait_mark,
    .free_mark = free_mark,
    .wait = wait,
    .available = available,
    .stride = stride,
    .stream = stream,
    .record = sg_cuda_record,
    .part = sg_cuda_part,
    .beside = sg_cuda_beside,
    .replay = sg_cuda_replay,
    .forget = sg_cuda_forget,
};
