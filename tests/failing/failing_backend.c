/* failing_backend.c - a module that stands before the CUDA module, which it finds in the folder that SG_MODULE_BEHIND names: each
 * allocation is counted, and one of them can be made to fail. */
#include <dlfcn.h>
#include <stdlib.h>

#include "runtime/backend_internal.h"
#include "tests/failing/failing_backend.h"

__attribute__((visibility("default"))) failing_counts failing_count;
__attribute__((visibility("default"))) const sg_backend *sg_backend_module(uint32_t abi, sg_error *err);

static const sg_backend *behind;

static bool may_allocate(void) { return ++failing_count.allocations != failing_count.fail_at; }

static void *counted(void *memory)
{
    failing_count.live += memory != NULL;
    return memory;
}

static sg_status counted_status(sg_status status)
{
    failing_count.live += status == SG_OK;
    return status;
}

static void *allocate(sg_device *device, size_t bytes)
{
    return may_allocate() ? counted(behind->allocate(device, bytes)) : NULL;
}

static void release(sg_device *device, void *memory)
{
    failing_count.live -= memory != NULL;
    behind->release(device, memory);
}

static void *allocate_host(sg_device *device, size_t bytes)
{
    return may_allocate() ? counted(behind->apart->allocate_host(device, bytes)) : NULL;
}

static void release_host(sg_device *device, void *memory)
{
    failing_count.live -= memory != NULL;
    behind->apart->release_host(device, memory);
}

static sg_status make_mark(sg_device *device, void **mark, sg_error *err)
{
    if (!may_allocate())
        return sg_fail(err, SG_E_MEMORY, "out of memory for a mark");
    return counted_status(behind->apart->make_mark(device, mark, err));
}

static void free_mark(sg_device *device, void *mark)
{
    failing_count.live--;
    behind->apart->free_mark(device, mark);
}

static sg_status record(sg_device *device, sg_status (*body)(void *user, sg_error *err), void *user, void **recording,
                        sg_error *err)
{
    if (!may_allocate())
        return sg_fail(err, SG_E_MEMORY, "out of memory for a recording");
    return counted_status(behind->apart->record(device, body, user, recording, err));
}

static void forget(sg_device *device, void *recording)
{
    failing_count.live--;
    behind->apart->forget(device, recording);
}

static const sg_backend *load_behind(uint32_t abi, sg_error *err)
{
    char path[4096];
    sg_backend_module_fn entry = NULL;
    const char *folder = getenv("SG_MODULE_BEHIND");
    snprintf(path, sizeof path, "%s/sealgraph-cuda.so", folder ? folder : ".");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        *(void **)&entry = dlsym(library, "sg_backend_module");
    if (!entry)
        sg_fail(err, SG_E_DEVICE, "no module for cuda in %s", folder ? folder : ".");
    return entry ? entry(abi, err) : NULL;
}

const sg_backend *sg_backend_module(uint32_t abi, sg_error *err)
{
    static sg_backend backend;
    static sg_apart apart;
    behind = load_behind(abi, err);
    if (!behind)
        return NULL;
    apart = *behind->apart;
    apart.allocate_host = allocate_host;
    apart.release_host = release_host;
    apart.make_mark = make_mark;
    apart.free_mark = free_mark;
    apart.record = record;
    apart.forget = forget;
    backend = *behind;
    backend.apart = &apart;
    backend.allocate = allocate;
    backend.release = release;
    return &backend;
}
