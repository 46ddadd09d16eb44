/* graph_from_pb.c - a graph from its message, through the public builders, so that every shape rule judges it.
 *
 * Nothing in the message is believed: names are looked up, counts compared with the schema, references must point back,
 * and what a shape rule answers must be what the message states. The first fault ends the reading.
 *
 * Entries in loops. A body that assigns an entry starts from the version that the enclosing graph had when the loop was
 * built. That version is the loop node's operand, so it is made current while the body input is created and put back
 * after; what a graph assigns in the end is applied when all its nodes are there. */
#include <string.h>

#include "ops/repeat_internal.h"
#include "serialize/model_internal.h"

enum { NODES_LIMIT = 1 << 22, ATTR_LIMIT = 1 << 28, NAME_LIMIT = 4096, ENTRY_NAME_LIMIT = 500, DEPTH_LIMIT = 32 };

typedef struct reader {
    const SgPb__Model *in;
    sg_graph *top;
    sg_store *store;
    const char *path;
    sg_error *err;
    size_t graphs; /* read so far */
    int depth;
} reader;

/* A graph being read. */
typedef struct frame {
    const SgPb__Graph *in;
    sg_graph *graph;
    sg_value *values; /* of the message's numbering */
    uint32_t count;
    const sg_value *outer; /* bodies: the loop's operands, of which `states` are states */
    size_t n_outer, captures;
    int64_t states;
    const SgPb__Node *node; /* being read, for messages; NULL outside nodes */
    size_t index;
} frame;

static sg_status bad(reader *r, const frame *f, const char *fmt, ...) SG_PRINTF(3, 4);
static sg_status bad(reader *r, const frame *f, const char *fmt, ...)
{
    char text[SG_ERROR_TEXT];
    va_list list;
    va_start(list, fmt);
    vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    if (!f || !f->node)
        return sg_fail_at(r->err, SG_E_DATA, r->path, 0, 0, "not a valid model: %s", text);
    sg_status status = sg_fail_at(r->err, SG_E_DATA, r->path, 0, 0, "not a valid model: node %zu '%.80s' (%.40s): %s",
                                  f->index, f->node->name, f->node->op, text);
    if (r->err) {
        snprintf(r->err->node, sizeof r->err->node, "%s", f->node->name);
        snprintf(r->err->op, sizeof r->err->op, "%s", f->node->op);
    }
    return status;
}

/* A fault that the builders found; running out of memory is no fault of the file. */
static sg_status check_built(reader *r, const frame *f)
{
    sg_error err;
    sg_status status = sg_graph_status(r->top, &err);
    if (status == SG_E_MEMORY)
        return sg_fail(r->err, SG_E_MEMORY, "out of memory for the graph of %s", r->path);
    return status == SG_OK ? SG_OK : bad(r, f, "%s", err.text);
}

static sg_status no_memory(reader *r) { return sg_fail(r->err, SG_E_MEMORY, "out of memory for %s", r->path); }

/* ---- types */

static sg_status read_type(reader *r, const frame *f, const SgPb__Type *in, sg_dtype *dtype, sg_shape *shape)
{
    if (!in || !sg_dtype_parse(in->dtype, dtype))
        return bad(r, f, "unknown dtype '%.20s'", in ? in->dtype : "");
    if (in->n_dims > SG_MAX_RANK)
        return bad(r, f, "rank %zu is over %d", in->n_dims, SG_MAX_RANK);
    if (in->n_names && in->n_names != in->n_dims)
        return bad(r, f, "%zu names of %zu dimensions", in->n_names, in->n_dims);
    *shape = (sg_shape){(int32_t)in->n_dims, {0}, {0}};
    for (size_t i = 0; i < in->n_dims; i++) {
        shape->dim[i] = in->dims[i];
        if (shape->dim[i] < 0)
            return bad(r, f, "a dimension of size %lld", (long long)shape->dim[i]);
        if (i < in->n_names && strlen(in->names[i]) > NAME_LIMIT)
            return bad(r, f, "a dimension's name is too long");
        if (i < in->n_names && in->names[i][0])
            shape->name[i] = in->names[i];
    }
    return sg_shape_count(shape) < 0 ? bad(r, f, "too many elements") : SG_OK;
}

