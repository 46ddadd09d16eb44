/* rms_norm.c - root-mean-square normalisation (Zhang and Sennrich 2019) over the last n axes:
 *
 *     y = x r gamma,   r = 1 / sqrt(mean x^2 + eps)
 * Where x is bf16, gamma may be f32, as in layer_norm. */
#include "ops/axis_internal.h"
#include "ops/norm_internal.h"

#include <math.h>

enum { EPS };
#define ATTRS                                                                                                          \
    {                                                                                                                  \
        "eps", SG_ATTR_REAL                                                                                            \
    }
static const sg_attr_spec attrs[] = {ATTRS}, vjp_attrs[] = {ATTRS, SG_VJP_ATTRS}, jvp_attrs[] = {ATTRS, SG_JVP_ATTRS},
                          vjp_jvp_attrs[] = {ATTRS, SG_VJP_ATTRS, SG_JVP_ATTRS};

/* From bf16 everything in between is f32, as it is in the kernels. */
static void decompose(const sg_decompose_args *args)
{
    sg_dtype dtype = sg_dtype_of(args->in[0]), wide = sg_dtype_statistic(dtype);
    sg_value x = sg_cast(args->in[0], wide), gamma = sg_cast(args->in[1], wide);
    int32_t n = sg_rank_of(gamma), last[SG_MAX_RANK];
    for (int32_t i = 0; i < n; i++)
        last[i] = i - n;
    sg_value power = sg_mean_axes(sg_square(x), n, last, true);
    sg_value r = sg_rsqrt(sg_add_scalar(power, args->node->attr[EPS].f));
    args->out[0] = sg_cast(sg_mul(sg_mul(x, r), gamma), dtype);
    args->out[1] = r;
}

static sg_status infer(const sg_infer_args *args)
{
    SG_TRY(sg_require_real(args, 0));
    SG_TRY(sg_require_not_negative(args, EPS));
    SG_TRY(sg_norm_require_affine(args, 1));
    const sg_shape *x = &args->in_shape[0], *gamma = &args->in_shape[1];
    bool fits = gamma->rank >= 1 && gamma->rank <= x->rank;
    for (int32_t i = 0; fits && i < gamma->rank; i++)
        fits = gamma->dim[i] == x->dim[x->rank - gamma->rank + i];
    char left[SG_SHAPE_TEXT], right[SG_SHAPE_TEXT];
    if (!fits)
        return sg_infer_fail(args, SG_E_SHAPE, "gamma must have the shape of the last axes of %s, it is %s",
                             sg_shape_format(x, left, sizeof left), sg_shape_format(gamma, right, sizeof right));
    sg_shape rows = *x;
    for (int32_t i = x->rank - gamma->rank; i < x->rank; i++) {
        rows.dim[i] = 1;
        rows.name[i] = NULL;
    }
    return sg_norm_outputs(args, &rows);
}

static void eval(const sg_eval_args *args)
{
    int64_t n = sg_shape_count(args->in[1].shape), rows = sg_shape_count(args->out[1].shape);
    for (int64_t r = 0; r < rows; r++) {
        const double *x = args->in[0].data + r * n;
        double power = 0;
        for (int64_t i = 0; i < n; i++)
            power += x[i] * x[i];
        double rstd = 1 / sqrt(power / (double)n + args->attr[EPS].f);
        for (int64_t i = 0; i < n; i++)
            args->out[0].data[r * n + i] = x[i] * rstd * args->in[1].data[i];
        args->out[1].data[r] = rstd;
    }
}

static sg_cost cost(const sg_cost_args *args)
{
    double n = (double)sg_shape_count(&args->in_shape[0]), row = (double)sg_shape_count(&args->in_shape[1]);
    return (sg_cost){4 * n, (2 * n + row) * (double)sg_dtype_size(args->in_dtype[0])};
}

const sg_op sg_op_rms_norm = {
    .name = "rms_norm",
    .summary = "x / sqrt(mean x^2 + eps) * gamma over the last axes; also 1 / sqrt(..)",
    .n_in = 2,
    .n_out = 2,
    .flags = SG_OP_COMPOSITE | SG_OP_LOW,
    .attrs = attrs,
    .n_attrs = 1,
    .infer = infer,
    .decompose = decompose,
    .eval = eval,
    .cost = cost,
    .vjp_op = &sg_op_rms_norm_vjp,
    .jvp_op = &sg_op_rms_norm_jvp,
};

static sg_cost vjp_cost(const sg_cost_args *args) { return sg_derivative_cost(args, 12); }
static sg_cost jvp_cost(const sg_cost_args *args) { return sg_derivative_cost(args, 12); }
static sg_cost vjp_jvp_cost(const sg_cost_args *args) { return sg_derivative_cost(args, 34); }

/* 1 / sqrt(..) comes along: with it a row needs no sum of squares again. */
SG_DERIVATIVE_OP(rms_norm_vjp, "reverse derivative of rms_norm", vjp_attrs, rms_norm, vjp_cost, .hints = 1 << 1,
                 .jvp_op = &sg_op_rms_norm_vjp_jvp)
SG_DERIVATIVE_OP(rms_norm_jvp, "forward derivative of rms_norm", jvp_attrs, rms_norm, jvp_cost, .hints = 1 << 1)
SG_DERIVATIVE_OP(rms_norm_vjp_jvp, "forward derivative of the reverse derivative of rms_norm", vjp_jvp_attrs,
                 rms_norm_vjp, vjp_jvp_cost, .hints = 0)

sg_value sg_rms_norm(sg_value x, sg_value gamma, double eps)
{
    return sg_build_op(&sg_op_rms_norm, (sg_value[]){x, gamma}, 2, (sg_attr[]){sg_attr_real(eps)});
}
