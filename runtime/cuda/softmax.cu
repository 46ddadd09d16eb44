/* softmax.cu - softmax along contiguous rows, its logarithm, logsumexp, and cross-entropy with its derivatives, whose formulas are
 * those of runtime/cpu/cross_entropy.c. z is read once: a row lies in the registers of its team, as exponentials once its
 * largest element is known. A second operand of a row is read twice, from a cache the second time.
 *
 * Rows of any length are read in aligned pieces of 16 bytes: the first piece begins up to 15 bytes before the row, and elements
 * beside the row are left out. */
#include "runtime/cuda/row.cuh"
#include "runtime/cuda/softmax_internal.h"

/* How rows are cut: the type of elements, those of a piece, pieces of a thread, threads of a block. */
template <class E, int MOST, int THREADS> struct cut {
    typedef E T;
    enum { VEC = sg_wide<T>::VEC, HOLD = MOST / VEC, BLOCK = THREADS };
};
enum { MANY = 32, LARGE_MANY = 64, LARGE_BLOCK = 512 };

/* A row and the place of its first piece, which is not after its first element. */
template <class C> struct row_view {
    typedef typename C::T T;
    sg_team team;
    int64_t first; /* of the row in its tensor */
    int n, begin;  /* elements; place of the first piece in the row, <= 0 */

    __device__ row_view(sg_team t, int64_t r, int64_t width, bool live) : team(t)
    {
        first = r * width;
        n = live ? (int)width : 0;
        begin = -(int)(first % C::VEC);
    }
    /* f(k, at) for each piece of this thread that has elements of the row. */
    template <class F> __device__ void each(F f) const
    {
#pragma unroll
        for (int k = 0; k < C::HOLD; k++) {
            int at = (k * team.size + team.lane) * C::VEC + begin;
            if (at < n)
                f(k, at);
        }
    }
    __device__ bool whole(int at) const { return at >= 0 && at + C::VEC <= n; }

    __device__ void read(const void *tensor, int at, float outside, float (&value)[C::VEC]) const
    {
        const T *from = (const T *)tensor + first + at;
        if (whole(at)) {
            sg_piece<T, C::VEC> piece = sg_load<C::VEC>(from);
#pragma unroll
            for (int i = 0; i < C::VEC; i++)
                value[i] = piece[i];
            return;
        }
#pragma unroll
        for (int i = 0; i < C::VEC; i++)
            value[i] = at + i >= 0 && at + i < n ? sg_float(from[i]) : outside;
    }
    __device__ void write(void *tensor, int at, const float (&value)[C::VEC]) const
    {
        T *to = (T *)tensor + first + at;
        if (whole(at)) {
            sg_store(to, value);
            return;
        }
#pragma unroll
        for (int i = 0; i < C::VEC; i++)
            if (at + i >= 0 && at + i < n)
                sg_round(value[i], to + i);
    }
};

/* Exponentials of numbers <= 0. For results of 8 bits, 2^x of the unit for special functions is more than enough. */
template <class T> __device__ static inline float exponential(float x)
{
#ifdef __CUDA_ARCH__
    if (sizeof(T) == 2)
        return __expf(x);
#endif
    return expf(x);
}

/* What is known of a row after its exponentials: with a largest element `top` that is not finite, they stand for themselves (a
 * row of -inf is all zeros, +inf and NaN give NaN where they stand). */
struct row_sums {
    float top, sum;
    float others; /* the sum without one of the largest elements */
    float along;  /* sum of exponential times t */
};

