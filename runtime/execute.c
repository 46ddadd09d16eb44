/* execute.c - a run: the steps of the top frame in order, loops as loops. Nothing here allocates, except for the second run on a
 * device that records (record.c). */
#include <string.h>

#include "runtime/elements_internal.h"
#include "runtime/plan_internal.h"

static void resolve_frame(sg_plan *plan, sg_frame *frame)
{
    for (int32_t i = 0; i < frame->n_steps; i++) {
        sg_step *step = &frame->step[i];
        for (int32_t k = 0; k < step->node->n_in; k++)
            step->in_at[k] = step->in[k] < 0 ? NULL : plan->buffer[step->in[k]].at;
        for (int32_t k = 0; k < step->node->n_out; k++)
            step->out_at[k] = plan->buffer[step->out[k]].at;
        if (step->body)
            resolve_frame(plan, step->body);
    }
}

void sg_plan_resolve(sg_plan *plan)
{
    sg_session *s = plan->session;
    for (int32_t k = 0; k < plan->n_buffers; k++) {
        sg_buffer *b = &plan->buffer[k];
        if (b->place == SG_PLACE_ENTRY)
            b->at = s->apart ? sg_mirror_at(s, b->entry) : sg_store_peek(s->store, b->entry)->data;
        else
            b->at = (b->place == SG_PLACE_ARENA ? (char *)s->arena : plan->pinned) + b->offset;
    }
    resolve_frame(plan, plan->top);
    plan->arena_version = s->arena_version;
    if (plan->recording)
        s->apart->forget(s->device, plan->recording);
    plan->recording = NULL;
    plan->runs = 0;
}

/* ------------------------------------------------------------------------------------------------------------ steps */

static sg_status run_copies(const sg_plan *plan, const sg_copies *copies, sg_error *err)
{
    for (int32_t k = 0; k < copies->count; k++) {
        const sg_buffer *from = &plan->buffer[copies->item[k].from], *to = &plan->buffer[copies->item[k].to];
        SG_TRY(sg_record_copy(plan, from, to, err));
        SG_TRY(sg_session_copy(plan->session, to->at, from->at, to->bytes, err));
    }
    return SG_OK;
}

