// product_split.cuh - numbers of float32 as three of bfloat16, on their way from global to shared memory, for the tensor cores.
// The text before it says where they go: STAGE, the floats of all parts of both operands' tiles, and place_a and place_b with PLANE, the
// bytes of one part, and `at`, the byte of (row + down, column + across), where `down` and `across` are known when compiled.
//
// Numbers that bfloat16 holds (labels, counts, rows with one 1) have no rests m and l: the lower half of their bits is zero. Such are
// what a layer reads, which is a in x W^T, and b in the derivative dy^T x. As long as all that a warp has seen of this operand are such it
// does not split them, and where that is so of all warps, products with its other parts are left out, which are zeros.

#include "product_parts.h"

// Threads side by side along a row of `packs`: so many that each row is whole threads, and all threads have rows.
constexpr int side_by_side(int packs, int rows)
{
    int wide = packs & -packs;
    return THREADS % wide == 0 && THREADS / wide <= rows ? wide : packs;
}

// This thread's part of a tile of R x C numbers, on its way from global to shared memory. V: floats of one load. A thread has
// neighbouring numbers of every DOWN-th row, TIMES along each, whose addresses differ by constants.
template <int R, int C, int V, class PLACE> struct passing {
    static constexpr int W = V == 4 ? 4 : 2, WIDE = side_by_side(C / W, R), TIMES = C / W / WIDE, DOWN = THREADS / WIDE,
                         EACH = (R + DOWN - 1) / DOWN;
    float x[EACH][TIMES][W];
    bool rests = false; // has this warp seen rests? If not, in so many stages there may be others than zeros in their place.
    int strange = 2;    // Both are the same in the whole warp.

    __device__ static __forceinline__ int row() { return threadIdx.x / WIDE; }
    __device__ static __forceinline__ int column() { return threadIdx.x % WIDE * W; }
    // Threads that do not make up a row have none.
    __device__ static __forceinline__ bool has(int i)
    {
        return (THREADS % WIDE == 0 || row() < DOWN) && (R % DOWN == 0 || row() + i * DOWN < R);
    }

    // Zeros where the matrix has no such row or column: there are ROWS and COLUMNS of them, or where that is 0, `rest`.
    template <int STEP, int ROWS, int COLUMNS> __device__ __forceinline__ void load(const float *tile, int rest)
    {
        const float *from = tile + (size_t)row() * STEP + column();
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            bool line = has(i) && ((i + 1) * DOWN <= ROWS || row() + i * DOWN < (ROWS ? ROWS : rest));
#pragma unroll
            for (int j = 0; j < TIMES; j++) {
                const float *at = from + (size_t)(i * DOWN) * STEP + j * WIDE * W;
                const auto inside = [&](int w) {
                    return (j + 1) * WIDE * W <= COLUMNS || column() + j * WIDE * W + w < (COLUMNS ? COLUMNS : rest);
                };
                if constexpr (V == 4) {
                    float4 v = line && inside(0) ? *(const float4 *)at : make_float4(0, 0, 0, 0);
                    x[i][j][0] = v.x, x[i][j][1] = v.y, x[i][j][2] = v.z, x[i][j][3] = v.w;
                } else {
                    x[i][j][0] = line && inside(0) ? at[0] : 0;
                    x[i][j][1] = line && inside(1) ? at[1] : 0;
                }
            }
        }
    }

    __device__ __forceinline__ bool has_rests() const
    {
        unsigned bits = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int j = 0; j < TIMES; j++)
#pragma unroll
                for (int w = 0; w < W; w++)
                    bits |= __float_as_uint(x[i][j][w]);
        return (bits & 0xffff) != 0;
    }

    // PART (i, j, q) has the words of parts FIRST to LAST of pair q.
    template <int FIRST, int LAST, class PART> __device__ __forceinline__ void store_parts(char *tile, PART part_of) const
    {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (!has(i))
                break;
#pragma unroll
            for (int j = 0; j < TIMES; j++) {
                unsigned part[3][W / 2];
#pragma unroll
                for (int q = 0; q < W / 2; q++)
                    part_of(x[i][j][2 * q], x[i][j][2 * q + 1], part[0][q], part[1][q], part[2][q]);
#pragma unroll
                for (int p = FIRST; p <= LAST; p++) {
                    char *at = tile + p * PLACE::PLANE + PLACE::at(row(), i * DOWN, column(), j * WIDE * W);
                    if constexpr (W == 4)
                        *(uint2 *)at = make_uint2(part[p][0], part[p][1]);
                    else
                        *(unsigned *)at = part[p][0];
                }
            }
        }
    }

    template <bool TESTS> __device__ __forceinline__ void store(char *tile)
    {
        const auto split = [](float x, float y, unsigned &h, unsigned &m, unsigned &l) { split_pair(x, y, h, m, l); };
        const auto zero = [](float, float, unsigned &, unsigned &m, unsigned &l) { m = l = 0; };
        rests = !TESTS || rests || __any_sync(0xffffffffu, has_rests());
        if (rests) {
            store_parts<0, 2>(tile, split);
            return;
        }
        store_parts<0, 0>(tile, split);
        if (strange > 0)
            store_parts<1, 2>(tile, zero);
        strange--;
    }
};

typedef passing<TA ? BK : BM, TA ? BM : BK, VA, place_a> passing_a;
typedef passing<TB ? BN : BK, TB ? BK : BN, VB, place_b> passing_b;

// The stage of `terms` terms from a and b, which point to the first; of BK terms, or of any number if TERMS is 0.
template <int TERMS>
__device__ __forceinline__ void load_stage(passing_a &pa, passing_b &pb, const float *a, const float *b, int terms)
{
    constexpr int ROWS = M < BM ? M : BM, COLUMNS = N < BN ? N : BN;
    if constexpr (TA)
        pa.load<M, TERMS, ROWS>(a, terms);
    else
        pa.load<K, ROWS, TERMS>(a, terms);
    if constexpr (TB)
        pb.load<K, COLUMNS, TERMS>(b, terms);
    else
        pb.load<N, TERMS, COLUMNS>(b, terms);
}

// Which operand may have no rests.
constexpr bool TESTS_A = !TA;

// The operands of a tile, stage after stage.
struct stages {
    passing_a pa;
    passing_b pb;
    const float *a, *b;

    __device__ __forceinline__ stages(const float *all_a, const float *all_b, int row, int column, int first)
    {
        a = all_a + (TA ? (size_t)first * M + row : (size_t)row * K + first);
        b = all_b + (TB ? (size_t)column * K + first : (size_t)first * N + column);
    }

    __device__ __forceinline__ void load(int terms)
    {
        if (terms >= BK)
            load_stage<BK>(pa, pb, a, b, terms);
        else if (terms > 0)
            load_stage<0>(pa, pb, a, b, terms);
        a += TA ? BK * M : BK;
        b += TB ? BK : BK * N;
    }

    // Are there rests of the operand that may have none?
    __device__ __forceinline__ bool store(int at)
    {
        char *to = (char *)(product_memory + at * STAGE);
        pa.store<TESTS_A>(to);
        pb.store<!TESTS_A>(to + 3 * place_a::PLANE);
        return TESTS_A ? pa.rests : pb.rests;
    }
};