/* e[k]: exponentials of the row, or elements less the largest if KEEP says so; zeros beside the row. */
template <class C, bool KEEP>
__device__ static inline row_sums exponentials_of(const row_view<C> &row, const void *z, const void *t, float *room,
                                                  float (&e)[C::HOLD][C::VEC])
{
    typedef typename C::T T;
    enum { VEC = C::VEC };
    float top[1] = {-INFINITY}, sum[3] = {0, 0, 0};
    row.each([&](int k, int at) { row.read(z, at, -INFINITY, e[k]); });
    row.each([&](int k, int) {
#pragma unroll
        for (int i = 0; i < VEC; i++)
            top[0] = sg_join_max::join(top[0], e[k][i]);
    });
    sg_team_join<sg_join_max, 1>(row.team, top, room);
    float shift = top[0] == -INFINITY ? 0 : top[0];
    row.each([&](int k, int at) {
        float along[VEC] = {};
        if (t)
            row.read(t, at, 0, along);
#pragma unroll
        for (int i = 0; i < VEC; i++) {
            float power = exponential<T>(e[k][i] - shift);
            bool largest = e[k][i] == top[0];
            sum[0] += largest ? 0 : power;
            sum[1] += largest ? 1 : 0;
            sum[2] += power * along[i];
            e[k][i] = KEEP ? e[k][i] - shift : power;
        }
    });
    sg_team_sum(row.team, sum, room);
    if (!isfinite(top[0]))
        return {top[0], 1, 0, sum[2]};
    return {top[0], sum[0] + sum[1], sum[0] + (sum[1] - 1), sum[2]};
}

__device__ static inline float number_at(const void *numbers, bool bf16, int64_t r)
{
    if (!numbers)
        return 0;
    return bf16 ? sg_float(((const sg_bf16 *)numbers)[r]) : ((const float *)numbers)[r];
}

template <class C>
__device__ static inline void softmax_row(const sg_cuda_softmax_rows &s, const row_view<C> &row, int64_t r, bool live,
                                          float *room)
{
    typedef typename C::T T;
    enum { VEC = C::VEC };
    float e[C::HOLD][VEC];
    if (s.kind == SG_CUDA_SOFTMAX) {
        row_sums m = exponentials_of<C, false>(row, s.z, NULL, room, e);
        float factor = 1 / m.sum;
        row.each([&](int k, int at) {
#pragma unroll
            for (int i = 0; i < VEC; i++)
                e[k][i] *= factor;
            row.write(s.out, at, e[k]);
        });
        return;
    }
    row_sums m = exponentials_of<C, true>(row, s.z, NULL, room, e);
    float rest = isfinite(m.top) ? logf(m.sum) : 0;
    if (s.kind == SG_CUDA_LOG_SOFTMAX)
        row.each([&](int k, int at) {
#pragma unroll
            for (int i = 0; i < VEC; i++)
                e[k][i] -= rest;
            row.write(s.out, at, e[k]);
        });
    else if (live && row.team.lane == 0)
        sg_round(m.top + rest, (T *)s.out + r);
}

/* The target of a row, -1 if the row counts for nothing or its target is no class. */
__device__ static inline int target_of(const sg_cuda_softmax_rows &s, int64_t r, bool live, bool raise)
{
    int target = live ? s.target[r] : -1;
    if (target >= -1 && target < s.n)
        return target;
    if (raise)
        sg_cuda_raise(s.fault, s.site, SG_CUDA_INDEX_RANGE, target, s.n);
    return -1;
}

