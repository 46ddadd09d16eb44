/* fuse.c - the fusion pass: builds the chains that fuse_plan.c has found, in the course of one rewrite. Loop bodies are
 * rewritten by the same call, each with a plan of its own. */
#include "runtime/fuse_internal.h"

#include "ops/ops.h"
#include "runtime/leaf_internal.h"

#define SG_OP(name) extern const sg_op sg_op_##name;
#include "ops/op_list.h"
#undef SG_OP

typedef struct fusing {
    const sg_fuse_rules *rules;
    sg_fuse_plan *plans; /* a list: graphs met so far */
    sg_status status;
    sg_error *err;
} fusing;

static sg_fuse_plan *plan_of(fusing *f, sg_graph *graph)
{
    for (sg_fuse_plan *p = f->plans; p; p = p->outer)
        if (p->graph == graph)
            return p;
    sg_fuse_plan *made = sg_calloc(1, sizeof *made);
    f->status = made ? sg_fuse_plan_make(made, graph, f->rules, f->err)
                     : sg_fail(f->err, SG_E_MEMORY, "out of memory grouping nodes");
    if (f->status != SG_OK) {
        sg_free(made);
        return NULL;
    }
    made->outer = f->plans;
    return f->plans = made;
}

/* A value that is read for its shape alone: nothing is computed for it. */
static sg_value shape_model(sg_graph *to, const sg_fuse_plan *p, int32_t value)
{
    double nothing = 0;
    sg_value v = sg_value_at(p->graph, value);
    return sg_constant(to, sg_dtype_of(v), *sg_shape_of(v), &nothing, 1);
}

/* ---- bodies */

typedef struct body_builder {
    const sg_fuse_plan *plan;
    sg_graph *to, *body;
    int32_t group;
    sg_value *inner; /* of each value of the old graph: itself in the body */
} body_builder;

/* f32 made of bf16. */
static bool is_widening(const sg_fuse_plan *p, const sg_node *node)
{
    return node->op == &sg_op_cast && sg_dtype_of(sg_value_at(p->graph, node->in[0])) == SG_BF16 &&
           sg_dtype_of(sg_value_at(p->graph, node->out)) == SG_F32;
}

/* The slope of an activation is wanted by the backward pass, the tangents and the derivative of both, far apart. It takes
 * less time to compute again from its argument, which is in memory for other readers, than to write and read, and no
 * memory: chains that read it get a copy of the node. Other readers, and its own chain, see the node itself. So it is with
 * bf16 seen as f32, which would be twice the memory. */
static bool computed_again(const sg_fuse_plan *p, int32_t value)
{
    const sg_node *node = sg_node_of(sg_value_at(p->graph, value));
    if (!(node->op == &sg_op_gelu_derivative || is_widening(p, node)) || p->group[node->index] < 0 || p->root[value])
        return false;
    const sg_node *from = sg_node_of(sg_value_at(p->graph, node->in[0]));
    return p->role[from->index] != SG_FUSE_NUMBER && p->role[from->index] != SG_FUSE_VIEW &&
           p->group[from->index] != p->group[node->index];
}

/* Does the node run in a body? One node gains from it if it reads numbers, views or bf16 that else would be written to memory. */
static bool worth_a_body(const sg_fuse_plan *p, const sg_node *node)
{
    int32_t g = p->group[node->index];
    bool reads_free = false, reads_memory = false;
    if (p->role[node->index] == SG_FUSE_PRODUCT || p->role[node->index] == SG_FUSE_JOIN)
        return p->groups[g].count > 1;
    for (int32_t k = 0; k < node->n_in; k++) {
        if (!sg_fuse_reads(node, k))
            continue;
        const sg_node *from = sg_node_of(sg_value_at(p->graph, node->in[k]));
        bool scalar = sg_shape_count(sg_shape_of(sg_value_at(p->graph, node->in[k]))) == 1;
        reads_free |= !scalar && (p->role[from->index] == SG_FUSE_NUMBER || p->role[from->index] == SG_FUSE_VIEW);
        reads_free |= is_widening(p, from) && computed_again(p, node->in[k]);
        reads_memory |= p->role[from->index] != SG_FUSE_NUMBER;
    }
    return p->groups[g].count > 1 || (reads_free && reads_memory);
}