static sg_status read_entries(reader *r)
{
    for (size_t i = 0; i < r->in->n_entries; i++) {
        const SgPb__Entry *e = r->in->entries[i];
        sg_dtype dtype;
        sg_shape shape;
        sg_error err;
        int32_t index;
        SG_TRY(read_type(r, NULL, e->type, &dtype, &shape));
        if (!e->name[0] || strlen(e->name) > ENTRY_NAME_LIMIT || e->init > SG_INIT_NORMAL || e->n_bounds != 2)
            return bad(r, NULL, "entry '%.80s' is malformed", e->name);
        if (e->trainable && dtype != SG_F32)
            return bad(r, NULL, "entry '%.80s' is trained and not f32", e->name);
        sg_init init = {(sg_init_kind)e->init, e->bounds[0], e->bounds[1]};
        sg_status status = sg_store_add(r->store, e->name, dtype, &shape, init, e->trainable, &index, &err);
        if (status == SG_E_MEMORY)
            return no_memory(r);
        if (status != SG_OK || index != (int32_t)i)
            return bad(r, NULL, "entry '%.80s': %s", e->name, status != SG_OK ? err.text : "it comes twice");
    }
    return SG_OK;
}

/* ---- leaves */

/* The current version of an entry in `graph`. */
static sg_status use_entry(reader *r, const frame *f, sg_graph *graph, const char *name, sg_value *out, int32_t *index)
{
    *index = sg_store_find(r->store, name);
    if (*index < 0)
        return bad(r, f, "the model has no entry '%.80s'", name);
    const sg_entry *e = sg_store_peek(r->store, *index);
    sg_scope scope = sg_scope_in(sg_scope_root(r->top, r->store), graph);
    *out = e->trainable ? sg_param(scope, e->name, e->shape, e->init)
                        : sg_state(scope, e->name, e->dtype, e->shape, e->init);
    return check_built(r, f);
}

static sg_status read_constant(reader *r, frame *f, const sg_attr *attr, sg_value *out)
{
    sg_dtype dtype;
    sg_shape shape;
    SG_TRY(read_type(r, f, f->node->outputs[0], &dtype, &shape));
    *out = sg_constant(f->graph, dtype, shape, attr->reals, attr->count);
    return SG_OK;
}

static sg_status read_input(reader *r, frame *f, const sg_attr *attr, sg_value *out)
{
    sg_dtype dtype;
    sg_shape shape;
    SG_TRY(read_type(r, f, f->node->outputs[0], &dtype, &shape));
    *out = sg_input(f->graph, attr->s, dtype, shape);
    return SG_OK;
}

static const SgPb__Effect *effect_of_input(const frame *f, size_t input)
{
    for (size_t i = 0; i < f->in->n_effects; i++)
        if (f->in->effects[i]->input == input)
            return f->in->effects[i];
    return NULL;
}

static sg_status read_assigned(reader *r, frame *f, const char *entry, sg_value outer, sg_value *out)
{
    sg_graph *parent = sg_body_parent(f->graph);
    sg_value before;
    int32_t index, inputs = sg_body_input_count(f->graph);
    SG_TRY(use_entry(r, f, parent, entry, &before, &index));
    sg_rebind(parent, index, outer);
    SG_TRY(use_entry(r, f, f->graph, entry, out, &index));
    sg_rebind(parent, index, before);
    return sg_body_input_count(f->graph) == inputs + 1 ? SG_OK : bad(r, f, "entry '%.80s' enters twice", entry);
}

