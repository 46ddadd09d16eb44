/* norm.c - what the rules of layer, rms, group and batch normalisation share. */
#include "ops/norm_internal.h"

sg_status sg_norm_require_affine(const sg_infer_args *args, int32_t input)
{
    return args->in_dtype[input] == sg_dtype_statistic(args->in_dtype[0]) ? SG_OK
                                                                          : sg_require_same_dtype(args, 0, input);
}

sg_status sg_norm_outputs(const sg_infer_args *args, const sg_shape *statistic)
{
    args->out_shape[0] = args->in_shape[0];
    args->out_dtype[0] = args->in_dtype[0];
    for (int32_t k = 1; k < args->n_out; k++) {
        args->out_shape[k] = *statistic;
        args->out_dtype[k] = sg_dtype_statistic(args->in_dtype[0]);
    }
    return SG_OK;
}

sg_cost sg_norm_vjp_cost(const sg_cost_args *args) { return sg_derivative_cost(args, 15); }
sg_cost sg_norm_jvp_cost(const sg_cost_args *args) { return sg_derivative_cost(args, 15); }
sg_cost sg_norm_vjp_jvp_cost(const sg_cost_args *args) { return sg_derivative_cost(args, 40); }
