/* path.c - the part of a graph that a derivative has to look at. The cost is that of the nodes which y needs, not of
 * the whole graph: a composite deep in a long training step is differentiated through its own few nodes. */
#include "autodiff/path_internal.h"

#include <stdlib.h>
#include <string.h>

#include "autodiff/rules_internal.h"

static bool shape_only(const sg_op *op, int32_t k) { return k < 32 && (op->shape_only >> k & 1); }

/* A loop stays in: reaching it is an error, not a zero. */
bool sg_path_blocks(const sg_node *node)
{
    return (node->op->flags & (SG_OP_ZERO_GRAD | SG_OP_STOP)) && !sg_is_loop(node);
}

bool sg_path_enters(const sg_path *path, const sg_node *node, int32_t k)
{
    return !shape_only(node->op, k) && path->depends[node->in[k]];
}

typedef struct walk {
    sg_path *path;
    sg_graph *graph;
    bool *seen;     /* by node index */
    int32_t lowest; /* index of the first node that made an x: nodes before it depend on none */
} walk;

/* Nodes are appended to path->nodes, which is worklist and result at once: each node enters it once. */
static void visit(walk *w, int32_t id)
{
    sg_path *path = w->path;
    if (path->leaves && path->is_x[id])
        return;
    int32_t index = sg_node_of(sg_value_at(w->graph, id))->index;
    if (index < w->lowest || w->seen[index])
        return;
    w->seen[index] = true;
    path->nodes[path->n_nodes++] = index;
}

static int by_index(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void collect(walk *w, const sg_value *y, int32_t n_y)
{
    sg_path *path = w->path;
    for (int32_t k = 0; k < n_y; k++)
        visit(w, y[k].id);
    for (int32_t i = 0; i < path->n_nodes; i++) {
        const sg_node *node = sg_node_at(w->graph, path->nodes[i]);
        if (sg_path_blocks(node))
            continue;
        for (int32_t k = 0; k < node->n_in; k++)
            if (!shape_only(node->op, k))
                visit(w, node->in[k]);
    }
    qsort(path->nodes, (size_t)path->n_nodes, sizeof *path->nodes, by_index);
}

static bool mark_loop(sg_path *path, const sg_node *node)
{
    bool *in = sg_calloc(node->n_in + 1, sizeof *in), *out = sg_calloc(node->n_out + 1, sizeof *out);
    bool good = in && out;
    for (int32_t k = 0; good && k < node->n_in; k++)
        in[k] = sg_path_enters(path, node, k);
    good = good && sg_loop_depends(node, in, out);
    for (int32_t j = 0; good && j < node->n_out; j++)
        path->depends[node->out + j] = out[j];
    sg_free(in);
    sg_free(out);
    return good;
}

static bool mark_dependence(sg_path *path, sg_graph *graph)
{
    for (int32_t i = 0; i < path->n_nodes; i++) {
        const sg_node *node = sg_node_at(graph, path->nodes[i]);
        bool any = false;
        for (int32_t k = 0; k < node->n_in && !any; k++)
            any = sg_path_enters(path, node, k);
        if (!any || sg_path_blocks(node))
            continue;
        if (sg_is_loop(node)) {
            if (!mark_loop(path, node))
                return false;
            continue;
        }
        for (int32_t j = 0; j < node->n_out; j++)
            if (sg_dtype_is_real(sg_dtype_of(sg_value_at(graph, node->out + j))))
                path->depends[node->out + j] = true;
    }
    return true;
}

bool sg_path_find(sg_path *path, sg_graph *graph, const sg_value *y, int32_t n_y, const sg_value *x, int32_t n_x,
                  bool leaves)
{
    *path = (sg_path){.n_values = sg_value_count(graph), .leaves = leaves};
    int32_t n_nodes = sg_node_count(graph);
    path->nodes = sg_calloc(n_nodes, sizeof *path->nodes);
    path->is_x = sg_calloc(path->n_values, sizeof *path->is_x);
    path->depends = sg_calloc(path->n_values, sizeof *path->depends);
    walk w = {path, graph, sg_calloc(n_nodes, sizeof *w.seen), n_nodes};
    bool ok = path->nodes && path->is_x && path->depends && w.seen;
    if (ok) {
        for (int32_t i = 0; i < n_x; i++) {
            int32_t index = sg_node_of(x[i])->index;
            w.lowest = index < w.lowest ? index : w.lowest;
            path->is_x[x[i].id] = path->depends[x[i].id] = true;
        }
        collect(&w, y, n_y);
        ok = mark_dependence(path, graph);
    }
    if (!ok)
        sg_graph_fail(graph, SG_E_MEMORY, y[0], "out of memory while differentiating a graph of %d nodes",
                      (int)n_nodes);
    sg_free(w.seen);
    return ok;
}

void sg_path_free(sg_path *path)
{
    sg_free(path->nodes);
    sg_free(path->is_x);
    sg_free(path->depends);
    *path = (sg_path){0};
}