static sg_status read_capture(reader *r, frame *f, const sg_attr *attr, sg_value *out)
{
    size_t j = f->captures++;
    if (attr->i < 0 || (uint64_t)attr->i != j || j >= f->n_outer)
        return bad(r, f, "input %lld of a loop body where input %zu of %zu is due", (long long)attr->i, j, f->n_outer);
    const SgPb__Effect *effect = effect_of_input(f, j);
    if ((int64_t)j < f->states)
        *out = sg_body_state(f->graph, f->outer[j]);
    else if (effect)
        return read_assigned(r, f, effect->entry, f->outer[j], out);
    else
        *out = sg_capture(f->graph, f->outer[j]);
    return SG_OK;
}

static sg_status read_leaf(reader *r, frame *f, const sg_op *op, const sg_attr *attr, sg_value *out)
{
    int32_t index;
    bool body = sg_body_parent(f->graph) != NULL;
    if (f->node->n_inputs || f->node->n_outputs != 1)
        return bad(r, f, "a leaf with %zu inputs and %zu outputs", f->node->n_inputs, f->node->n_outputs);
    if (op == &sg_op_constant)
        return read_constant(r, f, attr, out);
    if (op == &sg_op_capture && body)
        return read_capture(r, f, attr, out);
    if (op == &sg_op_input && !body)
        return read_input(r, f, attr, out);
    if (op == &sg_op_param && !body)
        return use_entry(r, f, f->graph, attr->s, out, &index);
    return bad(r, f, "it may not stand %s a loop body", body ? "in" : "outside");
}

/* ---- attributes and inner nodes */

static sg_status read_attr(reader *r, frame *f, const sg_attr_spec *spec, const SgPb__Attr *in, sg_attr *out)
{
    if (strcmp(in->name, spec->name) != 0 || in->kind != (uint32_t)spec->kind)
        return bad(r, f, "attribute '%.40s' of kind %u where '%s' of kind %d is due", in->name, (unsigned)in->kind,
                   spec->name, (int)spec->kind);
    if (in->n_ints > ATTR_LIMIT || in->n_reals > ATTR_LIMIT || strlen(in->text) > NAME_LIMIT)
        return bad(r, f, "attribute '%s' is too long", spec->name);
    if ((spec->kind == SG_ATTR_INT && in->n_ints != 1) || (spec->kind == SG_ATTR_REAL && in->n_reals != 1))
        return bad(r, f, "attribute '%s' is not one number", spec->name);
    static const int64_t no_ints[1];
    static const double no_reals[1];
    switch (spec->kind) {
    case SG_ATTR_INT:
        *out = sg_attr_int(in->ints[0]);
        break;
    case SG_ATTR_REAL:
        *out = sg_attr_real(in->reals[0]);
        break;
    case SG_ATTR_TEXT:
        *out = sg_attr_text(in->text);
        break;
    case SG_ATTR_INTS:
        *out = sg_attr_ints(in->n_ints ? in->ints : no_ints, (int64_t)in->n_ints);
        break;
    case SG_ATTR_REALS:
        *out = sg_attr_reals(in->n_reals ? in->reals : no_reals, (int64_t)in->n_reals);
        break;
    case SG_ATTR_GRAPH:
        *out = sg_attr_graph(NULL); /* read with the loop, which knows its states */
        break;
    }
    return SG_OK;
}

static sg_status read_frame(reader *r, frame *f);

