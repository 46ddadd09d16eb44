/* derived.c - rules that build derivative composites (ops/derivative_internal.h) instead of primitives.
 *
 * For y = f(x) and phi(x, c) = <c, f(x)> the reverse derivative V(x, c) = d phi / d x is an operator again. Its own
 * reverse derivative needs no third operator, since the Hessian of phi is symmetric and c enters linearly: with
 * cotangents u of V's outputs,
 *
 *     d <u, V> / d x = (d2 phi / d x2) u = the forward derivative of V when x moves along u, c fixed,
 *     d <u, V> / d c = (d f / d x) u     = the forward derivative of f when x moves along u. */
#include "autodiff/derived_internal.h"

#include "autodiff/autodiff.h"
#include "ops/derivative_internal.h"

static const sg_sweeps sweeps = {sg_sweep_reverse, sg_sweep_forward};

void sg_autodiff_start(void) { sg_set_sweeps(&sweeps); }

/* A list of inputs or outputs with a value for each. */
typedef struct selection {
    int64_t *at;
    sg_value *value;
    int32_t n;
} selection;

static bool open_selection(selection *s, sg_graph *graph, int32_t n)
{
    *s = (selection){sg_calloc(n + 1, sizeof *s->at), sg_calloc(2 * (int64_t)n + 1, sizeof *s->value), 0};
    if (!s->at || !s->value)
        sg_graph_fail(graph, SG_E_MEMORY, SG_NONE, "out of memory while differentiating");
    return s->at && s->value;
}

static void close_selection(selection *s)
{
    sg_free(s->at);
    sg_free(s->value);
}

static void select_given(selection *s, const sg_value *value, int32_t begin, int32_t end)
{
    for (int32_t k = begin; k < end; k++) {
        if (sg_is_none(value[k]))
            continue;
        s->at[s->n] = k - begin;
        s->value[s->n++] = value[k];
    }
}

static void select_needed(selection *s, const sg_rule_site *site, int32_t end)
{
    for (int32_t k = 0; k < end; k++)
        if (site->need[k] && sg_dtype_is_real(sg_dtype_of(site->in[k])))
            s->at[s->n++] = k;
}

void sg_derived_vjp(const sg_rule_site *site, sg_graph *graph)
{
    sg_autodiff_start();
    selection wrt, seeded;
    bool ok = open_selection(&wrt, graph, site->node.n_in);
    ok = open_selection(&seeded, graph, site->node.n_out) && ok; /* both, so that both can be closed */
    if (ok) {
        select_needed(&wrt, site, site->node.n_in);
        select_given(&seeded, site->gout, 0, site->node.n_out);
        sg_build_vjp(graph, &site->node, site->in, site->out, wrt.at, wrt.n, seeded.at, seeded.value, seeded.n,
                     wrt.value);
        for (int32_t i = 0; i < wrt.n; i++)
            site->gin[wrt.at[i]] = wrt.value[i];
    }
    close_selection(&wrt);
    close_selection(&seeded);
}

/* Inputs whose movement counts: a derivative composite does not move with its hints. */
static void select_moving(selection *s, const sg_rule_site *site)
{
    const sg_op *op = site->node.op;
    int32_t from = site->node.n_in, to = from;
    if (op->parent) {
        sg_derivative_parts p = sg_derivative_split(op, site->node.attr, site->node.n_in);
        from = p.n_x;
        to = p.n_x + p.n_hints;
    }
    for (int32_t k = 0; k < site->node.n_in; k++) {
        if (sg_is_none(site->gin[k]) || (k >= from && k < to))
            continue;
        s->at[s->n] = k;
        s->value[s->n++] = site->gin[k];
    }
}

void sg_derived_jvp(const sg_rule_site *site, sg_graph *graph)
{
    sg_autodiff_start();
    selection moving;
    if (open_selection(&moving, graph, site->node.n_in)) {
        select_moving(&moving, site);
        if (moving.n)
            sg_build_jvp(graph, &site->node, site->in, site->out, moving.at, moving.value, moving.n, site->gout);
    }
    close_selection(&moving);
}

/* -------------------------------------------------------------------------- the reverse derivative of V, by symmetry */

