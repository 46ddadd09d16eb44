/* derivative.c - derivative composites: shape rule, mechanical decomposition, builders. Their layout is told in
 * derivative_internal.h. */
#include "ops/derivative_internal.h"

#include <stdatomic.h>

static _Atomic(const sg_sweeps *) current_sweeps;

void sg_set_sweeps(const sg_sweeps *sweeps) { atomic_store(&current_sweeps, sweeps); }

/* ------------------------------------------------------------------------------------------------------ the layout */

bool sg_is_vjp(const sg_op *op) { return op->parent && op->parent->vjp_op == op; }
bool sg_is_jvp(const sg_op *op) { return op->parent && op->parent->jvp_op == op; }

static const sg_attr *own_attrs(const sg_op *op, const sg_attr *attr) { return attr + op->parent->n_attrs; }

/* A reverse derivative has as many outputs as `wrt` has entries, a forward one as many as its parent; an operator that
 * is no derivative fixes their number. */
static int32_t output_count(const sg_op *op, const sg_attr *attr)
{
    while (sg_is_jvp(op))
        op = op->parent;
    return sg_is_vjp(op) ? (int32_t)own_attrs(op, attr)[0].count : op->n_out;
}

static int32_t bit_count(uint32_t bits)
{
    int32_t n = 0;
    for (; bits; bits &= bits - 1)
        n++;
    return n;
}

sg_derivative_parts sg_derivative_split(const sg_op *op, const sg_attr *attr, int32_t n_in)
{
    const sg_attr *own = own_attrs(op, attr), *with = sg_is_vjp(op) ? &own[1] : &own[0];
    sg_derivative_parts p = {.n_hints = bit_count(op->hints),
                             .n_with = (int32_t)with->count,
                             .n_out = output_count(op->parent, attr),
                             .with = with->ints};
    p.n_x = n_in - p.n_hints - p.n_with;
    if (sg_is_vjp(op)) {
        p.wrt = own[0].ints;
        p.n_wrt = (int32_t)own[0].count;
    }
    return p;
}

sg_derivative_parts sg_derivative_nested(const sg_op *op, const sg_attr *attr, int32_t n_in, sg_derivative_parts *outer)
{
    *outer = op->parent ? sg_derivative_split(op, attr, n_in) : (sg_derivative_parts){.n_x = n_in};
    return op->parent && op->parent->parent ? sg_derivative_split(op->parent, attr, outer->n_x) : *outer;
}

static int32_t place_of(const int64_t *list, int32_t n, int32_t value)
{
    for (int32_t i = 0; i < n; i++)
        if (list[i] == value)
            return i;
    return -1;
}

int32_t sg_derivative_hint(const sg_op *op, const sg_derivative_parts *parts, int32_t j)
{
    return op->hints >> j & 1 ? parts->n_x + bit_count(op->hints & ((1u << j) - 1)) : -1;
}

int32_t sg_derivative_with(const sg_derivative_parts *parts, int32_t j)
{
    int32_t at = place_of(parts->with, parts->n_with, j);
    return at < 0 ? -1 : parts->n_x + parts->n_hints + at;
}

int32_t sg_derivative_wrt(const sg_derivative_parts *parts, int32_t k) { return place_of(parts->wrt, parts->n_wrt, k); }

/* ------------------------------------------------------------------------------------------------------ shape rule */

static sg_status check_list(const sg_infer_args *args, const char *what, const int64_t *list, int32_t n, int32_t limit)
{
    for (int32_t i = 0; i < n; i++)
        if (list[i] < (i ? list[i - 1] + 1 : 0) || list[i] >= limit)
            return sg_infer_fail(args, SG_E_ARGUMENT, "'%s' must be ascending numbers below %d", what, (int)limit);
    return SG_OK;
}

static sg_status check_like(const sg_infer_args *args, int32_t input, const sg_shape *shape, sg_dtype dtype)
{
    char have[SG_SHAPE_TEXT], want[SG_SHAPE_TEXT];
    if (args->in_dtype[input] == dtype && sg_shape_equal(&args->in_shape[input], shape))
        return SG_OK;
    return sg_infer_fail(args, SG_E_SHAPE, "input %d must be %s %s, like what it is the derivative of, got %s %s",
                         (int)input, sg_dtype_name(dtype), sg_shape_format(shape, want, sizeof want),
                         sg_dtype_name(args->in_dtype[input]),
                         sg_shape_format(&args->in_shape[input], have, sizeof have));
}