/* The body of a loop: its inputs start from the loop's operands. */
static sg_status read_body(reader *r, frame *f, const sg_value *operands, sg_attr *attr)
{
    uint32_t index = f->node->attrs[SG_REPEAT_BODY]->graph;
    if (index != r->graphs || index >= r->in->n_graphs)
        return bad(r, f, "body %u where %zu of %zu is due", (unsigned)index, r->graphs, r->in->n_graphs);
    if (r->depth == DEPTH_LIMIT)
        return bad(r, f, "loops are nested more than %d deep", DEPTH_LIMIT);
    sg_graph *body = sg_body_new(f->graph);
    if (!body)
        return no_memory(r);
    frame inner = {.in = r->in->graphs[r->graphs++],
                   .graph = body,
                   .outer = operands,
                   .n_outer = f->node->n_inputs,
                   .states = attr[SG_REPEAT_STATES].i};
    r->depth++;
    sg_status status = read_frame(r, &inner);
    r->depth--;
    if (status == SG_OK && inner.captures != inner.n_outer)
        status = bad(r, f, "its body has %zu inputs, the loop %zu", inner.captures, inner.n_outer);
    attr[SG_REPEAT_BODY].graph = body;
    return status;
}

/* The operands are taken from the body: what came twice in the message is one input there. */
static sg_status build_loop(reader *r, frame *f, const sg_op *op, const sg_value *in, sg_attr *attr, sg_value *out)
{
    SG_TRY(read_body(r, f, in, attr));
    sg_graph *body = attr[SG_REPEAT_BODY].graph;
    int32_t n = sg_body_input_count(body);
    sg_value *operands = sg_calloc(n + 1, sizeof *operands);
    if (!operands)
        return no_memory(r);
    for (int32_t j = 0; j < n; j++) {
        sg_value start;
        sg_body_input_at(body, j, &start, &operands[j]);
    }
    *out = sg_build(f->graph, op, operands, n, attr);
    sg_free(operands);
    return SG_OK;
}

static sg_status build_inner(reader *r, frame *f, const sg_op *op, sg_attr *attr, sg_value *out)
{
    const SgPb__Node *node = f->node;
    if (op->n_in >= 0 && (size_t)op->n_in != node->n_inputs)
        return bad(r, f, "%zu inputs instead of %d", node->n_inputs, op->n_in);
    sg_value *in = sg_calloc((int64_t)node->n_inputs + 1, sizeof *in);
    if (!in)
        return no_memory(r);
    sg_status status = SG_OK;
    for (size_t k = 0; status == SG_OK && k < node->n_inputs; k++) {
        if (node->inputs[k] >= f->count)
            status = bad(r, f, "input %zu refers to value %u, which does not come before the node", k,
                         (unsigned)node->inputs[k]);
        else
            in[k] = f->values[node->inputs[k]];
    }
    if (status == SG_OK && op == &sg_op_repeat)
        status = build_loop(r, f, op, in, attr, out);
    else if (status == SG_OK)
        *out = sg_build(f->graph, op, in, (int32_t)node->n_inputs, attr);
    sg_free(in);
    return status;
}

/* ---- nodes */

static sg_status check_outputs(reader *r, frame *f, sg_value first)
{
    const SgPb__Node *node = f->node;
    if ((size_t)sg_node_of(first)->n_out != node->n_outputs)
        return bad(r, f, "%zu outputs instead of %d", node->n_outputs, sg_node_of(first)->n_out);
    for (size_t k = 0; k < node->n_outputs; k++) {
        sg_dtype dtype;
        sg_shape shape;
        char had[SG_SHAPE_TEXT], wants[SG_SHAPE_TEXT];
        SG_TRY(read_type(r, f, node->outputs[k], &dtype, &shape));
        sg_value v = sg_output_of(first, (int32_t)k);
        if (sg_dtype_of(v) != dtype || !sg_shape_equal(sg_shape_of(v), &shape))
            return bad(r, f, "output %zu is said to be %s %s and is %s %s", k, sg_dtype_name(dtype),
                       sg_shape_format(&shape, had, sizeof had), sg_dtype_name(sg_dtype_of(v)),
                       sg_shape_format(sg_shape_of(v), wants, sizeof wants));
        f->values[f->count++] = v;
    }
    return SG_OK;
}

