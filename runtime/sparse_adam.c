/* sparse_adam.c - the update of a first layer fed with sparse rows as one node, whose kernel need not have the gradient in memory.
 *
 * The gradient x^T g of a layer [columns, width] is as large as the layer, is written by csr_t_matmul and read once by adam.
 * Both work row by row of the layer, so a kernel can make a few rows of gradient and use them at once: of the nine streams
 * through memory (write g, read p, g, m, v, write p, m, v) six remain. */
#include <math.h>

#include "ops/ops_internal.h"
#include "runtime/updates_internal.h"

enum { INPUTS = SG_SPARSE_ADAM_INPUTS, OUTPUTS = SG_SPARSE_ADAM_OUTPUTS, ATTRS = SG_SPARSE_ADAM_ATTRS };
enum { P = SG_SPARSE_ADAM_P, DENSE, M, V, LR, T, VALUES };
enum { ADAM_INPUTS = 6, CSR_INPUTS = 6, ADAM_GRADIENT = 1 };

sg_status sg_joined_adam_infer(const sg_infer_args *args)
{
    static const int32_t like[OUTPUTS] = {P, M, V};
    for (int32_t k = 0; k < OUTPUTS; k++) {
        args->out_shape[k] = args->in_shape[like[k]];
        args->out_dtype[k] = args->in_dtype[like[k]];
    }
    return SG_OK;
}

/* A rule cannot report a failure; out of memory shows as NaN. */
void sg_joined_adam_eval(const sg_eval_args *args, const sg_op *product, const sg_attr *attr, const sg_tensor64 *in,
                         int32_t n_in)
{
    int64_t n = sg_shape_count(args->in[P].shape);
    sg_tensor64 gradient = {args->in[P].shape, sg_calloc(n, sizeof(double))};
    if (!gradient.data) {
        for (int64_t i = 0; i < n; i++)
            args->out[0].data[i] = args->out[1].data[i] = args->out[2].data[i] = NAN;
        return;
    }
    sg_eval_args a = {.attr = attr, .n_in = n_in, .n_out = 1, .in = in, .out = &gradient, .run = args->run};
    product->eval(&a);
    sg_tensor64 update[ADAM_INPUTS];
    for (int k = 0; k < ADAM_INPUTS; k++)
        update[k] = k == ADAM_GRADIENT ? gradient : args->in[k];
    a = (sg_eval_args){
        .attr = args->attr, .n_in = ADAM_INPUTS, .n_out = OUTPUTS, .in = update, .out = args->out, .run = args->run};
    sg_op_adam.eval(&a);
    sg_free(gradient.data);
}

static void eval(const sg_eval_args *args)
{
    sg_tensor64 product[CSR_INPUTS + 1];
    for (int k = 0; k < CSR_INPUTS; k++)
        product[k] = args->in[VALUES + k];
    product[CSR_INPUTS] = args->in[DENSE];
    sg_joined_adam_eval(args, &sg_op_csr_t_matmul, NULL, product, CSR_INPUTS + 1);
}

/* The product's and the step's arithmetic; p, m, v are read and written, the batch and its dense operand read. */
static sg_cost cost(const sg_cost_args *args)
{
    double elements = (double)sg_shape_count(&args->in_shape[P]), capacity = (double)args->in_shape[VALUES].dim[0];
    double width = (double)args->in_shape[DENSE].dim[1], dense = (double)sg_shape_count(&args->in_shape[DENSE]);
    return (sg_cost){2 * capacity * width + 15 * elements, 24 * elements + 4 * dense + 12 * capacity};
}

static const sg_attr_spec attrs[ATTRS] = {{"beta1", SG_ATTR_REAL},
                                          {"beta2", SG_ATTR_REAL},
                                          {"eps", SG_ATTR_REAL},
                                          {"weight_decay", SG_ATTR_REAL},
                                          {"decoupled", SG_ATTR_INT}};

const sg_op sg_op_sparse_adam = {
    .name = "sparse_adam",
    .summary = "adam with the gradient csr_t_matmul(x, g)",
    .n_in = INPUTS,
    .n_out = OUTPUTS,
    .flags = SG_OP_STOP,
    .attrs = attrs,
    .n_attrs = ATTRS,
    .infer = sg_joined_adam_infer,
    .eval = eval,
    .cost = cost,
};

/* ---- the pass */

/* Non-zeros a row of the layer, on average: their most is *user. */
static bool join(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    const int64_t *most = user;
    if (node->op != &sg_op_adam || sg_dtype_of(in[P]) != SG_F32 || sg_rank_of(in[P]) != 2)
        return false;
    const sg_node *product = sg_node_of(in[ADAM_GRADIENT]);
    if (product->op != &sg_op_csr_t_matmul || sg_reader_count(from, node->in[ADAM_GRADIENT]) != 1)
        return false;
    int64_t capacity = sg_dim_of(sg_value_at(to, product->in[0]), 0), rows = sg_dim_of(in[P], 0);
    if (capacity / *most >= rows)
        return false;
    sg_value joined[INPUTS];
    for (int k = 0; k < ADAM_INPUTS; k++)
        joined[k] = in[k];
    joined[DENSE] = sg_value_at(to, product->in[CSR_INPUTS]);
    for (int k = 0; k < CSR_INPUTS; k++)
        joined[VALUES + k] = sg_value_at(to, product->in[k]);
    sg_value first = sg_build(to, &sg_op_sparse_adam, joined, INPUTS, node->attr);
    for (int k = 0; k < OUTPUTS; k++)
        out[k] = sg_output_of(first, k);
    return true;
}

sg_status sg_join_sparse_adam(sg_graph *from, sg_graph *to, int64_t most, sg_error *err)
{
    return sg_graph_rewrite(from, to, join, &most, NULL, err);
}
