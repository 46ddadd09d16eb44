/* rewrite.c - copying the live part of a graph while replacing nodes: dead code goes, equal expressions merge. */
#include "graph/graph_internal.h"

#include <string.h>

typedef struct rewriting {
    sg_graph *from, *to;
    sg_rewrite_fn rewrite;
    void *user;
    int32_t *map;
    sg_error *err;
} rewriting;

static sg_status failure(rewriting *r, const char *what)
{
    if (sg_graph_status(r->to, r->err) != SG_OK)
        return sg_graph_status(r->to, NULL);
    return sg_fail(r->err, SG_E_MEMORY, "out of memory while rewriting a graph (%s)", what);
}

/* What the outside sees of a graph: its results and its store writes. */
static bool *mark_live(const sg_graph *from)
{
    bool *live = sg_calloc(from->n_nodes + 1, sizeof *live);
    int32_t *roots = sg_calloc(from->n_results + from->n_versions + from->n_inputs + 1, sizeof *roots), n = 0;
    if (live && roots) {
        for (int32_t i = 0; i < from->n_results; i++)
            roots[n++] = from->results[i].id;
        for (int32_t i = 0; i < from->n_versions; i++)
            if (from->versions[i].current != from->versions[i].start)
                roots[n++] = from->versions[i].current;
        for (int32_t i = 0; i < from->n_inputs; i++)
            roots[n++] = from->inputs[i].inner; /* a loop's inputs keep their places */
        sg_graph_reach(from, roots, n, true, live);
    } else {
        sg_free(live);
        live = NULL;
    }
    sg_free(roots);
    return live;
}

static sg_status copy_nodes(rewriting *r);
static sg_status carry_results(rewriting *r);

static sg_status rewrite_graph(rewriting *r)
{
    SG_TRY(copy_nodes(r));
    return carry_results(r);
}

/* The body of a loop node, rewritten, with its inputs bound to the mapped outer values. */
static sg_graph *rewrite_body(rewriting *outer, sg_graph *body)
{
    sg_graph *copy = sg_body_new(outer->to);
    int32_t *map = sg_calloc(body->n_values + 1, sizeof *map);
    rewriting inner = {body, copy, outer->rewrite, outer->user, map, outer->err};
    bool good = copy && map;
    if (good)
        memset(map, -1, (size_t)body->n_values * sizeof *map);
    for (int32_t i = 0; good && i < body->n_inputs; i++) {
        const sgi_body_input *in = &body->inputs[i];
        sg_value mapped = sg_value_at(outer->to, outer->map[in->outer.id]);
        sg_value v = sgi_body_add_input(copy, in->kind, mapped, in->entry);
        if ((good = !sg_is_none(v)))
            map[in->inner] = v.id;
    }
    for (int32_t i = 0; good && i < body->n_versions; i++) {
        int32_t start = map[body->versions[i].start];
        if (!sgi_grow((void **)&copy->versions, copy->n_versions, &copy->cap_versions, sizeof *copy->versions))
            good = false;
        else
            copy->versions[copy->n_versions++] = (sgi_version){body->versions[i].entry, start, start};
    }
    good = good && rewrite_graph(&inner) == SG_OK;
    sg_free(map);
    return good ? copy : NULL;
}

static sg_value copy_leaf(sg_graph *from, sg_graph *to, const sg_node *node)
{
    const sgi_value *v = from->values[node->out];
    if (node->op == &sg_op_param)
        return sgi_entry_current(to, sg_store_find(sg_graph_store(from), node->attr[0].s));
    if (node->op == &sg_op_input)
        return sg_input(to, node->attr[0].s, v->dtype, v->shape);
    return sgi_leaf(to, node->op, node->attr, v->dtype, &v->shape);
}

/* A node with a body takes what its body takes: rewriting may have given the copy more inputs. */
static sg_value build_with_body(rewriting *r, const sg_node *node, const sg_attr *attr, const sg_graph *body)
{
    sg_value *in = sg_calloc(body->n_inputs + 1, sizeof *in);
    if (!in)
        return SG_NONE;
    for (int32_t k = 0; k < body->n_inputs; k++)
        in[k] = body->inputs[k].outer;
    sg_value v = sg_build(r->to, node->op, in, body->n_inputs, attr);
    sg_free(in);
    return v;
}

static sg_value copy_node(rewriting *r, const sg_node *node, const sg_value *in)
{
    if (node->op->flags & SG_OP_LEAF)
        return copy_leaf(r->from, r->to, node);
    sg_attr few[16], *attr = node->op->n_attrs <= 16 ? few : sg_calloc(node->op->n_attrs, sizeof *attr);
    if (!attr)
        return SG_NONE;
    bool good = true;
    const sg_graph *body = NULL;
    for (int32_t i = 0; i < node->op->n_attrs; i++) {
        attr[i] = node->attr[i];
        if (attr[i].kind == SG_ATTR_GRAPH && attr[i].graph->parent == r->from)
            good &= (body = attr[i].graph = rewrite_body(r, attr[i].graph)) != NULL;
    }
    sg_value v = SG_NONE;
    if (good)
        v = body ? build_with_body(r, node, attr, body) : sg_build(r->to, node->op, in, node->n_in, attr);
    if (attr != few)
        sg_free(attr);
    return v;
}

