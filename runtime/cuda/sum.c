/* sum.c - sums over any set of axes: which passes, in which form. Forms and chunks depend on shapes alone, so that every card
 * gives the same sums.
 *
 * Each summed axis is taken away by itself, seen as x [outer, size, inner] -> y [outer, inner]. A long axis whose result has few
 * elements is cut into chunks that are summed apart and then joined: work for all processors. A small sum is done in one launch, by
 * many threads for each column. */
#include <string.h>

#include "ops/ops_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/sum_internal.h"
#include "runtime/sum_problem_internal.h"

enum {
    BLOCK = 256,
    FEW_BLOCKS = 132,    /* fewer leave processors without work */
    WANTED_BLOCKS = 528, /* enough reads in flight; all of them at once on a large card */
    SMALL_DEPTH = 4,     /* elements that a thread of a small sum adds up, if there are enough threads */
    SHORT_ROW = 8,       /* one thread reads it faster than a team joins it */
    TEAM_ROW = 1024,     /* the longest row of a team within a warp */
    ROW_CHUNK = 8192,    /* the least that a block takes of a contiguous row that is cut */
    SHORT_COLUMN = 8,    /* one thread reads it */
    MIDDLE_COLUMN = 64,  /* the same if there are many columns */
    MANY_COLUMNS = 1 << 16,
    SMALL_SUM = 1 << 19,  /* elements that one launch sums */
    MIDDLE_SUM = 1 << 22, /* the same of columns that are not long */
    SMALL_COLUMN = 4096,  /* the longest columns of these */
    NOT_LONG = 1024,
    LEAST_DEPTH = 8,  /* pieces of a thread of a chunk */
    MOST_DEPTH = 1024 /* errors grow with it */
};
#define MAX_PASSES (2 * SG_MAX_RANK)

typedef struct summation {
    int32_t n_passes;
    sg_cuda_sum_pass pass[MAX_PASSES];
    size_t out_bytes;
    size_t half; /* bytes of each of the two intermediate buffers */
} summation;

/* ------------------------------------------------------------------------------------------------------- forms */

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

/* Rows of inner = 1. */
static void choose_row(sg_cuda_sum_pass *p, int32_t wide)
{
    if (p->size <= SHORT_ROW)
        return;
    p->form = SG_CUDA_SUM_ROW;
    p->vector = p->size % wide == 0 ? wide : 1;
    while (p->lanes < 32 && p->lanes * p->vector < p->size)
        p->lanes *= 2;
    if (p->size <= TEAM_ROW)
        return;
    p->lanes = BLOCK;
    if (p->outer < WANTED_BLOCKS) {
        int64_t chunks = least_of(p->size / ROW_CHUNK, ceil_div(WANTED_BLOCKS, p->outer));
        p->chunk = ceil_div(ceil_div(p->size, chunks > 1 ? chunks : 1), wide) * wide;
    }
}

/* Few elements: narrow blocks, so that there are many of them, with all threads along the columns. */
static void choose_small(sg_cuda_sum_pass *p)
{
    p->lanes = 32;
    while (p->lanes > 1 &&
           (p->lanes / 2 >= p->inner || (p->lanes > 8 && p->outer * ceil_div(p->inner, p->lanes) < FEW_BLOCKS)))
        p->lanes /= 2;
    while (p->rows * p->lanes < SG_CUDA_SUM_THREADS(1) && p->rows * SMALL_DEPTH < p->size)
        p->rows *= 2;
}

static void choose_large(sg_cuda_sum_pass *p, int32_t wide)
{
    p->vector = p->inner % wide == 0 ? wide : 1;
    int64_t pieces = p->inner / p->vector;
    p->lanes = 32;
    while (p->lanes > 1 && p->lanes / 2 >= pieces)
        p->lanes /= 2;
    p->rows = SG_CUDA_SUM_THREADS(p->vector) / p->lanes;
    int64_t rows = p->rows, blocks = p->outer * ceil_div(pieces, p->lanes);
    int64_t chunks = least_of(WANTED_BLOCKS / blocks, p->size / (LEAST_DEPTH * rows));
    int64_t least = ceil_div(p->size, rows * MOST_DEPTH);
    p->chunk = ceil_div(p->size, chunks > least ? chunks : least);
}

