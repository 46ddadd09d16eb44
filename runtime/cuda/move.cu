/* move.cu - copies between layouts, in the widest words that all addresses allow. */
#include "runtime/cuda/device.cuh"
#include "runtime/cuda/move_internal.h"

/* -------------------------------------------------------------------------------------------------------- pieces */

enum { AT_ONCE = 4 }; /* words that a thread has on their way */

/* The blocks of one y work on one piece of one replica. */
__device__ static inline size_t replica_offset(const sg_cuda_pieces &all, size_t stride)
{
    return blockIdx.y / all.count * stride;
}

template <class T> __global__ void move_pieces(const __grid_constant__ sg_cuda_pieces all, char *out, size_t stride)
{
    const sg_cuda_piece &p = all.piece[blockIdx.y % all.count];
    size_t offset = replica_offset(all, stride);
    int64_t size = sizeof(T), run = p.run / size, count = p.outer * run;
    int64_t from_step = p.from_step / size, to_step = p.to_step / size;
    const T *in = (const T *)(p.in + offset) + p.from / size;
    T *to = (T *)(out + offset) + p.to / size;
    for (int64_t first = (int64_t)blockIdx.x * AT_ONCE * SG_BLOCK + threadIdx.x; first < count;
         first += AT_ONCE * sg_stride()) {
        T word[AT_ONCE] = {};
        int64_t place[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            int64_t o, t = first + k * SG_BLOCK, i = sg_divide(t < count ? t : 0, run, &o);
            place[k] = o * to_step + i;
            if (p.in && t < count)
                word[k] = in[o * from_step + i];
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (first + k * SG_BLOCK < count)
                to[place[k]] = word[k];
    }
}

/* Pieces of long runs, a block of one z on a run: no divisions. */
template <class T> __global__ void move_runs(const __grid_constant__ sg_cuda_pieces all, char *out, size_t stride)
{
    const sg_cuda_piece &p = all.piece[blockIdx.y % all.count];
    size_t offset = replica_offset(all, stride);
    int64_t size = sizeof(T), run = p.run / size;
    for (int64_t o = blockIdx.z; o < p.outer; o += gridDim.z) {
        const T *in = (const T *)(p.in + offset) + (p.from + o * p.from_step) / size;
        T *to = (T *)(out + offset) + (p.to + o * p.to_step) / size;
        for (int64_t first = (int64_t)blockIdx.x * AT_ONCE * SG_BLOCK + threadIdx.x; first < run;
             first += AT_ONCE * sg_stride()) {
            T word[AT_ONCE] = {};
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++)
                if (p.in && first + k * SG_BLOCK < run)
                    word[k] = in[first + k * SG_BLOCK];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++)
                if (first + k * SG_BLOCK < run)
                    to[first + k * SG_BLOCK] = word[k];
        }
    }
}

template <class T> static void move(const sg_cuda_pieces *all, char *out, sg_cuda_where where)
{
    const int64_t long_run = AT_ONCE * SG_BLOCK / 2, most_runs = 1 << 15;
    unsigned rows = (unsigned)all->count * where.replicas;
    int64_t most = 0, longest = 0, outer = 0;
    for (int32_t i = 0; i < all->count; i++) {
        const sg_cuda_piece *p = &all->piece[i];
        most = p->outer * p->run > most ? p->outer * p->run : most;
        longest = p->run > longest ? p->run : longest;
        outer = p->outer > outer ? p->outer : outer;
    }
    int64_t words = longest / (int64_t)sizeof(T);
    if (words >= long_run)
        SG_CUDA_LAUNCH(move_runs<T>,
                       dim3(sg_blocks(words, AT_ONCE * SG_BLOCK), rows,
                            (unsigned)(outer < most_runs ? outer : most_runs)),
                       SG_BLOCK, where.stream, *all, out, where.stride);
    else
        SG_CUDA_LAUNCH(move_pieces<T>,
                       dim3(sg_blocks(most / (int64_t)sizeof(T), AT_ONCE * SG_BLOCK), rows), SG_BLOCK,
                       where.stream, *all, out, where.stride);
}