bool sg_node_is_named(const sg_node *node)
{
    char name[64];
    snprintf(name, sizeof name, "%s_%d", node->op->name, node->index);
    return strcmp(name, node->name) != 0;
}

static sg_status rewrite_node(rewriting *r, const sg_node *node, sg_value *in, sg_value *out)
{
    for (int32_t k = 0; k < node->n_in; k++)
        in[k] = sg_value_at(r->to, r->map[node->in[k]]);
    for (int32_t k = 0; k < node->n_out; k++)
        out[k] = SG_NONE;
    sg_here(node->file, node->line);
    bool replaced = !(node->op->flags & SG_OP_LEAF) && r->rewrite && r->rewrite(r->user, r->to, r->from, node, in, out);
    if (!replaced) {
        sg_value first = copy_node(r, node, in);
        for (int32_t k = 0; k < node->n_out && !sg_is_none(first); k++)
            out[k] = sg_value_at(r->to, first.id + k);
        if (!sg_is_none(first) && sg_node_is_named(node))
            sg_named(first, node->name);
    }
    for (int32_t k = 0; k < node->n_out; k++) {
        if (sg_is_none(out[k]) && !(replaced && sg_graph_status(r->to, NULL) == SG_OK))
            return failure(r, node->name);
        if (!sg_is_none(out[k]))
            r->map[node->out + k] = out[k].id;
    }
    return SG_OK;
}

void sg_rewrite_image(sg_graph *from, int32_t value, sg_value image)
{
    if (from->images && !sg_is_none(image))
        from->images[value] = image.id;
}

sg_value sg_rewrite_leaf(sg_graph *from, sg_graph *to, const sg_node *leaf)
{
    if (!from->images)
        return SG_NONE;
    if (from->images[leaf->out] < 0) {
        sg_value image = copy_leaf(from, to, leaf);
        if (!sg_is_none(image) && sg_node_is_named(leaf))
            sg_named(image, leaf->name);
        sg_rewrite_image(from, leaf->out, image);
    }
    return sg_value_at(to, from->images[leaf->out]);
}

static sg_status carry_results(rewriting *r)
{
    for (int32_t i = 0; i < r->from->n_results; i++)
        sg_result(r->to, r->from->results[i].name, sg_value_at(r->to, r->map[r->from->results[i].id]));
    for (int32_t i = 0; i < r->from->n_versions; i++) {
        const sgi_version *v = &r->from->versions[i];
        if (v->current != v->start)
            sg_rebind(r->to, v->entry, sg_value_at(r->to, r->map[v->current]));
    }
    return sg_graph_status(r->to, r->err);
}

static sg_status copy_nodes(rewriting *r)
{
    const char *file; /* each node is built with its place */
    int32_t line;
    sgi_place(&file, &line);
    bool *live = mark_live(r->from);
    int32_t widest = 1;
    for (int32_t n = 0; n < r->from->n_nodes; n++) {
        const sg_node *node = r->from->nodes[n];
        widest = node->n_in > widest ? node->n_in : widest;
        widest = node->n_out > widest ? node->n_out : widest;
    }
    sg_value *ends = sg_calloc(2 * (int64_t)widest, sizeof *ends);
    sg_status status = live && ends ? SG_OK : failure(r, "working memory");
    int32_t *outer_images = r->from->images;
    r->from->images = r->map;
    for (int32_t n = 0; status == SG_OK && n < r->from->n_nodes; n++)
        if (live[n] && r->map[r->from->nodes[n]->out] < 0)
            status = rewrite_node(r, r->from->nodes[n], ends, ends + widest);
    r->from->images = outer_images;
    sg_here(file, line);
    sg_free(live);
    sg_free(ends);
    return status;
}

sg_status sg_graph_rewrite(sg_graph *from, sg_graph *to, sg_rewrite_fn rewrite, void *user, int32_t *map, sg_error *err)
{
    SG_TRY(sg_graph_status(from, err));
    int32_t *own = map ? map : sg_calloc(from->n_values + 1, sizeof *own);
    rewriting r = {from, to, rewrite, user, own, err};
    if (!own)
        return failure(&r, "working memory");
    if (!sgi_top(to)->store)
        sgi_top(to)->store = sg_graph_store(from);
    memset(own, -1, (size_t)from->n_values * sizeof *own);
    sg_status status = rewrite_graph(&r);
    if (own != map)
        sg_free(own);
    return status;
}

sg_status sg_graph_inline(sg_graph *from, sg_graph *to, int32_t *map, sg_error *err)
{
    SG_TRY(sg_graph_status(from, err));
    return copy_nodes(&(rewriting){from, to, NULL, NULL, map, err});
}
