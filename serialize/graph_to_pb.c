/* graph_to_pb.c - a graph as a message: the nodes that its results and effects need, and all its inputs.
 *
 * Values are renumbered over the nodes that are kept, so that what else was built in the graph leaves no trace. */
#include <string.h>

#include "ops/repeat_internal.h"
#include "serialize/model_internal.h"

struct pool_block {
    struct pool_block *next;
    _Alignas(16) char bytes[];
};

typedef struct writer {
    SgPb__Model *out;
    sgi_pool *pool;
    size_t capacity; /* of out->graphs */
    bool failed;     /* out of memory */
} writer;

void *sgi_pool_take(sgi_pool *pool, int64_t count, size_t bytes)
{
    int64_t total;
    if (!sg_mul_ok(count, (int64_t)bytes, &total) || total > INT64_MAX / 2)
        return NULL;
    struct pool_block *block = sg_calloc(1, sizeof *block + (size_t)total);
    if (!block)
        return NULL;
    block->next = pool->blocks;
    pool->blocks = block;
    return block->bytes;
}

void sgi_pool_free(sgi_pool *pool)
{
    for (struct pool_block *b = pool->blocks, *next; b; b = next) {
        next = b->next;
        sg_free(b);
    }
    pool->blocks = NULL;
}

static void *take(writer *w, int64_t count, size_t bytes)
{
    void *p = sgi_pool_take(w->pool, count, bytes);
    w->failed |= !p;
    return p;
}

/* An array of `count` pointers to zeroed objects of `bytes` each. */
static void *take_array(writer *w, int64_t count, size_t bytes)
{
    char **pointers = take(w, count, sizeof *pointers), *objects = take(w, count, bytes);
    for (int64_t i = 0; pointers && objects && i < count; i++)
        pointers[i] = objects + (size_t)i * bytes;
    return objects ? pointers : NULL;
}

static void write_type(writer *w, SgPb__Type *out, sg_dtype dtype, const sg_shape *shape, bool names)
{
    sg_pb__type__init(out);
    out->dtype = (char *)sg_dtype_name(dtype);
    out->dims = take(w, shape->rank, sizeof *out->dims);
    if (!out->dims)
        return;
    out->n_dims = (size_t)shape->rank;
    memcpy(out->dims, shape->dim, out->n_dims * sizeof *out->dims);
    bool any = false;
    for (int32_t i = 0; i < shape->rank; i++)
        any |= shape->name[i] != NULL;
    if (!any || !names || !(out->names = take(w, shape->rank, sizeof *out->names)))
        return;
    out->n_names = out->n_dims;
    for (int32_t i = 0; i < shape->rank; i++)
        out->names[i] = (char *)(shape->name[i] ? shape->name[i] : "");
}

/* ---- what is kept */

static void mark_param(sg_graph *top, const char *name, bool *live)
{
    for (int32_t n = 0; n < sg_node_count(top); n++) {
        const sg_node *node = sg_node_at(top, n);
        if (node->op == &sg_op_param && strcmp(node->attr[0].s, name) == 0)
            live[n] = true;
    }
}

/* A loop that assigns an entry names it when it is read back, even if the value at the graph's start is never used. */
static void mark_assigned(sg_graph *top, sg_graph *body, bool *live)
{
    for (int32_t i = 0; i < sg_body_entry_count(body); i++) {
        int32_t entry;
        sg_value inner, next;
        sg_body_entry_at(body, i, &entry, &inner, &next);
        mark_param(top, sg_store_peek(sg_graph_store(top), entry)->name, live);
    }
    for (int32_t n = 0; n < sg_node_count(body); n++) {
        const sg_node *node = sg_node_at(body, n);
        if (node->op == &sg_op_repeat)
            mark_assigned(top, sg_repeat_body(node), live);
    }
}

