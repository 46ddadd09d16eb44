/* softmax.cu - softmax along contiguous rows, its logarithm, logsumexp, and cross-entropy with its derivatives, whose formulas are
 * those of runtime/cpu/cross_entropy.c. z is read once: a row lies in the registers of its team, as exponentials once its
 * largest element is known. A second operand of a row is read twice, from a cache the second time.
 *
 * Rows of any length are read in aligned pieces of 16 bytes: the first piece begins up to 15 bytes before the row and the last ends up
 * to 15 bytes behind it; elements beside the row are masked. */
#include <float.h>

#include "runtime/cuda/replica.cuh"
#include "runtime/cuda/row.cuh"
#include "runtime/cuda/softmax_internal.h"

/* How rows are cut: the type of elements, those of a piece, pieces of a thread, threads of a block. */
template <class E, int MOST, int THREADS> struct cut {
    typedef E T;
    enum { VEC = sg_wide<T>::VEC, HOLD = MOST / VEC, BLOCK = THREADS };
};
enum { MANY = 32, LARGE_MANY = 64, LARGE_BLOCK = 512 };
template <class T> using short_rows = cut<T, sg_wide<T>::VEC, SG_BLOCK>; /* one piece for each lane */
template <class T> using middle_rows = cut<T, MANY, SG_BLOCK>;
template <class T> using long_rows = cut<T, LARGE_MANY, LARGE_BLOCK>; /* one row for each block */

