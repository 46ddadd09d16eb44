/* conv_cudnn.c - convolutions by cuDNN. The algorithms are fixed: those that always give the same bits, whatever a search would
 * find faster today. They take f32 without rounding to TF32 unless the device says so; bf16 is added up in f32. */
#include <cudnn.h>

#include "runtime/cuda/conv_internal.h"

struct sg_cuda_cudnn_conv {
    cudnnHandle_t handle; /* the device's */
    sg_cuda_conv_result result;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t what;
    cudnnConvolutionFwdAlgo_t forward;
    size_t workspace;
};

/* Both are documented as deterministic; their neighbours 0 and 3 add by atomics. */
static const cudnnConvolutionBwdDataAlgo_t by_data = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
static const cudnnConvolutionBwdFilterAlgo_t by_filter = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;

static sg_status check(cudnnStatus_t code, const char *what, sg_error *err)
{
    if (code == CUDNN_STATUS_SUCCESS)
        return SG_OK;
    return sg_fail(err, code == CUDNN_STATUS_ALLOC_FAILED ? SG_E_MEMORY : SG_E_DEVICE, "cuDNN: %s: %s", what,
                   cudnnGetErrorString(code));
}

void sg_cuda_cudnn_close(sg_device *device)
{
    if (device->dnn)
        cudnnDestroy(device->dnn);
    device->dnn = NULL;
}

void sg_cuda_cudnn_conv_free(sg_cuda_cudnn_conv *c)
{
    if (!c)
        return;
    if (c->what)
        cudnnDestroyConvolutionDescriptor(c->what);
    if (c->w)
        cudnnDestroyFilterDescriptor(c->w);
    if (c->y)
        cudnnDestroyTensorDescriptor(c->y);
    if (c->x)
        cudnnDestroyTensorDescriptor(c->x);
    sg_free(c);
}

/* ---------------------------------------------------------------------------------------------------- describing */

/* cuDNN pads both sides alike and counts in 32 bits. Padding behind that no place reaches makes no difference. */
static bool axis_fits(const sg_cuda_window *w)
{
    int64_t reach = w->dilation * (w->kernel - 1) + 1, room = w->size + 2 * w->before - reach;
    return room >= 0 && room / w->stride + 1 == w->places && w->before <= INT32_MAX;
}

static bool fits(const sg_cuda_conv *s)
{
    int64_t x = s->images * s->groups * s->in * s->row.size * s->col.size;
    int64_t y = s->images * s->groups * s->out * s->row.places * s->col.places;
    int64_t w = s->groups * s->out * s->in * s->row.kernel * s->col.kernel;
    return x <= INT32_MAX && y <= INT32_MAX && w <= INT32_MAX && axis_fits(&s->row) && axis_fits(&s->col);
}

static sg_status create(sg_cuda_cudnn_conv *c, sg_error *err)
{
    SG_TRY(check(cudnnCreateTensorDescriptor(&c->x), "descriptor", err));
    SG_TRY(check(cudnnCreateTensorDescriptor(&c->y), "descriptor", err));
    SG_TRY(check(cudnnCreateFilterDescriptor(&c->w), "descriptor", err));
    return check(cudnnCreateConvolutionDescriptor(&c->what), "descriptor", err);
}

static cudnnDataType_t type_of(const sg_cuda_conv *s) { return s->bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT; }

static sg_status set_tensor(cudnnTensorDescriptor_t t, const sg_cuda_conv *s, int64_t channels, int64_t rows,
                            int64_t cols, sg_error *err)
{
    return check(cudnnSetTensor4dDescriptor(t, CUDNN_TENSOR_NCHW, type_of(s), (int)s->images, (int)channels, (int)rows,
                                            (int)cols),
                 "shape", err);
}

