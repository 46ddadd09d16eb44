/* precision.c - mixed precision: a copy of the graph with casts, made after differentiation and before anything is decomposed
 * or fused. What runs in bf16 is said by the operators' flags; models contain no casts.
 *
 * The image of a value always has the type that the value was declared with. Where an operator gives bf16, its image is a cast
 * back: who wants f32 reads that, and who wants bf16 looks through it, so that pairs of casts do not arise. Results, effects
 * and loop states need no care then. A cast that nobody reads is not computed, and equal casts are one node: a weight is
 * rounded once a step, however many products read it.
 *
 * An operator that follows is in bf16 if an operand is, and if not all who read its result want f32: the arithmetic between
 * gradients and the store, such as the clipping by a norm or an optimiser written out, is in f32. Constants, and f32 values
 * beside a bf16 one (a bias, a dropout mask), do not decide. What only moves its operand gives bf16 wherever it reads it, and so
 * do sums: they add in f32, and round once. */
#include "runtime/precision_internal.h"

#include <string.h>

#include "ops/ops.h"
#include "ops/precision_internal.h"
#include "ops/repeat_internal.h"
#include "runtime/leaf_internal.h"
#include "runtime/plan_internal.h"

#define SG_OP(name) extern const sg_op sg_op_##name;
#include "ops/op_list.h"
#undef SG_OP

/* Of one graph: does a reader of value v want it in low precision? */
typedef struct reading {
    struct reading *next;
    sg_graph *graph;
    bool *low;
} reading;

typedef struct precision {
    sg_dtype low;
    reading *readings; /* of the graphs met so far */
} precision;

/* ---- what readers want */

static reading *reading_of(precision *p, sg_graph *graph);

static bool any_low(const reading *r, const sg_node *node)
{
    for (int32_t j = 0; j < node->n_out; j++)
        if (r->low[node->out + j])
            return true;
    return false;
}

/* What iterations do not change is wanted as the body wants it. */
static bool read_by_loop(precision *p, reading *r, const sg_node *node)
{
    sg_graph *body = sg_repeat_body(node);
    const reading *inside = reading_of(p, body);
    for (int32_t j = 0; inside && j < sg_body_input_count(body); j++) {
        sg_value inner, outer;
        sg_body_input_at(body, j, &inner, &outer);
        if (sg_body_input_captured(body, j) && inside->low[inner.id])
            r->low[node->in[j]] = true;
    }
    return inside;
}

static bool read_by_node(precision *p, reading *r, const sg_node *node)
{
    uint32_t class = sg_op_precision(node->op);
    if (node->op == &sg_op_repeat)
        return read_by_loop(p, r, node);
    if (class != SG_OP_LOW && (class != SG_OP_FOLLOWS || !any_low(r, node)))
        return true;
    /* The results of these are their first operands; the others are read to no end. */
    int32_t n = node->op == &sg_op_barrier ? 1 : node->op == &sg_op_checkpoint ? node->n_out : node->n_in;
    for (int32_t k = 0; k < n; k++)
        if (!sg_reads_shape_only(node, k) && sg_dtype_is_real(sg_dtype_of(sg_value_at(r->graph, node->in[k]))))
            r->low[node->in[k]] = true;
    return true;
}

/* Readers stand after what they read, so one walk from the end is enough. */
static bool find_readings(precision *p, reading *r)
{
    int32_t n = sg_node_count(r->graph), n_roots = sg_root_count(r->graph);
    int32_t *root = sg_calloc(n_roots + 1, sizeof *root);
    bool *live = sg_calloc(n + 1, sizeof *live), good = root && live;
    if (good) {
        sg_roots(r->graph, root);
        sg_graph_reach(r->graph, root, n_roots, false, live);
    }
    for (int32_t i = n - 1; good && i >= 0; i--)
        if (live[i])
            good = read_by_node(p, r, sg_node_at(r->graph, i));
    sg_free(root);
    sg_free(live);
    return good;
}

static reading *reading_of(precision *p, sg_graph *graph)
{
    for (reading *r = p->readings; r; r = r->next)
        if (r->graph == graph)
            return r;
    reading *made = sg_calloc(1, sizeof *made);
    if (!made)
        return NULL;
    *made = (reading){p->readings, graph, sg_calloc(sg_value_count(graph) + 1, sizeof(bool))};
    p->readings = made;
    return made->low && find_readings(p, made) ? made : NULL;
}

/* ---- casts */

/* The value in low precision that `v` is a cast of; SG_NONE if there is none. In a loop the cast may stand outside: then what
 * it is a cast of is captured. */
static sg_value lowered_before(const precision *p, sg_value v)
{
    const sg_node *node = sg_node_of(v);
    sg_graph *graph = v.graph;
    if (node->op == &sg_op_cast) {
        sg_value x = sg_value_at(graph, node->in[0]);
        return sg_dtype_of(v) == SG_F32 && sg_dtype_of(x) == p->low ? x : SG_NONE;
    }
    for (int32_t j = 0; node->op == &sg_op_capture && j < sg_body_input_count(graph); j++) {
        sg_value inner, outer;
        sg_body_input_at(graph, j, &inner, &outer);
        if (inner.id != v.id || !sg_body_input_captured(graph, j))
            continue;
        sg_value x = lowered_before(p, outer);
        return sg_is_none(x) ? SG_NONE : sg_capture(graph, x);
    }
    return SG_NONE;
}

