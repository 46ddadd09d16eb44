/* adam.c - the Adam step (Kingma and Ba 2015), with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2)
 * or with L2 added to the gradient. A composite: one kernel a parameter where a backend has it, and the
 * decomposition otherwise and for derivatives through the update. */
#include "ops/ops_internal.h"

#include <math.h>

enum { BETA1, BETA2, EPS, WEIGHT_DECAY, DECOUPLED, N_ATTRS };
enum { P, G, M, V, LR, T, N_IN };

static const sg_attr_spec adam_attrs[N_ATTRS] = {
    [BETA1] = {"beta1", SG_ATTR_REAL},
    [BETA2] = {"beta2", SG_ATTR_REAL},
    [EPS] = {"eps", SG_ATTR_REAL},
    [WEIGHT_DECAY] = {"weight_decay", SG_ATTR_REAL},
    [DECOUPLED] = {"decoupled", SG_ATTR_INT},
};

static sg_status adam_infer(const sg_infer_args *args)
{
    for (int32_t k = 0; k < N_IN; k++) {
        SG_TRY(sg_require_real(args, k));
        SG_TRY(sg_require_same_dtype(args, P, k));
    }
    for (int32_t k = G; k <= V; k++)
        SG_TRY(sg_require_same_shape(args, P, k));
    SG_TRY(sg_require_scalar(args, LR));
    SG_TRY(sg_require_scalar(args, T));
    SG_TRY(sg_require_fraction(args, BETA1));
    SG_TRY(sg_require_fraction(args, BETA2));
    SG_TRY(sg_require_not_negative(args, EPS));
    for (int32_t k = 0; k < 3; k++) {
        args->out_shape[k] = args->in_shape[P];
        args->out_dtype[k] = args->in_dtype[P];
    }
    return SG_OK;
}

/* 1 - beta^t as -expm1(t log beta): at t = 1 and beta = 0.999 the difference would lose three digits. */
static double correction_64(double beta, double t) { return beta == 0 ? 1 : -expm1(t * log(beta)); }

static void adam_eval(const sg_eval_args *args)
{
    const sg_attr *attr = args->attr;
    const double *p = args->in[P].data, *g = args->in[G].data, *m = args->in[M].data, *v = args->in[V].data;
    double lr = args->in[LR].data[0], t = args->in[T].data[0], decay = attr[WEIGHT_DECAY].f;
    double beta1 = attr[BETA1].f, beta2 = attr[BETA2].f;
    double c1 = correction_64(beta1, t), c2 = correction_64(beta2, t);
    int64_t n = sg_shape_count(args->out[0].shape);
    bool l2 = decay != 0 && !attr[DECOUPLED].i, decoupled = decay != 0 && attr[DECOUPLED].i;
    for (int64_t i = 0; i < n; i++) {
        double slope = l2 ? g[i] + decay * p[i] : g[i];
        double mean = beta1 * m[i] + (1 - beta1) * slope;
        double second = beta2 * v[i] + (1 - beta2) * slope * slope;
        double kept = decoupled ? p[i] - lr * decay * p[i] : p[i];
        args->out[0].data[i] = kept - lr * (mean / c1) / (sqrt(second / c2) + attr[EPS].f);
        args->out[1].data[i] = mean;
        args->out[2].data[i] = second;
    }
}

static sg_value correction(double beta, sg_value t)
{
    return beta == 0 ? sg_number(t, 1) : sg_neg(sg_expm1(sg_mul_scalar(t, log(beta))));
}

/* sqrt(x) with derivative 0 at x = 0. There the second moment and the gradient vanish together: as a function of g
 * it is c |g|, whose derivative at 0 is 0 by the convention for abs, while the chain rule would give inf * 0. The
 * inner `where` keeps the infinite slope out of the higher derivatives too. */
static sg_value guarded_sqrt(sg_value x)
{
    sg_value zero = sg_equal(x, sg_number(x, 0));
    return sg_where(zero, sg_number(x, 0), sg_sqrt(sg_where(zero, sg_number(x, 1), x)));
}

static sg_value moving(double beta, sg_value old, sg_value now)
{
    return sg_add(sg_mul_scalar(old, beta), sg_mul_scalar(now, 1 - beta));
}

typedef struct settings {
    double beta1, beta2, eps, decay;
    bool decoupled;
} settings;

/* The moments with this gradient, decay added to it unless decoupled. */
static void move_moments(const settings *s, sg_value p, sg_value g, sg_value *m, sg_value *v)
{
    if (s->decay != 0 && !s->decoupled)
        g = sg_add(g, sg_mul_scalar(p, s->decay));
    *m = moving(s->beta1, *m, g);
    *v = moving(s->beta2, *v, sg_square(g));
}

