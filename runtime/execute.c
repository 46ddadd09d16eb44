/* execute.c - a run: the steps of the top frame in order, loops as loops. Nothing here allocates, except for the second run on a
 * device that records (record.c). */
#include <string.h>

#include "runtime/elements_internal.h"
#include "runtime/hazards_internal.h"
#include "runtime/plan_internal.h"

char *sg_buffer_at(const sg_plan *plan, const sg_buffer *b, int32_t replica)
{
    const sg_session *s = plan->session;
    if (b->place == SG_PLACE_ENTRY && !s->apart)
        return sg_store_peek(s->replica[replica].store, b->entry)->data;
    return b->at + (size_t)replica * b->stride;
}

static void resolve_frame(sg_plan *plan, sg_frame *frame)
{
    for (int32_t i = 0; i < frame->n_steps; i++) {
        sg_step *step = &frame->step[i];
        int32_t n_in = step->node->n_in, n_out = step->node->n_out;
        for (int32_t r = 0; r < plan->session->n_replicas; r++) {
            for (int32_t k = 0; k < n_in; k++)
                step->in_at[r * n_in + k] = step->in[k] < 0 ? NULL : sg_buffer_at(plan, &plan->buffer[step->in[k]], r);
            for (int32_t k = 0; k < n_out; k++)
                step->out_at[r * n_out + k] = sg_buffer_at(plan, &plan->buffer[step->out[k]], r);
        }
        if (step->body)
            resolve_frame(plan, step->body);
    }
}

static sg_slabs slabs_of(const sg_plan *plan, const sg_buffer *b)
{
    const sg_session *s = plan->session;
    if (b->place == SG_PLACE_ENTRY && s->apart)
        return sg_mirror_at(s, b->entry);
    if (b->place == SG_PLACE_ENTRY)
        return (sg_slabs){.at = sg_store_peek(s->replica[0].store, b->entry)->data};
    const sg_slabs *all = b->place == SG_PLACE_ARENA ? &s->arena : &plan->pinned;
    return (sg_slabs){all->at + b->offset, all->stride};
}

void sg_plan_resolve(sg_plan *plan)
{
    sg_session *s = plan->session;
    for (int32_t k = 0; k < plan->n_buffers; k++) {
        sg_slabs slabs = slabs_of(plan, &plan->buffer[k]);
        plan->buffer[k].at = slabs.at;
        plan->buffer[k].stride = slabs.stride;
    }
    resolve_frame(plan, plan->top);
    plan->arena_version = s->arena_version;
    if (plan->recording)
        s->apart->forget(s->device, plan->recording);
    plan->recording = NULL;
    plan->runs = 0;
}

/* ------------------------------------------------------------------------------------------------------------ steps */

/* What steps of a pass are for: the iteration, and the replicas. Devices with memory of their own do several step by step.
 * In the host's memory one is done after the other, so that what it works on stays in the caches. */
typedef struct pass {
    sg_run_index run;
    int32_t first, end;
} pass;

static sg_status copy_buffer(const sg_plan *plan, const sg_buffer *from, const sg_buffer *to, pass p, sg_error *err)
{
    const sg_session *s = plan->session;
    if (s->apart)
        return s->apart->copy(s->device, sg_buffer_at(plan, to, p.first), sg_buffer_at(plan, from, p.first), to->bytes,
                              p.end - p.first, err);
    for (int32_t r = p.first; r < p.end; r++)
        memcpy(sg_buffer_at(plan, to, r), sg_buffer_at(plan, from, r), to->bytes);
    return SG_OK;
}

static sg_status run_copies(const sg_plan *plan, const sg_copies *copies, pass p, sg_error *err)
{
    for (int32_t k = 0; k < copies->count; k++) {
        const sg_buffer *from = &plan->buffer[copies->item[k].from], *to = &plan->buffer[copies->item[k].to];
        SG_TRY(sg_record_copy(plan, from, to, err));
        SG_TRY(copy_buffer(plan, from, to, p, err));
    }
    return SG_OK;
}

/* All bits set is a NaN in every real format: a read of dead memory shows in the results. */
static sg_status poison(const sg_plan *plan, int32_t tick, pass p, sg_error *err)
{
    for (int32_t k = plan->dying_at[tick]; k < plan->dying_at[tick + 1]; k++) {
        const sg_buffer *b = &plan->buffer[plan->dying[k]];
        for (int32_t r = p.first; r < p.end; r++)
            SG_TRY(sg_session_fill(plan->session, sg_buffer_at(plan, b, r), 0xff, b->bytes, err));
    }
    return SG_OK;
}

