/* index.c - rows by index: gather, scatter_rows, segment_max, one_hot; and the step of the random state. Indices come from
 * the user: they are checked before anything is read through them. */
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/index_internal.h"

#include "graph/random_internal.h"
#include "ops/ops_internal.h"

#include <math.h>
#include <string.h>

/* Below this many bytes a second thread costs more than it saves. */
#define SERIAL_BYTES 65536

typedef struct index_state {
    int64_t count; /* indices */
    int64_t rows;  /* of the table; classes of one_hot */
    int64_t width; /* elements of a row */
    size_t row_bytes;
} index_state;

bool sg_cpu_check_indices(const int32_t *index, int64_t count, int64_t limit, sg_error *err)
{
    bool good = true;
    for (int64_t i = 0; i < count; i++)
        good &= index[i] >= 0 && index[i] < limit;
    for (int64_t i = 0; i < count && !good; i++)
        if (index[i] < 0 || index[i] >= limit) {
            sg_fail(err, SG_E_DATA, "index %d at position %lld is outside [0, %lld)", index[i], (long long)i,
                    (long long)limit);
            return false;
        }
    return true;
}

typedef struct job {
    const index_state *s;
    const int32_t *index;
    const char *in;
    char *out;
    const int32_t *start, *order; /* scatter: positions of row r are order[start[r] .. start[r + 1]) */
} job;

static int32_t threads_for(const sg_launch *l, int64_t rows, size_t row_bytes)
{
    return (size_t)rows * row_bytes < SERIAL_BYTES ? 1 : l->threads;
}

/* -------------------------------------------------------------------------------------------------------- gather */

static void gather_tiles(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    size_t bytes = j->s->row_bytes;
    for (int64_t i = begin; i < end; i++)
        memcpy(j->out + (size_t)i * bytes, j->in + (size_t)j->index[i] * bytes, bytes);
}

static bool launch_gather(const sg_launch *l, sg_error *err)
{
    const index_state *s = l->state;
    if (!sg_cpu_check_indices(l->in[1], s->count, s->rows, err))
        return false;
    if (s->row_bytes == 0)
        return true;
    job j = {.s = s, .index = l->in[1], .in = l->in[0], .out = l->out[0]};
    sg_cpu_parallel(threads_for(l, s->count, s->row_bytes), s->count, gather_tiles, &j);
    return true;
}

/* ------------------------------------------------------------------------------------- scatter_rows, segment_max */

/* Counting sort of positions by row, positions ascending within a row. */
static void sort_by_row(const index_state *s, const int32_t *index, int32_t *start, int32_t *order)
{
    memset(start, 0, (size_t)(s->rows + 1) * sizeof *start);
    for (int64_t i = 0; i < s->count; i++)
        start[index[i] + 1]++;
    for (int64_t r = 0; r < s->rows; r++)
        start[r + 1] += start[r];
    for (int64_t i = 0; i < s->count; i++)
        order[start[index[i]]++] = (int32_t)i;
    /* Each start moved to its row's end, which is the next row's start. */
    memmove(start + 1, start, (size_t)s->rows * sizeof *start);
    start[0] = 0;
}

/* A row of the result is summed by one thread, in the order of the positions. */
static void scatter_tiles(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    int64_t width = j->s->width;
    for (int64_t r = begin; r < end; r++) {
        float *out = (float *)j->out + r * width;
        memset(out, 0, (size_t)width * sizeof *out);
        for (int32_t k = j->start[r]; k < j->start[r + 1]; k++) {
            const float *row = (const float *)j->in + j->order[k] * width;
            for (int64_t i = 0; i < width; i++)
                out[i] += row[i];
        }
    }
}

/* The same for the maximum; NaN stays once it is there. */
static void max_tiles(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    int64_t width = j->s->width;
    for (int64_t r = begin; r < end; r++) {
        float *out = (float *)j->out + r * width;
        for (int64_t i = 0; i < width; i++)
            out[i] = -INFINITY;
        for (int32_t k = j->start[r]; k < j->start[r + 1]; k++) {
            const float *row = (const float *)j->in + j->order[k] * width;
            for (int64_t i = 0; i < width; i++)
                out[i] = isnan(row[i]) || row[i] > out[i] ? row[i] : out[i];
        }
    }
}

static bool run_by_row(const sg_launch *l, sg_cpu_range_fn tiles, sg_error *err)
{
    const index_state *s = l->state;
    if (!sg_cpu_check_indices(l->in[1], s->count, s->rows, err))
        return false;
    if (s->rows == 0 || s->width == 0)
        return true;
    int32_t *start = l->workspace, *order = start + s->rows + 1;
    sort_by_row(s, l->in[1], start, order);
    job j = {.s = s, .in = l->in[0], .out = l->out[0], .start = start, .order = order};
    sg_cpu_parallel(threads_for(l, s->rows + s->count, s->row_bytes), s->rows, tiles, &j);
    return true;
}

