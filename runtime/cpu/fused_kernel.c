/* fused_kernel.c - running a program over its tiles.
 *
 * Tiles are cut by shape: a long row in equal pieces, short rows several at a time. A tile's work is independent of all
 * others; pieces of a row sum are kept apart and added up in order at the end. */
#include "graph/convert_internal.h"
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/program_internal.h"

#include <string.h>

enum {
    LINE = 16,           /* floats of a splat line */
    SHORT_ROW = 256,     /* rows below this length are run several at a time */
    CACHE_FLOATS = 6144, /* tile buffers together: three quarters of a 32 KiB first-level cache */
    TILE_MOST = 1024,
    TILE_LEAST = 128,
    THREAD_WORK = 16384 /* additions of elements below which a second thread costs more than it gives */
};

typedef struct fused {
    sg_program *program;
    const sg_micro_set *micro;
    int64_t tile;         /* most elements of a tile, a multiple of 16 */
    int64_t rows, pieces; /* rows of the space; pieces of each */
    int64_t piece, rows_a_tile, tiles;
    int32_t threads;
    size_t scratch; /* bytes of a thread */
    float *numbers; /* splat lines of number slots, by slot */
} fused;

/* ---- preparing */

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

static void cut_tiles(fused *f)
{
    const sg_program *p = f->program;
    int64_t buffers = p->n_buffers > 6 ? p->n_buffers : 6;
    f->tile = CACHE_FLOATS / buffers / LINE * LINE;
    f->tile = f->tile < TILE_LEAST ? TILE_LEAST : f->tile > TILE_MOST ? TILE_MOST : f->tile;
    f->rows_a_tile = f->pieces = 1;
    if (p->row == 0 || p->count == 0) {
        f->rows = f->tiles = 0;
        return;
    }
    f->rows = p->count / p->row;
    f->piece = p->row;
    if (p->row <= f->tile && p->row < SHORT_ROW)
        f->rows_a_tile = f->tile / p->row;
    if (p->row > f->tile) {
        f->piece = round_up((p->row + (p->row - 1) / f->tile) / ((p->row - 1) / f->tile + 1), LINE);
        f->pieces = (p->row + f->piece - 1) / f->piece;
    }
    f->tiles = f->pieces > 1 ? f->rows * f->pieces : (f->rows + f->rows_a_tile - 1) / f->rows_a_tile;
}

/* Time that an element takes in a step, in additions. A draw is Philox and what follows. */
static int64_t time_of(int32_t op)
{
    static const int8_t times[SG_MICRO_COUNT] = {
#define X(name, operands, time) [SG_MICRO_##name] = time,
        SG_MICRO_MAP(X)
#undef X
    };
    return op < SG_MICRO_COUNT ? times[op] : op == SG_CHAIN_LOAD ? 1 : 10;
}

static int64_t work_of(const sg_program *p)
{
    int64_t work = 0;
    for (int32_t i = 0; i < p->n_steps; i++)
        work += time_of(p->steps[i].op);
    return p->count * work;
}

static size_t sums_bytes(const fused *f)
{
    return f->pieces > 1 ? sg_cpu_line((size_t)(f->program->n_sums * f->rows * f->pieces) * sizeof(float)) : 0;
}

/* A thread's scratch: tile buffers, a splat line, a pointer and a mask for each slot. */
static size_t scratch_bytes(const fused *f)
{
    const sg_program *p = f->program;
    size_t floats = (size_t)p->n_buffers * (size_t)f->tile + (size_t)p->n_slots * LINE;
    return sg_cpu_apart(sg_cpu_line(floats * sizeof(float)) + (size_t)p->n_slots * (sizeof(void *) + sizeof(intptr_t)));
}

static void release_fused(void *state)
{
    fused *f = state;
    sg_program_free(f->program);
    sg_free_aligned(f->numbers);
    sg_free(f);
}

static void splat_number(float *line, const sg_chain_slot *slot)
{
    int32_t whole = sg_real_to_i32(slot->number);
    float real = slot->dtype == SG_BOOL ? (float)(slot->number != 0) : (float)slot->number;
    for (int32_t i = 0; i < LINE; i++)
        memcpy(line + i, slot->dtype == SG_I32 ? (void *)&whole : (void *)&real, sizeof *line);
}

static bool splat_numbers(fused *f)
{
    const sg_program *p = f->program;
    f->numbers = sg_alloc_aligned(((size_t)p->n_slots + 1) * LINE * sizeof(float));
    if (!f->numbers)
        return false;
    for (int32_t i = 0; i < p->n_slots; i++)
        if (p->slots[i].kind == SG_CHAIN_NUMBER)
            splat_number(f->numbers + (int64_t)i * LINE, &p->slots[i]);
    return true;
}

static bool launch(const sg_launch *launch, sg_error *err);