static bool *mark_live(writer *w, sg_graph *graph)
{
    int32_t results = sg_result_count(graph), effects = sg_effect_count(graph);
    bool *live = take(w, sg_node_count(graph), sizeof *live);
    int32_t *roots = take(w, results + 2 * (int64_t)effects, sizeof *roots);
    if (!live || !roots)
        return NULL;
    for (int32_t i = 0; i < results; i++)
        roots[i] = sg_result_value(graph, i).id;
    for (int32_t i = 0; i < effects; i++) {
        int32_t entry;
        sg_value start, end;
        sg_body_entry_at(graph, i, &entry, &start, &end);
        roots[results + 2 * i] = start.id;
        roots[results + 2 * i + 1] = end.id;
    }
    sg_graph_reach(graph, roots, results + 2 * effects, true, live);
    for (int32_t n = 0; n < sg_node_count(graph); n++) {
        const sg_node *node = sg_node_at(graph, n);
        live[n] |= node->op == &sg_op_input || node->op == &sg_op_capture;
        if (live[n] && node->op == &sg_op_repeat && !sg_body_parent(graph))
            mark_assigned(graph, sg_repeat_body(node), live);
    }
    return live;
}

/* ---- nodes */

static void write_graph(writer *w, sg_graph *graph, uint32_t *index);

static void write_attr(writer *w, SgPb__Attr *out, const sg_attr_spec *spec, const sg_attr *attr)
{
    sg_pb__attr__init(out);
    out->name = (char *)spec->name;
    out->kind = (uint32_t)spec->kind;
    switch (spec->kind) {
    case SG_ATTR_INT:
        out->n_ints = 1;
        out->ints = (int64_t *)&attr->i;
        break;
    case SG_ATTR_REAL:
        out->n_reals = 1;
        out->reals = (double *)&attr->f;
        break;
    case SG_ATTR_TEXT:
        out->text = (char *)attr->s;
        break;
    case SG_ATTR_INTS:
        out->n_ints = (size_t)attr->count;
        out->ints = (int64_t *)attr->ints;
        break;
    case SG_ATTR_REALS:
        out->n_reals = (size_t)attr->count;
        out->reals = (double *)attr->reals;
        break;
    case SG_ATTR_GRAPH:
        write_graph(w, attr->graph, &out->graph);
        break;
    }
}

static void write_node(writer *w, sg_graph *graph, const sg_node *node, SgPb__Node *out, uint32_t *number,
                       uint32_t *next)
{
    sg_pb__node__init(out);
    out->op = (char *)node->op->name;
    out->name = (char *)node->name;
    out->attrs = take_array(w, node->op->n_attrs, sizeof **out->attrs);
    out->inputs = take(w, node->n_in, sizeof *out->inputs);
    out->outputs = take_array(w, node->n_out, sizeof **out->outputs);
    if (w->failed)
        return;
    out->n_attrs = (size_t)node->op->n_attrs;
    out->n_inputs = (size_t)node->n_in;
    out->n_outputs = (size_t)node->n_out;
    for (int32_t i = 0; i < node->op->n_attrs; i++)
        write_attr(w, out->attrs[i], &node->op->attrs[i], &node->attr[i]);
    for (int32_t k = 0; k < node->n_in; k++)
        out->inputs[k] = number[node->in[k]];
    for (int32_t k = 0; k < node->n_out; k++) {
        sg_value v = sg_value_at(graph, node->out + k);
        number[v.id] = (*next)++;
        write_type(w, out->outputs[k], sg_dtype_of(v), sg_shape_of(v), node->op->flags & SG_OP_LEAF);
    }
}

static uint32_t input_of(const sg_graph *body, sg_value inner)
{
    for (int32_t j = 0; j < sg_body_input_count(body); j++) {
        sg_value candidate, outer;
        sg_body_input_at(body, j, &candidate, &outer);
        if (candidate.id == inner.id)
            return (uint32_t)j;
    }
    return 0; /* top graphs: entries enter as param nodes */
}

static void write_ends(writer *w, sg_graph *graph, SgPb__Graph *out, const uint32_t *number)
{
    int32_t results = sg_result_count(graph), effects = sg_effect_count(graph);
    out->results = take_array(w, results, sizeof **out->results);
    out->effects = take_array(w, effects, sizeof **out->effects);
    if (w->failed)
        return;
    out->n_results = (size_t)results;
    out->n_effects = (size_t)effects;
    for (int32_t i = 0; i < results; i++) {
        sg_pb__result__init(out->results[i]);
        out->results[i]->name = (char *)sg_result_name(graph, i);
        out->results[i]->value = number[sg_result_value(graph, i).id];
    }
    for (int32_t i = 0; i < effects; i++) {
        int32_t entry;
        sg_value start, end;
        sg_body_entry_at(graph, i, &entry, &start, &end);
        sg_pb__effect__init(out->effects[i]);
        out->effects[i]->entry = (char *)sg_store_peek(sg_graph_store(graph), entry)->name;
        out->effects[i]->value = number[end.id];
        out->effects[i]->input = input_of(graph, start);
    }
}

