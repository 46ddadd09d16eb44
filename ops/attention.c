/* attention.c - scaled dot-product attention (Vaswani et al. 2017).
 *
 *     S = scale Q K' + bias, -inf where not attended     P = softmax of each row of S     out = (P o D) V
 *     lse = logsumexp of each row of S
 * with D the dropout of the probabilities: 0 with probability r, else 1 / (1 - r). A row that attends to nothing has
 * P = 0, hence out = 0 and no gradient. lse is what a kernel needs to find P again from S in one step. */
#include "ops/attention_internal.h"

#include <math.h>

#include "graph/random_internal.h"
#include "ops/axis_internal.h"
#include "ops/derivative_internal.h"

/* clang-format off */
#define ATTRS                                                                                                          \
    [SG_ATTENTION_SCALE] = {"scale", SG_ATTR_REAL},                                                                    \
    [SG_ATTENTION_CAUSAL] = {"causal", SG_ATTR_INT},                                                                   \
    [SG_ATTENTION_HEADS_INNER] = {"heads_inner", SG_ATTR_INT},                                                         \
    [SG_ATTENTION_DROPOUT] = {"dropout", SG_ATTR_REAL}
static const sg_attr_spec attrs[] = {ATTRS}, vjp_attrs[] = {ATTRS, SG_VJP_ATTRS}, jvp_attrs[] = {ATTRS, SG_JVP_ATTRS},
                          vjp_jvp_attrs[] = {ATTRS, SG_VJP_ATTRS, SG_JVP_ATTRS};
/* clang-format on */

sg_attention_extras sg_attention_find(int32_t n_in, const sg_dtype *in_dtype)
{
    sg_attention_extras e = {-1, -1, -1, SG_ATTENTION_N_REQUIRED};
    if (e.count < n_in && in_dtype[e.count] == SG_BOOL)
        e.mask = e.count++;
    if (e.count < n_in && sg_dtype_is_real(in_dtype[e.count]))
        e.bias = e.count++;
    if (e.count < n_in && in_dtype[e.count] == SG_I32)
        e.key = e.count++;
    return e;
}

/* -------------------------------------------------------------------------------------------------- shape rule */

static bool heads_inner(const sg_attr *attr) { return attr[SG_ATTENTION_HEADS_INNER].i != 0; }
static int32_t head_axis(const sg_attr *attr) { return heads_inner(attr) ? 2 : 1; }
static int32_t row_axis(const sg_attr *attr) { return heads_inner(attr) ? 1 : 2; }

static sg_status disagree(const sg_infer_args *args, const char *what, int32_t a, int32_t b)
{
    static const char *const names[] = {"q", "k", "v"};
    char left[SG_SHAPE_TEXT], right[SG_SHAPE_TEXT];
    return sg_infer_fail(args, SG_E_SHAPE, "%s and %s differ in %s: %s and %s (%s)", names[a], names[b], what,
                         sg_shape_format(&args->in_shape[a], left, sizeof left),
                         sg_shape_format(&args->in_shape[b], right, sizeof right),
                         heads_inner(args->attr) ? "batch, rows, heads, width" : "batch, heads, rows, width");
}

static sg_status check_operands(const sg_infer_args *args)
{
    const sg_shape *in = args->in_shape;
    for (int32_t k = 0; k < SG_ATTENTION_N_REQUIRED; k++) {
        SG_TRY(sg_require_real(args, k));
        SG_TRY(sg_require_same_dtype(args, 0, k));
        if (in[k].rank != 4)
            return sg_infer_fail(args, SG_E_SHAPE, "q, k and v must have rank 4, input %d has rank %d", (int)k,
                                 (int)in[k].rank);
    }
    int32_t head = head_axis(args->attr), row = row_axis(args->attr);
    for (int32_t k = SG_ATTENTION_K; k <= SG_ATTENTION_V; k++) {
        if (in[k].dim[0] != in[0].dim[0])
            return disagree(args, "batch", 0, k);
        if (in[k].dim[head] != in[0].dim[head])
            return disagree(args, "heads", 0, k);
    }
    if (in[SG_ATTENTION_K].dim[3] != in[SG_ATTENTION_Q].dim[3])
        return disagree(args, "width", 0, SG_ATTENTION_K);
    if (in[SG_ATTENTION_V].dim[row] != in[SG_ATTENTION_K].dim[row])
        return disagree(args, "rows", SG_ATTENTION_K, SG_ATTENTION_V);
    return SG_OK;
}

