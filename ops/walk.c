/* walk.c - index arithmetic and stable scalar functions of the reference kernels. */
#include "ops/ops_internal.h"

#include <math.h>

sg_axis_split sg_split_at(const sg_shape *shape, int64_t axis)
{
    if (axis < 0)
        axis += shape->rank;
    sg_axis_split split = {1, shape->dim[axis], 1};
    for (int32_t d = 0; d < shape->rank; d++) {
        if (d < axis)
            split.outer *= shape->dim[d];
        else if (d > axis)
            split.inner *= shape->dim[d];
    }
    return split;
}

/* Axes are aligned at the end; a missing axis or one of size 1 is repeated, that is walked with stride 0. */
void sg_walk_begin(sg_walk *walk, const sg_shape *out, const sg_tensor64 *in, int32_t n_in)
{
    *walk = (sg_walk){.rank = out->rank, .n_in = n_in};
    for (int32_t d = 0; d < out->rank; d++)
        walk->dim[d] = out->dim[d];
    for (int32_t k = 0; k < n_in; k++) {
        const sg_shape *shape = in[k].shape;
        int64_t step = 1;
        for (int32_t d = shape->rank - 1; d >= 0; d--) {
            walk->stride[k][d + out->rank - shape->rank] = shape->dim[d] == 1 ? 0 : step;
            step *= shape->dim[d];
        }
    }
}

void sg_walk_next(sg_walk *walk)
{
    for (int32_t d = walk->rank - 1; d >= 0; d--) {
        bool carry = ++walk->at[d] == walk->dim[d];
        for (int32_t k = 0; k < walk->n_in; k++)
            walk->offset[k] += carry ? -(walk->dim[d] - 1) * walk->stride[k][d] : walk->stride[k][d];
        if (!carry)
            return;
        walk->at[d] = 0;
    }
}

/* The exponential only ever sees arguments <= 0, so nothing overflows and small results keep their digits. */
double sg_sigmoid64(double x)
{
    if (x >= 0)
        return 1 / (1 + exp(-x));
    double e = exp(x);
    return e / (1 + e);
}

double sg_softplus64(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }
