/* attention_hopper.cu - the reverse derivative of attention in bf16 on the tensor cores of Hopper.
 *
 * The sweeps are those of attention_reverse.cuh. Here tiles are 64 x 64 and are multiplied by groups of four warps, which read them from
 * shared memory by themselves: rows are 128 bytes long and permuted as the hardware wants it (sg_part_at). Scores are in
 * registers as there, and from registers they are the left operand of the next product. */
#include "runtime/cuda/attention_reverse.cuh"
#include "runtime/cuda/replica.cuh"

enum { TILE = 64, TILE_BYTES = TILE * TILE * 2, EIGHT_ROWS = 8 * TILE * 2 };

/* Dropout takes registers. */
template <bool DROP> using query_tiling = sg_tiling<sg_bf16_bits, TILE, 4, 1, TILE, false, DROP ? 3 : 4>;
template <bool DROP> using key_tiling = sg_tiling<sg_bf16_bits, TILE, 4, 1, TILE, false, DROP ? 2 : 3>;
typedef sg_tiling<sg_bf16_bits, TILE, 4, 1, TILE, false, 2> second_tiling;

/* ---------------------------------------------------------------------------------------------- products of tiles */

__device__ static inline void group_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ static inline void group_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT> __device__ static inline void group_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
/* What threads have copied to shared memory, for the tensor cores. */
__device__ static inline void copies_visible() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/* What the hardware wants to know of 16 of a tile's 64 terms: where they are, how far it is to the next eight rows (both in words of 16
 * bytes), and that parts of 128 bytes are permuted. Terms lie along the rows, or (DOWN) are rows. */
template <bool DOWN> __device__ static inline uint64_t terms_at(uint32_t tile, int step)
{
    const uint32_t at = sg_shared_base() + tile + step * (DOWN ? 2 * EIGHT_ROWS : 32);
    return (uint64_t)(at >> 4 & 0x3fff) | (uint64_t)(EIGHT_ROWS / 16) << 16 |
           (uint64_t)(EIGHT_ROWS / 16) << 32 | (uint64_t)1 << 62;
}

#define EIGHT(n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3]), "+f"(c[n + 1][0]), "+f"(c[n + 1][1]),     \
                 "+f"(c[n + 1][2]), "+f"(c[n + 1][3])
#define NUMBERS                                                                                                        \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "  \
    "%24, %25, %26, %27, %28, %29, %30, %31}"

/* c = or += own swept' for 64 rows of each. Begun only: c must not be touched before group_wait. */
__device__ static inline void start_dot(float (&c)[8][4], uint32_t own, uint32_t swept, bool add)
{
#pragma unroll
    for (int step = 0; step < 4; step++)
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " NUMBERS ", %32, %33, p, 1, 1, 0, 0;\n}"
                     : EIGHT(0), EIGHT(2), EIGHT(4), EIGHT(6)
                     : "l"(terms_at<false>(own, step)), "l"(terms_at<false>(swept, step)), "r"((int)(add || step > 0)));
}

/* Scores as an operand: two matrices side by side are 16 of its terms. */
struct held {
    uint32_t part[4][4];
};
template <class S> __device__ static inline void hold(held &h, const sg_scores<S> &s)
{
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            h.part[k][i] = sg_pack_bf16(s.at[0][2 * k + i / 2][2 * (i % 2)], s.at[0][2 * k + i / 2][2 * (i % 2) + 1]);
}

/* c += scores swept. Begun only. */
__device__ static inline void start_product(float (&c)[8][4], const held &a, uint32_t swept)
{
#pragma unroll
    for (int step = 0; step < 4; step++)
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " NUMBERS
                     ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                     : EIGHT(0), EIGHT(2), EIGHT(4), EIGHT(6)
                     : "r"(a.part[step][0]), "r"(a.part[step][1]), "r"(a.part[step][2]), "r"(a.part[step][3]),
                       "l"(terms_at<true>(swept, step)));
}

/* ----------------------------------------------------------------------------------------------------- sums over rows */

/* Of the block's rows of `x`, times `factor`, as one part. `room` is shared memory that nobody uses any more. */
template <class S>
__device__ static inline void leave_part(float *room, const sg_sums<S> &x, float factor, float *part, int width)
{
    const int lane = sg_lane();
#pragma unroll
    for (int n = 0; n < S::DEEP; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float sum = x.at[0][n][e] + x.at[0][n][e + 2];
#pragma unroll
            for (int mask = 4; mask < 32; mask *= 2)
                sum += __shfl_xor_sync(0xffffffffu, sum, mask);
            if (lane < 4)
                room[sg_warp() * TILE + 8 * n + 2 * lane + e] = sum;
        }
    __syncthreads();
    for (int column = threadIdx.x; column < width; column += S::THREADS) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < S::WARPS; w++)
            sum += room[w * TILE + column];
        part[column] = factor * sum;
    }
}

