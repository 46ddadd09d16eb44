/* interpreter.c - the oracle: a graph evaluated node by node in double. */
#include "runtime/reference/interpreter_internal.h"

#include <string.h>

#include "ops/ops.h"
#include "ops/repeat_internal.h"
#include "runtime/leaf_internal.h"

static sg_status out_of_memory(sg_error *err)
{
    return sg_fail(err, SG_E_MEMORY, "out of memory while evaluating on the reference rules");
}

static double *allocate_value(const sg_shape *shape)
{
    int64_t count = sg_shape_count(shape);
    return sg_calloc(count > 0 ? count : 1, sizeof(double));
}

static sg_status eval_rule(const sg_node *node, const sg_tensor64 *in, const sg_dtype *in_dtype, const sg_tensor64 *out,
                           const sg_dtype *out_dtype, sg_run_index run)
{
    sg_eval_args args = {.node = node,
                         .attr = node->attr,
                         .n_in = node->n_in,
                         .n_out = node->n_out,
                         .in = in,
                         .out = out,
                         .in_dtype = in_dtype,
                         .out_dtype = out_dtype,
                         .run = run};
    node->op->eval(&args);
    return SG_OK;
}

/* The decomposition is built in `inner`, a graph of its own whose inputs have the operands' present shapes. */
static sg_status decompose_into(sg_graph *inner, const sg_node *node, const sg_tensor64 *in, const sg_dtype *in_dtype,
                                sg_value *x, sg_value *y, sg_error *err)
{
    for (int32_t k = 0; k < node->n_in; k++) {
        char name[32];
        snprintf(name, sizeof name, "in%d", (int)k);
        x[k] = sg_input(inner, name, in_dtype[k], *in[k].shape);
    }
    for (int32_t k = 0; k < node->n_out; k++)
        y[k] = SG_NONE;
    sg_decompose_args args = {.graph = inner, .node = node, .in = x, .out = y};
    node->op->decompose(&args);
    SG_TRY(sg_graph_status(inner, err));
    for (int32_t k = 0; k < node->n_out; k++)
        if (sg_is_none(y[k]))
            return sg_fail(err, SG_E_GRAPH, "the decomposition of '%s' (%s) leaves output %d out", node->name,
                           node->op->name, (int)k);
    return SG_OK;
}

static sg_status run_decomposition(sg_graph *inner, const sg_node *node, const sg_tensor64 *in, const sg_value *x,
                                   const sg_tensor64 *out, const sg_value *y, sg_run_index run, sg_error *err)
{
    int32_t n = sg_value_count(inner);
    double **data = sg_calloc(n, sizeof *data);
    bool *given = sg_calloc(n, sizeof *given);
    int32_t *root = sg_calloc(node->n_out, sizeof *root);
    sg_status status = data && given && root ? SG_OK : out_of_memory(err);
    if (status == SG_OK) {
        for (int32_t k = 0; k < node->n_in; k++) {
            data[x[k].id] = in[k].data;
            given[x[k].id] = true;
        }
        for (int32_t k = 0; k < node->n_out; k++)
            root[k] = y[k].id;
        status = sg_interpret(inner, data, given, root, node->n_out, run, err);
    }
    for (int32_t k = 0; status == SG_OK && k < node->n_out; k++)
        memcpy(out[k].data, data[y[k].id], (size_t)sg_shape_count(out[k].shape) * sizeof(double));
    if (data && given)
        sg_interpret_release(inner, data, given);
    sg_free(data);
    sg_free(given);
    sg_free(root);
    return status;
}

static sg_status decomposition(const sg_node *node, const sg_tensor64 *in, const sg_dtype *in_dtype,
                               const sg_tensor64 *out, sg_run_index run, sg_error *err)
{
    sg_graph *inner = sg_graph_new();
    sg_value *x = sg_calloc(node->n_in + node->n_out, sizeof *x), *y = x ? x + node->n_in : NULL;
    sg_status status = inner && x ? SG_OK : out_of_memory(err);
    if (status == SG_OK)
        status = decompose_into(inner, node, in, in_dtype, x, y, err);
    if (status == SG_OK)
        status = run_decomposition(inner, node, in, x, out, y, run, err);
    sg_free(x);
    if (inner)
        sg_graph_free(inner);
    return status;
}

