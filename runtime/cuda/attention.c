/* attention.c - attention and its derivatives: which operands a node has, and their layouts. Left to the decomposition are the
 * cotangent of a bias, which has the size of the scores or is a sum of such, widths above SG_ATTENTION_MOST_DEPTH, empty
 * operands, and f32 where scores are many enough to be worth a product and few enough to be kept. */
#include "ops/attention_internal.h"

#include <math.h>

#include "ops/derivative_internal.h"
#include "runtime/cuda/attention_cudnn_internal.h"
#include "runtime/cuda/column_sums_internal.h"
#include "runtime/cuda/cuda_kernels.h"

/* Bytes of a matrix of scores of all heads between which f32 is decomposed. */
enum { LEAST_SCORES = 256 << 10, MOST_SCORES = 64 << 20 };

/* Where the node's operands lie; -1: there is none. */
typedef struct places {
    int32_t mask, bias, key;
    int32_t o, lse, g, g_lse;
    int32_t tq, tk, tv, tbias, tg, tg_lse;
    int32_t dq, dk, dv;
    int32_t sum[3]; /* of these over batch and rows */
} places;

static const places no_places = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, {-1, -1, -1}};

typedef struct attention {
    sg_cuda_attention a;
    places p;
    const sg_cuda_cudnn_attention *cudnn; /* forward, or NULL */
    bool joint;                           /* output 0 is [dq dk dv] */
} attention;

/* ---------------------------------------------------------------------------------------------------------- launch */

static const void *input(const sg_launch *l, int32_t place) { return place < 0 ? NULL : l->in[place]; }
static void *output(const sg_launch *l, int32_t place) { return place < 0 ? NULL : l->out[place]; }

static sg_cuda_attention_operands operands_of(const sg_launch *l)
{
    const places *p = &((const attention *)l->state)->p;
    return (sg_cuda_attention_operands){.q = l->in[SG_ATTENTION_Q],
                                        .k = l->in[SG_ATTENTION_K],
                                        .v = l->in[SG_ATTENTION_V],
                                        .mask = input(l, p->mask),
                                        .bias = input(l, p->bias),
                                        .key = input(l, p->key),
                                        .o = input(l, p->o),
                                        .lse = input(l, p->lse),
                                        .g = input(l, p->g),
                                        .g_lse = input(l, p->g_lse),
                                        .tq = input(l, p->tq),
                                        .tk = input(l, p->tk),
                                        .tv = input(l, p->tv),
                                        .tbias = input(l, p->tbias),
                                        .tg = input(l, p->tg),
                                        .tg_lse = input(l, p->tg_lse)};
}

static sg_cuda_attention_operands forward_operands(const sg_launch *l)
{
    sg_cuda_attention_operands x = operands_of(l);
    x.out = l->out[SG_ATTENTION_OUT];
    x.out_lse = l->out[SG_ATTENTION_LSE];
    return x;
}

/* An output, or some columns of [dq dk dv], which is of bf16. */
static void *cotangent(const sg_launch *l, int32_t place)
{
    const attention *state = l->state;
    return state->joint ? (uint16_t *)l->out[0] + place * state->a.heads * state->a.depth : output(l, place);
}

static sg_cuda_attention_operands reverse_operands(const sg_launch *l)
{
    const places *p = &((const attention *)l->state)->p;
    sg_cuda_attention_operands x = operands_of(l);
    x.dq = cotangent(l, p->dq);
    x.dk = cotangent(l, p->dk);
    x.dv = cotangent(l, p->dv);
    x.rows = l->workspace;
    x.parts = (float *)((char *)l->workspace + sg_cuda_attention_rows_bytes(&((const attention *)l->state)->a));
    for (int32_t i = 0; i < 3; i++)
        x.sum[i] = output(l, p->sum[i]);
    return x;
}

static bool launch_forward(const sg_launch *l, sg_error *err)
{
    sg_cuda_attention_operands x = forward_operands(l);
    sg_cuda_attention_forward(&((const attention *)l->state)->a, &x, l->stream);
    return sg_cuda_launched(err);
}

static bool launch_cudnn(const sg_launch *l, sg_error *err)
{
    sg_cuda_attention_operands x = forward_operands(l);
    return sg_cuda_cudnn_attention_run(((const attention *)l->state)->cudnn, &x, sg_cuda_workspace_of(l), l->stream,
                                       err);
}

