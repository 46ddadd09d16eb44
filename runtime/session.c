/* session.c - a device opened for a store, and the arena that its plans share. */
#include <sched.h>
#include <string.h>

#include "ops/ops.h"
#include "runtime/elements_internal.h"
#include "runtime/plan_internal.h"

enum { REPLICAS_MAX = 1024 };

static sg_status find_backend(const char *spec, const sg_backend **out, sg_error *err)
{
    const sg_backend *known[] = {sg_backend_cpu(), sg_backend_reference()};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i]->name, spec) == 0) {
            *out = known[i];
            return SG_OK;
        }
    if (strncmp(spec, "cuda", 4) != 0 || (spec[4] && spec[4] != ':'))
        return sg_fail(err, SG_E_ARGUMENT, "unknown backend '%.40s' (there are cpu, reference, cuda and cuda:N)", spec);
    *out = sg_module_load("cuda", err);
    return *out ? SG_OK : SG_E_DEVICE;
}

int32_t sg_machine_threads(void)
{
    cpu_set_t set;
    int32_t n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n > 16 ? 16 : n;
}

static sg_session_options read_options(const sg_session_options *given)
{
    sg_session_options o = {0};
    if (given) {
        size_t known = sizeof o < given->size ? sizeof o : given->size;
        memcpy(&o, given, known);
    }
    o.size = sizeof o;
    if (!o.backend)
        o.backend = "cpu";
    if (!o.precision)
        o.precision = "f32";
    if (o.replicas == 0)
        o.replicas = 1;
    if (o.audit_tolerance == 0)
        o.audit_tolerance = 1e-4;
#ifdef SG_POISON
    o.poison = true;
#endif
    return o;
}

/* Is `name` one of the comma-separated names of the list? */
static bool lists(const char *list, const char *name)
{
    for (size_t n; *list; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        if (strlen(name) == n && strncmp(list, name, n) == 0)
            return true;
    }
    return false;
}

bool sg_session_decomposes(const sg_session *session, const sg_op *op)
{
    const char *list = session->options.decompose;
    if (!list || !op->decompose)
        return false;
    while (op->parent)
        op = op->parent;
    return strcmp(list, "all") == 0 || lists(list, op->name);
}

/* Every name of the list must be that of a composite: a wrong one would change nothing, silently. */
static sg_status check_decompose(const char *list, sg_error *err)
{
    char name[64];
    if (strcmp(list, "all") == 0)
        return SG_OK;
    for (size_t n; *list; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), list);
        const sg_op *op = sg_op_find(name);
        if (!op || !op->decompose)
            return sg_fail(err, SG_E_ARGUMENT, "session option decompose: '%s' is no composite operator", name);
    }
    return SG_OK;
}

static sg_status check_session(const sg_session *s, const sg_store *first, sg_error *err)
{
    sg_dtype wanted = s->backend->real;
    if (s->options.replicas < 1 || s->options.replicas > REPLICAS_MAX || (s->options.replicas > 1 && !s->options.more))
        return sg_fail(err, SG_E_ARGUMENT, "a session with %d replicas", (int)s->options.replicas);
    if (s->options.threads < 0 || s->options.threads > 1024)
        return sg_fail(err, SG_E_ARGUMENT, "a session with %d threads", (int)s->options.threads);
    for (int32_t r = 0; r < s->options.replicas; r++) {
        const sg_store *store = r == 0 ? first : s->options.more[r - 1];
        if (!store)
            return sg_fail(err, SG_E_ARGUMENT, "a session needs a store");
        if (sg_store_real(store) != wanted)
            return sg_fail(err, SG_E_ARGUMENT, "the %s backend needs a store of %s, this one holds %s",
                           s->backend->name, sg_dtype_name(wanted), sg_dtype_name(sg_store_real(store)));
        for (int32_t k = 0; k < r; k++)
            if (store == (k == 0 ? first : s->options.more[k - 1]))
                return sg_fail(err, SG_E_ARGUMENT, "replicas %d and %d are one store", (int)k, (int)r);
    }
    if (s->options.decompose)
        SG_TRY(check_decompose(s->options.decompose, err));
    return SG_OK;
}

/* The reference computes every dtype in double, so that there is nothing to change. */
static sg_status choose_precision(sg_session *s, sg_error *err)
{
    const char *name = s->options.precision;
    s->low = SG_F32;
    if (strcmp(name, "f32") == 0)
        return SG_OK;
    if (strcmp(name, "tf32") == 0)
        return s->backend->tf32 ? SG_OK
                                : sg_fail(err, SG_E_DEVICE, "no TF32 on %s (%s): precision tf32 needs device cuda",
                                          s->backend->name, s->description);
    if (strcmp(name, "bf16") != 0)
        return sg_fail(err, SG_E_ARGUMENT, "unknown precision '%.40s' (there are f32, tf32 and bf16)", name);
    if (s->backend->real == SG_F64)
        return SG_OK;
    if (!s->backend->computes || !s->backend->computes(s->device, SG_BF16))
        return sg_fail(err, SG_E_DEVICE, "no bf16 on %s (%s): precision bf16 needs device cuda with sm_80 or newer",
                       s->backend->name, s->description);
    s->low = SG_BF16;
    return SG_OK;
}

