/* apart.c - plans on devices whose memory is not the host's: what is moved, and when.
 *
 * Inputs and results have copies in staging memory of the host, which is what users read and write (staging.c). An input travels
 * before a run if it was asked for since the last one, a result after a run if it is asked for. Store entries have mirrors on
 * the device (graph/mirror_internal.h), which stay there from run to run. So in steady state a run costs the transfers of new
 * inputs and of the results that somebody reads. */
#include <string.h>

#include "graph/mirror_internal.h"
#include "runtime/elements_internal.h"
#include "runtime/plan_internal.h"

struct sg_mirror {
    sg_slabs memory; /* none: no plan of the session uses the entry */
    size_t bytes;
};

/* Memory of the mirrors that a plan was the first to need. */
struct sg_mirror_block {
    sg_mirror_block *next;
    sg_slabs memory;
};

static double mebibytes(size_t bytes) { return (double)bytes / (1 << 20); }

/* ---- mirrors */

static char *mirror_of(const sg_replica *replica, int32_t entry)
{
    const sg_session *s = replica->session;
    const sg_slabs *memory = &s->mirror[entry].memory;
    return memory->at + (size_t)(replica - s->replica) * memory->stride;
}

static sg_status fetch_entry(sg_mirror_owner *owner, int32_t entry, sg_error *err)
{
    sg_replica *r = (sg_replica *)owner;
    sg_session *s = r->session;
    void *to = sg_store_peek(r->store, entry)->data;
    SG_TRY(s->apart->download(s->device, to, mirror_of(r, entry), s->mirror[entry].bytes, err));
    return s->apart->wait(s->device, err);
}

static sg_status send_entry(sg_mirror_owner *owner, int32_t entry, void *to, sg_error *err)
{
    sg_replica *r = (sg_replica *)owner;
    sg_session *s = r->session;
    return s->apart->download(s->device, to, mirror_of(r, entry), s->mirror[entry].bytes, err);
}

sg_status sg_replicas_open(sg_session *session, sg_store *first, sg_error *err)
{
    int32_t n = session->n_replicas = session->options.replicas;
    session->replica = sg_calloc(n, sizeof *session->replica);
    if (!session->replica)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a session");
    for (int32_t r = 0; r < n; r++)
        session->replica[r] = (sg_replica){.owner = {.fetch = fetch_entry, .send = send_entry},
                                           .session = session,
                                           .store = r == 0 ? first : session->options.more[r - 1]};
    return SG_OK;
}

void sg_replicas_close(sg_session *session)
{
    for (int32_t r = 0; r < session->n_replicas; r++) {
        sg_store_leave(session->replica[r].store, &session->replica[r].owner);
        sg_free(session->replica[r].held);
    }
    sg_free(session->replica);
    for (sg_mirror_block *next, *b = session->mirror_memory; b; b = next) {
        next = b->next;
        session->backend->release(session->device, b->memory.at);
        sg_free(b);
    }
    sg_free(session->mirror);
    for (int32_t k = 0; session->letter_free && k < SG_LETTERS * session->n_replicas; k++)
        if (session->letter_free[k])
            session->apart->free_mark(session->device, session->letter_free[k]);
    sg_free(session->letter_free);
    if (session->letters)
        session->apart->release_host(session->device, session->letters);
}

/* Entries may have been added since the last plan. */
static sg_status reach_entries(sg_session *s, sg_error *err)
{
    int32_t n = sg_store_count(s->replica[0].store), had = s->n_mirrors;
    if (n <= had)
        return SG_OK;
    for (int32_t r = 0; r < s->n_replicas; r++) {
        uint64_t *held = sg_realloc(s->replica[r].held, (size_t)n * sizeof *held);
        if (!held)
            return sg_fail(err, SG_E_MEMORY, "out of memory while compiling");
        memset(held + had, 0, (size_t)(n - had) * sizeof *held);
        s->replica[r].held = held;
    }
    sg_mirror *wider = sg_realloc(s->mirror, (size_t)n * sizeof *wider);
    if (!wider)
        return sg_fail(err, SG_E_MEMORY, "out of memory while compiling");
    memset(wider + had, 0, (size_t)(n - had) * sizeof *wider);
    s->mirror = wider;
    s->n_mirrors = n;
    return SG_OK;
}

static size_t room_of(const sg_plan *plan, int32_t k)
{
    return (plan->buffer[plan->entry[k].buffer].bytes + SG_ALIGN) / SG_ALIGN * SG_ALIGN;
}

