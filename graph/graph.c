/* graph.c - graphs, values, results and the sticky error. */
#include "graph/graph_internal.h"

#include <ctype.h>
#include <string.h>

/* The place of the builder that runs, and those of the ones that it runs in: of their arguments, or a loop's body. */
typedef struct place {
    const char *file;
    int32_t line;
    const char *function;
} place;

enum { PLACES_MOST = 64 }; /* deeper ones are not given back before the 64th is */
static _Thread_local place here = {"", 0, ""}, outer[PLACES_MOST];
static _Thread_local int32_t depth;

void sg_here(const char *file, int32_t line)
{
    here.file = file ? file : "";
    here.line = line;
}

void sg_enter(const char *file, int32_t line, const char *function)
{
    if (depth < PLACES_MOST)
        outer[depth] = here;
    depth++;
    here.function = function ? function : "";
    sg_here(file, line);
}

void sg_leave(void)
{
    if (depth > 0 && --depth < PLACES_MOST)
        here = outer[depth];
}

void sgi_place(const char **file, int32_t *line)
{
    *file = here.file;
    *line = here.line;
}

sg_graph *sg_graph_new(void) { return sg_calloc(1, sizeof(sg_graph)); }

static void forget(place *p, const sg_graph *graph)
{
    for (int32_t i = 0; i < graph->cap_names; i++)
        if (graph->names[i] == p->file)
            *p = (place){"", 0, p->function};
}

/* A pass may have set a place whose text this graph holds. */
static void forget_places(const sg_graph *graph)
{
    forget(&here, graph);
    for (int32_t i = 0; i < depth && i < PLACES_MOST; i++)
        forget(&outer[i], graph);
}

void sg_graph_free(sg_graph *graph)
{
    if (!graph)
        return;
    forget_places(graph);
    for (int32_t i = 0; i < graph->n_bodies; i++)
        sg_graph_free(graph->bodies[i]);
    sg_free(graph->nodes);
    sg_free(graph->values);
    sg_free(graph->buckets);
    sg_free(graph->names);
    sg_free(graph->results);
    sg_free(graph->versions);
    sg_free(graph->draws);
    sg_free(graph->inputs);
    sg_free(graph->bodies);
    sgi_arena_free(&graph->arena);
    sg_free(graph);
}

sg_graph *sgi_top(const sg_graph *graph)
{
    while (graph->parent)
        graph = graph->parent;
    return (sg_graph *)graph;
}

bool sgi_failed(const sg_graph *graph) { return sgi_top(graph)->error.status != SG_OK; }

sg_status sg_graph_status(const sg_graph *graph, sg_error *err)
{
    const sg_error *first = &sgi_top(graph)->error;
    if (first->status != SG_OK && err)
        *err = *first;
    return first->status;
}

static bool begins_with_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    return strncmp(text, word, n) == 0 && !isalnum((unsigned char)text[n]) && text[n] != '_';
}

/* "segment_sum: ", the builder that was called, before words of an operator that it is made of, or of nobody. Not where the text
 * begins with it, nor where sg_graph_fail itself was called, by one who has a name to tell. */
static void tell_builder(char *text, size_t size)
{
    const char *function = here.function, *name = strncmp(function, "sg_", 3) == 0 ? function + 3 : function;
    size_t n = strlen(name), length = strlen(text);
    if (n == 0 || n + 3 > size || begins_with_word(text, name) || begins_with_word(text, function) ||
        strcmp(name, "graph_fail") == 0)
        return;
    size_t kept = length < size - n - 3 ? length : size - n - 3;
    memmove(text + n + 2, text, kept);
    memcpy(text, name, n);
    memcpy(text + n, ": ", 2);
    text[n + 2 + kept] = 0;
}

sg_value sg_graph_fail(sg_graph *graph, sg_status status, sg_value near, const char *fmt, ...)
{
    sg_error *e = &sgi_top(graph)->error;
    if (e->status != SG_OK)
        return SG_NONE;
    const sg_node *node = sg_node_of(near);
    va_list args;
    va_start(args, fmt);
    e->status = status;
    vsnprintf(e->text, sizeof e->text, fmt, args);
    va_end(args);
    tell_builder(e->text, sizeof e->text);
    sgi_one_line(e->text);
    snprintf(e->op, sizeof e->op, "%s", node ? node->op->name : "");
    snprintf(e->node, sizeof e->node, "%s", node ? node->name : "");
    sgi_one_line(e->node);
    snprintf(e->file, sizeof e->file, "%s", here.file);
    e->line = here.line;
    return SG_NONE;
}

