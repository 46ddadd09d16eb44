/* layer_norm.c - layer normalisation (Ba, Kiros and Hinton 2016) over the last n axes.
 *
 *     y = (x - m) r gamma + beta,   m = mean x,   r = 1 / sqrt(mean (x - m)^2 + eps)
 * The variance is the mean of squared deviations: mean x^2 - m^2 would cancel where m is large beside the deviations. Where x is
 * bf16, gamma and beta may be f32: there is one of them for many rows, and their gradients are sums of many terms. */
#include "ops/axis_internal.h"
#include "ops/norm_internal.h"

#include <math.h>

enum { AXES, EPS };
#define ATTRS                                                                                                          \
    {"axes", SG_ATTR_INT}, { "eps", SG_ATTR_REAL }
static const sg_attr_spec attrs[] = {ATTRS}, vjp_attrs[] = {ATTRS, SG_VJP_ATTRS}, jvp_attrs[] = {ATTRS, SG_JVP_ATTRS},
                          vjp_jvp_attrs[] = {ATTRS, SG_VJP_ATTRS, SG_JVP_ATTRS};

/* From bf16 everything in between is f32, as it is in the kernels. */
static void decompose(const sg_decompose_args *args)
{
    sg_dtype dtype = sg_dtype_of(args->in[0]), wide = sg_dtype_statistic(dtype);
    sg_value x = sg_cast(args->in[0], wide), gamma = sg_cast(args->in[1], wide), beta = sg_cast(args->in[2], wide);
    int32_t n = (int32_t)args->node->attr[AXES].i, last[SG_MAX_RANK];
    for (int32_t i = 0; i < n; i++)
        last[i] = i - n;
    sg_value mean = sg_mean_axes(x, n, last, true), centred = sg_sub(x, mean);
    sg_value variance = sg_mean_axes(sg_square(centred), n, last, true);
    sg_value rstd = sg_rsqrt(sg_add_scalar(variance, args->node->attr[EPS].f));
    args->out[0] = sg_cast(sg_add(sg_mul(sg_mul(centred, rstd), gamma), beta), dtype);
    args->out[1] = mean;
    args->out[2] = rstd;
}

static sg_status require_affine(const sg_infer_args *args, int32_t input, const sg_shape *row)
{
    char need[SG_SHAPE_TEXT], is[SG_SHAPE_TEXT];
    SG_TRY(sg_norm_require_affine(args, input));
    const sg_shape *shape = &args->in_shape[input];
    if (shape->rank == 0 || sg_shape_equal(shape, row))
        return SG_OK;
    return sg_infer_fail(args, SG_E_SHAPE, "%s must have the shape %s of the normalised axes, it is %s",
                         input == 1 ? "gamma" : "beta", sg_shape_format(row, need, sizeof need),
                         sg_shape_format(shape, is, sizeof is));
}

static sg_status infer(const sg_infer_args *args)
{
    SG_TRY(sg_require_real(args, 0));
    SG_TRY(sg_require_not_negative(args, EPS));
    const sg_shape *x = &args->in_shape[0];
    int64_t n = args->attr[AXES].i;
    if (n < 1 || n > x->rank)
        return sg_infer_fail(args, SG_E_SHAPE, "cannot normalise the last %lld axes of a value of rank %d",
                             (long long)n, (int)x->rank);
    sg_shape row = sg_shape_scalar(), rows = *x;
    for (int32_t i = x->rank - (int32_t)n; i < x->rank; i++) {
        sg_shape_put(&row, row.rank++, x, i);
        rows.dim[i] = 1;
        rows.name[i] = NULL;
    }
    SG_TRY(require_affine(args, 1, &row));
    SG_TRY(require_affine(args, 2, &row));
    return sg_norm_outputs(args, &rows);
}

static double mean_of(const double *x, int64_t n, double shift, int power)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += power == 2 ? (x[i] - shift) * (x[i] - shift) : x[i] - shift;
    return sum / (double)n;
}

/* Element i of gamma or beta, which may be one number. */
static double affine_at(const sg_tensor64 *t, int64_t i) { return t->data[t->shape->rank == 0 ? 0 : i]; }

static void eval(const sg_eval_args *args)
{
    int64_t rows = sg_shape_count(args->out[1].shape), count = sg_shape_count(args->in[0].shape);
    int64_t n = 1, rank = args->in[0].shape->rank;
    for (int64_t i = rank - args->attr[AXES].i; i < rank; i++)
        n *= args->in[0].shape->dim[i];
    for (int64_t r = 0; r < rows; r++) {
        const double *x = args->in[0].data + r * n;
        double mean = mean_of(x, n, 0, 1), rstd = 1 / sqrt(mean_of(x, n, mean, 2) + args->attr[EPS].f);
        for (int64_t i = 0; i < n && count > 0; i++)
            args->out[0].data[r * n + i] =
                (x[i] - mean) * rstd * affine_at(&args->in[1], i) + affine_at(&args->in[2], i);
        args->out[1].data[r] = mean;
        args->out[2].data[r] = rstd;
    }
}

/* A sum, a difference, a square and its sum, a product, and the affine map. */
static sg_cost cost(const sg_cost_args *args)
{
    double n = (double)sg_shape_count(&args->in_shape[0]), row = (double)sg_shape_count(&args->in_shape[1]);
    return (sg_cost){7 * n, (2 * n + 2 * row) * (double)sg_dtype_size(args->in_dtype[0])};
}

const sg_op sg_op_layer_norm = {
    .name = "layer_norm",
    .summary = "(x - mean) / sqrt(variance + eps) * gamma + beta over the last axes; also mean and 1 / sqrt(..)",
    .n_in = 3,
    .n_out = 3,
    .flags = SG_OP_COMPOSITE | SG_OP_LOW,
    .attrs = attrs,
    .n_attrs = 2,
    .infer = infer,
    .decompose = decompose,
    .eval = eval,
    .cost = cost,
    .vjp_op = &sg_op_layer_norm_vjp,
    .jvp_op = &sg_op_layer_norm_jvp,
};

SG_DERIVATIVE_OP(layer_norm_vjp, "reverse derivative of layer_norm", vjp_attrs, layer_norm, sg_norm_vjp_cost,
                 .hints = SG_NORM_STATISTICS, .jvp_op = &sg_op_layer_norm_vjp_jvp)
SG_DERIVATIVE_OP(layer_norm_jvp, "forward derivative of layer_norm", jvp_attrs, layer_norm, sg_norm_jvp_cost,
                 .hints = SG_NORM_STATISTICS)
SG_DERIVATIVE_OP(layer_norm_vjp_jvp, "forward derivative of the reverse derivative of layer_norm", vjp_jvp_attrs,
                 layer_norm_vjp, sg_norm_vjp_jvp_cost, .hints = 0)

sg_value sg_layer_norm(sg_value x, sg_value gamma, sg_value beta, double eps)
{
    if (sg_is_none(x))
        return SG_NONE;
    int32_t n = !sg_is_none(gamma) ? sg_rank_of(gamma) : !sg_is_none(beta) ? sg_rank_of(beta) : 1;
    sg_value in[] = {x, sg_is_none(gamma) ? sg_number(x, 1) : gamma, sg_is_none(beta) ? sg_number(x, 0) : beta};
    return sg_build_op(&sg_op_layer_norm, in, 3, (sg_attr[]){sg_attr_int(n), sg_attr_real(eps)});
}