/* Cotangents look like the outputs they belong to, results like the inputs. */
static sg_status infer_reverse(sg_infer_args *args, const sg_derivative_parts *p, const sg_shape *y,
                               const sg_dtype *dtype)
{
    SG_TRY(check_list(args, "seeded", p->with, p->n_with, p->n_out));
    SG_TRY(check_list(args, "wrt", p->wrt, p->n_wrt, p->n_x));
    for (int32_t i = 0; i < p->n_with; i++)
        SG_TRY(check_like(args, p->n_x + p->n_hints + i, &y[p->with[i]], dtype[p->with[i]]));
    for (int32_t i = 0; i < p->n_wrt; i++) {
        SG_TRY(sg_require_real(args, (int32_t)p->wrt[i]));
        args->out_shape[i] = args->in_shape[p->wrt[i]];
        args->out_dtype[i] = args->in_dtype[p->wrt[i]];
    }
    args->n_out = p->n_wrt;
    return SG_OK;
}

static sg_status infer_forward(sg_infer_args *args, const sg_derivative_parts *p, const sg_shape *y,
                               const sg_dtype *dtype)
{
    SG_TRY(check_list(args, "moving", p->with, p->n_with, p->n_x));
    for (int32_t i = 0; i < p->n_with; i++) {
        SG_TRY(sg_require_real(args, (int32_t)p->with[i]));
        SG_TRY(check_like(args, p->n_x + p->n_hints + i, &args->in_shape[p->with[i]], args->in_dtype[p->with[i]]));
    }
    for (int32_t j = 0; j < p->n_out; j++) {
        args->out_shape[j] = y[j];
        args->out_dtype[j] = dtype[j];
    }
    args->n_out = p->n_out;
    return SG_OK;
}

/* The parent's rule tells the shapes of its outputs; hints must have them. */
static sg_status infer_parent(const sg_infer_args *args, const sg_derivative_parts *p, sg_shape *y, sg_dtype *dtype)
{
    sg_infer_args inner = {.op = args->op->parent,
                           .attr = args->attr,
                           .n_in = p->n_x,
                           .in_shape = args->in_shape,
                           .in_dtype = args->in_dtype,
                           .n_out = p->n_out,
                           .out_shape = y,
                           .out_dtype = dtype,
                           .err = args->err};
    SG_TRY(inner.op->infer(&inner));
    for (int32_t j = 0, at = p->n_x; j < p->n_out; j++)
        if (j < 32 && args->op->hints >> j & 1)
            SG_TRY(check_like(args, at++, &y[j], dtype[j]));
    return SG_OK;
}

sg_status sg_derivative_infer(const sg_infer_args *args)
{
    sg_derivative_parts p = sg_derivative_split(args->op, args->attr, args->n_in);
    if (p.n_x < 0 || (args->op->parent->n_in >= 0 && p.n_x != args->op->parent->n_in) || p.n_out > SG_MAX_OUTPUTS)
        return sg_infer_fail(args, SG_E_ARGUMENT, "%d inputs do not fit 'seeded', 'wrt' and 'moving'", args->n_in);
    sg_shape *y = sg_calloc(p.n_out + 1, sizeof *y);
    sg_dtype *dtype = sg_calloc(p.n_out + 1, sizeof *dtype);
    sg_status status = y && dtype ? infer_parent(args, &p, y, dtype) : SG_E_MEMORY;
    if (!y || !dtype)
        sg_infer_fail(args, SG_E_MEMORY, "out of memory");
    else if (status == SG_OK)
        status = (sg_is_vjp(args->op) ? infer_reverse : infer_forward)((sg_infer_args *)args, &p, y, dtype);
    sg_free(y);
    sg_free(dtype);
    return status;
}

sg_cost sg_derivative_cost(const sg_cost_args *args, double flops)
{
    double bytes = 0;
    for (int32_t k = 0; k < args->n_in; k++)
        bytes += (double)sg_shape_count(&args->in_shape[k]) * (double)sg_dtype_size(args->in_dtype[k]);
    for (int32_t k = 0; k < args->n_out; k++)
        bytes += (double)sg_shape_count(&args->out_shape[k]) * (double)sg_dtype_size(args->out_dtype[k]);
    return (sg_cost){flops * (double)sg_shape_count(&args->in_shape[0]), bytes};
}

