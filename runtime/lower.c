/* lower.c - from the user's graph to nodes that the device has kernels for. */
#include <string.h>

#include "ops/ops.h"
#include "ops/repeat_internal.h"
#include "runtime/leaf_internal.h"
#include "runtime/plan_internal.h"

/* A decomposition may use composites again (an op stated by means of softmax), so lowering runs until nothing changes.
 * Decompositions do not recur, so the depth is that of the op set; the limit only guards against a wrong rule. */
enum { LOWER_ROUNDS = 16 };

typedef struct lowering {
    sg_session *session;
    int32_t replaced;
} lowering;

/* The node in f32, between casts. */
static void widen(sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    sg_value *wide = sg_calloc(node->n_in + 1, sizeof *wide);
    if (!wide) {
        sg_graph_fail(to, SG_E_MEMORY, SG_NONE, "out of memory while compiling");
        return;
    }
    for (int32_t k = 0; k < node->n_in; k++)
        wide[k] = sg_dtype_of(in[k]) == SG_BF16 ? sg_cast(in[k], SG_F32) : in[k];
    sg_value first = sg_build(to, node->op, wide, node->n_in, node->attr);
    for (int32_t j = 0; j < node->n_out && !sg_is_none(first); j++)
        out[j] = sg_cast(sg_output_of(first, j), sg_dtype_of(sg_value_at(from, node->out + j)));
    sg_free(wide);
}

/* A decomposition may answer in the type of its operands what the operator keeps in another (statistics). */
static void decompose(sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    node->op->decompose(&(sg_decompose_args){.graph = to, .node = node, .in = in, .out = out});
    for (int32_t j = 0; j < node->n_out; j++)
        out[j] = sg_cast(out[j], sg_dtype_of(sg_value_at(from, node->out + j)));
}

/* On another device the casts to and from bf16 would be as foreign as what they surround. */
static bool computes_bf16(const sg_session *s)
{
    return s->backend->computes && s->backend->computes(s->device, SG_BF16);
}

/* What the device lacks is decomposed, or runs in f32 if it only lacks bf16. */
static bool replace(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    lowering *l = user;
    bool yes, wide = false, has_bf16 = computes_bf16(l->session);
    if (node->op->flags & SG_OP_LEAF || sg_is_view(node) || node->op == &sg_op_repeat)
        return false;
    if (sg_spec_supported(l->session, from, node, false, &yes) != SG_OK ||
        (has_bf16 && sg_spec_supported(l->session, from, node, true, &wide) != SG_OK)) {
        sg_graph_fail(to, SG_E_MEMORY, SG_NONE, "out of memory while compiling");
        return true;
    }
    if (yes)
        return false;
    sg_here(node->file, node->line);
    if (wide)
        widen(to, from, node, in, out);
    else if (node->op->decompose)
        decompose(to, from, node, in, out);
    else
        return false;
    l->replaced++;
    return true;
}

static sg_status rewrite_once(lowering *l, sg_graph *from, sg_graph **out, sg_error *err)
{
    sg_graph *to = sg_graph_new();
    int32_t *map = sg_calloc(sg_value_count(from) + 1, sizeof *map);
    sg_status status = to && map ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory while compiling");
    if (status == SG_OK)
        status = sg_graph_rewrite(from, to, replace, l, map, err);
    sg_free(map);
    if (status != SG_OK) {
        sg_graph_free(to);
        to = NULL;
    }
    *out = to;
    return status;
}

sg_status sg_lower(sg_session *session, sg_graph *from, sg_graph **out, sg_error *err)
{
    sg_graph *now = from;
    *out = NULL;
    for (int32_t round = 0; round < LOWER_ROUNDS; round++) {
        lowering l = {session, 0};
        sg_graph *next;
        sg_status status = rewrite_once(&l, now, &next, err);
        if (now != from)
            sg_graph_free(now);
        SG_TRY(status);
        if (l.replaced == 0) {
            *out = next;
            return SG_OK;
        }
        now = next;
    }
    sg_graph_free(now);
    return sg_fail(err, SG_E_GRAPH, "operators decompose into each other without end");
}

