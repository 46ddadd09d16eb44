// gelu_sums.cuh - g gelu'(x) of bf16 and its sum over rows. A thread has the same columns in all rows of its block, some rows at a time;
// one row of sums is left for each block, and a second launch adds these. Compiled with NVRTC, as chains are, each kernel by itself
// (gelu_sums.c).
enum { PACK = 8, ROWS = 4, ACROSS = 32, DOWN = 32 };
typedef sg_pack<sg_bf16, PACK> pack;

#ifndef ADD_PARTS
extern "C" __global__ void __launch_bounds__(512)
    gelu_sums(long long rows, long long chunk, int columns, const sg_bf16 *x, const sg_bf16 *g, sg_bf16 *out, float *parts)
{
    const long long begin = blockIdx.x * chunk, end = rows - begin < chunk ? rows : begin + chunk;
    const int column = threadIdx.x * PACK;
    float sum[PACK] = {};
    sg_wait();
    for (long long first = begin; first < end; first += ROWS) {
        pack xs[ROWS], gs[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (first + r < end) {
                xs[r] = sg_load<PACK>(x + (first + r) * columns + column);
                gs[r] = sg_load<PACK>(g + (first + r) * columns + column);
            }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (first + r < end) {
                pack y;
#pragma unroll
                for (int i = 0; i < PACK; i++) {
                    const float value = sg_read(gs[r].x[i]) * sg_low_gelu_derivative(sg_read(xs[r].x[i]));
                    sum[i] += value;
                    sg_write(&y.x[i], value);
                }
                sg_store(out + (first + r) * columns + column, y);
            }
    }
#pragma unroll
    for (int i = 0; i < PACK; i++)
        parts[blockIdx.x * (long long)columns + column + i] = sum[i];
}
#else
// Threads [DOWN][ACROSS]: each adds up every DOWN-th part of its column, and these are joined in order.
extern "C" __global__ void __launch_bounds__(1024) gelu_add_parts(int parts, int columns, const float *part, float *out)
{
    __shared__ float room[DOWN][ACROSS + 1];
    const int lane = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS, column = blockIdx.x * ACROSS + lane;
    float sum = 0;
    sg_wait();
    if (column < columns)
#pragma unroll 4
        for (int c = down; c < parts; c += DOWN)
            sum += part[c * (long long)columns + column];
    room[down][lane] = sum;
    __syncthreads();
    if (down > 0 || column >= columns)
        return;
    for (int k = 1; k < DOWN; k++)
        sum += room[k][lane];
    out[column] = sum;
}
#endif