static sg_status read_node(reader *r, frame *f)
{
    const SgPb__Node *node = f->node;
    const sg_op *op = sg_op_find(node->op);
    if (!op)
        return bad(r, f, "unknown operator: the model may come from a newer version");
    if (node->n_attrs != (size_t)op->n_attrs)
        return bad(r, f, "%zu attributes instead of %d", node->n_attrs, op->n_attrs);
    if (strlen(node->name) > NAME_LIMIT || node->n_inputs > NODES_LIMIT)
        return bad(r, f, "its name or list of inputs is too long");
    sg_attr *attr = sg_calloc(op->n_attrs + 1, sizeof *attr);
    if (!attr)
        return no_memory(r);
    sg_status status = SG_OK;
    sg_value out = SG_NONE;
    for (int32_t i = 0; status == SG_OK && i < op->n_attrs; i++)
        status = read_attr(r, f, &op->attrs[i], node->attrs[i], &attr[i]);
    if (status == SG_OK)
        status = op->flags & SG_OP_LEAF ? read_leaf(r, f, op, attr, &out) : build_inner(r, f, op, attr, &out);
    sg_free(attr);
    SG_TRY(status);
    SG_TRY(check_built(r, f));
    sg_named(out, node->name);
    return check_outputs(r, f, out);
}

static sg_status read_ends(reader *r, frame *f)
{
    for (size_t i = 0; i < f->in->n_results; i++) {
        const SgPb__Result *result = f->in->results[i];
        if (result->value >= f->count || strlen(result->name) > NAME_LIMIT)
            return bad(r, f, "result '%.80s' is malformed", result->name);
        sg_result(f->graph, result->name, f->values[result->value]);
    }
    for (size_t i = 0; i < f->in->n_effects; i++) {
        const SgPb__Effect *effect = f->in->effects[i];
        sg_value now;
        int32_t entry;
        SG_TRY(use_entry(r, f, f->graph, effect->entry, &now, &entry));
        if (effect->value >= f->count)
            return bad(r, f, "entry '%.80s' is assigned an unknown value", effect->entry);
        sg_rebind(f->graph, entry, f->values[effect->value]);
    }
    return check_built(r, f);
}

static sg_status read_frame(reader *r, frame *f)
{
    size_t values = 0;
    if (f->in->n_nodes > NODES_LIMIT)
        return bad(r, NULL, "%zu nodes are over the limit of %d", f->in->n_nodes, NODES_LIMIT);
    for (size_t n = 0; n < f->in->n_nodes; n++)
        values += f->in->nodes[n]->n_outputs;
    if (values > NODES_LIMIT)
        return bad(r, NULL, "%zu values are over the limit of %d", values, NODES_LIMIT);
    f->values = sg_calloc((int64_t)values + 1, sizeof *f->values);
    sg_status status = f->values ? SG_OK : no_memory(r);
    for (f->index = 0; status == SG_OK && f->index < f->in->n_nodes; f->index++) {
        f->node = f->in->nodes[f->index];
        status = read_node(r, f);
    }
    f->node = NULL;
    if (status == SG_OK)
        status = read_ends(r, f);
    sg_free(f->values);
    return status;
}

sg_status sgi_graph_from_pb(const SgPb__Model *in, sg_graph *graph, sg_store *store, const char *path, sg_error *err)
{
    reader r = {.in = in, .top = graph, .store = store, .path = path, .err = err};
    SG_TRY(read_entries(&r));
    if (in->n_graphs == 0)
        return bad(&r, NULL, "it has no graph");
    sg_scope_root(graph, store);
    frame top = {.in = in->graphs[r.graphs++], .graph = graph};
    SG_TRY(read_frame(&r, &top));
    if (r.graphs != in->n_graphs)
        return bad(&r, NULL, "%zu graphs, %zu of them used", in->n_graphs, r.graphs);
    sg_error broken;
    sg_status status = sg_graph_verify(graph, &broken);
    return status == SG_OK || status == SG_E_MEMORY ? status : bad(&r, NULL, "%s", broken.text);
}
