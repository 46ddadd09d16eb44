/* mirror_backend.c - a module that takes the place of the CUDA module in tests: the cpu backend behind a wall. Its memory is one
 * mapping that cannot be touched except by its own transfers and launches (the host meets a segmentation fault), and launches check
 * that they are given no other memory. Transfers are counted. Work can be put off until somebody waits for it, as a slow device does,
 * and each allocation can be made to fail. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/plan_internal.h"
#include "tests/mirror/mirror_backend.h"

/* A replica's memory is a space of its own. Every other kernel does all replicas in one launch. */
enum { SPACE = 1 << 28, MOST_REPLICAS = 16 };

__attribute__((visibility("default"))) mirror_counts mirror_count;

static char *space;
static size_t taken;
static int32_t sessions, spaces, kernels;

static size_t whole(void) { return (size_t)SPACE * (size_t)spaces; }

static void wall(bool open) { mprotect(space, whole(), open ? PROT_READ | PROT_WRITE : PROT_NONE); }

static void must_be_inside(const void *p, const char *what)
{
    if ((const char *)p >= space && (const char *)p < space + whole())
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

static bool launch_replica(kernel *k, const sg_launch *l, size_t offset, sg_error *err)
{
    const void **in = calloc((size_t)k->n_in + 1, sizeof *in);
    void **out = calloc((size_t)k->n_out + 1, sizeof *out);
    bool good = in && out;
    for (int32_t i = 0; good && i < k->n_in; i++)
        in[i] = l->in[i] ? (const char *)l->in[i] + offset : NULL;
    for (int32_t i = 0; good && i < k->n_out; i++)
        out[i] = (char *)l->out[i] + offset;
    sg_launch inner = {.in = in,
                       .out = out,
                       .workspace = l->workspace ? (char *)l->workspace + offset : NULL,
                       .state = k->inner.state,
                       .run = l->run,
                       .threads = l->threads,
                       .replicas = 1};
    good = good && k->inner.launch(&inner, err);
    free(in);
    free(out);
    return good;
}

static bool launch_now(kernel *k, const sg_launch *l, sg_error *err)
{
    bool good = true;
    mirror_count.launches++;
    wall(true);
    for (int32_t r = 0; good && r < l->replicas; r++)
        good = launch_replica(k, l, (size_t)r * l->stride, err);
    wall(false);
    return good;
}

/* ---- recordings: what is enqueued is kept, and each replay does it part by part, in an order of its own that fits what the
 * parts wait for. A dependency that is missing shows as another result sooner or later. */

typedef struct work {
    kernel *kernel; /* NULL: a copy */
    sg_launch launch;
    void *to;
    const void *from;
    size_t bytes;
    int32_t replicas;
} work;

typedef struct part {
    int32_t first, end; /* works */
    int32_t on, n_on;   /* in `waits` */
} part;

typedef struct recording {
    work *work;
    part *part;
    int32_t *waits;
    bool *done;
    int32_t n_works, n_parts, n_waits;
    uint64_t seed;
} recording;

enum { MOST_WORKS = 1 << 14, MOST_WAITS = 1 << 17 };

static recording *under_way;

/* True if a recording has taken the work. */
static bool record_work(work w)
{
    recording *r = under_way;
    if (!r)
        return false;
    if (r->n_works == MOST_WORKS || r->n_parts == 0) {
        fprintf(stderr, "mirror backend: too much is recorded, or before the first part\n");
        abort();
    }
    r->work[r->n_works++] = w;
    r->part[r->n_parts - 1].end = r->n_works;
    return true;
}

static sg_status begin_part(sg_device *device, const int32_t *on, int32_t n, sg_error *err)
{
    (void)device;
    recording *r = under_way;
    if (r->n_parts == MOST_WORKS || r->n_waits + n > MOST_WAITS)
        return sg_fail(err, SG_E_MEMORY, "mirror backend: too many parts");
    r->part[r->n_parts++] = (part){r->n_works, r->n_works, r->n_waits, n};
    for (int32_t i = 0; i < n; i++)
        r->waits[r->n_waits++] = on[i];
    mirror_count.parts++;
    mirror_count.starts += n == 0;
    return SG_OK;
}

/* Launches of one part happen in order here. */
static sg_status beside(sg_device *device, sg_error *err)
{
    (void)device, (void)err;
    return SG_OK;
}

/* ---- work put off */

typedef struct task {
    enum { TASK_WORK, TASK_FILL, TASK_REPLAY } kind;
    work work; /* a transfer, a copy, a launch; `to` and `bytes` of a fill */
    int byte;
    recording *recording;
} task;

static task *queue;
static int64_t queue_at, queue_end, queue_capacity; /* numbers of tasks; queue[0] is number queue_at */
static sg_error failure;                            /* of a task, for the next wait */

static sg_status replay_now(recording *r, sg_error *err);

static void do_work(const work *w, sg_error *err)
{
    if (w->kernel) {
        launch_now(w->kernel, &w->launch, err);
        return;
    }
    wall(true);
    for (size_t r = 0; r == 0 || r < (size_t)w->replicas; r++)
        memmove((char *)w->to + r * SPACE, (const char *)w->from + r * SPACE, w->bytes);
    wall(false);
}

static sg_status perform(const task *t, sg_error *err)
{
    sg_error here = {0};
    if (t->kind == TASK_WORK)
        do_work(&t->work, &here);
    else if (t->kind == TASK_REPLAY)
        replay_now(t->recording, &here);
    else {
        wall(true);
        memset(t->work.to, t->byte, t->work.bytes);
        wall(false);
    }
    if (err && here.status != SG_OK)
        *err = here;
    return here.status;
}

static sg_status enqueue(task t, sg_error *err)
{
    if (!mirror_count.late)
        return perform(&t, err);
    if (queue_end - queue_at == queue_capacity) {
        int64_t more = queue_capacity ? 2 * queue_capacity : 64;
        task *wider = sg_realloc(queue, (size_t)more * sizeof *wider);
        if (!wider)
            return sg_fail(err, SG_E_MEMORY, "out of memory");
        queue = wider;
        queue_capacity = more;
    }
    queue[queue_end++ - queue_at] = t;
    return SG_OK;
}

/* Do all tasks with numbers below `end`. */
static void drain(int64_t end)
{
    int64_t n = end - queue_at;
    if (n <= 0)
        return;
    for (int64_t i = 0; i < n; i++) {
        sg_error err = {0};
        if (perform(&queue[i], &err) != SG_OK && failure.status == SG_OK)
            failure = err;
    }
    memmove(queue, queue + n, (size_t)(queue_end - end) * sizeof *queue);
    queue_at = end;
}

static sg_status wait_for(int64_t end, sg_error *err)
{
    drain(end);
    sg_status status = failure.status;
    if (err && status != SG_OK)
        *err = failure;
    failure.status = SG_OK;
    return status;
}

/* May this allocation succeed? */
static bool may_allocate(void) { return ++mirror_count.allocations != mirror_count.fail_at; }

/* ---- preparing kernels */

static bool launch(const sg_launch *l, sg_error *err)
{
    kernel *k = l->state;
    for (int32_t i = 0; i < k->n_in; i++)
        if (l->in[i])
            must_be_inside(l->in[i], k->op);
    for (int32_t i = 0; i < k->n_out; i++)
        must_be_inside(l->out[i], k->op);
    if (k->inner.workspace)
        must_be_inside(l->workspace, k->op);
    work w = {.kernel = k, .launch = *l};
    return record_work(w) || enqueue((task){.kind = TASK_WORK, .work = w}, err) == SG_OK;
}

static void release_kernel(void *state)
{
    kernel *k = state;
    drain(queue_end);
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
    out->replicates = kernels++ % 2 == 0;
    out->launch = launch;
    out->state = k;
    out->release = release_kernel;
    return SG_OK;
}

/* ---- memory */

static sg_status open_device(const sg_device_options *options, sg_device **out, sg_error *err)
{
    if (strcmp(options->spec, "cuda") != 0)
        return sg_fail(err, SG_E_DEVICE, "no device %s: this machine has cuda:0", options->spec);
    if (!space) {
        space =
            mmap(NULL, (size_t)SPACE * MOST_REPLICAS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (space == MAP_FAILED)
            return sg_fail(err, SG_E_MEMORY, "out of memory");
    }
    if (options->replicas > MOST_REPLICAS)
        return sg_fail(err, SG_E_DEVICE, "too many replicas");
    spaces = options->replicas > spaces ? options->replicas : spaces;
    sessions++;
    const sg_device_options cpu = {.spec = "cpu", .threads = options->threads, .tf32 = options->tf32};
    return sg_backend_cpu()->open(&cpu, out, err);
}

static void close_device(sg_device *device)
{
    drain(queue_end);
    if (--sessions == 0) {
        taken = 0;
        spaces = 0;
        sg_free(queue);
        queue = NULL;
        queue_capacity = 0;
    }
    sg_backend_cpu()->close(device);
}

static const char *describe(const sg_device *device)
{
    (void)device;
    return "mirror";
}

static size_t room(void)
{
    size_t has = mirror_count.limit ? mirror_count.limit : SPACE;
    return has > taken ? has - taken : 0;
}

static size_t available(sg_device *device)
{
    (void)device;
    return room() * (size_t)spaces;
}

static size_t stride(sg_device *device)
{
    (void)device;
    return SPACE;
}

static void *allocate(sg_device *device, size_t bytes)
{
    bytes = (bytes + SG_ALIGN) / SG_ALIGN * SG_ALIGN;
    (void)device;
    if (bytes > room() || !may_allocate())
        return NULL;
    taken += bytes;
    return space + taken - bytes;
}

/* Memory is taken in order and comes back with the last session. */
static void release(sg_device *device, void *memory)
{
    (void)device;
    drain(queue_end);
    must_be_inside(memory, "release");
}

static void *allocate_host(sg_device *device, size_t bytes)
{
    (void)device;
    return may_allocate() ? malloc(bytes) : NULL;
}

static void release_host(sg_device *device, void *memory)
{
    (void)device;
    drain(queue_end);
    free(memory);
}

/* ---- transfers */

static sg_status transfer(void *to, const void *from, size_t bytes, sg_error *err)
{
    return enqueue((task){.kind = TASK_WORK, .work = {.to = to, .from = from, .bytes = bytes}}, err);
}

static sg_status upload(sg_device *device, void *to, const void *from, size_t bytes, sg_error *err)
{
    (void)device;
    must_be_inside(to, "upload");
    mirror_count.uploads++;
    return transfer(to, from, bytes, err);
}

static sg_status download(sg_device *device, void *to, const void *from, size_t bytes, sg_error *err)
{
    (void)device;
    must_be_inside(from, "download");
    mirror_count.downloads++;
    return transfer(to, from, bytes, err);
}

static sg_status copy(sg_device *device, void *to, const void *from, size_t bytes, int32_t replicas, sg_error *err)
{
    (void)device;
    must_be_inside(to, "copy");
    must_be_inside(from, "copy");
    work w = {.to = to, .from = from, .bytes = bytes, .replicas = replicas};
    return record_work(w) ? SG_OK : enqueue((task){.kind = TASK_WORK, .work = w}, err);
}

static sg_status fill(sg_device *device, void *to, int byte, size_t bytes, sg_error *err)
{
    (void)device;
    must_be_inside(to, "fill");
    return enqueue((task){.kind = TASK_FILL, .work = {.to = to, .bytes = bytes}, .byte = byte}, err);
}

static sg_status wait_uploads(sg_device *device, sg_error *err)
{
    (void)device;
    return wait_for(queue_end, err);
}

/* The number of the task that was to come when it was set; -1: never set. */
static sg_status make_mark(sg_device *device, void **mark, sg_error *err)
{
    (void)device;
    int64_t *number = may_allocate() ? sg_alloc(sizeof *number) : NULL;
    if (!number)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a mark");
    *number = -1;
    *mark = number;
    return SG_OK;
}

static sg_status set_mark(sg_device *device, void *mark, sg_error *err)
{
    (void)device, (void)err;
    *(int64_t *)mark = queue_end;
    return SG_OK;
}

static sg_status wait_mark(sg_device *device, void *mark, sg_error *err)
{
    (void)device;
    mirror_count.mark_waits++;
    return wait_for(*(int64_t *)mark, err);
}

static void free_mark(sg_device *device, void *mark)
{
    (void)device;
    sg_free(mark);
}

static sg_status wait_all(sg_device *device, sg_error *err)
{
    (void)device;
    mirror_count.waits++;
    return wait_for(queue_end, err);
}

static void *stream(sg_device *device)
{
    (void)device;
    return NULL;
}

static void forget(sg_device *device, void *recorded)
{
    (void)device;
    drain(queue_end);
    recording *r = recorded;
    sg_free(r->work);
    sg_free(r->part);
    sg_free(r->waits);
    sg_free(r->done);
    sg_free(r);
}

static sg_status record(sg_device *device, sg_status (*body)(void *user, sg_error *err), void *user, void **out,
                        sg_error *err)
{
    recording *r = may_allocate() ? sg_calloc(1, sizeof *r) : NULL;
    if (!r)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a recording");
    r->work = sg_calloc(MOST_WORKS, sizeof *r->work);
    r->part = sg_calloc(MOST_WORKS, sizeof *r->part);
    r->waits = sg_calloc(MOST_WAITS, sizeof *r->waits);
    r->done = sg_calloc(MOST_WORKS, sizeof *r->done);
    sg_status status = SG_E_MEMORY;
    if (r->work && r->part && r->waits && r->done) {
        under_way = r;
        status = body(user, err);
        under_way = NULL;
    }
    if (status != SG_OK) {
        forget(device, r);
        return status;
    }
    *out = r;
    mirror_count.records++;
    return SG_OK;
}

static bool is_ready(const recording *r, const part *p)
{
    for (int32_t i = 0; i < p->n_on; i++)
        if (!r->done[r->waits[p->on + i]])
            return false;
    return true;
}

static sg_status do_part(const recording *r, const part *p, sg_error *err)
{
    for (int32_t i = p->first; i < p->end; i++) {
        do_work(&r->work[i], err);
        SG_TRY(err->status);
    }
    return SG_OK;
}

/* One of the ready parts, drawn. */
static int32_t next_part(recording *r)
{
    int32_t chosen = -1;
    for (int32_t k = 0, n = 0; k < r->n_parts; k++) {
        if (r->done[k] || !is_ready(r, &r->part[k]))
            continue;
        r->seed = r->seed * 6364136223846793005u + 1442695040888963407u;
        if ((r->seed >> 33) % (uint64_t)++n == 0)
            chosen = k;
    }
    return chosen;
}

static sg_status replay_now(recording *r, sg_error *err)
{
    memset(r->done, 0, (size_t)r->n_parts * sizeof *r->done);
    for (int32_t i = 0; i < r->n_parts; i++) {
        int32_t k = next_part(r);
        if (k < 0) {
            fprintf(stderr, "mirror backend: parts wait for each other\n");
            abort();
        }
        SG_TRY(do_part(r, &r->part[k], err));
        r->done[k] = true;
    }
    return SG_OK;
}

static sg_status replay(sg_device *device, void *recorded, sg_error *err)
{
    (void)device;
    mirror_count.replays++;
    return enqueue((task){.kind = TASK_REPLAY, .recording = recorded}, err);
}

static const sg_apart apart = {
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
    .wait = wait_all,
    .available = available,
    .stride = stride,
    .stream = stream,
    .record = record,
    .part = begin_part,
    .beside = beside,
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
    table.tf32 = true;
    table.open = open_device;
    table.close = close_device;
    table.describe = describe;
    table.prepare = prepare;
    table.run = NULL;
    table.allocate = allocate;
    table.release = release;
    return &table;
}
