/* hoist.c - loop-invariant code motion: what every iteration of a loop would compute alike is computed once, before it.
 *
 * A node of a body is invariant if it is no draw and reads only inputs that no iteration changes. It is rebuilt in the
 * enclosing graph and captured. Nodes that merely spread small values over a larger shape stay: they cost nothing inside a
 * fused chain, and their results would have to be kept in memory over the whole loop. Nested loops are left one level a
 * round. */
#include "ops/repeat_internal.h"
#include "runtime/plan_internal.h"

typedef struct hoisting {
    int32_t moved;
} hoisting;

/* The value outside the loop that body value `v` equals in every iteration, or SG_NONE. The copy has the inputs of the
 * original in the same places, and after them what was hoisted. */
static sg_value outside(const sg_node *loop, sg_graph *to, sg_value v)
{
    const sg_node *made = sg_node_of(v);
    if (made->op == &sg_op_constant)
        return sg_constant(sg_body_parent(to), sg_dtype_of(v), *sg_shape_of(v), made->attr[0].reals,
                           made->attr[0].count);
    for (int32_t k = 0; k < sg_body_input_count(to); k++) {
        sg_value inner, outer;
        sg_body_input_at(to, k, &inner, &outer);
        if (sg_same(inner, v))
            return k < loop->n_in && sg_repeat_input_output(loop, k) >= 0 ? SG_NONE : outer;
    }
    return SG_NONE;
}

static bool worth_moving(sg_graph *from, const sg_node *node)
{
    if ((node->op->flags & (SG_OP_RANDOM | SG_OP_LEAF)) || node->n_in == 0)
        return false;
    for (int32_t i = 0; i < node->op->n_attrs; i++)
        if (node->attr[i].kind == SG_ATTR_GRAPH)
            return false;
    int64_t widest = 0, result = 0;
    for (int32_t k = 0; k < node->n_in; k++) {
        int64_t count = sg_shape_count(sg_shape_of(sg_value_at(from, node->in[k])));
        bool read = k >= 32 || !(node->op->shape_only >> k & 1);
        widest = read && count > widest ? count : widest;
    }
    for (int32_t k = 0; k < node->n_out; k++)
        result += sg_shape_count(sg_shape_of(sg_value_at(from, node->out + k)));
    return result <= widest;
}

static bool hoist(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    enum { INPUTS = 16 };
    hoisting *h = user;
    const sg_node *loop = worth_moving(from, node) && node->n_in <= INPUTS ? sg_repeat_of(from) : NULL;
    if (!loop)
        return false;
    sg_value outer[INPUTS];
    for (int32_t k = 0; k < node->n_in; k++)
        if (sg_is_none(outer[k] = outside(loop, to, in[k])))
            return false;
    sg_value moved = sg_build(sg_body_parent(to), node->op, outer, node->n_in, node->attr);
    for (int32_t k = 0; k < node->n_out; k++)
        out[k] = sg_capture(to, sg_output_of(moved, k));
    h->moved++;
    return true;
}

sg_status sg_hoist(sg_graph *from, sg_graph **out, sg_error *err)
{
    sg_graph *now = from;
    for (hoisting h = {1}; h.moved > 0;) {
        h.moved = 0;
        sg_graph *next = sg_graph_new();
        sg_status status = next ? sg_graph_rewrite(now, next, hoist, &h, NULL, err)
                                : sg_fail(err, SG_E_MEMORY, "out of memory while compiling");
        if (now != from)
            sg_graph_free(now);
        if (status != SG_OK) {
            sg_graph_free(next);
            return status;
        }
        now = next;
    }
    *out = now;
    return SG_OK;
}
