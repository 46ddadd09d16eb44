/* build.c - adding nodes: checks, shape rules, and one node for equal expressions. */
#include "graph/graph_internal.h"
#include "graph/random_internal.h"

#include <math.h>
#include <string.h>

bool sgi_attr_equal(const sg_attr *a, const sg_attr *b)
{
    if (a->kind != b->kind || a->count != b->count)
        return false;
    switch (a->kind) {
    case SG_ATTR_INT:
        return a->i == b->i;
    case SG_ATTR_REAL:
        return memcmp(&a->f, &b->f, sizeof a->f) == 0; /* bits: NaN equals itself, -0 differs from 0 */
    case SG_ATTR_TEXT:
        return strcmp(a->s, b->s) == 0;
    case SG_ATTR_INTS:
        return a->count == 0 || memcmp(a->ints, b->ints, (size_t)a->count * sizeof *a->ints) == 0;
    case SG_ATTR_REALS:
        return a->count == 0 || memcmp(a->reals, b->reals, (size_t)a->count * sizeof *a->reals) == 0;
    case SG_ATTR_GRAPH:
        return a->graph == b->graph;
    }
    return false;
}

static uint64_t hash_bytes(uint64_t h, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    for (; bytes >= sizeof(uint64_t); p += sizeof(uint64_t), bytes -= sizeof(uint64_t)) {
        uint64_t word; /* constants are long: by words, whose high bits reach the low ones by the shift */
        memcpy(&word, p, sizeof word);
        h = (h ^ word) * 0x100000001b3u;
        h ^= h >> 32;
    }
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static uint64_t hash_attr(uint64_t h, const sg_attr *a)
{
    switch (a->kind) {
    case SG_ATTR_INT:
        return hash_bytes(h, &a->i, sizeof a->i);
    case SG_ATTR_REAL:
        return hash_bytes(h, &a->f, sizeof a->f);
    case SG_ATTR_TEXT:
        return hash_bytes(h, a->s, strlen(a->s));
    case SG_ATTR_INTS:
        return hash_bytes(h, a->ints, (size_t)a->count * sizeof *a->ints);
    case SG_ATTR_REALS:
        return hash_bytes(h, a->reals, (size_t)a->count * sizeof *a->reals);
    case SG_ATTR_GRAPH:
        return hash_bytes(h, &a->graph, sizeof a->graph);
    }
    return h;
}

static uint64_t hash_node(const sg_op *op, const int32_t *in, int32_t n_in, const sg_attr *attr)
{
    uint64_t h = hash_bytes(0xcbf29ce484222325u, &op, sizeof op);
    h = hash_bytes(h, in, (size_t)n_in * sizeof *in);
    for (int32_t i = 0; i < op->n_attrs; i++)
        h = hash_attr(h, &attr[i]);
    return sg_mix64(h);
}

/* Leaves carry their shape beside the attributes, so it takes part in the comparison; rules give equal shapes elsewhere. */
static bool same_node(const sg_graph *g, const sg_node *node, const sg_op *op, const int32_t *in, int32_t n_in,
                      const sg_attr *attr, const sg_dtype *dtype, const sg_shape *shape)
{
    if (node->op != op || node->n_in != n_in || (n_in && memcmp(node->in, in, (size_t)n_in * sizeof *in) != 0))
        return false;
    for (int32_t i = 0; i < op->n_attrs; i++)
        if (!sgi_attr_equal(&node->attr[i], &attr[i]))
            return false;
    return !dtype || (g->values[node->out]->dtype == *dtype && sg_shape_equal(&g->values[node->out]->shape, shape));
}

static bool rehash(sg_graph *g)
{
    int32_t wider = g->n_buckets ? g->n_buckets * 2 : 256;
    int32_t *table = sg_calloc(wider, sizeof *table);
    if (!table)
        return false;
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const sg_node *node = g->nodes[n];
        uint64_t at = hash_node(node->op, node->in, node->n_in, node->attr) & (uint64_t)(wider - 1);
        while (table[at])
            at = (at + 1) & (uint64_t)(wider - 1);
        table[at] = n + 1;
    }
    sg_free(g->buckets);
    g->buckets = table;
    g->n_buckets = wider;
    return true;
}

