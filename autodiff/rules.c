/* rules.c - the derivative of one node, from what its operator declares. */
#include "autodiff/rules_internal.h"

#include <string.h>

#include "autodiff/checkpoint_internal.h"
#include "autodiff/derived_internal.h"
#include "ops/ops.h"
#include "ops/repeat_internal.h"

bool sg_is_loop(const sg_node *node) { return node->op == &sg_op_repeat; }

/* ------------------------------------------------------------------------------------------------------- the site */

static bool reserve(sg_rule_site *site, int32_t n)
{
    if (n <= site->capacity)
        return true;
    sg_site_free(site);
    site->in = sg_calloc(n, sizeof *site->in);
    site->out = sg_calloc(n, sizeof *site->out);
    site->gin = sg_calloc(n, sizeof *site->gin);
    site->gout = sg_calloc(n, sizeof *site->gout);
    site->need = sg_calloc(n, sizeof *site->need);
    if (!site->in || !site->out || !site->gin || !site->gout || !site->need)
        return false;
    site->capacity = n;
    return true;
}

bool sg_site_load(sg_rule_site *site, sg_graph *graph, int32_t node_index)
{
    sg_node node = *sg_node_at(graph, node_index);
    int32_t n = node.n_in > node.n_out ? node.n_in : node.n_out;
    if (!reserve(site, n)) {
        sg_graph_fail(graph, SG_E_MEMORY, SG_NONE, "out of memory while differentiating");
        return false;
    }
    site->node = node;
    for (int32_t i = 0; i < n; i++) {
        site->in[i] = i < node.n_in ? sg_value_at(graph, node.in[i]) : SG_NONE;
        site->out[i] = i < node.n_out ? sg_value_at(graph, node.out + i) : SG_NONE;
        site->gin[i] = site->gout[i] = SG_NONE;
        site->need[i] = false;
    }
    sg_here(node.file, node.line);
    return true;
}

void sg_site_free(sg_rule_site *site)
{
    sg_free(site->in);
    sg_free(site->out);
    sg_free(site->gin);
    sg_free(site->gout);
    sg_free(site->need);
    *site = (sg_rule_site){0};
}

/* --------------------------------------------------------------------------------------------------- broadcasting */

/* Does `from` have to be fitted to `to`? Sizes decide, and so do names: a named dimension that happens to have size 1
 * now is another size after sg_graph_bind. */
static bool differs(const sg_shape *from, const sg_shape *to)
{
    if (!sg_shape_equal(from, to))
        return true;
    for (int32_t i = 0; i < from->rank; i++)
        if (from->name[i] && (!to->name[i] || strcmp(from->name[i], to->name[i]) != 0))
            return true;
    return false;
}

sg_value sg_fit_cotangent(sg_value g, sg_value input)
{
    if (sg_is_none(g) || !differs(sg_shape_of(g), sg_shape_of(input)))
        return g;
    return sg_sum_like(g, input);
}

sg_value sg_fit_tangent(sg_value t, sg_value output)
{
    if (sg_is_none(t) || !differs(sg_shape_of(output), sg_shape_of(t)))
        return t;
    return sg_broadcast_like(t, output);
}

/* ------------------------------------------------------------------------------------------------------ composites */

/* Build the node's outputs from primitives; equal nodes are shared by sg_build, so every derivative pass that
 * decomposes the same node finds the same expression. Returns an array to be freed, NULL on failure. */
static sg_value *decompose(const sg_rule_site *site, sg_graph *graph)
{
    sg_value *out = sg_calloc(site->node.n_out, sizeof *out);
    if (!out) {
        sg_graph_fail(graph, SG_E_MEMORY, site->out[0], "out of memory in a decomposition");
        return NULL;
    }
    for (int32_t j = 0; j < site->node.n_out; j++)
        out[j] = SG_NONE;
    site->node.op->decompose(&(sg_decompose_args){graph, &site->node, site->in, out});
    return out;
}

/* The inputs selected by need (or by a tangent), each value once: an input given twice is one variable, whose one
 * derivative must not be counted twice. `at` receives the input's place. */
static int32_t distinct_inputs(const sg_rule_site *site, bool tangents, sg_value *x, int32_t *at)
{
    int32_t n = 0;
    for (int32_t k = 0; k < site->node.n_in; k++) {
        bool selected = tangents ? !sg_is_none(site->gin[k]) : site->need[k];
        for (int32_t i = 0; i < n && selected; i++)
            selected = x[i].id != site->in[k].id;
        if (selected) {
            x[n] = site->in[k];
            at[n++] = k;
        }
    }
    return n;
}