static sg_value operand(body_builder *b, int32_t value);

static sg_value from_outside(body_builder *b, int32_t value)
{
    return sg_capture(b->body, sg_value_at(b->to, b->plan->image[value]));
}

static sg_value copy_into_body(body_builder *b, const sg_node *node)
{
    sg_value in[SG_FUSE_MOST_JOINED];
    bool is_product = b->plan->role[node->index] == SG_FUSE_PRODUCT;
    for (int32_t k = 0; k < node->n_in; k++)
        in[k] = is_product               ? from_outside(b, node->in[k])
                : sg_fuse_reads(node, k) ? operand(b, node->in[k])
                                         : shape_model(b->body, b->plan, node->in[k]);
    sg_here(node->file, node->line);
    sg_value v = sg_build(b->body, node->op, in, node->n_in, node->attr);
    return !sg_is_none(v) && sg_node_is_named(node) ? sg_named(v, node->name) : v;
}

/* Of a constant, a fill, or a view of one. */
static double number_of(sg_graph *graph, const sg_node *node)
{
    while (sg_is_view(node))
        node = sg_node_of(sg_value_at(graph, node->in[0]));
    return node->op == &sg_op_constant ? node->attr[0].reals[0] : node->attr[0].f;
}

/* Numbers are copied, views are followed to what they show, the rest comes from the members or from outside. */
static sg_value operand(body_builder *b, int32_t value)
{
    const sg_fuse_plan *p = b->plan;
    const sg_node *node = sg_node_of(sg_value_at(p->graph, value));
    if (!sg_is_none(b->inner[value]))
        return b->inner[value];
    sg_value v;
    if (p->role[node->index] == SG_FUSE_NUMBER) {
        double number = number_of(p->graph, node);
        v = sg_constant(b->body, sg_dtype_of(sg_value_at(p->graph, value)), *sg_shape_of(sg_value_at(p->graph, value)),
                        &number, 1);
    } else if (p->role[node->index] == SG_FUSE_VIEW || computed_again(p, value)) {
        v = copy_into_body(b, node);
    } else {
        v = from_outside(b, value);
    }
    return b->inner[value] = v;
}

static bool leaves_group(const sg_fuse_plan *p, int32_t value, int32_t group)
{
    if (p->root[value])
        return true;
    bool again = computed_again(p, value);
    for (int32_t i = p->use_at[value]; i < p->use_at[value + 1]; i++) {
        int32_t reader = p->use[i];
        if (p->group[reader] != group && !(again && p->role[reader] != SG_FUSE_PRODUCT && p->group[reader] >= 0 &&
                                           worth_a_body(p, sg_node_at(p->graph, reader))))
            return true;
    }
    return false;
}

static void build_members(body_builder *b)
{
    const sg_fuse_plan *p = b->plan;
    for (int32_t m = p->groups[b->group].first; m >= 0; m = p->next[m]) {
        const sg_node *node = sg_node_at(p->graph, m);
        b->inner[node->out] = copy_into_body(b, node);
        char name[16];
        snprintf(name, sizeof name, "%d", m);
        if (leaves_group(p, node->out, b->group))
            sg_result(b->body, name, b->inner[node->out]);
    }
}

static void set_images(body_builder *b, sg_value fused, int32_t current, sg_value *out)
{
    const sg_fuse_plan *p = b->plan;
    int32_t j = 0;
    for (int32_t m = p->groups[b->group].first; m >= 0; m = p->next[m]) {
        int32_t value = sg_node_at(p->graph, m)->out;
        if (!leaves_group(p, value, b->group))
            continue;
        sg_value v = sg_output_of(fused, j++);
        if (m == current)
            out[0] = v;
        else
            sg_rewrite_image(p->graph, value, v);
    }
}

