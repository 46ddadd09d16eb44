/* graph_run.h - running a small graph in a test, through doubles, on any backend. */
#ifndef SG_TESTS_GRAPH_RUN_H
#define SG_TESTS_GRAPH_RUN_H

#include "autodiff/autodiff.h"
#include "graph/graph.h"

/* Compile the graph's results and run once, with inputs by name, in a session of its own. out[k] receives result k. The
 * store may be NULL. Prints the error and returns false on failure. */
bool graph_run(sg_graph *graph, sg_store *store, const char *backend, int32_t threads, const char *const *names,
               double *const *feed, int32_t n_in, double *const *out);

/* The evaluator of sg_gradcheck on the reference backend. */
extern const sg_evaluator reference_evaluator;

/* Evaluate on the reference backend; fails the test on an error. */
void graph_eval(sg_graph *graph, const sg_value *x, double *const *feed, int32_t n_x, const sg_value *y,
                double *const *out, int32_t n_y);

/* Uniform in [0, 1): element i of a stream, the same everywhere. */
double test_uniform(uint64_t stream, int64_t i);

#endif