/* Numbers are not rounded: a kernel computes with them in f32. */
static sg_value low_constant(const precision *p, sg_value v)
{
    const sg_attr *data = &sg_node_of(v)->attr[0];
    return sg_constant(v.graph, p->low, *sg_shape_of(v), data->reals, data->count);
}

static sg_value lowered(const precision *p, sg_value v)
{
    if (sg_is_none(v) || sg_dtype_of(v) != SG_F32)
        return v;
    sg_value before = lowered_before(p, v);
    if (!sg_is_none(before))
        return before;
    const sg_node *node = sg_node_of(v);
    if (node->op == &sg_op_constant)
        return low_constant(p, v);
    return sg_cast(node->op == &sg_op_cast ? sg_value_at(v.graph, node->in[0]) : v, p->low);
}

/* ---- nodes */

/* The node with these operands, its results cast to the types they were declared with. */
static void build(sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    sg_value first = sg_build(to, node->op, in, node->n_in, node->attr);
    if (!sg_is_none(first) && sg_node_is_named(node))
        sg_named(first, node->name);
    for (int32_t j = 0; j < node->n_out && !sg_is_none(first); j++)
        out[j] = sg_cast(sg_output_of(first, j), sg_dtype_of(sg_value_at(from, node->out + j)));
}

static bool decide_low(const precision *p, sg_graph *to, const sg_node *node, const sg_value *in, sg_value *own)
{
    sg_shape *shape = sg_calloc(node->n_in + 1, sizeof *shape);
    sg_dtype *dtype = sg_calloc(node->n_in + 1, sizeof *dtype);
    bool good = shape && dtype;
    for (int32_t k = 0; good && k < node->n_in; k++) {
        shape[k] = *sg_shape_of(in[k]);
        dtype[k] = sg_dtype_of(in[k]);
    }
    if (!good)
        sg_graph_fail(to, SG_E_MEMORY, SG_NONE, "out of memory while compiling");
    good = good && sg_low_dtypes(node->op, node->attr, node->n_in, shape, dtype, p->low);
    for (int32_t k = 0; good && k < node->n_in; k++)
        own[k] = dtype[k] == p->low ? lowered(p, in[k]) : in[k];
    sg_free(shape);
    sg_free(dtype);
    return good;
}

static bool decide_following(precision *p, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *own)
{
    const reading *r = reading_of(p, from);
    int32_t n = node->op == &sg_op_barrier ? 1 : node->n_in, reals = 0, low = 0;
    for (int32_t k = 0; k < n; k++) {
        if (sg_reads_shape_only(node, k))
            continue;
        reals += sg_dtype_is_real(sg_dtype_of(in[k]));
        low += !sg_is_none(lowered_before(p, in[k]));
    }
    bool moves = reals == 1 && !(node->op->flags & SG_OP_ELEMENTWISE);
    if (!r || !low || !(moves || any_low(r, node)))
        return false;
    for (int32_t k = 0; k < node->n_in; k++) {
        own[k] = k < n && !sg_reads_shape_only(node, k) ? lowered(p, in[k]) : lowered_before(p, in[k]);
        own[k] = sg_is_none(own[k]) ? in[k] : own[k];
    }
    return true;
}

static bool rewrite(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    precision *p = user;
    uint32_t class = sg_op_precision(node->op);
    if (node->op == &sg_op_checkpoint) { /* its marks have served */
        node->op->decompose(&(sg_decompose_args){.graph = to, .node = node, .in = in, .out = out});
        return true;
    }
    if (node->op == &sg_op_cast || (class != SG_OP_LOW && class != SG_OP_FOLLOWS))
        return false;
    sg_value *own = sg_calloc(node->n_in + 1, sizeof *own);
    if (!own) {
        sg_graph_fail(to, SG_E_MEMORY, SG_NONE, "out of memory while compiling");
        return true;
    }
    bool low = class == SG_OP_LOW ? decide_low(p, to, node, in, own) : decide_following(p, from, node, in, own);
    if (low)
        build(to, from, node, own, out);
    sg_free(own);
    return low;
}

sg_status sg_precision_pass(sg_graph *from, sg_dtype low, sg_graph **out, sg_error *err)
{
    precision p = {.low = low};
    sg_graph *to = sg_graph_new();
    bool room = to && reading_of(&p, from);
    sg_status status = room ? sg_graph_rewrite(from, to, rewrite, &p, NULL, err)
                            : sg_fail(err, SG_E_MEMORY, "out of memory while compiling");
    while (p.readings) {
        reading *r = p.readings;
        p.readings = r->next;
        sg_free(r->low);
        sg_free(r);
    }
    if (status != SG_OK && to) {
        sg_graph_free(to);
        to = NULL;
    }
    *out = to;
    return status;
}
