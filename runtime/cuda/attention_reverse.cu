/* attention_reverse.cu - the reverse derivative of attention. */
#include "runtime/cuda/attention_launch.cuh"
#include "runtime/cuda/replica.cuh"

template <class S, bool DROP>
static void statistics(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream)
{
    SG_LAUNCH_SHARED((attention_statistics<S, false, DROP>), sg_attention_blocks<S>(*a, (int)sg_padded_queries(*a)),
                     S::THREADS, (sg_statistics_memory<S, false>::BYTES), stream, *a, *x);
}

template <class S, bool DROP>
static void queries(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream)
{
    SG_LAUNCH_SHARED((attention_queries<S, false, DROP>), sg_attention_blocks<S>(*a, a->queries), S::THREADS,
                     (sg_query_memory<S, false>::BYTES), stream, *a, *x);
}

template <class S, bool DROP>
static void keys(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream)
{
    SG_LAUNCH_SHARED((attention_keys<S, false, DROP>), sg_attention_blocks<S>(*a, a->keys), S::THREADS,
                     (sg_key_memory<S, false>::BYTES), stream, *a, *x);
}

typedef sg_tiling<sg_bf16_bits, 64, 4, 1, 64, true, 3> statistics_narrow;
typedef sg_tiling<sg_bf16_bits, 64, 4, 1, 64, true, 3> queries_narrow;
typedef sg_tiling<sg_bf16_bits, 64, 4, 1, 64, true, 2> keys_narrow;
typedef sg_tiling<sg_bf16_bits, 128, 4, 1, 32, false> wide;

extern "C" size_t sg_cuda_attention_rows_bytes(const sg_cuda_attention *a)
{
    return SG_ATTENTION_PLANES * sizeof(float) * (size_t)a->batch * (size_t)a->heads * (size_t)sg_padded_queries(*a);
}

__device__ static inline float dot_pair(uint32_t a, uint32_t b)
{
    return fmaf(__uint_as_float(a << 16), __uint_as_float(b << 16),
                __uint_as_float(a & 0xffff0000u) * __uint_as_float(b & 0xffff0000u));
}

/* Numbers of queries where these are whole: eight lanes a query of bf16. */
__global__ void attention_rows(const sg_cuda_attention a, const sg_cuda_attention_operands x)
{
    const int64_t padded = sg_padded_queries(a), row = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 8;
    const int head = (int)(row / padded), query = (int)(row % padded), b = head / a.heads, h = head % a.heads;
    const int64_t at = b * a.out.batch + h * a.out.head + query * a.out.row, number = (int64_t)head * a.queries + query;
    float d = 0, lse = -INFINITY;
    sg_wait();
    if (query < a.queries) {
        lse = x.lse[number];
        const sg_bf16_bits *g = (const sg_bf16_bits *)x.g + at, *o = (const sg_bf16_bits *)x.o + at;
        if (x.g && a.width % 8 == 0 && (((uintptr_t)g | (uintptr_t)o) & 15) == 0)
            for (int c = threadIdx.x % 8 * 8; c < a.width; c += 64) {
                const uint4 left = *(const uint4 *)(g + c), right = *(const uint4 *)(o + c);
                d += dot_pair(left.x, right.x) + dot_pair(left.y, right.y) + dot_pair(left.z, right.z) +
                     dot_pair(left.w, right.w);
            }
        else
            for (int c = threadIdx.x % 8; x.g && c < a.width; c += 8)
                d = fmaf(sg_as_float(g[c]), sg_as_float(o[c]), d);
    }
    for (int mask = 1; mask < 8; mask *= 2)
        d += __shfl_xor_sync(0xffffffffu, d, mask);
    if (threadIdx.x % 8)
        return;
    const bool attends = lse != -INFINITY;
    sg_plane(a, x, SG_ATTENTION_SHIFT, head)[query] = attends ? lse * SG_LOG2_E : INFINITY;
    sg_plane(a, x, SG_ATTENTION_OVER, head)[query] = 1;
    sg_plane(a, x, SG_ATTENTION_D, head)[query] = attends ? d - (x.g_lse ? x.g_lse[number] : 0) : 0;
}

static void row_numbers(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream)
{
    if (!sg_rows_are_whole(a, x)) {
        SG_ATTENTION_CHOOSE(a, statistics, statistics_narrow, wide, a, x, stream);
        return;
    }
    const int64_t rows = (int64_t)a->batch * a->heads * sg_padded_queries(*a);
    sg_cuda_overlap(stream);
    SG_LAUNCH_SHARED(attention_rows, (unsigned)(rows / 32), 256, 0, stream, *a, *x);
}

/* ---- sums over rows */

extern "C" size_t sg_cuda_attention_parts_bytes(const sg_cuda_attention *a)
{
    return 3 * sizeof(float) * (size_t)sg_most_parts(*a) * (size_t)sg_sum_columns(*a);
}

