/* attention_score.cuh - from products of rows to scores: scale, bias, what is not attended to; and the bits of dropout. */
#ifndef SG_CUDA_ATTENTION_SCORE_CUH
#define SG_CUDA_ATTENTION_SCORE_CUH

#include "runtime/cuda/attention_tile.cuh"

#define SG_LOG2_E 1.4426950408889634f
#define SG_LN_2 0.6931471805599453f

/* Where a block is: a head, and the first row that it owns. */
struct sg_attention_place {
    int b, h, head, first;
};

template <class S> __device__ static inline sg_attention_place sg_place_of(const sg_cuda_attention &a, int rows)
{
    const int tiles = (rows + S::ROWS - 1) / S::ROWS, head = blockIdx.x / tiles;
    return {head / a.heads, head % a.heads, head, (int)(blockIdx.x % tiles) * S::ROWS};
}

template <class S> static inline unsigned sg_attention_blocks(const sg_cuda_attention &a, int rows)
{
    return (unsigned)((rows + S::ROWS - 1) / S::ROWS) * (unsigned)(a.batch * a.heads);
}

/* Calls f(query, key, value) for each element of a tile; `row` is the block's first own row, `column` the first swept. */
template <class S, bool KEYS_OWN, class F>
__device__ static inline void sg_each(sg_scores<S> &s, int row, int column, const F &f)
{
    const int lane = sg_lane(), top = row + sg_warp() * S::OWN + lane / 4, left = column + 2 * (lane % 4);
#pragma unroll
    for (int t = 0; t < S::TILES; t++)
#pragma unroll
        for (int n = 0; n < S::ACROSS; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int own = top + 16 * t + 8 * (e / 2), swept = left + 8 * n + e % 2;
                f(KEYS_OWN ? swept : own, KEYS_OWN ? own : swept, s.at[t][n][e]);
            }
}

template <class S, bool KEYS_OWN>
__device__ static inline void sg_add_spread(sg_scores<S> &s, const sg_cuda_attention &a, const sg_attention_place &p,
                                            int column, const void *x, float factor)
{
    const sg_cuda_attention_spread step = a.bias;
    const typename S::T *from = (const typename S::T *)x + p.b * step.batch + p.h * step.head;
    sg_each<S, KEYS_OWN>(s, p.first, column, [&](int i, int j, float &value) {
        if (i < a.queries && j < a.keys)
            value = fmaf(factor, sg_as_float(from[i * step.query + j * step.key]), value);
    });
}

/* Masks that are the same for all queries are read once a row or column, not once an element: lanes read a column each, and
 * all see which are left out. */
