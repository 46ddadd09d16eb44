/* adam_group.c - the optimiser steps of many small parameters as one node: a net has a dozen biases and narrow layers, and a
 * launch each would cost more than their arithmetic.
 *
 * Grouping is a rewrite of the graph rather than a matter of recording, so that launch by launch a run has the same kernels,
 * and plans, profiles and audits show what runs. A group runs where its last member stood. Large parameters stay by themselves:
 * they fill a device, and each can start as soon as its own gradient is there. */
#include <string.h>

#include "ops/ops_internal.h"
#include "runtime/cuda/adam_group_internal.h"

enum { P, G, M, V, LR, T, ADAM_INPUTS, FACTOR = SG_SCALED_ADAM_FACTOR, MOST_INPUTS };
enum { FIRST = SG_ADAM_GROUP_FIRST, EACH = SG_ADAM_GROUP_EACH, EACH_OUT = SG_ADAM_GROUP_EACH_OUT };
enum { MOST_MEMBERS = SG_MAX_OUTPUTS / EACH_OUT, NONE = -1 };

/* ---- the op */

static bool is_scaled(int32_t operands) { return (operands - FIRST) % EACH != 0; }

static sg_status infer(const sg_infer_args *args)
{
    static const int32_t like[EACH_OUT] = {P, M, V};
    int32_t members = (args->n_in - FIRST) / EACH;
    ((sg_infer_args *)args)->n_out = members * EACH_OUT;
    for (int32_t k = 0; k < members * EACH_OUT; k++) {
        int32_t from = FIRST + k / EACH_OUT * EACH + like[k % EACH_OUT];
        args->out_shape[k] = args->in_shape[from];
        args->out_dtype[k] = args->in_dtype[from];
    }
    return SG_OK;
}

static void eval(const sg_eval_args *args)
{
    bool scaled = is_scaled(args->n_in);
    for (int32_t i = 0; i < args->n_out / EACH_OUT; i++) {
        sg_tensor64 in[MOST_INPUTS];
        memcpy(in, args->in + FIRST + i * EACH, EACH * sizeof *in);
        in[LR] = args->in[SG_ADAM_GROUP_LR];
        in[T] = args->in[SG_ADAM_GROUP_T];
        in[FACTOR] = args->in[args->n_in - 1];
        sg_eval_args one = {.attr = args->attr,
                            .n_in = scaled ? MOST_INPUTS : ADAM_INPUTS,
                            .n_out = EACH_OUT,
                            .in = in,
                            .out = args->out + i * EACH_OUT,
                            .run = args->run};
        (scaled ? &sg_op_scaled_adam : &sg_op_adam)->eval(&one);
    }
}

static sg_cost cost(const sg_cost_args *args)
{
    double n = 0;
    for (int32_t k = FIRST; k + EACH <= args->n_in; k += EACH)
        n += (double)sg_shape_count(&args->in_shape[k]);
    return (sg_cost){15 * n, 28 * n};
}

const sg_op sg_op_adam_group = {
    .name = "adam_group",
    .summary = "adam of several parameters",
    .n_in = SG_VARIADIC,
    .n_out = SG_VARIADIC,
    .flags = SG_OP_STOP,
    .attrs = sg_joined_adam_attrs,
    .n_attrs = SG_JOINED_ADAM_ATTRS,
    .infer = infer,
    .eval = eval,
    .cost = cost,
};

/* ---- which steps */

/* Of one graph. Groups are named by their first member. */
typedef struct partition {
    sg_graph *graph;
    int32_t *group;              /* of each node, or NONE */
    int32_t *last;               /* of each group, its last member */
    int32_t *members;            /* of each group */
    bool *closed;                /* of each group: one of its values is read */
    sg_value (*in)[MOST_INPUTS]; /* of each node that is a member: the images of its operands */
    struct partition *next;
} partition;

typedef struct grouping {
    int64_t most;
    partition *partitions; /* of the graphs met so far */
} grouping;

static bool mark_live(sg_graph *graph, bool *live)
{
    int32_t n = 0, entry, results = sg_result_count(graph), effects = sg_effect_count(graph);
    int32_t *roots = sg_calloc(results + effects + 1, sizeof *roots);
    if (!roots)
        return false;
    for (int32_t i = 0; i < results; i++)
        roots[n++] = sg_result_value(graph, i).id;
    for (int32_t i = 0; i < effects; i++)
        sg_effect_at(graph, i, &entry, &roots[n++]);
    sg_graph_reach(graph, roots, n, false, live);
    sg_free(roots);
    return true;
}

static bool is_small_step(sg_graph *graph, const sg_node *node, int64_t most)
{
    if (node->op != &sg_op_adam && node->op != &sg_op_scaled_adam)
        return false;
    sg_value p = sg_value_at(graph, node->in[P]);
    return sg_dtype_of(p) == SG_F32 && sg_shape_count(sg_shape_of(p)) <= most;
}

