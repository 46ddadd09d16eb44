/* adam_group_internal.h - the pass that makes one node of the optimiser steps of small parameters (adam_group.c), and the one that
 * spreads the steps of idle rows over a loop (adam_spread.c). */
#ifndef SG_CUDA_ADAM_GROUP_INTERNAL_H
#define SG_CUDA_ADAM_GROUP_INTERNAL_H

#include "runtime/updates_internal.h"

/* Operands: learning rate, step, then p, g, m, v of each member, then, for steps of scaled_adam, their factor. Outputs: p, m, v of each
 * member. Attributes: those of adam. */
enum { SG_ADAM_GROUP_LR, SG_ADAM_GROUP_T, SG_ADAM_GROUP_FIRST };
enum { SG_ADAM_GROUP_EACH = 4, SG_ADAM_GROUP_EACH_OUT = 3 };
extern const sg_op sg_op_adam_group;
/* Adam steps of f32 with equal attributes, learning rate and step as one node, where each has `most` elements or fewer and nothing
 * reads one member's results before the last member has its operands. */
sg_status sg_group_adam(sg_graph *from, sg_graph *to, int64_t most, sg_error *err);
/* adam whose gradient begins at an element (the attribute) of its operand; and steps whose gradient is a slice of rows (adam_rows.c). */
enum { SG_ROWS_ADAM_FROM = SG_JOINED_ADAM_ATTRS, SG_ROWS_ADAM_ATTRS };
extern const sg_op sg_op_rows_adam;
sg_status sg_cuda_rows_updates(sg_graph *from, sg_graph *to, sg_error *err);
/* adam with one more operand: a number by which the gradient is multiplied. */
enum { SG_SCALED_ADAM_FACTOR = 6, SG_SCALED_ADAM_INPUTS };
extern const sg_op sg_op_scaled_adam;
/* Sums of squares, each of `chunk` (the attribute) neighbouring elements, of csr_t_matmul with the same operands. */
enum { SG_CSR_T_SQUARES_INPUTS = 7 };
extern const sg_op sg_op_csr_t_squares;
/* Steps whose gradient is multiplied by a number, and of sparse products read by these and a sum of their squares (adam_clip.c). */
sg_status sg_cuda_clip_updates(sg_graph *from, sg_graph *to, sg_error *err);
/* The value of `op` where operand `which` is multiplied by the last, which `op` has not. */
void sg_cuda_eval_scaled(const sg_eval_args *args, const sg_op *op, int32_t which);

/* Operands and attributes are those of sparse_adam, then there may be a number by which the gradient is multiplied; and over how many
 * iterations the steps of idle rows are spread. */
enum { SG_SPREAD_ADAM_SPREAD = SG_JOINED_ADAM_ATTRS, SG_SPREAD_ADAM_ATTRS };
extern const sg_op sg_op_spread_adam;
/* Sparse Adam steps in loops on one batch. */
sg_status sg_cuda_spread_updates(sg_graph *from, sg_graph *to, sg_error *err);

#endif
