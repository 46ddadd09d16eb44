/* verify.c - the invariants every pass may rely on. */
#include "graph/graph_internal.h"

static sg_status broken(const sg_node *node, sg_error *err, const char *what)
{
    sg_fail(err, SG_E_GRAPH, "node '%s' (%s): %s", node->name, node->op->name, what);
    return SG_E_GRAPH;
}

static sg_status check_structure(const sg_graph *g, const sg_node *node, sg_error *err)
{
    if (node->op->n_in >= 0 && node->op->n_in != node->n_in)
        return broken(node, err, "wrong number of inputs");
    if (node->op->n_out >= 0 && node->op->n_out != node->n_out)
        return broken(node, err, "wrong number of outputs");
    for (int32_t k = 0; k < node->n_in; k++)
        if (node->in[k] < 0 || node->in[k] >= g->n_values || g->values[node->in[k]]->node >= node->index)
            return broken(node, err, "an input does not come before the node");
    for (int32_t i = 0; i < node->op->n_attrs; i++)
        if (node->attr[i].kind != node->op->attrs[i].kind)
            return broken(node, err, "an attribute is not of the kind its schema names");
    return SG_OK;
}

static sg_status check_shapes(sg_graph *g, const sg_node *node, sg_error *err)
{
    int32_t capacity = node->op->n_out < 0 ? SG_MAX_OUTPUTS : node->op->n_out, n_out = 0;
    sg_shape *shape = sg_calloc(capacity + 1, sizeof *shape);
    sg_dtype *dtype = sg_calloc(capacity + 1, sizeof *dtype);
    sg_status status = shape && dtype
                           ? sgi_infer(g, node->op, node->attr, node->in, node->n_in, &n_out, shape, dtype, err)
                           : sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK && n_out != node->n_out)
        status = broken(node, err, "the shape rule gives another number of outputs");
    for (int32_t k = 0; status == SG_OK && k < n_out; k++)
        if (dtype[k] != g->values[node->out + k]->dtype || !sg_shape_equal(&shape[k], &g->values[node->out + k]->shape))
            status = broken(node, err, "an output's shape or dtype is not the shape rule's");
    sg_free(shape);
    sg_free(dtype);
    return status;
}

sg_status sg_graph_verify(const sg_graph *graph, sg_error *err)
{
    SG_TRY(sg_graph_status(graph, err));
    sg_graph *g = (sg_graph *)graph;
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const sg_node *node = g->nodes[n];
        if (node->index != n)
            return broken(node, err, "nodes are not in order");
        SG_TRY(check_structure(g, node, err));
        for (int32_t i = 0; i < node->op->n_attrs; i++)
            if (node->attr[i].kind == SG_ATTR_GRAPH)
                SG_TRY(sg_graph_verify(node->attr[i].graph, err));
        if (!(node->op->flags & SG_OP_LEAF))
            SG_TRY(check_shapes(g, node, err));
    }
    for (int32_t i = 0; i < g->n_results; i++)
        if (g->results[i].id < 0 || g->results[i].id >= g->n_values)
            return sg_fail(err, SG_E_GRAPH, "result '%s' names no value", g->results[i].name);
    return SG_OK;
}
