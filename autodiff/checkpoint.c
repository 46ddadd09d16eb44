/* checkpoint.c - the reverse rule of a checkpointed segment: compute it again, and differentiate that (ops/checkpoint.c). */
#include "autodiff/checkpoint_internal.h"

#include "ops/checkpoint_internal.h"

bool sg_is_checkpoint(const sg_node *node) { return node->op == &sg_op_checkpoint; }

typedef struct recomputation {
    sg_graph *graph;
    const sg_rule_site *site;
    int32_t m, n;       /* results, frontier */
    sg_value *y, *seed; /* results that have a cotangent */
    sg_value *fresh;    /* the frontier behind barriers */
    sg_value *x, *grad; /* of these, what derivatives are wanted of */
    int32_t *at;        /* their places among the node's inputs */
} recomputation;

static void recompute(recomputation *r)
{
    const sg_rule_site *s = r->site;
    const sg_value *frontier = s->in + r->m;
    int32_t n_y = 0, n_x = 0;
    for (int32_t k = 0; k < r->m; k++)
        if (!sg_is_none(s->gout[k])) {
            r->y[n_y] = s->in[k];
            r->seed[n_y++] = s->gout[k];
        }
    for (int32_t k = 0; k < r->n; k++) {
        r->fresh[k] = sg_barrier(frontier[k], r->seed[0]);
        if (s->need[r->m + k]) {
            r->x[n_x] = r->fresh[k];
            r->at[n_x++] = r->m + k;
        }
    }
    sg_substitute(r->graph, r->y, n_y, frontier, r->fresh, r->n, r->y);
    if (sg_graph_status(r->graph, NULL) != SG_OK)
        return;
    sg_sweep_reverse(r->y, r->seed, n_y, r->x, n_x, r->grad, true);
    for (int32_t i = 0; i < n_x; i++)
        s->gin[r->at[i]] = r->grad[i];
}

void sg_checkpoint_vjp(const sg_rule_site *site, sg_graph *graph)
{
    int32_t m = site->node.n_out, n = site->node.n_in - m;
    sg_value *work = sg_calloc(2 * (int64_t)m + 3 * (int64_t)n + 1, sizeof *work);
    int32_t *at = sg_calloc(n + 1, sizeof *at);
    recomputation r = {graph, site, m, n, work, work + m, work + 2 * m, work + 2 * m + n, work + 2 * m + 2 * n, at};
    if (work && at)
        recompute(&r);
    else
        sg_graph_fail(graph, SG_E_MEMORY, site->out[0], "out of memory recomputing a segment");
    sg_free(work);
    sg_free(at);
}