static const sgi_value *value_of(sg_value v)
{
    static const sgi_value none = {{0, {0}, {0}}, SG_F32, -1};
    return sg_is_none(v) ? &none : v.graph->values[v.id];
}

const sg_shape *sg_shape_of(sg_value v) { return &value_of(v)->shape; }
sg_dtype sg_dtype_of(sg_value v) { return value_of(v)->dtype; }
int32_t sg_rank_of(sg_value v) { return value_of(v)->shape.rank; }

int64_t sg_dim_of(sg_value v, int32_t axis)
{
    const sg_shape *s = sg_shape_of(v);
    if (axis < 0)
        axis += s->rank;
    return axis >= 0 && axis < s->rank ? s->dim[axis] : -1;
}

const sg_node *sg_node_of(sg_value v) { return sg_is_none(v) ? NULL : v.graph->nodes[value_of(v)->node]; }
int32_t sg_node_count(const sg_graph *graph) { return graph->n_nodes; }
const sg_node *sg_node_at(const sg_graph *graph, int32_t index) { return graph->nodes[index]; }
int32_t sg_value_count(const sg_graph *graph) { return graph->n_values; }

sg_value sg_named(sg_value v, const char *name)
{
    if (sg_is_none(v))
        return v;
    const char *kept = sgi_intern(v.graph, name);
    if (kept)
        v.graph->nodes[value_of(v)->node]->name = kept;
    return v;
}

sg_value sg_output_of(sg_value v, int32_t index)
{
    const sg_node *node = sg_node_of(v);
    if (!node)
        return SG_NONE;
    if (index < 0 || index >= node->n_out)
        return sg_graph_fail(v.graph, SG_E_ARGUMENT, v, "output %d of a node with %d outputs", index, node->n_out);
    return sg_value_at(v.graph, node->out + index);
}

void sg_result(sg_graph *graph, const char *name, sg_value v)
{
    if (sgi_failed(graph))
        return;
    if (sg_is_none(v)) {
        sg_graph_fail(graph, SG_E_ARGUMENT, v, "result '%s' has no value", name);
        return;
    }
    if (v.graph != graph)
        v = sg_capture(graph, v);
    for (int32_t i = 0; i < graph->n_results; i++)
        if (strcmp(graph->results[i].name, name) == 0) {
            sg_graph_fail(graph, SG_E_NAME, v, "two results are named '%s'", name);
            return;
        }
    const char *kept = sgi_intern(graph, name);
    if (!kept || !sgi_grow((void **)&graph->results, graph->n_results, &graph->cap_results, sizeof(sgi_result))) {
        sg_graph_fail(graph, SG_E_MEMORY, SG_NONE, "out of memory for result '%s'", name);
        return;
    }
    graph->results[graph->n_results++] = (sgi_result){kept, v.id};
}

int32_t sg_result_count(const sg_graph *graph) { return graph->n_results; }
sg_value sg_result_value(sg_graph *graph, int32_t index) { return sg_value_at(graph, graph->results[index].id); }
const char *sg_result_name(const sg_graph *graph, int32_t index) { return graph->results[index].name; }

void sg_graph_reach(const sg_graph *graph, const int32_t *roots, int32_t count, bool shapes, bool *live)
{
    memset(live, 0, (size_t)graph->n_nodes * sizeof *live);
    for (int32_t i = 0; i < count; i++)
        if (roots[i] >= 0)
            live[graph->values[roots[i]]->node] = true;
    for (int32_t n = graph->n_nodes - 1; n >= 0; n--) {
        const sg_node *node = graph->nodes[n];
        if (!live[n])
            continue;
        for (int32_t k = 0; k < node->n_in; k++)
            if (shapes || k >= 32 || !(node->op->shape_only >> k & 1))
                live[graph->values[node->in[k]]->node] = true;
    }
}