template <class S, bool KEYS_OWN>
__device__ static inline void sg_leave_out_keys(sg_scores<S> &s, const sg_cuda_attention &a,
                                                const sg_attention_place &p, int column, const uint8_t *from, int step)
{
    const int lane = sg_lane();
    if constexpr (KEYS_OWN) {
        const int row = p.first + sg_warp() * S::OWN + lane / 4;
#pragma unroll
        for (int t = 0; t < S::TILES; t++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int j = row + 16 * t + 8 * half;
                if (j < a.keys && from[j * step] == 0)
#pragma unroll
                    for (int n = 0; n < S::ACROSS; n++)
                        s.at[t][n][2 * half] = s.at[t][n][2 * half + 1] = -INFINITY;
            }
    } else {
#pragma unroll
        for (int n = 0; n < S::ACROSS; n += 4) {
            const int j = column + 8 * n + lane;
            const uint32_t out =
                __ballot_sync(0xffffffffu, j < a.keys && lane < 8 * (S::ACROSS - n) && from[j * step] == 0);
            if (out == 0)
                continue;
#pragma unroll
            for (int m = n; m < n + 4 && m < S::ACROSS; m++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    if (out >> (8 * (m - n) + 2 * (lane % 4) + e) & 1)
#pragma unroll
                        for (int t = 0; t < S::TILES; t++)
                            s.at[t][m][e] = s.at[t][m][e + 2] = -INFINITY;
        }
    }
}

template <class S, bool KEYS_OWN>
__device__ static inline void sg_leave_out(sg_scores<S> &s, const sg_cuda_attention &a, const sg_attention_place &p,
                                           int column, const uint8_t *mask)
{
    const sg_cuda_attention_spread step = a.mask;
    const uint8_t *from = mask + p.b * step.batch + p.h * step.head;
    if (step.query == 0)
        sg_leave_out_keys<S, KEYS_OWN>(s, a, p, column, from, step.key);
    else
        sg_each<S, KEYS_OWN>(s, p.first, column, [&](int i, int j, float &value) {
            if (i < a.queries && j < a.keys && from[i * step.query + j * step.key] == 0)
                value = -INFINITY;
        });
}

template <class S> __device__ static inline void sg_multiply(sg_scores<S> &s, float factor)
{
    for (auto &tile : s.at)
        for (auto &part : tile)
            for (float &x : part)
                x *= factor;
}

/* q k' becomes scores: the result times s are log2(e) (scale q k' + bias), -inf where not attended. The result is positive. */
template <class S, bool KEYS_OWN>
__device__ static inline float sg_finish_scores(sg_scores<S> &s, const sg_cuda_attention &a,
                                                const sg_cuda_attention_operands &x, const sg_attention_place &p,
                                                int column)
{
    const float scale = a.scale * SG_LOG2_E;
    const int last_key = KEYS_OWN ? p.first + S::ROWS : column + S::COLUMNS, first_query = KEYS_OWN ? column : p.first;
    const bool edge = last_key > a.keys || (a.causal && last_key > first_query + 1);
    if (x.bias || !(scale > 0)) {
        sg_multiply(s, a.scale);
        if (x.bias)
            sg_add_spread<S, KEYS_OWN>(s, a, p, column, x.bias, 1);
    }
    if (edge)
        sg_each<S, KEYS_OWN>(s, p.first, column, [&](int i, int j, float &value) {
            if (j >= a.keys || (a.causal && j > i))
                value = -INFINITY;
        });
    if (x.mask)
        sg_leave_out<S, KEYS_OWN>(s, a, p, column, x.mask);
    return x.bias || !(scale > 0) ? SG_LOG2_E : scale;
}

/* Products of rows become tangents of the scores: the result times s. */
template <class S, bool KEYS_OWN>
__device__ static inline float sg_finish_tangents(sg_scores<S> &s, const sg_cuda_attention &a,
                                                  const sg_cuda_attention_operands &x, const sg_attention_place &p,
                                                  int column)
{
    if (!x.tbias)
        return a.scale;
    sg_multiply(s, a.scale);
    sg_add_spread<S, KEYS_OWN>(s, a, p, column, x.tbias, 1);
    return 1;
}

/* Tiles of keys that queries [first, first + rows) attend to, and the first tile of queries that attends to keys from `first`. */
template <class S> __device__ static inline int sg_key_tiles(const sg_cuda_attention &a, int first)
{
    const int keys = a.causal && first + S::ROWS < a.keys ? first + S::ROWS : a.keys;
    return (keys + S::COLUMNS - 1) / S::COLUMNS;
}
template <class S> __device__ static inline int sg_first_query_tile(const sg_cuda_attention &a, int first)
{
    return a.causal ? first / S::COLUMNS : 0;
}

/* ---------------------------------------------------------------------------------------------------------- dropout */

/* As sg_philox in graph/random_internal.h: bits of elements 4 block .. 4 block + 3. */
__device__ static inline void sg_draw_block(const int32_t *word, uint64_t block, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = word[2], c3 = word[3], k0 = word[0], k1 = word[1];
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Bit 4 n + e: is element e of matrix n of tile t kept? */
template <class S> struct sg_kept {
    uint32_t bits[S::TILES];
};

__device__ static inline uint32_t sg_kept_of_block(const int32_t *word, uint32_t threshold, uint64_t block)
{
    uint32_t random[4], bits = 0;
    sg_draw_block(word, block, random);
#pragma unroll
    for (int i = 0; i < 4; i++)
        bits |= (random[i] >> 8 >= threshold ? 1u : 0u) << i;
    return bits;
}

/* One block of random bits serves four neighbouring keys. Columns are keys: two lanes hold them, for two rows each; the even one
 * draws for the upper row, the odd one for the lower, and they exchange. */
template <class S>
__device__ static inline uint32_t sg_kept_by_query(const sg_cuda_attention &a, const int32_t *word, uint64_t head_at,
                                                   int own, int column)
{
    const int odd = sg_lane() % 2, query = own + 8 * odd, key = column + 4 * (sg_lane() % 4 / 2);
    uint32_t mine = 0;
#pragma unroll
    for (int n = 0; n < S::ACROSS; n++)
        mine |= sg_kept_of_block(word, a.threshold, (head_at + (uint64_t)query * a.keys + key + 8 * n) / 4) << 4 * n;
    const uint32_t other = __shfl_xor_sync(0xffffffffu, mine, 1);
    const uint32_t upper = (odd ? other : mine) >> 2 * odd & 0x33333333u;
    const uint32_t lower = (odd ? mine : other) >> 2 * odd & 0x33333333u;
    return upper | lower << 2;
}

/* Rows are keys: four lanes of a column hold four neighbours, in two columns and two halves; lane c draws for column
 * c % 2 and half c / 2. */
template <class S>
__device__ static inline uint32_t sg_kept_by_key(const sg_cuda_attention &a, const int32_t *word, uint64_t head_at,
                                                 int own, int column)
{
    const int c = sg_lane() / 4 % 4, key = own - c + 8 * (c / 2), query = column + 2 * (sg_lane() % 4) + c % 2;
    uint32_t mine = 0, bits = 0;
#pragma unroll
    for (int n = 0; n < S::ACROSS; n++)
        mine |= sg_kept_of_block(word, a.threshold, (head_at + (uint64_t)(query + 8 * n) * a.keys + key) / 4) << 4 * n;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const uint32_t theirs = __shfl_sync(0xffffffffu, mine, (sg_lane() & ~12) | e << 2);
        bits |= (theirs >> c & 0x11111111u) << e;
    }
    return bits;
}

template <class S, bool KEYS_OWN>
__device__ static inline sg_kept<S> sg_draw_kept(const sg_cuda_attention &a, const sg_cuda_attention_operands &x,
                                                 const sg_attention_place &p, int column)
{
    static_assert(S::ACROSS <= 8, "four bits a matrix");
    sg_kept<S> kept;
    const uint64_t head_at = (uint64_t)p.head * (uint64_t)a.queries * (uint64_t)a.keys;
    const int32_t word[4] = {x.key[0], x.key[1], x.key[2], x.key[3]};
    const int top = p.first + sg_warp() * S::OWN + sg_lane() / 4;
#pragma unroll
    for (int t = 0; t < S::TILES; t++) {
        kept.bits[t] = 0;
        if (a.keys % 4 == 0) {
            kept.bits[t] = KEYS_OWN ? sg_kept_by_key<S>(a, word, head_at, top + 16 * t, column)
                                    : sg_kept_by_query<S>(a, word, head_at, top + 16 * t, column);
            continue;
        }
#pragma unroll 1
        for (int n = 0; n < 4 * S::ACROSS; n++) {
            const int own = top + 16 * t + 8 * (n / 2 % 2), swept = column + n / 4 * 8 + 2 * (sg_lane() % 4) + n % 2;
            const uint64_t at = head_at + (uint64_t)(KEYS_OWN ? swept : own) * a.keys + (KEYS_OWN ? own : swept);
            kept.bits[t] |= (sg_kept_of_block(word, a.threshold, at / 4) >> (at % 4) & 1) << n;
        }
    }
    return kept;
}

template <class S> __device__ static inline bool sg_is_kept(const sg_kept<S> &kept, int t, int n, int e)
{
    return kept.bits[t] >> (4 * n + e) & 1;
}

#endif
