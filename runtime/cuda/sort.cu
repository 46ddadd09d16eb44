/* sort.cu - positions sorted by index, stably. A few thousand are ranked by comparing each with all: one launch of some
 * microseconds. More go to the radix sort of the toolkit, which is stable and therefore has one answer. */
#include "runtime/cuda/device.cuh"
#include "runtime/cuda/index_internal.h"

#ifndef SG_CUDA_NO_CUB
#include <cub/device/device_radix_sort.cuh>
#endif

static const int64_t few_places = 16384;

/* The index, or `rows` if it is out of range; only then `raise` matters. */
__device__ static inline int32_t key_of(const sg_cuda_index &s, const int32_t *index, int64_t i, bool raise)
{
    int32_t key = index[i];
    if (key >= 0 && key < s.rows)
        return key;
    if (raise)
        sg_cuda_raise_at(s.fault, s.site, SG_CUDA_INDEX_RANGE, i, key, 0, s.rows);
    return (int32_t)s.rows;
}

/* The place of position i is the number of positions before it. */
__global__ void rank_places(sg_cuda_index s, const int32_t *index, int32_t *key, int32_t *order)
{
    __shared__ int32_t tile[SG_BLOCK];
    for (int64_t base = (int64_t)blockIdx.x * SG_BLOCK; base < s.count; base += (int64_t)gridDim.x * SG_BLOCK) {
        int64_t i = base + threadIdx.x;
        int32_t own = i < s.count ? key_of(s, index, i, true) : 0;
        int64_t place = 0;
        for (int64_t first = 0; first < s.count; first += SG_BLOCK) {
            int64_t other = first + threadIdx.x;
            if (other < s.count)
                tile[threadIdx.x] = key_of(s, index, other, false);
            __syncthreads();
            int n = (int)(s.count - first < SG_BLOCK ? s.count - first : SG_BLOCK);
            for (int k = 0; k < n; k++)
                place += tile[k] < own || (tile[k] == own && first + k < i);
            __syncthreads();
        }
        if (i < s.count) {
            key[place] = own;
            order[place] = (int32_t)i;
        }
    }
}

#ifndef SG_CUDA_NO_CUB

__global__ void number_places(sg_cuda_index s, const int32_t *index, uint32_t *key, int32_t *order)
{
    for (int64_t i = sg_first(); i < s.count; i += sg_stride()) {
        key[i] = (uint32_t)key_of(s, index, i, true);
        order[i] = (int32_t)i;
    }
}

/* Keys are in [0, rows]. */
static int key_bits(int64_t rows)
{
    int bits = 1;
    while (bits < 32 && rows >> bits)
        bits++;
    return bits;
}

static size_t whole_lines(size_t bytes) { return (bytes + 255) / 256 * 256; }

static size_t radix_bytes(int64_t count, int64_t rows)
{
    size_t bytes = 0;
    uint32_t *key = NULL;
    int32_t *order = NULL;
    cub::DeviceRadixSort::SortPairs(NULL, bytes, key, key, order, order, (int)count, 0, key_bits(rows));
    return bytes;
}

size_t sg_cuda_sort_bytes(int64_t count, int64_t rows)
{
    if (count <= few_places)
        return 0;
    return 2 * whole_lines((size_t)count * sizeof(int32_t)) + radix_bytes(count, rows);
}

static void radix_sort(const sg_cuda_index *s, const int32_t *index, int32_t *key, int32_t *order, void *room,
                       size_t room_bytes, cudaStream_t stream)
{
    size_t part = whole_lines((size_t)s->count * sizeof(int32_t)), bytes = room_bytes - 2 * part;
    uint32_t *from_key = (uint32_t *)room;
    int32_t *from_order = (int32_t *)((char *)room + part);
    SG_CUDA_LAUNCH(number_places, sg_blocks(s->count, SG_BLOCK), SG_BLOCK, stream, *s, index, from_key, from_order);
    cub::DeviceRadixSort::SortPairs((char *)room + 2 * part, bytes, from_key, (uint32_t *)key, from_order, order,
                                    (int)s->count, 0, key_bits(s->rows), stream);
}

#endif

extern "C" void sg_cuda_sort(const sg_cuda_index *s, const int32_t *index, int32_t *key, int32_t *order, void *room,
                             size_t room_bytes, cudaStream_t stream)
{
#ifndef SG_CUDA_NO_CUB
    if (s->count > few_places) {
        radix_sort(s, index, key, order, room, room_bytes, stream);
        return;
    }
#endif
    (void)room, (void)room_bytes;
    SG_CUDA_LAUNCH(rank_places, sg_blocks(s->count, SG_BLOCK), SG_BLOCK, stream, *s, index, key, order);
}
