/* checkpoint.c - segments that the backward pass computes once more instead of keeping what is inside them.
 *
 * `checkpoint` marks the end of a segment y = f(x). Its inputs are y_1..y_m and then the frontier: every value from outside
 * that the segment reads. Its outputs are the y. The node adds no arithmetic and is gone after lowering; it tells the
 * reverse sweep where to cut. With cotangents g of the y the sweep (autodiff/checkpoint.c) builds
 *
 *     x' = barrier(x, g),   y' = f(x')  (the same nodes, the same draws),   gradients of <g, y'> with respect to x'
 *
 * so that between the forward pass and this moment only x is alive. `barrier` is the identity, and a view of memory; it is
 * a node of its own, so that f(x') is not recognised as the f(x) that exists already, and it reads g, so that nothing
 * made from it can be scheduled before the backward pass has come this far. Both are linear: the recomputed segment is
 * plain nodes, and derivatives of any order go through it. */
#include "ops/checkpoint_internal.h"

#include "ops/ops_internal.h"

#include <string.h>

static sg_cost no_cost(const sg_cost_args *args)
{
    (void)args;
    return (sg_cost){0, 0};
}

/* ---------------------------------------------------------------------------------------------------------- barrier */

static sg_status barrier_infer(const sg_infer_args *args)
{
    args->out_shape[0] = args->in_shape[0];
    args->out_dtype[0] = args->in_dtype[0];
    return SG_OK;
}

static void barrier_vjp(const sg_vjp_args *args) { args->gin[0] = args->gout[0]; }

static void barrier_jvp(const sg_jvp_args *args)
{
    if (!sg_is_none(args->tin[0]))
        args->tout[0] = sg_barrier(args->tin[0], args->in[1]);
}

SG_EVAL_UNARY(barrier_eval, x)

const sg_op sg_op_barrier = {
    .name = "barrier",
    .summary = "x, not merged with x and not before a second value",
    .n_in = 2,
    .n_out = 1,
    .flags = SG_OP_FOLLOWS,
    .infer = barrier_infer,
    .vjp = barrier_vjp,
    .jvp = barrier_jvp,
    .eval = barrier_eval,
    .cost = no_cost,
};

sg_value sg_barrier(sg_value x, sg_value after) { return sg_build_binary(&sg_op_barrier, x, after); }

/* ------------------------------------------------------------------------------------------------------- checkpoint */

static const sg_attr_spec attrs[] = {{"outputs", SG_ATTR_INT}};

static sg_status infer(const sg_infer_args *args)
{
    int64_t m = args->attr[0].i;
    if (m < 1 || m > args->n_in || m > SG_MAX_OUTPUTS)
        return sg_infer_fail(args, SG_E_ARGUMENT, "a segment of %lld results among %d values", (long long)m,
                             args->n_in);
    ((sg_infer_args *)args)->n_out = (int32_t)m;
    for (int32_t k = 0; k < (int32_t)m; k++) {
        args->out_shape[k] = args->in_shape[k];
        args->out_dtype[k] = args->in_dtype[k];
    }
    return SG_OK;
}

/* The tangents of the y are already there: they came through the segment's nodes. */
static void jvp(const sg_jvp_args *args)
{
    for (int32_t k = 0; k < args->node->n_out; k++)
        args->tout[k] = args->tin[k];
}

static void decompose(const sg_decompose_args *args)
{
    for (int32_t k = 0; k < args->node->n_out; k++)
        args->out[k] = args->in[k];
}

const sg_op sg_op_checkpoint = {
    .name = "checkpoint",
    .summary = "results of a segment that the backward pass computes again",
    .n_in = SG_VARIADIC,
    .n_out = SG_VARIADIC,
    .flags = SG_OP_COMPOSITE | SG_OP_FOLLOWS,
    .attrs = attrs,
    .n_attrs = 1,
    .infer = infer,
    .jvp = jvp,
    .decompose = decompose,
    .cost = no_cost,
};

/* The nodes of a segment are those added since `begin` that its results need. */
typedef struct segment {
    sg_graph *graph;
    int32_t begin;
    bool *inside, *listed; /* by node; by value */
    sg_value *in;          /* the node's inputs: results, then frontier */
    int32_t n;
} segment;

static bool belongs(const segment *s, int32_t value)
{
    const sg_node *node = sg_node_of(sg_value_at(s->graph, value));
    return node->index >= s->begin && !(node->op->flags & SG_OP_LEAF);
}

static void read_value(segment *s, int32_t value)
{
    const sg_node *node = sg_node_of(sg_value_at(s->graph, value));
    if (belongs(s, value)) {
        s->inside[node->index] = true;
    } else if (node->op != &sg_op_constant && !s->listed[value]) {
        s->listed[value] = true;
        s->in[s->n++] = sg_value_at(s->graph, value);
    }
}

static void walk(segment *s, int32_t n_y)
{
    for (int32_t k = 0; k < n_y; k++)
        if (belongs(s, s->in[k].id))
            s->inside[sg_node_of(s->in[k])->index] = true;
    for (int32_t i = sg_node_count(s->graph) - 1; i >= s->begin; i--) {
        const sg_node *node = sg_node_at(s->graph, i);
        for (int32_t k = 0; s->inside[i] && k < node->n_in; k++)
            if (!(k < 32 && (node->op->shape_only >> k & 1)))
                read_value(s, node->in[k]);
    }
}

int32_t sg_checkpoint_begin(sg_graph *graph) { return graph ? sg_node_count(graph) : 0; }

void sg_checkpoint_end(sg_graph *graph, int32_t begin, sg_value *y, int32_t n_y)
{
    bool ok = graph && sg_graph_status(graph, NULL) == SG_OK && n_y > 0 && begin >= 0;
    segment s = {.graph = graph, .begin = begin, .n = n_y};
    for (int32_t k = 0; ok && k < n_y; k++)
        ok = !sg_is_none(y[k]) && y[k].graph == graph;
    if (graph && !ok)
        sg_graph_fail(graph, SG_E_ARGUMENT, SG_NONE,
                      "sg_checkpoint_end: no such beginning, or a result is missing or of another graph");
    if (ok) {
        s.inside = sg_calloc(sg_node_count(graph) + 1, sizeof *s.inside);
        s.listed = sg_calloc(sg_value_count(graph) + 1, sizeof *s.listed);
        s.in = sg_calloc(sg_value_count(graph) + (int64_t)n_y + 1, sizeof *s.in);
    }
    if (s.inside && s.listed && s.in) {
        memcpy(s.in, y, (size_t)n_y * sizeof *y);
        walk(&s, n_y);
        sg_attr attr = sg_attr_int(n_y);
        sg_value first = sg_build(graph, &sg_op_checkpoint, s.in, s.n, &attr);
        for (int32_t k = 0; k < n_y; k++)
            y[k] = sg_is_none(first) ? SG_NONE : sg_output_of(first, k);
    } else if (ok) {
        sg_graph_fail(graph, SG_E_MEMORY, SG_NONE, "out of memory for a checkpoint");
    }
    for (int32_t k = 0; k < n_y && !s.in; k++)
        y[k] = SG_NONE;
    sg_free(s.inside);
    sg_free(s.listed);
    sg_free(s.in);
}
