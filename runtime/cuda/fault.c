/* fault.c - failures found by kernels, told as the cpu's kernels tell theirs. */
#include <string.h>

#include "runtime/cuda/memory_internal.h"

/* A node that can fail, to name it when it does. The graph may be gone by then. */
struct sg_cuda_site {
    char node[128], file[256];
    int32_t line;
    const sg_op *op;
    const char *pointers, *index; /* names of the arrays of sparse rows; NULL elsewhere */
};

static sg_cuda_fault nothing(const sg_device *d)
{
    return (sg_cuda_fault){.site = -1, .value = ~0ull, .low = ~0ull, .raised = d->raised_at};
}

static sg_status clear(sg_device *d, sg_error *err)
{
    sg_cuda_fault none = nothing(d);
    *d->raised = 0;
    return sg_cuda_check(cudaMemcpy(d->fault_at, &none, sizeof none, cudaMemcpyHostToDevice), "record of failures",
                         err);
}

sg_status sg_cuda_fault_open(sg_device *d, sg_error *err)
{
    SG_TRY(sg_cuda_check(cudaHostAlloc((void **)&d->raised, sizeof *d->raised, cudaHostAllocMapped),
                         "page-locked memory", err));
    SG_TRY(sg_cuda_check(cudaHostGetDevicePointer((void **)&d->raised_at, (void *)(uintptr_t)d->raised, 0),
                         "page-locked memory", err));
    SG_TRY(sg_cuda_check(cudaMalloc((void **)&d->fault_at, sizeof *d->fault_at), "record of failures", err));
    return clear(d, err);
}

void sg_cuda_fault_close(sg_device *d)
{
    if (d->fault_at)
        cudaFree(d->fault_at);
    if (d->raised)
        cudaFreeHost((void *)(uintptr_t)d->raised);
    sg_free(d->site);
}

/* Number 0 stands for nodes that there was no memory to name. */
static sg_cuda_site *new_site(sg_device *d)
{
    if (d->n_sites + 2 > d->site_capacity) {
        int32_t more = d->site_capacity ? 2 * d->site_capacity : 64;
        sg_cuda_site *wider = sg_realloc(d->site, (size_t)more * sizeof *wider);
        if (!wider)
            return NULL;
        d->site = wider;
        d->site_capacity = more;
    }
    return &d->site[++d->n_sites];
}

int32_t sg_cuda_site_of(sg_device *d, const sg_kernel_spec *spec)
{
    sg_cuda_site *site = new_site(d);
    if (!site)
        return 0;
    memset(site, 0, sizeof *site);
    snprintf(site->node, sizeof site->node, "%s", spec->node->name);
    snprintf(site->file, sizeof site->file, "%s", spec->node->file);
    site->line = spec->node->line;
    site->op = spec->node->op;
    return d->n_sites;
}

void sg_cuda_site_arrays(sg_device *d, int32_t site, const char *pointers, const char *index)
{
    if (site == 0)
        return;
    d->site[site].pointers = pointers;
    d->site[site].index = index;
}

static void describe(const sg_cuda_site *site, const sg_cuda_fault *f, char *out, size_t size)
{
    int kind = (int)(f->value >> 61);
    long long position = (long long)(f->value >> 32 & SG_CUDA_FAR_POSITION), limit = f->limit[kind];
    int value = (int)(uint32_t)f->value, low = (int)(uint32_t)f->low;
    const char *index = kind == SG_CUDA_CSR_ORDER ? "t_order" : site ? site->index : NULL;
    if (kind == SG_CUDA_CSR_POINTERS)
        snprintf(out, size, "%s[%lld] = %d is outside [%d, capacity %lld]",
                 site && site->pointers ? site->pointers : "indptr", position, value, low, limit);
    else if (kind == SG_CUDA_TARGET)
        snprintf(out, size, "target %d at position %lld is neither -1 nor in [0, %lld)", value, position, limit);
    else if (index)
        snprintf(out, size, "%s[%lld] = %d is outside [0, %lld)", index, position, value, limit);
    else
        snprintf(out, size, "index %d at position %lld is outside [0, %lld)", value, position, limit);
}

static sg_status tell(const sg_device *d, const sg_cuda_fault *f, sg_error *err)
{
    char text[256];
    const sg_cuda_site *site = f->site > 0 && f->site <= d->n_sites ? &d->site[f->site] : NULL;
    describe(site, f, text, sizeof text);
    if (!site)
        return sg_fail(err, SG_E_DATA, "a kernel: %s", text);
    sg_fail_at(err, SG_E_DATA, site->file, site->line, 0, "'%s' (%s): %s", site->node, site->op->name, text);
    if (err) {
        snprintf(err->op, sizeof err->op, "%s", site->op->name);
        snprintf(err->node, sizeof err->node, "%s", site->node);
    }
    return SG_E_DATA;
}

sg_status sg_cuda_take_fault(sg_device *d, sg_error *err)
{
    sg_cuda_fault fault;
    if (!*d->raised)
        return SG_OK;
    SG_TRY(sg_cuda_check(cudaStreamSynchronize(d->stream), "run on the device", err));
    SG_TRY(sg_cuda_check(cudaMemcpy(&fault, d->fault_at, sizeof fault, cudaMemcpyDeviceToHost), "record of failures",
                         err));
    SG_TRY(clear(d, err));
    return fault.site < 0 ? SG_OK : tell(d, &fault, err);
}