static size_t missing_mirrors(const sg_plan *plan)
{
    size_t bytes = 0;
    for (int32_t k = 0; k < plan->n_entries; k++)
        if (!plan->session->mirror[plan->entry[k].entry].memory.at)
            bytes += room_of(plan, k);
    return bytes;
}

static sg_status no_room(const sg_plan *plan, size_t arena, size_t entries, sg_error *err)
{
    const sg_session *s = plan->session;
    char replicas[40] = "";
    if (s->n_replicas > 1)
        snprintf(replicas, sizeof replicas, " for each of %d replicas", (int)s->n_replicas);
    return sg_fail(
        err, SG_E_MEMORY,
        "out of memory on %s: the plan needs %.1f MiB%s (temporaries %.1f, inputs, results and constants %.1f, "
        "parameters and state %.1f), %.1f MiB are free",
        s->backend->name, mebibytes(arena + plan->pinned_bytes + entries), replicas, mebibytes(arena),
        mebibytes(plan->pinned_bytes), mebibytes(entries), mebibytes(s->apart->available(s->device)));
}

static bool allocate_mirrors(const sg_plan *plan, size_t bytes)
{
    sg_session *s = plan->session;
    if (bytes == 0)
        return true;
    sg_mirror_block *block = sg_alloc(sizeof *block);
    if (!block || !sg_session_allocate(s, bytes, &block->memory)) {
        sg_free(block);
        return false;
    }
    block->next = s->mirror_memory;
    s->mirror_memory = block;
    size_t at = 0;
    for (int32_t k = 0; k < plan->n_entries; k++) {
        sg_mirror *m = &s->mirror[plan->entry[k].entry];
        if (m->memory.at)
            continue;
        m->bytes = plan->buffer[plan->entry[k].buffer].bytes;
        m->memory = (sg_slabs){block->memory.at + at, block->memory.stride};
        at += room_of(plan, k);
    }
    return true;
}

sg_status sg_apart_allocate(sg_plan *plan, sg_error *err)
{
    sg_session *s = plan->session;
    SG_TRY(reach_entries(s, err));
    size_t entries = missing_mirrors(plan), scratch = plan->scratch_bytes + SG_ALIGN;
    size_t arena = scratch > s->arena_bytes ? scratch : 0;
    if (arena + plan->pinned_bytes + entries > s->apart->available(s->device) / (size_t)s->n_replicas ||
        !allocate_mirrors(plan, entries) || !sg_session_allocate(s, plan->pinned_bytes + SG_ALIGN, &plan->pinned))
        return no_room(plan, arena, entries, err);
    for (int32_t r = 0; r < s->n_replicas; r++)
        SG_TRY(s->apart->fill(s->device, plan->pinned.at + (size_t)r * plan->pinned.stride, 0,
                              plan->pinned_bytes + SG_ALIGN, err));
    return sg_session_reserve(s, scratch, err);
}

sg_slabs sg_mirror_at(const sg_session *session, int32_t entry) { return session->mirror[entry].memory; }

/* ---- around a run */

static int32_t letters_of(const sg_session *s) { return SG_LETTERS * s->n_replicas; }

/* A copy of a small entry that the device can fetch when it likes. The letters are used in turn. */
static sg_status write_letter(sg_session *s, const void *data, size_t bytes, const void **out, sg_error *err)
{
    int32_t n = letters_of(s);
    if (!s->letters && !(s->letters = s->apart->allocate_host(s->device, (size_t)n * SG_LETTER_BYTES)))
        return sg_fail(err, SG_E_MEMORY, "out of memory: no page-locked memory");
    if (!s->letter_free && !(s->letter_free = sg_calloc(n, sizeof *s->letter_free)))
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    int32_t k = s->next_letter;
    if (!s->letter_free[k])
        SG_TRY(s->apart->make_mark(s->device, &s->letter_free[k], err));
    else
        SG_TRY(s->apart->wait_mark(s->device, s->letter_free[k], err));
    char *letter = s->letters + k * SG_LETTER_BYTES;
    memcpy(letter, data, bytes);
    *out = letter;
    return SG_OK;
}

/* The caller may change a store entry as soon as the run has returned: a large one is waited for (`loaded`), a small one, such
 * as a learning rate that moves with every step, is copied. */
