/* layout.c - where values live. Three ways to do without a copy or a new buffer, in this order:
 *
 *   home      The final value of a slot (a store entry, a loop state) is written where it will be needed, if the
 *             value that the slot started with has no reader after the step that makes it. Its ancestors by in-place
 *             kernels are written there too.
 *   takeover  A kernel that allows it writes over an operand that dies with it.
 *   view      Reshapes name the memory of their operand.
 *
 * What a slot could not receive in place is copied when the frame ends, after all its steps: values read before that
 * are those of the start, as the graph says. */
#include <limits.h>

#include "ops/ops.h"
#include "ops/repeat_internal.h"
#include "runtime/elements_internal.h"
#include "runtime/leaf_internal.h"
#include "runtime/plan_internal.h"

/* Working data of one frame. The arrays over values are meaningful at roots: views stand for the value they rename. */
typedef struct layout {
    sg_plan *plan;
    sg_frame *frame;
    const sg_slot *slot;
    int32_t n_slots;
    int32_t *root;
    int32_t *maker;   /* step that computes the value; -1 for leaves */
    int32_t *last;    /* step of the last reader; n_steps: needed at the end; -1: none */
    int32_t *home;    /* buffer of the slot that the value goes to, or -1 */
    bool *kept;       /* results: memory of their own */
    int32_t *readers; /* operands that are this value */
} layout;

static sg_status out_of_memory(sg_error *err) { return sg_fail(err, SG_E_MEMORY, "out of memory while compiling"); }

static size_t value_bytes(const layout *l, int32_t v)
{
    sg_value value = sg_value_at(l->frame->graph, v);
    return (size_t)sg_shape_count(sg_shape_of(value)) *
           sg_dtype_size(sg_session_storage(l->plan->session, sg_dtype_of(value)));
}

static void touch(sg_plan *plan, int32_t buffer, int32_t tick)
{
    if (buffer < 0)
        return;
    sg_buffer *b = &plan->buffer[buffer];
    b->first = tick < b->first ? tick : b->first;
    b->last = tick > b->last ? tick : b->last;
}

/* ---------------------------------------------------------------------------------------------- readers and makers */

static void find_roots(layout *l)
{
    sg_graph *graph = l->frame->graph;
    for (int32_t i = 0; i < sg_node_count(graph); i++) {
        const sg_node *node = sg_node_at(graph, i);
        for (int32_t k = 0; k < node->n_out; k++) {
            int32_t v = node->out + k;
            l->root[v] = sg_is_view(node) ? l->root[node->in[0]] : v;
            l->maker[v] = l->last[v] = l->home[v] = -1;
        }
    }
}

static void find_readers(layout *l)
{
    sg_frame *f = l->frame;
    for (int32_t i = 0; i < f->n_steps; i++) {
        const sg_node *node = f->step[i].node;
        for (int32_t k = 0; k < node->n_in; k++)
            if (f->step[i].in[k] >= 0) {
                l->last[l->root[node->in[k]]] = i;
                l->readers[l->root[node->in[k]]]++;
            }
        for (int32_t k = 0; k < node->n_out; k++)
            l->maker[node->out + k] = i;
    }
    for (int32_t k = 0; k < f->n_roots; k++)
        l->last[l->root[f->root[k]]] = f->n_steps;
    for (int32_t k = 0; f == l->plan->top && k < sg_result_count(f->graph); k++)
        l->kept[l->root[sg_result_value(f->graph, k).id]] = true;
}

/* The operand whose memory output j may take over: allowed by the kernel, of equal size, and given to it only once. */
static int32_t aliased_operand(const layout *l, const sg_step *step, int32_t j)
{
    const sg_node *node = step->node;
    int32_t a = step->body ? sg_repeat_output_input(node, j) : step->kernel.alias ? step->kernel.alias[j] : -1;
    if (a < 0 || step->in[a] < 0 || l->plan->no_reuse)
        return -1;
    for (int32_t k = 0; k < node->n_in; k++)
        if (k != a && step->in[k] >= 0 && l->root[node->in[k]] == l->root[node->in[a]])
            return -1;
    return value_bytes(l, node->in[a]) == value_bytes(l, node->out + j) ? a : -1;
}

/* ------------------------------------------------------------------------------------------------------------ homes */

/* May value v be written to the slot's memory? Not while the slot's first value still has readers, except that the
 * maker itself may read it in place. */
static bool may_enter(const layout *l, const sg_slot *slot, int32_t v)
{
    const sg_step *step = &l->frame->step[l->maker[v]];
    int32_t last = slot->before < 0 ? -1 : l->last[slot->before];
    if (l->plan->no_reuse)
        return false;
    if (last < l->maker[v])
        return true;
    int32_t a = aliased_operand(l, step, v - step->node->out);
    return last == l->maker[v] && a >= 0 && l->root[step->node->in[a]] == slot->before;
}

