// product_split.cuh - numbers of float32 as three of bfloat16, on their way from global to shared memory, for the tensor cores.
// The text before it says where they go: STAGE, the floats of all parts of both operands' tiles and RESTS more, and place_a and place_b with
// PLANE, the bytes of one part, and `at`, the byte of (row + down, column), where `down` is known when compiled.
//
// Numbers that bfloat16 holds (labels, counts, rows with one 1) have no rests m and l: the lower half of their bits is zero. A warp
// whose numbers of a stage are all such does not split them, and where that is so of all numbers of an operand in a stage, products
// with its other parts are left out, which are zeros.

#include "product_parts.h"

// This thread's part of a tile of R x C numbers, on its way from global to shared memory. V: floats of one load. A thread has
// neighbouring numbers of every DOWN-th row, whose addresses differ by constants.
template <int R, int C, int V, class PLACE> struct passing {
    static constexpr int W = V == 4 ? 4 : 2, WIDE = C / W, DOWN = THREADS / WIDE, EACH = (R + DOWN - 1) / DOWN;
    float x[EACH][W];
    unsigned stale = ~0u; // by stage, whether this warp's rests there are not zero; the same in the whole warp

    __device__ static __forceinline__ int row() { return threadIdx.x / WIDE; }
    __device__ static __forceinline__ int column() { return threadIdx.x % WIDE * W; }
    // Threads that do not make up a row have none.
    __device__ static __forceinline__ bool has(int i)
    {
        return (THREADS % WIDE == 0 || row() < DOWN) && (R % DOWN == 0 || row() + i * DOWN < R);
    }

    // Zeros where the rest of the matrix has no such row or column.
    template <int STEP> __device__ __forceinline__ void load(const float *tile, int rows, int columns)
    {
        const float *from = tile + (size_t)row() * STEP + column();
        int lines = rows - row();
        bool inside = column() < columns, both = column() + 1 < columns;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const float *at = from + (size_t)(i * DOWN) * STEP;
            bool line = has(i) && i * DOWN < lines;
            if constexpr (V == 4) {
                float4 v = line && inside ? *(const float4 *)at : make_float4(0, 0, 0, 0);
                x[i][0] = v.x, x[i][1] = v.y, x[i][2] = v.z, x[i][3] = v.w;
            } else {
                x[i][0] = line && inside ? at[0] : 0;
                x[i][1] = line && both ? at[1] : 0;
            }
        }
    }

    __device__ __forceinline__ bool has_rests() const
    {
        unsigned bits = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int w = 0; w < W; w++)
                bits |= __float_as_uint(x[i][w]);
        return (bits & 0xffff) != 0;
    }

    template <int PARTS> __device__ __forceinline__ void store_parts(char *tile) const
    {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            unsigned part[3][W / 2];
            if (!has(i))
                break;
#pragma unroll
            for (int q = 0; q < W / 2; q++)
                split_pair(x[i][2 * q], x[i][2 * q + 1], part[0][q], part[1][q], part[2][q]);
#pragma unroll
            for (int p = 0; p < PARTS; p++) {
                char *at = tile + p * PLACE::PLANE + PLACE::at(row(), i * DOWN, column());
                if constexpr (W == 4)
                    *(uint2 *)at = make_uint2(part[p][0], part[p][1]);
                else
                    *(unsigned *)at = part[p][0];
            }
        }
    }

    // True if the warp has rests.
    __device__ __forceinline__ bool store(char *tile, int stage)
    {
        bool rests = __any_sync(0xffffffffu, has_rests());
        if (rests || stale >> stage & 1)
            store_parts<3>(tile);
        else
            store_parts<1>(tile);
        stale = (stale & ~(1u << stage)) | (unsigned)rests << stage;
        return rests;
    }
};

typedef passing<TA ? BK : BM, TA ? BM : BK, VA, place_a> passing_a;
typedef passing<TB ? BN : BK, TB ? BK : BN, VB, place_b> passing_b;

// The stage of `terms` terms from a and b, which point to the first, of as many rows and columns.
__device__ __forceinline__ void load_stage(passing_a &pa, passing_b &pb, const float *a, const float *b, int rows,
                                           int columns, int terms)
{
    if constexpr (TA)
        pa.load<M>(a, terms, rows);
    else
        pa.load<K>(a, rows, terms);
    if constexpr (TB)
        pb.load<K>(b, columns, terms);
    else
        pb.load<N>(b, terms, columns);
}

// At the end of a stage, a byte of each warp: bits 0 and 1 say in which operand its numbers have rests.
static_assert(THREADS / 32 <= 4 * RESTS && THREADS % 128 == 0, "a byte of each warp");
__device__ __forceinline__ unsigned char *rests_of(int at)
{
    return (unsigned char *)(product_memory + (at + 1) * STAGE - RESTS);
}
__device__ __forceinline__ bool has_rests(int at, int operand)
{
    unsigned bits = 0;
#pragma unroll
    for (int w = 0; w < THREADS / 128; w++)
        bits |= ((const unsigned *)rests_of(at))[w];
    return __any_sync(0xffffffffu, bits & 0x01010101u << operand);
}

__device__ __forceinline__ void store_stage(passing_a &pa, passing_b &pb, int at)
{
    char *to = (char *)(product_memory + at * STAGE);
    bool a = pa.store(to, at), b = pb.store(to + 3 * place_a::PLANE, at);
    if (threadIdx.x % 32 == 0)
        rests_of(at)[threadIdx.x / 32] = a | b << 1;
}
