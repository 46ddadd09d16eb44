/* arguments_internal.h - checking what users pass to the derivative functions. */
#ifndef SG_ARGUMENTS_INTERNAL_H
#define SG_ARGUMENTS_INTERNAL_H

#include "graph/graph.h"

/* Values and, if they come in pairs, their directions (seeds, tangents), all in one graph. */
typedef struct sg_arguments {
    sg_value *value, *direction;
} sg_arguments;

/* Copy and check `n` values: real, none missing, of *graph (which the first call sets); values of an enclosing graph
 * are captured when differentiating inside a loop body. Directions (NULL: none) must have the shapes and dtypes of
 * their values. `function`, `what` and `of` are names for messages. False, with the sticky error set, if refused. */
bool sg_arguments_take(sg_arguments *out, sg_graph **graph, const char *function, const char *what,
                       const sg_value *value, const char *of, const sg_value *direction, int32_t n);
void sg_arguments_free(sg_arguments *arguments);

#endif
