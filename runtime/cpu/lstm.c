/* lstm.c - the recurrence of an LSTM, its reverse and forward derivatives, and the forward derivative of the reverse one.
 *
 * Rows of the batch do not see each other, so a tile of rows runs through all its steps on one thread: one product with W a
 * step, then the gates. With i, f, g, o the gates, c the cell, c' and h' those before, y = tanh c, and cotangents dh, dc:
 *
 *     do = dh y,   dc += dh o (1 - y^2),   di = dc g,   df = dc c',   dg = dc i
 *     dz = di i (1 - i), df f (1 - f), dg (1 - g^2), do o (1 - o);    dc' = dc f,   dh' = dz W,   dW = sum over all dz' h'
 *
 * where dW is one product over all steps at the end. Forward, with t. the tangent of . :
 *
 *     tz = tz_t + th' W' + h' tW',   tc = tf c' + f tc' + ti g + i tg,   th = to y + o (1 - y^2) tc
 *
 * and the tangent of the reverse recurrence is the product rule of each line above. Past a row's length its state stays, and
 * all that belongs to these steps is 0. */
#include "ops/lstm_internal.h"

#include <string.h>

#include "ops/derivative_internal.h"
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/index_internal.h"
#include "runtime/cpu/lstm_gates_internal.h"
#include "runtime/cpu/micro_internal.h"
#include "runtime/cpu/tile_kernels_internal.h"

/* Rows of dW that one thread sums at a time. */
#define WEIGHT_ROWS 48

/* Which input or output of the node holds what; -1: none. */
typedef struct places {
    int32_t lengths, out, gates, cells; /* what the forward pass left */
    int32_t g_out, g_h, g_c;
    int32_t tz, tw, th, tc;
    int32_t tg_out, tg_h, tg_c;
    int32_t dz, dw, dh, dc;
} places;

typedef struct lstm {
    int64_t batch, steps, hidden, z_size; /* z_size = 4 hidden */
    int64_t h_pad, z_pad;                 /* in whole vectors */
    int64_t tile;                         /* rows */
    bool backwards;                       /* the steps run from the last to the first */
    bool reverse, forward;                /* the derivative: reverse, forward, both; none: the recurrence itself */
    places p;
    size_t scratch; /* floats of one thread */
} lstm;

/* What all threads share: packed weights, and arrays [batch, steps, ..] in the workspace or in outputs. */
typedef struct shared {
    float *wt, *twt;            /* W' [hidden, z_pad] and its tangent */
    float *w, *tw;              /* W [4 hidden, h_pad] */
    float *out, *gates, *cells; /* forward: results, or their tangents */
    float *dz, *tdz;            /* [batch, steps, 4 hidden] */
    float *before, *tbefore;    /* h' [batch, steps, h_pad] */
    float *dw;                  /* [4 hidden, h_pad] */
    float *scratch;
} shared;

typedef struct job {
    const lstm *s;
    const sg_launch *l;
    const sg_tile_kernels *k;
    const sg_micro_set *micro;
    shared m;
} job;

/* The state of a tile of rows, each [tile, h_pad] or [tile, z_pad]. */
typedef struct tile {
    int64_t first, rows;
    float *h, *c, *next_h, *z;     /* or, in reverse, dh, dc, dz */
    float *th, *tc, *tnext_h, *tz; /* their tangents */
    float *y;                      /* one row */
} tile;

static const float *input(const job *j, int32_t place) { return place < 0 ? NULL : j->l->in[place]; }

static int64_t length_of(const job *j, int64_t b)
{
    return j->s->p.lengths < 0 ? j->s->steps : ((const int32_t *)j->l->in[j->s->p.lengths])[b];
}

/* The n-th step in the order of the recurrence. */
static int64_t step_at(const lstm *s, int64_t n) { return s->backwards ? s->steps - 1 - n : n; }

/* The step before t of a row of that length; -1: the first state. */
static int64_t step_before(const lstm *s, int64_t t, int64_t length)
{
    int64_t before = s->backwards ? t + 1 : t - 1;
    return before < length ? before : -1;
}

