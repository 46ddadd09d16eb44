/* checkpoint_internal.h - the reverse rule of `checkpoint`, which recurses into the sweeps. */
#ifndef SG_AUTODIFF_CHECKPOINT_INTERNAL_H
#define SG_AUTODIFF_CHECKPOINT_INTERNAL_H

#include "autodiff/rules_internal.h"

bool sg_is_checkpoint(const sg_node *node);
void sg_checkpoint_vjp(const sg_rule_site *site, sg_graph *graph);

#endif
