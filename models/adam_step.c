/* adam_step.c - the optimiser's store entries around the pure update of ops/adam. */
#include "models/models.h"

sg_adam_options sg_adam_defaults(double weight_decay)
{
    return (sg_adam_options){0.9, 0.999, 1e-8, weight_decay, true};
}

void sg_adam_step(sg_scope scope, const sg_value *p, const sg_value *g, int32_t n, sg_value lr,
                  const sg_adam_options *options)
{
    sg_value t0 = sg_state(scope, "t", SG_F32, sg_shape_scalar(), sg_init_zeros());
    sg_value t = sg_add_scalar(t0, 1);
    for (int32_t i = 0; i < n; i++) {
        int32_t entry = sg_entry_of(p[i]);
        if (entry < 0) {
            sg_graph_fail(scope.graph, SG_E_ARGUMENT, p[i],
                          "an optimiser step needs the current version of a parameter");
            return;
        }
        const sg_entry *e = sg_store_peek(scope.store, entry);
        sg_scope slots = sg_scope_sub(scope, e->name);
        sg_value m = sg_state(slots, "m", SG_F32, e->shape, sg_init_zeros());
        sg_value v = sg_state(slots, "v", SG_F32, e->shape, sg_init_zeros());
        sg_adam_state next = sg_adam((sg_adam_state){p[i], m, v}, g[i], lr, t, options->beta1, options->beta2,
                                     options->eps, options->weight_decay, options->decoupled);
        sg_assign(p[i], next.p);
        sg_assign(m, next.m);
        sg_assign(v, next.v);
    }
    sg_assign(t0, t);
}