/* ------------------------------------------------------------------------------------------------------------ tiles */

/* Where the operands of a block are: those of its own rows, and of the other side two stages. */
template <class S, bool SECOND> struct tiles {
    static constexpr int COUNT = SECOND ? 4 : 2, STAGE = COUNT * TILE_BYTES, SWEPT = COUNT * S::OWN_BYTES,
                         ROWS = SWEPT + 2 * STAGE, PLANES = SECOND ? 5 : 3, ROWS_BYTES = PLANES * TILE * 4,
                         BYTES = ROWS, BYTES_WITH_ROWS = ROWS + 2 * ROWS_BYTES;
    __device__ static uint32_t own(int i) { return i * S::OWN_BYTES; }
    __device__ static uint32_t swept(int i, int stage) { return SWEPT + stage * STAGE + i * TILE_BYTES; }
};

template <class S, bool SECOND>
__device__ static inline void fetch_own(const sg_rows_of<sg_bf16_bits> *const *rows, int first)
{
#pragma unroll
    for (int i = 0; i < tiles<S, SECOND>::COUNT; i++)
        sg_fetch<S, S::ROWS>(i * S::OWN_BYTES, *rows[i], first);
}
template <class S, bool SECOND>
__device__ static inline void fetch_swept(const sg_rows_of<sg_bf16_bits> *const *rows, int first, int stage)
{
#pragma unroll
    for (int i = 0; i < tiles<S, SECOND>::COUNT; i++)
        sg_fetch<S, TILE>(tiles<S, SECOND>::swept(i, stage), *rows[i], first);
}

/* S and dP, and their tangents: own tiles are q, g, tq, tg and swept k, v, tk, tv, or the other way round. */
template <class S> struct four_scores {
    sg_scores<S> s, dp, ts, tdp;
};
/* Each is committed by itself, in the order s, ts, dp, tdp. */
template <class S, bool SECOND> __device__ static inline void start_scores(four_scores<S> &x, int stage)
{
    typedef tiles<S, SECOND> M;
    group_fence();
    start_dot(x.s.at[0], M::own(0), M::swept(0, stage), false);
    group_commit();
    if constexpr (SECOND) {
        start_dot(x.ts.at[0], M::own(2), M::swept(0, stage), false);
        start_dot(x.ts.at[0], M::own(0), M::swept(2, stage), true);
        group_commit();
    }
    start_dot(x.dp.at[0], M::own(1), M::swept(1, stage), false);
    group_commit();
    if constexpr (SECOND) {
        start_dot(x.tdp.at[0], M::own(3), M::swept(1, stage), false);
        start_dot(x.tdp.at[0], M::own(1), M::swept(3, stage), true);
        group_commit();
    }
}

/* What start_scores has begun becomes P and dS, and with SECOND tP and tdS. */
template <class S, bool SECOND, bool KEYS_OWN, class Reverse>
__device__ static inline void finish(four_scores<S> &t, const Reverse &reverse, const sg_cuda_attention &a,
                                     const sg_cuda_attention_operands &x, const sg_attention_place &p, int column)
{
    group_wait<SECOND ? 3 : 1>();
    const float factor = sg_finish_scores<S, KEYS_OWN>(t.s, a, x, p, column);
    reverse.probabilities(t.s, factor);
    if constexpr (SECOND) {
        group_wait<2>();
        const float t_factor = sg_finish_tangents<S, KEYS_OWN>(t.ts, a, x, p, column);
        reverse.tangents(t.s, t.ts, t_factor);
        group_wait<1>();
        reverse.pulls(t.dp);
        group_wait<0>();
        reverse.pull_tangents(t.tdp);
        reverse.pull(t.s, t.ts, t.dp, t.tdp, true);
    } else {
        group_wait<0>();
        reverse.pulls(t.dp);
        reverse.pull(t.s, t.s, t.dp, t.dp, false);
    }
}

/* sums += scores swept. Begun only, but scores may change. */
template <class S>
__device__ static inline void start_sums(sg_sums<S> &sums, const sg_scores<S> &scores, held &h, uint32_t swept)
{
    hold(h, scores);
    group_fence();
    start_product(sums.at[0], h, swept);
}

/* ---------------------------------------------------------------------------------------------- dq, sweeping the keys */

