/* flatten.c - several tensors as one vector, in their order, and back. */
#include "autodiff/autodiff.h"

#include "ops/ops.h"

sg_value sg_flatten(const sg_value *values, int32_t n)
{
    sg_value all = SG_NONE, *rows = n > 0 && !sg_is_none(values[0]) ? sg_calloc(n, sizeof *rows) : NULL;
    if (n > 0 && !sg_is_none(values[0]) && !rows)
        return sg_graph_fail(values[0].graph, SG_E_MEMORY, SG_NONE, "out of memory in sg_flatten");
    for (int32_t i = 0; rows && i < n; i++)
        rows[i] = sg_reshape(values[i], SG_SHAPE(-1));
    if (rows)
        all = n == 1 ? rows[0] : sg_concat(rows, n, 0);
    sg_free(rows);
    return all;
}

void sg_unflatten(sg_value vector, const sg_value *like, int32_t n, sg_value *out)
{
    int64_t at = 0;
    for (int32_t i = 0; i < n; i++) {
        int64_t count = sg_is_none(like[i]) ? 0 : sg_shape_count(sg_shape_of(like[i]));
        out[i] = sg_is_none(vector) || sg_is_none(like[i])
                     ? SG_NONE
                     : sg_reshape_like(n == 1 ? vector : sg_slice(vector, 0, at, at + count), like[i]);
        at += count;
    }
}
