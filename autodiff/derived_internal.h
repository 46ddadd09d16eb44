/* derived_internal.h - derivative rules made of derivative composites. */
#ifndef SG_DERIVED_INTERNAL_H
#define SG_DERIVED_INTERNAL_H

#include "autodiff/rules_internal.h"

/* Reverse and forward rule of an operator that names vjp_op or jvp_op: one node of that operator. */
void sg_derived_vjp(const sg_rule_site *site, sg_graph *graph);
void sg_derived_jvp(const sg_rule_site *site, sg_graph *graph);

/* Does the reverse rule of this operator, itself a reverse derivative, follow from the symmetry of second derivatives? */
bool sg_derived_is_symmetric(const sg_op *op);
void sg_derived_symmetric_vjp(const sg_rule_site *site, sg_graph *graph);

#endif
