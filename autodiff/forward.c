/* forward.c - forward mode: tangents pushed along the same path that reverse mode pulls cotangents back on. */
#include "autodiff/autodiff.h"

#include "autodiff/arguments_internal.h"
#include "autodiff/path_internal.h"
#include "autodiff/rules_internal.h"
#include "graph/graph_internal.h"
#include "ops/ops.h"

typedef struct push {
    sg_graph *graph;
    sg_path path;
    sg_rule_site site;
    sg_value *tangent; /* by value id; SG_NONE: does not move */
} push;

static bool begin(push *p, const sg_value *x, const sg_value *dx, int32_t n_x)
{
    p->tangent = sg_calloc(p->path.n_values, sizeof *p->tangent);
    if (!p->tangent) {
        sg_graph_fail(p->graph, SG_E_MEMORY, SG_NONE, "out of memory in a forward sweep");
        return false;
    }
    for (int32_t i = 0; i < p->path.n_values; i++)
        p->tangent[i] = SG_NONE;
    for (int32_t i = 0; i < n_x; i++) {
        sg_value *t = &p->tangent[x[i].id];
        if (!sg_is_none(dx[i]))
            *t = sg_is_none(*t) ? dx[i] : sg_add(*t, dx[i]);
    }
    return true;
}

/* An x in the middle of the graph moves by its own direction and by what reaches it; as an independent variable, only
 * by its own. */
static void settle(push *p, sg_value out, sg_value moved)
{
    sg_value *t = &p->tangent[out.id];
    if (!p->path.depends[out.id] || sg_is_none(moved) || (p->path.leaves && p->path.is_x[out.id]))
        return;
    moved = sg_fit_tangent(moved, out);
    *t = sg_is_none(*t) ? moved : sg_add(*t, moved);
}

static bool visit(push *p, int32_t node_index)
{
    sg_rule_site *site = &p->site;
    if (!sg_site_load(site, p->graph, node_index))
        return false;
    bool moves = false;
    for (int32_t k = 0; k < site->node.n_in; k++) {
        if (sg_path_enters(&p->path, &site->node, k))
            site->gin[k] = p->tangent[site->in[k].id];
        moves = moves || !sg_is_none(site->gin[k]);
    }
    if (!moves || !p->path.depends[site->out[0].id])
        return true;
    sg_site_jvp(site, p->graph);
    for (int32_t j = 0; j < site->node.n_out; j++)
        settle(p, site->out[j], site->gout[j]);
    return true;
}

void sg_sweep_forward(const sg_value *y, int32_t n_y, const sg_value *x, const sg_value *dx, int32_t n_x, sg_value *dy,
                      bool leaves)
{
    for (int32_t k = 0; k < n_y; k++)
        dy[k] = SG_NONE;
    if (n_y == 0 || n_x == 0)
        return;
    const char *file; /* as in the reverse sweep */
    int32_t line;
    sgi_place(&file, &line);
    push p = {.graph = y[0].graph};
    bool ok = sg_path_find(&p.path, p.graph, y, n_y, x, n_x, leaves) && begin(&p, x, dx, n_x);
    for (int32_t i = 0; ok && i < p.path.n_nodes; i++)
        ok = visit(&p, p.path.nodes[i]);
    for (int32_t k = 0; ok && k < n_y; k++)
        dy[k] = p.tangent[y[k].id];
    sg_site_free(&p.site);
    sg_path_free(&p.path);
    sg_free(p.tangent);
    sg_here(file, line);
}

void sg_jvp(const sg_value *y, int32_t n_y, const sg_value *x, const sg_value *dx, int32_t n_x, sg_value *dy)
{
    sg_graph *graph = NULL;
    sg_arguments outputs = {0}, inputs = {0};
    bool ok = sg_arguments_take(&outputs, &graph, "sg_jvp", "y", y, NULL, NULL, n_y) &&
              sg_arguments_take(&inputs, &graph, "sg_jvp", "x", x, "dx", dx, n_x);
    if (ok)
        sg_sweep_forward(outputs.value, n_y, inputs.value, inputs.direction, n_x, dy, false);
    ok = ok && sg_graph_status(graph, NULL) == SG_OK;
    for (int32_t k = 0; k < n_y; k++)
        dy[k] = !ok ? SG_NONE : sg_is_none(dy[k]) ? sg_zeros_like(outputs.value[k]) : dy[k];
    sg_arguments_free(&outputs);
    sg_arguments_free(&inputs);
}
