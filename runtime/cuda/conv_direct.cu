/* conv_direct.cu - convolutions and their gradients from the definition: a thread, or for weights a block, for each element of
 * the result. For windows that cuDNN does not have; simple, not fast. */
#include <cuda_bf16.h>

#include "runtime/cuda/rules.cuh"
#include "runtime/cuda/window.cuh"

/* Element t of [a, b, c, d] with the sizes of the last three. */
struct place4 {
    int64_t a, b, c, d;
};
__device__ static inline place4 place_in(int64_t t, int64_t b, int64_t c, int64_t d)
{
    place4 p;
    int64_t rest;
    p.d = sg_divide(t, d, &rest);
    p.c = sg_divide(rest, c, &rest);
    p.b = sg_divide(rest, b, &p.a);
    return p;
}

template <class T> __global__ void conv_y(sg_cuda_conv c, const T *x, const T *w, T *y)
{
    int64_t channels = c.groups * c.out, count = c.images * channels * c.row.places * c.col.places;
    int64_t plane = c.row.size * c.col.size, taps = c.row.kernel * c.col.kernel;
    for (int64_t t = sg_first(); t < count; t += sg_stride()) {
        place4 at = place_in(t, channels, c.row.places, c.col.places);
        int64_t first_row, last_row, first_col, last_col;
        taps_of(c.row, at.c, &first_row, &last_row);
        taps_of(c.col, at.d, &first_col, &last_col);
        const T *from = x + (at.a * c.groups + at.b / c.out) * c.in * plane, *weight = w + at.b * c.in * taps;
        float sum = 0;
        for (int64_t k = 0; k < c.in; k++)
            for (int64_t row = first_row; row < last_row; row++)
                for (int64_t col = first_col; col < last_col; col++)
                    sum += (float)from[k * plane + element_of(c.row, at.c, row) * c.col.size +
                                       element_of(c.col, at.d, col)] *
                           (float)weight[k * taps + row * c.col.kernel + col];
        y[t] = (T)sum;
    }
}

template <class T> __global__ void conv_x(sg_cuda_conv c, const T *y, const T *w, T *x)
{
    int64_t channels = c.groups * c.in, count = c.images * channels * c.row.size * c.col.size;
    int64_t plane = c.row.places * c.col.places, taps = c.row.kernel * c.col.kernel;
    for (int64_t t = sg_first(); t < count; t += sg_stride()) {
        place4 at = place_in(t, channels, c.row.size, c.col.size);
        int64_t group = at.b / c.in, k = at.b % c.in;
        const T *from = y + (at.a * c.groups + group) * c.out * plane;
        const T *weight = w + (group * c.out * c.in + k) * taps;
        float sum = 0;
        for (int64_t row = 0; row < c.row.kernel; row++) {
            int64_t i = place_of(c.row, at.c, row);
            for (int64_t col = 0; i >= 0 && col < c.col.kernel; col++) {
                int64_t j = place_of(c.col, at.d, col);
                for (int64_t o = 0; j >= 0 && o < c.out; o++)
                    sum += (float)from[o * plane + i * c.col.places + j] *
                           (float)weight[o * c.in * taps + row * c.col.kernel + col];
            }
        }
        x[t] = (T)sum;
    }
}

template <class T> __global__ void conv_w(sg_cuda_conv c, const T *x, const T *y, T *w)
{
    __shared__ float room[SG_WARPS];
    int64_t count = c.groups * c.out * c.in * c.row.kernel * c.col.kernel, places = c.row.places * c.col.places;
    int64_t plane = c.row.size * c.col.size;
    for (int64_t t = blockIdx.x; t < count; t += gridDim.x) {
        place4 at = place_in(t, c.in, c.row.kernel, c.col.kernel);
        int64_t group = at.a / c.out;
        float sum = 0;
        for (int64_t n = threadIdx.x; n < c.images * places; n += SG_BLOCK) {
            int64_t image, i, place = sg_divide(n, places, &image), j = sg_divide(place, c.col.places, &i);
            int64_t row = element_of(c.row, i, at.c), col = element_of(c.col, j, at.d);
            if (row < 0 || row >= c.row.size || col < 0 || col >= c.col.size)
                continue;
            sum += (float)x[((image * c.groups + group) * c.in + at.b) * plane + row * c.col.size + col] *
                   (float)y[(image * c.groups * c.out + at.a) * places + place];
        }
        sum = sg_block_join<sum_rule>(sum, room);
        if (threadIdx.x == 0)
            w[t] = (T)sum;
    }
}

/* The kernel in the type of the operands. */
#define LAUNCH(kernel, blocks, a, b, out)                                                                              \
    if (c->bf16)                                                                                                       \
        SG_CUDA_LAUNCH(kernel<__nv_bfloat16>, blocks, SG_BLOCK, stream, *c, (const __nv_bfloat16 *)a,                  \
                       (const __nv_bfloat16 *)b, (__nv_bfloat16 *)out);                                                \
    else                                                                                                               \
        SG_CUDA_LAUNCH(kernel<float>, blocks, SG_BLOCK, stream, *c, (const float *)a, (const float *)b, (float *)out)

extern "C" void sg_cuda_conv_y(const sg_cuda_conv *c, const void *x, const void *w, void *y, cudaStream_t stream)
{
    int64_t count = c->images * c->groups * c->out * c->row.places * c->col.places;
    LAUNCH(conv_y, sg_blocks(count, SG_BLOCK), x, w, y);
}

extern "C" void sg_cuda_conv_x(const sg_cuda_conv *c, const void *y, const void *w, void *x, cudaStream_t stream)
{
    int64_t count = c->images * c->groups * c->in * c->row.size * c->col.size;
    LAUNCH(conv_x, sg_blocks(count, SG_BLOCK), y, w, x);
}

extern "C" void sg_cuda_conv_w(const sg_cuda_conv *c, const void *x, const void *y, void *w, cudaStream_t stream)
{
    int64_t count = c->groups * c->out * c->in * c->row.kernel * c->col.kernel;
    LAUNCH(conv_w, sg_blocks(count, 1), x, y, w);
}
