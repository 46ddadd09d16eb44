/* checkpoint_internal.h - what the reverse sweep needs to know of segments. */
#ifndef SG_CHECKPOINT_INTERNAL_H
#define SG_CHECKPOINT_INTERNAL_H

#include "graph/graph.h"

extern const sg_op sg_op_checkpoint, sg_op_barrier;

/* x as a node of its own that depends on `after`. */
sg_value sg_barrier(sg_value x, sg_value after);

#endif