/* The scores' shape, [B, H, Tq, Tk] in either layout. */
static sg_shape score_shape(const sg_infer_args *args)
{
    const sg_shape *q = &args->in_shape[SG_ATTENTION_Q], *k = &args->in_shape[SG_ATTENTION_K];
    sg_shape s = *q;
    sg_shape_put(&s, 1, q, head_axis(args->attr));
    sg_shape_put(&s, 2, q, row_axis(args->attr));
    sg_shape_put(&s, 3, k, row_axis(args->attr));
    return s;
}

static sg_status check_spread(const sg_infer_args *args, int32_t input, const char *what)
{
    char have[SG_SHAPE_TEXT], want[SG_SHAPE_TEXT];
    sg_shape scores = score_shape(args), spread;
    if (input < 0 || (sg_shape_broadcast(&args->in_shape[input], &scores, &spread) && sg_shape_equal(&spread, &scores)))
        return SG_OK;
    return sg_infer_fail(args, SG_E_SHAPE, "the %s %s does not broadcast to the scores %s", what,
                         sg_shape_format(&args->in_shape[input], have, sizeof have),
                         sg_shape_format(&scores, want, sizeof want));
}

static sg_status check_dropout(const sg_infer_args *args, int32_t key)
{
    SG_TRY(sg_require_fraction(args, SG_ATTENTION_DROPOUT));
    if ((args->attr[SG_ATTENTION_DROPOUT].f > 0) != (key >= 0))
        return sg_infer_fail(args, SG_E_ARGUMENT, "a dropout rate and the key of a draw come together");
    if (key >= 0 && (args->in_shape[key].rank != 1 || args->in_shape[key].dim[0] != 4))
        return sg_infer_fail(args, SG_E_SHAPE, "the key of a draw must be [4]");
    return SG_OK;
}

static sg_status infer(const sg_infer_args *args)
{
    if (args->n_in < SG_ATTENTION_N_REQUIRED)
        return sg_infer_fail(args, SG_E_ARGUMENT, "attention needs q, k and v");
    SG_TRY(check_operands(args));
    sg_attention_extras extras = sg_attention_find(args->n_in, args->in_dtype);
    if (extras.count != args->n_in)
        return sg_infer_fail(args, SG_E_DTYPE, "input %d: a mask is bool, a bias real, a key i32, in this order",
                             (int)extras.count);
    if (extras.bias >= 0)
        SG_TRY(sg_require_same_dtype(args, 0, extras.bias));
    SG_TRY(check_spread(args, extras.mask, "mask"));
    SG_TRY(check_spread(args, extras.bias, "bias"));
    SG_TRY(check_dropout(args, extras.key));
    args->out_shape[SG_ATTENTION_OUT] = args->in_shape[SG_ATTENTION_Q];
    sg_shape_put(&args->out_shape[SG_ATTENTION_OUT], 3, &args->in_shape[SG_ATTENTION_V], 3);
    args->out_shape[SG_ATTENTION_LSE] = score_shape(args);
    args->out_shape[SG_ATTENTION_LSE].rank = 3;
    args->out_dtype[SG_ATTENTION_OUT] = args->in_dtype[0];
    args->out_dtype[SG_ATTENTION_LSE] = sg_dtype_statistic(args->in_dtype[0]);
    return SG_OK;
}

/* ----------------------------------------------------------------------------------------------- decomposition */

/* Query i attends to keys j <= i: positions are counted by summing ones, so that no size is kept. */
static sg_value causal_mask(sg_value scores)
{
    sg_value ones = sg_ones_like(scores);
    return sg_less_equal(sg_cumsum(ones, 3), sg_cumsum(ones, 2));
}

static sg_value without(sg_value scores, sg_value keep) { return sg_where(keep, scores, sg_number(scores, -INFINITY)); }