static void assign_home(layout *l, const sg_slot *slot)
{
    int32_t v = l->root[slot->after];
    while (v >= 0 && l->maker[v] >= 0 && l->home[v] < 0 && may_enter(l, slot, v)) {
        int32_t maker = l->maker[v];
        const sg_step *step = &l->frame->step[maker];
        l->home[v] = slot->home;
        int32_t a = aliased_operand(l, step, v - step->node->out);
        v = a < 0 ? -1 : l->root[step->node->in[a]];
        if (v >= 0 && (l->last[v] != maker || l->kept[v]))
            v = -1;
    }
}

/* -----------------------------------------------------------------------------------------------------------
 * buffers */

/* Where steps may run at the same time, only what nobody else reads: else the step would wait for the other readers. */
static bool can_take_over(const layout *l, int32_t i, int32_t a)
{
    int32_t v = a < 0 ? -1 : l->root[l->frame->step[i].node->in[a]];
    if (v < 0 || (l->plan->concurrent && l->readers[v] > 1))
        return false;
    return l->maker[v] >= 0 && l->last[v] == i && l->home[v] < 0 && !l->kept[v];
}

static int32_t choose_buffer(layout *l, int32_t i, int32_t j)
{
    sg_step *step = &l->frame->step[i];
    int32_t v = step->node->out + j;
    if (l->home[v] >= 0)
        return l->home[v];
    if (l->kept[v])
        return sg_plan_buffer(l->plan, SG_PLACE_PINNED, value_bytes(l, v));
    int32_t a = aliased_operand(l, step, j);
    if (!can_take_over(l, i, a))
        return sg_plan_buffer(l->plan, SG_PLACE_ARENA, value_bytes(l, v));
    l->last[l->root[step->node->in[a]]] = -1; /* once only, also when two outputs may alias it */
    return step->in[a];
}

/* Loop states that begin elsewhere are copied in. */
static sg_status start_states(layout *l, sg_step *step, sg_error *err)
{
    step->start.item = sg_plan_take(l->plan, step->node->n_out, sizeof *step->start.item);
    if (!step->start.item)
        return out_of_memory(err);
    for (int32_t k = 0; k < step->node->n_out; k++) {
        int32_t from = step->in[sg_repeat_output_input(step->node, k)];
        if (from != step->out[k])
            step->start.item[step->start.count++] = (sg_copy){from, step->out[k]};
    }
    return SG_OK;
}

static sg_status layout_body(layout *l, sg_step *step, sg_error *err)
{
    const sg_node *node = step->node;
    sg_slot *slot = sg_plan_take(l->plan, node->n_out, sizeof *slot);
    if (!slot)
        return out_of_memory(err);
    for (int32_t k = 0; k < node->n_in; k++) {
        sg_value inner, outer;
        sg_body_input_at(step->body->graph, k, &inner, &outer);
        step->body->buffer[inner.id] = step->in[k];
    }
    for (int32_t k = 0; k < node->n_out; k++) {
        int32_t before = sg_repeat_inner(node, k).id;
        slot[k] = (sg_slot){step->out[k], before, step->body->root[k]};
        step->body->buffer[before] = step->out[k];
    }
    SG_TRY(start_states(l, step, err));
    return sg_frame_layout(l->plan, step->body, slot, node->n_out, err);
}

static sg_status layout_step(layout *l, int32_t i, sg_error *err)
{
    sg_plan *plan = l->plan;
    sg_step *step = &l->frame->step[i];
    const sg_node *node = step->node;
    step->begin = step->end = plan->ticks++;
    for (int32_t k = 0; k < node->n_in; k++)
        if (step->in[k] >= 0) {
            step->in[k] = l->frame->buffer[l->root[node->in[k]]];
            touch(plan, step->in[k], step->begin);
        }
    for (int32_t k = 0; k < node->n_out; k++) {
        step->out[k] = l->frame->buffer[node->out + k] = choose_buffer(l, i, k);
        if (step->out[k] < 0)
            return out_of_memory(err);
        touch(plan, step->out[k], step->begin);
    }
    if (step->kernel.workspace) {
        step->workspace = sg_plan_buffer(plan, SG_PLACE_ARENA, step->kernel.workspace);
        if (step->workspace < 0)
            return out_of_memory(err);
        touch(plan, step->workspace, step->begin);
    }
    if (!step->body)
        return SG_OK;
    SG_TRY(layout_body(l, step, err));
    step->end = plan->ticks++;
    for (int32_t k = 0; k < node->n_in; k++)
        touch(plan, step->in[k], step->end);
    for (int32_t k = 0; k < node->n_out; k++)
        touch(plan, step->out[k], step->end);
    return SG_OK;
}

