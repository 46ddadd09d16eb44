/* path_internal.h - which nodes lie between the values x and y, in topological order. */
#ifndef SG_PATH_INTERNAL_H
#define SG_PATH_INTERNAL_H

#include "graph/graph.h"

typedef struct sg_path {
    int32_t *nodes; /* indices of nodes that y needs, ascending: a topological order; none before the first x */
    int32_t n_nodes;
    int32_t n_values; /* length of the arrays below: the values of the graph when the path was found */
    bool *is_x;       /* by value id */
    bool *depends;    /* by value id: real, and moves when some x moves */
    bool leaves;      /* the x are taken as independent: nothing passes below them */
} sg_path;

/* Find the path. With `leaves` the nodes that made the x are not entered through them. Records the sticky error
 * and returns false if out of memory; sg_path_free either way. */
bool sg_path_find(sg_path *path, sg_graph *graph, const sg_value *y, int32_t n_y, const sg_value *x, int32_t n_x,
                  bool leaves);
void sg_path_free(sg_path *path);

/* Does a derivative enter input k of the node: is it real, read for more than its shape, and dependent? */
bool sg_path_enters(const sg_path *path, const sg_node *node, int32_t k);

/* Nodes whose outputs never carry a derivative. */
bool sg_path_blocks(const sg_node *node);

/* For a loop: which outputs depend on the marked inputs (in: by node input, out: by node output), seen through the
 * body. False if out of memory. */
bool sg_loop_depends(const sg_node *node, const bool *in, bool *out);

#endif
