#include "runtime/leaf_internal.h"

#include <string.h>

#include "ops/ops.h"

void sg_leaf_constant(sg_graph *graph, const sg_node *node, double *out)
{
    const sg_attr *data = &node->attr[0];
    int64_t count = sg_shape_count(sg_shape_of(sg_value_at(graph, node->out)));
    for (int64_t i = 0; i < count; i++)
        out[i] = data->reals[data->count == 1 ? 0 : i];
}

int32_t sg_leaf_entry(const sg_graph *graph, const sg_node *node)
{
    return sg_store_find(sg_graph_store(graph), node->attr[0].s);
}

const char *sg_leaf_input(const sg_node *node) { return node->attr[0].s; }

bool sg_reads_shape_only(const sg_node *node, int32_t k) { return k < 32 && (node->op->shape_only >> k & 1); }

/* By name: the operators of ops/ register their descriptors under these names, and expand_dims and squeeze build
 * reshapes. */
bool sg_is_view(const sg_node *node)
{
    static const char *const names[] = {"reshape", "reshape_like", "stop_gradient", "barrier"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(node->op->name, names[i]) == 0)
            return true;
    return false;
}