static sg_cuda_sum_pass choose(int64_t outer, int64_t size, int64_t inner, bool bf16)
{
    sg_cuda_sum_pass p = {.outer = outer,
                          .size = size,
                          .inner = inner,
                          .chunk = size,
                          .lanes = 1,
                          .rows = 1,
                          .vector = 1,
                          .in_bf16 = bf16};
    int32_t wide = bf16 ? 8 : 4;
    int64_t columns = outer * inner;
    if (inner == 1) {
        choose_row(&p, wide);
    } else if (size <= SHORT_COLUMN || (size <= MIDDLE_COLUMN && columns >= MANY_COLUMNS)) {
        p.vector = inner % wide == 0 && columns / wide >= MANY_COLUMNS ? wide : 1;
    } else {
        p.form = SG_CUDA_SUM_COLUMNS;
        if (size <= (columns * size <= SMALL_SUM ? SMALL_COLUMN : NOT_LONG) && columns * size <= MIDDLE_SUM)
            choose_small(&p);
        else
            choose_large(&p, wide);
    }
    p.chunks = ceil_div(p.size, p.chunk);
    return p;
}

int64_t sg_cuda_sum_chunk(int64_t size)
{
    sg_cuda_sum_pass p = choose(1, size, 1, false);
    return p.form == SG_CUDA_SUM_ROW && p.lanes == BLOCK && p.vector > 1 ? p.chunk : 0;
}

/* One axis, in as many passes as its chunks need. What lies between passes is f32. */
static void add_passes(summation *s, const sg_sum_step *step, bool bf16)
{
    int64_t size = step->size;
    do {
        s->pass[s->n_passes] = choose(step->outer, size, step->inner, bf16 && s->n_passes == 0);
        size = s->pass[s->n_passes++].chunks;
    } while (size > 1 && s->n_passes < MAX_PASSES);
}

/* ----------------------------------------------------------------------------------------------------- running */

static bool launch(const sg_launch *l, sg_error *err)
{
    const summation *s = l->state;
    const void *in = l->in[0];
    for (int32_t i = 0; i < s->n_passes; i++) {
        void *out = i == s->n_passes - 1 ? l->out[0] : (char *)l->workspace + (size_t)(i & 1) * s->half;
        sg_cuda_sum(&s->pass[i], in, out, sg_cuda_where_of(l));
        in = out;
    }
    return sg_cuda_launched(err);
}

static bool launch_copy(const sg_launch *l, sg_error *err)
{
    const summation *s = l->state;
    return sg_cuda_check(cudaMemcpyAsync(l->out[0], l->in[0], s->out_bytes, cudaMemcpyDeviceToDevice, l->stream),
                         "copy", err) == SG_OK;
}

/* An empty sum is zero. */
static bool launch_zero(const sg_launch *l, sg_error *err)
{
    const summation *s = l->state;
    return sg_cuda_check(cudaMemsetAsync(l->out[0], 0, s->out_bytes, l->stream), "fill", err) == SG_OK;
}

static bool launch_nothing(const sg_launch *l, sg_error *err)
{
    (void)l, (void)err;
    return true;
}

/* --------------------------------------------------------------------------------------------------- preparing */

static size_t intermediate_bytes(const summation *s)
{
    size_t most = 0;
    for (int32_t i = 0; i + 1 < s->n_passes; i++) {
        const sg_cuda_sum_pass *p = &s->pass[i];
        size_t bytes = ((size_t)(p->outer * p->chunks * p->inner) * sizeof(float) + 255) / 256 * 256;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    summation *s = sg_calloc(1, sizeof *s);
    if (!s)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", spec->node->op->name);
    bool bf16 = spec->in_dtype[0] == SG_BF16;
    s->out_bytes = (size_t)sg_shape_count(&spec->out_shape[0]) * sg_dtype_size(spec->out_dtype[0]);
    *out = (sg_kernel){.name = spec->node->op->name, .state = s, .release = sg_free, .launch = launch_nothing};
    if (s->out_bytes == 0)
        return SG_OK;
    if (sg_shape_count(&spec->in_shape[0]) == 0) {
        out->launch = launch_zero;
        return SG_OK;
    }
    const sg_sum_problem p = sg_sum_describe(spec);
    for (int32_t i = 0; i < p.count; i++)
        add_passes(s, &p.step[i], bf16);
    out->launch = s->n_passes == 0 ? launch_copy : launch;
    out->replicates = s->n_passes > 0;
    if (s->n_passes > 0)
        s->pass[s->n_passes - 1].out_bf16 = bf16;
    s->half = intermediate_bytes(s);
    out->workspace = (s->n_passes > 2 ? 2 : s->n_passes > 1 ? 1 : 0) * s->half;
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec)
{
    return (spec->in_dtype[0] == SG_F32 || spec->in_dtype[0] == SG_BF16) && spec->out_dtype[0] == spec->in_dtype[0];
}

const sg_cuda_kernel sg_cuda_sum_kernels[] = {
    {&sg_op_sum, supports, prepare}, {&sg_op_sum_like, supports, prepare}, {0}};
