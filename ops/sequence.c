/* sequence.c - steps and lengths of sequences; see sequence_internal.h. */
#include "ops/sequence_internal.h"

#include "ops/axis_internal.h"

sg_value sg_step_at(sg_value x, int64_t t) { return sg_squeeze(sg_slice_places(x, 1, t, t + 1), 1); }

sg_value sg_stack_steps(const sg_value *step, int64_t steps, sg_value model, int64_t width)
{
    if (steps == 0)
        return sg_slice_places(model, 2, 0, width);
    sg_value *wide = sg_calloc(steps, sizeof *wide);
    if (!wide)
        return sg_graph_fail(model.graph, SG_E_MEMORY, model, "out of memory for %lld steps", (long long)steps);
    for (int64_t t = 0; t < steps; t++)
        wide[t] = sg_expand_dims(step[t], 1);
    sg_value all = sg_concat(wide, (int32_t)steps, 1);
    sg_free(wide);
    return sg_reshape_like(all, sg_slice_places(model, 2, 0, width));
}

sg_value sg_length_mask(sg_value lengths, int64_t steps)
{
    int64_t n;
    double *table = sg_mul_ok(steps + 1, steps, &n) ? sg_calloc(n + 1, sizeof *table) : NULL;
    if (!table)
        return sg_graph_fail(lengths.graph, SG_E_MEMORY, lengths, "out of memory for masks of %lld steps",
                             (long long)steps);
    for (int64_t length = 0; length <= steps; length++)
        for (int64_t t = 0; t < length; t++)
            table[length * steps + t] = 1;
    sg_value masks = sg_constant(lengths.graph, SG_BOOL, SG_SHAPE(steps + 1, steps), table, n);
    sg_free(table);
    return sg_gather(masks, lengths);
}

sg_value sg_step_numbers(sg_value x) { return sg_add_scalar(sg_cumsum(sg_ones_like(sg_sum(x, 2)), 1), -1); }

sg_value sg_zero_past(sg_value x, sg_value lengths)
{
    if (sg_is_none(x) || sg_is_none(lengths) || sg_rank_of(x) != 3 || sg_rank_of(lengths) != 1 ||
        sg_dim_of(x, 0) != sg_dim_of(lengths, 0))
        return x;
    sg_value inside = sg_less(sg_step_numbers(x), sg_expand_dims(sg_cast(lengths, sg_dtype_of(x)), 1));
    return sg_where(sg_expand_dims(inside, 2), x, sg_number(x, 0));
}

sg_value sg_step_zeros(sg_value x, int64_t width) { return sg_zeros_like(sg_sum(sg_slice_places(x, 2, 0, width), 1)); }

sg_status sg_require_lengths(const sg_infer_args *args, int32_t input, const sg_shape *x)
{
    SG_TRY(sg_require_dtype(args, input, SG_I32));
    if (args->in_shape[input].rank == 1 && args->in_shape[input].dim[0] == x->dim[0])
        return SG_OK;
    char text[SG_SHAPE_TEXT];
    return sg_infer_fail(args, SG_E_SHAPE, "lengths of shape %s for a batch of %lld",
                         sg_shape_format(&args->in_shape[input], text, sizeof text), (long long)x->dim[0]);
}

sg_status sg_require_sizes(const sg_infer_args *args, int32_t input, int32_t rank, const int64_t *dim)
{
    sg_shape want = sg_shape_make(rank, dim);
    char have_text[SG_SHAPE_TEXT], want_text[SG_SHAPE_TEXT];
    SG_TRY(sg_require_real(args, input));
    SG_TRY(sg_require_same_dtype(args, 0, input));
    if (sg_shape_equal(&want, &args->in_shape[input]))
        return SG_OK;
    return sg_infer_fail(args, SG_E_SHAPE, "input %d has shape %s, not %s", input,
                         sg_shape_format(&args->in_shape[input], have_text, sizeof have_text),
                         sg_shape_format(&want, want_text, sizeof want_text));
}
