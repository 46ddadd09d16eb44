/* mirror_backend.c - a module that takes the place of the CUDA module in tests: the cpu backend behind a wall. Its memory is one
 * mapping that cannot be touched except by its own transfers and launches (the host meets a segmentation fault), and launches check
 * that they are given no other memory. Transfers are counted. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/plan_internal.h"
#include "tests/mirror/mirror_backend.h"

enum { SPACE = 1 << 28 };

__attribute__((visibility("default"))) mirror_counts mirror_count;

static char *space;
static size_t taken;
static int32_t sessions;

static void wall(bool open) { mprotect(space, SPACE, open ? PROT_READ | PROT_WRITE : PROT_NONE); }

static void must_be_inside(const void *p, const char *what)
{
    if ((const char *)p >= space && (const char *)p < space + SPACE)
        return;
    fprintf(stderr, "mirror backend: %s gives memory of the host to the device\n", what);
    abort();
}

/* ---- kernels */

typedef struct kernel {
    sg_kernel inner;
    const char *op;
    int32_t n_in, n_out;
} kernel;

static bool launch(const sg_launch *l, sg_error *err)
{
    kernel *k = l->state;
    sg_launch inner = *l;
    inner.state = k->inner.state;
    for (int32_t i = 0; i < k->n_in; i++)
        if (l->in[i])
            must_be_inside(l->in[i], k->op);
    for (int32_t i = 0; i < k->n_out; i++)
        must_be_inside(l->out[i], k->op);
    if (k->inner.workspace)
        must_be_inside(l->workspace, k->op);
    mirror_count.launches++;
    wall(true);
    bool good = k->inner.launch(&inner, err);
    wall(false);
    return good;
}

static void release_kernel(void *state)
{
    kernel *k = state;
    if (k->inner.release)
        k->inner.release(k->inner.state);
    sg_free(k);
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    kernel *k = sg_calloc(1, sizeof *k);
    if (!k)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_status status = sg_backend_cpu()->prepare(device, spec, &k->inner, err);
    if (status != SG_OK) {
        sg_free(k);
        return status;
    }
    k->op = spec->node->op->name;
    k->n_in = spec->n_in;
    k->n_out = spec->n_out;
    *out = k->inner;
    out->launch = launch;
    out->state = k;
    out->release = release_kernel;
    return SG_OK;
}

/* ---- memory */

static sg_status open_device(const char *spec, int32_t threads, sg_device **out, sg_error *err)
{
    if (strcmp(spec, "cuda") != 0)
        return sg_fail(err, SG_E_DEVICE, "no device %s: this machine has cuda:0", spec);
    if (!space) {
        space = mmap(NULL, SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (space == MAP_FAILED)
            return sg_fail(err, SG_E_MEMORY, "out of memory");
    }
    sessions++;
    return sg_backend_cpu()->open("cpu", threads, out, err);
}

static void close_device(sg_device *device)
{
    if (--sessions == 0)
        taken = 0;
    sg_backend_cpu()->close(device);
}

static const char *describe(const sg_device *device)
{
    (void)device;
    return "mirror";
}

static size_t available(sg_device *device)
{
    (void)device;
    size_t has = mirror_count.limit ? mirror_count.limit : SPACE;
    return has > taken ? has - taken : 0;
}

static void *allocate(sg_device *device, size_t bytes)
{
    bytes = (bytes + SG_ALIGN) / SG_ALIGN * SG_ALIGN;
    if (bytes > available(device))
        return NULL;
    taken += bytes;
    return space + taken - bytes;
}

/* Memory is taken in order and comes back with the last session. */
static void release(sg_device *device, void *memory)
{
    (void)device;
    must_be_inside(memory, "release");
}

static void *allocate_host(sg_device *device, size_t bytes)
{
    (void)device;
    return malloc(bytes);
}

static void release_host(sg_device *device, void *memory)
{
    (void)device;
    free(memory);
}

/* ---- transfers */

static sg_status move(void *to, const void *from, size_t bytes)
{
    wall(true);
    memmove(to, from, bytes);
    wall(false);
    return SG_OK;
}

static sg_status upload(sg_device *device, void *to, const void *from, size_t bytes, sg_error *err)
{
    (void)device, (void)err;
    must_be_inside(to, "upload");
    mirror_count.uploads++;
    return move(to, from, bytes);
}

static sg_status download(sg_device *device, void *to, const void *from, size_t bytes, sg_error *err)
{
    (void)device, (void)err;
    must_be_inside(from, "download");
    mirror_count.downloads++;
    return move(to, from, bytes);
}

static sg_status copy(sg_device *device, void *to, const void *from, size_t bytes, sg_error *err)
{
    (void)device, (void)err;
    must_be_inside(to, "copy");
    must_be_inside(from, "copy");
    return move(to, from, bytes);
}

static sg_status fill(sg_device *device, void *to, int byte, size_t bytes, sg_error *err)
{
    (void)device, (void)err;
    must_be_inside(to, "fill");
    wall(true);
    memset(to, byte, bytes);
    wall(false);
    return SG_OK;
}

static sg_status wait_uploads(sg_device *device, sg_error *err)
{
    (void)device, (void)err;
    return SG_OK;
}

static sg_status wait_all(sg_device *device, sg_error *err)
{
    (void)device, (void)err;
    mirror_count.waits++;
    return SG_OK;
}

static void *stream(sg_device *device)
{
    (void)device;
    return NULL;
}

/* ---- recordings: what was to be recorded is done anew at each replay */

typedef struct recording {
    sg_status (*body)(void *user, sg_error *err);
    void *user;
} recording;

static sg_status record(sg_device *device, sg_status (*body)(void *user, sg_error *err), void *user, void **out,
                        sg_error *err)
{
    (void)device;
    recording *r = sg_calloc(1, sizeof *r);
    if (!r)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    *r = (recording){body, user};
    *out = r;
    mirror_count.records++;
    return SG_OK;
}

static sg_status replay(sg_device *device, void *recorded, sg_error *err)
{
    (void)device;
    recording *r = recorded;
    mirror_count.replays++;
    return r->body(r->user, err);
}

static void forget(sg_device *device, void *recorded)
{
    (void)device;
    sg_free(recorded);
}

static const sg_apart apart = {
    .allocate_host = allocate_host,
    .release_host = release_host,
    .upload = upload,
    .download = download,
    .copy = copy,
    .fill = fill,
    .wait_uploads = wait_uploads,
    .wait = wait_all,
    .available = available,
    .stream = stream,
    .record = record,
    .replay = replay,
    .forget = forget,
};

__attribute__((visibility("default"))) const sg_backend *sg_backend_module(uint32_t abi, sg_error *err);

const sg_backend *sg_backend_module(uint32_t abi, sg_error *err)
{
    static sg_backend table;
    if (abi != SG_BACKEND_ABI) {
        sg_fail(err, SG_E_DEVICE, "another version");
        return NULL;
    }
    table = *sg_backend_cpu();
    table.name = "cuda";
    table.apart = &apart;
    table.open = open_device;
    table.close = close_device;
    table.describe = describe;
    table.prepare = prepare;
    table.run = NULL;
    table.allocate = allocate;
    table.release = release;
    return &table;
}
