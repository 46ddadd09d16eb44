/* chain_steps.c - which operators can be steps of generated kernels. */
#include "runtime/cuda/chain_parts_internal.h"

#define SG_OP(name) extern const sg_op sg_op_##name;
#include "ops/op_list.h"
#undef SG_OP

/* Steps on float registers, and those that have one on integers too; the function's name is the op's. */
static const sg_op *const real_steps[] = {
    &sg_op_floor,       &sg_op_exp,         &sg_op_expm1,      &sg_op_log,     &sg_op_log1p,
    &sg_op_sqrt,        &sg_op_rsqrt,       &sg_op_reciprocal, &sg_op_sin,     &sg_op_cos,
    &sg_op_tanh,        &sg_op_erf,         &sg_op_erfc,       &sg_op_sigmoid, &sg_op_log_sigmoid,
    &sg_op_softplus,    &sg_op_gelu,        &sg_op_leaky_relu, &sg_op_elu,     &sg_op_gelu_derivative,
    &sg_op_clip,        &sg_op_is_finite,   &sg_op_div,        &sg_op_pow,     &sg_op_xlogy,
    &sg_op_logical_and, &sg_op_logical_not, &sg_op_logical_or,
};
static const sg_op *const both_steps[] = {
    &sg_op_neg,       &sg_op_abs,  &sg_op_sign,       &sg_op_square,  &sg_op_relu,          &sg_op_add,
    &sg_op_sub,       &sg_op_mul,  &sg_op_maximum,    &sg_op_minimum, &sg_op_equal,         &sg_op_where,
    &sg_op_not_equal, &sg_op_less, &sg_op_less_equal, &sg_op_greater, &sg_op_greater_equal,
};

static bool among(const sg_op *op, const sg_op *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == op)
            return true;
    return false;
}

bool sg_cuda_step_sum(const sg_op *op) { return op == &sg_op_sum || op == &sg_op_sum_like; }
bool sg_cuda_step_both(const sg_op *op) { return among(op, both_steps, sizeof both_steps / sizeof *both_steps); }
bool sg_cuda_step_real(const sg_op *op) { return among(op, real_steps, sizeof real_steps / sizeof *real_steps); }

/* A function to the digits of bf16 alone takes much less time. */
bool sg_cuda_step_low(const sg_op *op)
{
    return op == &sg_op_gelu || op == &sg_op_gelu_derivative || op == &sg_op_sigmoid || op == &sg_op_tanh;
}

/* The operand itself, seen in another shape. */
bool sg_cuda_step_view(const sg_op *op) { return op == &sg_op_stop_gradient || op == &sg_op_broadcast_like; }

bool sg_cuda_step_draw(const sg_op *op)
{
    return op == &sg_op_uniform_like || op == &sg_op_normal_like || op == &sg_op_keyed_uniform;
}

static bool has_register(sg_dtype dtype)
{
    return dtype == SG_F32 || dtype == SG_I32 || dtype == SG_BOOL || dtype == SG_BF16;
}

bool sg_cuda_chain_has(const sg_op *op, int32_t n_in, const sg_dtype *in, sg_dtype out)
{
    for (int32_t k = 0; k < n_in; k++)
        if (!has_register(in[k]))
            return false;
    if (!has_register(out))
        return false;
    if (sg_cuda_step_view(op) || op == &sg_op_tile_axis || op == &sg_op_fill_like || op == &sg_op_cast)
        return true;
    if (sg_cuda_step_draw(op))
        return out == SG_F32 || out == SG_BF16;
    return sg_cuda_step_both(op) || (sg_cuda_step_real(op) && in[n_in - 1] != SG_I32);
}