const sg_micro_set *sg_micro_best(void)
{
    static const sg_micro_set *const sets[] = {&sg_micro_sse2, &sg_micro_avx2, &sg_micro_avx512};
    return sets[sg_cpu_isa_level()];
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    sg_program *program;
    SG_TRY(sg_program_compile(spec, &program, err));
    fused *f = sg_calloc(1, sizeof *f);
    if (!f) {
        sg_program_free(program);
        return sg_fail(err, SG_E_MEMORY, "out of memory preparing a fused chain");
    }
    f->program = program;
    f->micro = sg_micro_best();
    if (!splat_numbers(f)) {
        release_fused(f);
        return sg_fail(err, SG_E_MEMORY, "out of memory preparing a fused chain");
    }
    cut_tiles(f);
    int32_t threads = spec->threads > 0 ? spec->threads : 1;
    f->threads = work_of(program) < THREAD_WORK ? 1 : f->tiles < threads ? (int32_t)f->tiles : threads;
    f->threads = f->threads < 1 ? 1 : f->threads;
    f->scratch = scratch_bytes(f);
    *out = (sg_kernel){.name = program->name,
                       .launch = launch,
                       .state = f,
                       .release = release_fused,
                       .workspace = (size_t)f->threads * f->scratch + sums_bytes(f),
                       .alias = program->alias};
    return SG_OK;
}

/* ---- running */

typedef struct tile_run {
    const fused *f;
    const sg_launch *launch;
    float *buffers, *lines;
    const void **at; /* by slot: where its tile starts */
    intptr_t *mask;
    int64_t begin, n; /* elements of this tile */
} tile_run;

static inline void splat4(float *line, const void *value)
{
    float x;
    memcpy(&x, value, sizeof x);
    for (int32_t i = 0; i < LINE; i++)
        line[i] = x;
}

static void load_single(tile_run *t, int32_t slot, int64_t element)
{
    const sg_chain_slot *s = &t->f->program->slots[slot];
    const char *memory = t->launch->in[s->input];
    float truth = 0, *line = t->lines + (int64_t)slot * LINE;
    if (s->dtype == SG_BOOL)
        truth = (float)(memory[element] != 0);
    splat4(line, s->dtype == SG_BOOL ? (void *)&truth : (void *)(memory + 4 * element));
    t->at[slot] = line;
    t->mask[slot] = 0;
}

/* `n` elements from `memory`, 4 bytes each or bool, into the buffer; stride 0 or 1. Rows may be short, so that what a segment
 * costs apart from its elements counts. */
static void copy_segment(const sg_micro_set *micro, float *to, const char *memory, int64_t offset, int64_t stride,
                         int64_t n, bool is_bool)
{
    if (is_bool) {
        for (int64_t i = 0; i < n; i++)
            to[i] = (float)(memory[offset + i * stride] != 0);
    } else if (stride) {
        memcpy(to, memory + 4 * offset, (size_t)n * sizeof *to);
    } else {
        float line[LINE];
        splat4(line, memory + 4 * offset);
        micro->fn[SG_MICRO_COPY](to, (const void *[]){line}, (const intptr_t[]){0}, NULL, n);
    }
}

/* The axes outside the innermost, as an odometer. */
typedef struct odometer {
    int64_t index[SG_MAX_RANK], offset;
} odometer;

static int64_t seek(odometer *o, const sg_chain_view *v, int64_t element)
{
    int64_t last = v->dim[v->rank - 1], inner = element % last;
    o->offset = 0;
    element /= last;
    for (int32_t i = v->rank - 2; i >= 0; i--) {
        o->index[i] = element % v->dim[i];
        element /= v->dim[i];
        o->offset += o->index[i] * v->stride[i];
    }
    return inner;
}

static void advance(odometer *o, const sg_chain_view *v)
{
    for (int32_t i = v->rank - 2; i >= 0; i--) {
        o->offset += v->stride[i];
        if (++o->index[i] < v->dim[i])
            return;
        o->offset -= v->dim[i] * v->stride[i];
        o->index[i] = 0;
    }
}

static void load_rows(tile_run *t, int32_t slot)
{
    const sg_chain_slot *s = &t->f->program->slots[slot];
    const sg_chain_view *v = &s->view;
    const char *memory = t->launch->in[s->input];
    int64_t last = v->dim[v->rank - 1], stride = v->stride[v->rank - 1];
    odometer o;
    int64_t inner = seek(&o, v, t->begin);
    if (inner + t->n <= last && stride == 0) {
        load_single(t, slot, o.offset);
        return;
    }
    if (inner + t->n <= last && s->dtype != SG_BOOL) {
        t->at[slot] = memory + 4 * (o.offset + inner);
        t->mask[slot] = -1;
        return;
    }
    float *buffer = t->buffers + s->buffer * t->f->tile;
    for (int64_t done = 0; done < t->n; inner = 0) {
        int64_t n = last - inner < t->n - done ? last - inner : t->n - done;
        copy_segment(t->f->micro, buffer + done, memory, o.offset + inner * stride, stride, n, s->dtype == SG_BOOL);
        done += n;
        advance(&o, v);
    }
    t->at[slot] = buffer;
    t->mask[slot] = -1;
}

