/* sort.cu - positions sorted by index, stably. A few thousand are ranked by comparing each with all: one launch of some
 * microseconds. More go to the radix sort of the toolkit, which is stable and therefore has one answer. */
#include "runtime/cuda/device.cuh"
#include "runtime/cuda/index_internal.h"

#ifndef SG_CUDA_NO_CUB
#include <cub/device/device_radix_sort.cuh>
#endif

static const int64_t few_places = 8192;
enum { OWN = 4 /* positions that a warp ranks at once */ };

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

/* How many of the keys from `first` on to `end` go before each of the warp's own: those that are less, and with EQUAL also those that
 * are equal. Every lane counts its share. */
template <bool EQUAL>
__device__ static inline void count_before(const sg_cuda_index &s, const int32_t *index, int64_t first, int64_t end,
                                           const int32_t (&own)[OWN], int32_t (&before)[OWN])
{
#pragma unroll 4
    for (int64_t j = first + threadIdx.x % SG_WARP; j < end; j += SG_WARP) {
        int32_t key = key_of(s, index, j, false);
#pragma unroll
        for (int k = 0; k < OWN; k++)
            before[k] += EQUAL ? key <= own[k] : key < own[k];
    }
}

/* The place of position i is the number of positions before it. A warp ranks OWN neighbours. */
__global__ void rank_places(sg_cuda_index s, const int32_t *index, int32_t *key, int32_t *order)
{
    int lane = threadIdx.x % SG_WARP;
    for (int64_t base = sg_first() / SG_WARP * OWN; base < s.count; base += sg_stride() / SG_WARP * OWN) {
        int32_t own[OWN], before[OWN] = {};
#pragma unroll
        for (int k = 0; k < OWN; k++)
            own[k] = base + k < s.count ? key_of(s, index, base + k, lane == 0) : 0;
        count_before<true>(s, index, 0, base, own, before);
        count_before<false>(s, index, base + OWN, s.count, own, before);
#pragma unroll
        for (int k = 0; k < OWN; k++) {
            for (int mask = SG_WARP / 2; mask > 0; mask /= 2)
                before[k] += __shfl_xor_sync(0xffffffffu, before[k], mask);
#pragma unroll
            for (int other = 0; other < OWN; other++)
                before[k] += base + other < s.count && (own[other] < own[k] || (own[other] == own[k] && other < k));
            if (lane == 0 && base + k < s.count) {
                key[before[k]] = own[k];
                order[before[k]] = (int32_t)(base + k);
            }
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
    SG_CUDA_LAUNCH(rank_places, sg_blocks(s->count, OWN * SG_WARPS), SG_BLOCK, stream, *s, index, key, order);
}
