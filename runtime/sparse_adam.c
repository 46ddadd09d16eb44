/* sparse_adam.c - the update of a first layer fed with sparse rows as one node, whose kernel need not have the gradient in memory.
 *
 * The gradient x^T g of a layer [columns, width] is as large as the layer, is written by csr_t_matmul and read once by adam.
 * Both work row by row of the layer, so a kernel can make a few rows of gradient and use them at once: of the nine streams
 * through memory (write g, read p, g, m, v, write p, m, v) six remain. */
#include "runtime/updates_internal.h"

enum { P = SG_SPARSE_ADAM_P, DENSE = SG_SPARSE_ADAM_DENSE, VALUES = SG_SPARSE_ADAM_VALUES };
enum { CSR_INPUTS = 6 };

static void eval(const sg_eval_args *args)
{
    sg_tensor64 product[CSR_INPUTS + 1];
    for (int k = 0; k < CSR_INPUTS; k++)
        product[k] = args->in[VALUES + k];
    product[CSR_INPUTS] = args->in[DENSE];
    sg_joined_adam_eval(args, &sg_op_csr_t_matmul, NULL, product, CSR_INPUTS + 1);
}

static sg_cost cost(const sg_cost_args *args)
{
    double capacity = (double)args->in_shape[VALUES].dim[0], width = (double)args->in_shape[DENSE].dim[1];
    double dense = (double)sg_shape_count(&args->in_shape[DENSE]);
    return sg_joined_adam_cost(args, 2 * capacity * width, 4 * dense + 12 * capacity);
}

const sg_op sg_op_sparse_adam =
    SG_JOINED_ADAM_OP("sparse_adam", "adam with the gradient csr_t_matmul(x, g)", SG_SPARSE_ADAM_INPUTS, eval, cost);

/* ---- the pass */

/* Non-zeros a row of the layer, on average: their most is *user. */
static bool join(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    const int64_t *most = user;
    const sg_node *product = sg_joined_adam_product(from, node, in, &sg_op_csr_t_matmul);
    if (!product)
        return false;
    int64_t capacity = sg_dim_of(sg_value_at(to, product->in[0]), 0), rows = sg_dim_of(in[P], 0);
    if (capacity / *most >= rows)
        return false;
    sg_value batch[CSR_INPUTS];
    for (int k = 0; k < CSR_INPUTS; k++)
        batch[k] = sg_value_at(to, product->in[k]);
    sg_joined_adam_build(to, &sg_op_sparse_adam, node, in, sg_value_at(to, product->in[CSR_INPUTS]), batch, CSR_INPUTS,
                         out);
    return true;
}

sg_status sg_join_sparse_adam(sg_graph *from, sg_graph *to, int64_t most, sg_error *err)
{
    return sg_graph_rewrite(from, to, join, &most, NULL, err);
}