template <class C>
__device__ static inline void loss_row(const sg_cuda_softmax_rows &s, const row_view<C> &row, int64_t r, bool live,
                                       float *room)
{
    typedef typename C::T T;
    enum { VEC = C::VEC };
    float e[C::HOLD][VEC];
    bool first = live && row.team.lane == 0, forward = s.kind == SG_CUDA_CROSS_ENTROPY,
         vjp = s.kind == SG_CUDA_CROSS_ENTROPY_VJP;
    int target = target_of(s, r, live, first);
    const void *t = forward || vjp ? NULL : s.t;
    row_sums m = exponentials_of<C, false>(row, s.z, t, room, e);
    if (forward || s.kind == SG_CUDA_CROSS_ENTROPY_JVP) {
        const T *picked = (const T *)(forward ? s.z : t) + row.first;
        float loss = 0;
        if (first && target >= 0 && forward)
            loss = (m.top - sg_float(picked[target])) + (isfinite(m.top) ? log1pf(m.others) : 0);
        else if (first && target >= 0)
            loss = m.along / m.sum - sg_float(picked[target]);
        if (first && s.number_bf16)
            sg_round(loss, (sg_bf16 *)s.out + r);
        else if (first)
            ((float *)s.out)[r] = loss;
        return;
    }
    float g = live ? number_at(s.g, s.number_bf16, r) : 0, tg = live && !vjp ? number_at(s.tg, s.number_bf16, r) : 0;
    float off = vjp ? g : tg; /* what the target loses */
    /* Factors of e and of e t. */
    float plain = (vjp ? g : tg - g * (m.along / m.sum)) / m.sum, moved = g / m.sum;
    row.each([&](int k, int at) {
        float along[VEC] = {};
        if (t)
            row.read(t, at, 0, along);
#pragma unroll
        for (int i = 0; i < VEC; i++) {
            float value = t ? e[k][i] * (moved * along[i] + plain) : e[k][i] * plain;
            value -= at + i == target ? off : 0;
            e[k][i] = target < 0 ? 0 : value;
        }
        row.write(s.out, at, e[k]);
    });
}

template <class C, bool LOSS> __global__ void __launch_bounds__(C::BLOCK, 1) softmax_rows(sg_cuda_softmax_rows s)
{
    __shared__ float room[C::BLOCK / SG_WARP * 3];
    sg_team team = sg_team_of(s.team);
    int teams = C::BLOCK / team.size, own = threadIdx.x / team.size;
    for (int64_t base = (int64_t)blockIdx.x * teams; base < s.rows; base += (int64_t)gridDim.x * teams) {
        bool live = base + own < s.rows;
        int64_t r = live ? base + own : base;
        row_view<C> row(team, r, s.n, live);
        if (LOSS)
            loss_row(s, row, r, live, room);
        else
            softmax_row(s, row, r, live, room);
    }
}

template <class C> static void run_cut(const sg_cuda_softmax_rows *s, cudaStream_t stream)
{
    unsigned blocks = sg_blocks(s->rows, C::BLOCK / s->team);
    if (s->kind >= SG_CUDA_CROSS_ENTROPY)
        SG_CUDA_LAUNCH((softmax_rows<C, true>), blocks, C::BLOCK, stream, *s);
    else
        SG_CUDA_LAUNCH((softmax_rows<C, false>), blocks, C::BLOCK, stream, *s);
}

template <class T> static void run(const sg_cuda_softmax_rows *s, cudaStream_t stream)
{
    if (s->team > SG_BLOCK)
        run_cut<cut<T, LARGE_MANY, LARGE_BLOCK>>(s, stream);
    else
        run_cut<cut<T, MANY, SG_BLOCK>>(s, stream);
}

extern "C" void sg_cuda_softmax_run(const sg_cuda_softmax_rows *s, cudaStream_t stream)
{
    if (s->bf16)
        run<sg_bf16>(s, stream);
    else
        run<float>(s, stream);
}

/* Lanes for a row that fits into a warp's registers, else a block. A row may begin inside a piece. */
extern "C" int32_t sg_cuda_softmax_team(int64_t n, bool bf16)
{
    int64_t vec = bf16 ? 16 / sizeof(sg_bf16) : 16 / sizeof(float), most = n % vec == 0 ? n : n + vec - 1;
    int32_t team = 1;
    while (team < SG_WARP && team * vec < most)
        team *= 2;
    if (team * MANY >= most)
        return team;
    return SG_BLOCK * MANY >= most ? SG_BLOCK : LARGE_BLOCK * LARGE_MANY >= most ? LARGE_BLOCK : 0;
}
