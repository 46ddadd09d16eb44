/* transpose.c - permuted axes: those that stay neighbours are merged, so that few strides are left. */
#include "ops/ops_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/move_internal.h"

_Static_assert(SG_MAX_RANK <= SG_CUDA_TRANSPOSE_RANK, "axes of a transpose");

static bool launch(const sg_launch *l, sg_error *err)
{
    const sg_cuda_transpose *t = l->state;
    int32_t last = t->rank - 1;
    if (t->outer * t->dim[last] * t->dim[t->fast] == 0)
        return true;
    sg_cuda_permute(t, l->in[0], l->out[0], l->stream);
    return sg_cuda_launched(err);
}

/* Sizes of y's axes and their strides in x, without axes of size 1 and with neighbours that move together merged. */
static void merge_axes(sg_cuda_transpose *t, const sg_shape *x, const int64_t *order)
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
        if (t->rank > 0 && t->from[t->rank - 1] == dim * from) {
            t->dim[t->rank - 1] *= dim;
            t->from[t->rank - 1] = from;
        } else {
            t->dim[t->rank] = dim;
            t->from[t->rank++] = from;
        }
    }
    if (t->rank == 0) {
        t->dim[0] = t->from[0] = 1;
        t->rank = 1;
    }
}

/* Rows of whole 16-byte words are copied in those: memory of the plan starts at more than that. */
static void widen(sg_cuda_transpose *t)
{
    int32_t last = t->rank - 1;
    int64_t each = 16 / t->element;
    bool fits = t->fast == last && t->dim[last] % each == 0;
    for (int32_t i = 0; i < last; i++)
        fits = fits && t->from[i] % each == 0;
    if (!fits)
        return;
    t->element = 16;
    t->dim[last] /= each;
    for (int32_t i = 0; i < last; i++)
        t->from[i] /= each;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    sg_cuda_transpose *t = sg_calloc(1, sizeof *t);
    if (!t)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a transpose");
    t->element = (int32_t)sg_dtype_size(spec->out_dtype[0]);
    merge_axes(t, &spec->in_shape[0], spec->attr[0].ints);
    for (int32_t i = 0; i < t->rank; i++)
        if (t->from[i] == 1)
            t->fast = i;
    widen(t);
    t->outer = 1;
    for (int32_t i = 0; i < t->rank - 1; i++)
        t->outer *= i == t->fast ? 1 : t->dim[i];
    int64_t step = 1;
    for (int32_t i = t->rank - 1; i >= 0; i--) {
        t->to[i] = step;
        step *= t->dim[i];
    }
    *out = (sg_kernel){.name = "transpose", .launch = launch, .state = t, .release = sg_free};
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec)
{
    size_t element = sg_dtype_size(spec->in_dtype[0]);
    return element == 4 || element == 2 || element == 1;
}

const sg_cuda_kernel sg_cuda_transpose_kernels[] = {{&sg_op_transpose, supports, prepare}, {0}};
