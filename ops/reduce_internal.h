/* reduce_internal.h - what the reductions over one axis share: attributes {axis, keep}, their shape rule, their
 * builder. */
#ifndef SG_REDUCE_INTERNAL_H
#define SG_REDUCE_INTERNAL_H

#include "graph/graph.h"

enum { SG_REDUCE_AXIS, SG_REDUCE_KEEP };
extern const sg_attr_spec sg_reduce_attrs[2];
extern const sg_op sg_op_sum, sg_op_reshape_like;

sg_status sg_reduce_infer(const sg_infer_args *args);
sg_cost sg_reduce_cost(const sg_cost_args *args);
sg_value sg_reduce_build(const sg_op *op, sg_value x, int32_t axis, bool keep);
/* A value of the reduced shape of `node` with its axis put back as size 1 (as it is, if the node keeps the axis). */
sg_value sg_reduce_keep(const sg_node *node, sg_value reduced);

#endif
