/* index.cu - rows and elements by index (sums of rows are in scatter_rows.cu). Elements with equal indices are summed by the thread or
 * warp that owns their column, in a fixed order. */
#include "runtime/cuda/index_internal.h"
#include "runtime/cuda/rules.cuh"

/* Is `i`, at a position, in [0, limit)? If not, the fault is raised. */
__device__ static inline bool in_range(int32_t i, int64_t position, int64_t limit, sg_cuda_fault *fault, int32_t site,
                                       bool raise)
{
    if (i >= 0 && i < limit)
        return true;
    if (raise)
        sg_cuda_raise_at(fault, site, SG_CUDA_INDEX_RANGE, position, i, 0, limit);
    return false;
}

/* ------------------------------------------------------------------------------------------------ check, gather */

__global__ void check_indices(sg_cuda_index s, const int32_t *index)
{
    for (int64_t i = sg_first(); i < s.count; i += sg_stride())
        in_range(index[i], i, s.rows, s.fault, s.site, true);
}

extern "C" void sg_cuda_check_indices(const sg_cuda_index *s, const int32_t *index, cudaStream_t stream)
{
    SG_CUDA_LAUNCH(check_indices, sg_blocks(s->count, SG_BLOCK), SG_BLOCK, stream, *s, index);
}

template <class T> __global__ void gather(sg_cuda_index s, int64_t words, const int32_t *index, const T *table, T *out)
{
    for (int64_t t = sg_first(); t < s.count * words; t += sg_stride()) {
        int64_t i, word = sg_divide(t, words, &i);
        int32_t row = index[i];
        T value = {};
        if (in_range(row, i, s.rows, s.fault, s.site, word == 0))
            value = table[row * words + word];
        out[t] = value;
    }
}

template <class T>
static void run_gather(const sg_cuda_index *s, const int32_t *index, const void *table, void *out, cudaStream_t stream)
{
    int64_t words = s->row_bytes / (int64_t)sizeof(T);
    SG_CUDA_LAUNCH(gather<T>, sg_blocks(s->count * words, SG_BLOCK), SG_BLOCK, stream, *s, words, index,
                   (const T *)table, (T *)out);
}

extern "C" void sg_cuda_gather(const sg_cuda_index *s, const int32_t *index, const void *table, void *out,
                               cudaStream_t stream)
{
    uint64_t bits = (uint64_t)(uintptr_t)table | (uint64_t)(uintptr_t)out | (uint64_t)s->row_bytes;
    if (bits % 16 == 0)
        run_gather<uint4>(s, index, table, out, stream);
    else if (bits % 4 == 0)
        run_gather<uint32_t>(s, index, table, out, stream);
    else if (bits % 2 == 0)
        run_gather<uint16_t>(s, index, table, out, stream);
    else
        run_gather<uint8_t>(s, index, table, out, stream);
}

__global__ void one_hot(sg_cuda_index s, const int32_t *index, float *out)
{
    for (int64_t t = sg_first(); t < s.count * s.rows; t += sg_stride()) {
        int64_t i, c = sg_divide(t, s.rows, &i);
        in_range(index[i], i, s.rows, s.fault, s.site, c == 0);
        out[t] = index[i] == c ? 1.0f : 0.0f;
    }
}

extern "C" void sg_cuda_one_hot(const sg_cuda_index *s, const int32_t *index, float *out, cudaStream_t stream)
{
    SG_CUDA_LAUNCH(one_hot, sg_blocks(s->count * s->rows, SG_BLOCK), SG_BLOCK, stream, *s, index, out);
}

/* ------------------------------------------------------------------------------------------------------ elements */

__global__ void fill(int64_t n, float value, float *out)
{
    for (int64_t i = sg_first(); i < n; i += sg_stride())
        out[i] = value;
}

template <class T> __global__ void gather_elements(sg_cuda_elements e, const int32_t *index, const T *in, T *out)
{
    int64_t slab = e.picks * e.inner, count = e.outer * slab;
    for (int64_t t = sg_first(); t < count; t += sg_stride()) {
        int64_t o, rest, within = sg_divide(t, slab, &o), column = sg_divide(within, e.inner, &rest);
        T value = {};
        if (in_range(index[t], t, e.size, e.fault, e.site, true))
            value = in[(o * e.size + index[t]) * e.inner + column];
        out[t] = value;
    }
}

