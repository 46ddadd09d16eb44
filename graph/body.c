/* body.c - loop bodies: graphs inside graphs, and the values that enter them. */
#include "graph/graph_internal.h"

sg_graph *sg_body_new(sg_graph *parent)
{
    if (!parent || sgi_failed(parent))
        return NULL;
    sg_graph *body = sg_graph_new();
    if (!body || !sgi_grow((void **)&parent->bodies, parent->n_bodies, &parent->cap_bodies, sizeof *parent->bodies)) {
        sg_graph_free(body);
        sg_graph_fail(parent, SG_E_MEMORY, SG_NONE, "out of memory for a loop body");
        return NULL;
    }
    body->parent = parent;
    parent->bodies[parent->n_bodies++] = body;
    return body;
}

sg_graph *sg_body_parent(const sg_graph *body) { return body->parent; }

sg_value sgi_body_add_input(sg_graph *body, sgi_body_kind kind, sg_value outer, int32_t entry)
{
    if (sg_is_none(outer) || sgi_failed(body))
        return SG_NONE;
    if (!sgi_grow((void **)&body->inputs, body->n_inputs, &body->cap_inputs, sizeof *body->inputs))
        return sg_graph_fail(body, SG_E_MEMORY, SG_NONE, "out of memory for a loop input");
    sg_attr attr = sg_attr_int(body->n_inputs);
    sg_shape shape = *sg_shape_of(outer);
    sg_value inner = sgi_leaf(body, &sg_op_capture, &attr, sg_dtype_of(outer), &shape);
    if (!sg_is_none(inner))
        body->inputs[body->n_inputs++] = (sgi_body_input){kind, inner.id, outer, entry};
    return inner;
}

static bool encloses(const sg_graph *outer, const sg_graph *graph)
{
    while (graph && graph != outer)
        graph = graph->parent;
    return graph == outer;
}

sg_value sg_capture(sg_graph *body, sg_value outer)
{
    if (sg_is_none(outer) || outer.graph == body)
        return outer;
    if (!encloses(outer.graph, body))
        return sg_graph_fail(body, SG_E_GRAPH, outer, "'%s' belongs to another graph", sg_node_of(outer)->name);
    outer = sg_capture(body->parent, outer); /* step by step through nested loops */
    for (int32_t i = 0; i < body->n_inputs; i++)
        if (body->inputs[i].kind == SGI_BODY_CAPTURE && sg_same(body->inputs[i].outer, outer))
            return sg_value_at(body, body->inputs[i].inner);
    return sg_is_none(outer) ? outer : sgi_body_add_input(body, SGI_BODY_CAPTURE, outer, -1);
}

sg_value sg_body_state(sg_graph *body, sg_value initial)
{
    if (!body)
        return SG_NONE;
    return sgi_body_add_input(body, SGI_BODY_STATE, sg_capture(body->parent, initial), -1);
}

int32_t sg_body_input_count(const sg_graph *body) { return body->n_inputs; }

bool sg_body_input_captured(const sg_graph *body, int32_t index)
{
    return body->inputs[index].kind == SGI_BODY_CAPTURE;
}

void sg_body_input_at(const sg_graph *body, int32_t index, sg_value *inner, sg_value *outer)
{
    *inner = sg_value_at((sg_graph *)body, body->inputs[index].inner);
    *outer = body->inputs[index].outer;
}

int32_t sg_body_input_index(const sg_graph *body, int32_t value)
{
    for (int32_t k = 0; k < sg_body_input_count(body); k++)
        if (body->inputs[k].inner == value)
            return k;
    return -1;
}
