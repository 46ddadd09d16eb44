/* build.c - what all builders share. */
#include "ops/ops_internal.h"

static bool encloses(const sg_graph *outer, const sg_graph *inner)
{
    for (; inner; inner = sg_body_parent(inner))
        if (inner == outer)
            return true;
    return false;
}

sg_graph *sg_common_graph(const sg_value *in, int32_t n_in)
{
    sg_graph *graph = NULL;
    for (int32_t k = 0; k < n_in; k++)
        if (!sg_is_none(in[k]) && (!graph || encloses(graph, in[k].graph)))
            graph = in[k].graph;
    for (int32_t k = 0; k < n_in && graph; k++)
        if (sg_is_none(in[k])) {
            sg_graph_fail(graph, SG_E_ARGUMENT, SG_NONE, "input %d is no value", k);
            return NULL;
        }
    return graph;
}

sg_value sg_build_op(const sg_op *op, const sg_value *in, int32_t n_in, const sg_attr *attr)
{
    sg_graph *graph = sg_common_graph(in, n_in);
    return graph ? sg_build(graph, op, in, n_in, attr) : SG_NONE;
}

sg_value sg_build_unary(const sg_op *op, sg_value x) { return sg_build_op(op, &x, 1, NULL); }

sg_value sg_build_binary(const sg_op *op, sg_value a, sg_value b)
{
    return sg_build_op(op, (sg_value[]){a, b}, 2, NULL);
}

sg_value sg_number(sg_value like, double value)
{
    if (sg_is_none(like))
        return SG_NONE;
    return sg_constant(like.graph, sg_dtype_of(like), sg_shape_scalar(), &value, 1);
}