/* All bits set is a NaN in every real format: a read of dead memory shows in the results. */
static sg_status poison(const sg_plan *plan, int32_t tick, sg_error *err)
{
    for (int32_t k = plan->dying_at[tick]; k < plan->dying_at[tick + 1]; k++) {
        const sg_buffer *b = &plan->buffer[plan->dying[k]];
        SG_TRY(sg_session_fill(plan->session, b->at, 0xff, b->bytes, err));
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

static sg_status launch(const sg_plan *plan, sg_step *step, sg_run_index run, sg_error *err)
{
    sg_launch args = {.in = step->in_at,
                      .out = step->out_at,
                      .state = step->kernel.state,
                      .run = run,
                      .workspace = step->workspace < 0 ? NULL : plan->buffer[step->workspace].at,
                      .threads = step->spec.threads,
                      .stream = plan->session->apart ? plan->session->apart->stream(plan->session->device) : NULL};
    sg_error why;
    why.status = SG_OK;
    why.text[0] = 0;
    return step->kernel.launch(&args, &why) ? SG_OK : launch_failed(step, &why, err);
}

static sg_status launch_audited(const sg_plan *plan, sg_step *step, sg_run_index run, sg_error *err)
{
    double **before;
    SG_TRY(sg_audit_before(plan, step, &before, err));
    sg_status status = launch(plan, step, run, err);
    if (status == SG_OK)
        status = sg_audit_after(plan, step, before, run, err);
    sg_audit_release(step, before);
    return status;
}

static sg_status run_frame(sg_plan *plan, sg_frame *frame, sg_run_index run, sg_error *err);

static sg_status run_loop(sg_plan *plan, sg_step *step, sg_run_index run, sg_error *err)
{
    SG_TRY(run_copies(plan, &step->start, err));
    for (int64_t i = 0; i < step->count; i++) {
        sg_run_index inside = {run.repeat * (uint64_t)step->count + (uint64_t)i};
        SG_TRY(run_frame(plan, step->body, inside, err));
    }
    return SG_OK;
}

static sg_status run_step(sg_plan *plan, sg_step *step, sg_run_index run, sg_error *err)
{
    if (step->body)
        return run_loop(plan, step, run, err);
    SG_TRY(sg_record_step(plan, step, err));
    return plan->session->options.audit ? launch_audited(plan, step, run, err) : launch(plan, step, run, err);
}

/* A step's time ends when its work is done. */
static sg_status record_time(sg_plan *plan, sg_step *step, int64_t start, sg_error *err)
{
    if (plan->session->apart)
        SG_TRY(plan->session->apart->wait(plan->session->device, err));
    sg_profile_record(plan, step, start);
    return SG_OK;
}

static sg_status run_frame(sg_plan *plan, sg_frame *frame, sg_run_index run, sg_error *err)
{
    const sg_session_options *o = &plan->session->options;
    for (int32_t i = 0; i < frame->n_steps; i++) {
        sg_step *step = &frame->step[i];
        int64_t start = o->profile ? sg_clock() : 0;
        SG_TRY(run_step(plan, step, run, err));
        if (o->profile)
            SG_TRY(record_time(plan, step, start, err));
        if (o->poison)
            SG_TRY(poison(plan, step->end, err));
    }
    SG_TRY(run_copies(plan, &frame->save, err));
    SG_TRY(run_copies(plan, &frame->commit, err));
    return o->poison ? poison(plan, frame->end, err) : SG_OK;
}

/* ------------------------------------------------------------------------------------------------------------- runs */

static sg_status check_entries(const sg_plan *plan, sg_error *err)
{
    for (int32_t k = 0; k < plan->n_entries; k++) {
        const sg_entry *entry = sg_store_peek(plan->session->store, plan->entry[k].entry);
        if (plan->entry[k].value >= 0 && !entry->ready)
            return sg_fail(err, SG_E_ARGUMENT, "entry '%s' has no value yet: initialise or load the store first",
                           entry->name);
    }
    return SG_OK;
}

/* Before a run in the host's memory: entries whose value another session keeps come home. Mirrors exist where an integer
 * entry is held as doubles. */
static sg_status load_entries(const sg_plan *plan, sg_error *err)
{
    sg_store *store = plan->session->store;
    for (int32_t k = 0; k < plan->n_entries; k++) {
        const sg_used_entry *u = &plan->entry[k];
        const sg_entry *entry = sg_store_peek(store, u->entry);
        SG_TRY(sg_store_settle(store, u->entry, NULL, err));
        if (u->mirrored)
            sg_elements_read(SG_I32, entry->data, (double *)plan->buffer[u->buffer].at, sg_shape_count(&entry->shape));
    }
    return SG_OK;
}

static void finish_entries(const sg_plan *plan)
{
    for (int32_t k = 0; k < plan->n_entries; k++) {
        const sg_used_entry *u = &plan->entry[k];
        if (u->after < 0)
            continue;
        sg_entry *entry = sg_store_at(plan->session->store, u->entry);
        if (u->mirrored)
            sg_elements_write(SG_I32, entry->data, (const double *)plan->buffer[u->buffer].at,
                              sg_shape_count(&entry->shape));
        entry->ready = true;
    }
}

typedef struct whole_run {
    sg_plan *plan;
    sg_error *err;
    sg_status status;
} whole_run;

static void run_top(void *user)
{
    whole_run *w = user;
    w->status = run_frame(w->plan, w->plan->top, (sg_run_index){0}, w->err);
}

static sg_status run_here(sg_plan *plan, sg_error *err)
{
    const sg_backend *backend = plan->session->backend;
    whole_run w = {plan, err, SG_OK};
    SG_TRY(load_entries(plan, err));
    if (backend->run)
        backend->run(plan->session->device, run_top, &w);
    else
        run_top(&w);
    SG_TRY(w.status);
    finish_entries(plan);
    return SG_OK;
}

static sg_status enqueue(void *user, sg_error *err)
{
    sg_plan *plan = user;
    return run_frame(plan, plan->top, (sg_run_index){0}, err);
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
    SG_TRY(check_entries(plan, err));
    if (plan->arena_version != plan->session->arena_version)
        sg_plan_resolve(plan);
    return plan->session->apart ? run_apart(plan, err) : run_here(plan, err);
}