static sg_value fused_node(body_builder *b)
{
    int32_t n = sg_body_input_count(b->body);
    sg_value inner, *in = sg_calloc(n + 1, sizeof *in);
    if (!in)
        return sg_graph_fail(b->to, SG_E_MEMORY, SG_NONE, "out of memory fusing nodes");
    for (int32_t k = 0; k < n; k++)
        sg_body_input_at(b->body, k, &inner, &in[k]);
    sg_value fused = sg_build_fused(b->to, b->body, in, n);
    sg_free(in);
    return fused;
}

static void build_group(const sg_fuse_plan *p, sg_graph *to, const sg_node *last, sg_value *out)
{
    body_builder b = {p, to, sg_body_new(to), p->group[last->index], sg_calloc(p->n_values + 1, sizeof(sg_value))};
    if (b.body && b.inner) {
        for (int32_t v = 0; v < p->n_values; v++)
            b.inner[v] = SG_NONE;
        build_members(&b);
        sg_value fused = fused_node(&b);
        if (!sg_is_none(fused))
            set_images(&b, fused, last->index, out);
    } else {
        sg_graph_fail(to, SG_E_MEMORY, SG_NONE, "out of memory fusing nodes");
    }
    sg_free(b.inner);
}

/* ---- the rewrite */

static void shape_models(const sg_fuse_plan *p, sg_graph *to, const sg_node *node, sg_value *out)
{
    for (int32_t k = 0; k < node->n_out; k++)
        out[k] = shape_model(to, p, node->out + k);
}

/* Copy a node that reads some operands for their shape alone, so that they need not exist. */
static bool copy_with_models(const sg_fuse_plan *p, sg_graph *to, const sg_node *node, const sg_value *in,
                             sg_value *out)
{
    sg_value own[32];
    if (!node->op->shape_only || node->n_in > 32)
        return false;
    for (int32_t k = 0; k < node->n_in; k++)
        own[k] = sg_fuse_reads(node, k) ? in[k] : shape_model(to, p, node->in[k]);
    sg_value first = sg_build(to, node->op, own, node->n_in, node->attr);
    for (int32_t k = 0; k < node->n_out && !sg_is_none(first); k++)
        out[k] = sg_output_of(first, k);
    return true;
}

static bool fuse_node(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    fusing *f = user;
    sg_fuse_plan *p = plan_of(f, from);
    if (!p) {
        sg_graph_fail(to, f->status, SG_NONE, "out of memory fusing nodes");
        return true;
    }
    for (int32_t k = 0; k < node->n_in; k++)
        if (!sg_is_none(in[k]))
            p->image[node->in[k]] = in[k].id;
    if (!p->live[node->index]) {
        shape_models(p, to, node, out);
        return true;
    }
    int32_t g = p->group[node->index];
    if (g < 0 || !worth_a_body(p, node))
        return copy_with_models(p, to, node, in, out);
    if (node->index == p->groups[g].last)
        build_group(p, to, node, out);
    return true;
}

sg_status sg_fuse_chains(sg_graph *from, sg_graph *to, const sg_fuse_rules *rules, sg_error *err)
{
    fusing f = {rules, NULL, SG_OK, err};
    sg_status status = sg_graph_rewrite(from, to, fuse_node, &f, NULL, err);
    while (f.plans) {
        sg_fuse_plan *p = f.plans;
        f.plans = p->outer;
        sg_fuse_plan_release(p);
        sg_free(p);
    }
    return status;
}

sg_status sg_fuse_passes(const sg_fuse_pass *pass, int32_t n, sg_graph *from, sg_graph *to, sg_error *err)
{
    sg_graph *now = from;
    sg_status status = SG_OK;
    for (int32_t i = 0; i < n && status == SG_OK; i++) {
        sg_graph *next = i == n - 1 ? to : sg_graph_new();
        status = next ? pass[i](now, next, err) : sg_fail(err, SG_E_MEMORY, "out of memory fusing nodes");
        if (now != from)
            sg_graph_free(now);
        now = next;
    }
    if (now && now != from && now != to)
        sg_graph_free(now);
    return status;
}
