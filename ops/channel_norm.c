/* channel_norm.c - normalisations of [N, C, ...] with a factor and a shift for each channel: group and batch
 * normalisation.
 *
 * Group normalisation (Wu and He 2018) is layer normalisation of [N, groups, everything else], whose statistics are further outputs.
 * Batch normalisation (Ioffe and Szegedy 2015) takes mean and variance of a channel over all other axes:
 *
 *     y = (x - m) / sqrt(v + eps) gamma + beta
 * with m, v of this batch (v biased) in training, further outputs of the operator, and the running statistics in inference. In
 * training these become
 *
 *     running <- (1 - momentum) running + momentum (m or v n / (n - 1)),     n the number of elements of a channel;
 * constants for every derivative. For n = 1 the unbiased variance takes the value of the biased one, 0. */
#include "ops/axis_internal.h"
#include "ops/norm_internal.h"

enum { GROUPS, GROUP_EPS };
#define GROUP_ATTRS                                                                                                    \
    {"groups", SG_ATTR_INT}, { "eps", SG_ATTR_REAL }
static const sg_attr_spec group_attrs[] = {GROUP_ATTRS}, group_vjp_attrs[] = {GROUP_ATTRS, SG_VJP_ATTRS},
                          group_jvp_attrs[] = {GROUP_ATTRS, SG_JVP_ATTRS},
                          group_vjp_jvp_attrs[] = {GROUP_ATTRS, SG_VJP_ATTRS, SG_JVP_ATTRS};
enum { EPS };
#define BATCH_ATTRS                                                                                                    \
    {                                                                                                                  \
        "eps", SG_ATTR_REAL                                                                                            \
    }
static const sg_attr_spec batch_attrs[] = {BATCH_ATTRS}, batch_vjp_attrs[] = {BATCH_ATTRS, SG_VJP_ATTRS},
                          batch_jvp_attrs[] = {BATCH_ATTRS, SG_JVP_ATTRS},
                          batch_vjp_jvp_attrs[] = {BATCH_ATTRS, SG_VJP_ATTRS, SG_JVP_ATTRS};

/* v [C] -> [C, 1, ...], which broadcasts along axis 1 of x. */
static sg_value along_channels(sg_value v, sg_value x)
{
    for (int32_t i = 2; i < sg_rank_of(x); i++)
        v = sg_expand_dims(v, -1);
    return v;
}

static sg_value scale_and_shift(sg_value x, sg_value gamma, sg_value beta)
{
    return sg_add(sg_mul(x, along_channels(gamma, x)), along_channels(beta, x));
}

/* Inputs 1.. are [C]; where x is bf16, they may be f32, as in layer_norm. */
static sg_status require_channels(const sg_infer_args *args)
{
    char text[SG_SHAPE_TEXT];
    SG_TRY(sg_require_real(args, 0));
    SG_TRY(sg_require_not_negative(args, args->op->n_attrs - 1)); /* eps, the last one of each */
    const sg_shape *x = &args->in_shape[0];
    if (x->rank < 2)
        return sg_infer_fail(args, SG_E_SHAPE, "x must be [N, C, ...], it is %s",
                             sg_shape_format(x, text, sizeof text));
    for (int32_t k = 1; k < args->n_in; k++) {
        const sg_shape *v = &args->in_shape[k];
        SG_TRY(sg_norm_require_affine(args, k));
        if (v->rank != 1 || v->dim[0] != x->dim[1])
            return sg_infer_fail(args, SG_E_SHAPE,
                                 "input %d must have one element for each of the %lld channels, not %s", (int)k,
                                 (long long)x->dim[1], sg_shape_format(v, text, sizeof text));
    }
    return sg_infer_same(args);
}

/* ------------------------------------------------------------------------------------------ group normalisation */

static void group_decompose(const sg_decompose_args *args)
{
    sg_dtype dtype = sg_dtype_of(args->in[0]), wide = sg_dtype_statistic(dtype);
    sg_value x = sg_cast(args->in[0], wide), gamma = sg_cast(args->in[1], wide), beta = sg_cast(args->in[2], wide);
    sg_value groups = sg_reshape(x, SG_SHAPE(0, args->node->attr[GROUPS].i, -1));
    sg_value normal = sg_layer_norm(groups, SG_NONE, SG_NONE, args->node->attr[GROUP_EPS].f);
    args->out[0] = sg_cast(scale_and_shift(sg_reshape_like(normal, x), gamma, beta), dtype);
    for (int32_t k = 1; k < 3; k++)
        args->out[k] = sg_sum_axes(sg_output_of(normal, k), SG_AXES(2), false); /* of size 1 */
}