static bool launch_jvp(const sg_launch *l, sg_error *err)
{
    sg_cuda_attention_operands x = forward_operands(l);
    sg_cuda_attention_jvp(&((const attention *)l->state)->a, &x, l->stream);
    return sg_cuda_launched(err);
}

static bool launch_vjp(const sg_launch *l, sg_error *err)
{
    sg_cuda_attention_operands x = reverse_operands(l);
    sg_cuda_attention_vjp(&((const attention *)l->state)->a, &x, l->stream);
    sg_cuda_attention_sums(&((const attention *)l->state)->a, &x, l->stream);
    return sg_cuda_launched(err);
}

static bool launch_vjp_jvp(const sg_launch *l, sg_error *err)
{
    sg_cuda_attention_operands x = reverse_operands(l);
    sg_cuda_attention_vjp_jvp(&((const attention *)l->state)->a, &x, l->stream);
    sg_cuda_attention_sums(&((const attention *)l->state)->a, &x, l->stream);
    return sg_cuda_launched(err);
}

/* --------------------------------------------------------------------------------------------------------- prepare */

static void find_reverse(places *p, const sg_derivative_parts *parts)
{
    p->o = sg_derivative_hint(&sg_op_attention_vjp, parts, SG_ATTENTION_OUT);
    p->lse = sg_derivative_hint(&sg_op_attention_vjp, parts, SG_ATTENTION_LSE);
    p->g = sg_derivative_with(parts, SG_ATTENTION_OUT);
    p->g_lse = sg_derivative_with(parts, SG_ATTENTION_LSE);
    p->dq = sg_derivative_wrt(parts, SG_ATTENTION_Q);
    p->dk = sg_derivative_wrt(parts, SG_ATTENTION_K);
    p->dv = sg_derivative_wrt(parts, SG_ATTENTION_V);
}

static places find_places(const sg_kernel_spec *spec)
{
    places p = no_places;
    const sg_op *op = spec->node->op;
    sg_derivative_parts outer, inner = sg_derivative_nested(op, spec->attr, spec->n_in, &outer);
    sg_attention_extras extras = sg_attention_find(inner.n_x, spec->in_dtype);
    p.mask = extras.mask;
    p.bias = extras.bias;
    p.key = extras.key;
    if (op == &sg_op_attention_vjp || op == &sg_op_attention_vjp_jvp)
        find_reverse(&p, &inner);
    if (op == &sg_op_attention_jvp || op == &sg_op_attention_vjp_jvp) {
        p.tq = sg_derivative_with(&outer, SG_ATTENTION_Q);
        p.tk = sg_derivative_with(&outer, SG_ATTENTION_K);
        p.tv = sg_derivative_with(&outer, SG_ATTENTION_V);
        p.tbias = p.bias < 0 ? -1 : sg_derivative_with(&outer, p.bias);
    }
    if (op == &sg_op_attention_jvp)
        p.lse = sg_derivative_hint(op, &outer, SG_ATTENTION_LSE);
    if (op == &sg_op_attention_vjp_jvp) {
        p.tg = p.g < 0 ? -1 : sg_derivative_with(&outer, p.g);
        p.tg_lse = p.g_lse < 0 ? -1 : sg_derivative_with(&outer, p.g_lse);
    }
    return p;
}

static sg_cuda_attention_layout layout_of(const sg_shape *x, bool heads_inner, int64_t width)
{
    const int64_t *d = x->dim;
    int64_t batch = d[1] * d[2] * width;
    return heads_inner ? (sg_cuda_attention_layout){batch, width, d[2] * width}
                       : (sg_cuda_attention_layout){batch, d[2] * width, width};
}

static sg_cuda_attention_spread spread_of(const sg_kernel_spec *spec, int32_t input)
{
    int64_t step[4] = {0}, size = 1;
    if (input < 0)
        return (sg_cuda_attention_spread){0};
    const sg_shape *x = &spec->in_shape[input];
    for (int32_t i = 3, axis = x->rank - 1; axis >= 0; i--, axis--) {
        step[i] = x->dim[axis] == 1 ? 0 : size;
        size *= x->dim[axis];
    }
    return (sg_cuda_attention_spread){step[0], step[1], (int32_t)step[2], (int32_t)step[3]};
}