static bool alike(const sg_node *a, const sg_node *b)
{
    if (a->op != b->op || (a->op == &sg_op_scaled_adam && a->in[FACTOR] != b->in[FACTOR]))
        return false;
    for (int32_t i = 0; i < 4; i++)
        if (a->attr[i].f != b->attr[i].f)
            return false;
    return a->attr[4].i == b->attr[4].i && a->in[LR] == b->in[LR] && a->in[T] == b->in[T];
}

/* Nothing that reads a member may come before the group's place. */
static void close_groups_read_by(partition *p, const sg_node *node)
{
    for (int32_t k = 0; k < node->n_in; k++) {
        int32_t from = p->group[sg_node_of(sg_value_at(p->graph, node->in[k]))->index];
        if (from != NONE)
            p->closed[from] = true;
    }
}

static void join_group(partition *p, const sg_node *node)
{
    int32_t g = node->index;
    for (int32_t n = 0; n < node->index && g == node->index; n++)
        if (p->group[n] == n && !p->closed[n] && p->members[n] < MOST_MEMBERS && alike(sg_node_at(p->graph, n), node))
            g = n;
    p->group[node->index] = g;
    p->last[g] = node->index;
    p->members[g]++;
}

static bool divide(partition *p, int64_t most)
{
    int32_t n = sg_node_count(p->graph);
    bool *live = sg_calloc(n + 1, sizeof *live);
    bool ready = live && mark_live(p->graph, live);
    for (int32_t i = 0; ready && i < n; i++) {
        const sg_node *node = sg_node_at(p->graph, i);
        p->group[i] = NONE;
        if (!live[i])
            continue;
        close_groups_read_by(p, node);
        if (is_small_step(p->graph, node, most))
            join_group(p, node);
    }
    sg_free(live);
    return ready;
}

static void release(partition *p)
{
    sg_free(p->group);
    sg_free(p->last);
    sg_free(p->members);
    sg_free(p->closed);
    sg_free(p->in);
    sg_free(p);
}

static partition *partition_of(grouping *g, sg_graph *graph)
{
    for (partition *p = g->partitions; p; p = p->next)
        if (p->graph == graph)
            return p;
    int64_t n = sg_node_count(graph) + 1;
    partition *p = sg_calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->graph = graph;
    p->group = sg_calloc(n, sizeof *p->group);
    p->last = sg_calloc(n, sizeof *p->last);
    p->members = sg_calloc(n, sizeof *p->members);
    p->closed = sg_calloc(n, sizeof *p->closed);
    p->in = sg_calloc(n, sizeof *p->in);
    if (!p->group || !p->last || !p->members || !p->closed || !p->in || !divide(p, g->most)) {
        release(p);
        return NULL;
    }
    p->next = g->partitions;
    return g->partitions = p;
}

/* ---- the rewrite */

static void build_group(partition *p, sg_graph *to, int32_t g, const sg_node *last, sg_value *out)
{
    sg_value *in = sg_calloc(FIRST + (int64_t)p->members[g] * EACH + 1, sizeof *in);
    int32_t n = FIRST, k = 0;
    if (!in) {
        sg_graph_fail(to, SG_E_MEMORY, SG_NONE, "out of memory grouping updates");
        return;
    }
    in[SG_ADAM_GROUP_LR] = p->in[g][LR];
    in[SG_ADAM_GROUP_T] = p->in[g][T];
    for (int32_t m = g; m <= last->index; m++)
        for (int32_t i = 0; p->group[m] == g && i < EACH; i++)
            in[n++] = p->in[m][i];
    if (last->op == &sg_op_scaled_adam)
        in[n++] = p->in[g][FACTOR];
    sg_value first = sg_build(to, &sg_op_adam_group, in, n, last->attr);
    sg_free(in);
    for (int32_t m = g; m <= last->index && !sg_is_none(first); m++) {
        for (int32_t j = 0; p->group[m] == g && j < EACH_OUT; j++, k++) {
            if (m == last->index)
                out[j] = sg_output_of(first, k);
            else
                sg_rewrite_image(p->graph, sg_node_at(p->graph, m)->out + j, sg_output_of(first, k));
        }
    }
}

static bool group_node(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    grouping *g = user;
    if (node->op != &sg_op_adam && node->op != &sg_op_scaled_adam)
        return false;
    partition *p = partition_of(g, from);
    if (!p) {
        sg_graph_fail(to, SG_E_MEMORY, SG_NONE, "out of memory grouping updates");
        return true;
    }
    int32_t group = p->group[node->index];
    if (group == NONE || p->members[group] == 1)
        return false;
    memcpy(p->in[node->index], in, (size_t)node->n_in * sizeof *in);
    if (p->last[group] == node->index)
        build_group(p, to, group, node, out);
    return true;
}

sg_status sg_group_adam(sg_graph *from, sg_graph *to, int64_t most, sg_error *err)
{
    grouping g = {.most = most};
    sg_status status = sg_graph_rewrite(from, to, group_node, &g, NULL, err);
    while (g.partitions) {
        partition *p = g.partitions;
        g.partitions = p->next;
        release(p);
    }
    return status;
}
