/* attention_forward.cuh - what is found in one sweep over the keys, with the softmax of a row growing as keys come (Milakov &
 * Gimelshein 2018; Dao et al. 2022): a row holds the largest score so far, m, and sums of 2^(s - m) times something,
 * which shrink when m grows. A whole warp's rows grow together, and only when they must. */
#ifndef SG_CUDA_ATTENTION_FORWARD_CUH
#define SG_CUDA_ATTENTION_FORWARD_CUH

#include "runtime/cuda/attention_score.cuh"

/* A number for each row that a lane holds. */
template <class S> struct sg_row_numbers {
    float at[S::TILES][2];
};

template <class S> __device__ static inline void sg_fill(sg_row_numbers<S> &r, float x)
{
    for (auto &tile : r.at)
        tile[0] = tile[1] = x;
}

__device__ static inline float sg_row_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ static inline float sg_row_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/* m need not be the largest score, only near it: it stays while no score of the warp exceeds it by this. */
#define SG_SLACK 8.0f

/* True if m, kept in `most`, grows with these scores: then older sums are to be multiplied by `shrink`, which is 1 otherwise. */
template <class S>
__device__ static inline bool sg_grow(const sg_scores<S> &s, float factor, sg_row_numbers<S> &most,
                                      sg_row_numbers<S> &shrink)
{
    bool grows = false;
    sg_row_numbers<S> tops;
#pragma unroll
    for (int t = 0; t < S::TILES; t++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float top = s.at[t][0][2 * half];
#pragma unroll
            for (int n = 0; n < S::ACROSS; n++)
                top = fmaxf(top, fmaxf(s.at[t][n][2 * half], s.at[t][n][2 * half + 1]));
            top = factor * sg_row_max(top);
            tops.at[t][half] = top;
            shrink.at[t][half] = 1;
            grows |= top > most.at[t][half] + SG_SLACK;
        }
    if (!__any_sync(0xffffffffu, grows))
        return false;
#pragma unroll
    for (int t = 0; t < S::TILES; t++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float old = most.at[t][half], top = fmaxf(old, tops.at[t][half]);
            shrink.at[t][half] = sg_exp2(old - (top == -INFINITY ? 0 : top));
            most.at[t][half] = top;
        }
    return true;
}

/* The scores become 2^(factor s - m). */
template <class S> __device__ static inline void sg_raise(sg_scores<S> &s, float factor, const sg_row_numbers<S> &most)
{
#pragma unroll
    for (int t = 0; t < S::TILES; t++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float shift = most.at[t][half] == -INFINITY ? 0 : most.at[t][half];
#pragma unroll
            for (int n = 0; n < S::ACROSS; n++) {
                s.at[t][n][2 * half] = sg_exp2(fmaf(s.at[t][n][2 * half], factor, -shift));
                s.at[t][n][2 * half + 1] = sg_exp2(fmaf(s.at[t][n][2 * half + 1], factor, -shift));
            }
        }
}

