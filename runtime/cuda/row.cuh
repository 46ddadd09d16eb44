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
    /* Only n elements are there. */
    __device__ void fill_first(const T *from, int n)
    {
#pragma unroll
        for (int i = 0; i < VEC; i++)
            if (i < n)
                e[i] = from[i];
    }
    __device__ void put(const float (&value)[VEC])
    {
#pragma unroll
        for (int i = 0; i < VEC; i++)
            sg_round(value[i], &e[i]);
    }
};

/* Pairs of bfloat16, the first in the lower half of a word: unpacked and packed by one instruction each. */
template <int VEC> struct alignas(2 * VEC) sg_pairs {
    uint32_t word[VEC / 2];

    __device__ float operator[](int i) const
    {
        uint32_t bits = i % 2 ? word[i / 2] & 0xffff0000u : word[i / 2] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    __device__ void fill_first(const sg_bf16 *from, int n)
    {
#pragma unroll
        for (int i = 0; i < VEC; i++)
            if (i < n)
                word[i / 2] |= (uint32_t)from[i].bits << (i % 2 * 16);
    }
    __device__ void put(const float (&value)[VEC])
    {
#pragma unroll
        for (int i = 0; i < VEC; i += 2) {
#ifdef __CUDA_ARCH__
            asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word[i / 2]) : "f"(value[i + 1]), "f"(value[i]));
#else
            sg_bf16 low, high;
            sg_round(value[i], &low);
            sg_round(value[i + 1], &high);
            word[i / 2] = low.bits | (uint32_t)high.bits << 16;
#endif
        }
    }
};
template <> struct sg_piece<sg_bf16, 4> : sg_pairs<4> {};
template <> struct sg_piece<sg_bf16, 8> : sg_pairs<8> {};

/* Elements that a thread moves at once: 16 bytes. */
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
    piece.put(value);
    *reinterpret_cast<sg_piece<T, VEC> *>(to) = piece;
}

struct sg_team {
    int size, lane;
};

__device__ static inline sg_team sg_team_of(int size) { return {size, (int)threadIdx.x % size}; }

struct sg_join_sum {
    __device__ static float join(float a, float b) { return a + b; }
};

/* NaN is passed over. */
struct sg_join_max {
    __device__ static float join(float a, float b) { return fmaxf(a, b); }
};

/* value[] joined over the team, the same in all its threads. All threads of the block take part. `room` is shared memory, free to
 * be used again after the call. */
template <class J, int N> __device__ static inline void sg_team_join(sg_team team, float (&value)[N], float *room)
{
    int width = team.size < SG_WARP ? team.size : SG_WARP;
#pragma unroll
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