enum { ACROSS = 32, DOWN = 32 };

/* Of what other kernels have left in memory: a block for each batch and head. */
template <class T>
__global__ void __launch_bounds__(ACROSS *DOWN)
    attention_sum_rows(const sg_cuda_attention a, const sg_cuda_attention_operands x, int which, const T *of,
                       sg_cuda_attention_layout l, int rows, int width)
{
    __shared__ float room[DOWN][ACROSS + 1];
    const int b = blockIdx.x / a.heads, h = blockIdx.x % a.heads, lane = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS;
    const T *from = of + b * l.batch + h * l.head;
    float *part = sg_part_at_head(a, x, which, b, h);
    for (int column = lane; column - lane < width; column += ACROSS) {
        float sum = 0;
        if (column < width)
            for (int i = down; i < rows; i += DOWN)
                sum += sg_as_float(from[i * l.row + column]);
        room[down][lane] = sum;
        __syncthreads();
        for (int k = 1; down == 0 && k < DOWN; k++)
            sum += room[k][lane];
        if (down == 0 && column < width)
            part[column] = sum;
        __syncthreads();
    }
}

/* Threads [DOWN][ACROSS]: each adds up every DOWN-th part of its column, and these are joined in order. */
__global__ void __launch_bounds__(ACROSS *DOWN)
    attention_add_parts(const sg_cuda_attention a, const sg_cuda_attention_operands x, int64_t of_queries, int64_t of_keys)
{
    __shared__ float room[DOWN][ACROSS + 1];
    const int which = blockIdx.y, columns = a.heads * (which == 2 ? a.width : a.depth);
    const int lane = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS, column = blockIdx.x * ACROSS + lane;
    const int64_t parts = which == 0 ? of_queries : of_keys;
    if (!x.sum[which])
        return;
    sg_wait();
    float sum = 0;
    if (column < columns)
#pragma unroll 4
        for (int64_t p = down; p < parts; p += DOWN)
            sum += sg_part_at_head(a, x, which, p, 0)[column];
    room[down][lane] = sum;
    __syncthreads();
    if (down > 0 || column >= columns)
        return;
    for (int k = 1; k < DOWN; k++)
        sum += room[k][lane];
    x.sum[which][column] = sum;
}

template <class T>
static void sum_rows(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream)
{
    const void *of[] = {x->dq, x->dk, x->dv};
    const sg_cuda_attention_layout l[] = {a->dq, a->dk, a->dv};
    const int rows[] = {a->queries, a->keys, a->keys}, width[] = {a->depth, a->depth, a->width};
    for (int w = 0; w < 3; w++)
        if (x->sum[w])
            SG_LAUNCH_SHARED(attention_sum_rows<T>, (unsigned)(a->batch * a->heads), ACROSS * DOWN, 0, stream, *a, *x, w,
                             (const T *)of[w], l[w], rows[w], width[w]);
}

static void add_parts(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, int64_t of_queries,
                      int64_t of_keys, cudaStream_t stream)
{
    const dim3 blocks((unsigned)(sg_sum_columns(*a) + ACROSS - 1) / ACROSS, 3);
    sg_cuda_overlap(stream);
    attention_add_parts<<<blocks, ACROSS * DOWN, 0, stream>>>(*a, *x, of_queries, of_keys);
}

extern "C" void sg_cuda_attention_sums(const sg_cuda_attention *a, const sg_cuda_attention_operands *x,
                                       cudaStream_t stream)
{
    if (!x->sum[0] && !x->sum[1] && !x->sum[2])
        return;
    if (sg_cuda_attention_hopper(a)) {
        add_parts(a, x, sg_cuda_attention_hopper_parts(a, 0), sg_cuda_attention_hopper_parts(a, 1), stream);
        return;
    }
    if (a->bf16)
        sum_rows<sg_bf16_bits>(a, x, stream);
    else
        sum_rows<float>(a, x, stream);
    add_parts(a, x, a->batch, a->batch, stream);
}

extern "C" void sg_cuda_attention_vjp(const sg_cuda_attention *a, const sg_cuda_attention_operands *x,
                                      cudaStream_t stream)
{
    const bool hopper = sg_cuda_attention_hopper(a);
    row_numbers(a, x, stream);
    if (x->dq && hopper)
        sg_cuda_attention_hopper_queries(a, x, false, stream);
    else if (x->dq)
        SG_ATTENTION_CHOOSE(a, queries, queries_narrow, wide, a, x, stream);
    if ((x->dk || x->dv) && hopper)
        sg_cuda_attention_hopper_keys(a, x, false, stream);
    else if (x->dk || x->dv)
        SG_ATTENTION_CHOOSE(a, keys, keys_narrow, wide, a, x, stream);
}
