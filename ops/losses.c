/* losses.c - bce_with_logits, softmax_cross_entropy. */
#include "ops/derivative_internal.h"

#include <math.h>

/* ---- bce_with_logits: -y log s(z) - (1 - y) log s(-z) = softplus(z) - z y, elementwise.
 *
 * softplus(z) - z y cancels for a confident right answer (z = 40, y = 1: 40 - 40), so the loss is built as
 *     y softplus(-z) + (1 - y) softplus(z),
 * equal by softplus(-z) = softplus(z) - z, whose terms are both >= 0 for y in [0, 1]. Likewise
 *     d/dz = (1 - y) s(z) - y s(-z)     (= s(z) - y),       d/dy = softplus(-z) - softplus(z) = -z. */
static void bce_decompose(const sg_decompose_args *args)
{
    sg_value z = args->in[0], y = args->in[1];
    sg_value positive = sg_mul(y, sg_softplus(sg_neg(z)));
    sg_value negative = sg_mul(sg_sub(sg_number(y, 1), y), sg_softplus(z));
    args->out[0] = sg_add(positive, negative);
}

static void bce_vjp(const sg_vjp_args *args)
{
    sg_value z = args->in[0], y = args->in[1], g = args->gout[0];
    if (args->need[0]) {
        sg_value negative = sg_mul(sg_sub(sg_number(y, 1), y), sg_sigmoid(z));
        sg_value positive = sg_mul(y, sg_sigmoid(sg_neg(z)));
        args->gin[0] = sg_mul(g, sg_sub(negative, positive));
    }
    if (args->need[1])
        args->gin[1] = sg_neg(sg_mul(g, z));
}

static double softplus_64(double z) { return (z > 0 ? z : 0) + log1p(exp(-fabs(z))); }

static double bce_64(double z, double y) { return y * softplus_64(-z) + (1 - y) * softplus_64(z); }

SG_EVAL_BINARY(bce_eval, bce_64(a, b))

static sg_cost bce_cost(const sg_cost_args *args)
{
    double n = (double)sg_shape_count(args->out_shape);
    return (sg_cost){6 * n, 3 * n * (double)sg_dtype_size(args->out_dtype[0])};
}

const sg_op sg_op_bce_with_logits = {
    .name = "bce_with_logits",
    .summary = "softplus(z) - z y",
    .n_in = 2,
    .n_out = 1,
    .flags = SG_OP_ELEMENTWISE | SG_OP_COMPOSITE | SG_OP_FULL,
    .infer = sg_infer_binary,
    .vjp = bce_vjp,
    .decompose = bce_decompose,
    .eval = bce_eval,
    .cost = bce_cost,
};

sg_value sg_bce_with_logits(sg_value z, sg_value y) { return sg_build_binary(&sg_op_bce_with_logits, z, y); }

/* ---- softmax_cross_entropy: logsumexp(z) - z[target] along the last axis; 0 where the target is -1 (ignored).
 *
 * d/dz = softmax(z) - onehot(target), and 0 for ignored rows. A class may have z = -inf: the target's logit is
 * picked with `where`, not by a product with the one-hot row, so that 0 * -inf does not arise. */
typedef struct sg_target {
    sg_value kept; /* BOOL [...]: the target is not -1 */
    sg_value hot;  /* one-hot rows [..., C] of the target, of class 0 where it is ignored */
} sg_target;

static sg_target target_of(sg_value z, sg_value target)
{
    sg_value zero = sg_number(target, 0);
    sg_value kept = sg_not_equal(target, sg_number(target, -1));
    sg_value hot = sg_one_hot(sg_where(kept, target, zero), sg_dim_of(z, -1));
    return (sg_target){kept, hot};
}

static void cross_entropy_decompose(const sg_decompose_args *args)
{
    sg_value zero = sg_number(args->in[0], 0);
    sg_target target = target_of(args->in[0], args->in[1]);
    sg_value z =
        sg_where(sg_expand_dims(target.kept, -1), args->in[0], zero); /* ignored rows: no gradient, whatever is there */
    sg_value is_target = sg_greater(target.hot, sg_number(target.hot, 0));
    sg_value picked = sg_sum(sg_where(is_target, z, zero), -1);
    args->out[0] = sg_where(target.kept, sg_sub(sg_logsumexp(z, -1, false), picked), zero);
}

