/* transpose_problem.c - from the shape and the order of axes to sizes and steps. */
#include "runtime/transpose_problem_internal.h"

static void merge_axes(sg_transpose_problem *p, const sg_shape *x, const int64_t *order)
{
    int64_t stride[SG_MAX_RANK], step = 1;
    for (int32_t i = x->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= x->dim[i];
    }
    for (int32_t i = 0; i < x->rank; i++) {
        int64_t dim = x->dim[order[i]], from = stride[order[i]];
        if (dim == 1)
            continue;
        if (p->rank > 0 && p->from[p->rank - 1] == dim * from) {
            p->dim[p->rank - 1] *= dim;
            p->from[p->rank - 1] = from;
        } else {
            p->dim[p->rank] = dim;
            p->from[p->rank++] = from;
        }
    }
    if (p->rank == 0) {
        p->dim[0] = p->from[0] = 1;
        p->rank = 1;
    }
}

sg_transpose_problem sg_transpose_describe(const sg_kernel_spec *spec)
{
    sg_transpose_problem p = {.outer = 1};
    int64_t step = 1;
    merge_axes(&p, &spec->in_shape[0], spec->attr[0].ints);
    for (int32_t i = p.rank - 1; i >= 0; i--) {
        p.to[i] = step;
        step *= p.dim[i];
    }
    for (int32_t i = 0; i < p.rank; i++)
        if (p.from[i] == 1)
            p.fast = i;
    for (int32_t i = 0; i < p.rank - 1; i++)
        p.outer *= i == p.fast ? 1 : p.dim[i];
    return p;
}