/* ------------------------------------------------------------------------------------------- nodes without a kernel */

typedef struct missing {
    sg_session *session;
    int32_t count;
    char text[SG_ERROR_TEXT - 128];
} missing;

static void add_missing(missing *m, const sg_node *node)
{
    size_t at = strlen(m->text);
    if (m->count++ == 0 || sizeof m->text - at > 1)
        snprintf(m->text + at, sizeof m->text - at, "%s%s (%s)", at ? ", " : "", node->name, node->op->name);
}

static sg_status find_missing(missing *m, sg_graph *graph, const bool *live, sg_error *err)
{
    bool yes;
    for (int32_t i = 0; i < sg_node_count(graph); i++) {
        const sg_node *node = sg_node_at(graph, i);
        if (!live[i] || node->op->flags & SG_OP_LEAF || sg_is_view(node) || node->op == &sg_op_repeat)
            continue;
        if (sg_spec_supported(m->session, graph, node, false, &yes) != SG_OK)
            return sg_fail(err, SG_E_MEMORY, "out of memory while compiling");
        if (!yes)
            add_missing(m, node);
    }
    return SG_OK;
}

static sg_status check_graph(missing *m, sg_graph *graph, const int32_t *root, int32_t n, sg_error *err);

static sg_status check_loops(missing *m, sg_graph *graph, const bool *live, sg_error *err)
{
    for (int32_t i = 0; i < sg_node_count(graph); i++) {
        const sg_node *node = sg_node_at(graph, i);
        if (!live[i] || node->op != &sg_op_repeat)
            continue;
        int32_t *root = sg_calloc(node->n_out + 1, sizeof *root);
        if (!root)
            return sg_fail(err, SG_E_MEMORY, "out of memory while compiling");
        for (int32_t k = 0; k < node->n_out; k++)
            root[k] = sg_repeat_next(node, k).id;
        sg_status status = check_graph(m, sg_repeat_body(node), root, node->n_out, err);
        sg_free(root);
        SG_TRY(status);
    }
    return SG_OK;
}

static sg_status check_graph(missing *m, sg_graph *graph, const int32_t *root, int32_t n, sg_error *err)
{
    bool *live = sg_calloc(sg_node_count(graph) + 1, sizeof *live);
    if (!live)
        return sg_fail(err, SG_E_MEMORY, "out of memory while compiling");
    sg_graph_reach(graph, root, n, false, live);
    sg_status status = find_missing(m, graph, live, err);
    if (status == SG_OK)
        status = check_loops(m, graph, live, err);
    sg_free(live);
    return status;
}

int32_t sg_root_count(const sg_graph *graph) { return sg_result_count(graph) + sg_effect_count(graph); }

void sg_roots(sg_graph *graph, int32_t *out)
{
    int32_t entry;
    for (int32_t k = 0; k < sg_result_count(graph); k++)
        *out++ = sg_result_value(graph, k).id;
    for (int32_t k = 0; k < sg_effect_count(graph); k++)
        sg_effect_at(graph, k, &entry, out++);
}

sg_status sg_check_kernels(sg_session *session, sg_graph *graph, sg_error *err)
{
    missing m = {.session = session};
    int32_t *root = sg_calloc(sg_root_count(graph) + 1, sizeof *root);
    if (!root)
        return sg_fail(err, SG_E_MEMORY, "out of memory while compiling");
    sg_roots(graph, root);
    sg_status status = check_graph(&m, graph, root, sg_root_count(graph), err);
    sg_free(root);
    SG_TRY(status);
    if (m.count)
        return sg_fail(err, SG_E_UNSUPPORTED, "the %s backend has no kernel for %d node%s: %s", session->backend->name,
                       (int)m.count, m.count == 1 ? "" : "s", m.text);
    return SG_OK;
}