template <class S, bool SECOND, bool DROP, bool WHOLE>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    attention_hopper_queries(const sg_cuda_attention a, const sg_cuda_attention_operands x)
{
    typedef tiles<S, SECOND> M;
    const sg_attention_place p = sg_place_of<S>(a, a.queries);
    const sg_head<sg_bf16_bits> r(a, x, p, SECOND);
    const sg_rows_of<sg_bf16_bits> *const own[] = {&r.q, &r.g, &r.tq, &r.tg}, *const swept[] = {&r.k, &r.v, &r.tk, &r.tv};
    sg_sums<S> dq;
    sg_clear(dq);
    sg_row_parts rows[1][2];
    fetch_own<S, SECOND>(own, p.first);
    sg_wait();
    sg_let_next_begin();
    sg_each_row<S>(p.first, (int)sg_padded_queries(a), [&](int t, int half, int row) {
        rows[t][half].shift = sg_plane(a, x, SG_ATTENTION_SHIFT, p.head)[row];
        rows[t][half].over = sg_plane(a, x, SG_ATTENTION_OVER, p.head)[row];
        rows[t][half].d = sg_plane(a, x, SG_ATTENTION_D, p.head)[row];
        if (SECOND) {
            rows[t][half].c = sg_plane(a, x, SG_ATTENTION_C, p.head)[row];
            rows[t][half].td = sg_plane(a, x, SG_ATTENTION_TD, p.head)[row];
        }
    });
    sg_sweep(
        0, sg_key_tiles<S>(a, p.first), [&](int tile, int stage) { fetch_swept<S, SECOND>(swept, tile * TILE, stage); },
        copies_visible,
        [&](int tile, int stage) {
            four_scores<S> t;
            sg_kept<S> kept;
            held h, th;
            const auto parts = [&](int, int, int e) -> const sg_row_parts & { return rows[0][e / 2]; };
            const sg_reverse<S, DROP, decltype(parts), WHOLE> reverse = {parts, kept, a.dropout, a.kept};
            start_scores<S, SECOND>(t, stage);
            if (DROP && a.dropout)
                kept = sg_draw_kept<S, false>(a, x, p, tile * TILE);
            finish<S, SECOND, false>(t, reverse, a, x, p, tile * TILE);
            start_sums(dq, t.dp, h, M::swept(SECOND ? 2 : 0, stage));
            if constexpr (SECOND)
                start_sums(dq, t.tdp, th, M::swept(0, stage));
            group_commit();
            group_wait<0>();
        });
    float scale[1][2] = {{a.scale, a.scale}};
    sg_leave<S>(dq, scale, x.dq, a.dq, p.b, p.h, p.first, a.queries, a.depth);
    __syncthreads();
    if (x.sum[0])
        leave_part((float *)sg_shared_memory, dq, a.scale, sg_part_of<S>(a, x, 0, p, a.queries), a.depth);
}

/* --------------------------------------------------------------------------------------- dk and dv, sweeping the queries
 *
 * Scores are transposed: their rows are keys.
 *
 * This launch reads nothing that the one for dq writes, and begins when the last blocks of that have begun, which have waited for the
 * rows' numbers. Who waits for it waits for both: it ends after the other has. */

template <class S, bool SECOND, bool DROP, bool WHOLE>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    attention_hopper_keys(const sg_cuda_attention a, const sg_cuda_attention_operands x)
{
    typedef tiles<S, SECOND> M;
    const sg_attention_place p = sg_place_of<S>(a, a.keys);
    const sg_head<sg_bf16_bits> r(a, x, p, SECOND);
    const sg_rows_of<sg_bf16_bits> *const own[] = {&r.k, &r.v, &r.tk, &r.tv}, *const swept[] = {&r.q, &r.g, &r.tq, &r.tg};
    sg_sums<S> dk, dv;
    sg_clear(dk);
    sg_clear(dv);
    fetch_own<S, SECOND>(own, p.first);
    if (!x.dq)
        sg_wait();
    sg_sweep(
        sg_first_query_tile<S>(a, p.first), (a.queries + TILE - 1) / TILE,
        [&](int tile, int stage) {
            fetch_swept<S, SECOND>(swept, tile * TILE, stage);
            sg_fetch_rows<S, SECOND>(M::ROWS + stage * M::ROWS_BYTES, a, x, p.head, tile * TILE);
        },
        copies_visible,
        [&](int tile, int stage) {
            const float2 *numbers =
                (const float2 *)(sg_shared_memory + M::ROWS + stage * M::ROWS_BYTES) + sg_lane() % 4;
            const auto parts = [&](int, int n, int e) {
                const auto at = [&](int plane) {
                    const float2 pair = numbers[(plane * TILE + 8 * n) / 2];
                    return e % 2 ? pair.y : pair.x;
                };
                sg_row_parts row = {at(SG_ATTENTION_SHIFT), at(SG_ATTENTION_OVER), at(SG_ATTENTION_D), 0, 0};
                if (SECOND) {
                    row.c = at(SG_ATTENTION_C);
                    row.td = at(SG_ATTENTION_TD);
                }
                return row;
            };
            four_scores<S> t;
            sg_kept<S> kept;
            held h, th;
            const sg_reverse<S, DROP, decltype(parts), WHOLE> reverse = {parts, kept, a.dropout, a.kept};
            start_scores<S, SECOND>(t, stage);
            if (DROP && a.dropout)
                kept = sg_draw_kept<S, true>(a, x, p, tile * TILE);
            finish<S, SECOND, true>(t, reverse, a, x, p, tile * TILE);
            reverse.dropped(t.s);
            if (SECOND)
                reverse.dropped(t.ts);
            if constexpr (SECOND) {
                start_sums(dv, t.ts, h, M::swept(1, stage));
                start_sums(dk, t.tdp, th, M::swept(0, stage));
                group_commit();
                group_wait<0>();
            }
            start_sums(dv, t.s, h, M::swept(SECOND ? 3 : 1, stage));
            start_sums(dk, t.dp, th, M::swept(SECOND ? 2 : 0, stage));
            group_commit();
            group_wait<0>();
        });
    float scale[1][2] = {{a.scale, a.scale}}, one[1][2] = {{1, 1}};
    if (x.dk)
        sg_leave<S>(dk, scale, x.dk, a.dk, p.b, p.h, p.first, a.keys, a.depth);
    if (x.dv)
        sg_leave<S>(dv, one, x.dv, a.dv, p.b, p.h, p.first, a.keys, a.width);
    __syncthreads();
    if (x.sum[1])
        leave_part((float *)sg_shared_memory, dk, a.scale, sg_part_of<S>(a, x, 1, p, a.keys), a.depth);
    if (x.sum[2])
        leave_part((float *)sg_shared_memory + S::WARPS * TILE, dv, 1.f, sg_part_of<S>(a, x, 2, p, a.keys), a.width);
    sg_wait();
}