static sg_status launch_failed(const sg_step *step, const sg_error *why, sg_error *err)
{
    const sg_node *node = step->node;
    sg_status status = why->status == SG_OK ? SG_E_DEVICE : why->status;
    sg_fail_at(err, status, node->file, node->line, 0, "'%s' (%s): %s", node->name, node->op->name, why->text);
    if (err) {
        snprintf(err->op, sizeof err->op, "%s", node->op->name);
        snprintf(err->node, sizeof err->node, "%s", node->name);
    }
    return status;
}

/* For `replicas` of them, from r on, in one launch. */
static sg_status launch(const sg_plan *plan, sg_step *step, sg_run_index run, int32_t r, int32_t replicas,
                        sg_error *err)
{
    const sg_session *s = plan->session;
    sg_launch args = {
        .in = step->in_at + r * step->node->n_in,
        .out = step->out_at + r * step->node->n_out,
        .state = step->kernel.state,
        .run = run,
        .workspace = step->workspace < 0 ? NULL : sg_buffer_at(plan, &plan->buffer[step->workspace], r),
        .threads = step->spec.threads,
        .stream = s->apart ? s->apart->stream(s->device) : NULL,
        .replicas = replicas,
        .stride = s->arena.stride,
    };
    sg_error why;
    why.status = SG_OK;
    why.text[0] = 0;
    return step->kernel.launch(&args, &why) ? SG_OK : launch_failed(step, &why, err);
}

static sg_status launch_audited(const sg_plan *plan, sg_step *step, sg_run_index run, int32_t r, sg_error *err)
{
    double **before;
    SG_TRY(sg_audit_before(plan, step, r, &before, err));
    sg_status status = launch(plan, step, run, r, 1, err);
    if (status == SG_OK)
        status = sg_audit_after(plan, step, r, before, run, err);
    sg_audit_release(step, before);
    return status;
}

static sg_status launch_all(const sg_plan *plan, sg_step *step, pass p, sg_error *err)
{
    bool audit = plan->session->options.audit;
    if (step->kernel.replicates && !audit)
        return launch(plan, step, p.run, p.first, p.end - p.first, err);
    for (int32_t r = p.first; r < p.end; r++) {
        if (r > p.first && plan->hazards)
            SG_TRY(plan->session->apart->beside(plan->session->device, err));
        SG_TRY(audit ? launch_audited(plan, step, p.run, r, err) : launch(plan, step, p.run, r, 1, err));
    }
    return SG_OK;
}

static sg_status run_frame(sg_plan *plan, sg_frame *frame, pass p, sg_error *err);

static sg_status run_loop(sg_plan *plan, sg_step *step, pass p, sg_error *err)
{
    SG_TRY(run_copies(plan, &step->start, p, err));
    for (int64_t i = 0; i < step->count; i++) {
        const pass inside = {{p.run.repeat * (uint64_t)step->count + (uint64_t)i}, p.first, p.end};
        SG_TRY(run_frame(plan, step->body, inside, err));
    }
    return SG_OK;
}

static sg_status run_step(sg_plan *plan, sg_step *step, pass p, sg_error *err)
{
    if (step->body)
        return run_loop(plan, step, p, err);
    SG_TRY(sg_record_step(plan, step, err));
    return launch_all(plan, step, p, err);
}

/* A step's time ends when its work is done. */
static sg_status record_time(sg_plan *plan, sg_step *step, int64_t start, sg_error *err)
{
    if (plan->session->apart)
        SG_TRY(plan->session->apart->wait(plan->session->device, err));
    sg_profile_record(plan, step, start);
    return SG_OK;
}

static sg_status run_frame(sg_plan *plan, sg_frame *frame, pass p, sg_error *err)
{
    const sg_session_options *o = &plan->session->options;
    for (int32_t i = 0; i < frame->n_steps; i++) {
        sg_step *step = &frame->step[i];
        int64_t start = o->profile ? sg_clock() : 0;
        SG_TRY(run_step(plan, step, p, err));
        if (o->profile)
            SG_TRY(record_time(plan, step, start, err));
        if (o->poison)
            SG_TRY(poison(plan, step->end, p, err));
    }
    SG_TRY(run_copies(plan, &frame->save, p, err));
    SG_TRY(run_copies(plan, &frame->commit, p, err));
    return o->poison ? poison(plan, frame->end, p, err) : SG_OK;
}

/* ------------------------------------------------------------------------------------------------------------- runs */

static sg_status check_entries(const sg_plan *plan, int32_t r, sg_error *err)
{
    for (int32_t k = 0; k < plan->n_entries; k++) {
        const sg_entry *entry = sg_store_peek(plan->session->replica[r].store, plan->entry[k].entry);
        if (plan->entry[k].value >= 0 && !entry->ready)
            return sg_fail(err, SG_E_ARGUMENT, "entry '%s' has no value yet: initialise or load the store first",
                           entry->name);
    }
    return SG_OK;
}

