/* adam_rows.c - Adam steps whose gradient is some rows of a tensor, read where they lie: where three gradients are one product
 * (attention_joint.c), each would be copied out of it for its step. */
#include "ops/axis_internal.h"
#include "runtime/cuda/adam_group_internal.h"

extern const sg_op sg_op_slice;

enum { P = SG_JOINED_ADAM_P, G = SG_JOINED_ADAM_FACTOR };
enum { AXIS, BEGIN }; /* of slice */
enum { AT_ONCE = 4 }; /* numbers that a step loads together */

static void eval(const sg_eval_args *args)
{
    sg_tensor64 in[SG_JOINED_ADAM_MORE];
    for (int32_t k = 0; k < SG_JOINED_ADAM_MORE; k++)
        in[k] = args->in[k];
    in[G].data += args->attr[SG_ROWS_ADAM_FROM].i;
    sg_eval_args a = *args;
    a.in = in;
    sg_op_adam.eval(&a);
}

static sg_cost cost(const sg_cost_args *args)
{
    double n = (double)sg_shape_count(&args->in_shape[P]);
    return (sg_cost){15 * n, 28 * n};
}

static const sg_attr_spec attrs[SG_ROWS_ADAM_ATTRS] = {{"beta1", SG_ATTR_REAL},    {"beta2", SG_ATTR_REAL},
                                                       {"eps", SG_ATTR_REAL},      {"weight_decay", SG_ATTR_REAL},
                                                       {"decoupled", SG_ATTR_INT}, {"from", SG_ATTR_INT}};

const sg_op sg_op_rows_adam = {
    .name = "rows_adam",
    .summary = "adam whose gradient is elements of a tensor from one of them on",
    .n_in = SG_JOINED_ADAM_MORE,
    .n_out = SG_JOINED_ADAM_OUTPUTS,
    .flags = SG_OP_STOP,
    .attrs = attrs,
    .n_attrs = SG_ROWS_ADAM_ATTRS,
    .infer = sg_joined_adam_infer,
    .eval = eval,
    .cost = cost,
};

/* The first element of a slice that is whole rows, in its tensor, or -1. */
static int64_t first_of(sg_value slice)
{
    const sg_node *node = sg_node_of(slice);
    if (node->op != &sg_op_slice || node->attr[AXIS].i != 0)
        return -1;
    sg_axis_split x = sg_split_at(sg_shape_of(sg_value_at(slice.graph, node->in[0])), 0);
    return sg_slice_place(node->attr[BEGIN].i, x.size) * x.inner;
}

static bool read_in_place(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in,
                          sg_value *out)
{
    (void)user, (void)from;
    if (node->op != &sg_op_adam || sg_dtype_of(in[G]) != SG_F32)
        return false;
    int64_t first = first_of(in[G]);
    if (first < 0 || first % AT_ONCE != 0)
        return false;
    sg_value operand[SG_JOINED_ADAM_MORE];
    sg_attr attr[SG_ROWS_ADAM_ATTRS];
    for (int32_t k = 0; k < SG_JOINED_ADAM_MORE; k++)
        operand[k] = in[k];
    for (int32_t k = 0; k < SG_JOINED_ADAM_ATTRS; k++)
        attr[k] = node->attr[k];
    operand[G] = sg_value_at(to, sg_node_of(in[G])->in[0]);
    attr[SG_ROWS_ADAM_FROM] = sg_attr_int(first);
    sg_value step = sg_build(to, &sg_op_rows_adam, operand, SG_JOINED_ADAM_MORE, attr);
    for (int32_t j = 0; j < SG_JOINED_ADAM_OUTPUTS && !sg_is_none(step); j++)
        out[j] = sg_output_of(step, j);
    return true;
}

sg_status sg_cuda_rows_updates(sg_graph *from, sg_graph *to, sg_error *err)
{
    return sg_graph_rewrite(from, to, read_in_place, NULL, NULL, err);
}