/* Row (b, t) of an array [batch, steps, width]. */
static const float *row_of(const lstm *s, const float *x, int64_t b, int64_t t, int64_t width)
{
    return x + (b * s->steps + t) * width;
}

static float *row_to(const lstm *s, float *x, int64_t b, int64_t t, int64_t width)
{
    return x + (b * s->steps + t) * width;
}

/* What a state was before step t: from `all` [batch, steps, hidden], or the first state [batch, hidden] (NULL: zeros). */
static const float *state_before(const lstm *s, const float *all, const float *first, int64_t b, int64_t t,
                                 int64_t length)
{
    int64_t before = step_before(s, t, length);
    if (before >= 0)
        return row_of(s, all, b, before, s->hidden);
    return first ? first + b * s->hidden : NULL;
}

static void apply(const job *j, sg_micro_op op, const float *x, float *y, int64_t n)
{
    const intptr_t along = -1;
    j->micro->fn[op](y, (const void *[]){x}, &along, NULL, n);
}

static tile tile_at(const job *j, int64_t index, int32_t thread)
{
    const lstm *s = j->s;
    tile t = {.first = index * s->tile};
    t.rows = s->batch - t.first < s->tile ? s->batch - t.first : s->tile;
    float *at = j->m.scratch + (size_t)thread * s->scratch;
    float **const states[] = {&t.h, &t.c, &t.next_h, &t.th, &t.tc, &t.tnext_h}, **const wide[] = {&t.z, &t.tz};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++, at += s->tile * s->h_pad)
        *states[i] = at;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++, at += s->tile * s->z_pad)
        *wide[i] = at;
    t.y = at;
    return t;
}

/* state [rows, h_pad] from first [batch, hidden], zeros if NULL. */
static void load_state(const lstm *s, const tile *t, const float *first, float *state)
{
    memset(state, 0, (size_t)(t->rows * s->h_pad) * sizeof *state);
    for (int64_t i = 0; i < t->rows && first; i++)
        memcpy(state + i * s->h_pad, first + (t->first + i) * s->hidden, (size_t)s->hidden * sizeof *state);
}

static void store_state(const job *j, const tile *t, const float *state, int32_t place)
{
    const lstm *s = j->s;
    for (int64_t i = 0; i < t->rows && place >= 0; i++)
        memcpy((float *)j->l->out[place] + (t->first + i) * s->hidden, state + i * s->h_pad,
               (size_t)s->hidden * sizeof *state);
}

/* z [rows, z_pad] (+)= x [rows, h_pad] wt. */
static void times_weights(const job *j, const tile *t, const float *x, const float *wt, float *z, bool add)
{
    j->k->gemm(t->rows, j->s->z_pad, j->s->hidden, x, j->s->h_pad, 1, wt, j->s->z_pad, z, j->s->z_pad, add);
}

/* h [rows, h_pad] (+)= dz [rows, z_pad] w. */
static void back_through_weights(const job *j, const tile *t, const float *dz, const float *w, float *h, bool add)
{
    j->k->gemm(t->rows, j->s->h_pad, j->s->z_size, dz, j->s->z_pad, 1, w, j->s->h_pad, h, j->s->h_pad, add);
}

static void clear_row(const lstm *s, float *x, int64_t b, int64_t t, int64_t width)
{
    if (x)
        memset(row_to(s, x, b, t, width), 0, (size_t)width * sizeof *x);
}

/* ------------------------------------------------------------------------------------------------- the recurrence */

static void cell_row(const job *j, const tile *t, int64_t i, int64_t at)
{
    const lstm *s = j->s;
    int64_t b = t->first + i, n = s->hidden;
    float *z = t->z + i * s->z_pad, *c = t->c + i * s->h_pad, *h = t->h + i * s->h_pad;
    float *gates = row_to(s, j->m.gates, b, at, s->z_size), *out = row_to(s, j->m.out, b, at, n);
    const float *known = row_of(s, j->l->in[SG_LSTM_Z], b, at, s->z_size);
    for (int64_t k = 0; k < s->z_size; k++)
        z[k] += known[k];
    apply(j, SG_MICRO_SIGMOID, z, gates, 2 * n);
    apply(j, SG_MICRO_TANH, z + 2 * n, gates + 2 * n, n);
    apply(j, SG_MICRO_SIGMOID, z + 3 * n, gates + 3 * n, n);
    for (int64_t k = 0; k < n; k++)
        c[k] = gates[n + k] * c[k] + gates[k] * gates[2 * n + k];
    apply(j, SG_MICRO_TANH, c, t->y, n);
    for (int64_t k = 0; k < n; k++)
        out[k] = h[k] = gates[3 * n + k] * t->y[k];
    memcpy(row_to(s, j->m.cells, b, at, n), c, (size_t)n * sizeof *c);
}