/* vjp of an expression y(in) in its own arguments. */
static void decomposed_vjp(const sg_rule_site *site, sg_graph *graph)
{
    int32_t n_in = site->node.n_in, n_y = 0;
    sg_value *y = decompose(site, graph);
    sg_value *seed = sg_calloc(site->node.n_out, sizeof *seed);
    sg_value *x = sg_calloc(2 * (int64_t)n_in, sizeof *x);
    int32_t *at = sg_calloc(n_in, sizeof *at);
    if (y && seed && x && at) {
        sg_value *grad = x + n_in;
        for (int32_t j = 0; j < site->node.n_out; j++) {
            if (sg_is_none(site->gout[j]) || sg_is_none(y[j]))
                continue;
            seed[n_y] = site->gout[j];
            y[n_y++] = y[j];
        }
        int32_t n_x = distinct_inputs(site, false, x, at);
        sg_sweep_reverse(y, seed, n_y, x, n_x, grad, true);
        for (int32_t i = 0; i < n_x; i++)
            site->gin[at[i]] = grad[i];
    }
    sg_free(y);
    sg_free(seed);
    sg_free(x);
    sg_free(at);
}

static void decomposed_jvp(const sg_rule_site *site, sg_graph *graph)
{
    int32_t n_in = site->node.n_in;
    sg_value *y = decompose(site, graph);
    sg_value *x = sg_calloc(2 * (int64_t)n_in, sizeof *x);
    int32_t *at = sg_calloc(n_in, sizeof *at);
    bool complete = y != NULL;
    for (int32_t j = 0; complete && j < site->node.n_out; j++)
        complete = !sg_is_none(y[j]);
    if (complete && x && at) {
        sg_value *dx = x + n_in;
        int32_t n_x = distinct_inputs(site, true, x, at);
        for (int32_t i = 0; i < n_x; i++)
            dx[i] = site->gin[at[i]];
        sg_sweep_forward(y, site->node.n_out, x, dx, n_x, site->gout, true);
    }
    sg_free(y);
    sg_free(x);
    sg_free(at);
}

/* ---------------------------------------------------------------------------------------------------- reverse rule */

static void missing(const sg_rule_site *site, sg_graph *graph)
{
    if (sg_is_loop(&site->node))
        sg_graph_fail(graph, SG_E_UNSUPPORTED, site->out[0],
                      "derivatives stop at sg_repeat; pass unroll = true to differentiate through '%s'",
                      site->node.name);
    else
        sg_graph_fail(graph, SG_E_UNSUPPORTED, site->out[0], "operator '%s' of node '%s' has no derivative rule",
                      site->node.op->name, site->node.name);
}

static void call_vjp(const sg_rule_site *site, sg_graph *graph, const sg_value *gout)
{
    sg_vjp_args args = {graph, &site->node, site->in, site->out, gout, site->need, site->gin};
    site->node.op->vjp(&args);
}

void sg_site_vjp(const sg_rule_site *site, sg_graph *graph)
{
    if (sg_is_checkpoint(&site->node))
        sg_checkpoint_vjp(site, graph);
    else if (site->node.op->vjp)
        call_vjp(site, graph, site->gout);
    else if (site->node.op->vjp_op)
        sg_derived_vjp(site, graph);
    else if (sg_derived_is_symmetric(site->node.op))
        sg_derived_symmetric_vjp(site, graph);
    else if (site->node.op->decompose)
        decomposed_vjp(site, graph);
    else
        missing(site, graph);
}

/* ---------------------------------------------------------------------------------------------------- forward rules */

static sg_value add_or(sg_value sum, sg_value term)
{
    return sg_is_none(sum) ? term : sg_is_none(term) ? sum : sg_add(sum, term);
}

/* out_j[i] = f_j(in_0[i], in_1[i], ...) after broadcasting, so the Jacobian with respect to one input is diagonal and
 * equals its own transpose: the reverse rule for input k alone, fed the tangent of k in place of the cotangent of
 * out_j, gives d f_j / d in_k times the tangent. One call for each pair keeps the terms apart. */
static void elementwise_jvp(const sg_rule_site *site, sg_graph *graph, const sg_value *tangent, sg_value *cotangent)
{
    for (int32_t j = 0; j < site->node.n_out; j++) {
        sg_value sum = SG_NONE;
        for (int32_t k = 0; k < site->node.n_in; k++) {
            if (sg_is_none(tangent[k]))
                continue;
            cotangent[j] = sg_fit_tangent(tangent[k], site->out[j]);
            site->need[k] = true;
            site->gin[k] = SG_NONE;
            call_vjp(site, graph, cotangent);
            site->need[k] = false;
            sum = add_or(sum, site->gin[k]);
        }
        cotangent[j] = SG_NONE;
        site->gout[j] = sum;
    }
}

