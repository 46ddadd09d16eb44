/* plan.c - the compile pipeline: verify, lower, fuse, schedule, lay out, place, and fill in what is known. */
#include <limits.h>
#include <string.h>

#include "graph/convert_internal.h"
#include "runtime/elements_internal.h"
#include "runtime/leaf_internal.h"
#include "runtime/plan_internal.h"
#include "runtime/precision_internal.h"

/* ------------------------------------------------------------------------------------------------------ plan memory */

struct sg_block {
    struct sg_block *next;
    size_t padding; /* keeps what follows aligned like malloc's */
};

void *sg_plan_take(sg_plan *plan, int64_t count, size_t bytes)
{
    int64_t total;
    if (!sg_mul_ok(count > 0 ? count : 1, (int64_t)bytes, &total))
        return NULL;
    struct sg_block *block = sg_calloc(1, sizeof *block + (size_t)total);
    if (!block)
        return NULL;
    block->next = plan->pool;
    plan->pool = block;
    return block + 1;
}

int32_t sg_plan_buffer(sg_plan *plan, sg_place place, size_t bytes)
{
    if (plan->n_buffers == plan->buffer_capacity) {
        int32_t wider = plan->buffer_capacity ? plan->buffer_capacity * 2 : 256;
        sg_buffer *moved = sg_realloc(plan->buffer, (size_t)wider * sizeof *moved);
        if (!moved)
            return -1;
        plan->buffer = moved;
        plan->buffer_capacity = wider;
    }
    plan->buffer[plan->n_buffers] =
        (sg_buffer){.place = place, .entry = -1, .bytes = bytes, .first = INT_MAX, .last = -1};
    return plan->n_buffers++;
}

static void release_kernels(sg_frame *frame)
{
    for (int32_t i = 0; frame && i < frame->n_steps; i++) {
        sg_step *step = &frame->step[i];
        release_kernels(step->body);
        if (step->kernel.release)
            step->kernel.release(step->kernel.state);
    }
}

void sg_plan_free(sg_plan *plan)
{
    if (!plan)
        return;
    release_kernels(plan->top);
    if (plan->recording)
        plan->session->apart->forget(plan->session->device, plan->recording);
    sg_staging_free(plan);
    if (plan->pinned.at)
        plan->session->backend->release(plan->session->device, plan->pinned.at);
    sg_free(plan->buffer);
    while (plan->pool) {
        struct sg_block *next = plan->pool->next;
        sg_free(plan->pool);
        plan->pool = next;
    }
    if (plan->graph)
        sg_graph_free(plan->graph);
    sg_free(plan);
}

static sg_status out_of_memory(sg_error *err) { return sg_fail(err, SG_E_MEMORY, "out of memory while compiling"); }

/* --------------------------------------------------------------------------------------------- lower, hoist, fuse */

static sg_status lower(sg_plan *plan, sg_graph *graph, sg_error *err)
{
    sg_graph *mixed;
    if (plan->session->low == SG_F32)
        return sg_lower(plan->session, graph, &plan->graph, err);
    SG_TRY(sg_precision_pass(graph, plan->session->low, &mixed, err));
    sg_status status = sg_lower(plan->session, mixed, &plan->graph, err);
    sg_graph_free(mixed);
    return status;
}

static sg_status hoist(sg_plan *plan, sg_error *err)
{
    sg_graph *hoisted;
    SG_TRY(sg_hoist(plan->graph, &hoisted, err));
    sg_graph_free(plan->graph);
    plan->graph = hoisted;
    return SG_OK;
}

static sg_status fuse(sg_plan *plan, sg_error *err)
{
    const sg_backend *backend = plan->session->backend;
    if (plan->session->options.no_fusion || !backend->fuse)
        return SG_OK;
    sg_graph *fused = sg_graph_new();
    if (!fused)
        return out_of_memory(err);
    sg_status status = backend->fuse(plan->graph, fused, err);
    if (status != SG_OK) {
        sg_graph_free(fused);
        return status;
    }
    sg_graph_free(plan->graph);
    plan->graph = fused;
    return SG_OK;
}