static void clear_step(const job *j, int64_t b, int64_t at)
{
    const lstm *s = j->s;
    clear_row(s, j->m.out, b, at, s->hidden);
    clear_row(s, j->m.cells, b, at, s->hidden);
    clear_row(s, j->m.gates, b, at, s->z_size);
}

static void run_cells(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    const job *j = arg;
    const lstm *s = j->s;
    unsigned mode = sg_cpu_flush_subnormals();
    for (int64_t index = begin; index < end; index++) {
        tile t = tile_at(j, index, thread);
        load_state(s, &t, j->l->in[SG_LSTM_H0], t.h);
        load_state(s, &t, j->l->in[SG_LSTM_C0], t.c);
        for (int64_t n = 0; n < s->steps; n++) {
            int64_t at = step_at(s, n);
            times_weights(j, &t, t.h, j->m.wt, t.z, false);
            for (int64_t i = 0; i < t.rows; i++) {
                if (at < length_of(j, t.first + i))
                    cell_row(j, &t, i, at);
                else
                    clear_step(j, t.first + i, at);
            }
        }
        store_state(j, &t, t.h, SG_LSTM_H);
        store_state(j, &t, t.c, SG_LSTM_C);
    }
    sg_cpu_restore_subnormals(mode);
}

/* -------------------------------------------------------------------------------------------------------- forward */

/* h' of each row of the tile before step `at` into x [rows, h_pad]. */
static void gather_before(const job *j, const tile *t, int64_t at, float *x)
{
    const lstm *s = j->s;
    for (int64_t i = 0; i < t->rows; i++) {
        int64_t b = t->first + i, length = length_of(j, b);
        const float *before = state_before(s, input(j, s->p.out), j->l->in[SG_LSTM_H0], b, at, length);
        if (at < length)
            memcpy(x + i * s->h_pad, before, (size_t)s->hidden * sizeof *x);
    }
}

static void tangent_row(const job *j, const tile *t, int64_t i, int64_t at)
{
    const lstm *s = j->s;
    int64_t b = t->first + i, n = s->hidden;
    const float *gate = row_of(s, input(j, s->p.gates), b, at, s->z_size), *cells = input(j, s->p.cells);
    const float *known = input(j, s->p.tz),
                *last = state_before(s, cells, j->l->in[SG_LSTM_C0], b, at, length_of(j, b));
    float *tz = t->tz + i * s->z_pad, *tc = t->tc + i * s->h_pad, *th = t->th + i * s->h_pad;
    float *tgate = row_to(s, j->m.gates, b, at, s->z_size), *out = row_to(s, j->m.out, b, at, n);
    for (int64_t k = 0; k < s->z_size && known; k++)
        tz[k] += row_of(s, known, b, at, s->z_size)[k];
    for (int64_t k = 0; k < s->z_size; k++) {
        bool is_tanh = k / n == 2;
        tgate[k] = tz[k] * (is_tanh ? 1 - gate[k] * gate[k] : gate[k] * (1 - gate[k]));
    }
    apply(j, SG_MICRO_TANH, row_of(s, cells, b, at, n), t->y, n);
    for (int64_t k = 0; k < n; k++) {
        tc[k] = tgate[n + k] * last[k] + gate[n + k] * tc[k] + tgate[k] * gate[2 * n + k] + gate[k] * tgate[2 * n + k];
        out[k] = th[k] = tgate[3 * n + k] * t->y[k] + gate[3 * n + k] * (1 - t->y[k] * t->y[k]) * tc[k];
    }
    memcpy(row_to(s, j->m.cells, b, at, n), tc, (size_t)n * sizeof *tc);
}