static sg_cuda_attention describe(const sg_kernel_spec *spec, const places *p)
{
    const sg_shape *q = &spec->in_shape[SG_ATTENTION_Q], *k = &spec->in_shape[SG_ATTENTION_K];
    const sg_shape *v = &spec->in_shape[SG_ATTENTION_V];
    const sg_attr *attr = spec->attr;
    const bool inner = attr[SG_ATTENTION_HEADS_INNER].i != 0;
    const double rate = attr[SG_ATTENTION_DROPOUT].f;
    return (sg_cuda_attention){.batch = (int32_t)q->dim[0],
                               .heads = (int32_t)q->dim[inner ? 2 : 1],
                               .queries = (int32_t)q->dim[inner ? 1 : 2],
                               .keys = (int32_t)k->dim[inner ? 1 : 2],
                               .depth = (int32_t)q->dim[3],
                               .width = (int32_t)v->dim[3],
                               .bf16 = spec->in_dtype[SG_ATTENTION_Q] == SG_BF16,
                               .causal = attr[SG_ATTENTION_CAUSAL].i != 0,
                               .dropout = p->key >= 0,
                               .q = layout_of(q, inner, q->dim[3]),
                               .k = layout_of(k, inner, k->dim[3]),
                               .v = layout_of(v, inner, v->dim[3]),
                               .out = layout_of(q, inner, v->dim[3]),
                               .mask = spread_of(spec, p->mask),
                               .bias = spread_of(spec, p->bias),
                               .scale = (float)attr[SG_ATTENTION_SCALE].f,
                               .kept = (float)(1 / (1 - rate)),
                               .threshold = (uint32_t)ceil((double)(float)rate * 0x1p24)};
}

/* Places within a head are 32-bit numbers. */
static bool fits_sizes(const sg_kernel_spec *spec)
{
    const sg_shape *q = &spec->in_shape[SG_ATTENTION_Q], *k = &spec->in_shape[SG_ATTENTION_K];
    const sg_shape *v = &spec->in_shape[SG_ATTENTION_V];
    const int32_t row = spec->attr[SG_ATTENTION_HEADS_INNER].i ? 1 : 2;
    int64_t scores, heads = q->dim[0] * q->dim[3 - row];
    return sg_shape_count(q) > 0 && sg_shape_count(k) > 0 && sg_shape_count(v) > 0 &&
           q->dim[3] <= SG_ATTENTION_MOST_DEPTH && v->dim[3] <= SG_ATTENTION_MOST_DEPTH &&
           sg_mul_ok(q->dim[row], k->dim[row], &scores) && scores < INT32_MAX &&
           heads * ((q->dim[row] > k->dim[row] ? q->dim[row] : k->dim[row]) / 16 + 8) < INT32_MAX;
}

/* In f32 these kernels multiply and add plainly, each product at a third of what cuBLASLt's reach, and find scores again in
 * every sweep. So gradients and Hessian products take 0.35 to 0.5 of the time by the decomposition (forward alone 0.9 to 1.3),
 * whose price is memory for matrices of scores, which is to stay bounded. Where these are tiny launches are what counts. A causal
 * mask halves the work of the kernels alone. All orders of derivatives have the same operands, so they are decomposed together
 * and share the probabilities. */
static bool scores_are_cheap(const sg_kernel_spec *spec)
{
    const sg_shape *q = &spec->in_shape[SG_ATTENTION_Q], *k = &spec->in_shape[SG_ATTENTION_K];
    const int32_t row = spec->attr[SG_ATTENTION_HEADS_INNER].i ? 1 : 2;
    const int64_t bytes = q->dim[0] * q->dim[3 - row] * q->dim[row] * k->dim[row] * (int64_t)sizeof(float);
    return spec->in_dtype[SG_ATTENTION_Q] == SG_F32 && !spec->attr[SG_ATTENTION_CAUSAL].i && bytes >= LEAST_SCORES &&
           bytes <= MOST_SCORES;
}

/* Either f32 or bf16 with statistics in f32. */
static bool fits_types(const sg_kernel_spec *spec, const places *p)
{
    const int32_t statistics[] = {p->lse, p->g_lse, p->tg_lse};
    const sg_dtype dtype = spec->in_dtype[SG_ATTENTION_Q];
    for (int32_t k = 0; k < spec->n_in; k++) {
        bool statistic = k == statistics[0] || k == statistics[1] || k == statistics[2];
        if (sg_dtype_is_real(spec->in_dtype[k]) && spec->in_dtype[k] != (statistic ? SG_F32 : dtype))
            return false;
    }
    return dtype == SG_F32 || dtype == SG_BF16;
}

