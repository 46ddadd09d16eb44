/* leaf_internal.h - what the leaves of a graph hold, and which nodes only rename memory. */
#ifndef SG_LEAF_INTERNAL_H
#define SG_LEAF_INTERNAL_H

#include "graph/graph.h"

/* Elements of a constant, expanded to its full shape. */
void sg_leaf_constant(sg_graph *graph, const sg_node *node, double *out);
/* Store index of a param node's entry. */
int32_t sg_leaf_entry(const sg_graph *graph, const sg_node *node);
/* Name by which an input node is fed. */
const char *sg_leaf_input(const sg_node *node);

/* Input k is read for its shape alone. */
bool sg_reads_shape_only(const sg_node *node, int32_t k);
/* The node's output is input 0 under another shape: packed row-major tensors share the memory. */
bool sg_is_view(const sg_node *node);

#endif