static sg_status open_device(sg_session *s, sg_error *err)
{
    s->threads = s->options.threads ? s->options.threads : sg_machine_threads();
    const sg_device_options options = {.spec = s->options.backend,
                                       .threads = s->threads,
                                       .tf32 = strcmp(s->options.precision, "tf32") == 0,
                                       .replicas = s->options.replicas};
    SG_TRY(s->backend->open(&options, &s->device, err));
    snprintf(s->description, sizeof s->description, "%s", s->backend->describe(s->device));
    return choose_precision(s, err);
}

sg_status sg_session_new(sg_session **out, sg_store *store, const sg_session_options *options, sg_error *err)
{
    *out = NULL;
    const sg_backend *backend = NULL;
    SG_TRY(find_backend(read_options(options).backend, &backend, err));
    return sg_session_open(out, backend, store, options, err);
}

sg_status sg_session_open(sg_session **out, const sg_backend *backend, sg_store *store,
                          const sg_session_options *options, sg_error *err)
{
    *out = NULL;
    sg_session *s = sg_calloc(1, sizeof *s);
    if (!s)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a session");
    s->backend = backend;
    s->apart = backend->apart;
    s->options = read_options(options);
    if (!options || !options->backend)
        s->options.backend = backend->name;
    sg_status status = check_session(s, store, err);
    if (status == SG_OK)
        status = sg_replicas_open(s, store, err);
    if (status == SG_OK)
        status = open_device(s, err);
    s->options.backend = backend->name; /* the caller's texts need not live on */
    s->options.precision = sg_dtype_name(s->low);
    s->options.more = NULL;
    const char *decompose = s->options.decompose;
    s->options.decompose = decompose && status == SG_OK ? sg_strdup(decompose) : NULL;
    if (status == SG_OK && decompose && !s->options.decompose)
        status = sg_fail(err, SG_E_MEMORY, "out of memory for a session");
    if (status != SG_OK) {
        if (s->device)
            backend->close(s->device);
        sg_free(s->replica);
        sg_free(s);
        return status;
    }
    *out = s;
    return SG_OK;
}

void sg_session_free(sg_session *session)
{
    if (!session)
        return;
    sg_replicas_close(session);
    if (session->arena.at)
        session->backend->release(session->device, session->arena.at);
    session->backend->close(session->device);
    sg_free((char *)(uintptr_t)session->options.decompose);
    sg_free(session);
}

bool sg_session_allocate(sg_session *session, size_t bytes, sg_slabs *out)
{
    int64_t all;
    out->at = NULL;
    if (session->apart) {
        out->stride = session->apart->stride(session->device);
        out->at = session->backend->allocate(session->device, bytes);
    } else {
        out->stride = (bytes + SG_ALIGN - 1) / SG_ALIGN * SG_ALIGN;
        if (sg_mul_ok((int64_t)out->stride, session->n_replicas, &all))
            out->at = session->backend->allocate(session->device, (size_t)all);
    }
    return out->at != NULL;
}

/* In the host's memory replicas run one after the other: temporaries are the present one's. */
static bool allocate_arena(sg_session *session, size_t bytes, sg_slabs *out)
{
    if (session->apart)
        return sg_session_allocate(session, bytes, out);
    *out = (sg_slabs){.at = session->backend->allocate(session->device, bytes)};
    return out->at != NULL;
}

sg_status sg_session_reserve(sg_session *session, size_t bytes, sg_error *err)
{
    if (bytes <= session->arena_bytes)
        return SG_OK;
    sg_slabs wider;
    if (!allocate_arena(session, bytes, &wider))
        return sg_fail(err, SG_E_MEMORY, "out of memory: the plan needs %.1f MiB for temporaries",
                       (double)bytes / (1 << 20));
    if (session->arena.at)
        session->backend->release(session->device, session->arena.at);
    session->arena = wider;
    session->arena_bytes = bytes;
    session->arena_version++;
    for (int32_t r = 0; r < (wider.stride ? session->n_replicas : 1); r++)
        SG_TRY(sg_session_fill(session, wider.at + (size_t)r * wider.stride, session->options.poison ? 0xff : 0, bytes,
                               err));
    return SG_OK;
}

sg_dtype sg_session_storage(const sg_session *session, sg_dtype dtype)
{
    return sg_storage(session->backend->real, dtype);
}

sg_store *sg_session_store(sg_session *session) { return session->replica[0].store; }

int32_t sg_session_threads(const sg_session *session) { return session->threads; }

const char *sg_session_describe(const sg_session *session) { return session->description; }

bool sg_session_runs_ahead(const sg_session *session) { return session->apart != NULL; }
