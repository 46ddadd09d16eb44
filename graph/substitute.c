/* substitute.c - an expression with other arguments: y(x) given as nodes, y(by) built. What does not depend on the x is
 * shared, so a linear map written once can be applied to the state of a loop, and a segment computed once more. */
#include "graph/graph_internal.h"

#include <string.h>

typedef struct substitution {
    sg_graph *to, *from;
    sg_value *image; /* by value id of `from`: its replacement, or SG_NONE */
    bool *needed;    /* by node index: between the x and the y */
    sg_value *in;    /* inputs of the node at hand */
    int32_t capacity;
} substitution;

static bool out_of_memory(sg_graph *graph)
{
    sg_graph_fail(graph, SG_E_MEMORY, SG_NONE, "out of memory while substituting in a graph");
    return false;
}

static bool refuse(const sg_value *x, const sg_value *by, int32_t k)
{
    char have[SG_SHAPE_TEXT], want[SG_SHAPE_TEXT];
    if (sg_shape_equal(sg_shape_of(x[k]), sg_shape_of(by[k])) && sg_dtype_of(x[k]) == sg_dtype_of(by[k]))
        return false;
    sg_graph_fail(by[k].graph, SG_E_SHAPE, x[k], "sg_substitute: argument %d is %s %s, its replacement %s %s", (int)k,
                  sg_dtype_name(sg_dtype_of(x[k])), sg_shape_format(sg_shape_of(x[k]), want, sizeof want),
                  sg_dtype_name(sg_dtype_of(by[k])), sg_shape_format(sg_shape_of(by[k]), have, sizeof have));
    return true;
}

static bool prepare(substitution *s, const sg_value *x, const sg_value *by, int32_t n_x)
{
    s->image = sg_calloc(s->from->n_values + 1, sizeof *s->image);
    s->needed = sg_calloc(s->from->n_nodes + 1, sizeof *s->needed);
    if (!s->image || !s->needed)
        return out_of_memory(s->to);
    for (int32_t v = 0; v < s->from->n_values; v++)
        s->image[v] = SG_NONE;
    for (int32_t k = 0; k < n_x; k++) {
        if (refuse(x, by, k))
            return false;
        s->image[x[k].id] = by[k];
    }
    return true;
}

/* A model lends its shape alone: what reads one stays as it was. */
static bool reads(const sg_node *node, int32_t k) { return !(k < 32 && (node->op->shape_only >> k & 1)); }

/* Mark what the y read, not going below the x: from the last node to the first, each after its readers. */
static void mark_needed(substitution *s, const sg_value *y, int32_t n_y)
{
    for (int32_t k = 0; k < n_y; k++)
        if (sg_is_none(s->image[y[k].id]))
            s->needed[s->from->values[y[k].id]->node] = true;
    for (int32_t n = s->from->n_nodes - 1; n >= 0; n--) {
        const sg_node *node = s->from->nodes[n];
        for (int32_t k = 0; s->needed[n] && k < node->n_in; k++)
            if (reads(node, k) && sg_is_none(s->image[node->in[k]]))
                s->needed[s->from->values[node->in[k]]->node] = true;
    }
}

static bool reserve(substitution *s, int32_t n)
{
    if (n <= s->capacity)
        return true;
    sg_value *in = sg_realloc(s->in, (size_t)n * sizeof *in);
    if (!in)
        return out_of_memory(s->to);
    s->in = in;
    s->capacity = n;
    return true;
}

/* A node moves if it reads elements of something that was replaced. */
static bool moves(const substitution *s, const sg_node *node)
{
    for (int32_t k = 0; k < node->n_in; k++)
        if (reads(node, k) && !sg_is_none(s->image[node->in[k]]))
            return true;
    return false;
}

static bool rebuild(substitution *s, const sg_node *node)
{
    for (int32_t i = 0; i < node->op->n_attrs; i++)
        if (node->attr[i].kind == SG_ATTR_GRAPH) {
            sg_graph_fail(s->to, SG_E_UNSUPPORTED, sg_value_at(s->from, node->out),
                          "sg_substitute: the loop '%s' depends on what is to be replaced; unroll it", node->name);
            return false;
        }
    if (!reserve(s, node->n_in))
        return false;
    for (int32_t k = 0; k < node->n_in; k++) {
        sg_value image = s->image[node->in[k]];
        s->in[k] = sg_is_none(image) ? sg_value_at(s->from, node->in[k]) : image;
    }
    sg_here(node->file, node->line);
    sg_value first = sg_build(s->to, node->op, s->in, node->n_in, node->attr);
    for (int32_t j = 0; j < node->n_out && !sg_is_none(first); j++)
        if (sg_is_none(s->image[node->out + j])) /* one of the x keeps its replacement */
            s->image[node->out + j] = sg_value_at(s->to, first.id + j);
    return !sg_is_none(first);
}

void sg_substitute(sg_graph *graph, const sg_value *y, int32_t n_y, const sg_value *x, const sg_value *by, int32_t n_x,
                   sg_value *out)
{
    bool ok = graph && !sgi_failed(graph);
    substitution s = {.to = graph, .from = n_y > 0 ? y[0].graph : NULL};
    for (int32_t k = 0; ok && k < n_y; k++)
        ok = !sg_is_none(y[k]) && y[k].graph == s.from;
    for (int32_t k = 0; ok && k < n_x; k++)
        ok = !sg_is_none(x[k]) && x[k].graph == s.from && !sg_is_none(by[k]);
    if (graph && !ok)
        sg_graph_fail(graph, SG_E_ARGUMENT, SG_NONE, "sg_substitute: a value is missing or belongs to another graph");
    ok = ok && n_y > 0 && prepare(&s, x, by, n_x);
    if (ok)
        mark_needed(&s, y, n_y);
    const char *file; /* each node is built with its place */
    int32_t line;
    sgi_place(&file, &line);
    int32_t n_nodes = ok ? s.from->n_nodes : 0; /* those of the start: building adds to the same graph */
    for (int32_t n = 0; ok && n < n_nodes; n++)
        if (s.needed[n] && moves(&s, s.from->nodes[n]))
            ok = rebuild(&s, s.from->nodes[n]);
    sg_here(file, line);
    for (int32_t k = 0; k < n_y; k++)
        out[k] = !ok ? SG_NONE : sg_is_none(s.image[y[k].id]) ? y[k] : s.image[y[k].id];
    sg_free(s.image);
    sg_free(s.needed);
    sg_free(s.in);
}
