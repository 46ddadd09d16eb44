/* staging.c - inputs and results of plans on devices whose memory is not the host's: the copies of them that users write and
 * read, and how those travel without anybody waiting.
 *
 * Inputs have two copies, which runs use in turn: while the transfer of one waits on the device for an earlier run to end, the
 * next input is written to the other. A transfer's source is free again when the mark behind it is passed. */
#include <string.h>

#include "runtime/plan_internal.h"

/* The results of one run, of each replica in turn, sent home behind it. On devices that compute in the host's memory they are copied. */
struct sg_post {
    char *memory;
    void *mark;
    bool under_way; /* the mark is set and not yet waited for */
};

static double mebibytes(size_t bytes) { return (double)bytes / (1 << 20); }

/* The port's room in a copy; sizes as on the device, so that neighbours there are neighbours here. */
static size_t room_of(const sg_plan *plan, const sg_port *port)
{
    size_t bytes = plan->buffer[port->buffer].bytes;
    return ((bytes ? bytes : 1) + SG_ALIGN - 1) / SG_ALIGN * SG_ALIGN;
}

static size_t place(const sg_plan *plan, sg_port *port, int32_t n)
{
    size_t at = 0;
    for (int32_t k = 0; k < n; k++) {
        port[k].staged = at;
        at += room_of(plan, &port[k]);
    }
    return at;
}

static sg_status allocate(sg_session *s, char **out, size_t bytes, sg_error *err)
{
    *out = s->apart ? s->apart->allocate_host(s->device, bytes + SG_ALIGN) : sg_alloc(bytes + SG_ALIGN);
    if (!*out)
        return sg_fail(err, SG_E_MEMORY, "out of memory: the plan needs %.1f MiB of %smemory for inputs and results",
                       mebibytes(bytes), s->apart ? "page-locked " : "");
    memset(*out, 0, bytes + SG_ALIGN);
    return SG_OK;
}

static void release(sg_session *s, char *memory)
{
    if (memory && s->apart)
        s->apart->release_host(s->device, memory);
    else
        sg_free(memory);
}

sg_status sg_staging_make(sg_plan *plan, sg_error *err)
{
    sg_session *s = plan->session;
    size_t inputs = place(plan, plan->input, plan->n_inputs);
    plan->staged_results = place(plan, plan->result, plan->n_results);
    if (!s->apart)
        return SG_OK;
    for (int k = 0; k < 2; k++) {
        SG_TRY(allocate(s, &plan->input_copy[k].memory, inputs, err));
        SG_TRY(s->apart->make_mark(s->device, &plan->input_copy[k].free, err));
    }
    return allocate(s, &plan->result_copy, plan->staged_results, err);
}

void sg_staging_free(sg_plan *plan)
{
    sg_session *s = plan->session;
    for (int k = 0; k < 2; k++) {
        if (plan->input_copy[k].free)
            s->apart->free_mark(s->device, plan->input_copy[k].free);
        release(s, plan->input_copy[k].memory);
    }
    release(s, plan->result_copy);
    for (int k = 0; plan->post && k < SG_POSTS; k++) {
        if (plan->post[k].mark)
            s->apart->free_mark(s->device, plan->post[k].mark);
        release(s, plan->post[k].memory);
    }
}

/* ---- inputs */

void *sg_staged_input(sg_plan *plan, sg_port *port, bool whole)
{
    sg_session *s = plan->session;
    sg_input_copy *now = &plan->input_copy[plan->turn];
    if (now->under_way) {
        sg_error err;
        sg_session_note(s, s->apart->wait_mark(s->device, now->free, &err), &err);
        now->under_way = false;
    }
    char *at = now->memory + port->staged;
    if (port->turn != plan->turn && !whole)
        memcpy(at, plan->input_copy[port->turn].memory + port->staged, plan->buffer[port->buffer].bytes);
    port->turn = plan->turn;
    port->changed = true;
    return at;
}

/* The last of the ports from `first` on that travel as one: neighbours on both sides. */
static int32_t last_neighbour(const sg_plan *plan, const sg_port *port, int32_t n, int32_t first, bool inputs)
{
    int32_t last = first;
    while (last + 1 < n && (!inputs || port[last + 1].changed)) {
        const sg_buffer *a = &plan->buffer[port[last].buffer], *b = &plan->buffer[port[last + 1].buffer];
        if (b->at != a->at + (port[last + 1].staged - port[last].staged))
            break;
        last++;
    }
    return last;
}

static size_t span(const sg_plan *plan, const sg_port *port, int32_t first, int32_t last)
{
    return port[last].staged - port[first].staged + plan->buffer[port[last].buffer].bytes;
}

/* Inputs are common to all replicas: they travel to the device once. */
static sg_status share(const sg_plan *plan, const sg_buffer *first, size_t bytes, sg_error *err)
{
    const sg_session *s = plan->session;
    for (int32_t r = 1; r < s->n_replicas; r++)
        SG_TRY(s->apart->copy(s->device, sg_buffer_at(plan, first, r), first->at, bytes, 1, err));
    return SG_OK;
}