static void forward_tile(const job *j, const tile *t)
{
    const lstm *s = j->s;
    load_state(s, t, input(j, s->p.th), t->th);
    load_state(s, t, input(j, s->p.tc), t->tc);
    memset(t->h, 0, (size_t)(t->rows * s->h_pad) * sizeof *t->h);
    for (int64_t n = 0; n < s->steps; n++) {
        int64_t at = step_at(s, n);
        times_weights(j, t, t->th, j->m.wt, t->tz, false);
        if (j->m.twt) {
            gather_before(j, t, at, t->h);
            times_weights(j, t, t->h, j->m.twt, t->tz, true);
        }
        for (int64_t i = 0; i < t->rows; i++) {
            if (at < length_of(j, t->first + i))
                tangent_row(j, t, i, at);
            else
                clear_step(j, t->first + i, at);
        }
    }
}

static void run_forward(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    const job *j = arg;
    unsigned mode = sg_cpu_flush_subnormals();
    for (int64_t index = begin; index < end; index++) {
        tile t = tile_at(j, index, thread);
        forward_tile(j, &t);
        store_state(j, &t, t.th, SG_LSTM_H);
        store_state(j, &t, t.tc, SG_LSTM_C);
    }
    sg_cpu_restore_subnormals(mode);
}

/* -------------------------------------------------------------------------------------------------------- reverse */

static void add_row(float *x, const float *y, int64_t n)
{
    for (int64_t k = 0; k < n && y; k++)
        x[k] += y[k];
}

static const float *row_or_null(const lstm *s, const float *x, int64_t b, int64_t at)
{
    return x ? row_of(s, x, b, at, s->hidden) : NULL;
}

/* Leave what the sum dW needs of this row and step; NULL: zeros. */
static void leave(const lstm *s, float *to, const float *from, int64_t b, int64_t at, int64_t width, int64_t pad)
{
    if (!to)
        return;
    clear_row(s, to, b, at, pad);
    if (from)
        memcpy(row_to(s, to, b, at, pad), from, (size_t)width * sizeof *to);
}

/* Row i of the tile at a step inside its length. */
static void reverse_inside(const job *j, const tile *t, int64_t i, int64_t at)
{
    const lstm *s = j->s;
    const places *p = &s->p;
    int64_t b = t->first + i, n = s->hidden, length = length_of(j, b);
    sg_lstm_row r = {t->h + i * s->h_pad, t->c + i * s->h_pad, t->z + i * s->z_pad, .y = t->y};
    r.gate = row_of(s, input(j, p->gates), b, at, s->z_size);
    r.last = state_before(s, input(j, p->cells), j->l->in[SG_LSTM_C0], b, at, length);
    apply(j, SG_MICRO_TANH, row_of(s, input(j, p->cells), b, at, n), t->y, n);
    add_row(r.dh, row_or_null(s, input(j, p->g_out), b, at), n);
    if (s->forward) {
        r.tdh = t->th + i * s->h_pad;
        r.tdc = t->tc + i * s->h_pad;
        r.tdz = t->tz + i * s->z_pad;
        r.tgate = row_of(s, j->m.gates, b, at, s->z_size);
        r.tcell = row_of(s, j->m.cells, b, at, n);
        r.tlast = state_before(s, j->m.cells, input(j, p->tc), b, at, length);
        add_row(r.tdh, row_or_null(s, input(j, p->tg_out), b, at), n);
        sg_lstm_reverse_tangent_row(n, &r);
        leave(s, j->m.tdz, r.tdz, b, at, s->z_size, s->z_size);
        leave(s, j->m.tbefore, state_before(s, j->m.out, input(j, p->th), b, at, length), b, at, n, s->h_pad);
    } else {
        sg_lstm_reverse_row(n, &r);
    }
    leave(s, j->m.dz, r.dz, b, at, s->z_size, s->z_size);
    leave(s, j->m.before, state_before(s, input(j, p->out), j->l->in[SG_LSTM_H0], b, at, length), b, at, n, s->h_pad);
}

