/* repeat_internal.h - how a `repeat` node lays out its operands; read by the executor, the planner and passes.
 *
 * A node has attributes {n, body, states} and, with S = states and E = sg_body_entry_count(body),
 *
 *   input j, 0 <= j < sg_body_input_count(body):   the parent's value that body input j starts from. Inputs 0..S-1 are
 *       the explicit states; after them stand, in order of first use in the body, captured values and store entries.
 *   output k, 0 <= k < S:       state k after n iterations. It continues input k.
 *   output S + e, 0 <= e < E:   the value of the e-th assigned entry after n iterations. It continues the input whose
 *       body input is the `inner` that sg_body_entry_at(body, e) names.
 *
 * So the output k owns one buffer over the whole loop: it starts as a copy of (or takes over) the memory of input
 * sg_repeat_output_input(k), each iteration reads it as the body value sg_repeat_inner(k), and the iteration's end
 * makes it sg_repeat_next(k). Nexts are read before any state is written (next[0] may be the body value of state 1, a
 * next may be a body input or shared by two states). Inputs that no output continues are constant over the loop. n >= 1
 * in a built node: the builder returns the initial values for n = 0. The body's results are the S nexts, in order, and
 * nothing else. */
#ifndef SG_REPEAT_INTERNAL_H
#define SG_REPEAT_INTERNAL_H

#include "graph/graph.h"

extern const sg_op sg_op_repeat;

enum { SG_REPEAT_N, SG_REPEAT_BODY, SG_REPEAT_STATES };

static inline int64_t sg_repeat_count(const sg_node *node) { return node->attr[SG_REPEAT_N].i; }
static inline sg_graph *sg_repeat_body(const sg_node *node) { return node->attr[SG_REPEAT_BODY].graph; }
static inline int32_t sg_repeat_states(const sg_node *node) { return (int32_t)node->attr[SG_REPEAT_STATES].i; }

/* The node that `body` belongs to, or NULL. */
const sg_node *sg_repeat_of(const sg_graph *body);
/* Index of the node input (and body input) whose memory output `output` continues. */
int32_t sg_repeat_output_input(const sg_node *node, int32_t output);
/* Body value that output `output` is at the start of an iteration, and the one it becomes at its end. */
sg_value sg_repeat_inner(const sg_node *node, int32_t output);
sg_value sg_repeat_next(const sg_node *node, int32_t output);
/* Output that continues input `input`, or -1 if the input is constant over the loop. */
int32_t sg_repeat_input_output(const sg_node *node, int32_t input);

#endif
