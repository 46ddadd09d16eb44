/* schedule.c - frames: which nodes run, in which order, by which kernel. */
#include "ops/ops.h"
#include "ops/repeat_internal.h"
#include "runtime/leaf_internal.h"
#include "runtime/plan_internal.h"

static sg_status out_of_memory(sg_error *err) { return sg_fail(err, SG_E_MEMORY, "out of memory while compiling"); }

static bool runs(const sg_node *node) { return !(node->op->flags & SG_OP_LEAF) && !sg_is_view(node); }

static sg_status prepare_kernel(sg_plan *plan, sg_step *step, sg_error *err)
{
    sg_error inner = {0};
    const sg_backend *backend = plan->session->backend;
    const sg_node *node = step->node;
    sg_status status = backend->prepare(plan->session->device, &step->spec, &step->kernel, &inner);
    if (status == SG_OK)
        return SG_OK;
    return sg_fail_at(err, status, node->file, node->line, 0, "'%s' (%s): %s", node->name, node->op->name, inner.text);
}

static sg_status make_body(sg_plan *plan, sg_step *step, sg_error *err)
{
    const sg_node *node = step->node;
    int32_t *next = sg_plan_take(plan, node->n_out, sizeof *next);
    if (!next)
        return out_of_memory(err);
    for (int32_t k = 0; k < node->n_out; k++)
        next[k] = sg_repeat_next(node, k).id;
    step->count = sg_repeat_count(node);
    return sg_frame_make(plan, sg_repeat_body(node), next, node->n_out, &step->body, err);
}

/* A loop reads the operands that its states start from, and those that its body needs. */
static bool loop_reads(const sg_step *step, int32_t k)
{
    sg_value inner, outer;
    sg_graph *body = step->body->graph;
    sg_body_input_at(body, k, &inner, &outer);
    return sg_repeat_input_output(step->node, k) >= 0 || step->body->live[sg_node_of(inner)->index];
}

static sg_status make_step(sg_plan *plan, sg_graph *graph, const sg_node *node, sg_step *step, sg_error *err)
{
    bool loop = node->op == &sg_op_repeat;
    int64_t replicas = plan->session->n_replicas;
    step->node = node;
    step->workspace = -1;
    step->in = sg_plan_take(plan, node->n_in, sizeof *step->in);
    step->out = sg_plan_take(plan, node->n_out, sizeof *step->out);
    step->in_at = sg_plan_take(plan, replicas * node->n_in, sizeof *step->in_at);
    step->out_at = sg_plan_take(plan, replicas * node->n_out, sizeof *step->out_at);
    if (!step->in || !step->out || !step->in_at || !step->out_at)
        return out_of_memory(err);
    SG_TRY(sg_spec_fill(plan, graph, node, &step->spec, err));
    SG_TRY(loop ? make_body(plan, step, err) : prepare_kernel(plan, step, err));
    for (int32_t k = 0; k < node->n_in; k++)
        step->in[k] = (loop ? loop_reads(step, k) : !sg_reads_shape_only(node, k)) ? 0 : -1;
    return SG_OK;
}

static int32_t count_steps(const sg_frame *frame)
{
    int32_t n = 0;
    for (int32_t i = 0; i < sg_node_count(frame->graph); i++)
        n += frame->live[i] && runs(sg_node_at(frame->graph, i));
    return n;
}

/* The nodes stand in a topological order already: builders tend to use what they have just made. It is left where another
 * one, found from the graph alone, needs clearly less memory. Equal graphs give equal plans. */
sg_status sg_frame_make(sg_plan *plan, sg_graph *graph, const int32_t *root, int32_t n, sg_frame **out, sg_error *err)
{
    sg_frame *frame = sg_plan_take(plan, 1, sizeof *frame);
    if (!frame)
        return out_of_memory(err);
    *out = frame;
    frame->graph = graph;
    frame->root = (int32_t *)root;
    frame->n_roots = n;
    frame->live = sg_plan_take(plan, sg_node_count(graph), sizeof *frame->live);
    frame->buffer = sg_plan_take(plan, sg_value_count(graph), sizeof *frame->buffer);
    if (!frame->live || !frame->buffer)
        return out_of_memory(err);
    for (int32_t v = 0; v < sg_value_count(graph); v++)
        frame->buffer[v] = -1;
    sg_graph_reach(graph, root, n, false, frame->live);
    int32_t steps = count_steps(frame);
    frame->step = sg_plan_take(plan, steps, sizeof *frame->step);
    if (!frame->step)
        return out_of_memory(err);
    for (int32_t i = 0; i < sg_node_count(graph); i++) {
        const sg_node *node = sg_node_at(graph, i);
        if (frame->live[i] && runs(node)) /* counted first: a failed step has a kernel to release */
            SG_TRY(make_step(plan, graph, node, &frame->step[frame->n_steps++], err));
    }
    return sg_frame_order(plan, frame, err);
}