template <class S> __device__ static inline void sg_shrink(sg_sums<S> &sums, const sg_row_numbers<S> &by)
{
#pragma unroll
    for (int t = 0; t < S::TILES; t++)
#pragma unroll
        for (int n = 0; n < S::DEEP; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sums.at[t][n][e] *= by.at[t][e / 2];
}

/* sum = sum * shrink + this lane's part of the row of x * y. */
template <class S>
__device__ static inline void sg_add_row(sg_row_numbers<S> &sum, const sg_row_numbers<S> &shrink, const sg_scores<S> &x)
{
#pragma unroll
    for (int t = 0; t < S::TILES; t++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float part = 0;
#pragma unroll
            for (int n = 0; n < S::ACROSS; n++)
                part += x.at[t][n][2 * half] + x.at[t][n][2 * half + 1];
            sum.at[t][half] = fmaf(sum.at[t][half], shrink.at[t][half], part);
        }
}

template <class S>
__device__ static inline void sg_add_row(sg_row_numbers<S> &sum, const sg_row_numbers<S> &shrink, const sg_scores<S> &x,
                                         const sg_scores<S> &y)
{
#pragma unroll
    for (int t = 0; t < S::TILES; t++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float part = 0;
#pragma unroll
            for (int n = 0; n < S::ACROSS; n++)
                part = fmaf(x.at[t][n][2 * half], y.at[t][n][2 * half],
                            fmaf(x.at[t][n][2 * half + 1], y.at[t][n][2 * half + 1], part));
            sum.at[t][half] = fmaf(sum.at[t][half], shrink.at[t][half], part);
        }
}

/* x becomes x where kept, otherwise 0; times `factor`. */
template <class S> __device__ static inline void sg_drop(sg_scores<S> &x, const sg_kept<S> &kept, float factor)
{
#pragma unroll
    for (int t = 0; t < S::TILES; t++)
#pragma unroll
        for (int n = 0; n < S::ACROSS; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                x.at[t][n][e] = sg_is_kept<S>(kept, t, n, e) ? factor * x.at[t][n][e] : 0;
}

/* f(t, half, query) for each row of the lane that is one. */
template <class S, class F> __device__ static inline void sg_each_row(int first, int count, const F &f)
{
#pragma unroll
    for (int t = 0; t < S::TILES; t++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int row = first + sg_warp() * S::OWN + 16 * t + 8 * half + sg_lane() / 4;
            if (row < count)
                f(t, half, row);
        }
}

/* ------------------------------------------------------------------------------------------------------- attention */

template <class S> struct sg_forward_memory {
    static constexpr int Q = 0, K = S::OWN_BYTES, V = K + 3 * S::SWEPT_BYTES, EXCHANGE = V + 2 * S::SWEPT_BYTES,
                         BYTES = EXCHANGE + S::EXCHANGE_BYTES;

    __device__ static int k(int tile)
    {
        return K + tile % 3 * S::SWEPT_BYTES;
    } /* the tile, the next and the one after */
};

/* The scores of the next tile are computed before the softmax of this one, so that the tensor cores have work meanwhile. */
template <class S, bool DROP>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    attention_forward(const sg_cuda_attention a, const sg_cuda_attention_operands x)
{
    typedef typename S::T T;
    typedef sg_forward_memory<S> M;
    const sg_attention_place p = sg_place_of<S>(a, a.queries);
    const sg_rows_of<T> rq = sg_head_rows<T>(x.q, NULL, a.q, p.b, p.h, a.queries, a.depth),
                        rk = sg_head_rows<T>(x.k, NULL, a.k, p.b, p.h, a.keys, a.depth),
                        rv = sg_head_rows<T>(x.v, NULL, a.v, p.b, p.h, a.keys, a.width);
    const int tiles = sg_key_tiles<S>(a, p.first);
    sg_own<S> q = {M::Q};
    sg_sums<S> out;
    sg_scores<S> s;
    sg_row_numbers<S> most, sum, shrink;
    sg_clear(out);
    sg_clear(s);
    sg_fill(most, -INFINITY);
    sg_fill(sum, 0);
    sg_fetch<S, S::ROWS>(M::Q, rq, p.first);
    sg_fetch<S, S::COLUMNS>(M::K, rk, 0);
    sg_sweep(
        0, tiles,
        [&](int tile, int stage) {
            sg_fetch<S, S::COLUMNS>(M::V + stage * S::SWEPT_BYTES, rv, tile * S::COLUMNS);
            if (tile + 1 < tiles)
                sg_fetch<S, S::COLUMNS>(M::k(tile + 1), rk, (tile + 1) * S::COLUMNS);
        },
        [&](int tile, int stage) {
            if (tile == 0) {
                sg_keep(q);
                sg_dot(s, q, M::K);
            }
            const float factor = sg_finish_scores<S, false>(s, a, x, p, tile * S::COLUMNS);
            if (sg_grow(s, factor, most, shrink))
                sg_shrink(out, shrink);
            sg_scores<S> next;
            const auto rest = [&]() {
                sg_raise(s, factor, most);
                sg_add_row(sum, shrink, s);
                if (DROP && a.dropout)
                    sg_drop(s, sg_draw_kept<S, false>(a, x, p, tile * S::COLUMNS), 1);
                sg_add_product(out, s, M::V + stage * S::SWEPT_BYTES, M::EXCHANGE);
            };
            if (tile + 1 < tiles) {
                sg_clear(next);
                sg_dot(next, q, M::k(tile + 1));
                rest();
                s = next;
            } else {
                rest();
            }
        });
    float over[S::TILES][2];
#pragma unroll
    for (int t = 0; t < S::TILES; t++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            sum.at[t][half] = sg_row_sum(sum.at[t][half]);
            over[t][half] = sum.at[t][half] == 0 ? 0 : (DROP && a.dropout ? a.kept : 1) / sum.at[t][half];
        }
    sg_leave<S>(out, over, x.out, a.out, p.b, p.h, p.first, a.queries, a.width);
    if (sg_lane() % 4 == 0)
        sg_each_row<S>(p.first, a.queries, [&](int t, int half, int row) {
            x.out_lse[(int64_t)p.head * a.queries + row] = (most.at[t][half] + log2f(sum.at[t][half])) * SG_LN_2;
        });
}

/* ------------------------------------------------------------------------------------------------- forward derivative
 *
 * to = sum_j P M (tS - c) v + P M tv, and c is known only at the end: the sums of P M tS v + P M tv and of P M v are kept. */

template <class S> struct sg_jvp_memory {
    static constexpr int Q = 0, TQ = S::OWN_BYTES, K = 2 * S::OWN_BYTES, V = K + 2 * S::SWEPT_BYTES,
                         TK = V + 2 * S::SWEPT_BYTES, TV = TK + 2 * S::SWEPT_BYTES, EXCHANGE = TV + 2 * S::SWEPT_BYTES,
                         BYTES = EXCHANGE + S::EXCHANGE_BYTES;
};

template <class S, bool DROP>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    attention_jvp(const sg_cuda_attention a, const sg_cuda_attention_operands x)
{
    typedef typename S::T T;
    typedef sg_jvp_memory<S> M;
    const sg_attention_place p = sg_place_of<S>(a, a.queries);
    const sg_rows_of<T> rq = sg_head_rows<T>(x.q, NULL, a.q, p.b, p.h, a.queries, a.depth),
                        rtq = sg_head_rows<T>(x.tq, x.q, a.q, p.b, p.h, a.queries, a.depth),
                        rk = sg_head_rows<T>(x.k, NULL, a.k, p.b, p.h, a.keys, a.depth),
                        rtk = sg_head_rows<T>(x.tk, x.q, a.k, p.b, p.h, a.keys, a.depth),
                        rv = sg_head_rows<T>(x.v, NULL, a.v, p.b, p.h, a.keys, a.width),
                        rtv = sg_head_rows<T>(x.tv, x.q, a.v, p.b, p.h, a.keys, a.width);
    sg_own<S> q = {M::Q}, tq = {M::TQ};
    sg_sums<S> out, change;
    sg_row_numbers<S> most, sum, c, shrink;
    sg_clear(out);
    sg_clear(change);
    sg_fill(most, -INFINITY);
    sg_fill(sum, 0);
    sg_fill(c, 0);
    sg_fetch<S, S::ROWS>(M::Q, rq, p.first);
    sg_fetch<S, S::ROWS>(M::TQ, rtq, p.first);
    sg_sweep(
        0, sg_key_tiles<S>(a, p.first),
        [&](int tile, int stage) {
            sg_fetch<S, S::COLUMNS>(M::K + stage * S::SWEPT_BYTES, rk, tile * S::COLUMNS);
            sg_fetch<S, S::COLUMNS>(M::V + stage * S::SWEPT_BYTES, rv, tile * S::COLUMNS);
            sg_fetch<S, S::COLUMNS>(M::TK + stage * S::SWEPT_BYTES, rtk, tile * S::COLUMNS);
            sg_fetch<S, S::COLUMNS>(M::TV + stage * S::SWEPT_BYTES, rtv, tile * S::COLUMNS);
        },
        [&](int tile, int stage) {
            const int swept = stage * S::SWEPT_BYTES, column = tile * S::COLUMNS;
            if (tile == 0) {
                sg_keep(q);
                sg_keep(tq);
            }
            sg_scores<S> s, ts;
            sg_clear(s);
            sg_clear(ts);
            sg_dot(s, q, M::K + swept);
            const float factor = sg_finish_scores<S, false>(s, a, x, p, column);
            if (sg_grow(s, factor, most, shrink)) {
                sg_shrink(out, shrink);
                sg_shrink(change, shrink);
            }
            sg_raise(s, factor, most);
            sg_dot(ts, tq, M::K + swept);
            sg_dot(ts, q, M::TK + swept);
            sg_multiply(ts, sg_finish_tangents<S, false>(ts, a, x, p, column));
            sg_add_row(sum, shrink, s);
            sg_add_row(c, shrink, s, ts);
            if (DROP && a.dropout)
                sg_drop(s, sg_draw_kept<S, false>(a, x, p, column), 1);
#pragma unroll
            for (int t = 0; t < S::TILES; t++)
#pragma unroll
                for (int n = 0; n < S::ACROSS; n++)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        ts.at[t][n][e] *= s.at[t][n][e];
            sg_add_product(out, s, M::V + swept, M::EXCHANGE);
            sg_add_product(change, ts, M::V + swept, M::EXCHANGE);
            sg_add_product(change, s, M::TV + swept, M::EXCHANGE);
        });
    float over[S::TILES][2];
#pragma unroll
    for (int t = 0; t < S::TILES; t++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float all = sg_row_sum(sum.at[t][half]), reciprocal = all == 0 ? 0 : 1 / all;
            c.at[t][half] = sg_row_sum(c.at[t][half]) * reciprocal;
            over[t][half] = (DROP && a.dropout ? a.kept : 1) * reciprocal;
#pragma unroll
            for (int n = 0; n < S::DEEP; n++)
#pragma unroll
                for (int e = 2 * half; e < 2 * half + 2; e++)
                    change.at[t][n][e] = fmaf(-c.at[t][half], out.at[t][n][e], change.at[t][n][e]);
        }
    sg_leave<S>(change, over, x.out, a.out, p.b, p.h, p.first, a.queries, a.width);
    if (sg_lane() % 4 == 0)
        sg_each_row<S>(p.first, a.queries,
                       [&](int t, int half, int row) { x.out_lse[(int64_t)p.head * a.queries + row] = c.at[t][half]; });
}

#endif
