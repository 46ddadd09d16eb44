/* leaf.c - inputs and constants. Leaves have no shape rule: their shape is given, kept with the value. */
#include "graph/graph_internal.h"

#include <string.h>

static const sg_attr_spec name_attr[] = {{"name", SG_ATTR_TEXT}};
static const sg_attr_spec data_attr[] = {{"data", SG_ATTR_REALS}};
static const sg_attr_spec index_attr[] = {{"index", SG_ATTR_INT}};

const sg_op sg_op_input = {.name = "input",
                           .summary = "a tensor fed by name at each run",
                           .n_out = 1,
                           .flags = SG_OP_LEAF,
                           .attrs = name_attr,
                           .n_attrs = 1};
const sg_op sg_op_param = {.name = "param",
                           .summary = "the value of a store entry at the start of a run",
                           .n_out = 1,
                           .flags = SG_OP_LEAF,
                           .attrs = name_attr,
                           .n_attrs = 1};
const sg_op sg_op_constant = {
    .name = "constant", .summary = "fixed numbers", .n_out = 1, .flags = SG_OP_LEAF, .attrs = data_attr, .n_attrs = 1};
const sg_op sg_op_capture = {.name = "capture",
                             .summary = "input of a loop body",
                             .n_out = 1,
                             .flags = SG_OP_LEAF,
                             .attrs = index_attr,
                             .n_attrs = 1};

sg_value sg_input(sg_graph *graph, const char *name, sg_dtype dtype, sg_shape shape)
{
    if (!graph || sgi_failed(graph))
        return SG_NONE;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const sg_node *node = graph->nodes[n];
        if (node->op != &sg_op_input || strcmp(node->attr[0].s, name) != 0)
            continue;
        const sgi_value *v = graph->values[node->out];
        if (v->dtype == dtype && sg_shape_equal(&v->shape, &shape))
            return sg_value_at(graph, node->out);
        char had[SG_SHAPE_TEXT], wants[SG_SHAPE_TEXT];
        return sg_graph_fail(graph, SG_E_NAME, sg_value_at(graph, node->out), "input '%s' is %s %s and cannot be %s %s",
                             name, sg_dtype_name(v->dtype), sg_shape_format(&v->shape, had, sizeof had),
                             sg_dtype_name(dtype), sg_shape_format(&shape, wants, sizeof wants));
    }
    sg_attr attr = sg_attr_text(name);
    return sg_named(sgi_leaf(graph, &sg_op_input, &attr, dtype, &shape), name);
}

sg_value sg_constant(sg_graph *graph, sg_dtype dtype, sg_shape shape, const double *data, int64_t count)
{
    if (!graph || sgi_failed(graph))
        return SG_NONE;
    if (count != 1 && count != sg_shape_count(&shape)) {
        char text[SG_SHAPE_TEXT];
        return sg_graph_fail(graph, SG_E_SHAPE, SG_NONE, "constant of shape %s given %lld numbers",
                             sg_shape_format(&shape, text, sizeof text), (long long)count);
    }
    sg_attr attr = sg_attr_reals(data, count);
    return sgi_leaf(graph, &sg_op_constant, &attr, dtype, &shape);
}

sg_value sg_scalar(sg_graph *graph, double value) { return sg_constant(graph, SG_F32, sg_shape_scalar(), &value, 1); }