/* Multiples of 1 / (1 - rate) by the draw that the key names. */
static sg_value drop(sg_value p, sg_value key, double rate)
{
    sg_value kept = sg_greater_equal(sg_keyed_uniform(key, p), sg_number(p, rate));
    return sg_mul(p, sg_mul_scalar(sg_cast(kept, sg_dtype_of(p)), 1 / (1 - rate)));
}

static sg_value heads_outside(sg_value x, const sg_attr *attr)
{
    return heads_inner(attr) ? sg_transpose(x, SG_AXES(0, 2, 1, 3)) : x;
}

static sg_attention_extras find_extras(const sg_decompose_args *args)
{
    sg_dtype dtype[SG_ATTENTION_N_REQUIRED + 3];
    for (int32_t k = 0; k < args->node->n_in; k++)
        dtype[k] = sg_dtype_of(args->in[k]);
    return sg_attention_find(args->node->n_in, dtype);
}

static void decompose(const sg_decompose_args *args)
{
    const sg_attr *attr = args->node->attr;
    sg_attention_extras extras = find_extras(args);
    sg_value q = heads_outside(args->in[SG_ATTENTION_Q], attr), k = heads_outside(args->in[SG_ATTENTION_K], attr);
    sg_dtype dtype = sg_dtype_of(args->in[SG_ATTENTION_Q]), exact = sg_dtype_statistic(dtype); /* of softmax */
    sg_value scores = sg_mul_scalar(sg_cast(sg_matmul_nt(q, k), exact), attr[SG_ATTENTION_SCALE].f);
    if (extras.bias >= 0)
        scores = sg_add(scores, sg_cast(args->in[extras.bias], exact));
    if (extras.mask >= 0)
        scores = without(scores, args->in[extras.mask]);
    if (attr[SG_ATTENTION_CAUSAL].i)
        scores = without(scores, causal_mask(scores));
    sg_value p = sg_softmax(scores, 3);
    if (extras.key >= 0)
        p = drop(p, args->in[extras.key], attr[SG_ATTENTION_DROPOUT].f);
    args->out[SG_ATTENTION_OUT] = heads_outside(
        sg_matmul(sg_cast(p, dtype), heads_outside(args->in[SG_ATTENTION_V], attr)), attr); /* its own inverse */
    args->out[SG_ATTENTION_LSE] = sg_logsumexp(scores, 3, false);
}

/* -------------------------------------------------------------------------------------------- reference kernel */

/* Element [b, h, i, c] of a tensor in either layout. */
static double element(const sg_tensor64 *x, const sg_attr *attr, int64_t b, int64_t h, int64_t i, int64_t c)
{
    const int64_t *dim = x->shape->dim;
    int64_t row = heads_inner(attr) ? (b * dim[1] + i) * dim[2] + h : (b * dim[1] + h) * dim[2] + i;
    return x->data[row * dim[3] + c];
}

typedef struct place {
    int64_t b, h, i;
} place;

static double spread_element(const sg_eval_args *args, int32_t input, const sg_shape *scores, int64_t flat)
{
    return args->in[input].data[sg_broadcast_offset(args->in[input].shape, scores, flat)];
}

static double score(const sg_eval_args *args, const sg_attention_extras *extras, const sg_shape *scores, place at,
                    int64_t j)
{
    const sg_attr *attr = args->attr;
    int64_t flat = ((at.b * scores->dim[1] + at.h) * scores->dim[2] + at.i) * scores->dim[3] + j;
    if ((attr[SG_ATTENTION_CAUSAL].i && j > at.i) ||
        (extras->mask >= 0 && spread_element(args, extras->mask, scores, flat) == 0))
        return -INFINITY;
    double sum = 0;
    for (int64_t c = 0; c < args->in[SG_ATTENTION_Q].shape->dim[3]; c++)
        sum += element(&args->in[SG_ATTENTION_Q], attr, at.b, at.h, at.i, c) *
               element(&args->in[SG_ATTENTION_K], attr, at.b, at.h, j, c);
    sum *= attr[SG_ATTENTION_SCALE].f;
    return extras->bias >= 0 ? sum + spread_element(args, extras->bias, scores, flat) : sum;
}

