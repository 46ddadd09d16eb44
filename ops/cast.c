/* cast.c - change of dtype; stop_gradient. */
#include "graph/convert_internal.h"
#include "ops/ops_internal.h"

static const sg_attr_spec cast_attrs[] = {{"dtype", SG_ATTR_INT}};

static sg_status cast_infer(const sg_infer_args *args)
{
    int64_t dtype = args->attr[0].i;
    if (dtype < SG_F32 || dtype > SG_BOOL)
        return sg_infer_fail(args, SG_E_ARGUMENT, "%lld is no dtype", (long long)dtype);
    args->out_shape[0] = args->in_shape[0];
    args->out_dtype[0] = (sg_dtype)dtype;
    return SG_OK;
}

/* The identity between real dtypes; into or out of whole numbers and booleans the derivative is zero. */
static void cast_vjp(const sg_vjp_args *args)
{
    sg_dtype from = sg_dtype_of(args->in[0]);
    if (sg_dtype_is_real(from) && sg_dtype_is_real(sg_dtype_of(args->out[0])))
        args->gin[0] = sg_cast(args->gout[0], from);
}

static void cast_jvp(const sg_jvp_args *args) { args->tout[0] = sg_cast(args->tin[0], sg_dtype_of(args->out[0])); }

static double convert(double x, sg_dtype to) { return to == SG_BOOL ? x != 0 : to == SG_I32 ? sg_real_to_i32(x) : x; }

SG_EVAL_UNARY(cast_eval, convert(x, args->out_dtype[0]))
const sg_op sg_op_cast = {
    .name = "cast",
    .summary = "x in another dtype; to i32 toward zero, to bool x != 0",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_ELEMENTWISE,
    .attrs = cast_attrs,
    .n_attrs = 1,
    .infer = cast_infer,
    .vjp = cast_vjp,
    .jvp = cast_jvp,
    .eval = cast_eval,
};

sg_value sg_cast(sg_value x, sg_dtype dtype)
{
    if (!sg_is_none(x) && sg_dtype_of(x) == dtype)
        return x;
    return sg_build_op(&sg_op_cast, &x, 1, (sg_attr[]){sg_attr_int(dtype)});
}

SG_EVAL_UNARY(stop_gradient_eval, x)
const sg_op sg_op_stop_gradient = {
    .name = "stop_gradient",
    .summary = "x, constant under every derivative",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_ELEMENTWISE | SG_OP_STOP,
    .infer = sg_infer_same,
    .eval = stop_gradient_eval,
};

sg_value sg_stop_gradient(sg_value x) { return sg_build_unary(&sg_op_stop_gradient, x); }