static void reverse_outside(const job *j, const tile *t, int64_t i, int64_t at)
{
    const lstm *s = j->s;
    int64_t b = t->first + i;
    memset(t->z + i * s->z_pad, 0, (size_t)s->z_pad * sizeof *t->z);
    memset(t->tz + i * s->z_pad, 0, (size_t)s->z_pad * sizeof *t->z);
    leave(s, j->m.dz, NULL, b, at, s->z_size, s->z_size);
    leave(s, j->m.tdz, NULL, b, at, s->z_size, s->z_size);
    leave(s, j->m.before, NULL, b, at, s->hidden, s->h_pad);
    leave(s, j->m.tbefore, NULL, b, at, s->hidden, s->h_pad);
}

static void reverse_step(const job *j, const tile *t, int64_t at)
{
    const lstm *s = j->s;
    size_t bytes = (size_t)s->hidden * sizeof(float);
    for (int64_t i = 0; i < t->rows; i++)
        (at < length_of(j, t->first + i) ? reverse_inside : reverse_outside)(j, t, i, at);
    back_through_weights(j, t, t->z, j->m.w, t->next_h, false);
    if (s->forward)
        back_through_weights(j, t, t->tz, j->m.w, t->tnext_h, false);
    if (s->forward && j->m.tw)
        back_through_weights(j, t, t->z, j->m.tw, t->tnext_h, true);
    for (int64_t i = 0; i < t->rows; i++) {
        if (at >= length_of(j, t->first + i))
            continue;
        memcpy(t->h + i * s->h_pad, t->next_h + i * s->h_pad, bytes);
        if (s->forward)
            memcpy(t->th + i * s->h_pad, t->tnext_h + i * s->h_pad, bytes);
    }
}

static void run_reverse(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    const job *j = arg;
    const lstm *s = j->s;
    unsigned mode = sg_cpu_flush_subnormals();
    for (int64_t index = begin; index < end; index++) {
        tile t = tile_at(j, index, thread);
        if (s->forward)
            forward_tile(j, &t);
        load_state(s, &t, input(j, s->p.g_h), t.h);
        load_state(s, &t, input(j, s->p.g_c), t.c);
        load_state(s, &t, input(j, s->p.tg_h), t.th);
        load_state(s, &t, input(j, s->p.tg_c), t.tc);
        for (int64_t n = s->steps - 1; n >= 0; n--)
            reverse_step(j, &t, step_at(s, n));
        store_state(j, &t, s->forward ? t.th : t.h, s->p.dh);
        store_state(j, &t, s->forward ? t.tc : t.c, s->p.dc);
    }
    sg_cpu_restore_subnormals(mode);
}

/* Rows of dW: sums over all rows and steps, in their order. */
static void run_weights(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    const lstm *s = j->s;
    int64_t terms = s->batch * s->steps;
    unsigned mode = sg_cpu_flush_subnormals();
    for (int64_t block = begin; block < end; block++) {
        int64_t first = block * WEIGHT_ROWS, rows = s->z_size - first < WEIGHT_ROWS ? s->z_size - first : WEIGHT_ROWS;
        float *sum = j->m.dw + first * s->h_pad;
        if (s->forward)
            j->k->gemm(rows, s->h_pad, terms, j->m.tdz + first, 1, s->z_size, j->m.before, s->h_pad, sum, s->h_pad,
                       false);
        j->k->gemm(rows, s->h_pad, terms, j->m.dz + first, 1, s->z_size, s->forward ? j->m.tbefore : j->m.before,
                   s->h_pad, sum, s->h_pad, s->forward);
        for (int64_t i = 0; i < rows; i++)
            memcpy((float *)j->l->out[s->p.dw] + (first + i) * s->hidden, sum + i * s->h_pad,
                   (size_t)s->hidden * sizeof *sum);
    }
    sg_cpu_restore_subnormals(mode);
}

/* --------------------------------------------------------------------------------------------------------- launch */

/* Parts of the workspace, handed out in lines; with base NULL only their size is counted. */
typedef struct pieces {
    float *base;
    size_t used;
} pieces;