/* logsumexp of a row of scores. */
static double row_lse(const sg_eval_args *args, const sg_attention_extras *extras, const sg_shape *scores, place at)
{
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < scores->dim[3]; j++) {
        double s = score(args, extras, scores, at, j);
        top = isnan(s) || s > top ? s : top;
    }
    for (int64_t j = 0; j < scores->dim[3] && isfinite(top); j++)
        sum += exp(score(args, extras, scores, at, j) - top);
    return isfinite(top) ? top + log(sum) : top;
}

/* Factor of one probability: 1 without dropout. */
static double drop_factor(const sg_eval_args *args, int32_t key, int64_t flat)
{
    if (key < 0)
        return 1;
    const double *word = args->in[key].data;
    double rate = args->attr[SG_ATTENTION_DROPOUT].f;
    sg_draw draw = sg_draw_of_key((int32_t[4]){(int32_t)word[0], (int32_t)word[1], (int32_t)word[2], (int32_t)word[3]});
    return sg_uniform_from_bits(sg_random_bits(draw, (uint64_t)flat)) >= rate ? 1 / (1 - rate) : 0;
}

static void eval_row(const sg_eval_args *args, const sg_attention_extras *extras, const sg_shape *scores, place at)
{
    int64_t keys = scores->dim[3], index = (at.b * scores->dim[1] + at.h) * scores->dim[2] + at.i;
    int64_t row = heads_inner(args->attr) ? (at.b * scores->dim[2] + at.i) * scores->dim[1] + at.h : index;
    int64_t width = args->out[SG_ATTENTION_OUT].shape->dim[3];
    double *out = args->out[SG_ATTENTION_OUT].data + row * width;
    double lse = row_lse(args, extras, scores, at);
    args->out[SG_ATTENTION_LSE].data[index] = lse;
    for (int64_t c = 0; c < width; c++)
        out[c] = 0;
    for (int64_t j = 0; j < keys; j++) {
        double p = lse == -INFINITY ? 0 : exp(score(args, extras, scores, at, j) - lse);
        p *= drop_factor(args, extras->key, index * keys + j);
        for (int64_t c = 0; c < width; c++)
            out[c] += p * element(&args->in[SG_ATTENTION_V], args->attr, at.b, at.h, j, c);
    }
}

static void eval(const sg_eval_args *args)
{
    sg_attention_extras extras = sg_attention_find(args->n_in, args->in_dtype);
    const sg_shape *q = args->in[SG_ATTENTION_Q].shape, *k = args->in[SG_ATTENTION_K].shape;
    int32_t row = row_axis(args->attr);
    sg_shape scores = SG_SHAPE(q->dim[0], q->dim[head_axis(args->attr)], q->dim[row], k->dim[row]);
    for (int64_t b = 0; b < scores.dim[0]; b++)
        for (int64_t h = 0; h < scores.dim[1]; h++)
            for (int64_t i = 0; i < scores.dim[2]; i++)
                eval_row(args, &extras, &scores, (place){b, h, i});
}

/* --------------------------------------------------------------------------------------------------------- work */

/* `width` numbers are multiplied and added for each score, and about eight operations are its softmax. */
static sg_cost work(const sg_cost_args *args, double width)
{
    const sg_shape *q = &args->in_shape[SG_ATTENTION_Q];
    double scores =
        (double)(q->dim[0] * q->dim[1] * q->dim[2]) * (double)args->in_shape[SG_ATTENTION_K].dim[row_axis(args->attr)];
    double bytes = 0;
    for (int32_t k = 0; k < args->n_in; k++)
        bytes += (double)sg_shape_count(&args->in_shape[k]) * (double)sg_dtype_size(args->in_dtype[k]);
    for (int32_t k = 0; k < args->n_out; k++)
        bytes += (double)sg_shape_count(&args->out_shape[k]) * (double)sg_dtype_size(args->out_dtype[k]);
    return (sg_cost){scores * (2 * width + 8), bytes};
}

/* Width of the product that input k takes part in. */
static double width_of(const sg_cost_args *args, int64_t k)
{
    return k <= SG_ATTENTION_V ? (double)args->in_shape[k].dim[3] : 0;
}

