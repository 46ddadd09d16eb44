// product_fetch.cuh - float32 on its way from global to shared memory, several stages ahead. The text before it says how the tiles
// lie there: PITCH_A and PITCH_B, the floats from one row to the next.

constexpr int SIZE_A = (TA ? BK : BM) * PITCH_A, SIZE_B = (TB ? BN : BK) * PITCH_B, STAGE = SIZE_A + SIZE_B;
constexpr bool SPLITS_NUMBERS = false;

// A thread copies words of every DOWN-th row, whose addresses differ by constants.
template <int ROWS, int COLUMNS, int V, int PITCH, int STEP>
__device__ __forceinline__ void fetch(float *to, const float *from, int row, int rows, int column, int columns)
{
    constexpr int WIDE = COLUMNS / V, DOWN = THREADS / WIDE, EACH = (ROWS + DOWN - 1) / DOWN;
    static_assert(THREADS % WIDE == 0, "a row of the tile is not a whole number of threads");
    int r = threadIdx.x / WIDE, c = threadIdx.x % WIDE * V, left = column + c < columns ? rows - row - r : 0;
    from += (row + r) * STEP + column + c;
    to += r * PITCH + c;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (ROWS % DOWN != 0 && r + i * DOWN >= ROWS)
            break;
        copy_async<V>(to + i * DOWN * PITCH, from + i * DOWN * STEP, i * DOWN < left);
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