/* The slot of an equal node, or the free slot where it would stand. */
static int32_t *find_slot(sg_graph *g, const sg_op *op, const int32_t *in, int32_t n_in, const sg_attr *attr,
                          const sg_dtype *dtype, const sg_shape *shape)
{
    if (2 * (g->n_nodes + 1) > g->n_buckets && !rehash(g))
        return NULL;
    uint64_t mask = (uint64_t)(g->n_buckets - 1), at = hash_node(op, in, n_in, attr) & mask;
    while (g->buckets[at] && !same_node(g, g->nodes[g->buckets[at] - 1], op, in, n_in, attr, dtype, shape))
        at = (at + 1) & mask;
    return &g->buckets[at];
}

static bool copy_attrs(sg_graph *g, const sg_op *op, const sg_attr *attr, sg_attr *out)
{
    for (int32_t i = 0; i < op->n_attrs; i++) {
        out[i] = attr[i];
        size_t bytes = 0;
        const void *from = NULL;
        if (attr[i].kind == SG_ATTR_TEXT) {
            if (!(out[i].s = sgi_intern(g, attr[i].s)))
                return false;
        } else if (attr[i].kind == SG_ATTR_INTS) {
            from = attr[i].ints, bytes = (size_t)attr[i].count * sizeof *attr[i].ints;
        } else if (attr[i].kind == SG_ATTR_REALS) {
            from = attr[i].reals, bytes = (size_t)attr[i].count * sizeof *attr[i].reals;
        }
        if (!from)
            continue;
        void *copy = sgi_arena_alloc(&g->arena, bytes);
        if (!copy)
            return false;
        memcpy(copy, from, bytes);
        out[i].ints = copy; /* `ints` and `reals` share the pointer's place in the union */
    }
    return true;
}

static bool add_value(sg_graph *g, int32_t node, sg_dtype dtype, const sg_shape *shape)
{
    sgi_value *v = sgi_arena_alloc(&g->arena, sizeof *v);
    if (!v || !sgi_grow((void **)&g->values, g->n_values, &g->cap_values, sizeof *g->values))
        return false;
    *v = (sgi_value){*shape, dtype, node};
    for (int32_t i = 0; i < shape->rank; i++)
        if (shape->name[i] && !(v->shape.name[i] = sgi_intern(g, shape->name[i])))
            return false;
    g->values[g->n_values++] = v;
    return true;
}

static sg_value out_of_memory(sg_graph *g)
{
    return sg_graph_fail(g, SG_E_MEMORY, SG_NONE, "out of memory for a node");
}

/* Append a node whose shapes are known and enter it in the hash table. */
static sg_value append(sg_graph *g, const sg_op *op, const int32_t *in, int32_t n_in, const sg_attr *attr,
                       int32_t n_out, const sg_dtype *dtype, const sg_shape *shape, int32_t *slot)
{
    sg_node *node = sgi_arena_alloc(&g->arena, sizeof *node);
    int32_t *kept_in = sgi_arena_alloc(&g->arena, (size_t)(n_in + 1) * sizeof *in);
    sg_attr *kept_attr = sgi_arena_alloc(&g->arena, (size_t)(op->n_attrs + 1) * sizeof *attr);
    if (!node || !kept_in || !kept_attr || !sgi_grow((void **)&g->nodes, g->n_nodes, &g->cap_nodes, sizeof *g->nodes) ||
        !copy_attrs(g, op, attr, kept_attr))
        return out_of_memory(g);
    if (n_in)
        memcpy(kept_in, in, (size_t)n_in * sizeof *in);
    char name[64];
    snprintf(name, sizeof name, "%s_%d", op->name, g->n_nodes);
    *node = (sg_node){op, g->n_nodes, n_in, n_out, kept_in, g->n_values, kept_attr, sgi_intern(g, name), "", 0};
    const char *file;
    sgi_place(&file, &node->line);
    node->file = sgi_intern(g, file);
    if (!node->name || !node->file)
        return out_of_memory(g);
    for (int32_t k = 0; k < n_out; k++)
        if (!add_value(g, g->n_nodes, dtype[k], &shape[k]))
            return out_of_memory(g);
    g->nodes[g->n_nodes++] = node;
    *slot = g->n_nodes;
    return sg_value_at(g, node->out);
}

sg_status sg_infer_fail(const sg_infer_args *args, sg_status status, const char *fmt, ...)
{
    if (!args->err)
        return status;
    memset(args->err, 0, sizeof *args->err);
    va_list list;
    va_start(list, fmt);
    args->err->status = status;
    vsnprintf(args->err->text, sizeof args->err->text, fmt, list);
    va_end(list);
    sgi_one_line(args->err->text);
    snprintf(args->err->op, sizeof args->err->op, "%s", args->op->name);
    return status;
}