sg_status sg_interpret_node(const sg_node *node, const sg_tensor64 *in, const sg_dtype *in_dtype,
                            const sg_tensor64 *out, const sg_dtype *out_dtype, sg_run_index run, sg_error *err)
{
    if (node->op->eval)
        return eval_rule(node, in, in_dtype, out, out_dtype, run);
    if (node->op->decompose)
        return decomposition(node, in, in_dtype, out, run, err);
    return sg_fail(err, SG_E_UNSUPPORTED, "'%s': operator %s has no reference rule", node->name, node->op->name);
}

/* ---------------------------------------------------------------------------------------------------------- loops */

/* State of a loop while it is interpreted: the body's value slots, and the outputs of the node as the states'
 * memory. */
typedef struct loop {
    const sg_node *node;
    sg_graph *body;
    double **data;
    bool *given;
    int32_t *next;
    double *scratch; /* all nexts, side by side: read before any state is written */
} loop;

static void loop_start(loop *l, double *const *outer)
{
    for (int32_t j = 0; j < l->node->n_in; j++) {
        sg_value inner, from;
        sg_body_input_at(l->body, j, &inner, &from);
        l->data[inner.id] = outer[l->node->in[j]];
        l->given[inner.id] = true;
    }
    for (int32_t k = 0; k < l->node->n_out; k++) {
        const sg_shape *shape = sg_shape_of(sg_repeat_inner(l->node, k));
        double *state = outer[l->node->out + k];
        memcpy(state, outer[l->node->in[sg_repeat_output_input(l->node, k)]],
               (size_t)sg_shape_count(shape) * sizeof *state);
        l->data[sg_repeat_inner(l->node, k).id] = state;
        l->next[k] = sg_repeat_next(l->node, k).id;
    }
}

static void loop_commit(loop *l)
{
    double *at = l->scratch;
    for (int32_t k = 0; k < l->node->n_out; k++) {
        int64_t count = sg_shape_count(sg_shape_of(sg_repeat_inner(l->node, k)));
        memcpy(at, l->data[l->next[k]], (size_t)count * sizeof *at);
        at += count;
    }
    at = l->scratch;
    for (int32_t k = 0; k < l->node->n_out; k++) {
        sg_value inner = sg_repeat_inner(l->node, k);
        int64_t count = sg_shape_count(sg_shape_of(inner));
        memcpy(l->data[inner.id], at, (size_t)count * sizeof *at);
        at += count;
    }
}

static sg_status loop_run(loop *l, double *const *outer, sg_run_index run, sg_error *err)
{
    loop_start(l, outer);
    sg_status status = SG_OK;
    int64_t n = sg_repeat_count(l->node);
    for (int64_t i = 0; status == SG_OK && i < n; i++) {
        sg_run_index inside = {run.repeat * (uint64_t)n + (uint64_t)i};
        status = sg_interpret(l->body, l->data, l->given, l->next, l->node->n_out, inside, err);
        if (status == SG_OK)
            loop_commit(l);
        sg_interpret_release(l->body, l->data, l->given);
    }
    return status;
}

static sg_status interpret_repeat(const sg_node *node, double *const *outer, sg_run_index run, sg_error *err)
{
    loop l = {.node = node, .body = sg_repeat_body(node)};
    int64_t total = 1;
    for (int32_t k = 0; k < node->n_out; k++)
        total += sg_shape_count(sg_shape_of(sg_repeat_inner(node, k)));
    l.data = sg_calloc(sg_value_count(l.body), sizeof *l.data);
    l.given = sg_calloc(sg_value_count(l.body), sizeof *l.given);
    l.next = sg_calloc(node->n_out, sizeof *l.next);
    l.scratch = sg_calloc(total, sizeof *l.scratch);
    sg_status status = l.data && l.given && l.next && l.scratch ? loop_run(&l, outer, run, err) : out_of_memory(err);
    sg_free(l.data);
    sg_free(l.given);
    sg_free(l.next);
    sg_free(l.scratch);
    return status;
}

/* ---------------------------------------------------------------------------------------------------------- graphs */