/* An op that is linear in input k, the others fixed, moves by the op itself with the tangent in that place. */
static void linear_jvp(const sg_rule_site *site, sg_graph *graph, const sg_value *tangent, sg_value *in)
{
    for (int32_t k = 0; k < site->node.n_in; k++) {
        if (sg_is_none(tangent[k]))
            continue;
        memcpy(in, site->in, (size_t)site->node.n_in * sizeof *in);
        in[k] = tangent[k];
        sg_value term = sg_build(graph, site->node.op, in, site->node.n_in, site->node.attr);
        for (int32_t j = 0; j < site->node.n_out; j++)
            site->gout[j] = add_or(site->gout[j], site->node.n_out == 1 ? term : sg_output_of(term, j));
    }
}

/* Any number: reverse rules are linear in the cotangent, so the derivative with respect to it does not depend on its
 * value, and the placeholder disappears from the result. An unusual one, so that the fill is not shared with one of
 * the rule's own. */
#define PLACEHOLDER 0x1.5bf0a8b1457p-37

/* For one output, let r(g) = J' g be the reverse rule. Since r is linear in g, its own reverse rule is g -> J g
 * whatever the point it is taken at: the transpose of the transpose of the Jacobian. */
static sg_value transposed_jvp(const sg_rule_site *site, sg_graph *graph, const sg_value *tangent, sg_value *work,
                               int32_t j)
{
    int32_t n_in = site->node.n_in, n_y = 0;
    sg_value *cotangent = work, *y = work + site->node.n_out, *seed = y + n_in;
    for (int32_t k = 0; k < n_in; k++) {
        site->need[k] = !sg_is_none(tangent[k]);
        site->gin[k] = SG_NONE;
    }
    for (int32_t i = 0; i < site->node.n_out; i++)
        cotangent[i] = SG_NONE;
    cotangent[j] = sg_fill_like(site->out[j], PLACEHOLDER);
    call_vjp(site, graph, cotangent);
    for (int32_t k = 0; k < n_in; k++) {
        sg_value r = site->need[k] ? sg_fit_cotangent(site->gin[k], site->in[k]) : SG_NONE;
        if (sg_is_none(r))
            continue;
        y[n_y] = r;
        seed[n_y++] = tangent[k];
    }
    sg_value t = SG_NONE;
    sg_sweep_reverse(y, seed, n_y, &cotangent[j], 1, &t, true);
    return t;
}

static void transpose_jvp(const sg_rule_site *site, sg_graph *graph, const sg_value *tangent, sg_value *work)
{
    for (int32_t j = 0; j < site->node.n_out; j++)
        if (sg_dtype_is_real(sg_dtype_of(site->out[j])))
            site->gout[j] = transposed_jvp(site, graph, tangent, work, j);
}

/* Are all moving inputs among those that the op is linear in? */
static bool moves_linearly(const sg_rule_site *site)
{
    for (int32_t k = 0; k < site->node.n_in; k++)
        if (!sg_is_none(site->gin[k]) && !(k < 32 && site->node.op->linear >> k & 1))
            return false;
    return true;
}

static void derived_jvp(const sg_rule_site *site, sg_graph *graph)
{
    int64_t n_in = site->node.n_in, n_out = site->node.n_out;
    sg_value *tangent = sg_calloc(3 * n_in + n_out, sizeof *tangent);
    if (!tangent) {
        sg_graph_fail(graph, SG_E_MEMORY, site->out[0], "out of memory in a forward rule");
        return;
    }
    sg_value *work = tangent + n_in;
    memcpy(tangent, site->gin, (size_t)n_in * sizeof *tangent);
    for (int64_t i = 0; i < 2 * n_in + n_out; i++)
        work[i] = SG_NONE;
    if (site->node.op->vjp && site->node.op->flags & SG_OP_ELEMENTWISE)
        elementwise_jvp(site, graph, tangent, work);
    else if (moves_linearly(site))
        linear_jvp(site, graph, tangent, work);
    else if (site->node.op->vjp)
        transpose_jvp(site, graph, tangent, work);
    else
        missing(site, graph);
    sg_free(tangent);
}

void sg_site_jvp(const sg_rule_site *site, sg_graph *graph)
{
    const sg_op *op = site->node.op;
    if (op->jvp)
        op->jvp(&(sg_jvp_args){graph, &site->node, site->in, site->out, site->gin, site->gout});
    else if (op->jvp_op)
        sg_derived_jvp(site, graph);
    else if (op->decompose && !(op->vjp && op->flags & SG_OP_ELEMENTWISE))
        decomposed_jvp(site, graph);
    else
        derived_jvp(site, graph);
}
