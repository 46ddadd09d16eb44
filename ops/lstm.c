/* lstm.c - long short-term memory (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000).
 *
 *     i, f, g, o = s(z_i), s(z_f), tanh(z_g), s(z_o)     with z = W_ih x_t + b_ih + b_hh + W_hh h_{t-1}
 *     c_t = f c_{t-1} + i g          h_t = o tanh(c_t)
 *
 * The part of z that does not depend on h is one matrix product over all steps, outside the operator. The operator `lstm`
 * is the recurrence: z, W_hh and the first state to all h_t and the last state. Past a row's length the state stays and the
 * output is 0; in reverse, steps run from the last one of the row to its first. The decomposition unrolls the steps; gates
 * and cells are outputs so that the derivatives need not compute them again. */
#include "ops/lstm_internal.h"

#include "ops/axis_internal.h"
#include "ops/derivative_internal.h"
#include "ops/sequence_internal.h"

static const sg_attr_spec attrs[] = {{"reverse", SG_ATTR_INT}};
static const sg_attr_spec vjp_attrs[] = {{"reverse", SG_ATTR_INT}, SG_VJP_ATTRS};
static const sg_attr_spec jvp_attrs[] = {{"reverse", SG_ATTR_INT}, SG_JVP_ATTRS};
static const sg_attr_spec vjp_jvp_attrs[] = {{"reverse", SG_ATTR_INT}, SG_VJP_ATTRS, SG_JVP_ATTRS};

static sg_status infer(const sg_infer_args *a)
{
    const sg_shape *z = &a->in_shape[SG_LSTM_Z];
    if (a->n_in < SG_LSTM_LENGTHS || a->n_in > SG_LSTM_LENGTHS + 1)
        return sg_infer_fail(a, SG_E_ARGUMENT, "needs four inputs, or five with lengths");
    SG_TRY(sg_require_real(a, SG_LSTM_Z));
    if (z->rank != 3 || z->dim[2] % 4 != 0)
        return sg_infer_fail(a, SG_E_SHAPE, "the gates' arguments must be [batch, steps, 4 * hidden]");
    int64_t batch = z->dim[0], hidden = z->dim[2] / 4;
    SG_TRY(sg_require_sizes(a, SG_LSTM_W, 2, (int64_t[]){z->dim[2], hidden}));
    SG_TRY(sg_require_sizes(a, SG_LSTM_H0, 2, (int64_t[]){batch, hidden}));
    SG_TRY(sg_require_sizes(a, SG_LSTM_C0, 2, (int64_t[]){batch, hidden}));
    if (a->n_in > SG_LSTM_LENGTHS)
        SG_TRY(sg_require_lengths(a, SG_LSTM_LENGTHS, z));
    sg_shape state = {.rank = 2}, all = *z;
    sg_shape_put(&state, 0, z, 0);
    state.dim[1] = all.dim[2] = hidden;
    all.name[2] = NULL;
    a->out_shape[SG_LSTM_OUT] = a->out_shape[SG_LSTM_CELLS] = all;
    a->out_shape[SG_LSTM_H] = a->out_shape[SG_LSTM_C] = state;
    a->out_shape[SG_LSTM_GATES] = *z;
    for (int32_t j = 0; j < a->n_out; j++)
        a->out_dtype[j] = a->in_dtype[SG_LSTM_Z];
    return SG_OK;
}

/* -------------------------------------------------------------------------------------------------- decomposition */

static sg_value quarter(sg_value z, int32_t which)
{
    int64_t hidden = sg_dim_of(z, 1) / 4;
    return sg_slice_places(z, 1, which * hidden, (which + 1) * hidden);
}

/* One step from the whole of z: the new h, and c, all gates. */
static sg_value cell(sg_value z, sg_value c, sg_value *next_c, sg_value *gates)
{
    sg_value i = sg_sigmoid(quarter(z, 0)), f = sg_sigmoid(quarter(z, 1)), g = sg_tanh(quarter(z, 2));
    sg_value o = sg_sigmoid(quarter(z, 3));
    *next_c = sg_add(sg_mul(f, c), sg_mul(i, g));
    *gates = sg_concat((sg_value[]){i, f, g, o}, 4, 1);
    return sg_mul(o, sg_tanh(*next_c));
}

/* The values of the steps so far. */
typedef struct unrolled {
    sg_value h, c, *out, *gates, *cells;
} unrolled;

static sg_value gates_of(const sg_decompose_args *a, sg_value h, int64_t t)
{
    return sg_add(sg_step_at(a->in[SG_LSTM_Z], t), sg_matmul_nt(h, a->in[SG_LSTM_W]));
}