static sg_status load_mirror(sg_replica *r, int32_t entry, bool *loaded, sg_error *err)
{
    sg_session *s = r->session;
    const sg_mirror *m = &s->mirror[entry];
    SG_TRY(sg_store_settle(r->store, entry, &r->owner, err));
    uint64_t version = sg_store_version(r->store, entry);
    if (r->held[entry] == version)
        return SG_OK;
    const void *data = sg_store_peek(r->store, entry)->data;
    bool small = m->bytes <= SG_LETTER_BYTES;
    if (small)
        SG_TRY(write_letter(s, data, m->bytes, &data, err));
    SG_TRY(s->apart->upload(s->device, mirror_of(r, entry), data, m->bytes, err));
    if (small) {
        SG_TRY(s->apart->set_mark(s->device, s->letter_free[s->next_letter], err));
        s->next_letter = (s->next_letter + 1) % letters_of(s);
    }
    *loaded |= !small;
    r->held[entry] = version;
    return SG_OK;
}

sg_status sg_apart_before(sg_plan *plan, sg_error *err)
{
    sg_session *s = plan->session;
    bool loaded = false;
    for (int32_t r = 0; r < s->n_replicas; r++)
        for (int32_t k = 0; k < plan->n_entries; k++)
            if (plan->entry[k].value >= 0)
                SG_TRY(load_mirror(&s->replica[r], plan->entry[k].entry, &loaded, err));
    if (loaded)
        SG_TRY(s->apart->wait_uploads(s->device, err));
    SG_TRY(sg_staging_send(plan, err));
    for (int32_t k = 0; k < plan->n_results; k++)
        plan->result[k].current = false;
    return SG_OK;
}

void sg_apart_after(sg_plan *plan)
{
    sg_session *s = plan->session;
    for (int32_t r = 0; r < s->n_replicas; r++)
        for (int32_t k = 0; k < plan->n_entries; k++)
            if (plan->entry[k].after >= 0) {
                int32_t entry = plan->entry[k].entry;
                sg_replica *replica = &s->replica[r];
                replica->held[entry] = sg_store_claim(replica->store, entry, &replica->owner);
            }
}

/* ---- plain memory, or the device's */

sg_status sg_session_upload(sg_session *s, void *to, const void *from, size_t bytes, sg_error *err)
{
    if (!s->apart) {
        if (bytes)
            memcpy(to, from, bytes);
        return SG_OK;
    }
    SG_TRY(s->apart->upload(s->device, to, from, bytes, err));
    return s->apart->wait_uploads(s->device, err);
}

sg_status sg_session_fill(sg_session *s, void *to, int byte, size_t bytes, sg_error *err)
{
    if (s->apart)
        return s->apart->fill(s->device, to, byte, bytes, err);
    memset(to, byte, bytes);
    return SG_OK;
}

/* ---- copies of stores */

static sg_status make_shadow(sg_shadow *shadow, sg_session *s, const sg_store *store, sg_error *err)
{
    shadow->store = sg_store_copy(store, sg_store_real(store));
    if (!shadow->store)
        return sg_fail(err, SG_E_MEMORY, "out of memory copying a store");
    if (!s->apart)
        return SG_OK;
    shadow->memory = s->apart->allocate_host(s->device, sg_store_room(shadow->store));
    if (!shadow->memory)
        return sg_fail(err, SG_E_MEMORY, "out of memory copying a store: no page-locked memory");
    sg_store_house(shadow->store, shadow->memory);
    return SG_OK;
}

sg_status sg_shadow_refresh(sg_shadow *shadow, sg_session *s, int32_t replica, sg_error *err)
{
    const sg_store *store = s->replica[replica].store;
    return shadow->store ? sg_store_refresh(shadow->store, store, err) : make_shadow(shadow, s, store, err);
}

void sg_shadow_release(sg_shadow *shadow, sg_session *s)
{
    sg_store_free(shadow->store);
    if (shadow->memory)
        s->apart->release_host(s->device, shadow->memory);
    *shadow = (sg_shadow){0};
}

/* ---- failures that show later */

void sg_session_note(sg_session *session, sg_status status, const sg_error *err)
{
    if (status != SG_OK && session->failure.status == SG_OK)
        session->failure = *err;
}

sg_status sg_session_take_failure(sg_session *session, sg_error *err)
{
    sg_status status = session->failure.status;
    if (status != SG_OK && err)
        *err = session->failure;
    session->failure.status = SG_OK;
    return status;
}

sg_status sg_session_wait(sg_session *session, sg_error *err)
{
    SG_TRY(sg_session_take_failure(session, err));
    return session->apart ? session->apart->wait(session->device, err) : SG_OK;
}