/* After the rule's own words, the shapes it was given: most shape errors are understood from these alone. */
static void append_shapes(sg_graph *g, sg_error *err, const int32_t *in, int32_t n_in)
{
    char text[SG_SHAPE_TEXT];
    for (int32_t k = 0; k < n_in && k < 6; k++) {
        size_t at = strlen(err->text);
        snprintf(err->text + at, sizeof err->text - at, "%s%s %s", k ? ", " : "; inputs ",
                 sg_dtype_name(g->values[in[k]]->dtype), sg_shape_format(&g->values[in[k]]->shape, text, sizeof text));
    }
}

/* A scale, rate or eps that is no number would make everything after it none, far from where the mistake is. */
static sg_status check_reals(const sg_infer_args *args)
{
    for (int32_t i = 0; i < args->op->n_attrs && !(args->op->flags & SG_OP_ANY_REAL); i++)
        if (args->attr[i].kind == SG_ATTR_REAL && !isfinite(args->attr[i].f))
            return sg_infer_fail(args, SG_E_ARGUMENT, "%s = %g is not finite", args->op->attrs[i].name,
                                 args->attr[i].f);
    return SG_OK;
}

sg_status sgi_infer(sg_graph *g, const sg_op *op, const sg_attr *attr, const int32_t *in, int32_t n_in, int32_t *n_out,
                    sg_shape *shape, sg_dtype *dtype, sg_error *err)
{
    sg_shape *in_shape = sg_calloc(n_in + 1, sizeof *in_shape);
    sg_dtype *in_dtype = sg_calloc(n_in + 1, sizeof *in_dtype);
    sg_infer_args args = {op, attr, n_in, in_shape, in_dtype, op->n_out < 0 ? 0 : op->n_out, shape, dtype, err};
    sg_status status = in_shape && in_dtype ? SG_OK : sg_infer_fail(&args, SG_E_MEMORY, "out of memory");
    for (int32_t k = 0; status == SG_OK && k < n_in; k++) {
        in_shape[k] = g->values[in[k]]->shape;
        in_dtype[k] = g->values[in[k]]->dtype;
    }
    if (status == SG_OK)
        status = check_reals(&args);
    if (status == SG_OK)
        status = op->infer(&args);
    if (status == SG_OK && args.n_out < 1) /* a derivative with respect to nothing: its value would have no place */
        status = sg_infer_fail(&args, SG_E_ARGUMENT, "the node would have no output");
    for (int32_t k = 0; status == SG_OK && k < args.n_out; k++) {
        bool bad = shape[k].rank < 0 || shape[k].rank > SG_MAX_RANK;
        for (int32_t i = 0; !bad && i < shape[k].rank; i++)
            bad = shape[k].dim[i] < 0;
        if (bad || sg_shape_count(&shape[k]) < 0)
            status = sg_infer_fail(&args, SG_E_SHAPE,
                                   "output %d has rank over %d, a negative size or too many elements", k, SG_MAX_RANK);
    }
    if (status != SG_OK && err && in_shape)
        append_shapes(g, err, in, n_in);
    *n_out = args.n_out;
    sg_free(in_shape);
    sg_free(in_dtype);
    return status;
}

/* Bring every input into `g` (capturing from enclosing graphs) and check it. */
static bool resolve_inputs(sg_graph *g, const sg_op *op, const sg_value *in, int32_t n_in, int32_t *ids)
{
    for (int32_t k = 0; k < n_in; k++) {
        sg_value v = in[k];
        if (sg_is_none(v)) {
            sg_graph_fail(g, SG_E_ARGUMENT, SG_NONE, "input %d of %s is not a value", k, op->name);
            return false;
        }
        if (v.graph != g)
            v = sg_capture(g, v);
        if (sg_is_none(v))
            return false;
        ids[k] = v.id;
    }
    return true;
}

