/* updates_internal.h - optimiser steps joined with what makes their gradient, for devices that have a kernel for the node made:
 * the rules that all such nodes share (joined_adam.c), and a pass for sparse products (sparse_adam.c). */
#ifndef SG_UPDATES_INTERNAL_H
#define SG_UPDATES_INTERNAL_H

#include "ops/ops_internal.h"

/* Operands of a joined step: those of adam with one operand of the product in the place of the gradient, then the product's others.
 * Attributes and results: those of adam. */
enum {
    SG_JOINED_ADAM_P,
    SG_JOINED_ADAM_FACTOR,
    SG_JOINED_ADAM_M,
    SG_JOINED_ADAM_V,
    SG_JOINED_ADAM_LR,
    SG_JOINED_ADAM_T,
    SG_JOINED_ADAM_MORE
};
enum { SG_JOINED_ADAM_OUTPUTS = 3, SG_JOINED_ADAM_ATTRS = 5 };
extern const sg_attr_spec sg_joined_adam_attrs[SG_JOINED_ADAM_ATTRS];

/* Shapes are those of p, m, v; the value is that of the two ops one after the other, the product with these operands and
 * attributes; the cost that of the product's arithmetic and of the step's, where the product's operands are read once and p, m, v read
 * and written. */
sg_status sg_joined_adam_infer(const sg_infer_args *args);
void sg_joined_adam_eval(const sg_eval_args *args, const sg_op *product, const sg_attr *attr, const sg_tensor64 *in,
                         int32_t n_in);
sg_cost sg_joined_adam_cost(const sg_cost_args *args, double product_flops, double operand_bytes);

/* The op of a joined step of `inputs` operands. */
#define SG_JOINED_ADAM_OP(op_name, what, inputs, eval_rule, cost_rule)                                                 \
    {                                                                                                                  \
        .name = (op_name), .summary = (what), .n_in = (inputs), .n_out = SG_JOINED_ADAM_OUTPUTS, .flags = SG_OP_STOP,  \
        .attrs = sg_joined_adam_attrs, .n_attrs = SG_JOINED_ADAM_ATTRS, .infer = sg_joined_adam_infer,                 \
        .eval = (eval_rule), .cost = (cost_rule)                                                                       \
    }

/* For passes. The product that is the gradient of `node`, an adam step of an f32 matrix with the operands `in`, if it is of that op
 * and nothing else reads it; else NULL. And the joined node, whose results go to `out`. */
const sg_node *sg_joined_adam_product(sg_graph *from, const sg_node *node, const sg_value *in, const sg_op *product);
void sg_joined_adam_build(sg_graph *to, const sg_op *op, const sg_node *node, const sg_value *in, sg_value factor,
                          const sg_value *more, int32_t n_more, sg_value *out);

/* The gradient csr_t_matmul(x, dense): the six operands of the CSR batch x come last. */
enum {
    SG_SPARSE_ADAM_P = SG_JOINED_ADAM_P,
    SG_SPARSE_ADAM_DENSE = SG_JOINED_ADAM_FACTOR,
    SG_SPARSE_ADAM_LR = SG_JOINED_ADAM_LR,
    SG_SPARSE_ADAM_T = SG_JOINED_ADAM_T,
    SG_SPARSE_ADAM_VALUES = SG_JOINED_ADAM_MORE,
    SG_SPARSE_ADAM_COLUMNS,
    SG_SPARSE_ADAM_INDPTR,
    SG_SPARSE_ADAM_T_ROWS,
    SG_SPARSE_ADAM_T_ORDER,
    SG_SPARSE_ADAM_T_INDPTR,
    SG_SPARSE_ADAM_INPUTS
};
extern const sg_op sg_op_sparse_adam;
/* Adam steps of f32 whose gradient is a sparse product that nothing else reads, of less than `most` non-zeros a row of the
 * layer. */
sg_status sg_join_sparse_adam(sg_graph *from, sg_graph *to, int64_t most, sg_error *err);

#endif
