/* attention_reverse.cuh - the reverse derivative and its forward derivative (SECOND): numbers of each query first, then a sweep
 * over keys for what belongs to queries and a sweep over queries for what belongs to keys. */
#ifndef SG_CUDA_ATTENTION_REVERSE_CUH
#define SG_CUDA_ATTENTION_REVERSE_CUH

#include "runtime/cuda/attention_forward.cuh"

/* Queries of a head in a plane of row numbers: a whole number of tiles of any kernel. */
__host__ __device__ static inline int64_t sg_padded_queries(const sg_cuda_attention &a)
{
    return ((int64_t)a.queries + 127) / 128 * 128;
}

__device__ static inline float *sg_plane(const sg_cuda_attention &a, const sg_cuda_attention_operands &x, int plane,
                                         int head)
{
    const int64_t padded = sg_padded_queries(a);
    return x.rows + ((int64_t)plane * a.batch * a.heads + head) * padded;
}

/* Can the logsumexp be trusted to give the probabilities, and is o at hand? Then no sweep is needed for the numbers of queries. A large
 * bias can make it so large that its rounding is felt in the probabilities, and in f32 any rounding is. */
static inline bool sg_rows_are_whole(const sg_cuda_attention *a, const sg_cuda_attention_operands *x)
{
    return a->bf16 && !x->bias && x->o && x->lse;
}

/* ----------------------------------------------------------------------------------------------------- sums over rows
 *
 * Whoever makes rows of dq (which = 0), dk (1) or dv (2) leaves a sum of them for its head, one part of several. */

__host__ __device__ static inline int sg_sum_columns(const sg_cuda_attention &a)
{
    return a.heads * (a.depth > a.width ? a.depth : a.width);
}
/* Parts of one sum: one for each batch and 64 rows at the most. */
__host__ __device__ static inline int64_t sg_most_parts(const sg_cuda_attention &a)
{
    return (int64_t)a.batch * (((a.queries > a.keys ? a.queries : a.keys) + 63) / 64);
}
__device__ static inline float *sg_part_at_head(const sg_cuda_attention &a, const sg_cuda_attention_operands &x, int which,
                                                int64_t part, int head)
{
    return x.parts + (which * sg_most_parts(a) + part) * sg_sum_columns(a) + head * (which == 2 ? a.width : a.depth);
}
/* The part of a block that owns some of `rows`. */
template <class S>
__device__ static inline float *sg_part_of(const sg_cuda_attention &a, const sg_cuda_attention_operands &x, int which,
                                           const sg_attention_place &p, int rows)
{
    return sg_part_at_head(a, x, which, (int64_t)p.b * ((rows + S::ROWS - 1) / S::ROWS) + p.first / S::ROWS, p.h);
}

/* ------------------------------------------------------------------------------------------------- numbers of queries */

/* The operands of a head. */
template <class T> struct sg_head {
    sg_rows_of<T> q, g, k, v, tq, tg, tk, tv;

    __device__ sg_head(const sg_cuda_attention &a, const sg_cuda_attention_operands &x, const sg_attention_place &p,
                       bool second)
    {
        q = sg_head_rows<T>(x.q, NULL, a.q, p.b, p.h, a.queries, a.depth);
        g = sg_head_rows<T>(x.g, x.q, a.out, p.b, p.h, a.queries, a.width);
        k = sg_head_rows<T>(x.k, NULL, a.k, p.b, p.h, a.keys, a.depth);
        v = sg_head_rows<T>(x.v, NULL, a.v, p.b, p.h, a.keys, a.width);
        if (second) {
            tq = sg_head_rows<T>(x.tq, x.q, a.q, p.b, p.h, a.queries, a.depth);
            tg = sg_head_rows<T>(x.tg, x.q, a.out, p.b, p.h, a.queries, a.width);
            tk = sg_head_rows<T>(x.tk, x.q, a.k, p.b, p.h, a.keys, a.depth);
            tv = sg_head_rows<T>(x.tv, x.q, a.v, p.b, p.h, a.keys, a.width);
        }
    }
};