static float *take(pieces *w, bool wanted, int64_t floats)
{
    if (!wanted)
        return NULL;
    float *at = w->base ? w->base + w->used : NULL;
    w->used += sg_cpu_line((size_t)floats * sizeof(float)) / sizeof(float);
    return at;
}

static float *output_or_take(pieces *w, const sg_launch *l, bool wanted, int32_t place, int64_t floats)
{
    if (wanted && place >= 0)
        return l ? l->out[place] : NULL;
    return take(w, wanted, floats);
}

static shared carve(const lstm *s, const sg_launch *l, pieces *w)
{
    int64_t cells = s->batch * s->steps;
    bool sums = s->p.dw >= 0, moves = s->p.tw >= 0, both = s->reverse && s->forward, own = !s->reverse;
    shared m = {.wt = take(w, s->forward || own, s->hidden * s->z_pad),
                .twt = take(w, moves, s->hidden * s->z_pad),
                .w = take(w, s->reverse, s->z_size * s->h_pad),
                .tw = take(w, s->reverse && moves, s->z_size * s->h_pad)};
    m.out = output_or_take(w, l, own || both, own ? SG_LSTM_OUT : -1, cells * s->hidden);
    m.gates = output_or_take(w, l, own || both, own ? SG_LSTM_GATES : -1, cells * s->z_size);
    m.cells = output_or_take(w, l, own || both, own ? SG_LSTM_CELLS : -1, cells * s->hidden);
    m.dz = output_or_take(w, l, s->reverse && (sums || !both), both ? -1 : s->p.dz, cells * s->z_size);
    m.tdz = output_or_take(w, l, both, s->p.dz, cells * s->z_size);
    m.before = take(w, sums, cells * s->h_pad);
    m.tbefore = take(w, sums && both, cells * s->h_pad);
    m.dw = take(w, sums, s->z_size * s->h_pad);
    return m;
}

static void pack_weights(const job *j, const float *w, float *columns, float *rows)
{
    const lstm *s = j->s;
    if (columns)
        j->k->transpose(s->z_size, s->hidden, 1, w, s->hidden, columns, s->z_pad);
    for (int64_t i = 0; i < s->z_size && rows; i++) {
        memset(rows + i * s->h_pad, 0, (size_t)s->h_pad * sizeof *rows);
        memcpy(rows + i * s->h_pad, w + i * s->hidden, (size_t)s->hidden * sizeof *rows);
    }
}

static bool launch(const sg_launch *l, sg_error *err)
{
    const lstm *s = l->state;
    if (s->p.lengths >= 0 && !sg_cpu_check_indices(l->in[s->p.lengths], s->batch, s->steps + 1, err))
        return false;
    if (s->hidden == 0) /* no result has an element, and there may be no workspace */
        return true;
    pieces w = {l->workspace, 0};
    job j = {.s = s, .l = l, .k = sg_tile_kernels_best(), .micro = sg_micro_best(), .m = carve(s, l, &w)};
    j.m.scratch = (float *)l->workspace + w.used;
    pack_weights(&j, l->in[SG_LSTM_W], j.m.wt, j.m.w);
    if (s->p.tw >= 0)
        pack_weights(&j, l->in[s->p.tw], j.m.twt, j.m.tw);
    int64_t tiles = (s->batch + s->tile - 1) / s->tile;
    sg_cpu_parallel(l->threads, tiles, s->reverse ? run_reverse : s->forward ? run_forward : run_cells, &j);
    if (s->p.dw >= 0)
        sg_cpu_parallel(l->threads, (s->z_size + WEIGHT_ROWS - 1) / WEIGHT_ROWS, run_weights, &j);
    return true;
}

/* --------------------------------------------------------------------------------------------------------- prepare */

static void find_tangents(places *p, const sg_derivative_parts *parts)
{
    p->tz = sg_derivative_with(parts, SG_LSTM_Z);
    p->tw = sg_derivative_with(parts, SG_LSTM_W);
    p->th = sg_derivative_with(parts, SG_LSTM_H0);
    p->tc = sg_derivative_with(parts, SG_LSTM_C0);
}

