/* sequence_internal.h - what recurrent operators share: steps of a batch of sequences [batch, steps, width], lengths. */
#ifndef SG_SEQUENCE_INTERNAL_H
#define SG_SEQUENCE_INTERNAL_H

#include "ops/ops_internal.h"

/* Step t of x [B, T, ...] -> [B, ...]. */
sg_value sg_step_at(sg_value x, int64_t t);
/* The inverse: T values [B, K] as [B, T, K], named like the first two axes of `model` [B, T, ...]; T may be 0. A graph that
 * holds steps by number cannot be resized along them: the shape rule of the result refuses. */
sg_value sg_stack_steps(const sg_value *step, int64_t steps, sg_value model, int64_t width);
/* BOOL [B, T]: t < lengths[b]. Looked up in a table of masks, so that a length outside [0, T] is an index out of range. */
sg_value sg_length_mask(sg_value lengths, int64_t steps);
/* Number of each step of x [B, T, any] as a real, [B, T]; it depends on the shape alone, and a graph with it can be resized. */
sg_value sg_step_numbers(sg_value x);
/* x [B, T, K] with 0 past each row's length, whatever is there. For builders: what does not fit is left to the op's shape rule. */
sg_value sg_zero_past(sg_value x, sg_value lengths);
/* Zeros [B, width] for x [B, T, at least `width`]. */
sg_value sg_step_zeros(sg_value x, int64_t width);

/* Input `input` is I32 [B]: as many as `x` [B, ...] has rows. */
sg_status sg_require_lengths(const sg_infer_args *args, int32_t input, const sg_shape *x);
/* Input `input` is real, of the dtype of input 0, with these sizes. */
sg_status sg_require_sizes(const sg_infer_args *args, int32_t input, int32_t rank, const int64_t *dim);

#endif