static sg_status describe(sg_cuda_cudnn_conv *c, const sg_cuda_conv *s, bool tf32, sg_error *err)
{
    const sg_cuda_window *row = &s->row, *col = &s->col;
    SG_TRY(set_tensor(c->x, s, s->groups * s->in, row->size, col->size, err));
    SG_TRY(set_tensor(c->y, s, s->groups * s->out, row->places, col->places, err));
    SG_TRY(check(cudnnSetFilter4dDescriptor(c->w, type_of(s), CUDNN_TENSOR_NCHW, (int)(s->groups * s->out), (int)s->in,
                                            (int)row->kernel, (int)col->kernel),
                 "weights", err));
    SG_TRY(check(cudnnSetConvolution2dDescriptor(c->what, (int)row->before, (int)col->before, (int)row->stride,
                                                 (int)col->stride, (int)row->dilation, (int)col->dilation,
                                                 CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                 "window", err));
    SG_TRY(check(cudnnSetConvolutionGroupCount(c->what, (int)s->groups), "groups", err));
    /* By default cuDNN's algorithms of bf16 leave the tensor cores idle: up to a hundred times slower. */
    return check(cudnnSetConvolutionMathType(c->what, tf32 || s->bf16 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH),
                 "arithmetic", err);
}

static cudnnStatus_t measure(sg_cuda_cudnn_conv *c)
{
    if (c->result == SG_CUDA_CONV_X)
        return cudnnGetConvolutionBackwardDataWorkspaceSize(c->handle, c->w, c->y, c->what, c->x, by_data,
                                                            &c->workspace);
    if (c->result == SG_CUDA_CONV_W)
        return cudnnGetConvolutionBackwardFilterWorkspaceSize(c->handle, c->x, c->y, c->what, c->w, by_filter,
                                                              &c->workspace);
    return cudnnGetConvolutionForwardWorkspaceSize(c->handle, c->x, c->w, c->what, c->y, c->forward, &c->workspace);
}

/* True if an algorithm takes this convolution. */
static bool choose(sg_cuda_cudnn_conv *c)
{
    c->forward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
    if (measure(c) == CUDNN_STATUS_SUCCESS)
        return true;
    c->forward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
    return c->result == SG_CUDA_CONV_Y && measure(c) == CUDNN_STATUS_SUCCESS;
}

sg_status sg_cuda_cudnn_conv_new(sg_device *device, const sg_cuda_conv *shape, sg_cuda_conv_result result,
                                 sg_cuda_cudnn_conv **out, size_t *workspace, sg_error *err)
{
    *out = NULL;
    if (!fits(shape))
        return SG_OK;
    if (!device->dnn)
        SG_TRY(check(cudnnCreate(&device->dnn), "opening", err));
    sg_cuda_cudnn_conv *c = sg_calloc(1, sizeof *c);
    if (!c)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a convolution");
    c->handle = device->dnn;
    c->result = result;
    sg_status status = create(c, err);
    if (status == SG_OK)
        status = describe(c, shape, device->tf32, err);
    if (status != SG_OK || !choose(c)) {
        sg_cuda_cudnn_conv_free(c);
        return status;
    }
    *workspace = c->workspace;
    *out = c;
    return SG_OK;
}

/* ------------------------------------------------------------------------------------------------------- running */

bool sg_cuda_cudnn_conv_run(const sg_cuda_cudnn_conv *c, const void *x, const void *w, const void *y, void *out,
                            void *workspace, cudaStream_t stream, sg_error *err)
{
    const float one = 1, zero = 0;
    cudnnStatus_t code = cudnnSetStream(c->handle, stream);
    if (code == CUDNN_STATUS_SUCCESS && c->result == SG_CUDA_CONV_Y)
        code = cudnnConvolutionForward(c->handle, &one, c->x, x, c->w, w, c->what, c->forward, workspace, c->workspace,
                                       &zero, c->y, out);
    else if (code == CUDNN_STATUS_SUCCESS && c->result == SG_CUDA_CONV_X)
        code = cudnnConvolutionBackwardData(c->handle, &one, c->w, w, c->y, y, c->what, by_data, workspace,
                                            c->workspace, &zero, c->x, out);
    else if (code == CUDNN_STATUS_SUCCESS)
        code = cudnnConvolutionBackwardFilter(c->handle, &one, c->x, x, c->y, y, c->what, by_filter, workspace,
                                              c->workspace, &zero, c->w, out);
    return check(code, "convolution", err) == SG_OK;
}