/* A place for one more graph, before the bodies in it take theirs. */
static SgPb__Graph *add_graph(writer *w, uint32_t *index)
{
    SgPb__Model *m = w->out;
    if (m->n_graphs == w->capacity) {
        size_t wider = w->capacity ? 2 * w->capacity : 8;
        SgPb__Graph **grown = take(w, (int64_t)wider, sizeof *grown);
        if (!grown)
            return NULL;
        if (m->n_graphs)
            memcpy(grown, m->graphs, m->n_graphs * sizeof *grown);
        m->graphs = grown;
        w->capacity = wider;
    }
    SgPb__Graph *graph = take(w, 1, sizeof *graph);
    if (!graph)
        return NULL;
    sg_pb__graph__init(graph);
    *index = (uint32_t)m->n_graphs;
    m->graphs[m->n_graphs++] = graph;
    return graph;
}

static void write_graph(writer *w, sg_graph *graph, uint32_t *index)
{
    SgPb__Graph *out = add_graph(w, index);
    bool *live = out ? mark_live(w, graph) : NULL;
    uint32_t *number = live ? take(w, sg_value_count(graph), sizeof *number) : NULL, next = 0;
    int32_t count = 0;
    for (int32_t n = 0; live && n < sg_node_count(graph); n++)
        count += live[n];
    if (!number || !(out->nodes = take_array(w, count, sizeof **out->nodes)))
        return;
    for (int32_t n = 0; n < sg_node_count(graph) && !w->failed; n++)
        if (live[n]) {
            write_node(w, graph, sg_node_at(graph, n), out->nodes[out->n_nodes], number, &next);
            out->n_nodes++;
        }
    write_ends(w, graph, out, number);
}

/* ---- entries: those that a kept param node names, in the store's order */

static void write_entries(writer *w, sg_graph *graph)
{
    sg_store *store = sg_graph_store(graph);
    int32_t count = store ? sg_store_count(store) : 0;
    bool *used = take(w, count, sizeof *used);
    SgPb__Model *m = w->out;
    m->entries = take_array(w, count, sizeof **m->entries);
    if (w->failed)
        return;
    for (size_t n = 0; n < m->graphs[0]->n_nodes; n++)
        if (strcmp(m->graphs[0]->nodes[n]->op, sg_op_param.name) == 0)
            used[sg_store_find(store, m->graphs[0]->nodes[n]->attrs[0]->text)] = true;
    for (int32_t i = 0; i < count; i++) {
        if (!used[i])
            continue;
        const sg_entry *e = sg_store_peek(store, i);
        SgPb__Entry *out = m->entries[m->n_entries++];
        sg_pb__entry__init(out);
        out->name = (char *)e->name;
        out->init = (uint32_t)e->init.kind;
        out->trainable = e->trainable;
        out->type = take(w, 1, sizeof *out->type);
        out->bounds = take(w, 2, sizeof *out->bounds);
        if (w->failed)
            return;
        out->n_bounds = 2;
        out->bounds[0] = e->init.a;
        out->bounds[1] = e->init.b;
        write_type(w, out->type, e->dtype, &e->shape, false);
    }
}

sg_status sgi_graph_to_pb(sg_graph *graph, SgPb__Model *out, sgi_pool *pool, sg_error *err)
{
    SG_TRY(sg_graph_verify(graph, err));
    writer w = {out, pool, 0, false};
    uint32_t top;
    write_graph(&w, graph, &top);
    if (!w.failed)
        write_entries(&w, graph);
    return w.failed ? sg_fail(err, SG_E_MEMORY, "out of memory for the description of a graph") : SG_OK;
}
