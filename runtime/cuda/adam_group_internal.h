/* adam_group_internal.h - the pass that makes one node of the optimiser steps of small parameters (adam_group.c), and the one that
 * spreads the steps of idle rows over a loop (adam_spread.c). */
#ifndef SG_CUDA_ADAM_GROUP_INTERNAL_H
#define SG_CUDA_ADAM_GROUP_INTERNAL_H

#include "runtime/updates_internal.h"

/* Operands: learning rate, step, then p, g, m, v of each member. Outputs: p, m, v of each member. Attributes: those of adam. */
enum { SG_ADAM_GROUP_LR, SG_ADAM_GROUP_T, SG_ADAM_GROUP_FIRST };
enum { SG_ADAM_GROUP_EACH = 4, SG_ADAM_GROUP_EACH_OUT = 3, SG_ADAM_GROUP_ATTRS = 5 };
extern const sg_op sg_op_adam_group;
/* Adam steps of f32 with equal attributes, learning rate and step as one node, where each has `most` elements or fewer and nothing
 * reads one member's results before the last member has its operands. */
sg_status sg_group_adam(sg_graph *from, sg_graph *to, int64_t most, sg_error *err);
/* Operands and attributes are those of sparse_adam, and over how many iterations the steps of idle rows are spread. */
enum { SG_SPREAD_ADAM_SPREAD = SG_JOINED_ADAM_ATTRS, SG_SPREAD_ADAM_ATTRS };
extern const sg_op sg_op_spread_adam;
/* Sparse Adam steps in loops on one batch. */
sg_status sg_cuda_spread_updates(sg_graph *from, sg_graph *to, sg_error *err);

#endif
