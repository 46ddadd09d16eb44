/* leaf.c - inputs and constants. Leaves have no shape rule: their shape is given, kept with the value. */
#include "graph/convert_internal.h"
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
    if (graph->parent) /* a plan is fed what the graph around all loops names */
        return sg_capture(graph, sg_input(graph->parent, name, dtype, shape));
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

static sg_value constant_of(sg_graph *graph, sg_dtype dtype, const sg_shape *shape, const double *data, int64_t count)
{
    sg_attr attr = sg_attr_reals(data, count);
    return sgi_leaf(graph, &sg_op_constant, &attr, dtype, shape);
}

/* Integers and booleans as `cast` makes them, so that every device is given numbers that they can hold. */
sg_value sg_constant(sg_graph *graph, sg_dtype dtype, sg_shape shape, const double *data, int64_t count)
{
    if (!graph || sgi_failed(graph))
        return SG_NONE;
    if (count != 1 && count != sg_shape_count(&shape)) {
        char text[SG_SHAPE_TEXT];
        return sg_graph_fail(graph, SG_E_SHAPE, SG_NONE, "constant of shape %s given %lld numbers",
                             sg_shape_format(&shape, text, sizeof text), (long long)count);
    }
    if (sg_dtype_is_real(dtype))
        return constant_of(graph, dtype, &shape, data, count);
    double *held = sg_calloc(count + 1, sizeof *held);
    if (!held)
        return sg_graph_fail(graph, SG_E_MEMORY, SG_NONE, "out of memory for a constant");
    for (int64_t i = 0; i < count; i++)
        held[i] = dtype == SG_BOOL ? data[i] != 0 : sg_real_to_i32(data[i]);
    sg_value v = constant_of(graph, dtype, &shape, held, count);
    sg_free(held);
    return v;
}

sg_value sg_scalar(sg_graph *graph, double value) { return sg_constant(graph, SG_F32, sg_shape_scalar(), &value, 1); }