/* ---------------------------------------------------------------------------------------------------------- launches */

extern "C" bool sg_cuda_attention_hopper(const sg_cuda_attention *a)
{
    return a->capability == 90 && a->bf16 && a->depth <= TILE && a->width <= TILE;
}

template <class S, bool SECOND, bool DROP, bool WHOLE> struct sweeps {
    static void over_keys(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream)
    {
        sg_cuda_overlap(stream);
        SG_LAUNCH_SHARED((attention_hopper_queries<S, SECOND, DROP, WHOLE>), sg_attention_blocks<S>(*a, a->queries),
                         S::THREADS, (tiles<S, SECOND>::BYTES), stream, *a, *x);
    }
    static void over_queries(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream)
    {
        sg_cuda_overlap(stream);
        SG_LAUNCH_SHARED((attention_hopper_keys<S, SECOND, DROP, WHOLE>), sg_attention_blocks<S>(*a, a->keys), S::THREADS,
                         (tiles<S, SECOND>::BYTES_WITH_ROWS), stream, *a, *x);
    }
};

extern "C" void sg_cuda_attention_hopper_queries(const sg_cuda_attention *a, const sg_cuda_attention_operands *x,
                                                 bool second, cudaStream_t stream)
{
    const bool whole = sg_rows_are_whole(a, x);
    if (second)
        (a->dropout ? sweeps<second_tiling, true, true, false>::over_keys
                    : sweeps<second_tiling, true, false, false>::over_keys)(a, x, stream);
    else if (a->dropout)
        (whole ? sweeps<query_tiling<true>, false, true, true>::over_keys
               : sweeps<query_tiling<true>, false, true, false>::over_keys)(a, x, stream);
    else
        (whole ? sweeps<query_tiling<false>, false, false, true>::over_keys
               : sweeps<query_tiling<false>, false, false, false>::over_keys)(a, x, stream);
}

extern "C" void sg_cuda_attention_hopper_keys(const sg_cuda_attention *a, const sg_cuda_attention_operands *x,
                                              bool second, cudaStream_t stream)
{
    const bool whole = sg_rows_are_whole(a, x);
    if (second)
        (a->dropout ? sweeps<second_tiling, true, true, false>::over_queries
                    : sweeps<second_tiling, true, false, false>::over_queries)(a, x, stream);
    else if (a->dropout)
        (whole ? sweeps<key_tiling<true>, false, true, true>::over_queries
               : sweeps<key_tiling<true>, false, true, false>::over_queries)(a, x, stream);
    else
        (whole ? sweeps<key_tiling<false>, false, false, true>::over_queries
               : sweeps<key_tiling<false>, false, false, false>::over_queries)(a, x, stream);
}

extern "C" int64_t sg_cuda_attention_hopper_parts(const sg_cuda_attention *a, int which)
{
    return (int64_t)a->batch * (((which == 0 ? a->queries : a->keys) + TILE - 1) / TILE);
}
