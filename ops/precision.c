#include "ops/precision_internal.h"

#include "ops/derivative_internal.h"
#include "ops/ops.h"

extern const sg_op sg_op_layer_norm, sg_op_rms_norm, sg_op_group_norm, sg_op_batch_norm;

/* Operands that stay f32: few numbers for many, whose gradients are long sums. */
static bool stays_wide(const sg_op *op, int32_t k)
{
    bool norm = op == &sg_op_layer_norm || op == &sg_op_rms_norm || op == &sg_op_group_norm || op == &sg_op_batch_norm;
    return norm && k > 0;
}

uint32_t sg_op_precision(const sg_op *op)
{
    while (op->parent)
        op = op->parent;
    uint32_t stated = op->flags & (SG_OP_LOW | SG_OP_FOLLOWS | SG_OP_FULL);
    return stated || !(op->flags & SG_OP_ELEMENTWISE) ? stated : SG_OP_FOLLOWS;
}

/* Types of the outputs of `op` for these operands: by its shape rule, the only one to know which of them are statistics. */
static bool output_dtypes(const sg_op *op, const sg_attr *attr, int32_t n_in, const sg_shape *shape,
                          const sg_dtype *dtype, int32_t n_out, sg_dtype *out)
{
    sg_error refused;
    sg_shape *out_shape = sg_calloc(n_out + 1, sizeof *out_shape);
    sg_infer_args args = {.op = op,
                          .attr = attr,
                          .n_in = n_in,
                          .in_shape = shape,
                          .in_dtype = dtype,
                          .n_out = n_out,
                          .out_shape = out_shape,
                          .out_dtype = out,
                          .err = &refused};
    bool good = out_shape && op->infer(&args) == SG_OK;
    sg_free(out_shape);
    return good;
}

bool sg_low_dtypes(const sg_op *op, const sg_attr *attr, int32_t n_in, const sg_shape *shape, sg_dtype *dtype,
                   sg_dtype low)
{
    if (!op->parent) {
        for (int32_t k = 0; k < n_in; k++)
            dtype[k] = dtype[k] == SG_F32 && !stays_wide(op, k) ? low : dtype[k];
        return true;
    }
    sg_derivative_parts p = sg_derivative_split(op, attr, n_in);
    sg_dtype *y = sg_calloc(p.n_out + 1, sizeof *y);
    bool good = y && sg_low_dtypes(op->parent, attr, p.n_x, shape, dtype, low) &&
                output_dtypes(op->parent, attr, p.n_x, shape, dtype, p.n_out, y);
    for (int32_t j = 0; good && j < p.n_out; j++)
        if (sg_derivative_hint(op, &p, j) >= 0)
            dtype[sg_derivative_hint(op, &p, j)] = y[j];
    for (int32_t i = 0; good && i < p.n_with; i++)
        dtype[p.n_x + p.n_hints + i] = sg_is_vjp(op) ? y[p.with[i]] : dtype[p.with[i]];
    sg_free(y);
    return good;
}
