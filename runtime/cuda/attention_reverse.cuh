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

/* ------------------------------------------------------------------------------------------------- numbers of queries */

/* Where the logsumexp can be trusted to give the probabilities and o is at hand, they take no sweep: eight lanes a query. */
template <class T>
__global__ void attention_rows(const sg_cuda_attention a, const sg_cuda_attention_operands x)
{
    const int64_t padded = sg_padded_queries(a), row = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 8;
    const int head = (int)(row / padded), query = (int)(row % padded), b = head / a.heads, h = head % a.heads;
    const int64_t at = b * a.out.batch + h * a.out.head + query * a.out.row, number = (int64_t)head * a.queries + query;
    float d = 0, lse = -INFINITY;
    if (query < a.queries) {
        lse = x.lse[number];
        for (int c = threadIdx.x % 8; x.g && c < a.width; c += 8)
            d = fmaf(sg_as_float(((const T *)x.g)[at + c]), sg_as_float(((const T *)x.o)[at + c]), d);
    }
    for (int mask = 1; mask < 8; mask *= 2)
        d += __shfl_xor_sync(0xffffffffu, d, mask);
    if (threadIdx.x % 8)
        return;
    sg_plane(a, x, SG_ATTENTION_SHIFT, head)[query] = lse == -INFINITY ? INFINITY : lse * SG_LOG2_E;
    sg_plane(a, x, SG_ATTENTION_OVER, head)[query] = 1;
    sg_plane(a, x, SG_ATTENTION_D, head)[query] = query < a.queries && x.g_lse ? d - x.g_lse[number] : d;
}

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
    const sg_rows_of<T> rq = sg_head_rows<T>(x.q, a.q, p.b, p.h, a.queries, a.depth),
                        rg = sg_head_rows<T>(x.g, a.out, p.b, p.h, a.queries, a.width),
                        rk = sg_head_rows<T>(x.k, a.k, p.b, p.h, a.keys, a.depth),
                        rv = sg_head_rows<T>(x.v, a.v, p.b, p.h, a.keys, a.width),
                        rtq = sg_head_rows<T>(SECOND ? x.tq : NULL, a.q, p.b, p.h, a.queries, a.depth),
                        rtg = sg_head_rows<T>(SECOND ? x.tg : NULL, a.out, p.b, p.h, a.queries, a.width),
                        rtk = sg_head_rows<T>(SECOND ? x.tk : NULL, a.k, p.b, p.h, a.keys, a.depth),
                        rtv = sg_head_rows<T>(SECOND ? x.tv : NULL, a.v, p.b, p.h, a.keys, a.width);
    sg_own<S> q = {M::Q, true}, g = {M::G, x.g != NULL}, tq = {M::TQ, rtq.at != NULL}, tg = {M::TG, rtg.at != NULL};
    sg_row_numbers<S> most, sum, d, c, td, shrink;
    sg_fill(most, -INFINITY);
    sg_fill(sum, 0);
    sg_fill(d, 0);
    sg_fill(c, 0);
    sg_fill(td, 0);
    sg_fetch<S, S::ROWS>(M::Q, rq, p.first);
    sg_fetch<S, S::ROWS>(M::G, rg, p.first);
    sg_fetch<S, S::ROWS>(M::TQ, rtq, p.first);
    sg_fetch<S, S::ROWS>(M::TG, rtg, p.first);
    sg_sweep(
        0, sg_key_tiles<S>(a, p.first),
        [&](int tile, int stage) {
            const int to = stage * S::SWEPT_BYTES;
            sg_fetch<S, S::COLUMNS>(M::K + to, rk, tile * S::COLUMNS);
            sg_fetch<S, S::COLUMNS>(M::V + to, rv, tile * S::COLUMNS);
            sg_fetch<S, S::COLUMNS>(M::TK + to, rtk, tile * S::COLUMNS);
            sg_fetch<S, S::COLUMNS>(M::TV + to, rtv, tile * S::COLUMNS);
        },
        [&](int tile, int stage) {
            const int swept = stage * S::SWEPT_BYTES, column = tile * S::COLUMNS;
            if (tile == 0) {
                sg_keep(q);
                sg_keep(g);
                sg_keep(tq);
                sg_keep(tg);
            }
            sg_scores<S> s, dp;
            sg_clear(s);
            sg_clear(dp);
            sg_dot(s, q, M::K + swept, true);
            sg_dot(dp, g, M::V + swept, true);
            const float factor = sg_finish_scores<S, false>(s, a, x, p, column);
            sg_grow(s, factor, most, shrink);
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
                sg_dot(ts, tq, M::K + swept, true);
                sg_dot(ts, q, M::TK + swept, rtk.at != NULL);
                sg_dot(tdp, tg, M::V + swept, true);
                sg_dot(tdp, g, M::TV + swept, rtv.at != NULL);
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
        const bool valid = row < a.queries;
        const int64_t number = (int64_t)p.head * a.queries + row;
        sg_plane(a, x, SG_ATTENTION_SHIFT, p.head)[row] =
            !valid || most.at[t][half] == -INFINITY ? INFINITY : most.at[t][half];
        sg_plane(a, x, SG_ATTENTION_OVER, p.head)[row] = valid ? sum.at[t][half] : 0;
        sg_plane(a, x, SG_ATTENTION_D, p.head)[row] =
            valid ? d.at[t][half] - (x.g_lse ? x.g_lse[number] : 0) : 0;
        if (SECOND) {
            sg_plane(a, x, SG_ATTENTION_C, p.head)[row] = valid ? c.at[t][half] : 0;
            sg_plane(a, x, SG_ATTENTION_TD, p.head)[row] =
                valid ? td.at[t][half] - (x.tg_lse ? x.tg_lse[number] : 0) : 0;
        }
    });
}