/* --------------------------------------------------------------------------------------- mechanical decomposition
 *
 * The parent's decomposition is built and differentiated in a graph of its own, whose inputs stand for the inputs of
 * the node one by one, and then copied into the graph. In place, one value given for two inputs (attention of x with
 * itself) would be one variable, and a tangent meant for one of them would move both. */
typedef struct workshop {
    sg_graph *graph;
    sg_value *in; /* stand-ins of the node's inputs */
    sg_value *y;  /* the parent's outputs */
    sg_value *x;  /* variables of the sweep */
    sg_value *to; /* what the sweep gives */
} workshop;

static bool open_workshop(workshop *w, const sg_decompose_args *args, const sg_derivative_parts *p)
{
    int32_t n = args->node->n_in + p->n_out + p->n_wrt + 1;
    *w = (workshop){.graph = sg_graph_new(), .in = sg_calloc(4 * (int64_t)n, sizeof *w->in)};
    if (!w->graph || !w->in)
        return false;
    w->y = w->in + n;
    w->x = w->y + n;
    w->to = w->x + n;
    for (int32_t k = 0; k < 4 * n; k++)
        w->in[k] = SG_NONE;
    for (int32_t k = 0; k < args->node->n_in; k++) {
        char name[32];
        snprintf(name, sizeof name, "in%d", (int)k);
        w->in[k] = sg_input(w->graph, name, sg_dtype_of(args->in[k]), *sg_shape_of(args->in[k]));
    }
    sg_here(args->node->file, args->node->line);
    return true;
}

static void decompose_parent(const workshop *w, const sg_decompose_args *args, const sg_derivative_parts *p)
{
    sg_node parent = *args->node;
    parent.op = args->node->op->parent;
    parent.n_in = p->n_x;
    parent.n_out = p->n_out;
    parent.op->decompose(&(sg_decompose_args){w->graph, &parent, w->in, w->y});
}

static void sweep_back(workshop *w, const sg_sweeps *sweeps, const sg_derivative_parts *p)
{
    const sg_value *seed = w->in + p->n_x + p->n_hints;
    for (int32_t i = 0; i < p->n_with; i++)
        w->y[i] = w->y[p->with[i]]; /* ascending: never overtakes what is still to be read */
    for (int32_t i = 0; i < p->n_wrt; i++)
        w->x[i] = w->in[p->wrt[i]];
    sweeps->reverse(w->y, seed, p->n_with, w->x, p->n_wrt, w->to, true);
    for (int32_t i = 0; i < p->n_wrt; i++)
        w->to[i] = sg_is_none(w->to[i]) ? sg_zeros_like(w->x[i]) : w->to[i];
}

static void sweep_forth(workshop *w, const sg_sweeps *sweeps, const sg_derivative_parts *p)
{
    for (int32_t i = 0; i < p->n_with; i++)
        w->x[i] = w->in[p->with[i]];
    sweeps->forward(w->y, p->n_out, w->x, w->in + p->n_x + p->n_hints, p->n_with, w->to, true);
    for (int32_t j = 0; j < p->n_out; j++)
        w->to[j] = sg_is_none(w->to[j]) ? sg_zeros_like(w->y[j]) : w->to[j];
}

/* Copy the results into the node's graph, the stand-ins replaced by what they stood for. */
static void deliver(const workshop *w, const sg_decompose_args *args)
{
    sg_error err;
    int32_t n = sg_value_count(w->graph), n_out = args->node->n_out;
    for (int32_t j = 0; j < n_out; j++) {
        char name[32];
        snprintf(name, sizeof name, "out%d", (int)j);
        sg_result(w->graph, name, w->to[j]);
    }
    int32_t *map = sg_calloc(n + 1, sizeof *map);
    sg_status status = map ? sg_graph_status(w->graph, &err) : sg_fail(&err, SG_E_MEMORY, "out of memory");
    for (int32_t i = 0; map && i < n; i++)
        map[i] = -1;
    for (int32_t k = 0; map && k < args->node->n_in; k++)
        if (!sg_is_none(w->in[k]))
            map[w->in[k].id] = args->in[k].id;
    if (status == SG_OK)
        status = sg_graph_inline(w->graph, args->graph, map, &err);
    for (int32_t j = 0; status == SG_OK && j < n_out; j++)
        args->out[j] = sg_value_at(args->graph, map[w->to[j].id]);
    if (status != SG_OK)
        sg_graph_fail(args->graph, status, SG_NONE, "decomposing '%s': %s", args->node->name, err.text);
    sg_free(map);
}