/* Before a run in the host's memory: entries whose value another session keeps come home. Mirrors exist where an integer
 * entry is held as doubles. */
static sg_status load_entries(const sg_plan *plan, int32_t r, sg_error *err)
{
    sg_store *store = plan->session->replica[r].store;
    for (int32_t k = 0; k < plan->n_entries; k++) {
        const sg_used_entry *u = &plan->entry[k];
        const sg_entry *entry = sg_store_peek(store, u->entry);
        SG_TRY(sg_store_settle(store, u->entry, NULL, err));
        if (u->mirrored)
            sg_elements_read(SG_I32, entry->data, (double *)sg_buffer_at(plan, &plan->buffer[u->buffer], r),
                             sg_shape_count(&entry->shape));
    }
    return SG_OK;
}

static void finish_entries(const sg_plan *plan, int32_t r)
{
    for (int32_t k = 0; k < plan->n_entries; k++) {
        const sg_used_entry *u = &plan->entry[k];
        if (u->after < 0)
            continue;
        sg_entry *entry = sg_store_at(plan->session->replica[r].store, u->entry);
        if (u->mirrored)
            sg_elements_write(SG_I32, entry->data, (const double *)sg_buffer_at(plan, &plan->buffer[u->buffer], r),
                              sg_shape_count(&entry->shape));
        entry->ready = true;
    }
}

/* Callers write inputs for replica 0. */
static void share_inputs(const sg_plan *plan, int32_t r)
{
    for (int32_t k = 0; r > 0 && k < plan->n_inputs; k++) {
        const sg_buffer *b = &plan->buffer[plan->input[k].buffer];
        memcpy(sg_buffer_at(plan, b, r), b->at, b->bytes);
    }
}

typedef struct whole_run {
    sg_plan *plan;
    sg_error *err;
    sg_status status;
} whole_run;

static sg_status run_replica(sg_plan *plan, int32_t r, sg_error *err)
{
    SG_TRY(load_entries(plan, r, err));
    share_inputs(plan, r);
    SG_TRY(run_frame(plan, plan->top, (pass){.first = r, .end = r + 1}, err));
    finish_entries(plan, r);
    return SG_OK;
}

static void run_replicas(void *user)
{
    whole_run *w = user;
    for (int32_t r = 0; w->status == SG_OK && r < w->plan->session->n_replicas; r++)
        w->status = run_replica(w->plan, r, w->err);
}

static sg_status run_here(sg_plan *plan, sg_error *err)
{
    const sg_backend *backend = plan->session->backend;
    whole_run w = {plan, err, SG_OK};
    if (backend->run)
        backend->run(plan->session->device, run_replicas, &w);
    else
        run_replicas(&w);
    return w.status;
}

/* Of a recording, many replicas are two groups, which do not wait for each other: while the launches of one move memory, those of the
 * other compute. Ten seeds of SEAL-dynamic NCE take 131 us an update on an H200 instead of 135, and 151 as three groups. */
enum { MANY_REPLICAS = 8 };

static sg_status enqueue(void *user, sg_error *err)
{
    sg_plan *plan = user;
    int32_t n = plan->session->n_replicas, half = plan->hazards && n >= MANY_REPLICAS ? n / 2 : n;
    SG_TRY(run_frame(plan, plan->top, (pass){.end = half}, err));
    if (half == n)
        return SG_OK;
    sg_hazards_elsewhere(plan->hazards);
    return run_frame(plan, plan->top, (pass){.first = half, .end = n}, err);
}

/* The first run goes launch by launch, so that whatever loads its code on first use has done so; the second is recorded, and
 * from then on a run is one call. */
static sg_status run_recorded(sg_plan *plan, sg_error *err)
{
    const sg_session_options *o = &plan->session->options;
    const sg_apart *apart = plan->session->apart;
    if (!apart->record || o->profile || o->audit || o->poison || plan->runs++ == 0)
        return enqueue(plan, err);
    if (!plan->recording)
        SG_TRY(sg_record(plan, enqueue, err));
    return apart->replay(plan->session->device, plan->recording, err);
}

static sg_status run_apart(sg_plan *plan, sg_error *err)
{
    SG_TRY(sg_session_take_failure(plan->session, err));
    SG_TRY(sg_apart_before(plan, err));
    SG_TRY(run_recorded(plan, err));
    sg_apart_after(plan);
    return SG_OK;
}

sg_status sg_plan_run(sg_plan *plan, sg_error *err)
{
    for (int32_t r = 0; r < plan->session->n_replicas; r++)
        SG_TRY(check_entries(plan, r, err));
    if (plan->arena_version != plan->session->arena_version)
        sg_plan_resolve(plan);
    return plan->session->apart ? run_apart(plan, err) : run_here(plan, err);
}