/* ------------------------------------------------------------------------------------------ inputs, results,
 * entries */

static sg_status add_port(sg_plan *plan, sg_port *port, const char *name, sg_value v, sg_error *err)
{
    char *kept = sg_plan_take(plan, (int64_t)strlen(name) + 1, 1);
    if (!kept)
        return out_of_memory(err);
    strcpy(kept, name);
    const sg_shape *shape = sg_shape_of(v);
    *port =
        (sg_port){.name = kept, .shape = sg_shape_make(shape->rank, shape->dim), .dtype = sg_dtype_of(v), .buffer = -1};
    return SG_OK;
}

static sg_port *find_port(sg_port *port, int32_t n, const char *name)
{
    for (int32_t k = 0; k < n; k++)
        if (strcmp(port[k].name, name) == 0)
            return &port[k];
    return NULL;
}

/* Inputs that nothing reads any more still have memory: the caller fills them without knowing what was optimised
 * away. */
static sg_status make_inputs(sg_plan *plan, sg_graph *graph, sg_error *err)
{
    plan->input = sg_plan_take(plan, sg_node_count(graph), sizeof *plan->input);
    if (!plan->input)
        return out_of_memory(err);
    for (int32_t i = 0; i < sg_node_count(graph); i++) {
        const sg_node *node = sg_node_at(graph, i);
        if (node->op != &sg_op_input)
            continue;
        sg_port *port = &plan->input[plan->n_inputs++];
        sg_value v = sg_value_at(graph, node->out);
        SG_TRY(add_port(plan, port, sg_leaf_input(node), v, err));
        size_t bytes;
        if (!sg_tensor_bytes(sg_session_storage(plan->session, port->dtype), &port->shape, &bytes))
            return sg_fail(err, SG_E_SHAPE, "input '%s' is too large", port->name);
        port->buffer = sg_plan_buffer(plan, SG_PLACE_PINNED, bytes);
        if (port->buffer < 0)
            return out_of_memory(err);
    }
    return SG_OK;
}

static sg_status make_results(sg_plan *plan, sg_error *err)
{
    int32_t n = sg_result_count(plan->graph);
    plan->result = sg_plan_take(plan, n, sizeof *plan->result);
    if (!plan->result)
        return out_of_memory(err);
    for (int32_t k = 0; k < n; k++)
        SG_TRY(add_port(plan, &plan->result[k], sg_result_name(plan->graph, k), sg_result_value(plan->graph, k), err));
    plan->n_results = n;
    return SG_OK;
}

static sg_status check_replicas(const sg_session *s, int32_t index, sg_error *err)
{
    const sg_entry *first = sg_store_peek(s->replica[0].store, index);
    for (int32_t r = 1; r < s->n_replicas; r++) {
        const sg_entry *e = sg_store_peek(s->replica[r].store, index);
        if (!e || strcmp(e->name, first->name) != 0 || e->dtype != first->dtype ||
            !sg_shape_equal(&e->shape, &first->shape))
            return sg_fail(err, SG_E_ARGUMENT, "the stores of replicas 0 and %d differ in entry '%s'", (int)r,
                           first->name);
    }
    return SG_OK;
}