static sg_value moved(const settings *s, sg_value p, sg_value m, sg_value v, sg_value lr, sg_value t)
{
    sg_value kept = s->decay != 0 && s->decoupled ? sg_sub(p, sg_mul(sg_mul_scalar(lr, s->decay), p)) : p;
    sg_value root = guarded_sqrt(sg_div(v, correction(s->beta2, t)));
    sg_value step = sg_div(sg_div(m, correction(s->beta1, t)), sg_add_scalar(root, s->eps));
    return sg_sub(kept, sg_mul(lr, step));
}

static void adam_decompose(const sg_decompose_args *args)
{
    const sg_attr *attr = args->node->attr;
    settings s = {attr[BETA1].f, attr[BETA2].f, attr[EPS].f, attr[WEIGHT_DECAY].f, attr[DECOUPLED].i != 0};
    args->out[1] = args->in[M];
    args->out[2] = args->in[V];
    move_moments(&s, args->in[P], args->in[G], &args->out[1], &args->out[2]);
    args->out[0] = moved(&s, args->in[P], args->out[1], args->out[2], args->in[LR], args->in[T]);
}

static sg_cost adam_cost(const sg_cost_args *args)
{
    double n = (double)sg_shape_count(&args->in_shape[P]);
    return (sg_cost){15 * n, 7 * n * (double)sg_dtype_size(args->in_dtype[P])};
}

const sg_op sg_op_adam = {
    .name = "adam",
    .summary =
        "m = b1 m + (1-b1) g, v = b2 v + (1-b2) g^2, p -= lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps) + decay",
    .n_in = N_IN,
    .n_out = 3,
    .flags = SG_OP_COMPOSITE | SG_OP_FULL,
    .attrs = adam_attrs,
    .n_attrs = N_ATTRS,
    .infer = adam_infer,
    .decompose = adam_decompose,
    .eval = adam_eval,
    .cost = adam_cost,
};

sg_adam_state sg_adam(sg_adam_state now, sg_value g, sg_value lr, sg_value t, double beta1, double beta2, double eps,
                      double weight_decay, bool decoupled)
{
    sg_attr attr[N_ATTRS] = {
        [BETA1] = sg_attr_real(beta1),
        [BETA2] = sg_attr_real(beta2),
        [EPS] = sg_attr_real(eps),
        [WEIGHT_DECAY] = sg_attr_real(weight_decay),
        [DECOUPLED] = sg_attr_int(decoupled),
    };
    sg_value p = sg_build_op(&sg_op_adam, (sg_value[]){now.p, g, now.m, now.v, lr, t}, N_IN, attr);
    if (sg_is_none(p))
        return (sg_adam_state){SG_NONE, SG_NONE, SG_NONE};
    return (sg_adam_state){p, sg_output_of(p, 1), sg_output_of(p, 2)};
}

static bool has_forms(sg_amsgrad_state now, sg_value g, sg_value lr, sg_value t, const char *builder)
{
    if (sg_is_none(now.p))
        return true;
    sg_shape shape = *sg_shape_of(now.p), number = sg_shape_scalar();
    sg_dtype dtype = sg_dtype_of(now.p);
    return sg_require_form(g, &shape, dtype, builder, "g") && sg_require_form(now.m, &shape, dtype, builder, "m") &&
           sg_require_form(now.v, &shape, dtype, builder, "v") &&
           sg_require_form(now.v_max, &shape, dtype, builder, "v_max") &&
           sg_require_form(lr, &number, dtype, builder, "lr") && sg_require_form(t, &number, dtype, builder, "t");
}

sg_amsgrad_state sg_amsgrad(sg_amsgrad_state now, sg_value g, sg_value lr, sg_value t, double beta1, double beta2,
                            double eps, double weight_decay, bool decoupled)
{
    static const char name[] = "amsgrad";
    settings s = {beta1, beta2, eps, weight_decay, decoupled};
    if (!sg_require_setting(now.p, beta1 >= 0 && beta1 < 1, name, "beta1", beta1, "in [0, 1)") ||
        !sg_require_setting(now.p, beta2 >= 0 && beta2 < 1, name, "beta2", beta2, "in [0, 1)") ||
        !sg_require_setting(now.p, isfinite(eps) && eps >= 0, name, "eps", eps, "in [0, inf)") ||
        !sg_require_setting(now.p, isfinite(weight_decay), name, "weight_decay", weight_decay, "finite") ||
        !has_forms(now, g, lr, t, name))
        return (sg_amsgrad_state){SG_NONE, SG_NONE, SG_NONE, SG_NONE};
    sg_amsgrad_state next = {.m = now.m, .v = now.v};
    move_moments(&s, now.p, g, &next.m, &next.v);
    next.v_max = sg_maximum(now.v_max, next.v);
    next.p = moved(&s, now.p, next.m, next.v_max, lr, t);
    return next;
}
