/* pool.cu - pooling: a thread for each element of the result. */
#include "runtime/cuda/rules.cuh"
#include "runtime/cuda/window.cuh"

/* The number that a mean over these taps is divided by. */
__device__ static inline float divisor(const sg_cuda_pool &p, int64_t rows, int64_t cols)
{
    return p.count_padding ? (float)(p.row.kernel * p.col.kernel) : (float)(rows * cols);
}

/* Element t of [planes, rows, cols]. */
__device__ static inline void place_in(int64_t t, int64_t rows, int64_t cols, int64_t *plane, int64_t *row, int64_t *col)
{
    int64_t rest;
    *col = sg_divide(t, cols, &rest);
    *row = sg_divide(rest, rows, plane);
}

/* The largest, of equals the first, a NaN before all. */
__global__ void max_pool(sg_cuda_pool p, const float *x, float *y, int32_t *at)
{
    int64_t count = p.planes * p.row.places * p.col.places;
    for (int64_t t = sg_first(); t < count; t += sg_stride()) {
        int64_t plane, i, j, row, last_row, first_col, last_col;
        place_in(t, p.row.places, p.col.places, &plane, &i, &j);
        taps_of(p.row, i, &row, &last_row);
        taps_of(p.col, j, &first_col, &last_col);
        const float *in = x + plane * p.row.size * p.col.size;
        placed best = argmax_rule::none();
        for (; row < last_row; row++)
            for (int64_t col = first_col; col < last_col; col++) {
                int64_t place = element_of(p.row, i, row) * p.col.size + element_of(p.col, j, col);
                best = argmax_rule::join(best, argmax_rule::of(in[place], place));
            }
        y[t] = best.x;
        at[t] = best.at;
    }
}

__global__ void avg_pool(sg_cuda_pool p, const float *x, float *y)
{
    int64_t count = p.planes * p.row.places * p.col.places;
    for (int64_t t = sg_first(); t < count; t += sg_stride()) {
        int64_t plane, i, j, first_row, last_row, first_col, last_col;
        place_in(t, p.row.places, p.col.places, &plane, &i, &j);
        taps_of(p.row, i, &first_row, &last_row);
        taps_of(p.col, j, &first_col, &last_col);
        const float *in = x + plane * p.row.size * p.col.size;
        float sum = 0;
        for (int64_t row = first_row; row < last_row; row++)
            for (int64_t col = first_col; col < last_col; col++)
                sum += in[element_of(p.row, i, row) * p.col.size + element_of(p.col, j, col)];
        y[t] = sum / divisor(p, last_row - first_row, last_col - first_col);
    }
}

/* Each element of the plane collects the shares of the places that cover it. */
__global__ void avg_pool_grad(sg_cuda_pool p, const float *y, float *x)
{
    int64_t count = p.planes * p.row.size * p.col.size;
    for (int64_t t = sg_first(); t < count; t += sg_stride()) {
        int64_t plane, r, q, first_row, last_row, first_col, last_col;
        place_in(t, p.row.size, p.col.size, &plane, &r, &q);
        const float *in = y + plane * p.row.places * p.col.places;
        float sum = 0;
        for (int64_t row = 0; row < p.row.kernel; row++) {
            int64_t i = place_of(p.row, r, row);
            if (i < 0)
                continue;
            taps_of(p.row, i, &first_row, &last_row);
            for (int64_t col = 0; col < p.col.kernel; col++) {
                int64_t j = place_of(p.col, q, col);
                if (j < 0)
                    continue;
                taps_of(p.col, j, &first_col, &last_col);
                sum += in[i * p.col.places + j] / divisor(p, last_row - first_row, last_col - first_col);
            }
        }
        x[t] = sum;
    }
}

extern "C" void sg_cuda_max_pool(const sg_cuda_pool *p, const float *x, float *y, int32_t *at, cudaStream_t stream)
{
    unsigned blocks = sg_blocks(p->planes * p->row.places * p->col.places, SG_BLOCK);
    SG_CUDA_LAUNCH(max_pool, blocks, SG_BLOCK, stream, *p, x, y, at);
}

extern "C" void sg_cuda_avg_pool(const sg_cuda_pool *p, const float *x, float *y, cudaStream_t stream)
{
    unsigned blocks = sg_blocks(p->planes * p->row.places * p->col.places, SG_BLOCK);
    SG_CUDA_LAUNCH(avg_pool, blocks, SG_BLOCK, stream, *p, x, y);
}

extern "C" void sg_cuda_avg_pool_grad(const sg_cuda_pool *p, const float *y, float *x, cudaStream_t stream)
{
    unsigned blocks = sg_blocks(p->planes * p->row.size * p->col.size, SG_BLOCK);
    SG_CUDA_LAUNCH(avg_pool_grad, blocks, SG_BLOCK, stream, *p, y, x);
}
