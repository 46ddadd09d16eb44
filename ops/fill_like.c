/* fill_like.c - one number in every element, under the shape of a model that is read for nothing else. Its derivative
 * with respect to the model is zero. A model that is not real gives F32. */
#include "ops/ops_internal.h"

static const sg_attr_spec attrs[] = {{"value", SG_ATTR_REAL}};

static sg_status infer(const sg_infer_args *a)
{
    a->out_shape[0] = a->in_shape[0];
    a->out_dtype[0] = sg_dtype_is_real(a->in_dtype[0]) ? a->in_dtype[0] : SG_F32;
    return SG_OK;
}

static void eval(const sg_eval_args *a)
{
    for (int64_t i = 0, n = sg_shape_count(a->out[0].shape); i < n; i++)
        a->out[0].data[i] = a->attr[0].f;
}

static sg_cost cost(const sg_cost_args *a)
{
    return (sg_cost){0, (double)sg_shape_count(&a->out_shape[0]) * (double)sg_dtype_size(a->out_dtype[0])};
}

const sg_op sg_op_fill_like = {
    .name = "fill_like",
    .summary = "a number in every element, shaped like a model",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_ZERO_GRAD | SG_OP_FULL | SG_OP_ANY_REAL,
    .shape_only = 1,
    .attrs = attrs,
    .n_attrs = 1,
    .infer = infer,
    .eval = eval,
    .cost = cost,
};

sg_value sg_fill_like(sg_value model, double value)
{
    sg_attr attr = sg_attr_real(value);
    return sg_build_op(&sg_op_fill_like, &model, 1, &attr);
}

sg_value sg_zeros_like(sg_value model) { return sg_fill_like(model, 0); }

sg_value sg_ones_like(sg_value model) { return sg_fill_like(model, 1); }