/* ------------------------------------------------------------------------------------------------------ one element */

struct sg_row_parts {
    float shift, over, d, c, td;
};

/* s, dp and, at second order, ts, tdp become P M, dS, tP M, tdS; m is the factor of dropout, the others those of scores and
 * their tangents. */
template <bool SECOND>
__device__ static inline void sg_reverse_element(const sg_row_parts &r, float factor, float t_factor, float m, float *s,
                                                 float *dp, float *ts, float *tdp)
{
    const float p = r.over * sg_exp2(fmaf(*s, factor, -r.shift)), pull = fmaf(m, *dp, -r.d);
    *s = m * p;
    *dp = p * pull;
    if (SECOND) {
        const float tp = p * fmaf(*ts, t_factor, -r.c);
        *ts = m * tp;
        *tdp = fmaf(tp, pull, p * fmaf(m, *tdp, -r.td));
    }
}

template <class S, bool SECOND, bool KEYS_OWN, bool DROP, class Parts>
__device__ static inline void sg_reverse_elements(const sg_cuda_attention &a, const sg_cuda_attention_operands &x,
                                                  const sg_attention_place &p, int column, const Parts &parts,
                                                  sg_scores<S> &s, sg_scores<S> &dp, sg_scores<S> &ts,
                                                  sg_scores<S> &tdp)
{
    const float factor = sg_finish_scores<S, KEYS_OWN>(s, a, x, p, column);
    const float t_factor = SECOND ? sg_finish_tangents<S, KEYS_OWN>(ts, a, x, p, column) : 0;
    sg_kept<S> kept;
    if (DROP && a.dropout)
        kept = sg_draw_kept<S, KEYS_OWN>(a, x, p, column);
#pragma unroll
    for (int t = 0; t < S::TILES; t++)
#pragma unroll
        for (int n = 0; n < S::ACROSS; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float m = DROP && a.dropout ? (sg_is_kept<S>(kept, t, n, e) ? a.kept : 0) : 1;
                sg_reverse_element<SECOND>(parts(t, n, e), factor, t_factor, m, &s.at[t][n][e], &dp.at[t][n][e], &ts.at[t][n][e],
                                           &tdp.at[t][n][e]);
            }
}

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
    const sg_rows_of<T> rq = sg_head_rows<T>(x.q, a.q, p.b, p.h, a.queries, a.depth),
                        rg = sg_head_rows<T>(x.g, a.out, p.b, p.h, a.queries, a.width),
                        rk = sg_head_rows<T>(x.k, a.k, p.b, p.h, a.keys, a.depth),
                        rv = sg_head_rows<T>(x.v, a.v, p.b, p.h, a.keys, a.width),
                        rtq = sg_head_rows<T>(SECOND ? x.tq : NULL, a.q, p.b, p.h, a.queries, a.depth),
                        rtg = sg_head_rows<T>(SECOND ? x.tg : NULL, a.out, p.b, p.h, a.queries, a.width),
                        rtk = sg_head_rows<T>(SECOND ? x.tk : NULL, a.k, p.b, p.h, a.keys, a.depth),
                        rtv = sg_head_rows<T>(SECOND ? x.tv : NULL, a.v, p.b, p.h, a.keys, a.width);
    sg_own<S> q = {M::Q, true}, g = {M::G, x.g != NULL}, tq = {M::TQ, rtq.at != NULL}, tg = {M::TG, rtg.at != NULL};
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
    sg_fetch<S, S::ROWS>(M::Q, rq, p.first);
    sg_fetch<S, S::ROWS>(M::G, rg, p.first);
    sg_fetch<S, S::ROWS>(M::TQ, rtq, p.first);
    sg_fetch<S, S::ROWS>(M::TG, rtg, p.first);
    sg_sweep(
        0, sg_key_tiles<S>(a, p.first),
        [&](int tile, int stage) {
            const int to = stage * S::SWEPT_BYTES;
            sg_fetch<S, S::COLUMNS>(M::K + to, rk, tile * S::COLUMNS);
            sg_fetch<S, S::COLUMNS>(M::V + to, rv, tile * S::COLUMNS);
            sg_fetch<S, S::COLUMNS>(M::TK + to, rtk, tile * S::COLUMNS);
            sg_fetch<S, S::COLUMNS>(M::TV + to, rtv, tile * S::COLUMNS);
        },
        [&](int tile, int stage) {
            const int swept = stage * S::SWEPT_BYTES, column = tile * S::COLUMNS;
            if (tile == 0) {
                sg_keep(q);
                sg_keep(g);
                sg_keep(tq);
                sg_keep(tg);
            }
            sg_scores<S> s, dp, ts, tdp;
            sg_clear(s);
            sg_clear(dp);
            sg_dot(s, q, M::K + swept, true);
            sg_dot(dp, g, M::V + swept, true);
            if (SECOND) {
                sg_clear(ts);
                sg_clear(tdp);
                sg_dot(ts, tq, M::K + swept, true);
                sg_dot(ts, q, M::TK + swept, rtk.at != NULL);
                sg_dot(tdp, tg, M::V + swept, true);
                sg_dot(tdp, g, M::TV + swept, rtv.at != NULL);
            }
            sg_reverse_elements<S, SECOND, false, DROP>(
                a, x, p, column, [&](int t, int, int e) -> const sg_row_parts & { return rows[t][e / 2]; }, s, dp, ts,
                tdp);
            sg_add_product(dq, SECOND ? tdp : dp, M::K + swept, true, M::EXCHANGE);
            if (SECOND)
                sg_add_product(dq, dp, M::TK + swept, rtk.at != NULL, M::EXCHANGE);
        });
    float scale[S::TILES][2];
    for (auto &tile : scale)
        tile[0] = tile[1] = a.scale;
    sg_leave<S>(dq, scale, x.dq, a.q, p.b, p.h, p.first, a.queries, a.depth);
}

