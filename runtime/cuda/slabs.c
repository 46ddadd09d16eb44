/* slabs.c - one range of addresses a replica, all equally far apart, and memory mapped to the same places in each of them. A range is
 * as long as the device's memory, so that one replica could have it all; memory is taken as it is asked for. */
#include <cuda.h>

#include "runtime/cuda/slabs_internal.h"

/* Addresses that a process can give away to devices, and what is left to others. */
static const size_t addresses_most = (size_t)1 << 46;

typedef struct range {
    struct range *next; /* in order of offsets */
    size_t offset, bytes;
} range;

/* The driver's functions are found when needed: the module is loaded on machines without a driver too. */
struct sg_cuda_slabs {
    int32_t index, replicas;
    cudaStream_t stream;
    CUdeviceptr base;
    size_t stride, grain;
    range *taken;
    __typeof__(cuMemAddressReserve) *reserve;
    __typeof__(cuMemAddressFree) *unreserve;
    __typeof__(cuMemCreate) *create;
    __typeof__(cuMemRelease) *discard;
    __typeof__(cuMemMap) *map;
    __typeof__(cuMemUnmap) *unmap;
    __typeof__(cuMemSetAccess) *allow;
    __typeof__(cuMemGetAllocationGranularity) *granularity;
};

static size_t round_up(size_t bytes, size_t grain) { return (bytes + grain - 1) / grain * grain; }

static bool find(const char *name, void *function)
{
    enum cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    cudaError_t code = cudaGetDriverEntryPointByVersion(name, function, 12000, cudaEnableDefault, &found);
#else
    cudaError_t code = cudaGetDriverEntryPoint(name, function, cudaEnableDefault, &found);
#endif
    return code == cudaSuccess && found == cudaDriverEntryPointSuccess;
}

static bool find_functions(sg_cuda_slabs *s)
{
    return find("cuMemAddressReserve", &s->reserve) && find("cuMemAddressFree", &s->unreserve) &&
           find("cuMemCreate", &s->create) && find("cuMemRelease", &s->discard) && find("cuMemMap", &s->map) &&
           find("cuMemUnmap", &s->unmap) && find("cuMemSetAccess", &s->allow) &&
           find("cuMemGetAllocationGranularity", &s->granularity);
}

static CUmemAllocationProp properties(const sg_cuda_slabs *s)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = s->index}};
}

static sg_status reserve(sg_cuda_slabs *s, sg_error *err)
{
    size_t available = 0, total = 0;
    CUmemAllocationProp p = properties(s);
    SG_TRY(sg_cuda_check(cudaMemGetInfo(&available, &total), "memory for replicas", err));
    if (!find_functions(s) || s->granularity(&s->grain, &p, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) != CUDA_SUCCESS)
        return sg_fail(err, SG_E_DEVICE, "cuda:%d: the driver cannot map memory, which replicas need", (int)s->index);
    size_t most = addresses_most / (size_t)s->replicas / s->grain * s->grain;
    s->stride = round_up(total, s->grain);
    s->stride = s->stride < most ? s->stride : most;
    if (s->reserve(&s->base, s->stride * (size_t)s->replicas, 0, 0, 0) != CUDA_SUCCESS)
        return sg_fail(err, SG_E_MEMORY, "out of memory: no addresses for %d replicas", (int)s->replicas);
    return SG_OK;
}

sg_status sg_cuda_slabs_open(sg_device *d, int32_t replicas, sg_error *err)
{
    sg_cuda_slabs *s = d->slabs = sg_calloc(1, sizeof *s);
    if (!s)
        return sg_fail(err, SG_E_MEMORY, "out of memory opening the cuda backend");
    s->index = d->index;
    s->replicas = replicas;
    s->stream = d->stream;
    return reserve(s, err);
}

size_t sg_cuda_slabs_stride(const sg_cuda_slabs *s) { return s->stride; }

static CUdeviceptr place(const sg_cuda_slabs *s, const range *r, int32_t replica)
{
    return s->base + (size_t)replica * s->stride + r->offset;
}

/* Memory lives as long as it is mapped. */
static bool map_range(sg_cuda_slabs *s, const range *r, int32_t replica)
{
    CUmemGenericAllocationHandle memory;
    CUmemAllocationProp p = properties(s);
    CUmemAccessDesc access = {.location = p.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at = place(s, r, replica);
    if (s->create(&memory, r->bytes, &p, 0) != CUDA_SUCCESS)
        return false;
    bool mapped = s->map(at, r->bytes, 0, memory, 0) == CUDA_SUCCESS;
    s->discard(memory);
    if (mapped && s->allow(at, r->bytes, &access, 1) != CUDA_SUCCESS) {
        s->unmap(at, r->bytes);
        mapped = false;
    }
    return mapped;
}

static void unmap_range(sg_cuda_slabs *s, const range *r, int32_t replicas)
{
    for (int32_t i = 0; i < replicas; i++)
        s->unmap(place(s, r, i), r->bytes);
}

void *sg_cuda_slabs_allocate(sg_cuda_slabs *s, size_t bytes)
{
    range **before = &s->taken, *r = sg_alloc(sizeof *r);
    size_t at = 0;
    if (!r || bytes > s->stride) {
        sg_free(r);
        return NULL;
    }
    bytes = round_up(bytes ? bytes : 1, s->grain);
    for (; *before && (*before)->offset - at < bytes; before = &(*before)->next)
        at = (*before)->offset + (*before)->bytes;
    *r = (range){*before, at, bytes};
    int32_t mapped = 0;
    while (at + bytes <= s->stride && mapped < s->replicas && map_range(s, r, mapped))
        mapped++;
    if (mapped < s->replicas) {
        unmap_range(s, r, mapped);
        sg_free(r);
        return NULL;
    }
    *before = r;
    return (void *)(uintptr_t)place(s, r, 0);
}

void sg_cuda_slabs_release(sg_cuda_slabs *s, void *memory)
{
    range **at = &s->taken;
    while (*at && place(s, *at, 0) != (CUdeviceptr)(uintptr_t)memory)
        at = &(*at)->next;
    if (!*at)
        return;
    range *r = *at;
    cudaStreamSynchronize(s->stream); /* what uses it is done */
    unmap_range(s, r, s->replicas);
    *at = r->next;
    sg_free(r);
}

void sg_cuda_slabs_close(sg_device *d)
{
    sg_cuda_slabs *s = d->slabs;
    if (!s)
        return;
    while (s->taken)
        sg_cuda_slabs_release(s, (void *)(uintptr_t)place(s, s->taken, 0));
    if (s->base)
        s->unreserve(s->base, s->stride * (size_t)s->replicas);
    sg_free(s);
}
