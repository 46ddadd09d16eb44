/* attention_tile.c - what the attention kernels share, see attention_internal.h. */
#include "runtime/cpu/attention_internal.h"

#include <math.h>
#include <string.h>

#include "runtime/cpu/micro_internal.h"

/* Floats of one thread's score tiles: half of a small second-level cache. */
#define TILE_FLOATS 32768
#define MOST_ROWS 128
#define LEAST_ROWS 6

static sg_attention_layout layout_of(const sg_shape *x, bool heads_inner)
{
    const int64_t *d = x->dim;
    sg_attention_layout l = {d[1] * d[2] * d[3], d[2] * d[3], d[3]};
    if (heads_inner)
        l = (sg_attention_layout){d[1] * d[2] * d[3], d[3], d[2] * d[3]};
    return l;
}

static sg_attention_spread spread_of(const sg_kernel_spec *spec, int32_t input)
{
    sg_attention_spread s = {.input = input};
    if (input < 0)
        return s;
    const sg_shape *x = &spec->in_shape[input];
    int64_t size = 1;
    for (int32_t i = 3, axis = x->rank - 1; axis >= 0; i--, axis--) {
        s.step[i] = x->dim[axis] == 1 ? 0 : size;
        size *= x->dim[axis];
    }
    return s;
}

static int64_t tile_rows(int64_t queries, int64_t row, int32_t tiles)
{
    int64_t rows = TILE_FLOATS / (row * tiles) / LEAST_ROWS * LEAST_ROWS;
    rows = rows < LEAST_ROWS ? LEAST_ROWS : rows > MOST_ROWS ? MOST_ROWS : rows;
    return rows < queries ? rows : queries > 0 ? queries : 1;
}

sg_attention_problem sg_attention_describe(const sg_kernel_spec *spec, int32_t n_x, int32_t tiles)
{
    const sg_shape *q = &spec->in_shape[SG_ATTENTION_Q], *k = &spec->in_shape[SG_ATTENTION_K];
    const sg_shape *v = &spec->in_shape[SG_ATTENTION_V];
    const sg_attr *attr = spec->attr;
    bool inner = attr[SG_ATTENTION_HEADS_INNER].i != 0;
    sg_attention_extras extras = sg_attention_find(n_x, spec->in_dtype);
    sg_attention_problem a = {.batch = q->dim[0],
                              .heads = q->dim[inner ? 2 : 1],
                              .queries = q->dim[inner ? 1 : 2],
                              .keys = k->dim[inner ? 1 : 2],
                              .depth = q->dim[3],
                              .width = v->dim[3],
                              .mask = spread_of(spec, extras.mask),
                              .bias = spread_of(spec, extras.bias),
                              .key = extras.key,
                              .scale = (float)attr[SG_ATTENTION_SCALE].f,
                              .rate = (float)attr[SG_ATTENTION_DROPOUT].f,
                              .kept = (float)(1 / (1 - attr[SG_ATTENTION_DROPOUT].f)),
                              .causal = attr[SG_ATTENTION_CAUSAL].i != 0};
    sg_shape out = *q;
    out.dim[3] = a.width;
    a.q = layout_of(q, inner);
    a.k = layout_of(k, inner);
    a.v = layout_of(v, inner);
    a.out = layout_of(&out, inner);
    a.row = (sg_tile_pad(a.keys) / SG_TILE_LANES | 1) * SG_TILE_LANES;
    a.depth_pad = sg_tile_pad(a.depth);
    a.width_pad = sg_tile_pad(a.width);
    a.tile = tile_rows(a.queries, a.row, tiles);
    return a;
}

bool sg_attention_fits(const sg_kernel_spec *spec, int32_t n_x)
{
    for (int32_t k = 0; k < n_x; k++)
        if (sg_dtype_is_real(spec->in_dtype[k]) && spec->in_dtype[k] != SG_F32)
            return false;
    return true;
}

sg_attention_tile sg_attention_tile_at(const sg_attention_problem *a, int64_t head, int64_t tile)
{
    sg_attention_tile t = {.b = head / a->heads, .h = head % a->heads, .first = tile * a->tile};
    t.rows = a->queries - t.first < a->tile ? a->queries - t.first : a->tile;
    t.keys = a->causal && t.first + t.rows < a->keys ? t.first + t.rows : a->keys;
    t.keys_pad = sg_tile_pad(t.keys);
    return t;
}

void sg_attention_pack_columns(const sg_attention_run *run, const sg_attention_tile *t, const void *x,
                               const sg_attention_layout *l, int64_t width, float factor, float *out)
{
    run->k->transpose(run->a->keys, width, factor, sg_attention_rows(x, l, t, 0), l->row, out, run->a->row);
}

void sg_attention_pack_rows(const sg_attention_tile *t, const void *x, const sg_attention_layout *l, int64_t first,
                            int64_t count, int64_t width, float *out)
{
    int64_t pad = sg_tile_pad(width);
    for (int64_t i = 0; i < count; i++) {
        memcpy(out + i * pad, sg_attention_rows(x, l, t, first + i), (size_t)width * sizeof(float));
        memset(out + i * pad + width, 0, (size_t)(pad - width) * sizeof(float));
    }
}

void sg_attention_unpack(const float *x, int64_t pad, int64_t count, int64_t width, float factor, float *out,
                         int64_t stride)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < width; j++)
            out[i * stride + j] = factor * x[i * pad + j];
}

sg_attention_run sg_attention_begin(const sg_attention_problem *a, const sg_launch *launch)
{
    sg_attention_run run = {.a = a, .k = sg_tile_kernels_best(), .in = launch->in};
    if (a->key >= 0)
        run.draw = sg_draw_of_key(launch->in[a->key]);
    return run;
}

