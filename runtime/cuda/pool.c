/* pool.c - max_pool2d, avg_pool2d and its gradient. */
#include "ops/pool_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/image_internal.h"

typedef struct pool {
    sg_cuda_pool p;
    int64_t count; /* elements of the result */
} pool;

static bool launch_max(const sg_launch *l, sg_error *err)
{
    const pool *p = l->state;
    if (p->count == 0)
        return true;
    sg_cuda_max_pool(&p->p, l->in[0], l->out[0], l->out[1], l->stream);
    return sg_cuda_launched(err);
}

static bool launch_avg(const sg_launch *l, sg_error *err)
{
    const pool *p = l->state;
    if (p->count == 0)
        return true;
    sg_cuda_avg_pool(&p->p, l->in[0], l->out[0], l->stream);
    return sg_cuda_launched(err);
}

static bool launch_avg_grad(const sg_launch *l, sg_error *err)
{
    const pool *p = l->state;
    if (p->count == 0)
        return true;
    sg_cuda_avg_pool_grad(&p->p, l->in[0], l->out[0], l->stream);
    return sg_cuda_launched(err);
}

static sg_cuda_window window_of(const sg_attr *attr, int32_t axis, const sg_shape *x, const sg_shape *y)
{
    int64_t kernel = attr[SG_POOL_KERNEL].ints[axis];
    sg_window_axis w = sg_window_of(attr, axis, x->dim[2 + axis], kernel, y->dim[2 + axis]);
    return (sg_cuda_window){w.size, w.kernel, w.places, w.stride, w.dilation, w.before};
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    pool *p = sg_calloc(1, sizeof *p);
    if (!p)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", spec->node->op->name);
    bool spread = spec->node->op == &sg_op_avg_pool2d_grad, largest = spec->node->op == &sg_op_max_pool2d;
    const sg_shape *in = &spec->in_shape[0], *result = &spec->out_shape[0];
    const sg_shape *x = spread ? result : in, *y = spread ? in : result;
    p->p = (sg_cuda_pool){.planes = x->dim[0] * x->dim[1],
                          .row = window_of(spec->attr, 0, x, y),
                          .col = window_of(spec->attr, 1, x, y),
                          .count_padding = !largest && spec->attr[SG_POOL_COUNT_PADDING].i != 0};
    p->count = sg_shape_count(result);
    *out = (sg_kernel){.name = spec->node->op->name,
                       .launch = largest  ? launch_max
                                 : spread ? launch_avg_grad
                                          : launch_avg,
                       .state = p,
                       .release = sg_free};
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec) { return spec->in_dtype[0] == SG_F32; }

const sg_cuda_kernel sg_cuda_pool_kernels[] = {{&sg_op_max_pool2d, supports, prepare},
                                               {&sg_op_avg_pool2d, supports, prepare},
                                               {&sg_op_avg_pool2d_grad, supports, prepare},
                                               {0}};