/* Past a row's length what a step is given is 0, and so are the results: whatever is there, NaN included, reaches nothing, and no
 * cotangent comes to it as 0 times that. */
static void step(unrolled *u, const sg_decompose_args *a, sg_value mask, int64_t t)
{
    sg_value next_c, gates;
    if (sg_is_none(mask)) {
        u->out[t] = u->h = cell(gates_of(a, u->h, t), u->c, &next_c, &gates);
        u->cells[t] = u->c = next_c;
        u->gates[t] = gates;
        return;
    }
    sg_value inside = sg_slice_places(mask, 1, t, t + 1), zero = sg_number(u->h, 0);
    sg_value z = sg_where(inside, gates_of(a, sg_where(inside, u->h, zero), t), zero);
    sg_value next_h = cell(z, sg_where(inside, u->c, zero), &next_c, &gates);
    u->out[t] = sg_where(inside, next_h, zero);
    u->cells[t] = sg_where(inside, next_c, zero);
    u->gates[t] = sg_where(inside, gates, zero);
    u->h = sg_where(inside, next_h, u->h);
    u->c = sg_where(inside, next_c, u->c);
}

static void decompose(const sg_decompose_args *a)
{
    sg_value z = a->in[SG_LSTM_Z];
    int64_t steps = sg_dim_of(z, 1), hidden = sg_dim_of(z, 2) / 4;
    unrolled u = {.h = a->in[SG_LSTM_H0], .c = a->in[SG_LSTM_C0], .out = sg_calloc(3 * steps + 1, sizeof(sg_value))};
    if (!u.out) {
        sg_graph_fail(a->graph, SG_E_MEMORY, z, "out of memory for %lld steps", (long long)steps);
        return;
    }
    u.gates = u.out + steps;
    u.cells = u.gates + steps;
    sg_value mask = SG_NONE;
    if (a->node->n_in > SG_LSTM_LENGTHS)
        mask = sg_length_mask(a->in[SG_LSTM_LENGTHS], steps);
    for (int64_t n = 0; n < steps; n++)
        step(&u, a, mask, a->node->attr[0].i ? steps - 1 - n : n);
    a->out[SG_LSTM_OUT] = sg_stack_steps(u.out, steps, z, hidden);
    a->out[SG_LSTM_H] = u.h;
    a->out[SG_LSTM_C] = u.c;
    a->out[SG_LSTM_GATES] = sg_stack_steps(u.gates, steps, z, 4 * hidden);
    a->out[SG_LSTM_CELLS] = sg_stack_steps(u.cells, steps, z, hidden);
    sg_free(u.out);
}

/* ----------------------------------------------------------------------------------------------------------- work */

/* `products` of h with W_hh or alike over all steps, and about `small` operations for each hidden unit and step. */
static sg_cost work(const sg_cost_args *a, double products, double small)
{
    const sg_shape *z = &a->in_shape[SG_LSTM_Z];
    double hidden = (double)z->dim[2] / 4, units = (double)z->dim[0] * (double)z->dim[1] * hidden, bytes = 0;
    for (int32_t k = 0; k < a->n_in; k++)
        bytes += (double)sg_shape_count(&a->in_shape[k]) * (double)sg_dtype_size(a->in_dtype[k]);
    for (int32_t k = 0; k < a->n_out; k++)
        bytes += (double)sg_shape_count(&a->out_shape[k]) * (double)sg_dtype_size(a->out_dtype[k]);
    return (sg_cost){units * (8 * hidden * products + small), bytes};
}

static sg_cost cost(const sg_cost_args *a) { return work(a, 1, 30); }
/* Back through W_hh, and its gradient. */
static sg_cost vjp_cost(const sg_cost_args *a) { return work(a, 2, 30); }
/* W_hh with the tangent of h, and its tangent with h. */
static sg_cost jvp_cost(const sg_cost_args *a) { return work(a, 2, 30); }
/* Those two and the reverse ones, of which the second factors move too. */
static sg_cost vjp_jvp_cost(const sg_cost_args *a) { return work(a, 7, 90); }

const sg_op sg_op_lstm = {
    .name = "lstm",
    .summary = "recurrence of an LSTM: i, f, g, o from z_t + W h; c = f c + i g; h = o tanh(c)",
    .n_in = SG_VARIADIC,
    .n_out = 5,
    .flags = SG_OP_COMPOSITE | SG_OP_FULL,
    .attrs = attrs,
    .n_attrs = 1,
    .infer = infer,
    .decompose = decompose,
    .cost = cost,
    .vjp_op = &sg_op_lstm_vjp,
    .jvp_op = &sg_op_lstm_jvp,
};

