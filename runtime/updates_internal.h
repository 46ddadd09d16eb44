/* updates_internal.h - optimiser steps joined with what makes their gradient: a pass for sparse products (sparse_adam.c), for
 * devices that have a kernel for the node made, and the rules that all such nodes share. */
#ifndef SG_UPDATES_INTERNAL_H
#define SG_UPDATES_INTERNAL_H

#include "ops/ops_internal.h"

/* Operands: those of adam with the dense operand of the product in the place of the gradient, then the six of the CSR batch.
 * Attributes: those of adam. */
enum {
    SG_SPARSE_ADAM_P,
    SG_SPARSE_ADAM_DENSE,
    SG_SPARSE_ADAM_M,
    SG_SPARSE_ADAM_V,
    SG_SPARSE_ADAM_LR,
    SG_SPARSE_ADAM_T,
    SG_SPARSE_ADAM_VALUES,
    SG_SPARSE_ADAM_COLUMNS,
    SG_SPARSE_ADAM_INDPTR,
    SG_SPARSE_ADAM_T_ROWS,
    SG_SPARSE_ADAM_T_ORDER,
    SG_SPARSE_ADAM_T_INDPTR,
    SG_SPARSE_ADAM_INPUTS
};
enum { SG_SPARSE_ADAM_OUTPUTS = 3, SG_SPARSE_ADAM_ATTRS = 5 };
extern const sg_op sg_op_sparse_adam;
/* Adam steps of f32 whose gradient is a sparse product that nothing else reads, of less than `most` non-zeros a row of the
 * layer. */
sg_status sg_join_sparse_adam(sg_graph *from, sg_graph *to, int64_t most, sg_error *err);

/* Rules of a node that is an Adam step joined with the product that is its gradient, whose first operands are those of adam with
 * one of the product's in the place of the gradient. Shapes are those of p, m, v; the value is that of the two ops one after the
 * other, the product with these operands and attributes. */
sg_status sg_joined_adam_infer(const sg_infer_args *args);
void sg_joined_adam_eval(const sg_eval_args *args, const sg_op *product, const sg_attr *attr, const sg_tensor64 *in,
                         int32_t n_in);

#endif