template <class S, bool SECOND> struct sg_statistics_memory {
    static constexpr int Q = 0, G = S::OWN_BYTES, TQ = 2 * S::OWN_BYTES, TG = 3 * S::OWN_BYTES,
                         K = (SECOND ? 4 : 2) * S::OWN_BYTES, V = K + 2 * S::SWEPT_BYTES, TK = V + 2 * S::SWEPT_BYTES,
                         TV = TK + 2 * S::SWEPT_BYTES, BYTES = SECOND ? TV + 2 * S::SWEPT_BYTES : TK;
};

/* All of them by one sweep. Of td = sum_j tP M dP + P M tdP = sum_j P (tS M dP + M tdP) - c sum_j P M dP the sums are kept. */
template <class S, bool SECOND, bool DROP>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    attention_statistics(const sg_cuda_attention a, const sg_cuda_attention_operands x)
{
    typedef typename S::T T;
    typedef sg_statistics_memory<S, SECOND> M;
    const sg_attention_place p = sg_place_of<S>(a, (int)sg_padded_queries(a));
    const sg_head<T> r(a, x, p, SECOND);
    sg_own<S> q = {M::Q}, g = {M::G}, tq = {M::TQ}, tg = {M::TG};
    sg_row_numbers<S> most, sum, d, c, td, shrink;
    sg_fill(most, -INFINITY);
    sg_fill(sum, 0);
    sg_fill(d, 0);
    sg_fill(c, 0);
    sg_fill(td, 0);
    sg_fetch<S, S::ROWS>(M::Q, r.q, p.first);
    sg_fetch<S, S::ROWS>(M::G, r.g, p.first);
    if (SECOND) {
        sg_fetch<S, S::ROWS>(M::TQ, r.tq, p.first);
        sg_fetch<S, S::ROWS>(M::TG, r.tg, p.first);
    }
    sg_sweep(
        0, sg_key_tiles<S>(a, p.first),
        [&](int tile, int stage) {
            const int to = stage * S::SWEPT_BYTES;
            sg_fetch<S, S::COLUMNS>(M::K + to, r.k, tile * S::COLUMNS);
            sg_fetch<S, S::COLUMNS>(M::V + to, r.v, tile * S::COLUMNS);
            if (SECOND) {
                sg_fetch<S, S::COLUMNS>(M::TK + to, r.tk, tile * S::COLUMNS);
                sg_fetch<S, S::COLUMNS>(M::TV + to, r.tv, tile * S::COLUMNS);
            }
        },
        [&](int tile, int stage) {
            const int swept = stage * S::SWEPT_BYTES, column = tile * S::COLUMNS;
            if (tile == 0) {
                sg_keep(q);
                sg_keep(g);
                if (SECOND) {
                    sg_keep(tq);
                    sg_keep(tg);
                }
            }
            sg_scores<S> s, dp;
            sg_clear(s);
            sg_clear(dp);
            sg_dot(s, q, M::K + swept);
            const float factor = sg_finish_scores<S, false>(s, a, x, p, column);
            sg_grow(s, factor, most, shrink);
            sg_raise(s, factor, most);
            sg_dot(dp, g, M::V + swept);
            sg_add_row(sum, shrink, s);
            sg_kept<S> kept;
            if (DROP && a.dropout) {
                kept = sg_draw_kept<S, false>(a, x, p, column);
                sg_drop(dp, kept, a.kept);
            }
            sg_add_row(d, shrink, s, dp);
            if constexpr (SECOND) {
                sg_scores<S> ts, tdp;
                sg_clear(ts);
                sg_clear(tdp);
                sg_dot(ts, tq, M::K + swept);
                sg_dot(ts, q, M::TK + swept);
                sg_dot(tdp, tg, M::V + swept);
                sg_dot(tdp, g, M::TV + swept);
                sg_multiply(ts, sg_finish_tangents<S, false>(ts, a, x, p, column));
                if (DROP && a.dropout)
                    sg_drop(tdp, kept, a.kept);
                sg_add_row(c, shrink, s, ts);
#pragma unroll
                for (int t = 0; t < S::TILES; t++)
#pragma unroll
                    for (int n = 0; n < S::ACROSS; n++)
#pragma unroll
                        for (int e = 0; e < 4; e++)
                            tdp.at[t][n][e] = fmaf(ts.at[t][n][e], dp.at[t][n][e], tdp.at[t][n][e]);
                sg_add_row(td, shrink, s, tdp);
            }
        });
#pragma unroll
    for (int t = 0; t < S::TILES; t++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float all = sg_row_sum(sum.at[t][half]), over = all == 0 ? 0 : 1 / all;
            sum.at[t][half] = over;
            d.at[t][half] = over * sg_row_sum(d.at[t][half]);
            c.at[t][half] = over * sg_row_sum(c.at[t][half]);
            td.at[t][half] = over * sg_row_sum(td.at[t][half]) - c.at[t][half] * d.at[t][half];
        }
    if (sg_lane() % 4)
        return;
    sg_each_row<S>(p.first, (int)sg_padded_queries(a), [&](int t, int half, int row) {
        const bool attends = row < a.queries && sum.at[t][half] != 0;
        const int64_t number = (int64_t)p.head * a.queries + row;
        sg_plane(a, x, SG_ATTENTION_SHIFT, p.head)[row] = attends ? most.at[t][half] : INFINITY;
        sg_plane(a, x, SG_ATTENTION_OVER, p.head)[row] = attends ? sum.at[t][half] : 0;
        sg_plane(a, x, SG_ATTENTION_D, p.head)[row] = attends ? d.at[t][half] - (x.g_lse ? x.g_lse[number] : 0) : 0;
        if (SECOND) {
            sg_plane(a, x, SG_ATTENTION_C, p.head)[row] = attends ? c.at[t][half] : 0;
            sg_plane(a, x, SG_ATTENTION_TD, p.head)[row] =
                attends ? td.at[t][half] - (x.tg_lse ? x.tg_lse[number] : 0) : 0;
        }
    });
}