/* --------------------------------------------------------------------------------------- dk and dv, sweeping the queries
 *
 * All tiles of scores are transposed: their rows are keys. */

template <class S, bool SECOND> struct sg_key_memory {
    static constexpr int K = 0, V = S::OWN_BYTES, TK = 2 * S::OWN_BYTES, TV = 3 * S::OWN_BYTES,
                         Q = (SECOND ? 4 : 2) * S::OWN_BYTES, G = Q + 2 * S::SWEPT_BYTES, TQ = G + 2 * S::SWEPT_BYTES,
                         TG = TQ + 2 * S::SWEPT_BYTES, ROWS = SECOND ? TG + 2 * S::SWEPT_BYTES : TQ,
                         PLANES = SECOND ? 5 : 3, ROWS_BYTES = PLANES * S::COLUMNS * 4, EXCHANGE = ROWS + 2 * ROWS_BYTES,
                         BYTES = EXCHANGE + S::EXCHANGE_BYTES;
};

/* Row numbers of a tile of queries, plane by plane. */
template <class S, bool SECOND>
__device__ static inline void sg_fetch_rows(uint32_t to, const sg_cuda_attention &a, const sg_cuda_attention_operands &x,
                                            int head, int first)
{
    constexpr int each = S::COLUMNS / 4, planes = sg_key_memory<S, SECOND>::PLANES;
    for (int n = threadIdx.x; n < planes * each; n += S::THREADS)
        sg_copy16(sg_shared_base() + to + 16 * n, sg_plane(a, x, n / each, head) + first + n % each * 4, true);
}

