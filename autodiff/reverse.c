/* reverse.c - reverse mode. Nodes are visited from the last to the first; since indices are a topological order, all
 * cotangents of a node's outputs are known when it is reached, and they are added up at that moment, in a balanced
 * tree: the sum of n terms has depth log2 n, so neither rounding nor the chain of dependent kernels grows with n. */
#include "autodiff/autodiff.h"

#include <string.h>

#include "autodiff/arguments_internal.h"
#include "autodiff/path_internal.h"
#include "autodiff/rules_internal.h"
#include "graph/graph_internal.h"
#include "ops/ops.h"

typedef struct contribution {
    sg_value g;
    int32_t next; /* an earlier contribution to the same value, or -1 */
} contribution;

typedef struct sweep {
    sg_graph *graph;
    sg_path path;
    sg_rule_site site;
    int32_t *last; /* by value id: its latest contribution, or -1 */
    contribution *list;
    int32_t n_list, capacity;
} sweep;

static bool out_of_memory(sweep *s)
{
    sg_graph_fail(s->graph, SG_E_MEMORY, SG_NONE, "out of memory in a reverse sweep");
    return false;
}

static bool deposit(sweep *s, int32_t id, sg_value g)
{
    if (sg_is_none(g))
        return true;
    if (s->n_list == s->capacity) {
        int32_t capacity = s->capacity ? 2 * s->capacity : 64;
        contribution *list = sg_realloc(s->list, (size_t)capacity * sizeof *list);
        if (!list)
            return out_of_memory(s);
        s->list = list;
        s->capacity = capacity;
    }
    s->list[s->n_list] = (contribution){g, s->last[id]};
    s->last[id] = s->n_list++;
    return true;
}

static sg_value balanced_sum(sg_value *term, int32_t n)
{
    while (n > 1) {
        for (int32_t i = 0; i < n / 2; i++)
            term[i] = sg_add(term[2 * i], term[2 * i + 1]);
        if (n % 2)
            term[n / 2] = term[n - 1];
        n = (n + 1) / 2;
    }
    return term[0];
}

/* The cotangent of a value, SG_NONE if nothing flowed into it. The list is replaced by its sum, so that a value that
 * is asked for again (one of the x in the middle of the graph) gives the same node. */
static sg_value cotangent(sweep *s, int32_t id)
{
    int32_t n = 0;
    for (int32_t i = s->last[id]; i >= 0; i = s->list[i].next)
        n++;
    if (n == 0)
        return SG_NONE;
    int32_t first = s->last[id];
    if (n == 1)
        return s->list[first].g;
    sg_value *term = sg_calloc(n, sizeof *term);
    if (!term) {
        out_of_memory(s);
        return SG_NONE;
    }
    for (int32_t i = first, at = n; i >= 0; i = s->list[i].next)
        term[--at] = s->list[i].g;
    sg_value sum = balanced_sum(term, n);
    sg_free(term);
    s->list[first] = (contribution){sum, -1};
    return sum;
}

/* Cotangents of the node's outputs; false if none flowed in. An output that is an independent variable keeps its. */
static bool gather_outputs(sweep *s, sg_rule_site *site)
{
    bool any = false;
    for (int32_t j = 0; j < site->node.n_out; j++) {
        int32_t id = site->out[j].id;
        if (!s->path.depends[id] || (s->path.leaves && s->path.is_x[id]))
            continue;
        site->gout[j] = cotangent(s, id);
        any = any || !sg_is_none(site->gout[j]);
    }
    return any;
}

static bool visit(sweep *s, int32_t node_index)
{
    sg_rule_site *site = &s->site;
    if (!sg_site_load(site, s->graph, node_index))
        return false;
    bool needed = false;
    for (int32_t k = 0; k < site->node.n_in; k++) {
        site->need[k] = sg_path_enters(&s->path, &site->node, k);
        needed = needed || site->need[k];
    }
    if (!needed || !gather_outputs(s, site))
        return true;
    sg_site_vjp(site, s->graph);
    for (int32_t k = 0; k < site->node.n_in; k++)
        if (site->need[k] && !deposit(s, site->in[k].id, sg_fit_cotangent(site->gin[k], site->in[k])))
            return false;
    return true;
}

static bool begin(sweep *s, const sg_value *y, const sg_value *seed, int32_t n_y)
{
    s->last = sg_calloc(s->path.n_values, sizeof *s->last);
    if (!s->last)
        return out_of_memory(s);
    memset(s->last, 0xff, (size_t)s->path.n_values * sizeof *s->last);
    for (int32_t k = 0; k < n_y; k++)
        if (s->path.depends[y[k].id] && !deposit(s, y[k].id, seed[k]))
            return false;
    return true;
}

void sg_sweep_reverse(const sg_value *y, const sg_value *seed, int32_t n_y, const sg_value *x, int32_t n_x,
                      sg_value *grad, bool leaves)
{
    for (int32_t i = 0; i < n_x; i++)
        grad[i] = SG_NONE;
    if (n_y == 0 || n_x == 0)
        return;
    const char *file; /* each rule sets the place of its node; what comes after the sweep has the caller's again */
    int32_t line;
    sgi_place(&file, &line);
    sweep s = {.graph = y[0].graph};
    bool ok = sg_path_find(&s.path, s.graph, y, n_y, x, n_x, leaves) && begin(&s, y, seed, n_y);
    for (int32_t i = s.path.n_nodes - 1; ok && i >= 0; i--)
        ok = visit(&s, s.path.nodes[i]);
    for (int32_t i = 0; ok && i < n_x; i++)
        grad[i] = cotangent(&s, x[i].id);
    sg_site_free(&s.site);
    sg_path_free(&s.path);
    sg_free(s.last);
    sg_free(s.list);
    sg_here(file, line);
}

void sg_vjp(const sg_value *y, const sg_value *seed, int32_t n_y, const sg_value *wrt, int32_t n_wrt, sg_value *grad)
{
    sg_graph *graph = NULL;
    sg_arguments outputs = {0}, inputs = {0};
    bool ok = sg_arguments_take(&outputs, &graph, "sg_vjp", "y", y, "seed", seed, n_y) &&
              sg_arguments_take(&inputs, &graph, "sg_vjp", "wrt", wrt, NULL, NULL, n_wrt);
    if (ok)
        sg_sweep_reverse(outputs.value, outputs.direction, n_y, inputs.value, n_wrt, grad, false);
    ok = ok && sg_graph_status(graph, NULL) == SG_OK;
    for (int32_t i = 0; i < n_wrt; i++)
        grad[i] = !ok ? SG_NONE : sg_is_none(grad[i]) ? sg_zeros_like(inputs.value[i]) : grad[i];
    sg_arguments_free(&outputs);
    sg_arguments_free(&inputs);
}

void sg_grad(sg_value loss, const sg_value *wrt, int32_t n_wrt, sg_value *grad)
{
    if (!sg_is_none(loss) && sg_rank_of(loss) != 0) {
        char text[SG_SHAPE_TEXT];
        sg_graph_fail(
            loss.graph, SG_E_SHAPE, loss,
            "sg_grad needs a rank-0 loss, got shape %s: reduce it with sg_sum_all or sg_mean_all, or use sg_vjp "
            "with a seed",
            sg_shape_format(sg_shape_of(loss), text, sizeof text));
        loss = SG_NONE;
    }
    sg_value one = sg_is_none(loss) ? SG_NONE : sg_ones_like(loss);
    sg_vjp(&loss, &one, 1, wrt, n_wrt, grad);
}
