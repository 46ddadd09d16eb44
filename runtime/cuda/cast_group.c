/* cast_group.c - casts of parameters and inputs as few nodes: in mixed precision a step begins by rounding each weight and bias, and
 * most of these launches last longer than their memory traffic.
 *
 * A group runs where its first member stood, which is possible since leaves are there from the start. It is not larger than what a
 * device moves in the time of some products, so that the first product does not wait for the weights of the last. */
#include "runtime/cuda/cast_group_internal.h"

#include <string.h>

#include "ops/ops_internal.h"
#include "runtime/cuda/cuda_kernels.h"

extern const sg_op sg_op_cast, sg_op_param, sg_op_input;

/* ---- the op */

static sg_status infer(const sg_infer_args *args)
{
    ((sg_infer_args *)args)->n_out = args->n_in;
    for (int32_t k = 0; k < args->n_in; k++) {
        args->out_shape[k] = args->in_shape[k];
        args->out_dtype[k] = SG_BF16;
    }
    return SG_OK;
}

/* In double nothing is rounded, as by cast. */
static void eval(const sg_eval_args *args)
{
    for (int32_t k = 0; k < args->n_in; k++) {
        int64_t count = sg_shape_count(args->in[k].shape);
        if (count > 0)
            memcpy(args->out[k].data, args->in[k].data, (size_t)count * sizeof(double));
    }
}

static sg_cost cost(const sg_cost_args *args)
{
    double n = 0;
    for (int32_t k = 0; k < args->n_in; k++)
        n += (double)sg_shape_count(&args->in_shape[k]);
    return (sg_cost){n, 6 * n};
}

static const sg_op cast_group = {
    .name = "cast_group",
    .summary = "several tensors in bf16",
    .n_in = SG_VARIADIC,
    .n_out = SG_VARIADIC,
    .flags = SG_OP_STOP,
    .infer = infer,
    .eval = eval,
    .cost = cost,
};

/* ---- the kernel */

typedef struct casts {
    int32_t members;
    int64_t count[];
} casts;

static bool launch(const sg_launch *l, sg_error *err)
{
    const casts *c = l->state;
    sg_cuda_casts all = {0};
    for (int32_t i = 0; i < c->members; i++) {
        if (c->count[i] > 0)
            all.at[all.count++] = (sg_cuda_cast){.in = l->in[i], .out = l->out[i], .count = c->count[i]};
        if (all.count == SG_CUDA_CASTS || (all.count > 0 && i == c->members - 1)) {
            sg_cuda_cast_tensors(&all, sg_cuda_where_of(l));
            all.count = 0;
        }
    }
    return sg_cuda_launched(err);
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    casts *c = sg_calloc(1, sizeof *c + (size_t)spec->n_in * sizeof c->count[0]);
    if (!c)
        return sg_fail(err, SG_E_MEMORY, "out of memory for casts");
    c->members = spec->n_in;
    for (int32_t i = 0; i < spec->n_in; i++)
        c->count[i] = sg_shape_count(&spec->in_shape[i]);
    *out = (sg_kernel){.name = "cast_group", .state = c, .release = sg_free, .launch = launch, .replicates = true};
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec)
{
    (void)spec;
    return true;
}

const sg_cuda_kernel sg_cuda_cast_group_kernels[] = {{&cast_group, supports, prepare}, {0}};

/* ---- the pass */

typedef struct grouping {
    int64_t most;
    sg_graph *graph; /* that the arrays are for */
    bool *read;      /* of each value: by a node */
    int32_t *member; /* of the group being built: nodes */
    sg_value *in;
} grouping;

static void release(grouping *g)
{
    sg_free(g->read);
    sg_free(g->member);
    sg_free(g->in);
}

static bool look_at(grouping *g, sg_graph *graph)
{
    int32_t nodes = sg_node_count(graph);
    if (g->graph == graph)
        return true;
    release(g);
    g->graph = graph;
    g->read = sg_calloc(sg_value_count(graph) + 1, sizeof *g->read);
    g->member = sg_calloc(nodes + 1, sizeof *g->member);
    g->in = sg_calloc(nodes + 1, sizeof *g->in);
    if (!g->read || !g->member || !g->in) {
        g->graph = NULL;
        return false;
    }
    for (int32_t i = 0; i < nodes; i++)
        for (int32_t k = 0; k < sg_node_at(graph, i)->n_in; k++)
            g->read[sg_node_at(graph, i)->in[k]] = true;
    return true;
}

static bool is_member(sg_graph *graph, const sg_node *node)
{
    if (node->op != &sg_op_cast || sg_dtype_of(sg_value_at(graph, node->out)) != SG_BF16)
        return false;
    sg_value x = sg_value_at(graph, node->in[0]);
    return sg_dtype_of(x) == SG_F32 && (sg_node_of(x)->op == &sg_op_param || sg_node_of(x)->op == &sg_op_input);
}

/* This cast, and those behind it that fit. */
static int32_t find_members(grouping *g, sg_graph *graph, const sg_node *first)
{
    int32_t n = 0;
    int64_t elements = 0;
    for (int32_t i = first->index; i < sg_node_count(graph) && n < SG_MAX_OUTPUTS; i++) {
        const sg_node *node = sg_node_at(graph, i);
        if (!is_member(graph, node) || !g->read[node->out])
            continue;
        int64_t count = sg_shape_count(sg_shape_of(sg_value_at(graph, node->out)));
        if (n > 0 && elements + count > g->most)
            break;
        elements += count;
        g->member[n++] = i;
    }
    return n;
}

static bool group_casts(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in,
                        sg_value *out)
{
    grouping *g = user;
    (void)in;
    if (!is_member(from, node))
        return false;
    if (!look_at(g, from)) {
        sg_graph_fail(to, SG_E_MEMORY, SG_NONE, "out of memory grouping casts");
        return true;
    }
    int32_t n = find_members(g, from, node);
    if (n < 2)
        return false;
    for (int32_t i = 0; i < n; i++) {
        sg_value x = sg_value_at(from, sg_node_at(from, g->member[i])->in[0]);
        g->in[i] = sg_rewrite_leaf(from, to, sg_node_of(x));
    }
    sg_value first = sg_build(to, &cast_group, g->in, n, NULL);
    for (int32_t i = 1; i < n && !sg_is_none(first); i++)
        sg_rewrite_image(from, sg_node_at(from, g->member[i])->out, sg_output_of(first, i));
    out[0] = first;
    return true;
}

sg_status sg_cuda_group_casts(sg_graph *from, sg_graph *to, int64_t most, sg_error *err)
{
    grouping g = {.most = most};
    sg_status status = sg_graph_rewrite(from, to, group_casts, &g, NULL, err);
    release(&g);
    return status;
}