/* ------------------------------------------------------------------------------------------------- the frame's end */

static int32_t final_buffer(const layout *l, int32_t v) { return l->frame->buffer[l->root[v]]; }

/* Will the end of the frame write this buffer by a copy? */
static bool overwritten(const layout *l, int32_t buffer)
{
    for (int32_t s = 0; s < l->n_slots; s++)
        if (l->slot[s].home == buffer && final_buffer(l, l->slot[s].after) != buffer)
            return true;
    return false;
}

/* All sources are read before any slot is written, so that states may be exchanged. */
static sg_status end_copies(layout *l, sg_error *err)
{
    sg_plan *plan = l->plan;
    sg_frame *f = l->frame;
    f->save.item = sg_plan_take(plan, l->n_slots + f->n_roots, sizeof *f->save.item);
    f->commit.item = sg_plan_take(plan, l->n_slots, sizeof *f->commit.item);
    if (!f->save.item || !f->commit.item)
        return out_of_memory(err);
    for (int32_t s = 0; s < l->n_slots; s++) {
        int32_t from = final_buffer(l, l->slot[s].after), home = l->slot[s].home;
        touch(plan, from, f->end);
        touch(plan, home, f->end);
        if (from == home)
            continue;
        if (overwritten(l, from)) {
            int32_t saved = sg_plan_buffer(plan, SG_PLACE_ARENA, plan->buffer[from].bytes);
            if (saved < 0)
                return out_of_memory(err);
            touch(plan, saved, f->end);
            f->save.item[f->save.count++] = (sg_copy){from, saved};
            from = saved;
        }
        f->commit.item[f->commit.count++] = (sg_copy){from, home};
    }
    return SG_OK;
}

/* A result that is the old value of an entry written by copy is saved before. */
static sg_status place_results(layout *l, sg_error *err)
{
    sg_plan *plan = l->plan;
    sg_frame *f = l->frame;
    for (int32_t k = 0; k < plan->n_results; k++) {
        int32_t from = final_buffer(l, sg_result_value(f->graph, k).id), at = from;
        if (overwritten(l, from)) {
            at = sg_plan_buffer(plan, SG_PLACE_PINNED, plan->buffer[from].bytes);
            if (at < 0)
                return out_of_memory(err);
            f->save.item[f->save.count++] = (sg_copy){from, at};
        }
        plan->result[k].buffer = at;
    }
    return SG_OK;
}

/* Constants of a frame; the leaves that the outside gives already have their buffers. */
static sg_status place_constants(layout *l, sg_error *err)
{
    sg_frame *f = l->frame;
    for (int32_t i = 0; i < sg_node_count(f->graph); i++) {
        const sg_node *node = sg_node_at(f->graph, i);
        if (!f->live[i] || node->op != &sg_op_constant)
            continue;
        f->buffer[node->out] = sg_plan_buffer(l->plan, SG_PLACE_PINNED, value_bytes(l, node->out));
        if (f->buffer[node->out] < 0)
            return out_of_memory(err);
    }
    return SG_OK;
}

static sg_status run_layout(layout *l, sg_error *err)
{
    find_roots(l);
    find_readers(l);
    SG_TRY(place_constants(l, err));
    for (int32_t s = 0; s < l->n_slots; s++)
        assign_home(l, &l->slot[s]);
    for (int32_t i = 0; i < l->frame->n_steps; i++)
        SG_TRY(layout_step(l, i, err));
    l->frame->end = l->plan->ticks++;
    SG_TRY(end_copies(l, err));
    return l->frame == l->plan->top ? place_results(l, err) : SG_OK;
}

sg_status sg_frame_layout(sg_plan *plan, sg_frame *frame, const sg_slot *slot, int32_t n_slots, sg_error *err)
{
    int32_t n = sg_value_count(frame->graph) + 1;
    layout l = {.plan = plan, .frame = frame, .slot = slot, .n_slots = n_slots};
    l.root = sg_calloc(n, sizeof *l.root);
    l.maker = sg_calloc(n, sizeof *l.maker);
    l.last = sg_calloc(n, sizeof *l.last);
    l.home = sg_calloc(n, sizeof *l.home);
    l.kept = sg_calloc(n, sizeof *l.kept);
    l.readers = sg_calloc(n, sizeof *l.readers);
    bool ready = l.root && l.maker && l.last && l.home && l.kept && l.readers;
    sg_status status = ready ? run_layout(&l, err) : out_of_memory(err);
    sg_free(l.root);
    sg_free(l.maker);
    sg_free(l.last);
    sg_free(l.home);
    sg_free(l.kept);
    sg_free(l.readers);
    return status;
}