extern "C" void sg_cuda_move(const sg_cuda_pieces *all, void *out, sg_cuda_where where)
{
    uint64_t bits = (uint64_t)(uintptr_t)out;
    for (int32_t i = 0; i < all->count; i++) {
        const sg_cuda_piece *p = &all->piece[i];
        bits |= (uint64_t)(uintptr_t)p->in | (uint64_t)(p->run | p->from | p->from_step | p->to | p->to_step);
    }
    if (bits % 16 == 0)
        move<uint4>(all, (char *)out, where);
    else if (bits % 4 == 0)
        move<uint32_t>(all, (char *)out, where);
    else if (bits % 2 == 0)
        move<uint16_t>(all, (char *)out, where);
    else
        move<uint8_t>(all, (char *)out, where);
}

/* ------------------------------------------------------------------------------------------------------ transpose */

/* Offsets of position `at` of the axes other than `fast` and the last. */
__device__ static inline void offsets(const sg_cuda_transpose &t, int64_t at, int64_t *from, int64_t *to)
{
    *from = *to = 0;
    for (int32_t i = t.rank - 2; i >= 0; i--) {
        if (i == t.fast)
            continue;
        int64_t place = sg_divide(at, t.dim[i], &at);
        *from += place * t.from[i];
        *to += place * t.to[i];
    }
}

/* The last axis is contiguous on both sides. */
template <class T> __global__ void copy_rows(sg_cuda_transpose t, const T *x, T *y)
{
    int64_t last = t.dim[t.rank - 1], count = t.outer * last;
    for (int64_t i = sg_first(); i < count; i += sg_stride()) {
        int64_t row, column = sg_divide(i, last, &row), from, to;
        offsets(t, row, &from, &to);
        y[to + column] = x[from + column];
    }
}

/* Squares between `fast` and the last axis pass through shared memory, so that both sides move whole lines; the odd row length
 * keeps a column in different banks. */
enum { SIDE = 32, SQUARE_ROWS = SG_BLOCK / SIDE };

template <class T> __global__ void copy_squares(sg_cuda_transpose t, const T *x, T *y)
{
    __shared__ T square[SIDE][SIDE + 1];
    int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
    int32_t axis = t.rank - 1;
    int64_t n_fast = t.dim[t.fast], n_last = t.dim[axis], from_last = t.from[axis], to_fast = t.to[t.fast];
    int64_t across = (n_last + SIDE - 1) / SIDE, down = (n_fast + SIDE - 1) / SIDE;
    for (int64_t tile = blockIdx.x; tile < t.outer * across * down; tile += gridDim.x) {
        int64_t rest, outer, l = sg_divide(tile, across, &rest) * SIDE, f = sg_divide(rest, down, &outer) * SIDE;
        int64_t from, to;
        offsets(t, outer, &from, &to);
        for (int k = ty; k < SIDE; k += SQUARE_ROWS)
            if (l + k < n_last && f + tx < n_fast)
                square[k][tx] = x[from + (l + k) * from_last + f + tx];
        __syncthreads();
        for (int k = ty; k < SIDE; k += SQUARE_ROWS)
            if (f + k < n_fast && l + tx < n_last)
                y[to + (f + k) * to_fast + l + tx] = square[tx][k];
        __syncthreads();
    }
}

template <class T> static void run(const sg_cuda_transpose *t, const void *x, void *y, cudaStream_t stream)
{
    int64_t last = t->dim[t->rank - 1], fast = t->dim[t->fast];
    int64_t tiles = t->outer * ((last + SIDE - 1) / SIDE) * ((fast + SIDE - 1) / SIDE);
    if (t->fast == t->rank - 1)
        SG_CUDA_LAUNCH(copy_rows<T>, sg_blocks(t->outer * last, SG_BLOCK), SG_BLOCK, stream, *t, (const T *)x, (T *)y);
    else
        SG_CUDA_LAUNCH(copy_squares<T>, sg_blocks(tiles, 1), SG_BLOCK, stream, *t, (const T *)x, (T *)y);
}

extern "C" void sg_cuda_permute(const sg_cuda_transpose *t, const void *x, void *y, cudaStream_t stream)
{
    if (t->element == 16)
        run<uint4>(t, x, y, stream);
    else if (t->element == 4)
        run<uint32_t>(t, x, y, stream);
    else if (t->element == 2)
        run<uint16_t>(t, x, y, stream);
    else
        run<uint8_t>(t, x, y, stream);
}