sg_status sg_staging_send(sg_plan *plan, sg_error *err)
{
    sg_session *s = plan->session;
    sg_input_copy *now = &plan->input_copy[plan->turn];
    bool sent = false;
    for (int32_t k = 0, last; k < plan->n_inputs; k = last + 1) {
        const sg_port *first = &plan->input[k];
        last = k;
        if (!first->changed)
            continue;
        last = last_neighbour(plan, plan->input, plan->n_inputs, k, true);
        SG_TRY(s->apart->upload(s->device, plan->buffer[first->buffer].at, now->memory + first->staged,
                                span(plan, plan->input, k, last), err));
        SG_TRY(share(plan, &plan->buffer[first->buffer], span(plan, plan->input, k, last), err));
        for (int32_t i = k; i <= last; i++)
            plan->input[i].changed = false;
        sent = true;
    }
    if (!sent)
        return SG_OK;
    SG_TRY(s->apart->set_mark(s->device, now->free, err));
    now->under_way = true;
    plan->turn = 1 - plan->turn;
    return SG_OK;
}

/* ---- results */

sg_status sg_staged_result(sg_plan *plan, sg_port *port, const void **out, sg_error *err)
{
    sg_session *s = plan->session;
    const sg_buffer *b = &plan->buffer[port->buffer];
    *out = plan->result_copy + port->staged;
    if (port->current)
        return SG_OK;
    SG_TRY(s->apart->download(s->device, plan->result_copy + port->staged, b->at, b->bytes, err));
    SG_TRY(s->apart->wait(s->device, err));
    port->current = true;
    return SG_OK;
}

static sg_status open_post(sg_plan *plan, sg_post *post, sg_error *err)
{
    sg_session *s = plan->session;
    if (post->memory)
        return SG_OK;
    if (s->apart && !post->mark)
        SG_TRY(s->apart->make_mark(s->device, &post->mark, err));
    return allocate(s, &post->memory, (size_t)s->n_replicas * plan->staged_results, err);
}

static sg_status check_post(const sg_plan *plan, int32_t slot, sg_error *err)
{
    if (slot < 0 || slot >= SG_POSTS)
        return sg_fail(err, SG_E_ARGUMENT, "post %d of a plan: there are %d", (int)slot, SG_POSTS);
    return plan->post ? SG_OK : sg_fail(err, SG_E_ARGUMENT, "post %d of a plan before any was sent", (int)slot);
}

static sg_status send_results(const sg_plan *plan, int32_t replica, char *post, sg_error *err)
{
    const sg_session *s = plan->session;
    for (int32_t k = 0, last; k < plan->n_results; k = last + 1) {
        const sg_port *first = &plan->result[k];
        last = last_neighbour(plan, plan->result, plan->n_results, k, false);
        char *to = post + first->staged;
        const char *from = sg_buffer_at(plan, &plan->buffer[first->buffer], replica);
        size_t bytes = span(plan, plan->result, k, last);
        if (s->apart)
            SG_TRY(s->apart->download(s->device, to, from, bytes, err));
        else
            memcpy(to, from, bytes);
    }
    return SG_OK;
}

sg_status sg_plan_post(sg_plan *plan, int32_t slot, sg_error *err)
{
    sg_session *s = plan->session;
    if (!plan->post && !(plan->post = sg_plan_take(plan, SG_POSTS, sizeof *plan->post)))
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    SG_TRY(check_post(plan, slot, err));
    sg_post *post = &plan->post[slot];
    SG_TRY(open_post(plan, post, err));
    for (int32_t r = 0; r < s->n_replicas; r++)
        SG_TRY(send_results(plan, r, post->memory + (size_t)r * plan->staged_results, err));
    if (s->apart)
        SG_TRY(s->apart->set_mark(s->device, post->mark, err));
    post->under_way = s->apart != NULL;
    return SG_OK;
}

sg_status sg_plan_posted(sg_plan *plan, int32_t slot, int32_t replica, const char *name, const void **out,
                         sg_error *err)
{
    sg_session *s = plan->session;
    SG_TRY(check_post(plan, slot, err));
    sg_post *post = &plan->post[slot];
    const sg_port *port = sg_plan_result_port(plan, name);
    if (!port)
        return sg_fail(err, SG_E_NAME, "the plan has no result '%s'", name);
    if (replica < 0 || replica >= s->n_replicas)
        return sg_fail(err, SG_E_ARGUMENT, "replica %d of a session with %d", (int)replica, (int)s->n_replicas);
    if (!post->memory)
        return sg_fail(err, SG_E_ARGUMENT, "nothing was sent to post %d of the plan", (int)slot);
    SG_TRY(sg_session_take_failure(s, err));
    if (post->under_way)
        SG_TRY(s->apart->wait_mark(s->device, post->mark, err));
    post->under_way = false;
    *out = post->memory + (size_t)replica * plan->staged_results + port->staged;
    return SG_OK;
}
