/* conv.c - conv2d, conv_transpose2d (its gradient in x) and conv2d_weight_grad: by cuDNN, or from the definition where cuDNN has
 * no such window or no algorithm with an order of its own. */
#include "ops/ops_internal.h"
#include "ops/window_internal.h"
#include "runtime/cuda/conv_internal.h"
#include "runtime/cuda/cuda_kernels.h"

typedef struct conv {
    sg_cuda_conv shape;
    sg_cuda_conv_result result;
    sg_cuda_cudnn_conv *by_cudnn; /* NULL: from the definition */
    size_t out_bytes;
} conv;

/* ------------------------------------------------------------------------------------------------------- running */

static bool launch_cudnn(const sg_launch *l, sg_error *err)
{
    const conv *c = l->state;
    const void *x = l->in[0], *w = l->in[1], *y = NULL;
    if (c->result == SG_CUDA_CONV_X) {
        y = x;
        x = NULL;
    } else if (c->result == SG_CUDA_CONV_W) {
        y = w;
        w = NULL;
    }
    return sg_cuda_cudnn_conv_run(c->by_cudnn, x, w, y, l->out[0], sg_cuda_workspace_of(l), l->stream, err);
}

static bool launch_direct(const sg_launch *l, sg_error *err)
{
    const conv *c = l->state;
    if (c->result == SG_CUDA_CONV_Y)
        sg_cuda_conv_y(&c->shape, l->in[0], l->in[1], l->out[0], l->stream);
    else if (c->result == SG_CUDA_CONV_X)
        sg_cuda_conv_x(&c->shape, l->in[0], l->in[1], l->out[0], l->stream);
    else
        sg_cuda_conv_w(&c->shape, l->in[0], l->in[1], l->out[0], l->stream);
    return sg_cuda_launched(err);
}

/* An empty sum is zero. */
static bool launch_empty(const sg_launch *l, sg_error *err)
{
    const conv *c = l->state;
    if (c->out_bytes == 0)
        return true;
    return sg_cuda_check(cudaMemsetAsync(l->out[0], 0, c->out_bytes, l->stream), "fill", err) == SG_OK;
}

/* ----------------------------------------------------------------------------------------------------- preparing */

static sg_cuda_window window_of(const sg_attr *attr, int32_t axis, const sg_shape *x, const sg_shape *w,
                                const sg_shape *y)
{
    sg_window_axis v = sg_window_of(attr, axis, x->dim[2 + axis], w->dim[2 + axis], y->dim[2 + axis]);
    return (sg_cuda_window){v.size, v.kernel, v.places, v.stride, v.dilation, v.before};
}

/* Which operand is x, w or y follows from which one is the result. False if one of them is empty. */
static bool describe(conv *c, const sg_kernel_spec *spec)
{
    const sg_shape *in = spec->in_shape, *out = spec->out_shape;
    c->result = spec->node->op == &sg_op_conv2d             ? SG_CUDA_CONV_Y
                : spec->node->op == &sg_op_conv_transpose2d ? SG_CUDA_CONV_X
                                                            : SG_CUDA_CONV_W;
    const sg_shape *x = c->result == SG_CUDA_CONV_X ? &out[0] : &in[0];
    const sg_shape *w = c->result == SG_CUDA_CONV_W ? &out[0] : &in[1];
    const sg_shape *y = c->result == SG_CUDA_CONV_X ? &in[0] : c->result == SG_CUDA_CONV_Y ? &out[0] : &in[1];
    int64_t groups = spec->attr[SG_WINDOW_ATTRS].i;
    c->shape = (sg_cuda_conv){.images = x->dim[0],
                              .groups = groups,
                              .in = w->dim[1],
                              .out = w->dim[0] / groups,
                              .bf16 = spec->in_dtype[0] == SG_BF16,
                              .row = window_of(spec->attr, 0, x, w, y),
                              .col = window_of(spec->attr, 1, x, w, y)};
    c->out_bytes = (size_t)sg_shape_count(&out[0]) * sg_dtype_size(spec->out_dtype[0]);
    return sg_shape_count(x) > 0 && sg_shape_count(w) > 0 && sg_shape_count(y) > 0;
}

static void release(void *state)
{
    conv *c = state;
    sg_cuda_cudnn_conv_free(c->by_cudnn);
    sg_free(c);
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    conv *c = sg_calloc(1, sizeof *c);
    if (!c)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a convolution");
    size_t workspace = 0;
    bool some = describe(c, spec);
    sg_status status =
        some ? sg_cuda_cudnn_conv_new(device, &c->shape, c->result, &c->by_cudnn, &workspace, err) : SG_OK;
    if (status != SG_OK) {
        release(c);
        return status;
    }
    *out = (sg_kernel){.name = c->by_cudnn ? "cudnn convolution" : "direct convolution",
                       .launch = !some         ? launch_empty
                                 : c->by_cudnn ? launch_cudnn
                                               : launch_direct,
                       .state = c,
                       .release = release,
                       .workspace = sg_cuda_workspace_bytes(workspace)};
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec) { return spec->in_dtype[0] == SG_F32 || spec->in_dtype[0] == SG_BF16; }

const sg_cuda_kernel sg_cuda_conv_kernels[] = {{&sg_op_conv2d, supports, prepare},
                                               {&sg_op_conv_transpose2d, supports, prepare},
                                               {&sg_op_conv2d_weight_grad, supports, prepare},
                                               {0}};