static bool supports(const sg_kernel_spec *spec)
{
    const places p = find_places(spec);
    sg_derivative_parts outer, parts = sg_derivative_nested(spec->node->op, spec->attr, spec->n_in, &outer);
    return fits_sizes(spec) && fits_types(spec, &p) && !scores_are_cheap(spec) &&
           (p.bias < 0 || sg_derivative_wrt(&parts, p.bias) < 0);
}

/* Without mask and bias cuDNN's kernels are faster where it has some. */
static sg_status prepare_cudnn(sg_device *device, attention *state, sg_kernel *out, sg_error *err)
{
    sg_cuda_cudnn_attention *cudnn = NULL;
    if (state->p.mask < 0 && state->p.bias < 0)
        SG_TRY(sg_cuda_cudnn_attention_find(device, &state->a, &cudnn, err));
    state->cudnn = cudnn;
    if (!cudnn)
        return SG_OK;
    out->name = "cudnn attention";
    out->launch = launch_cudnn;
    out->workspace = sg_cuda_workspace_bytes(sg_cuda_cudnn_attention_workspace(cudnn));
    return SG_OK;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    const sg_op *op = spec->node->op;
    attention *state = sg_calloc(1, sizeof *state);
    if (!state)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", op->name);
    state->p = find_places(spec);
    state->a = describe(spec, &state->p);
    state->a.capability = device->capability;
    state->a.dq = state->a.q;
    state->a.dk = state->a.k;
    state->a.dv = state->a.v;
    *out = (sg_kernel){.name = op->name, .launch = launch_forward, .state = state, .release = sg_free};
    if (op == &sg_op_attention_jvp)
        out->launch = launch_jvp;
    else if (op != &sg_op_attention) {
        out->launch = op == &sg_op_attention_vjp ? launch_vjp : launch_vjp_jvp;
        out->workspace = sg_cuda_attention_rows_bytes(&state->a);
    }
    sg_status status = op == &sg_op_attention ? prepare_cudnn(device, state, out, err) : SG_OK;
    if (status != SG_OK) {
        sg_free(state);
        *out = (sg_kernel){0};
    }
    return status;
}

/* A reverse derivative with sums of its results (column_sums.c): the node of the body has the same operands. */
static bool inner_spec(const sg_kernel_spec *spec, sg_kernel_spec *inner)
{
    const sg_node *node = sg_cuda_summed_spec(spec, inner);
    return node && (node->op == &sg_op_attention_vjp || node->op == &sg_op_attention_vjp_jvp);
}

static bool supports_summed(const sg_kernel_spec *spec)
{
    sg_kernel_spec inner;
    return inner_spec(spec, &inner) && supports(&inner);
}

static void lay_jointly(sg_cuda_attention *a)
{
    const int64_t row = 3 * (int64_t)a->heads * a->depth;
    a->dq = (sg_cuda_attention_layout){a->queries * row, a->depth, row};
    a->dk = a->dv = (sg_cuda_attention_layout){a->keys * row, a->depth, row};
}

static sg_status prepare_summed(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    sg_kernel_spec inner;
    inner_spec(spec, &inner);
    SG_TRY(prepare(device, &inner, out, err));
    attention *state = out->state;
    sg_graph *body = spec->attr[0].graph;
    state->joint = sg_node_of(sg_result_value(body, 0)) != inner.node;
    if (state->joint)
        lay_jointly(&state->a);
    const int32_t made[3] = {state->p.dq, state->p.dk, state->p.dv};
    for (int32_t i = 0; i < 3; i++)
        state->p.sum[i] = made[i] < 0 ? -1 : sg_cuda_sum_output(body, made[i]);
    out->name = inner.node->op == &sg_op_attention_vjp ? "attention_vjp + sums" : "attention_vjp_jvp + sums";
    out->workspace += sg_cuda_attention_parts_bytes(&state->a);
    return SG_OK;
}

const sg_cuda_kernel sg_cuda_attention_kernels[] = {
    {&sg_op_fused, supports_summed, prepare_summed}, {&sg_op_attention, supports, prepare},
    {&sg_op_attention_vjp, supports, prepare},       {&sg_op_attention_jvp, supports, prepare},
    {&sg_op_attention_vjp_jvp, supports, prepare},   {0}};