/* Offset of the first key in row i of the tile. */
static int64_t spread_row(const sg_attention_spread *s, const sg_attention_tile *t, int64_t i)
{
    return t->b * s->step[0] + t->h * s->step[1] + (t->first + i) * s->step[2];
}

static void add_spread(const sg_attention_run *run, const sg_attention_spread *spread, const sg_attention_tile *t,
                       const void *x, float *rows)
{
    for (int64_t i = 0; i < t->rows; i++)
        run->k->add(t->keys, (const float *)x + spread_row(spread, t, i), spread->step[3], rows + i * run->a->row);
}

static void leave_out(float *row, int64_t from, int64_t to)
{
    for (int64_t j = from; j < to; j++)
        row[j] = -INFINITY;
}

void sg_attention_scores(const sg_attention_run *run, const sg_attention_tile *t, const float *kt, float *scores)
{
    const sg_attention_problem *a = run->a;
    const float *q = sg_attention_rows(run->in[SG_ATTENTION_Q], &a->q, t, t->first);
    run->k->gemm(t->rows, t->keys_pad, a->depth, q, a->q.row, 1, kt, a->row, scores, a->row, false);
    if (a->bias.input >= 0)
        add_spread(run, &a->bias, t, run->in[a->bias.input], scores);
    for (int64_t i = 0; i < t->rows; i++) {
        float *row = scores + i * a->row;
        int64_t last = t->first + i + 1;
        if (a->mask.input >= 0)
            run->k->mask(t->keys, (const uint8_t *)run->in[a->mask.input] + spread_row(&a->mask, t, i), a->mask.step[3],
                         row);
        leave_out(row, a->causal && last < t->keys ? last : t->keys, t->keys_pad);
    }
}

static bool is_finite_row(const float *x, int64_t n)
{
    uint32_t largest = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    return largest < 0x7f800000;
}

bool sg_attention_finite(const sg_attention_tile *t, const void *x, const sg_attention_layout *l, int64_t count,
                         int64_t width)
{
    for (int64_t i = 0; i < count; i++)
        if (!is_finite_row(sg_attention_rows(x, l, t, i), width))
            return false;
    return true;
}

void sg_attention_take_all(const sg_attention_problem *a, sg_attention_tile *t)
{
    t->keys = a->keys;
    t->keys_pad = sg_tile_pad(t->keys);
}

void sg_attention_leave_zero(const sg_attention_run *run, const sg_attention_tile *t, int64_t i, float *row)
{
    const sg_attention_problem *a = run->a;
    int64_t last = a->causal && t->first + i + 1 < t->keys ? t->first + i + 1 : t->keys;
    if (a->mask.input >= 0) {
        const uint8_t *keep = (const uint8_t *)run->in[a->mask.input] + spread_row(&a->mask, t, i);
        for (int64_t j = 0; j < last; j++)
            row[j] = keep[j * a->mask.step[3]] ? row[j] : 0;
    }
    memset(row + last, 0, (size_t)(t->keys_pad - last) * sizeof(float));
}

/* The rounding of a large logsumexp is an error that all elements of the row share: dividing by their sum, which is 1 but
 * for it, takes it away. */
void sg_attention_probabilities(const sg_attention_run *run, const sg_attention_tile *t, const float *lse,
                                float *scores)
{
    for (int64_t i = 0; i < t->rows; i++) {
        float *row = scores + i * run->a->row;
        if (lse[i] == -INFINITY) {
            memset(row, 0, (size_t)t->keys_pad * sizeof(float));
            continue;
        }
        float sum = run->k->exp_sum(t->keys_pad, lse[i], row);
        if (isfinite(lse[i])) /* else a score is not, and says so itself */
            run->k->scale(t->keys_pad, 1 / sum, row, row);
    }
}

void sg_attention_score_tangents(const sg_attention_run *run, const sg_attention_tile *t, const float *kt,
                                 const float *tq, const float *tkt, const float *tbias, float *tangents)
{
    const sg_attention_problem *a = run->a;
    const float *q = sg_attention_rows(run->in[SG_ATTENTION_Q], &a->q, t, t->first);
    if (tq)
        run->k->gemm(t->rows, t->keys_pad, a->depth, sg_attention_rows(tq, &a->q, t, t->first), a->q.row, 1, kt, a->row,
                     tangents, a->row, false);
    if (tkt)
        run->k->gemm(t->rows, t->keys_pad, a->depth, q, a->q.row, 1, tkt, a->row, tangents, a->row, tq != NULL);
    if (!tq && !tkt)
        for (int64_t i = 0; i < t->rows; i++)
            memset(tangents + i * a->row, 0, (size_t)t->keys_pad * sizeof(float));
    if (tbias)
        add_spread(run, &a->bias, t, tbias, tangents);
    for (int64_t i = 0; i < t->rows; i++)
        sg_attention_leave_zero(run, t, i, tangents + i * a->row);
}

const float *sg_attention_drop(const sg_attention_run *run, const sg_attention_tile *t, int64_t i, float *row)
{
    const sg_attention_problem *a = run->a;
    if (a->key < 0)
        return NULL;
    int64_t first = ((t->b * a->heads + t->h) * a->queries + t->first + i) * a->keys;
    sg_micro_best()->uniform(row, run->draw, (uint64_t)first, t->keys);
    memset(row + t->keys, 0, (size_t)(t->keys_pad - t->keys) * sizeof(float));
    run->k->keep(t->keys_pad, a->rate, a->kept, row);
    return row;
}
