/* repeat.c - state <- body(state), n times, as one node. Operand layout: repeat_internal.h.
 *
 *   (s_0, e_0) given;   (s_{t+1}, e_{t+1}) = body(s_t, e_t, captures),   t = 0..n-1;   outputs (s_n, e_n)
 *
 * with s the explicit states and e the store entries that the body assigns. The node has no derivative rule: a loop
 * that must be differentiated is unrolled, and is then plain nodes. */
#include "ops/repeat_internal.h"

#include "ops/ops_internal.h"

static int32_t find_input(const sg_graph *body, sg_value inner)
{
    for (int32_t j = 0; j < sg_body_input_count(body); j++) {
        sg_value candidate, outer;
        sg_body_input_at(body, j, &candidate, &outer);
        if (candidate.id == inner.id)
            return j;
    }
    return -1;
}

/* The body input that continues in output k, for a body with S explicit states. */
static int32_t output_input(const sg_graph *body, int32_t states, int32_t output)
{
    if (output < states)
        return output;
    int32_t entry;
    sg_value inner, next;
    sg_body_entry_at(body, output - states, &entry, &inner, &next);
    return find_input(body, inner);
}

static sg_value inner_value(const sg_graph *body, int32_t states, int32_t output)
{
    sg_value inner, outer, next;
    int32_t entry;
    if (output < states)
        sg_body_input_at(body, output, &inner, &outer);
    else
        sg_body_entry_at(body, output - states, &entry, &inner, &next);
    return inner;
}

static sg_value next_value(sg_graph *body, int32_t states, int32_t output)
{
    if (output < states)
        return sg_result_value(body, output);
    int32_t entry;
    sg_value inner, next;
    sg_body_entry_at(body, output - states, &entry, &inner, &next);
    return next;
}

const sg_node *sg_repeat_of(const sg_graph *body)
{
    const sg_graph *parent = sg_body_parent(body);
    for (int32_t n = parent ? sg_node_count(parent) : 0; n-- > 0;) {
        const sg_node *node = sg_node_at(parent, n);
        if (node->op == &sg_op_repeat && sg_repeat_body(node) == body)
            return node;
    }
    return NULL;
}

int32_t sg_repeat_output_input(const sg_node *node, int32_t output)
{
    return output_input(sg_repeat_body(node), sg_repeat_states(node), output);
}

sg_value sg_repeat_inner(const sg_node *node, int32_t output)
{
    return inner_value(sg_repeat_body(node), sg_repeat_states(node), output);
}

sg_value sg_repeat_next(const sg_node *node, int32_t output)
{
    return next_value(sg_repeat_body(node), sg_repeat_states(node), output);
}

int32_t sg_repeat_input_output(const sg_node *node, int32_t input)
{
    for (int32_t k = 0; k < node->n_out; k++)
        if (sg_repeat_output_input(node, k) == input)
            return k;
    return -1;
}

/* A loop is well formed if every continued value leaves an iteration with the shape and dtype it entered with. */
static sg_status check_next(const sg_infer_args *a, sg_graph *body, int32_t states, int32_t k)
{
    sg_value inner = inner_value(body, states, k), next = next_value(body, states, k);
    const char *kind = k < states ? "state" : "assigned entry";
    int32_t place = k < states ? k : k - states;
    char from[SG_SHAPE_TEXT], to[SG_SHAPE_TEXT];
    if (!sg_shape_equal(sg_shape_of(inner), sg_shape_of(next)))
        return sg_infer_fail(a, SG_E_SHAPE, "%s %d enters an iteration as %s and leaves it as %s", kind, place,
                             sg_shape_format(sg_shape_of(inner), from, sizeof from),
                             sg_shape_format(sg_shape_of(next), to, sizeof to));
    if (sg_dtype_of(inner) != sg_dtype_of(next))
        return sg_infer_fail(a, SG_E_DTYPE, "%s %d enters an iteration as %s and leaves it as %s", kind, place,
                             sg_dtype_name(sg_dtype_of(inner)), sg_dtype_name(sg_dtype_of(next)));
    return SG_OK;
}

static sg_status infer(const sg_infer_args *a)
{
    sg_graph *body = a->attr[SG_REPEAT_BODY].graph;
    int64_t states = a->attr[SG_REPEAT_STATES].i;
    if (!body)
        return sg_infer_fail(a, SG_E_GRAPH, "the loop has no body");
    if (a->attr[SG_REPEAT_N].i < 1)
        return sg_infer_fail(a, SG_E_ARGUMENT, "the number of iterations must be positive");
    if (states < 0 || states != sg_result_count(body) || a->n_in != sg_body_input_count(body) || states > a->n_in)
        return sg_infer_fail(a, SG_E_GRAPH,
                             "the loop body has %d inputs, %d results; the node %d operands, %lld states",
                             sg_body_input_count(body), sg_result_count(body), a->n_in, (long long)states);
    int64_t outputs = states + sg_body_entry_count(body);
    if (outputs == 0)
        return sg_infer_fail(a, SG_E_GRAPH, "the loop body has no state and assigns no entry: it has no effect");
    if (outputs > SG_MAX_OUTPUTS)
        return sg_infer_fail(a, SG_E_UNSUPPORTED, "a loop carries at most %d values, not %lld", SG_MAX_OUTPUTS,
                             (long long)outputs);
    ((sg_infer_args *)a)->n_out = (int32_t)outputs;
    for (int32_t k = 0; k < (int32_t)outputs; k++) {
        int32_t j = output_input(body, (int32_t)states, k);
        if (j < 0)
            return sg_infer_fail(a, SG_E_GRAPH, "assigned entry %d does not enter the loop body", k - (int32_t)states);
        SG_TRY(check_next(a, body, (int32_t)states, k));
        a->out_shape[k] = a->in_shape[j];
        a->out_dtype[k] = a->in_dtype[j];
    }
    return SG_OK;
}