static sg_status group_infer(const sg_infer_args *args)
{
    SG_TRY(require_channels(args));
    int64_t groups = args->attr[GROUPS].i, channels = args->in_shape[0].dim[1];
    if (groups < 1 || channels % groups != 0 || groups > (channels > 0 ? channels : 1)) /* 0 divides into any number */
        return sg_infer_fail(args, SG_E_ARGUMENT, "%lld channels cannot be cut into %lld equal groups",
                             (long long)channels, (long long)groups);
    sg_shape statistic = SG_SHAPE(0, groups);
    sg_shape_put(&statistic, 0, &args->in_shape[0], 0);
    return sg_norm_outputs(args, &statistic);
}

static sg_cost norm_cost(const sg_cost_args *args)
{
    double n = (double)sg_shape_count(&args->in_shape[0]), channels = (double)args->in_shape[0].dim[1];
    double small = (double)(args->n_in - 1 + args->n_out - 1) * channels;
    return (sg_cost){7 * n, (2 * n + small) * (double)sg_dtype_size(args->in_dtype[0])};
}

const sg_op sg_op_group_norm = {
    .name = "group_norm",
    .summary =
        "layer_norm of each group of channels of [N, C, ...], then * gamma + beta by channel; also its statistics",
    .n_in = 3,
    .n_out = 3,
    .flags = SG_OP_COMPOSITE | SG_OP_LOW,
    .attrs = group_attrs,
    .n_attrs = 2,
    .infer = group_infer,
    .decompose = group_decompose,
    .cost = norm_cost,
    .vjp_op = &sg_op_group_norm_vjp,
    .jvp_op = &sg_op_group_norm_jvp,
};

SG_DERIVATIVE_OP(group_norm_vjp, "reverse derivative of group_norm", group_vjp_attrs, group_norm, sg_norm_vjp_cost,
                 .hints = SG_NORM_STATISTICS, .jvp_op = &sg_op_group_norm_vjp_jvp)
SG_DERIVATIVE_OP(group_norm_jvp, "forward derivative of group_norm", group_jvp_attrs, group_norm, sg_norm_jvp_cost,
                 .hints = SG_NORM_STATISTICS)
SG_DERIVATIVE_OP(group_norm_vjp_jvp, "forward derivative of the reverse derivative of group_norm", group_vjp_jvp_attrs,
                 group_norm_vjp, sg_norm_vjp_jvp_cost, .hints = 0)

sg_value sg_group_norm(sg_value x, int64_t groups, sg_value gamma, sg_value beta, double eps)
{
    return sg_build_op(&sg_op_group_norm, (sg_value[]){x, gamma, beta}, 3,
                       (sg_attr[]){sg_attr_int(groups), sg_attr_real(eps)});
}

/* ------------------------------------------------------------------------------------------ batch normalisation */

/* All axes but the channels. */
static int32_t other_axes(sg_value x, int32_t *axes)
{
    int32_t n = 0;
    for (int32_t i = 0; i < sg_rank_of(x); i++)
        if (i != 1)
            axes[n++] = i;
    return n;
}

/* From bf16 everything in between is f32, as it is in the kernels. */
static void training_decompose(const sg_decompose_args *args)
{
    sg_dtype dtype = sg_dtype_of(args->in[0]), wide = sg_dtype_statistic(dtype);
    sg_value x = sg_cast(args->in[0], wide), gamma = sg_cast(args->in[1], wide), beta = sg_cast(args->in[2], wide);
    int32_t axes[SG_MAX_RANK], n = other_axes(x, axes);
    sg_value mean = sg_mean_axes(x, n, axes, false), centred = sg_sub(x, along_channels(mean, x));
    sg_value variance = sg_mean_axes(sg_square(centred), n, axes, false);
    sg_value rstd = sg_rsqrt(sg_add_scalar(variance, args->node->attr[EPS].f));
    args->out[0] = sg_cast(scale_and_shift(sg_mul(centred, along_channels(rstd, x)), gamma, beta), dtype);
    args->out[1] = mean;
    args->out[2] = variance;
}

static sg_status training_infer(const sg_infer_args *args)
{
    SG_TRY(require_channels(args));
    return sg_norm_outputs(args, &args->in_shape[1]);
}

const sg_op sg_op_batch_norm = {
    .name = "batch_norm",
    .summary = "(x - mean) / sqrt(variance + eps) * gamma + beta by channel of the batch; also mean and variance",
    .n_in = 3,
    .n_out = 3,
    .flags = SG_OP_COMPOSITE | SG_OP_LOW,
    .attrs = batch_attrs,
    .n_attrs = 1,
    .infer = training_infer,
    .decompose = training_decompose,
    .cost = norm_cost,
    .vjp_op = &sg_op_batch_norm_vjp,
    .jvp_op = &sg_op_batch_norm_jvp,
};

