/* transpose.c - permuted axes. */
#include <string.h>

#include "ops/ops_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/move_internal.h"
#include "runtime/transpose_problem_internal.h"

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
    for (int32_t i = 0; i < last; i++) {
        t->from[i] /= each;
        t->to[i] /= each;
    }
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    const sg_transpose_problem p = sg_transpose_describe(spec);
    sg_cuda_transpose *t = sg_calloc(1, sizeof *t);
    if (!t)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a transpose");
    *t = (sg_cuda_transpose){
        .element = (int32_t)sg_dtype_size(spec->out_dtype[0]), .rank = p.rank, .fast = p.fast, .outer = p.outer};
    memcpy(t->dim, p.dim, sizeof p.dim);
    memcpy(t->from, p.from, sizeof p.from);
    memcpy(t->to, p.to, sizeof p.to);
    widen(t);
    *out = (sg_kernel){.name = "transpose", .launch = launch, .state = t, .release = sg_free};
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec)
{
    size_t element = sg_dtype_size(spec->in_dtype[0]);
    return element == 4 || element == 2 || element == 1;
}

const sg_cuda_kernel sg_cuda_transpose_kernels[] = {{&sg_op_transpose, supports, prepare}, {0}};
