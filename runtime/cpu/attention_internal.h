/* attention_internal.h - what the attention kernels share: the problem, packed operands of one head, and rows of scores.
 *
 * Work is cut into heads (batch, head) and tiles of queries. Scores exist for one tile at a time, in the thread's scratch:
 * memory grows with the number of keys, not with queries times keys. The operands of products are first copied into
 * packed rows (rows of one head lie heads * width apart in memory, a power of two as a rule, where they would fight for
 * the same few cache lines). */
#ifndef SG_CPU_ATTENTION_INTERNAL_H
#define SG_CPU_ATTENTION_INTERNAL_H

#include "graph/random_internal.h"
#include "ops/attention_internal.h"
#include "runtime/cpu/cpu_internal.h"
#include "runtime/cpu/tile_kernels_internal.h"

/* Elements between neighbours along an axis of q, k, v or what is shaped like them. */
typedef struct sg_attention_layout {
    int64_t batch, head, row;
} sg_attention_layout;

/* The same for what is broadcast to the scores. */
typedef struct sg_attention_spread {
    int32_t input; /* or -1 */
    int64_t step[4];
} sg_attention_spread;

typedef struct sg_attention_problem {
    int64_t batch, heads, queries, keys, depth, width; /* q is [.., queries, depth], v [.., keys, width] */
    int64_t depth_pad, width_pad;                      /* in whole vectors */
    int64_t row; /* floats between rows of scores and of transposed keys: an odd number of cache lines, so that a column
                  * does not fall on a few sets of the cache */
    int64_t tile; /* queries of one tile */
    sg_attention_layout q, k, v, out;
    sg_attention_spread mask, bias;
    int32_t key;             /* input with the key of the dropout draw, or -1 */
    float scale, rate, kept; /* kept = 1 / (1 - rate) */
    bool causal;
} sg_attention_problem;

/* Read the problem from a node whose first `n_x` inputs are those of an attention. `tiles` is the number of score tiles that
 * the kernel holds at once. */
sg_attention_problem sg_attention_describe(const sg_kernel_spec *spec, int32_t n_x, int32_t tiles);
/* f32 all through, and not too large for 32-bit sizes of one head. */
bool sg_attention_fits(const sg_kernel_spec *spec, int32_t n_x);

/* One tile of queries of one head. */
typedef struct sg_attention_tile {
    int64_t b, h, first, rows;
    int64_t keys, keys_pad; /* that its last query may attend to */
} sg_attention_tile;
sg_attention_tile sg_attention_tile_at(const sg_attention_problem *a, int64_t head, int64_t tile);
static inline int64_t sg_attention_tiles(const sg_attention_problem *a) { return (a->queries + a->tile - 1) / a->tile; }

/* A causal tile leaves out the keys behind it. In a product these are zeros times numbers, which is nothing unless a number is not
 * finite; then the tile takes them all, so that a NaN goes where it goes without tiles. */
void sg_attention_take_all(const sg_attention_problem *a, sg_attention_tile *t);
/* Are all rows of x in the tile's head finite? */
bool sg_attention_finite(const sg_attention_tile *t, const void *x, const sg_attention_layout *l, int64_t count,
                         int64_t width);

static inline const float *sg_attention_rows(const void *x, const sg_attention_layout *l, const sg_attention_tile *t,
                                             int64_t row)
{
    return (const float *)x + t->b * l->batch + t->h * l->head + row * l->row;
}

/* Scratch of one thread, handed out in lines. With base NULL only the size is counted. */
typedef struct sg_scratch {
    char *base;
    size_t used;
} sg_scratch;
static inline float *sg_scratch_take(sg_scratch *s, int64_t floats)
{
    float *at = s->base ? (float *)(s->base + s->used) : NULL;
    s->used += sg_cpu_line((size_t)floats * sizeof(float));
    return at;
}

/* Packed rows of x, times a factor, to where rows lie `stride` apart. */
void sg_attention_unpack(const float *x, int64_t pad, int64_t count, int64_t width, float factor, float *out,
                         int64_t stride);

/* What depends on the launch: inputs and the draw. */
typedef struct sg_attention_run {
    const sg_attention_problem *a;
    const sg_tile_kernels *k;
    const void *const *in;
    sg_draw draw;
} sg_attention_run;
sg_attention_run sg_attention_begin(const sg_attention_problem *a, const sg_launch *launch);

/* scores [rows, row] of the tile; kt is scale times k, transposed, [depth, row]. -inf where not attended and in the padding of
 * t->keys_pad columns. */
void sg_attention_scores(const sg_attention_run *run, const sg_attention_tile *t, const float *kt, float *scores);
/* Scores become probabilities, given the logsumexp of each row. A row that attends to nothing becomes zeros. */
void sg_attention_probabilities(const sg_attention_run *run, const sg_attention_tile *t, const float *lse,
                                float *scores);
/* Zeros where row i of the tile does not attend, and in the padding: what reaches a score that was replaced by -inf is an exact zero,
 * not zero times its cotangent. */
void sg_attention_leave_zero(const sg_attention_run *run, const sg_attention_tile *t, int64_t i, float *row);
/* Tangents of the scores from those of q, k (as tkt, scaled and transposed like kt) and the bias; NULL: not moving. */
void sg_attention_score_tangents(const sg_attention_run *run, const sg_attention_tile *t, const float *kt,
                                 const float *tq, const float *tkt, const float *tbias, float *tangents);
/* Factors of dropout for row i of the tile; NULL without dropout. */
const float *sg_attention_drop(const sg_attention_run *run, const sg_attention_tile *t, int64_t i, float *row);

/* Operands of products, packed for the head of the tile: factor * x' [width, row], and x in rows of `pad` floats. */
void sg_attention_pack_columns(const sg_attention_run *run, const sg_attention_tile *t, const void *x,
                               const sg_attention_layout *l, int64_t width, float factor, float *out);
void sg_attention_pack_rows(const sg_attention_tile *t, const void *x, const sg_attention_layout *l, int64_t first,
                            int64_t count, int64_t width, float *out);

#endif