/* Mark the nodes that `root` needs, not looking behind given values. */
static void mark_needed(sg_graph *graph, const bool *given, const int32_t *root, int32_t n, bool *value)
{
    for (int32_t k = 0; k < n; k++)
        value[root[k]] = true;
    for (int32_t i = sg_node_count(graph) - 1; i >= 0; i--) {
        const sg_node *node = sg_node_at(graph, i);
        bool needed = false;
        for (int32_t k = 0; k < node->n_out; k++)
            needed |= value[node->out + k] && !given[node->out + k];
        for (int32_t k = 0; needed && k < node->n_in; k++)
            value[node->in[k]] |= !sg_reads_shape_only(node, k);
    }
}

static sg_status interpret_leaf(sg_graph *graph, const sg_node *node, double *out, sg_error *err)
{
    if (node->op == &sg_op_constant) {
        sg_leaf_constant(graph, node, out);
        return SG_OK;
    }
    if (node->op == &sg_op_param) {
        sg_store *store = sg_graph_store(graph);
        const sg_entry *entry = sg_store_peek(store, sg_leaf_entry(graph, node));
        return sg_store_get(store, entry->name, out, sg_shape_count(&entry->shape), err);
    }
    return sg_fail(err, SG_E_ARGUMENT, "no value was given for the %s '%s'", node->op->name, node->name);
}

static sg_status interpret_rule(sg_graph *graph, const sg_node *node, double *const *data, double *const *result,
                                sg_run_index run, sg_error *err)
{
    int32_t n = node->n_in + node->n_out;
    sg_tensor64 *tensor = sg_calloc(n + 1, sizeof *tensor);
    sg_dtype *dtype = sg_calloc(n + 1, sizeof *dtype);
    sg_status status = tensor && dtype ? SG_OK : out_of_memory(err);
    for (int32_t k = 0; status == SG_OK && k < n; k++) {
        sg_value v = sg_value_at(graph, k < node->n_in ? node->in[k] : node->out + k - node->n_in);
        tensor[k] = (sg_tensor64){sg_shape_of(v), k < node->n_in ? data[v.id] : result[k - node->n_in]};
        dtype[k] = sg_dtype_of(v);
    }
    if (status == SG_OK)
        status = sg_interpret_node(node, tensor, dtype, tensor + node->n_in, dtype + node->n_in, run, err);
    sg_free(tensor);
    sg_free(dtype);
    return status;
}

/* Outputs that are given are computed into memory of their own and dropped. */
static sg_status interpret_one(sg_graph *graph, const sg_node *node, double **data, const bool *given, sg_run_index run,
                               sg_error *err)
{
    double **result = sg_calloc(node->n_out, sizeof *result);
    sg_status status = result ? SG_OK : out_of_memory(err);
    for (int32_t k = 0; status == SG_OK && k < node->n_out; k++) {
        result[k] = allocate_value(sg_shape_of(sg_value_at(graph, node->out + k)));
        if (!result[k])
            status = out_of_memory(err);
        else if (!given[node->out + k])
            data[node->out + k] = result[k];
    }
    if (status == SG_OK && node->op->flags & SG_OP_LEAF)
        status = interpret_leaf(graph, node, result[0], err);
    else if (status == SG_OK && node->op == &sg_op_repeat)
        status = interpret_repeat(node, data, run, err);
    else if (status == SG_OK)
        status = interpret_rule(graph, node, data, result, run, err);
    for (int32_t k = 0; result && k < node->n_out; k++)
        if (given[node->out + k])
            sg_free(result[k]);
    sg_free(result);
    return status;
}

sg_status sg_interpret(sg_graph *graph, double **data, const bool *given, const int32_t *root, int32_t n,
                       sg_run_index run, sg_error *err)
{
    bool *needed = sg_calloc(sg_value_count(graph) + 1, sizeof *needed);
    if (!needed)
        return out_of_memory(err);
    mark_needed(graph, given, root, n, needed);
    sg_status status = SG_OK;
    for (int32_t i = 0; status == SG_OK && i < sg_node_count(graph); i++) {
        const sg_node *node = sg_node_at(graph, i);
        bool wanted = false;
        for (int32_t k = 0; k < node->n_out; k++)
            wanted |= needed[node->out + k] && !given[node->out + k];
        if (wanted)
            status = interpret_one(graph, node, data, given, run, err);
    }
    sg_free(needed);
    return status;
}

void sg_interpret_release(sg_graph *graph, double **data, const bool *given)
{
    for (int32_t v = 0; v < sg_value_count(graph); v++)
        if (!given[v]) {
            sg_free(data[v]);
            data[v] = NULL;
        }
}