static const sg_attr_spec attrs[] = {{"n", SG_ATTR_INT}, {"body", SG_ATTR_GRAPH}, {"states", SG_ATTR_INT}};

const sg_op sg_op_repeat = {
    .name = "repeat",
    .summary = "states <- body(states), n times",
    .n_in = SG_VARIADIC,
    .n_out = SG_VARIADIC,
    .flags = SG_OP_STOP | SG_OP_FULL,
    .attrs = attrs,
    .n_attrs = 3,
    .infer = infer,
};

/* Build the body: its states, the user's nodes, its results. `inner` and `next` have n_state places. */
static void build_body(sg_graph *body, sg_body_fn fn, void *user, const sg_value *state, int32_t n_state,
                       sg_value *inner, sg_value *next)
{
    for (int32_t k = 0; k < n_state; k++)
        inner[k] = sg_body_state(body, state[k]);
    fn(user, body, inner, next);
    for (int32_t k = 0; k < n_state; k++) {
        char name[32];
        snprintf(name, sizeof name, "state%d", k);
        if (sg_is_none(next[k]))
            sg_graph_fail(body, SG_E_GRAPH, inner[k], "the loop body gives no next value of state %d", k);
        else
            sg_result(body, name, next[k]);
    }
}

/* One node for the finished body; assigned entries continue in `graph` as its further outputs. */
static void build_node(sg_graph *graph, sg_graph *body, int64_t n, int32_t n_state, sg_value *out)
{
    int32_t n_in = sg_body_input_count(body);
    sg_value *in = sg_calloc(n_in + 1, sizeof *in);
    if (!in) {
        sg_graph_fail(graph, SG_E_MEMORY, SG_NONE, "out of memory for a loop of %d inputs", n_in);
        return;
    }
    for (int32_t j = 0; j < n_in; j++) {
        sg_value inner;
        sg_body_input_at(body, j, &inner, &in[j]);
    }
    sg_attr attr[] = {sg_attr_int(n), sg_attr_graph(body), sg_attr_int(n_state)};
    sg_value first = sg_build(graph, &sg_op_repeat, in, n_in, attr);
    sg_free(in);
    if (sg_is_none(first))
        return;
    for (int32_t k = 0; k < n_state; k++)
        out[k] = sg_output_of(first, k);
    for (int32_t e = 0; e < sg_body_entry_count(body); e++) {
        int32_t entry;
        sg_value inner, next;
        sg_body_entry_at(body, e, &entry, &inner, &next);
        sg_rebind(graph, entry, sg_output_of(first, n_state + e));
    }
}

static void repeat_node(sg_graph *graph, int64_t n, sg_body_fn fn, void *user, const sg_value *state, int32_t n_state,
                        sg_value *inner, sg_value *next, sg_value *out)
{
    sg_graph *body = sg_body_new(graph);
    if (!body) {
        sg_graph_fail(graph, SG_E_MEMORY, SG_NONE, "out of memory for a loop body");
        return;
    }
    build_body(body, fn, user, state, n_state, inner, next);
    if (sg_graph_status(graph, NULL) == SG_OK)
        build_node(graph, body, n, n_state, out);
}

/* n copies in place: assignments rebind the entries as they come. */
static void unroll_body(sg_graph *graph, int64_t n, sg_body_fn fn, void *user, int32_t n_state, sg_value *now,
                        sg_value *next, sg_value *out)
{
    for (int64_t i = 0; i < n && sg_graph_status(graph, NULL) == SG_OK; i++) {
        fn(user, graph, now, next);
        for (int32_t k = 0; k < n_state; k++)
            out[k] = now[k] = next[k];
    }
}

void sg_repeat(sg_graph *graph, int64_t n, sg_body_fn body, void *user, const sg_value *state, int32_t n_state,
               sg_value *out, bool unroll)
{
    int32_t count = n_state > 0 ? n_state : 0;
    sg_value *now = sg_calloc(2 * (int64_t)count + 1, sizeof *now), *next = now + count;
    bool bad = !now || n < 0 || n_state < 0;
    if (!now)
        sg_graph_fail(graph, SG_E_MEMORY, SG_NONE, "out of memory for a loop of %d states", count);
    else if (n < 0 || n_state < 0)
        sg_graph_fail(graph, SG_E_ARGUMENT, SG_NONE, "repeat: %lld iterations of %d states", (long long)n, n_state);
    for (int32_t k = 0; !bad && k < count; k++)
        bad = sg_is_none(now[k] = state[k]);
    for (int32_t k = 0; !bad && k < count; k++)
        next[k] = SG_NONE;
    for (int32_t k = 0; k < count; k++)
        out[k] = bad || n > 0 ? SG_NONE : now[k];
    if (!bad && n > 0 && unroll)
        unroll_body(graph, n, body, user, count, now, next, out);
    else if (!bad && n > 0)
        repeat_node(graph, n, body, user, now, count, now, next, out);
    sg_free(now);
}
