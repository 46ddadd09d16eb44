/* random_graph.h - graphs drawn at random for tests of compilation: elementwise chains, products, reductions, views,
 * two store entries that are reassigned, and results that may coincide with entries, views or one another. */
#ifndef SG_TESTS_RANDOM_GRAPH_H
#define SG_TESTS_RANDOM_GRAPH_H

#include "graph/graph.h"

typedef struct random_graph {
    sg_store *store; /* entries "a" and "b", [side, side], initialised */
    sg_graph *graph;
    sg_value x;    /* input "x", [side, side] */
    sg_value y[3]; /* results "y0", "y1", "y2", [side, side] */
} random_graph;

random_graph random_graph_new(uint64_t seed, int64_t side, sg_dtype real);
void random_graph_free(random_graph *r);

#endif