/* log sum_c e^(z_c - top) + (top - z_target), with the largest logit's 1 left out of the sum and put back by log1p: a
 * confident right answer has a small loss, not a rounded zero. */
static double row_cross_entropy(const double *z, int64_t classes, double target)
{
    if (target == -1)
        return 0;
    if (!(target >= 0 && target < (double)classes))
        return NAN;
    int64_t top = 0;
    for (int64_t c = 1; c < classes; c++)
        top = z[c] > z[top] || isnan(z[c]) ? c : top;
    double margin = z[top] - z[(int64_t)target], others = 0;
    if (!isfinite(z[top]))
        return margin;
    for (int64_t c = 0; c < classes; c++)
        others += c == top ? 0 : exp(z[c] - z[top]);
    return log1p(others) + margin;
}

static void cross_entropy_eval(const sg_eval_args *args)
{
    int64_t rows = sg_shape_count(args->in[1].shape), classes = args->in[0].shape->dim[args->in[0].shape->rank - 1];
    for (int64_t r = 0; r < rows; r++)
        args->out[0].data[r] = row_cross_entropy(args->in[0].data + r * classes, classes, args->in[1].data[r]);
}

static sg_status cross_entropy_infer(const sg_infer_args *args)
{
    SG_TRY(sg_require_real(args, 0));
    SG_TRY(sg_require_dtype(args, 1, SG_I32));
    const sg_shape *z = &args->in_shape[0], *target = &args->in_shape[1];
    sg_shape rows = *z;
    rows.rank = z->rank > 0 ? z->rank - 1 : 0;
    char left[SG_SHAPE_TEXT], right[SG_SHAPE_TEXT];
    if (z->rank < 1 || !sg_shape_equal(&rows, target))
        return sg_infer_fail(args, SG_E_SHAPE,
                             "logits %s and targets %s: targets need the shape of the logits without the "
                             "last axis",
                             sg_shape_format(z, left, sizeof left), sg_shape_format(target, right, sizeof right));
    args->out_shape[0] = *target;
    args->out_dtype[0] = args->in_dtype[0];
    return SG_OK;
}

static sg_cost cross_entropy_cost(const sg_cost_args *args)
{
    double n = (double)sg_shape_count(&args->in_shape[0]), rows = (double)sg_shape_count(&args->in_shape[1]);
    double real = (double)sg_dtype_size(args->in_dtype[0]);
    return (sg_cost){4 * n, real * (n + rows) + 4 * rows};
}

const sg_op sg_op_softmax_cross_entropy = {
    .name = "softmax_cross_entropy",
    .summary = "logsumexp(z) - z[target] along the last axis; 0 where target = -1",
    .n_in = 2,
    .n_out = 1,
    .flags = SG_OP_COMPOSITE | SG_OP_FULL,
    .infer = cross_entropy_infer,
    .decompose = cross_entropy_decompose,
    .eval = cross_entropy_eval,
    .cost = cross_entropy_cost,
    .vjp_op = &sg_op_softmax_cross_entropy_vjp,
    .jvp_op = &sg_op_softmax_cross_entropy_jvp,
};

static const sg_attr_spec vjp_attrs[] = {SG_VJP_ATTRS}, jvp_attrs[] = {SG_JVP_ATTRS},
                          vjp_jvp_attrs[] = {SG_VJP_ATTRS, SG_JVP_ATTRS};

static sg_cost first_cost(const sg_cost_args *args) { return sg_derivative_cost(args, 5); }
static sg_cost second_cost(const sg_cost_args *args) { return sg_derivative_cost(args, 9); }

SG_DERIVATIVE_OP(softmax_cross_entropy_vjp, "reverse derivative of softmax_cross_entropy", vjp_attrs,
                 softmax_cross_entropy, first_cost, .jvp_op = &sg_op_softmax_cross_entropy_vjp_jvp)
SG_DERIVATIVE_OP(softmax_cross_entropy_jvp, "forward derivative of softmax_cross_entropy", jvp_attrs,
                 softmax_cross_entropy, first_cost, .hints = 0)
SG_DERIVATIVE_OP(softmax_cross_entropy_vjp_jvp, "forward derivative of the reverse derivative of softmax_cross_entropy",
                 vjp_jvp_attrs, softmax_cross_entropy_vjp, second_cost, .hints = 0)

sg_value sg_softmax_cross_entropy(sg_value z, sg_value target)
{
    return sg_build_binary(&sg_op_softmax_cross_entropy, z, target);
}