/* The session's store may be a copy of the one that the graph was built with, so entries are found by name. */
static sg_status use_entry(sg_plan *plan, const char *name, const sg_shape *shape, sg_used_entry **out, sg_error *err)
{
    sg_session *s = plan->session;
    int32_t index = sg_store_find(s->replica[0].store, name);
    if (index < 0)
        return sg_fail(err, SG_E_NAME, "the session's store has no entry '%s'", name);
    for (int32_t k = 0; k < plan->n_entries; k++)
        if (plan->entry[k].entry == index) {
            *out = &plan->entry[k];
            return SG_OK;
        }
    const sg_entry *entry = sg_store_peek(s->replica[0].store, index);
    if (!sg_shape_equal(&entry->shape, shape)) {
        char has[SG_SHAPE_TEXT], wants[SG_SHAPE_TEXT];
        return sg_fail(err, SG_E_SHAPE, "entry '%s' is %s in the session's store and %s in the graph", name,
                       sg_shape_format(&entry->shape, has, sizeof has), sg_shape_format(shape, wants, sizeof wants));
    }
    SG_TRY(check_replicas(s, index, err));
    sg_dtype stored = entry->dtype == SG_I32 ? SG_I32 : sg_store_real(s->replica[0].store);
    sg_dtype used = sg_session_storage(s, entry->dtype);
    sg_used_entry *u = &plan->entry[plan->n_entries++];
    *u = (sg_used_entry){.entry = index, .value = -1, .after = -1, .mirrored = stored != used};
    u->buffer = sg_plan_buffer(plan, u->mirrored ? SG_PLACE_PINNED : SG_PLACE_ENTRY,
                               (size_t)sg_shape_count(shape) * sg_dtype_size(used));
    if (u->buffer < 0)
        return out_of_memory(err);
    plan->buffer[u->buffer].entry = index;
    *out = u;
    return SG_OK;
}

/* Give the leaves of the top frame that are needed their memory. */
static sg_status bind_leaves(sg_plan *plan, sg_error *err)
{
    sg_graph *graph = plan->graph;
    for (int32_t i = 0; i < sg_node_count(graph); i++) {
        const sg_node *node = sg_node_at(graph, i);
        if (!plan->top->live[i])
            continue;
        if (node->op == &sg_op_input)
            plan->top->buffer[node->out] = find_port(plan->input, plan->n_inputs, sg_leaf_input(node))->buffer;
        if (node->op != &sg_op_param)
            continue;
        sg_used_entry *u;
        SG_TRY(use_entry(plan, node->attr[0].s, sg_shape_of(sg_value_at(graph, node->out)), &u, err));
        u->value = node->out;
        plan->top->buffer[node->out] = u->buffer;
    }
    return SG_OK;
}

static sg_status bind_effects(sg_plan *plan, sg_error *err)
{
    sg_graph *graph = plan->graph;
    for (int32_t k = 0; k < sg_effect_count(graph); k++) {
        int32_t entry, value;
        sg_used_entry *u;
        sg_effect_at(graph, k, &entry, &value);
        const sg_entry *named = sg_store_peek(sg_graph_store(graph), entry);
        SG_TRY(use_entry(plan, named->name, sg_shape_of(sg_value_at(graph, value)), &u, err));
        u->after = value;
    }
    return SG_OK;
}

static sg_status bind_entries(sg_plan *plan, sg_error *err)
{
    int32_t most = sg_node_count(plan->graph) + sg_effect_count(plan->graph);
    plan->entry = sg_plan_take(plan, most, sizeof *plan->entry);
    if (!plan->entry)
        return out_of_memory(err);
    SG_TRY(bind_leaves(plan, err));
    return bind_effects(plan, err);
}

/* ---------------------------------------------------------------------------------------------- schedule and layout */

static sg_status make_top(sg_plan *plan, sg_error *err)
{
    int32_t n = sg_root_count(plan->graph);
    int32_t *root = sg_plan_take(plan, n, sizeof *root);
    if (!root)
        return out_of_memory(err);
    sg_roots(plan->graph, root);
    return sg_frame_make(plan, plan->graph, root, n, &plan->top, err);
}

static sg_status layout_top(sg_plan *plan, sg_error *err)
{
    sg_slot *slot = sg_plan_take(plan, plan->n_entries, sizeof *slot);
    int32_t n = 0;
    if (!slot)
        return out_of_memory(err);
    for (int32_t k = 0; k < plan->n_entries; k++) {
        const sg_used_entry *u = &plan->entry[k];
        if (u->after >= 0)
            slot[n++] = (sg_slot){u->buffer, u->value, u->after};
    }
    return sg_frame_layout(plan, plan->top, slot, n, err);
}