static void find_hints(places *p, const sg_op *op, const sg_derivative_parts *parts)
{
    p->out = sg_derivative_hint(op, parts, SG_LSTM_OUT);
    p->gates = sg_derivative_hint(op, parts, SG_LSTM_GATES);
    p->cells = sg_derivative_hint(op, parts, SG_LSTM_CELLS);
}

static void find_reverse(places *p, const sg_derivative_parts *parts)
{
    p->g_out = sg_derivative_with(parts, SG_LSTM_OUT);
    p->g_h = sg_derivative_with(parts, SG_LSTM_H);
    p->g_c = sg_derivative_with(parts, SG_LSTM_C);
    p->dz = sg_derivative_wrt(parts, SG_LSTM_Z);
    p->dw = sg_derivative_wrt(parts, SG_LSTM_W);
    p->dh = sg_derivative_wrt(parts, SG_LSTM_H0);
    p->dc = sg_derivative_wrt(parts, SG_LSTM_C0);
}

static int32_t moved(const sg_derivative_parts *outer, int32_t place)
{
    return place < 0 ? -1 : sg_derivative_with(outer, place);
}

/* False if a cotangent of the gates or cells takes part: nobody asks for one, and the decomposition has it. */
static bool find_places(const sg_kernel_spec *spec, places *p)
{
    const sg_op *op = spec->node->op;
    *p = (places){-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    sg_derivative_parts outer, inner = sg_derivative_nested(op, spec->attr, spec->n_in, &outer);
    if (inner.n_x > SG_LSTM_LENGTHS)
        p->lengths = SG_LSTM_LENGTHS;
    if (op == &sg_op_lstm)
        return true;
    if (op != &sg_op_lstm_vjp)
        find_tangents(p, &outer);
    find_hints(p, op == &sg_op_lstm_jvp ? op : &sg_op_lstm_vjp, &inner);
    if (op == &sg_op_lstm_jvp)
        return true;
    find_reverse(p, &inner);
    if (op == &sg_op_lstm_vjp_jvp) {
        p->tg_out = moved(&outer, p->g_out);
        p->tg_h = moved(&outer, p->g_h);
        p->tg_c = moved(&outer, p->g_c);
    }
    return sg_derivative_with(&inner, SG_LSTM_GATES) < 0 && sg_derivative_with(&inner, SG_LSTM_CELLS) < 0;
}

static bool supports(const sg_kernel_spec *spec)
{
    places p;
    return spec->in_dtype[0] == SG_F32 && find_places(spec, &p);
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    const sg_op *op = spec->node->op;
    const sg_shape *z = &spec->in_shape[SG_LSTM_Z];
    lstm *s = sg_calloc(1, sizeof *s);
    if (!s)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", op->name);
    *s = (lstm){.batch = z->dim[0], .steps = z->dim[1], .hidden = z->dim[2] / 4, .z_size = z->dim[2]};
    find_places(spec, &s->p);
    s->h_pad = sg_tile_pad(s->hidden);
    s->z_pad = sg_tile_pad(s->z_size);
    s->tile = s->batch > 16 ? 16 : 8;
    s->backwards = spec->attr[0].i != 0;
    s->reverse = op == &sg_op_lstm_vjp || op == &sg_op_lstm_vjp_jvp;
    s->forward = op == &sg_op_lstm_jvp || op == &sg_op_lstm_vjp_jvp;
    size_t floats = (size_t)(s->tile * (6 * s->h_pad + 2 * s->z_pad) + s->h_pad);
    s->scratch = sg_cpu_line(floats * sizeof(float)) / sizeof(float);
    pieces w = {NULL, 0};
    carve(s, NULL, &w);
    *out = (sg_kernel){.name = op->name, .launch = launch, .state = s, .release = sg_free};
    out->workspace = (w.used + s->scratch * (size_t)spec->threads) * sizeof(float);
    return SG_OK;
}

const sg_cpu_kernel sg_cpu_lstm_kernels[] = {{&sg_op_lstm, supports, prepare},
                                             {&sg_op_lstm_vjp, supports, prepare},
                                             {&sg_op_lstm_jvp, supports, prepare},
                                             {&sg_op_lstm_vjp_jvp, supports, prepare},
                                             {0}};