SG_DERIVATIVE_OP(batch_norm_vjp, "reverse derivative of batch_norm", batch_vjp_attrs, batch_norm, sg_norm_vjp_cost,
                 .hints = SG_NORM_STATISTICS, .jvp_op = &sg_op_batch_norm_vjp_jvp)
SG_DERIVATIVE_OP(batch_norm_jvp, "forward derivative of batch_norm", batch_jvp_attrs, batch_norm, sg_norm_jvp_cost,
                 .hints = SG_NORM_STATISTICS)
SG_DERIVATIVE_OP(batch_norm_vjp_jvp, "forward derivative of the reverse derivative of batch_norm", batch_vjp_jvp_attrs,
                 batch_norm_vjp, sg_norm_vjp_jvp_cost, .hints = 0)

/* (1 - momentum) old + momentum now, without a derivative. */
static sg_value follow(sg_value old, sg_value now, double momentum)
{
    char text[SG_SHAPE_TEXT];
    if (!sg_is_none(old) && !sg_is_none(now) && !sg_shape_equal(sg_shape_of(old), sg_shape_of(now)))
        return sg_graph_fail(
            old.graph, SG_E_SHAPE, old,
            "batch_norm: a running statistic must have one element for each of the %lld channels, not %s",
            (long long)sg_dim_of(now, 0), sg_shape_format(sg_shape_of(old), text, sizeof text));
    now = sg_is_none(old) ? now : sg_cast(now, sg_dtype_of(old));
    return sg_stop_gradient(sg_add(sg_mul_scalar(old, 1 - momentum), sg_mul_scalar(now, momentum)));
}

sg_batch_norm_result sg_batch_norm(sg_value x, sg_value gamma, sg_value beta, sg_value running_mean,
                                   sg_value running_variance, double momentum, double eps)
{
    int32_t axes[SG_MAX_RANK];
    if (!sg_require_setting(x, momentum >= 0 && momentum <= 1, "batch_norm", "momentum", momentum, "in [0, 1]"))
        return (sg_batch_norm_result){SG_NONE, SG_NONE, SG_NONE};
    sg_value y = sg_build_op(&sg_op_batch_norm, (sg_value[]){x, gamma, beta}, 3, (sg_attr[]){sg_attr_real(eps)});
    if (sg_is_none(y))
        return (sg_batch_norm_result){SG_NONE, SG_NONE, SG_NONE};
    sg_value mean = sg_output_of(y, 1), variance = sg_output_of(y, 2), one = sg_number(variance, 1);
    sg_value count = sg_cast(sg_count_axes(x, other_axes(x, axes), axes), sg_dtype_of(variance));
    variance = sg_mul(variance, sg_div(count, sg_maximum(sg_sub(count, one), one)));
    return (sg_batch_norm_result){y, follow(running_mean, mean, momentum),
                                  follow(running_variance, variance, momentum)};
}

static void inference_decompose(const sg_decompose_args *args)
{
    sg_dtype dtype = sg_dtype_of(args->in[0]), wide = sg_dtype_statistic(dtype);
    sg_value in[5];
    for (int32_t k = 0; k < 5; k++)
        in[k] = sg_cast(args->in[k], wide);
    sg_value rstd = sg_rsqrt(sg_add_scalar(in[4], args->node->attr[EPS].f));
    sg_value normal = sg_mul(sg_sub(in[0], along_channels(in[3], in[0])), along_channels(rstd, in[0]));
    args->out[0] = sg_cast(scale_and_shift(normal, in[1], in[2]), dtype);
}

const sg_op sg_op_batch_norm_inference = {
    .name = "batch_norm_inference",
    .summary = "(x - running mean) / sqrt(running variance + eps) * gamma + beta by channel",
    .n_in = 5,
    .n_out = 1,
    .flags = SG_OP_COMPOSITE | SG_OP_FULL,
    .attrs = batch_attrs,
    .n_attrs = 1,
    .infer = require_channels,
    .decompose = inference_decompose,
    .cost = norm_cost,
};

sg_value sg_batch_norm_inference(sg_value x, sg_value gamma, sg_value beta, sg_value running_mean,
                                 sg_value running_variance, double eps)
{
    sg_value in[] = {x, gamma, beta, running_mean, running_variance};
    return sg_build_op(&sg_op_batch_norm_inference, in, 5, (sg_attr[]){sg_attr_real(eps)});
}