void sg_derivative_decompose(const sg_decompose_args *args)
{
    const sg_op *op = args->node->op;
    const sg_sweeps *sweeps = atomic_load(&current_sweeps);
    sg_derivative_parts p = sg_derivative_split(op, args->node->attr, args->node->n_in);
    workshop w = {0};
    if (!sweeps) {
        sg_graph_fail(args->graph, SG_E_UNSUPPORTED, SG_NONE,
                      "'%s' (%s) is a derivative without a kernel here: call sg_autodiff_start() before compiling",
                      args->node->name, op->name);
        return;
    }
    if (open_workshop(&w, args, &p)) {
        if (sg_graph_status(w.graph, NULL) == SG_OK) /* else there are no inputs to build on */
            decompose_parent(&w, args, &p);
        if (sg_graph_status(w.graph, NULL) == SG_OK) /* else there are no outputs to sweep from */
            (sg_is_vjp(op) ? sweep_back : sweep_forth)(&w, sweeps, &p);
        deliver(&w, args);
    } else {
        sg_graph_fail(args->graph, SG_E_MEMORY, SG_NONE, "out of memory decomposing '%s'", args->node->name);
    }
    sg_free(w.in);
    if (w.graph)
        sg_graph_free(w.graph);
}

/* -------------------------------------------------------------------------------------------------------- building */

/* Build `op` on the node's inputs, the hints it wants and `extra`; its attributes are the node's and `own`. */
static void build(sg_graph *graph, const sg_op *op, const sg_node *node, const sg_value *x, const sg_value *y,
                  const sg_value *extra, int32_t n_extra, const sg_attr *own, int32_t n_out, sg_value *out)
{
    int32_t n_parent = op->parent->n_attrs, n = 0;
    sg_value *in = sg_calloc(node->n_in + bit_count(op->hints) + n_extra + 1, sizeof *in);
    sg_attr *attr = sg_calloc(op->n_attrs, sizeof *attr);
    sg_value first = SG_NONE;
    if (in && attr) {
        for (int32_t k = 0; k < node->n_in; k++)
            in[n++] = x[k];
        for (int32_t j = 0; j < node->n_out && j < 32; j++)
            if (op->hints >> j & 1)
                in[n++] = y[j];
        for (int32_t i = 0; i < n_extra; i++)
            in[n++] = extra[i];
        for (int32_t i = 0; i < op->n_attrs; i++)
            attr[i] = i < n_parent ? node->attr[i] : own[i - n_parent];
        first = sg_build(graph, op, in, n, attr);
    } else {
        sg_graph_fail(graph, SG_E_MEMORY, SG_NONE, "out of memory for the derivative of '%s'", node->name);
    }
    for (int32_t i = 0; i < n_out; i++)
        out[i] = sg_is_none(first) ? SG_NONE : sg_output_of(first, i);
    sg_free(in);
    sg_free(attr);
}

void sg_build_vjp(sg_graph *graph, const sg_node *node, const sg_value *x, const sg_value *y, const int64_t *wrt,
                  int32_t n_wrt, const int64_t *seeded, const sg_value *seed, int32_t n_seeded, sg_value *out)
{
    const sg_attr own[] = {sg_attr_ints(wrt, n_wrt), sg_attr_ints(seeded, n_seeded)};
    build(graph, node->op->vjp_op, node, x, y, seed, n_seeded, own, n_wrt, out);
}

void sg_build_jvp(sg_graph *graph, const sg_node *node, const sg_value *x, const sg_value *y, const int64_t *moving,
                  const sg_value *tangent, int32_t n_moving, sg_value *out)
{
    const sg_attr own[] = {sg_attr_ints(moving, n_moving)};
    build(graph, node->op->jvp_op, node, x, y, tangent, n_moving, own, node->n_out, out);
}