static void load(tile_run *t, int32_t slot)
{
    const sg_chain_slot *s = &t->f->program->slots[slot];
    if (s->view.kind == SG_VIEW_SINGLE)
        return; /* once for all tiles: start_thread */
    if (s->view.kind == SG_VIEW_ROWS) {
        load_rows(t, slot);
        return;
    }
    const char *memory = t->launch->in[s->input];
    t->mask[slot] = -1;
    t->at[slot] = memory + 4 * t->begin;
    if (s->dtype == SG_BOOL) {
        float *buffer = t->buffers + s->buffer * t->f->tile;
        t->f->micro->fn[SG_MICRO_F_FROM_B](buffer, (const void *[]){memory + t->begin}, &t->mask[slot], NULL, t->n);
        t->at[slot] = buffer;
    }
}

static void *target(tile_run *t, int32_t slot)
{
    const sg_chain_slot *s = &t->f->program->slots[slot];
    float *to = s->output >= 0 ? (float *)t->launch->out[s->output] + t->begin : t->buffers + s->buffer * t->f->tile;
    t->at[slot] = to;
    t->mask[slot] = -1;
    return to;
}

static void run_step(tile_run *t, const sg_chain_step *step)
{
    if (step->op == SG_CHAIN_LOAD) {
        load(t, step->dst);
    } else if (step->op < SG_MICRO_COUNT) {
        const void *src[3];
        intptr_t mask[3];
        for (int32_t k = 0; k < 3; k++) {
            int32_t slot = step->src[k] < 0 ? step->src[0] : step->src[k];
            src[k] = t->at[slot];
            mask[k] = t->mask[slot];
        }
        t->f->micro->fn[step->op](target(t, step->dst), src, mask, step->imm, t->n);
    } else {
        const int32_t *words = t->launch->in[step->rng];
        sg_draw draw = step->op == SG_CHAIN_KEYED ? sg_draw_of_key(words)
                                                  : sg_draw_make(step->stream, words, t->launch->run.repeat);
        void (*fill)(float *, sg_draw, uint64_t, int64_t) =
            step->op == SG_CHAIN_NORMAL ? t->f->micro->normal : t->f->micro->uniform;
        fill(target(t, step->dst), draw, (uint64_t)t->begin, t->n);
    }
}

static float *sums_of(const fused *f, const sg_launch *launch)
{
    return (float *)((char *)launch->workspace + (size_t)f->threads * f->scratch);
}

/* Sums of the rows that the tile holds, or of its piece of one. `nth` counts the sums of the program. */
static void leave_sums(tile_run *t, const sg_chain_leaving *l, int32_t nth, int64_t tile)
{
    const fused *f = t->f;
    const float *x = t->at[l->slot];
    intptr_t mask = t->mask[l->slot];
    if (f->pieces > 1) {
        sums_of(f, t->launch)[nth * f->tiles + tile] = f->micro->sum(x, mask, t->n);
        return;
    }
    float *out = (float *)t->launch->out[l->output] + tile * f->rows_a_tile;
    for (int64_t row = 0; row * f->piece < t->n; row++)
        out[row] = f->micro->sum(x + ((row * f->piece) & mask), mask, f->piece);
}

static void leave(tile_run *t, int64_t tile)
{
    const sg_program *p = t->f->program;
    int32_t nth = 0;
    for (int32_t i = 0; i < p->n_leaving; i++) {
        const sg_chain_leaving *l = &p->leaving[i];
        if (l->row_sum) {
            leave_sums(t, l, nth++, tile);
        } else {
            uint8_t *out = (uint8_t *)t->launch->out[l->output] + t->begin;
            t->f->micro->fn[SG_MICRO_B_FROM_F](out, &t->at[l->slot], &t->mask[l->slot], NULL, t->n);
        }
    }
}

static void place_tile(tile_run *t, int64_t tile)
{
    const fused *f = t->f;
    if (f->pieces > 1) {
        int64_t row = tile / f->pieces, part = tile % f->pieces, end = (part + 1) * f->piece;
        t->begin = row * f->program->row + part * f->piece;
        t->n = (end < f->program->row ? end : f->program->row) - part * f->piece;
    } else {
        int64_t first = tile * f->rows_a_tile, end = first + f->rows_a_tile;
        t->begin = first * f->piece;
        t->n = ((end < f->rows ? end : f->rows) - first) * f->piece;
    }
}