static sg_status fill_constant(sg_plan *plan, sg_graph *graph, const sg_node *node, sg_buffer *buffer, sg_error *err)
{
    sg_value v = sg_value_at(graph, node->out);
    int64_t count = sg_shape_count(sg_shape_of(v));
    double *data = sg_calloc(count + 1, sizeof *data);
    char *stored = sg_calloc((int64_t)buffer->bytes + 1, 1);
    sg_status status = data && stored ? SG_OK : out_of_memory(err);
    if (status == SG_OK) {
        sg_leaf_constant(graph, node, data);
        sg_elements_write(sg_session_storage(plan->session, sg_dtype_of(v)), stored, data, count);
    }
    for (int32_t r = 0; status == SG_OK && r < plan->session->n_replicas; r++)
        status = sg_session_upload(plan->session, plan->pinned.at + (size_t)r * plan->pinned.stride + buffer->offset,
                                   stored, buffer->bytes, err);
    sg_free(stored);
    sg_free(data);
    return status;
}

static sg_status fill_constants(sg_plan *plan, sg_frame *frame, sg_error *err)
{
    for (int32_t i = 0; i < sg_node_count(frame->graph); i++) {
        const sg_node *node = sg_node_at(frame->graph, i);
        if (frame->live[i] && node->op == &sg_op_constant)
            SG_TRY(fill_constant(plan, frame->graph, node, &plan->buffer[frame->buffer[node->out]], err));
    }
    for (int32_t i = 0; i < frame->n_steps; i++)
        if (frame->step[i].body)
            SG_TRY(fill_constants(plan, frame->step[i].body, err));
    return SG_OK;
}

/* ------------------------------------------------------------------------------------------------------ the
 * pipeline */

static sg_status allocate_host_memory(sg_plan *plan, sg_error *err)
{
    sg_session *s = plan->session;
    if (!sg_session_allocate(s, plan->pinned_bytes + SG_ALIGN, &plan->pinned))
        return sg_fail(err, SG_E_MEMORY, "out of memory: the plan needs %.1f MiB for inputs and results",
                       (double)plan->pinned_bytes / (1 << 20));
    memset(plan->pinned.at, 0, (size_t)s->n_replicas * plan->pinned.stride);
    return sg_session_reserve(s, plan->scratch_bytes + SG_ALIGN, err);
}

static sg_status allocate_memory(sg_plan *plan, sg_error *err)
{
    sg_session *s = plan->session;
    SG_TRY(s->apart ? sg_apart_allocate(plan, err) : allocate_host_memory(plan, err));
    SG_TRY(sg_staging_make(plan, err));
    if (s->options.profile) {
        plan->event_capacity = 1 << 16;
        plan->event = sg_plan_take(plan, plan->event_capacity, sizeof *plan->event);
        if (!plan->event)
            return out_of_memory(err);
    }
    return SG_OK;
}

static sg_status compile(sg_plan *plan, sg_graph *graph, sg_error *err)
{
    SG_TRY(sg_graph_status(graph, err));
    SG_TRY(sg_graph_verify(graph, err));
    SG_TRY(lower(plan, graph, err));
    SG_TRY(sg_check_kernels(plan->session, plan->graph, err));
    SG_TRY(hoist(plan, err));
    SG_TRY(fuse(plan, err));
    SG_TRY(make_inputs(plan, graph, err));
    SG_TRY(make_results(plan, err));
    SG_TRY(make_top(plan, err));
    SG_TRY(bind_entries(plan, err));
    plan->concurrent = sg_concurrency_fits(plan, plan->top);
    SG_TRY(layout_top(plan, err));
    SG_TRY(sg_place_buffers(plan, err));
    SG_TRY(allocate_memory(plan, err));
    SG_TRY(fill_constants(plan, plan->top, err));
    sg_plan_resolve(plan);
    return SG_OK;
}

sg_status sg_plan_compile(sg_plan **out, sg_session *session, sg_graph *graph, bool no_reuse, sg_error *err)
{
    *out = NULL;
    if (!session || !graph)
        return sg_fail(err, SG_E_ARGUMENT, "a plan needs a session and a graph");
    sg_plan *plan = sg_calloc(1, sizeof *plan);
    if (!plan)
        return out_of_memory(err);
    plan->session = session;
    plan->no_reuse = no_reuse;
    plan->epoch = sg_clock();
    sg_status status = compile(plan, graph, err);
    if (status != SG_OK) {
        sg_plan_free(plan);
        return status;
    }
    *out = plan;
    return SG_OK;
}