bool sg_derived_is_symmetric(const sg_op *op) { return sg_is_vjp(op) && op->jvp_op && op->parent->jvp_op; }

/* The parent's node as it was, seen from a node of its reverse derivative. Its outputs are known where V has hints. */
static sg_node parent_of(const sg_node *v, const sg_derivative_parts *p)
{
    sg_node parent = *v;
    parent.op = v->op->parent;
    parent.n_in = p->n_x;
    parent.n_out = p->n_out;
    return parent;
}

/* moving: the x that V differentiates by and whose cotangent u is given, moving along u. */
static void select_u(selection *s, const sg_rule_site *site, const sg_derivative_parts *p)
{
    for (int32_t i = 0; i < p->n_wrt; i++) {
        if (sg_is_none(site->gout[i]))
            continue;
        s->at[s->n] = p->wrt[i];
        s->value[s->n++] = site->gout[i];
    }
}

/* The part in x: V' with an output for each x that is needed, moved along u. */
static void hessian_part(const sg_rule_site *site, sg_graph *graph, const sg_derivative_parts *p, const selection *u)
{
    selection wrt;
    if (open_selection(&wrt, graph, site->node.n_in))
        select_needed(&wrt, site, p->n_x);
    if (wrt.n) {
        const sg_attr *attr = site->node.attr;
        int32_t n_own = site->node.op->parent->n_attrs;
        sg_attr *changed = sg_calloc(n_own + 2, sizeof *changed);
        for (int32_t i = 0; changed && i < n_own + 2; i++)
            changed[i] = i == n_own ? sg_attr_ints(wrt.at, wrt.n) : attr[i];
        sg_node node = site->node;
        node.attr = changed;
        node.n_out = wrt.n;
        if (changed)
            sg_build_jvp(graph, &node, site->in, NULL, u->at, u->value, u->n, wrt.value);
        else
            sg_graph_fail(graph, SG_E_MEMORY, SG_NONE, "out of memory while differentiating");
        for (int32_t i = 0; changed && i < wrt.n; i++)
            site->gin[wrt.at[i]] = wrt.value[i];
        sg_free(changed);
    }
    close_selection(&wrt);
}

/* The outputs of the parent, as a rule of the parent finds them: from the hints, or made again where V has none. The
 * builder merges an output made again with the parent's node, which is still there. */
static void parent_outputs(const sg_rule_site *site, sg_graph *graph, const sg_node *parent, sg_value *y)
{
    sg_value first = sg_build(graph, parent->op, site->in, parent->n_in, parent->attr);
    for (int32_t j = 0; j < parent->n_out; j++)
        y[j] = sg_is_none(first) ? SG_NONE : sg_output_of(first, j);
}

/* The part in c: f moved along u. */
static void jacobian_part(const sg_rule_site *site, sg_graph *graph, const sg_derivative_parts *p, const selection *u)
{
    bool needed = false;
    for (int32_t i = 0; i < p->n_with; i++)
        needed = needed || site->need[p->n_x + p->n_hints + i];
    sg_value *y = needed ? sg_calloc(2 * (int64_t)p->n_out + 1, sizeof *y) : NULL;
    if (!y) {
        if (needed)
            sg_graph_fail(graph, SG_E_MEMORY, SG_NONE, "out of memory while differentiating");
        return;
    }
    sg_node parent = parent_of(&site->node, p);
    parent_outputs(site, graph, &parent, y);
    sg_build_jvp(graph, &parent, site->in, y, u->at, u->value, u->n, y + p->n_out);
    for (int32_t i = 0; i < p->n_with; i++)
        site->gin[p->n_x + p->n_hints + i] = y[p->n_out + p->with[i]];
    sg_free(y);
}

void sg_derived_symmetric_vjp(const sg_rule_site *site, sg_graph *graph)
{
    sg_derivative_parts p = sg_derivative_split(site->node.op, site->node.attr, site->node.n_in);
    selection u;
    if (open_selection(&u, graph, site->node.n_out)) {
        select_u(&u, site, &p);
        hessian_part(site, graph, &p, &u);
        jacobian_part(site, graph, &p, &u);
    }
    close_selection(&u);
}