static double widths_of(const sg_cost_args *args, const sg_attr *list)
{
    double sum = 0;
    for (int64_t i = 0; i < list->count; i++)
        sum += width_of(args, list->ints[i]);
    return sum;
}

static sg_cost cost(const sg_cost_args *args) { return work(args, width_of(args, 0) + width_of(args, 2)); }

/* Scores and the cotangent of the probabilities again, then one product for each result. */
static sg_cost vjp_cost(const sg_cost_args *args)
{
    return work(args, width_of(args, 0) + width_of(args, 2) + widths_of(args, &args->attr[SG_ATTENTION_ATTRS]));
}

/* Scores again, one product for each tangent, and that of the probabilities times v. */
static sg_cost jvp_cost(const sg_cost_args *args)
{
    return work(args, width_of(args, 0) + width_of(args, 2) + widths_of(args, &args->attr[SG_ATTENTION_ATTRS]));
}

/* Each product of vjp and the derivative of its two factors. */
static sg_cost vjp_jvp_cost(const sg_cost_args *args)
{
    double wrt = widths_of(args, &args->attr[SG_ATTENTION_ATTRS]);
    return work(args, 3 * (width_of(args, 0) + width_of(args, 2)) + 2 * wrt);
}

const sg_op sg_op_attention = {
    .name = "attention",
    .summary = "softmax(scale Q K' + bias, masked) V, and the logsumexp of each row of scores",
    .n_in = SG_VARIADIC,
    .n_out = 2,
    .flags = SG_OP_COMPOSITE | SG_OP_LOW,
    .attrs = attrs,
    .n_attrs = SG_ATTENTION_ATTRS,
    .infer = infer,
    .decompose = decompose,
    .eval = eval,
    .cost = cost,
    .vjp_op = &sg_op_attention_vjp,
    .jvp_op = &sg_op_attention_jvp,
};

/* The logsumexp comes along: a kernel finds the probabilities from it without a maximum and a sum. So does the result o: with its
 * cotangent g, g . o is the sum over keys of P dP. */
SG_DERIVATIVE_OP(attention_vjp, "reverse derivative of attention", vjp_attrs, attention, vjp_cost,
                 .hints = 1 << SG_ATTENTION_OUT | 1 << SG_ATTENTION_LSE, .jvp_op = &sg_op_attention_vjp_jvp)
SG_DERIVATIVE_OP(attention_jvp, "forward derivative of attention", jvp_attrs, attention, jvp_cost,
                 .hints = 1 << SG_ATTENTION_LSE)
SG_DERIVATIVE_OP(attention_vjp_jvp, "forward derivative of the reverse derivative of attention", vjp_jvp_attrs,
                 attention_vjp, vjp_jvp_cost, .hints = 0)

/* ------------------------------------------------------------------------------------------------------ builder */

sg_value sg_attention(sg_value q, sg_value k, sg_value v, const sg_attention_options *options)
{
    sg_attention_options o = options ? *options : (sg_attention_options){0};
    sg_value in[SG_ATTENTION_N_REQUIRED + 3] = {q, k, v};
    int32_t n = SG_ATTENTION_N_REQUIRED;
    if (sg_is_none(q))
        return SG_NONE;
    if (o.mask.graph)
        in[n++] = o.mask;
    if (o.bias.graph)
        in[n++] = o.bias;
    if (o.dropout != 0 && !o.scope.graph)
        return sg_graph_fail(q.graph, SG_E_ARGUMENT, q, "attention: dropout needs a scope to draw in");
    if (o.dropout != 0)
        in[n++] = sg_draw_key(o.scope);
    int64_t depth = sg_dim_of(q, -1);
    sg_attr attr[SG_ATTENTION_ATTRS] = {
        [SG_ATTENTION_SCALE] = sg_attr_real(o.scale != 0 ? o.scale : 1 / sqrt(depth > 0 ? (double)depth : 1)),
        [SG_ATTENTION_CAUSAL] = sg_attr_int(o.causal),
        [SG_ATTENTION_HEADS_INNER] = sg_attr_int(o.heads_inner),
        [SG_ATTENTION_DROPOUT] = sg_attr_real(o.dropout),
    };
    return sg_build_op(&sg_op_attention, in, n, attr);
}
