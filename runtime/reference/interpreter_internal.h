/* interpreter_internal.h - evaluates a graph node by node in double, with no planner: every value has its own
 * memory. It is the oracle that plans, kernels and derivatives are compared with, so it shares no code with what it
 * judges except the operators' own rules. */
#ifndef SG_INTERPRETER_INTERNAL_H
#define SG_INTERPRETER_INTERNAL_H

#include "graph/graph.h"

/* Compute the values `root[0..n)` of a graph. `data` has one slot a value: slots that are set on entry are given
 * (inputs, or values held at something else); the others are filled as needed and are the caller's to release with
 * sg_interpret_release. `given` (one flag a value) says which slots must not be computed or released. */
sg_status sg_interpret(sg_graph *graph, double **data, const bool *given, const int32_t *root, int32_t n,
                       sg_run_index run, sg_error *err);
void sg_interpret_release(sg_graph *graph, double **data, const bool *given);

/* Compute one node from its operands: by its reference kernel, or by the decomposition of a composite. `in` entries
 * read for their shape alone may have NULL data. */
sg_status sg_interpret_node(const sg_node *node, const sg_tensor64 *in, const sg_dtype *in_dtype,
                            const sg_tensor64 *out, const sg_dtype *out_dtype, sg_run_index run, sg_error *err);

#endif
