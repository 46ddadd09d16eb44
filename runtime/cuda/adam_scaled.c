/* adam_scaled.c - Adam steps with one more operand, a number by which the gradient is multiplied. */
#include <math.h>

#include "runtime/cuda/adam_group_internal.h"

enum { P = SG_JOINED_ADAM_P, G = SG_JOINED_ADAM_FACTOR };

/* f times `what`, as a tensor of its own; without data if memory is out, which shows as NaN. */
static sg_tensor64 scaled(const sg_tensor64 *what, const sg_tensor64 *f)
{
    int64_t n = sg_shape_count(what->shape);
    sg_tensor64 out = {what->shape, sg_calloc(n + 1, sizeof(double))};
    for (int64_t i = 0; out.data && i < n; i++)
        out.data[i] = f->data[0] * what->data[i];
    return out;
}

void sg_cuda_eval_scaled(const sg_eval_args *args, const sg_op *op, int32_t which)
{
    sg_tensor64 in[SG_SPARSE_ADAM_INPUTS], own = scaled(&args->in[which], &args->in[args->n_in - 1]);
    for (int32_t k = 0; k < args->n_in - 1; k++)
        in[k] = k == which ? own : args->in[k];
    sg_eval_args a = *args;
    a.in = in;
    a.n_in = args->n_in - 1;
    if (own.data)
        op->eval(&a);
    for (int32_t j = 0; !own.data && j < args->n_out; j++)
        for (int64_t i = 0; i < sg_shape_count(args->out[j].shape); i++)
            args->out[j].data[i] = NAN;
    sg_free(own.data);
}

static void eval_scaled_adam(const sg_eval_args *args) { sg_cuda_eval_scaled(args, &sg_op_adam, G); }

static sg_cost scaled_adam_cost(const sg_cost_args *args)
{
    double n = (double)sg_shape_count(&args->in_shape[P]);
    return (sg_cost){16 * n, 28 * n};
}

const sg_op sg_op_scaled_adam = {
    .name = "scaled_adam",
    .summary = "adam with the gradient f g, for a number f",
    .n_in = SG_SCALED_ADAM_INPUTS,
    .n_out = SG_JOINED_ADAM_OUTPUTS,
    .flags = SG_OP_STOP,
    .attrs = sg_joined_adam_attrs,
    .n_attrs = SG_JOINED_ADAM_ATTRS,
    .infer = sg_joined_adam_infer,
    .eval = eval_scaled_adam,
    .cost = scaled_adam_cost,
};
