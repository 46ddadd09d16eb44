/* record.c - a run recorded as one piece of work in which steps wait only for what they depend on.
 *
 * A run enqueues its steps one after the other, but most pairs of steps have nothing to do with each other: gradients of two
 * layers' weights, the updates of two parameters. Each step and copy is a part of the recording, and which parts it waits for
 * follows from the bytes that it touches (hazards.c). That takes views, updates in place, memory used again and the iterations
 * of loops into account without looking at them. */
#include "runtime/hazards_internal.h"
#include "runtime/plan_internal.h"

static sg_status out_of_memory(sg_error *err) { return sg_fail(err, SG_E_MEMORY, "out of memory recording a run"); }

static bool reads(const sg_plan *plan, const sg_buffer *b) { return sg_hazards_read(plan->hazards, b->at, b->bytes); }

static bool writes(const sg_plan *plan, const sg_buffer *b) { return sg_hazards_write(plan->hazards, b->at, b->bytes); }

static sg_status begin_part(const sg_plan *plan, bool described, sg_error *err)
{
    const int32_t *on;
    int32_t n;
    if (!described)
        return out_of_memory(err);
    sg_hazards_end(plan->hazards, &on, &n);
    return plan->session->apart->part(plan->session->device, on, n, err);
}

sg_status sg_record_step(const sg_plan *plan, const sg_step *step, sg_error *err)
{
    bool good = true;
    if (!plan->hazards)
        return SG_OK;
    for (int32_t k = 0; k < step->node->n_in && good; k++)
        good = step->in[k] < 0 || reads(plan, &plan->buffer[step->in[k]]);
    for (int32_t k = 0; k < step->node->n_out && good; k++)
        good = writes(plan, &plan->buffer[step->out[k]]);
    if (step->workspace >= 0)
        good = good && writes(plan, &plan->buffer[step->workspace]);
    return begin_part(plan, good, err);
}

sg_status sg_record_copy(const sg_plan *plan, const sg_buffer *from, const sg_buffer *to, sg_error *err)
{
    return plan->hazards ? begin_part(plan, reads(plan, from) && writes(plan, to), err) : SG_OK;
}

sg_status sg_record(sg_plan *plan, sg_status (*body)(void *plan, sg_error *err), sg_error *err)
{
    const sg_apart *apart = plan->session->apart;
    if (apart->part && !(plan->hazards = sg_hazards_new()))
        return out_of_memory(err);
    sg_status status = apart->record(plan->session->device, body, plan, &plan->recording, err);
    sg_hazards_free(plan->hazards);
    plan->hazards = NULL;
    return status;
}
