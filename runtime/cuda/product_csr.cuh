// product_csr.cuh - the product of sparse rows and a matrix, compiled with NVRTC together with the steps that follow it
// (chain_source.c). product_csr.c states the constants before this text: LINES and WIDTH of the result, ROWS of the matrix, CAPACITY for
// non-zeros, and GROUPS.
//
// A block computes COLUMNS of one line: its warps take every eighth non-zero, and their sums are added in the order of the warps, as
// product_shared of csr.cu has it, to the same bits.
#include "runtime/cuda/csr_read.cuh"

constexpr int V4 = 4, LANES = 32, THREADS = 256, WARPS = THREADS / LANES, COLUMNS = LANES * V4 * GROUPS;
constexpr int ACROSS = (WIDTH + COLUMNS - 1) / COLUMNS;
constexpr index NOWHERE = ~(index)0;
#define PRODUCT_BOUNDS __launch_bounds__(THREADS)

struct product_operands {
    const float *value, *dense;
    const int *pointers, *column;
    sg_cuda_fault *fault;
    int site;
};
__device__ __forceinline__ product_operands product_further(const product_operands &of, unsigned long long bytes)
{
    return {sg_further(of.value, bytes),   sg_further(of.dense, bytes), sg_further(of.pointers, bytes),
            sg_further(of.column, bytes), of.fault,                    of.site};
}
__device__ __forceinline__ unsigned long long product_offset(unsigned long long stride) { return blockIdx.z * stride; }

__device__ __forceinline__ int product_line() { return blockIdx.x / ACROSS; }
__device__ __forceinline__ int product_column() { return blockIdx.x % ACROSS * COLUMNS; }

__shared__ __align__(16) float product_sums[WARPS][COLUMNS];

__device__ __forceinline__ void product_compute(const product_operands &of)
{
    const sg_cuda_csr c = {CAPACITY, LINES, ROWS, WIDTH, true, of.fault, of.site};
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, column = product_column() + lane * V4;
    int groups = column < WIDTH ? (WIDTH - column + LANES * V4 - 1) / (LANES * V4) : 0, begin, end;
    bool tells = product_column() == 0; // each non-zero is met by one lane of the first block of its line
    sg_csr_range(c, of.pointers, product_line(), tells && threadIdx.x == 0, &begin, &end);
    sg_pack<float, V4> sum[GROUPS] = {};
    for (int first = begin + warp; first < end; first += WARPS * LANES) {
        int left = (end - first + WARPS - 1) / WARPS;
        sg_csr_term own = {0, -1};
        if (lane < left)
            own = sg_csr_at(c, of.value, of.column, nullptr, first + WARPS * lane, tells);
        sg_csr_add_terms<V4, GROUPS, 8 / GROUPS>(sum, own, min(left, LANES), of.dense + column, WIDTH, groups);
    }
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
        sg_store(product_sums[warp] + (g * LANES + lane) * V4, sum[g]);
    __syncthreads();
}

// A thread finishes one element, or none.
static_assert(COLUMNS <= THREADS, "a thread for each column");
constexpr int W = 1, OWN = 1, EACH = 1;
constexpr bool EARLY = true;
__device__ __forceinline__ int first_pack() { return 0; }

struct product_places {
    index at[EACH];
    __device__ __forceinline__ explicit product_places(int)
    {
        int column = product_column() + threadIdx.x;
        at[0] = threadIdx.x < COLUMNS && column < WIDTH ? (index)product_line() * WIDTH + column : NOWHERE;
    }
};

#include "product_packs.h"

// Nothing that the steps read is held in shared memory.
template <product_access HOW, class T, class PLACE> __device__ __forceinline__ void product_hold(int, const T *, PLACE) {}
template <product_access HOW, class T, class PLACE>
__device__ __forceinline__ sg_pack<T, W> product_load(int, const T *from, int, const product_places &places, PLACE place)
{
    return product_read<HOW>(from, places, place);
}

__device__ __forceinline__ void product_elements(const product_operands &, int, const product_places &places, float (&v)[W])
{
    v[0] = 0;
    if (places.at[0] == NOWHERE)
        return;
    v[0] = product_sums[0][threadIdx.x];
#pragma unroll
    for (int warp = 1; warp < WARPS; warp++)
        v[0] += product_sums[warp][threadIdx.x];
}
