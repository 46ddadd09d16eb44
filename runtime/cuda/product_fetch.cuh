// product_fetch.cuh - float32 on its way from global to shared memory, several stages ahead. The text before it says how the tiles
// lie there: PITCH_A and PITCH_B, the floats from one row to the next.

constexpr int SIZE_A = (TA ? BK : BM) * PITCH_A, SIZE_B = (TB ? BN : BK) * PITCH_B, STAGE = SIZE_A + SIZE_B;
constexpr bool SPLITS_NUMBERS = false;

template <int ROWS, int COLUMNS, int V, int PITCH, int STEP>
__device__ __forceinline__ void fetch(float *to, const float *from, int row, int rows, int column, int columns)
{
    constexpr int WIDE = COLUMNS / V, COUNT = ROWS * WIDE;
#pragma unroll
    for (int start = 0; start < COUNT; start += THREADS) {
        int e = start + threadIdx.x, r = e / WIDE, c = e % WIDE * V;
        if (COUNT % THREADS != 0 && e >= COUNT)
            break;
        bool inside = row + r < rows && column + c < columns;
        copy_async<V>(to + r * PITCH + c, inside ? from + (row + r) * STEP + column + c : from, inside);
    }
}

__device__ __forceinline__ void fetch_stage(float *to, const float *a, const float *b, int row, int column, int k,
                                            int end)
{
    if (TA)
        fetch<BK, BM, VA, PITCH_A, M>(to, a, k, end, row, M);
    else
        fetch<BM, BK, VA, PITCH_A, K>(to, a, row, M, k, end);
    if (TB)
        fetch<BN, BK, VB, PITCH_B, K>(to + SIZE_A, b, column, N, k, end);
    else
        fetch<BK, BN, VB, PITCH_B, N>(to + SIZE_A, b, k, end, column, N);
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// add(stage) for each stage of the terms from `first` to `end`. Stages past the end are empty: `end` leaves nothing inside.
template <class ADD>
__device__ __forceinline__ void each_stage(const float *a, const float *b, int row, int column, int first, int end,
                                           ADD add)
{
    int steps = first < end ? (end - first + BK - 1) / BK : 0;
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++)
        fetch_stage(product_memory + s * STAGE, a, b, row, column, first + s * BK, end);
#pragma unroll 1
    for (int s = 0, at = 0; s < steps; s++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        fetch_stage(product_memory + (at == 0 ? STAGES - 1 : at - 1) * STAGE, a, b, row, column,
                    first + (s + STAGES - 1) * BK, end);
        add(product_memory + at * STAGE);
        at = at + 1 == STAGES ? 0 : at + 1;
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
}