extern "C" void sg_cuda_gather_elements(const sg_cuda_elements *e, const int32_t *index, const void *in, void *out,
                                        cudaStream_t stream)
{
    unsigned blocks = sg_blocks(e->outer * e->picks * e->inner, SG_BLOCK);
    if (e->element == 1)
        SG_CUDA_LAUNCH(gather_elements<uint8_t>, blocks, SG_BLOCK, stream, *e, index, (const uint8_t *)in,
                       (uint8_t *)out);
    else if (e->element == 2)
        SG_CUDA_LAUNCH(gather_elements<uint16_t>, blocks, SG_BLOCK, stream, *e, index, (const uint16_t *)in,
                       (uint16_t *)out);
    else
        SG_CUDA_LAUNCH(gather_elements<uint32_t>, blocks, SG_BLOCK, stream, *e, index, (const uint32_t *)in,
                       (uint32_t *)out);
}

/* Few picks: each element of the result looks for its own, in their order. */
__global__ void scatter_few(sg_cuda_elements e, const int32_t *index, const float *in, float *out)
{
    int64_t slab = e.size * e.inner, count = e.outer * slab;
    for (int64_t t = sg_first(); t < count; t += sg_stride()) {
        int64_t o, place, within = sg_divide(t, slab, &o), column = sg_divide(within, e.inner, &place);
        float sum = 0;
        for (int64_t k = 0; k < e.picks; k++) {
            int64_t from = (o * e.picks + k) * e.inner + column;
            if (!in_range(index[from], from, e.size, e.fault, e.site, place == 0))
                continue;
            if (index[from] == place)
                sum += in[from];
        }
        out[t] = sum;
    }
}

/* Many picks: a warp walks along a column, 32 picks at a time. Lanes with equal targets are summed in order of the lanes, and
 * the first of them adds the sum, so that no two write to one place. The result is filled with zeros before. */
__global__ void scatter_many(sg_cuda_elements e, const int32_t *index, const float *in, float *out)
{
    int lane = threadIdx.x % SG_WARP;
    for (int64_t t = sg_first() / SG_WARP; t < e.outer * e.inner; t += sg_stride() / SG_WARP) {
        int64_t o, column = sg_divide(t, e.inner, &o);
        float *to = out + o * e.size * e.inner + column;
        for (int64_t first = 0; first < e.picks; first += SG_WARP) {
            int64_t k = first + lane, from = (o * e.picks + k) * e.inner + column;
            int32_t target = k < e.picks ? index[from] : -1;
            float value = k < e.picks ? in[from] : 0, sum = 0;
            bool good = k < e.picks && in_range(target, from, e.size, e.fault, e.site, true);
            target = good ? target : -1;
            int owner = -1;
            for (int other = 0; other < SG_WARP; other++) {
                int32_t its = __shfl_sync(0xffffffffu, target, other);
                float add = __shfl_sync(0xffffffffu, value, other);
                if (its != target)
                    continue;
                sum += add;
                owner = owner < 0 ? other : owner;
            }
            if (good && owner == lane)
                to[target * e.inner] += sum;
            __syncwarp();
        }
    }
}

enum { FEW_PICKS = 64 };

extern "C" void sg_cuda_scatter_elements(const sg_cuda_elements *e, const int32_t *index, const float *in, float *out,
                                         cudaStream_t stream)
{
    int64_t count = e->outer * e->size * e->inner, columns = e->outer * e->inner;
    unsigned blocks = sg_blocks(count, SG_BLOCK);
    if (e->picks <= FEW_PICKS) {
        SG_CUDA_LAUNCH(scatter_few, blocks, SG_BLOCK, stream, *e, index, in, out);
        return;
    }
    SG_CUDA_LAUNCH(fill, blocks, SG_BLOCK, stream, count, 0.0f, out);
    SG_CUDA_LAUNCH(scatter_many, sg_blocks(columns, SG_WARPS), SG_BLOCK, stream, *e, index, in, out);
}