#define HINTS (1 << SG_LSTM_OUT | 1 << SG_LSTM_GATES | 1 << SG_LSTM_CELLS)
SG_DERIVATIVE_OP(lstm_vjp, "reverse derivative of lstm", vjp_attrs, lstm, vjp_cost, .hints = HINTS,
                 .jvp_op = &sg_op_lstm_vjp_jvp)
SG_DERIVATIVE_OP(lstm_jvp, "forward derivative of lstm", jvp_attrs, lstm, jvp_cost, .hints = HINTS)
SG_DERIVATIVE_OP(lstm_vjp_jvp, "forward derivative of the reverse derivative of lstm", vjp_jvp_attrs, lstm_vjp,
                 vjp_jvp_cost, .hints = 0)

/* -------------------------------------------------------------------------------------------------------- builders */

/* SG_NONE if a bias does not fit. */
static sg_value with_bias(sg_value z, const sg_lstm_weights *w, const char *builder)
{
    if (sg_is_none(z))
        return z;
    sg_shape gates = SG_SHAPE(sg_dim_of(z, -1));
    if (!sg_require_form(w->b_ih, &gates, sg_dtype_of(z), builder, "b_ih") ||
        !sg_require_form(w->b_hh, &gates, sg_dtype_of(z), builder, "b_hh"))
        return SG_NONE;
    if (w->b_ih.graph)
        z = sg_add(z, w->b_ih);
    return w->b_hh.graph ? sg_add(z, w->b_hh) : z;
}

sg_lstm_state sg_lstm_cell(sg_value x, sg_lstm_state last, sg_lstm_weights w)
{
    sg_lstm_state next = {SG_NONE, SG_NONE};
    if (!sg_common_graph((sg_value[]){x, last.h, last.c, w.w_ih, w.w_hh}, 5))
        return next;
    if (sg_rank_of(x) != 2 || sg_rank_of(w.w_ih) != 2 || sg_dim_of(w.w_ih, 0) % 4 != 0) {
        sg_graph_fail(x.graph, SG_E_SHAPE, x, "lstm_cell: x must be [batch, inputs] and w_ih [4 * hidden, inputs]");
        return next;
    }
    sg_value gates, z = sg_add(sg_matmul_nt(x, w.w_ih), sg_matmul_nt(last.h, w.w_hh));
    next.h = cell(with_bias(z, &w, "lstm_cell"), last.c, &next.c, &gates);
    return next;
}

sg_lstm_result sg_lstm(sg_value x, sg_value lengths, sg_lstm_weights w, sg_lstm_state first, bool reverse)
{
    sg_lstm_result r = {SG_NONE, {SG_NONE, SG_NONE}};
    /* The gradient of w_ih multiplies x past a length by 0, which would let a NaN through. */
    sg_value z = with_bias(sg_matmul_nt(sg_zero_past(x, lengths), w.w_ih), &w, "lstm");
    if (!sg_common_graph((sg_value[]){z, w.w_hh}, 2))
        return r;
    if (sg_rank_of(z) != 3 || sg_rank_of(w.w_hh) != 2) {
        sg_graph_fail(x.graph, SG_E_SHAPE, x, "lstm: x must be [batch, steps, inputs] and w_hh [4 * hidden, hidden]");
        return r;
    }
    int64_t hidden = sg_dim_of(w.w_hh, 1);
    sg_value in[] = {z, w.w_hh, first.h, first.c, lengths};
    if (!first.h.graph)
        in[SG_LSTM_H0] = sg_step_zeros(z, hidden);
    if (!first.c.graph)
        in[SG_LSTM_C0] = sg_step_zeros(z, hidden);
    sg_attr attr = sg_attr_int(reverse);
    sg_value node = sg_build_op(&sg_op_lstm, in, lengths.graph ? 5 : 4, &attr);
    if (sg_is_none(node))
        return r;
    r.out = node;
    r.last.h = sg_output_of(node, SG_LSTM_H);
    r.last.c = sg_output_of(node, SG_LSTM_C);
    return r;
}

sg_bilstm_result sg_bilstm(sg_value x, sg_value lengths, sg_lstm_weights forward, sg_lstm_weights backward)
{
    sg_lstm_state zeros = {SG_NONE, SG_NONE};
    sg_lstm_result f = sg_lstm(x, lengths, forward, zeros, false), b = sg_lstm(x, lengths, backward, zeros, true);
    sg_value out = SG_NONE;
    if (!sg_is_none(f.out) && !sg_is_none(b.out))
        out = sg_concat((sg_value[]){f.out, b.out}, 2, 2);
    return (sg_bilstm_result){out, f.last, b.last};
}
