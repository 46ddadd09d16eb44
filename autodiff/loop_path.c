/* loop_path.c - does a derivative pass through a loop at all? Decided by looking into the body, so that a loop which
 * only uses a value behind stop_gradient (candidates drawn from a network that is held constant) is not connected to
 * it. */
#include "autodiff/path_internal.h"

#include <string.h>

#include "autodiff/rules_internal.h"
#include "ops/repeat_internal.h"

/* Dependence of a node's outputs on marked values of its graph; false if out of memory. */
static bool spread_node(sg_graph *graph, const sg_node *node, bool *depends)
{
    bool any = false;
    for (int32_t k = 0; k < node->n_in && !any; k++)
        any = depends[node->in[k]] && !(k < 32 && (node->op->shape_only >> k & 1));
    if (!any || sg_path_blocks(node))
        return true;
    if (sg_is_loop(node)) {
        bool *in = sg_calloc(node->n_in + 1, sizeof *in), *out = sg_calloc(node->n_out + 1, sizeof *out);
        bool good = in && out;
        for (int32_t k = 0; good && k < node->n_in; k++)
            in[k] = depends[node->in[k]];
        good = good && sg_loop_depends(node, in, out);
        for (int32_t k = 0; good && k < node->n_out; k++)
            depends[node->out + k] = out[k];
        sg_free(in);
        sg_free(out);
        return good;
    }
    for (int32_t k = 0; k < node->n_out; k++)
        if (sg_dtype_is_real(sg_dtype_of(sg_value_at(graph, node->out + k))))
            depends[node->out + k] = true;
    return true;
}

static bool spread(sg_graph *body, bool *depends)
{
    for (int32_t n = 0; n < sg_node_count(body); n++)
        if (!spread_node(body, sg_node_at(body, n), depends))
            return false;
    return true;
}

/* States carry dependence from one iteration to the next: at most one more state is reached each time round. */
static bool settle(const sg_node *node, sg_graph *body, bool *depends)
{
    for (bool changed = true; changed;) {
        changed = false;
        if (!spread(body, depends))
            return false;
        for (int32_t k = 0; k < node->n_out; k++) {
            int32_t inner = sg_repeat_inner(node, k).id;
            if (depends[sg_repeat_next(node, k).id] && !depends[inner])
                changed = depends[inner] = true;
        }
    }
    return true;
}

bool sg_loop_depends(const sg_node *node, const bool *in, bool *out)
{
    sg_graph *body = sg_repeat_body(node);
    bool *depends = sg_calloc(sg_value_count(body) + 1, sizeof *depends);
    if (!depends)
        return false;
    for (int32_t k = 0; k < node->n_in; k++) {
        sg_value inner, outer;
        sg_body_input_at(body, k, &inner, &outer);
        depends[inner.id] = in[k] && sg_dtype_is_real(sg_dtype_of(inner));
    }
    bool good = settle(node, body, depends);
    for (int32_t k = 0; good && k < node->n_out; k++)
        out[k] = depends[sg_repeat_inner(node, k).id];
    sg_free(depends);
    return good;
}