/* A row and the place of its first piece, which is not after its first element. */
template <class C> struct row_view {
    typedef typename C::T T;
    sg_team team;
    int64_t first; /* of the row in its tensor */
    int n, begin;  /* elements; place of the first piece in the row, <= 0 */
    bool last;     /* of the tensor: nothing behind the row may be read */

    __device__ row_view(sg_team t, int64_t r, const sg_cuda_softmax_rows &s, bool live) : team(t)
    {
        first = r * s.n;
        n = live ? (int)s.n : 0;
        last = r == s.rows - 1;
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
        sg_piece<T, C::VEC> piece = {};
        if (!last || at + C::VEC <= n)
            piece = sg_load<C::VEC>(from);
        else
            piece.fill_first(from, n - at);
#pragma unroll
        for (int i = 0; i < C::VEC; i++)
            value[i] = piece[i];
        if (!whole(at))
#pragma unroll
            for (int i = 0; i < C::VEC; i++)
                value[i] = at + i >= 0 && at + i < n ? value[i] : outside;
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

/* e^(x - shift), never more than 1. For results of 8 bits, 2^x of the unit for special functions is more than enough. */
template <class T> __device__ static inline float exponential(float x, float shift);
template <> __device__ inline float exponential<float>(float x, float shift) { return expf(x - shift); }
template <> __device__ inline float exponential<sg_bf16>(float x, float shift)
{
    const float log2e = 1.44269504f;
    return exp2f((x - shift) * log2e);
}

/* What is known of a row after its exponentials e^(x - shift): the shift is the largest element, or the nearest finite number. So a
 * row of -inf has exponentials 0, whose sum counts as 1; +inf has an infinite one, and its quotient by the sum is NaN, others' 0;
 * and a NaN makes the sum NaN. */
struct row_sums {
    float top, shift, sum;
    float others; /* the sum without one of the largest elements, if LOSS says so */
    float along;  /* sum of exponential times t */
};

template <class C>
__device__ static inline float top_of(const row_view<C> &row, const void *z, float *room, float (&e)[C::HOLD][C::VEC])
{
    float top[1] = {-INFINITY};
    row.each([&](int k, int at) { row.read(z, at, -INFINITY, e[k]); });
    row.each([&](int k, int) {
#pragma unroll
        for (int i = 0; i < C::VEC; i++)
            top[0] = fmaxf(top[0], e[k][i]);
    });
    sg_team_join<sg_join_max, 1>(row.team, top, room);
    return top[0];
}

/* e[k]: exponentials of the row, or its elements if KEEP says so. */
template <class C, bool KEEP, bool LOSS>
__device__ static inline row_sums exponentials_of(const row_view<C> &row, const void *z, const void *t, float *room,
                                                  float (&e)[C::HOLD][C::VEC])
{
    float top = top_of(row, z, room, e), shift = top == -INFINITY ? 0 : fminf(top, FLT_MAX), sum[LOSS ? 2 : 1] = {}, along[1] = {0};
    row.each([&](int k, int) {
#pragma unroll
        for (int i = 0; i < C::VEC; i++) {
            float power = exponential<typename C::T>(e[k][i], shift);
            bool largest = LOSS && e[k][i] == top;
            sum[0] += largest ? 0 : power;
            if (LOSS)
                sum[LOSS] += largest ? power : 0;
            e[k][i] = KEEP ? e[k][i] : power;
        }
    });
    sg_team_sum(row.team, sum, room);
    if (t) {
        row.each([&](int k, int at) {
            float t_at[C::VEC];
            row.read(t, at, 0, t_at);
#pragma unroll
            for (int i = 0; i < C::VEC; i++)
                along[0] += e[k][i] * t_at[i];
        });
        sg_team_sum(row.team, along, room);
    }
    float all = LOSS ? sum[0] + sum[LOSS] : sum[0], others = LOSS ? sum[0] + (sum[LOSS] - 1) : 0;
    if (top == -INFINITY && all == 0)
        return {top, shift, 1, 0, 0};
    return {top, shift, all, others, along[0]};
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
    float e[C::HOLD][C::VEC];
    row_sums m = exponentials_of<C, true, false>(row, s.z, NULL, room, e);
    bool logarithm = s.kind == SG_CUDA_LOG_SOFTMAX;
    float rest = logf(m.sum), factor = 1 / m.sum;
    if (s.kind == SG_CUDA_ROW_LOGSUMEXP) {
        if (live && row.team.lane == 0)
            sg_round(m.top + rest, (typename C::T *)s.out + r);
        return;
    }
    row.each([&](int k, int at) {
#pragma unroll
        for (int i = 0; i < C::VEC; i++)
            e[k][i] = logarithm ? (e[k][i] - m.shift) - rest : exponential<typename C::T>(e[k][i], m.shift) * factor;
        row.write(s.out, at, e[k]);
    });
}

/* The target of a row, -1 if the row counts for nothing or its target is no class. */
__device__ static inline int target_of(const sg_cuda_softmax_rows &s, int64_t r, bool live, bool raise)
{
    int target = live ? s.target[r] : -1;
    if (target >= -1 && target < s.n)
        return target;
    if (raise)
        sg_cuda_raise_at(s.fault, s.site, SG_CUDA_TARGET, r, target, 0, s.n);
    return -1;
}

__device__ static inline void put_number(const sg_cuda_softmax_rows &s, int64_t r, float value)
{
    if (s.number_bf16)
        sg_round(value, (sg_bf16 *)s.out + r);
    else
        ((float *)s.out)[r] = value;
}

/* The loss, the top logit's 1 left to log1p so that small losses keep their digits; or its tangent. */
template <class C>
__device__ static inline void loss_row(const sg_cuda_softmax_rows &s, const row_view<C> &row, int64_t r, bool live,
                                       float *room)
{
    float e[C::HOLD][C::VEC];
    bool first = live && row.team.lane == 0, forward = s.kind == SG_CUDA_CROSS_ENTROPY;
    int target = target_of(s, r, live, first);
    row_sums m = exponentials_of<C, false, true>(row, s.z, s.t, room, e);
    float picked = 0, loss = 0;
    if (first && target >= 0) {
        picked = sg_float(((const typename C::T *)(forward ? s.z : s.t))[row.first + target]);
        loss = forward ? log1pf(m.others) + (m.top - picked) : m.along / m.sum - picked;
    }
    if (first)
        put_number(s, r, loss);
}

/* gz = g (p - e_k), or its tangent tg (p - e_k) + g p (t - <p, t>). */
template <class C>
__device__ static inline void gradient_row(const sg_cuda_softmax_rows &s, const row_view<C> &row, int64_t r, bool live,
                                           float *room)
{
    float e[C::HOLD][C::VEC];
    bool vjp = s.kind == SG_CUDA_CROSS_ENTROPY_VJP;
    int target = target_of(s, r, live, live && row.team.lane == 0);
    row_sums m = exponentials_of<C, false, false>(row, s.z, s.t, room, e);
    float g = live ? number_at(s.g, s.number_bf16, r) : 0, tg = live && !vjp ? number_at(s.tg, s.number_bf16, r) : 0;
    float off = vjp ? g : tg;                                      /* what the target loses */
    float plain = (vjp ? g : tg - g * (m.along / m.sum)) / m.sum;  /* factor of e */
    float moved = g / m.sum;                                       /* factor of e t */
    row.each([&](int k, int at) {
        float factor[C::VEC];
        if (s.t)
            row.read(s.t, at, 0, factor);
#pragma unroll
        for (int i = 0; i < C::VEC; i++) {
            e[k][i] *= s.t ? moved * factor[i] + plain : plain;
            e[k][i] -= at + i == target ? off : 0;
            e[k][i] = target < 0 ? 0 : e[k][i];
        }
        row.write(s.out, at, e[k]);
    });
}

enum { PLAIN, LOSS, GRADIENT };

template <class C, int WHAT> __global__ void __launch_bounds__(C::BLOCK, 1) softmax_rows(sg_cuda_softmax_rows s, size_t stride)
{
    sg_wait();
    s.z = sg_replica_of((const char *)s.z, stride);
    s.t = sg_replica_of((const char *)s.t, stride);
    s.g = sg_replica_of((const char *)s.g, stride);
    s.tg = sg_replica_of((const char *)s.tg, stride);
    s.target = sg_replica_of(s.target, stride);
    s.out = sg_replica_of((char *)s.out, stride);
    __shared__ float room[C::BLOCK / SG_WARP * 2];
    sg_team team = sg_team_of((int)C::BLOCK == (int)LARGE_BLOCK ? (int)LARGE_BLOCK : s.team);
    int teams = C::BLOCK / team.size, own = threadIdx.x / team.size;
    for (int64_t base = (int64_t)blockIdx.x * teams; base < s.rows; base += (int64_t)gridDim.x * teams) {
        bool live = base + own < s.rows;
        int64_t r = live ? base + own : base;
        row_view<C> row(team, r, s, live);
        if (WHAT == PLAIN)
            softmax_row(s, row, r, live, room);
        else if (WHAT == LOSS)
            loss_row(s, row, r, live, room);
        else
            gradient_row(s, row, r, live, room);
    }
}

template <class C> static void run_cut(const sg_cuda_softmax_rows *s, sg_cuda_where where)
{
    unsigned blocks = sg_blocks(s->rows, C::BLOCK / s->team);
    if (s->kind <= SG_CUDA_ROW_LOGSUMEXP)
        SG_CUDA_LAUNCH_EARLY((softmax_rows<C, PLAIN>), blocks, C::BLOCK, where, *s);
    else if (s->kind == SG_CUDA_CROSS_ENTROPY || s->kind == SG_CUDA_CROSS_ENTROPY_JVP)
        SG_CUDA_LAUNCH_EARLY((softmax_rows<C, LOSS>), blocks, C::BLOCK, where, *s);
    else
        SG_CUDA_LAUNCH_EARLY((softmax_rows<C, GRADIENT>), blocks, C::BLOCK, where, *s);
}

/* Elements that the pieces of a row of n may reach over. */
static int64_t reach_of(int64_t n, int64_t vec) { return n % vec == 0 ? n : n + vec - 1; }

template <class T> static void run(const sg_cuda_softmax_rows *s, sg_cuda_where where)
{
    enum { VEC = sg_wide<T>::VEC };
    if (s->team == LARGE_BLOCK)
        run_cut<long_rows<T>>(s, where);
    else if (reach_of(s->n, VEC) > (int64_t)s->team * VEC)
        run_cut<middle_rows<T>>(s, where);
    else
        run_cut<short_rows<T>>(s, where);
}

extern "C" void sg_cuda_softmax_run(const sg_cuda_softmax_rows *s, sg_cuda_where where)
{
    if (s->bf16)
        run<sg_bf16>(s, where);
    else
        run<float>(s, where);
}

/* Lanes for a row that fits into a warp's registers, else a block. A row may begin inside a piece. */
extern "C" int32_t sg_cuda_softmax_team(int64_t n, bool bf16)
{
    int64_t vec = 16 / (bf16 ? sizeof(sg_bf16) : sizeof(float)), most = reach_of(n, vec);
    int32_t team = 1;
    while (team < SG_WARP && team * vec < most)
        team *= 2;
    if (team * MANY >= most)
        return team;
    return SG_BLOCK * MANY >= most ? SG_BLOCK : LARGE_BLOCK * LARGE_MANY >= most ? LARGE_BLOCK : 0;
}