static bool launch_scatter(const sg_launch *l, sg_error *err) { return run_by_row(l, scatter_tiles, err); }

static bool launch_segment_max(const sg_launch *l, sg_error *err) { return run_by_row(l, max_tiles, err); }

/* ------------------------------------------------------------------------------------------------------- one_hot */

static bool launch_one_hot(const sg_launch *l, sg_error *err)
{
    const index_state *s = l->state;
    const int32_t *index = l->in[0];
    float *out = l->out[0];
    if (!sg_cpu_check_indices(index, s->count, s->rows, err))
        return false;
    if (s->count == 0 || s->rows == 0)
        return true;
    memset(out, 0, (size_t)(s->count * s->rows) * sizeof *out);
    for (int64_t i = 0; i < s->count; i++)
        out[i * s->rows + index[i]] = 1;
    return true;
}

/* --------------------------------------------------------------------------------------------------- rng_advance */

/* {seed low, seed high, step low, step high} with the 64-bit step plus one. */
static bool launch_rng_advance(const sg_launch *l, sg_error *err)
{
    (void)err;
    uint32_t rng[4];
    memcpy(rng, l->in[0], sizeof rng);
    uint64_t step = ((uint64_t)rng[3] << 32 | rng[2]) + 1;
    rng[2] = (uint32_t)step;
    rng[3] = (uint32_t)(step >> 32);
    memcpy(l->out[0], rng, sizeof rng);
    return true;
}

/* The address of a draw, as sg_draw_make says it. */
static bool launch_draw_key(const sg_launch *l, sg_error *err)
{
    (void)err;
    const uint64_t *stream = l->state;
    sg_draw draw = sg_draw_make(*stream, l->in[0], l->run.repeat);
    memcpy(l->out[0], &draw, sizeof draw);
    return true;
}

/* ------------------------------------------------------------------------------------------------------- prepare */

static sg_status prepare(const sg_kernel_spec *spec, index_state shape, sg_launch_fn launch, sg_kernel *out,
                         sg_error *err)
{
    index_state *s = sg_calloc(1, sizeof *s);
    if (!s)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", spec->node->op->name);
    *s = shape;
    *out = (sg_kernel){.name = spec->node->op->name, .launch = launch, .state = s, .release = sg_free};
    return SG_OK;
}

static index_state rows_of(const sg_shape *table, const sg_shape *index, sg_dtype dtype)
{
    sg_axis_split s = sg_split_at(table, 0);
    return (index_state){sg_shape_count(index), s.size, s.inner, (size_t)s.inner * sg_dtype_size(dtype)};
}

static sg_status prepare_gather(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    return prepare(spec, rows_of(&spec->in_shape[0], &spec->in_shape[1], spec->in_dtype[0]), launch_gather, out, err);
}

static sg_status prepare_by_row(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    index_state s = rows_of(&spec->out_shape[0], &spec->in_shape[1], spec->out_dtype[0]);
    if (s.count > INT32_MAX)
        return sg_fail(err, SG_E_UNSUPPORTED, "%s takes at most 2^31 - 1 indices", spec->node->op->name);
    bool sum = spec->node->op == &sg_op_scatter_rows;
    SG_TRY(prepare(spec, s, sum ? launch_scatter : launch_segment_max, out, err));
    out->workspace = (size_t)(s.rows + 1 + s.count) * sizeof(int32_t);
    return SG_OK;
}

static sg_status prepare_one_hot(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    index_state s = {.count = sg_shape_count(&spec->in_shape[0]), .rows = spec->attr[0].i};
    return prepare(spec, s, launch_one_hot, out, err);
}

static sg_status prepare_rng_advance(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    (void)err;
    *out = (sg_kernel){.name = spec->node->op->name, .launch = launch_rng_advance};
    return SG_OK;
}

static sg_status prepare_draw_key(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    uint64_t *stream = sg_alloc(sizeof *stream);
    if (!stream)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", spec->node->op->name);
    *stream = (uint64_t)spec->attr[0].i;
    *out = (sg_kernel){.name = spec->node->op->name, .launch = launch_draw_key, .state = stream, .release = sg_free};
    return SG_OK;
}

static bool supports_f32(const sg_kernel_spec *spec) { return spec->in_dtype[0] == SG_F32; }

const sg_cpu_kernel sg_cpu_index_kernels[] = {{&sg_op_gather, NULL, prepare_gather},
                                              {&sg_op_scatter_rows, supports_f32, prepare_by_row},
                                              {&sg_op_segment_max, supports_f32, prepare_by_row},
                                              {&sg_op_one_hot, NULL, prepare_one_hot},
                                              {&sg_op_rng_advance, NULL, prepare_rng_advance},
                                              {&sg_op_draw_key, NULL, prepare_draw_key},
                                              {0}};
