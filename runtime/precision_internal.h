/* precision_internal.h - mixed precision as a pass over the finished graph. */
#ifndef SG_RUNTIME_PRECISION_INTERNAL_H
#define SG_RUNTIME_PRECISION_INTERNAL_H

#include "graph/graph.h"

/* A copy of the graph in which operators run in precision `low` as their flags say (SG_OP_LOW, SG_OP_FOLLOWS, SG_OP_FULL). Inputs,
 * results, store entries and the states of loops keep their types. */
sg_status sg_precision_pass(sg_graph *from, sg_dtype low, sg_graph **out, sg_error *err);

#endif
