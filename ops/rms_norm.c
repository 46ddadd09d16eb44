/* rms_norm.c - root-mean-square normalisation (Zhang and Sennrich 2019) over the last n axes:
 *
 *     y = x r gamma,   r = 1 / sqrt(mean x^2 + eps) */
#include "ops/axis_internal.h"

#include <math.h>

enum { EPS };
static const sg_attr_spec attrs[] = {{"eps", SG_ATTR_REAL}};

static void decompose(const sg_decompose_args *args)
{
    sg_value x = args->in[0], gamma = args->in[1];
    int32_t n = sg_rank_of(gamma), last[SG_MAX_RANK];
    for (int32_t i = 0; i < n; i++)
        last[i] = i - n;
    sg_value power = sg_mean_axes(sg_square(x), n, last, true);
    sg_value r = sg_rsqrt(sg_add_scalar(power, args->node->attr[EPS].f));
    args->out[0] = sg_mul(sg_mul(x, r), gamma);
}

static sg_status infer(const sg_infer_args *args)
{
    SG_TRY(sg_require_real(args, 0));
    SG_TRY(sg_require_same_dtype(args, 0, 1));
    const sg_shape *x = &args->in_shape[0], *gamma = &args->in_shape[1];
    bool fits = gamma->rank >= 1 && gamma->rank <= x->rank;
    for (int32_t i = 0; fits && i < gamma->rank; i++)
        fits = gamma->dim[i] == x->dim[x->rank - gamma->rank + i];
    char left[SG_SHAPE_TEXT], right[SG_SHAPE_TEXT];
    if (!fits)
        return sg_infer_fail(args, SG_E_SHAPE, "gamma must have the shape of the last axes of %s, it is %s",
                             sg_shape_format(x, left, sizeof left), sg_shape_format(gamma, right, sizeof right));
    return sg_infer_same(args);
}

static void eval(const sg_eval_args *args)
{
    int64_t n = sg_shape_count(args->in[1].shape), rows = n > 0 ? sg_shape_count(args->in[0].shape) / n : 0;
    for (int64_t r = 0; r < rows; r++) {
        const double *x = args->in[0].data + r * n;
        double power = 0;
        for (int64_t i = 0; i < n; i++)
            power += x[i] * x[i];
        for (int64_t i = 0; i < n; i++)
            args->out[0].data[r * n + i] = x[i] / sqrt(power / (double)n + args->attr[EPS].f) * args->in[1].data[i];
    }
}

static sg_cost cost(const sg_cost_args *args)
{
    double n = (double)sg_shape_count(&args->in_shape[0]), row = (double)sg_shape_count(&args->in_shape[1]);
    return (sg_cost){4 * n, (2 * n + row) * (double)sg_dtype_size(args->in_dtype[0])};
}

const sg_op sg_op_rms_norm = {
    .name = "rms_norm",
    .summary = "x / sqrt(mean x^2 + eps) * gamma over the last axes",
    .n_in = 2,
    .n_out = 1,
    .flags = SG_OP_COMPOSITE | SG_OP_FULL,
    .attrs = attrs,
    .n_attrs = 1,
    .infer = infer,
    .decompose = decompose,
    .eval = eval,
    .cost = cost,
};

sg_value sg_rms_norm(sg_value x, sg_value gamma, double eps)
{
    return sg_build_op(&sg_op_rms_norm, (sg_value[]){x, gamma}, 2, (sg_attr[]){sg_attr_real(eps)});
}
