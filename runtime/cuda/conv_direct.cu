/* conv_direct.cu - convolutions and their gradients from the definition: a thread, or for weights a block, for each element of
 * the result. For windows that cuDNN does not have; simple, not fast. */
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

__global__ void conv_y(sg_cuda_conv c, const float *x, const float *w, float *y)
{
    int64_t channels = c.groups * c.out, count = c.images * channels * c.row.places * c.col.places;
    int64_t plane = c.row.size * c.col.size, taps = c.row.kernel * c.col.kernel;
    for (int64_t t = sg_first(); t < count; t += sg_stride()) {
        place4 at = place_in(t, channels, c.row.places, c.col.places);
        int64_t first_row, last_row, first_col, last_col;
        taps_of(c.row, at.c, &first_row, &last_row);
        taps_of(c.col, at.d, &first_col, &last_col);
        const float *from = x + (at.a * c.groups + at.b / c.out) * c.in * plane, *weight = w + at.b * c.in * taps;
        float sum = 0;
        for (int64_t k = 0; k < c.in; k++)
            for (int64_t row = first_row; row < last_row; row++)
                for (int64_t col = first_col; col < last_col; col++)
                    sum += from[k * plane + element_of(c.row, at.c, row) * c.col.size + element_of(c.col, at.d, col)] *
                           weight[k * taps + row * c.col.kernel + col];
        y[t] = sum;
    }
}

__global__ void conv_x(sg_cuda_conv c, const float *y, const float *w, float *x)
{
    int64_t channels = c.groups * c.in, count = c.images * channels * c.row.size * c.col.size;
    int64_t plane = c.row.places * c.col.places, taps = c.row.kernel * c.col.kernel;
    for (int64_t t = sg_first(); t < count; t += sg_stride()) {
        place4 at = place_in(t, channels, c.row.size, c.col.size);
        int64_t group = at.b / c.in, k = at.b % c.in;
        const float *from = y + (at.a * c.groups + group) * c.out * plane;
        const float *weight = w + (group * c.out * c.in + k) * taps;
        float sum = 0;
        for (int64_t row = 0; row < c.row.kernel; row++) {
            int64_t i = place_of(c.row, at.c, row);
            for (int64_t col = 0; i >= 0 && col < c.col.kernel; col++) {
                int64_t j = place_of(c.col, at.d, col);
                for (int64_t o = 0; j >= 0 && o < c.out; o++)
                    sum += from[o * plane + i * c.col.places + j] * weight[o * c.in * taps + row * c.col.kernel + col];
            }
        }
        x[t] = sum;
    }
}

__global__ void conv_w(sg_cuda_conv c, const float *x, const float *y, float *w)
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
            sum += x[((image * c.groups + group) * c.in + at.b) * plane + row * c.col.size + col] *
                   y[(image * c.groups * c.out + at.a) * places + place];
        }
        sum = sg_block_join<sum_rule>(sum, room);
        if (threadIdx.x == 0)
            w[t] = sum;
    }
}

extern "C" void sg_cuda_conv_y(const sg_cuda_conv *c, const float *x, const float *w, float *y, cudaStream_t stream)
{
    int64_t count = c->images * c->groups * c->out * c->row.places * c->col.places;
    SG_CUDA_LAUNCH(conv_y, sg_blocks(count, SG_BLOCK), SG_BLOCK, stream, *c, x, w, y);
}

extern "C" void sg_cuda_conv_x(const sg_cuda_conv *c, const float *y, const float *w, float *x, cudaStream_t stream)
{
    int64_t count = c->images * c->groups * c->in * c->row.size * c->col.size;
    SG_CUDA_LAUNCH(conv_x, sg_blocks(count, SG_BLOCK), SG_BLOCK, stream, *c, y, w, x);
}

extern "C" void sg_cuda_conv_w(const sg_cuda_conv *c, const float *x, const float *y, float *w, cudaStream_t stream)
{
    int64_t count = c->groups * c->out * c->in * c->row.kernel * c->col.kernel;
    SG_CUDA_LAUNCH(conv_w, sg_blocks(count, 1), SG_BLOCK, stream, *c, x, y, w);
}
