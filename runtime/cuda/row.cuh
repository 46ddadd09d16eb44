/* row.cuh - kernels that read a row once, keep it in registers, and need sums over it.
 *
 * A row belongs to a team of threads: 1 to 32 lanes of a warp (a power of two), or a whole block. Thread `lane` of the team holds
 * the pieces lane, lane + size, ... of the row, each of as many elements as a 16-byte access moves. */
#ifndef SG_CUDA_ROW_CUH
#define SG_CUDA_ROW_CUH

#include "runtime/cuda/device.cuh"

template <class T, int VEC> struct alignas(sizeof(T) * VEC) sg_piece {
    T e[VEC];
    __device__ float operator[](int i) const { return sg_float(e[i]); }
};

template <class T> struct sg_wide {
    enum { VEC = 16 / sizeof(T) };
};

template <int VEC, class T> __device__ static inline sg_piece<T, VEC> sg_load(const T *from)
{
    return *reinterpret_cast<const sg_piece<T, VEC> *>(from);
}

template <int VEC, class T> __device__ static inline void sg_store(T *to, const float (&value)[VEC])
{
    sg_piece<T, VEC> piece;
#pragma unroll
    for (int i = 0; i < VEC; i++)
        sg_round(value[i], &piece.e[i]);
    *reinterpret_cast<sg_piece<T, VEC> *>(to) = piece;
}

struct sg_team {
    int size, lane;
};

__device__ static inline sg_team sg_team_of(int size) { return {size, (int)threadIdx.x % size}; }

struct sg_join_sum {
    __device__ static float join(float a, float b) { return a + b; }
};

/* NaN stays. */
struct sg_join_max {
    __device__ static float join(float a, float b) { return b > a || b != b ? b : a; }
};

/* value[] joined over the team, the same in all its threads. All threads of the block take part. `room` is shared memory, free to
 * be used again after the call. */
template <class J, int N> __device__ static inline void sg_team_join(sg_team team, float (&value)[N], float *room)
{
    int width = team.size < SG_WARP ? team.size : SG_WARP;
    for (int mask = width / 2; mask > 0; mask /= 2)
#pragma unroll
        for (int i = 0; i < N; i++)
            value[i] = J::join(value[i], __shfl_xor_sync(0xffffffffu, value[i], mask));
    if (team.size <= SG_WARP)
        return;
    int warps = team.size / SG_WARP;
    if (team.lane % SG_WARP == 0)
#pragma unroll
        for (int i = 0; i < N; i++)
            room[team.lane / SG_WARP * N + i] = value[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; i++)
        value[i] = room[i];
    for (int w = 1; w < warps; w++)
#pragma unroll
        for (int i = 0; i < N; i++)
            value[i] = J::join(value[i], room[w * N + i]);
    __syncthreads();
}

template <int N> __device__ static inline void sg_team_sum(sg_team team, float (&value)[N], float *room)
{
    sg_team_join<sg_join_sum, N>(team, value, room);
}

#endif