/* `called`: the inputs in the caller's order, which errors tell. */
static sg_value build_checked(sg_graph *g, const sg_op *op, const int32_t *called, int32_t n_in, const sg_attr *attr)
{
    const int32_t swapped[] = {n_in == 2 ? called[1] : 0, n_in == 2 ? called[0] : 0};
    const int32_t *ids = (op->flags & SG_OP_COMMUTATIVE) && n_in == 2 && called[0] > called[1] ? swapped : called;
    int32_t *slot = find_slot(g, op, ids, n_in, attr, NULL, NULL), n_out = 0;
    if (!slot)
        return out_of_memory(g);
    if (*slot)
        return sg_value_at(g, g->nodes[*slot - 1]->out);
    int32_t capacity = op->n_out < 0 ? SG_MAX_OUTPUTS : op->n_out;
    sg_shape *shape = sg_calloc(capacity + 1, sizeof *shape);
    sg_dtype *dtype = sg_calloc(capacity + 1, sizeof *dtype);
    sg_value out = SG_NONE;
    sg_error err;
    sg_status status = SG_OK;
    if (shape && dtype)
        status = sgi_infer(g, op, attr, ids, n_in, &n_out, shape, dtype, &err);
    if (status != SG_OK && status != SG_E_MEMORY && ids != called) /* told again, in the caller's order */
        status = sgi_infer(g, op, attr, called, n_in, &n_out, shape, dtype, &err);
    if (!shape || !dtype)
        out_of_memory(g);
    else if (status != SG_OK)
        sg_graph_fail(g, status, SG_NONE, "%s: %s", op->name, err.text);
    else
        out = append(g, op, ids, n_in, attr, n_out, dtype, shape, slot);
    if (sg_is_none(out) && !sgi_top(g)->error.op[0])
        snprintf(sgi_top(g)->error.op, sizeof sgi_top(g)->error.op, "%s", op->name);
    sg_free(shape);
    sg_free(dtype);
    return out;
}

sg_value sg_build(sg_graph *graph, const sg_op *op, const sg_value *in, int32_t n_in, const sg_attr *attr)
{
    if (!graph || sgi_failed(graph))
        return SG_NONE;
    if (op->n_in >= 0 && op->n_in != n_in)
        return sg_graph_fail(graph, SG_E_ARGUMENT, SG_NONE, "%s takes %d inputs, got %d", op->name, op->n_in, n_in);
    int32_t few[8], *ids = n_in <= 8 ? few : sg_calloc(n_in, sizeof *ids);
    if (!ids)
        return out_of_memory(graph);
    sg_value out = SG_NONE;
    if (resolve_inputs(graph, op, in, n_in, ids))
        out = build_checked(graph, op, ids, n_in, attr);
    if (ids != few)
        sg_free(ids);
    return out;
}

sg_value sgi_leaf(sg_graph *graph, const sg_op *op, const sg_attr *attr, sg_dtype dtype, const sg_shape *shape)
{
    if (!graph || sgi_failed(graph))
        return SG_NONE;
    bool bad = shape->rank < 0 || shape->rank > SG_MAX_RANK;
    for (int32_t i = 0; !bad && i < shape->rank; i++)
        bad = shape->dim[i] < 0;
    if (bad || sg_shape_count(shape) < 0)
        return sg_graph_fail(graph, SG_E_SHAPE, SG_NONE, "%s: rank over %d, a negative size or too many elements",
                             op->name, SG_MAX_RANK);
    int32_t *slot = find_slot(graph, op, NULL, 0, attr, &dtype, shape);
    if (!slot)
        return out_of_memory(graph);
    if (*slot)
        return sg_value_at(graph, graph->nodes[*slot - 1]->out);
    return append(graph, op, NULL, 0, attr, 1, &dtype, shape, slot);
}

sg_cost sg_node_cost(sg_graph *graph, const sg_node *node)
{
    sg_shape few_shapes[16];
    sg_dtype few_dtypes[16];
    int32_t n = node->n_in + node->n_out;
    sg_shape *shape = n <= 16 ? few_shapes : sg_calloc(n, sizeof *shape);
    sg_dtype *dtype = n <= 16 ? few_dtypes : sg_calloc(n, sizeof *dtype);
    sg_cost cost = {0, 0};
    for (int32_t k = 0; shape && dtype && k < n; k++) {
        const sgi_value *v = graph->values[k < node->n_in ? node->in[k] : node->out + k - node->n_in];
        shape[k] = v->shape;
        dtype[k] = v->dtype;
        cost.bytes += k < node->n_in && k < 32 && (node->op->shape_only >> k & 1)
                          ? 0
                          : (double)sg_shape_count(&v->shape) * (double)sg_dtype_size(v->dtype);
        cost.flops += k < node->n_in ? 0 : (double)sg_shape_count(&v->shape);
    }
    if (node->op->flags & SG_OP_LEAF)
        cost = (sg_cost){0, 0};
    else if (node->op->cost && shape && dtype)
        cost = node->op->cost(
            &(sg_cost_args){node->attr, node->n_in, node->n_out, shape, shape + node->n_in, dtype, dtype + node->n_in});
    if (n > 16) {
        sg_free(shape);
        sg_free(dtype);
    }
    return cost;
}
