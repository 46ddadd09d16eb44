/* joined_adam.c - what Adam steps joined with the product that is their gradient have in common. */
#include <math.h>

#include "runtime/updates_internal.h"

enum { P = SG_JOINED_ADAM_P, OUTPUTS = SG_JOINED_ADAM_OUTPUTS };
enum { ADAM_INPUTS = SG_JOINED_ADAM_MORE, ADAM_GRADIENT = SG_JOINED_ADAM_FACTOR, MOST_INPUTS = 16 };

const sg_attr_spec sg_joined_adam_attrs[SG_JOINED_ADAM_ATTRS] = {{"beta1", SG_ATTR_REAL},
                                                                 {"beta2", SG_ATTR_REAL},
                                                                 {"eps", SG_ATTR_REAL},
                                                                 {"weight_decay", SG_ATTR_REAL},
                                                                 {"decoupled", SG_ATTR_INT}};

sg_status sg_joined_adam_infer(const sg_infer_args *args)
{
    static const int32_t like[OUTPUTS] = {P, SG_JOINED_ADAM_M, SG_JOINED_ADAM_V};
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

sg_cost sg_joined_adam_cost(const sg_cost_args *args, double product_flops, double operand_bytes)
{
    double elements = (double)sg_shape_count(&args->in_shape[P]);
    return (sg_cost){product_flops + 15 * elements, operand_bytes + 24 * elements};
}

const sg_node *sg_joined_adam_product(sg_graph *from, const sg_node *node, const sg_value *in, const sg_op *product)
{
    if (node->op != &sg_op_adam || sg_dtype_of(in[P]) != SG_F32 || sg_rank_of(in[P]) != 2)
        return NULL;
    const sg_node *gradient = sg_node_of(in[ADAM_GRADIENT]);
    return gradient->op == product && sg_reader_count(from, node->in[ADAM_GRADIENT]) == 1 ? gradient : NULL;
}

void sg_joined_adam_build(sg_graph *to, const sg_op *op, const sg_node *node, const sg_value *in, sg_value factor,
                          const sg_value *more, int32_t n_more, sg_value *out)
{
    sg_value joined[MOST_INPUTS];
    for (int32_t k = 0; k < ADAM_INPUTS; k++)
        joined[k] = k == ADAM_GRADIENT ? factor : in[k];
    for (int32_t k = 0; k < n_more; k++)
        joined[ADAM_INPUTS + k] = more[k];
    sg_value first = sg_build(to, op, joined, ADAM_INPUTS + n_more, node->attr);
    for (int32_t k = 0; k < OUTPUTS; k++)
        out[k] = sg_output_of(first, k);
}
