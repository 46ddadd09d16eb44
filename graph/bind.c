/* bind.c - new sizes for named dimensions: change the inputs, run the shape rules again. */
#include "graph/graph_internal.h"

#include <string.h>

static void copy_captures(sg_graph *body)
{
    for (int32_t i = 0; i < body->n_inputs; i++)
        body->values[body->inputs[i].inner]->shape = *sg_shape_of(body->inputs[i].outer);
}

static sg_status reinfer_node(sg_graph *graph, const sg_node *node, sg_error *err)
{
    for (int32_t i = 0; i < node->op->n_attrs; i++)
        if (node->attr[i].kind == SG_ATTR_GRAPH && node->attr[i].graph->parent == graph) {
            copy_captures(node->attr[i].graph);
            SG_TRY(sgi_reinfer(node->attr[i].graph, err));
        }
    int32_t capacity = node->op->n_out < 0 ? SG_MAX_OUTPUTS : node->op->n_out, n_out = 0;
    sg_shape *shape = sg_calloc(capacity + 1, sizeof *shape);
    sg_dtype *dtype = sg_calloc(capacity + 1, sizeof *dtype);
    sg_status status = SG_E_MEMORY;
    if (shape && dtype)
        status = sgi_infer(graph, node->op, node->attr, node->in, node->n_in, &n_out, shape, dtype, err);
    else
        sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int32_t k = 0; status == SG_OK && k < node->n_out; k++) {
        sg_shape *old = &graph->values[node->out + k]->shape;
        memcpy(old->dim, shape[k].dim, sizeof old->dim); /* rank and names are those of the first inference */
    }
    if (status != SG_OK && err)
        snprintf(err->node, sizeof err->node, "%s", node->name);
    sg_free(shape);
    sg_free(dtype);
    return status;
}

sg_status sgi_reinfer(sg_graph *graph, sg_error *err)
{
    for (int32_t n = 0; n < graph->n_nodes; n++)
        if (!(graph->nodes[n]->op->flags & SG_OP_LEAF))
            SG_TRY(reinfer_node(graph, graph->nodes[n], err));
    return SG_OK;
}

/* Apply the bindings to the inputs; the sizes there were go to `saved`, in the order of the walk, if it is not NULL, and
 * come from `restore` if that is not NULL. */
static int32_t resize_inputs(sg_graph *graph, const sg_binding *bindings, int32_t count, int64_t *saved,
                             const int64_t *restore)
{
    int32_t at = 0;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        if (graph->nodes[n]->op != &sg_op_input)
            continue;
        sg_shape *s = &graph->values[graph->nodes[n]->out]->shape;
        for (int32_t i = 0; i < s->rank; i++, at++) {
            if (saved)
                saved[at] = s->dim[i];
            if (restore)
                s->dim[i] = restore[at];
            for (int32_t b = 0; b < count && s->name[i]; b++)
                if (strcmp(bindings[b].name, s->name[i]) == 0)
                    s->dim[i] = bindings[b].size;
        }
    }
    return at;
}

sg_status sg_graph_bind(sg_graph *graph, const sg_binding *bindings, int32_t count, sg_error *err)
{
    SG_TRY(sg_graph_status(graph, err));
    for (int32_t b = 0; b < count; b++)
        if (bindings[b].size < 0)
            return sg_fail(err, SG_E_ARGUMENT, "dimension '%s' cannot have size %lld", bindings[b].name,
                           (long long)bindings[b].size);
    int32_t axes = resize_inputs(graph, NULL, 0, NULL, NULL);
    int64_t *saved = sg_calloc(axes + 1, sizeof *saved);
    if (!saved)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    resize_inputs(graph, bindings, count, saved, NULL);
    sg_status status = sgi_reinfer(graph, err);
    if (status != SG_OK) {
        resize_inputs(graph, NULL, 0, NULL, saved);
        sgi_reinfer(graph, NULL);
    }
    sg_free(saved);
    return status;
}