/* ------------------------------------------------------------------------------------------------------ one element */

struct sg_row_parts {
    float shift, over, d, c, td;
};

/* f(t, n, e) for each element of a tile. */
template <class S, class F> __device__ static inline void sg_each_place(const F &f)
{
#pragma unroll
    for (int t = 0; t < S::TILES; t++)
#pragma unroll
        for (int n = 0; n < S::ACROSS; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                f(t, n, e);
}

/* What happens to a tile of scores between its products, one element at a time. Each step depends on the products named only, so
 * that it and the next product can go on side by side. Where rows are WHOLE, their shift is the logsumexp and `over` is 1. */
template <class S, bool DROP, class Parts, bool WHOLE = false> struct sg_reverse {
    const Parts &parts;
    const sg_kept<S> &kept;
    bool drops;
    float factor;

    __device__ float drop(int t, int n, int e) const
    {
        return DROP && drops ? (sg_is_kept<S>(kept, t, n, e) ? factor : 0) : 1;
    }
    /* s becomes P */
    __device__ void probabilities(sg_scores<S> &s, float scale) const
    {
        sg_each_place<S>([&](int t, int n, int e) {
            const sg_row_parts r = parts(t, n, e);
            const float p = sg_exp2(fmaf(s.at[t][n][e], scale, -r.shift));
            s.at[t][n][e] = WHOLE ? p : r.over * p;
        });
    }
    /* ts becomes tP */
    __device__ void tangents(const sg_scores<S> &p, sg_scores<S> &ts, float scale) const
    {
        sg_each_place<S>([&](int t, int n, int e) {
            ts.at[t][n][e] = p.at[t][n][e] * fmaf(ts.at[t][n][e], scale, -parts(t, n, e).c);
        });
    }
    /* dP becomes M dP - d, tdP becomes M tdP - td */
    __device__ void pulls(sg_scores<S> &dp) const
    {
        sg_each_place<S>(
            [&](int t, int n, int e) { dp.at[t][n][e] = fmaf(drop(t, n, e), dp.at[t][n][e], -parts(t, n, e).d); });
    }
    __device__ void pull_tangents(sg_scores<S> &tdp) const
    {
        sg_each_place<S>(
            [&](int t, int n, int e) { tdp.at[t][n][e] = fmaf(drop(t, n, e), tdp.at[t][n][e], -parts(t, n, e).td); });
    }
    /* tdP becomes tdS, dP becomes dS */
    __device__ static void pull(const sg_scores<S> &p, const sg_scores<S> &tp, sg_scores<S> &dp, sg_scores<S> &tdp,
                                bool second)
    {
        sg_each_place<S>([&](int t, int n, int e) {
            if (second)
                tdp.at[t][n][e] = fmaf(tp.at[t][n][e], dp.at[t][n][e], p.at[t][n][e] * tdp.at[t][n][e]);
            dp.at[t][n][e] *= p.at[t][n][e];
        });
    }
    /* P becomes P M, tP becomes tP M */
    __device__ void dropped(sg_scores<S> &p) const
    {
        if (DROP && drops)
            sg_each_place<S>([&](int t, int n, int e) { p.at[t][n][e] *= drop(t, n, e); });
    }
};

/* ---------------------------------------------------------------------------------------------- dq, sweeping the keys */

template <class S, bool SECOND> struct sg_query_memory {
    static constexpr int Q = 0, G = S::OWN_BYTES, TQ = 2 * S::OWN_BYTES, TG = 3 * S::OWN_BYTES,
                         K = (SECOND ? 4 : 2) * S::OWN_BYTES, V = K + 2 * S::SWEPT_BYTES, TK = V + 2 * S::SWEPT_BYTES,
                         TV = TK + 2 * S::SWEPT_BYTES, EXCHANGE = SECOND ? TV + 2 * S::SWEPT_BYTES : TK,
                         BYTES = EXCHANGE + S::EXCHANGE_BYTES;
};

template <class S, bool SECOND, bool DROP>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    attention_queries(const sg_cuda_attention a, const sg_cuda_attention_operands x)
{
    typedef typename S::T T;
    typedef sg_query_memory<S, SECOND> M;
    const sg_attention_place p = sg_place_of<S>(a, a.queries);
    const sg_head<T> r(a, x, p, SECOND);
    sg_own<S> q = {M::Q}, g = {M::G}, tq = {M::TQ}, tg = {M::TG};
    sg_sums<S> dq;
    sg_clear(dq);
    sg_row_parts rows[S::TILES][2];
    sg_each_row<S>(p.first, (int)sg_padded_queries(a), [&](int t, int half, int row) {
        rows[t][half].shift = sg_plane(a, x, SG_ATTENTION_SHIFT, p.head)[row];
        rows[t][half].over = sg_plane(a, x, SG_ATTENTION_OVER, p.head)[row];
        rows[t][half].d = sg_plane(a, x, SG_ATTENTION_D, p.head)[row];
        if (SECOND) {
            rows[t][half].c = sg_plane(a, x, SG_ATTENTION_C, p.head)[row];
            rows[t][half].td = sg_plane(a, x, SG_ATTENTION_TD, p.head)[row];
        }
    });
    sg_fetch<S, S::ROWS>(M::Q, r.q, p.first);
    sg_fetch<S, S::ROWS>(M::G, r.g, p.first);
    if (SECOND) {
        sg_fetch<S, S::ROWS>(M::TQ, r.tq, p.first);
        sg_fetch<S, S::ROWS>(M::TG, r.tg, p.first);
    }
    sg_sweep(
        0, sg_key_tiles<S>(a, p.first),
        [&](int tile, int stage) {
            const int to = stage * S::SWEPT_BYTES;
            sg_fetch<S, S::COLUMNS>(M::K + to, r.k, tile * S::COLUMNS);
            sg_fetch<S, S::COLUMNS>(M::V + to, r.v, tile * S::COLUMNS);
            if (SECOND) {
                sg_fetch<S, S::COLUMNS>(M::TK + to, r.tk, tile * S::COLUMNS);
                sg_fetch<S, S::COLUMNS>(M::TV + to, r.tv, tile * S::COLUMNS);
            }
        },
        [&](int tile, int stage) {
            const int swept = stage * S::SWEPT_BYTES, column = tile * S::COLUMNS;
            if (tile == 0) {
                sg_keep(q);
                sg_keep(g);
                if (SECOND) {
                    sg_keep(tq);
                    sg_keep(tg);
                }
            }
            sg_scores<S> s, dp, ts, tdp;
            sg_kept<S> kept;
            const auto parts = [&](int t, int, int e) -> const sg_row_parts & { return rows[t][e / 2]; };
            const sg_reverse<S, DROP, decltype(parts)> reverse = {parts, kept, a.dropout, a.kept};
            sg_clear(s);
            sg_clear(dp);
            sg_dot(s, q, M::K + swept);
            const float factor = sg_finish_scores<S, false>(s, a, x, p, column);
            if (DROP && a.dropout)
                kept = sg_draw_kept<S, false>(a, x, p, column);
            reverse.probabilities(s, factor);
            sg_dot(dp, g, M::V + swept);
            if constexpr (SECOND) {
                sg_clear(ts);
                sg_clear(tdp);
                sg_dot(ts, tq, M::K + swept);
                sg_dot(ts, q, M::TK + swept);
                const float t_factor = sg_finish_tangents<S, false>(ts, a, x, p, column);
                reverse.tangents(s, ts, t_factor);
                reverse.pulls(dp);
                sg_dot(tdp, tg, M::V + swept);
                sg_dot(tdp, g, M::TV + swept);
                reverse.pull_tangents(tdp);
                reverse.pull(s, ts, dp, tdp, true);
                sg_add_product(dq, dp, M::TK + swept, M::EXCHANGE);
                sg_add_product(dq, tdp, M::K + swept, M::EXCHANGE);
            } else {
                reverse.pulls(dp);
                reverse.pull(s, s, dp, dp, false);
                sg_add_product(dq, dp, M::K + swept, M::EXCHANGE);
            }
        });
    float scale[S::TILES][2];
    for (auto &tile : scale)
        tile[0] = tile[1] = a.scale;
    sg_leave<S>(dq, scale, x.dq, a.dq, p.b, p.h, p.first, a.queries, a.depth);
}

/* --------------------------------------------------------------------------------------- dk and dv, sweeping the queries
 *
 * All tiles of scores are transposed: their rows are keys. */

template <class S, bool SECOND> struct sg_key_memory {
    static constexpr int K = 0, V = S::OWN_BYTES, TK = 2 * S::OWN_BYTES, TV = 3 * S::OWN_BYTES,
                         Q = (SECOND ? 4 : 2) * S::OWN_BYTES, G = Q + 2 * S::SWEPT_BYTES, TQ = G + 2 * S::SWEPT_BYTES,
                         TG = TQ + 2 * S::SWEPT_BYTES, ROWS = SECOND ? TG + 2 * S::SWEPT_BYTES : TQ,
                         PLANES = SECOND ? 5 : 3, ROWS_BYTES = PLANES * S::COLUMNS * 4,
                         EXCHANGE = ROWS + 2 * ROWS_BYTES, BYTES = EXCHANGE + S::EXCHANGE_BYTES;
};

/* Row numbers of a tile of queries, plane by plane. */
template <class S, bool SECOND>
__device__ static inline void sg_fetch_rows(uint32_t to, const sg_cuda_attention &a,
                                            const sg_cuda_attention_operands &x, int head, int first)
{
    constexpr int each = S::COLUMNS / 4, planes = sg_key_memory<S, SECOND>::PLANES;
#pragma unroll
    for (int m = 0; m < (planes * each + S::THREADS - 1) / S::THREADS; m++)
        if (const int n = threadIdx.x + m * S::THREADS; n < planes * each)
            sg_copy16(sg_shared_base() + to + 16 * n, sg_plane(a, x, n / each, head) + first + n % each * 4, true);
}

template <class S, bool SECOND, bool DROP>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    attention_keys(const sg_cuda_attention a, const sg_cuda_attention_operands x)
{
    typedef typename S::T T;
    typedef sg_key_memory<S, SECOND> M;
    const sg_attention_place p = sg_place_of<S>(a, a.keys);
    const sg_head<T> r(a, x, p, SECOND);
    sg_own<S> k = {M::K}, v = {M::V}, tk = {M::TK}, tv = {M::TV};
    sg_sums<S> dk, dv;
    sg_clear(dk);
    sg_clear(dv);
    sg_fetch<S, S::ROWS>(M::K, r.k, p.first);
    sg_fetch<S, S::ROWS>(M::V, r.v, p.first);
    if (SECOND) {
        sg_fetch<S, S::ROWS>(M::TK, r.tk, p.first);
        sg_fetch<S, S::ROWS>(M::TV, r.tv, p.first);
    }
    const int from = sg_first_query_tile<S>(a, p.first);
    sg_sweep(
        from, (a.queries + S::COLUMNS - 1) / S::COLUMNS,
        [&](int tile, int stage) {
            const int to = stage * S::SWEPT_BYTES;
            sg_fetch<S, S::COLUMNS>(M::Q + to, r.q, tile * S::COLUMNS);
            sg_fetch<S, S::COLUMNS>(M::G + to, r.g, tile * S::COLUMNS);
            if (SECOND) {
                sg_fetch<S, S::COLUMNS>(M::TQ + to, r.tq, tile * S::COLUMNS);
                sg_fetch<S, S::COLUMNS>(M::TG + to, r.tg, tile * S::COLUMNS);
            }
            sg_fetch_rows<S, SECOND>(M::ROWS + stage * M::ROWS_BYTES, a, x, p.head, tile * S::COLUMNS);
        },
        [&](int tile, int stage) {
            const int swept = stage * S::SWEPT_BYTES, column = tile * S::COLUMNS;
            if (tile == from) {
                sg_keep(k);
                sg_keep(v);
                if (SECOND) {
                    sg_keep(tk);
                    sg_keep(tv);
                }
            }
            const float *numbers =
                (const float *)(sg_shared_memory + M::ROWS + stage * M::ROWS_BYTES) + 2 * (sg_lane() % 4);
            const auto parts = [&](int, int n, int e) {
                const float *at = numbers + 8 * n + e % 2;
                sg_row_parts row = {at[SG_ATTENTION_SHIFT * S::COLUMNS], at[SG_ATTENTION_OVER * S::COLUMNS],
                                    at[SG_ATTENTION_D * S::COLUMNS], 0, 0};
                if (SECOND) {
                    row.c = at[SG_ATTENTION_C * S::COLUMNS];
                    row.td = at[SG_ATTENTION_TD * S::COLUMNS];
                }
                return row;
            };
            sg_scores<S> s, dp, ts, tdp;
            sg_kept<S> kept;
            const sg_reverse<S, DROP, decltype(parts)> reverse = {parts, kept, a.dropout, a.kept};
            sg_clear(s);
            sg_clear(dp);
            sg_dot(s, k, M::Q + swept);
            const float factor = sg_finish_scores<S, true>(s, a, x, p, column);
            if (DROP && a.dropout)
                kept = sg_draw_kept<S, true>(a, x, p, column);
            reverse.probabilities(s, factor);
            sg_dot(dp, v, M::G + swept);
            if constexpr (SECOND) {
                sg_clear(ts);
                sg_clear(tdp);
                sg_dot(ts, k, M::TQ + swept);
                sg_dot(ts, tk, M::Q + swept);
                const float t_factor = sg_finish_tangents<S, true>(ts, a, x, p, column);
                reverse.tangents(s, ts, t_factor);
                reverse.pulls(dp);
                sg_dot(tdp, v, M::TG + swept);
                sg_dot(tdp, tv, M::G + swept);
                reverse.pull_tangents(tdp);
                reverse.pull(s, ts, dp, tdp, true);
                reverse.dropped(s);
                reverse.dropped(ts);
                sg_add_product(dv, ts, M::G + swept, M::EXCHANGE);
                sg_add_product(dv, s, M::TG + swept, M::EXCHANGE);
                sg_add_product(dk, tdp, M::Q + swept, M::EXCHANGE);
                sg_add_product(dk, dp, M::TQ + swept, M::EXCHANGE);
            } else {
                reverse.pulls(dp);
                reverse.pull(s, s, dp, dp, false);
                reverse.dropped(s);
                sg_add_product(dv, s, M::G + swept, M::EXCHANGE);
                sg_add_product(dk, dp, M::Q + swept, M::EXCHANGE);
            }
        });
    float scale[S::TILES][2], one[S::TILES][2];
    for (auto &tile : scale)
        tile[0] = tile[1] = a.scale;
    for (auto &tile : one)
        tile[0] = tile[1] = 1;
    if (x.dk)
        sg_leave<S>(dk, scale, x.dk, a.dk, p.b, p.h, p.first, a.keys, a.depth);
    if (x.dv)
        sg_leave<S>(dv, one, x.dv, a.dv, p.b, p.h, p.first, a.keys, a.width);
}

#endif