template <class S, bool SECOND, bool DROP>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    attention_keys(const sg_cuda_attention a, const sg_cuda_attention_operands x)
{
    typedef typename S::T T;
    typedef sg_key_memory<S, SECOND> M;
    const sg_attention_place p = sg_place_of<S>(a, a.keys);
    const sg_rows_of<T> rq = sg_head_rows<T>(x.q, a.q, p.b, p.h, a.queries, a.depth),
                        rg = sg_head_rows<T>(x.g, a.out, p.b, p.h, a.queries, a.width),
                        rk = sg_head_rows<T>(x.k, a.k, p.b, p.h, a.keys, a.depth),
                        rv = sg_head_rows<T>(x.v, a.v, p.b, p.h, a.keys, a.width),
                        rtq = sg_head_rows<T>(SECOND ? x.tq : NULL, a.q, p.b, p.h, a.queries, a.depth),
                        rtg = sg_head_rows<T>(SECOND ? x.tg : NULL, a.out, p.b, p.h, a.queries, a.width),
                        rtk = sg_head_rows<T>(SECOND ? x.tk : NULL, a.k, p.b, p.h, a.keys, a.depth),
                        rtv = sg_head_rows<T>(SECOND ? x.tv : NULL, a.v, p.b, p.h, a.keys, a.width);
    sg_own<S> k = {M::K, true}, v = {M::V, true}, tk = {M::TK, rtk.at != NULL}, tv = {M::TV, rtv.at != NULL};
    sg_sums<S> dk, dv;
    sg_clear(dk);
    sg_clear(dv);
    sg_fetch<S, S::ROWS>(M::K, rk, p.first);
    sg_fetch<S, S::ROWS>(M::V, rv, p.first);
    sg_fetch<S, S::ROWS>(M::TK, rtk, p.first);
    sg_fetch<S, S::ROWS>(M::TV, rtv, p.first);
    const int from = sg_first_query_tile<S>(a, p.first);
    sg_sweep(
        from, (a.queries + S::COLUMNS - 1) / S::COLUMNS,
        [&](int tile, int stage) {
            const int to = stage * S::SWEPT_BYTES;
            sg_fetch<S, S::COLUMNS>(M::Q + to, rq, tile * S::COLUMNS);
            sg_fetch<S, S::COLUMNS>(M::G + to, rg, tile * S::COLUMNS);
            sg_fetch<S, S::COLUMNS>(M::TQ + to, rtq, tile * S::COLUMNS);
            sg_fetch<S, S::COLUMNS>(M::TG + to, rtg, tile * S::COLUMNS);
            sg_fetch_rows<S, SECOND>(M::ROWS + stage * M::ROWS_BYTES, a, x, p.head, tile * S::COLUMNS);
        },
        [&](int tile, int stage) {
            const int swept = stage * S::SWEPT_BYTES, column = tile * S::COLUMNS;
            if (tile == from) {
                sg_keep(k);
                sg_keep(v);
                sg_keep(tk);
                sg_keep(tv);
            }
            sg_scores<S> s, dp, ts, tdp;
            sg_clear(s);
            sg_clear(dp);
            sg_dot(s, k, M::Q + swept, true);
            sg_dot(dp, v, M::G + swept, x.g != NULL);
            if (SECOND) {
                sg_clear(ts);
                sg_clear(tdp);
                sg_dot(ts, k, M::TQ + swept, rtq.at != NULL);
                sg_dot(ts, tk, M::Q + swept, true);
                sg_dot(tdp, v, M::TG + swept, rtg.at != NULL);
                sg_dot(tdp, tv, M::G + swept, x.g != NULL);
            }
            const float *numbers =
                (const float *)(sg_shared_memory + M::ROWS + stage * M::ROWS_BYTES) + 2 * (sg_lane() % 4);
            sg_reverse_elements<S, SECOND, true, DROP>(
                a, x, p, column,
                [&](int, int n, int e) {
                    const float *at = numbers + 8 * n + e % 2;
                    sg_row_parts r = {at[SG_ATTENTION_SHIFT * S::COLUMNS], at[SG_ATTENTION_OVER * S::COLUMNS],
                                      at[SG_ATTENTION_D * S::COLUMNS], 0, 0};
                    if (SECOND) {
                        r.c = at[SG_ATTENTION_C * S::COLUMNS];
                        r.td = at[SG_ATTENTION_TD * S::COLUMNS];
                    }
                    return r;
                },
                s, dp, ts, tdp);
            if (x.dk) {
                sg_add_product(dk, SECOND ? tdp : dp, M::Q + swept, true, M::EXCHANGE);
                if (SECOND)
                    sg_add_product(dk, dp, M::TQ + swept, rtq.at != NULL, M::EXCHANGE);
            }
            if (x.dv) {
                sg_add_product(dv, SECOND ? ts : s, M::G + swept, x.g != NULL, M::EXCHANGE);
                if (SECOND)
                    sg_add_product(dv, s, M::TG + swept, rtg.at != NULL, M::EXCHANGE);
            }
        });
    float scale[S::TILES][2], one[S::TILES][2];
    for (auto &tile : scale)
        tile[0] = tile[1] = a.scale;
    for (auto &tile : one)
        tile[0] = tile[1] = 1;
    if (x.dk)
        sg_leave<S>(dk, scale, x.dk, a.k, p.b, p.h, p.first, a.keys, a.depth);
    if (x.dv)
        sg_leave<S>(dv, one, x.dv, a.v, p.b, p.h, p.first, a.keys, a.width);
}

#endif