sg_status sg_plan_new(sg_plan **out, sg_session *session, sg_graph *graph, sg_error *err)
{
    return sg_plan_compile(out, session, graph, false, err);
}

/* -------------------------------------------------------------------------------------------------- access by name */

static void *input_at(sg_plan *plan, sg_port *port, bool whole)
{
    return plan->session->apart ? sg_staged_input(plan, port, whole) : plan->buffer[port->buffer].at;
}

/* The result's elements in memory of the host. */
static sg_status result_at(sg_plan *plan, sg_port *port, const void **out, sg_error *err)
{
    if (plan->session->apart)
        return sg_staged_result(plan, port, out, err);
    *out = plan->buffer[port->buffer].at;
    return SG_OK;
}

sg_port *sg_plan_result_port(sg_plan *plan, const char *name) { return find_port(plan->result, plan->n_results, name); }

void *sg_plan_input(sg_plan *plan, const char *name)
{
    sg_port *port = find_port(plan->input, plan->n_inputs, name);
    return port ? input_at(plan, port, false) : NULL;
}

void *sg_plan_input_anew(sg_plan *plan, const char *name)
{
    sg_port *port = find_port(plan->input, plan->n_inputs, name);
    return port ? input_at(plan, port, true) : NULL;
}

const void *sg_plan_result(sg_plan *plan, const char *name)
{
    sg_port *port = sg_plan_result_port(plan, name);
    sg_error err = {0};
    const void *at = NULL;
    if (!port)
        return NULL;
    sg_status status = result_at(plan, port, &at, &err);
    sg_session_note(plan->session, status, &err);
    return status == SG_OK ? at : NULL;
}

const sg_shape *sg_plan_input_shape(const sg_plan *plan, const char *name)
{
    const sg_port *port = find_port(plan->input, plan->n_inputs, name);
    return port ? &port->shape : NULL;
}

const sg_shape *sg_plan_result_shape(const sg_plan *plan, const char *name)
{
    const sg_port *port = find_port(plan->result, plan->n_results, name);
    return port ? &port->shape : NULL;
}

static sg_status check_port(const sg_port *port, const char *kind, const char *name, int64_t n, sg_error *err)
{
    if (!port)
        return sg_fail(err, SG_E_NAME, "the plan has no %s '%s'", kind, name);
    char text[SG_SHAPE_TEXT];
    if (sg_shape_count(&port->shape) != n)
        return sg_fail(err, SG_E_SHAPE, "%s '%s' of shape %s does not hold %lld elements", kind, name,
                       sg_shape_format(&port->shape, text, sizeof text), (long long)n);
    return SG_OK;
}

sg_status sg_plan_feed(sg_plan *plan, const char *name, const double *data, int64_t n, sg_error *err)
{
    sg_port *port = find_port(plan->input, plan->n_inputs, name);
    SG_TRY(check_port(port, "input", name, n, err));
    sg_dtype storage = sg_session_storage(plan->session, port->dtype);
    void *memory = input_at(plan, port, true);
    sg_elements_write(storage, memory, data, n);
    for (int64_t i = 0; storage == SG_F64 && !sg_dtype_is_real(port->dtype) && i < n; i++)
        ((double *)memory)[i] = port->dtype == SG_BOOL ? data[i] != 0 : sg_real_to_i32(data[i]);
    return SG_OK;
}

sg_status sg_plan_fetch(sg_plan *plan, const char *name, double *out, int64_t n, sg_error *err)
{
    sg_port *port = find_port(plan->result, plan->n_results, name);
    SG_TRY(check_port(port, "result", name, n, err));
    SG_TRY(sg_session_take_failure(plan->session, err));
    const void *at;
    SG_TRY(result_at(plan, port, &at, err));
    sg_elements_read(sg_session_storage(plan->session, port->dtype), at, out, n);
    return SG_OK;
}