static void start_thread(tile_run *t, const fused *f, const sg_launch *launch, int32_t thread)
{
    const sg_program *p = f->program;
    char *scratch = (char *)launch->workspace + (size_t)thread * f->scratch;
    *t = (tile_run){.f = f, .launch = launch, .buffers = (float *)scratch};
    t->lines = t->buffers + p->n_buffers * f->tile;
    t->at = (const void **)(scratch + sg_cpu_line(((size_t)p->n_buffers * (size_t)f->tile + (size_t)p->n_slots * LINE) *
                                                  sizeof(float)));
    t->mask = (intptr_t *)(t->at + p->n_slots);
    for (int32_t i = 0; i < p->n_slots; i++) {
        if (p->slots[i].kind == SG_CHAIN_NUMBER) {
            t->at[i] = f->numbers + (int64_t)i * LINE;
            t->mask[i] = 0;
        } else if (p->slots[i].kind == SG_CHAIN_INPUT && p->slots[i].loaded &&
                   p->slots[i].view.kind == SG_VIEW_SINGLE) {
            load_single(t, i, 0);
        }
    }
}

static void run_range(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    const sg_launch *launch = arg;
    const fused *f = launch->state;
    const sg_program *p = f->program;
    tile_run t;
    start_thread(&t, f, launch, thread);
    for (int64_t tile = begin; tile < end; tile++) {
        place_tile(&t, tile);
        for (int32_t i = 0; i < p->n_steps; i++)
            run_step(&t, &p->steps[i]);
        leave(&t, tile);
    }
}

/* Pieces of long rows are added up in their order, in double: they may be many. Rows without elements sum to zero. */
static void finish_sums(const fused *f, const sg_launch *launch)
{
    const sg_program *p = f->program;
    int32_t nth = 0;
    for (int32_t i = 0; i < p->n_leaving; i++) {
        if (!p->leaving[i].row_sum)
            continue;
        float *out = launch->out[p->leaving[i].output];
        const float *pieces = sums_of(f, launch) + nth++ * f->tiles;
        for (int64_t row = 0; row < f->rows; row++) {
            double sum = 0;
            for (int64_t k = 0; k < f->pieces; k++)
                sum += (double)pieces[row * f->pieces + k];
            out[row] = (float)sum;
        }
    }
}

static void zero_sums(const sg_program *p, const sg_launch *launch, int64_t rows)
{
    for (int32_t i = 0; i < p->n_leaving; i++)
        if (p->leaving[i].row_sum)
            memset(launch->out[p->leaving[i].output], 0, (size_t)rows * sizeof(float));
}

static bool launch(const sg_launch *launch, sg_error *err)
{
    (void)err;
    const fused *f = launch->state;
    if (f->tiles == 0) {
        zero_sums(f->program, launch, f->program->empty_rows);
        return true;
    }
    int32_t threads = launch->threads < f->threads ? launch->threads : f->threads;
    sg_cpu_parallel(threads, f->tiles, run_range, (void *)launch);
    if (f->pieces > 1)
        finish_sums(f, launch);
    return true;
}

/* ---- the table */

static bool supports(const sg_kernel_spec *spec)
{
    const sg_op *op = spec->node->op;
    if (!sg_program_has(op, spec->n_in, spec->in_dtype, spec->out_dtype[0]))
        return false;
    return spec->n_in > 0;
}

const sg_cpu_kernel sg_cpu_fused_kernels[] = {
    {&sg_op_fused, NULL, prepare},
#define ROW(name) {&sg_op_##name, supports, prepare},
    ROW(neg) ROW(abs) ROW(sign) ROW(floor) ROW(exp) ROW(expm1) ROW(log) ROW(log1p) ROW(sqrt) ROW(rsqrt) ROW(square)
        ROW(reciprocal) ROW(sin) ROW(cos) ROW(tanh) ROW(erf) ROW(erfc) ROW(sigmoid) ROW(log_sigmoid) ROW(softplus)
            ROW(gelu) ROW(gelu_derivative) ROW(relu) ROW(leaky_relu) ROW(elu) ROW(clip) ROW(is_finite) ROW(logical_not)
                ROW(cast) ROW(stop_gradient) ROW(add) ROW(sub) ROW(mul) ROW(div) ROW(pow) ROW(maximum) ROW(minimum)
                    ROW(xlogy) ROW(equal) ROW(not_equal) ROW(less) ROW(less_equal) ROW(greater) ROW(greater_equal)
                        ROW(logical_and) ROW(logical_or) ROW(where) ROW(broadcast_like) ROW(tile_axis) ROW(fill_like)
                            ROW(uniform_like) ROW(normal_like) ROW(keyed_uniform)
#undef ROW
                                {0},
};
