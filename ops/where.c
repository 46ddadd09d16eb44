/* where.c - selection by a condition. */
#include "ops/ops_internal.h"

static sg_status where_infer(const sg_infer_args *args)
{
    SG_TRY(sg_require_dtype(args, 0, SG_BOOL));
    SG_TRY(sg_require_same_dtype(args, 1, 2));
    args->out_dtype[0] = args->in_dtype[1];
    return sg_broadcast_inputs(args, &args->out_shape[0]);
}

/* Each side gets the cotangent where it was taken and an exact zero elsewhere (not 0 * g: g may be infinite or NaN). */
static void where_vjp(const sg_vjp_args *args)
{
    sg_value condition = args->in[0], g = args->gout[0];
    if (args->need[1])
        args->gin[1] = sg_where(condition, g, sg_number(g, 0));
    if (args->need[2])
        args->gin[2] = sg_where(condition, sg_number(g, 0), g);
}

static void where_eval(const sg_eval_args *args)
{
    int64_t n = sg_shape_count(args->out[0].shape);
    sg_walk walk;
    sg_walk_begin(&walk, args->out[0].shape, args->in, 3);
    for (int64_t i = 0; i < n; i++, sg_walk_next(&walk)) {
        int32_t side = args->in[0].data[walk.offset[0]] != 0 ? 1 : 2;
        args->out[0].data[i] = args->in[side].data[walk.offset[side]];
    }
}

const sg_op sg_op_where = {
    .name = "where",
    .summary = "a where the condition holds, else b",
    .n_in = 3,
    .n_out = 1,
    .flags = SG_OP_ELEMENTWISE,
    .infer = where_infer,
    .vjp = where_vjp,
    .eval = where_eval,
};

sg_value sg_where(sg_value condition, sg_value a, sg_value b)
{
    return sg_build_op(&sg_op_where, (sg_value[]){condition, a, b}, 3, NULL);
}
