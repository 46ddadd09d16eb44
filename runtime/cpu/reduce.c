/* reduce.c - sums over any set of axes: sum, and sum_like (the transpose of broadcasting).
 *
 * Each summed axis is taken away by one step, seen as x [outer, r, inner] -> y [outer, inner]. A long r is cut into chunks that
 * are summed apart and then added: that gives work for all threads where there are few outputs, and keeps rounding errors small.
 * Chunks depend on the shape alone. */
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/row_kernels_internal.h"
#include "runtime/sum_problem_internal.h"

#include <string.h>

#define ROW_CHUNK 8192   /* elements of a contiguous row summed at once */
#define COLUMN_CHUNK 256 /* rows of a column sum, where columns are few */
#define COLUMN_BLOCK 32  /* columns of a tile */
#define MAX_STEPS (8 * SG_MAX_RANK)
/* Below this many elements a second thread costs more than it saves. */
#define SERIAL_WORK 16384

/* y [outer, chunks, inner]: chunk c holds the sum over rows [c chunk, (c + 1) chunk) of x [outer, r, inner]. */
typedef struct step {
    int64_t outer, r, inner, chunk, chunks;
} step;

typedef struct reduction {
    int32_t n_steps;
    step steps[MAX_STEPS];
    int64_t in_count, out_count;
    size_t half; /* bytes of each of the two intermediate buffers */
} reduction;

typedef struct job {
    const step *s;
    const sg_row_kernels *rows;
    const float *in;
    float *out;
} job;

static int64_t step_out(const step *s) { return s->outer * s->chunks * s->inner; }

static void sum_row_tiles(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    const step *s = j->s;
    for (int64_t t = begin; t < end; t++) {
        int64_t o = t / s->chunks, first = t % s->chunks * s->chunk;
        int64_t n = s->r - first < s->chunk ? s->r - first : s->chunk;
        j->out[t] = j->rows->sum(n, j->in + o * s->r + first);
    }
}

static int64_t column_blocks(const step *s) { return (s->inner + COLUMN_BLOCK - 1) / COLUMN_BLOCK; }

static void sum_column_tiles(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    const step *s = j->s;
    int64_t blocks = column_blocks(s);
    for (int64_t t = begin; t < end; t++) {
        int64_t slab = t / blocks, col = t % blocks * COLUMN_BLOCK;
        int64_t o = slab / s->chunks, first = slab % s->chunks * s->chunk;
        int64_t rows = s->r - first < s->chunk ? s->r - first : s->chunk;
        int64_t cols = s->inner - col < COLUMN_BLOCK ? s->inner - col : COLUMN_BLOCK;
        j->rows->sum_columns(rows, cols, j->in + (o * s->r + first) * s->inner + col, s->inner,
                             j->out + slab * s->inner + col);
    }
}

static void run_step(const step *s, int32_t threads, const float *in, float *out)
{
    job j = {s, sg_row_kernels_sums(), in, out};
    if (s->outer * s->r * s->inner < SERIAL_WORK)
        threads = 1;
    if (s->inner == 1)
        sg_cpu_parallel(threads, s->outer * s->chunks, sum_row_tiles, &j);
    else
        sg_cpu_parallel(threads, s->outer * s->chunks * column_blocks(s), sum_column_tiles, &j);
}

static bool launch(const sg_launch *l, sg_error *err)
{
    (void)err;
    const reduction *r = l->state;
    const float *in = l->in[0];
    if (r->n_steps == 0 && r->out_count > 0)
        memcpy(l->out[0], in, (size_t)r->out_count * sizeof(float));
    for (int32_t i = 0; i < r->n_steps; i++) {
        float *out = i == r->n_steps - 1 ? l->out[0] : (float *)((char *)l->workspace + (size_t)(i & 1) * r->half);
        run_step(&r->steps[i], l->threads, in, out);
        in = out;
    }
    return true;
}

/* An empty sum is zero. */
static bool launch_empty(const sg_launch *l, sg_error *err)
{
    (void)err;
    const reduction *r = l->state;
    if (r->out_count > 0)
        memset(l->out[0], 0, (size_t)r->out_count * sizeof(float));
    return true;
}

static void add_step(reduction *r, int64_t outer, int64_t n, int64_t inner)
{
    /* A few columns do not fill vectors: neighbouring rows are seen as one, and their sums are folded in a further step. */
    int64_t fold = inner > 1 && inner < COLUMN_BLOCK / 2 && n >= 8 * COLUMN_BLOCK ? COLUMN_BLOCK / 2 : 1;
    while (n % fold != 0)
        fold /= 2;
    if (fold > 1) {
        add_step(r, outer, n / fold, inner * fold);
        add_step(r, outer, fold, inner);
        return;
    }
    step *s = &r->steps[r->n_steps++];
    *s = (step){outer, n, inner, n, 1};
    int64_t limit = inner == 1 ? ROW_CHUNK : COLUMN_CHUNK;
    /* Wide column sums have blocks of columns enough to share out, and run-wise sums already. */
    bool few = inner == 1 || outer * column_blocks(s) < 4;
    if (n > 2 * limit && few) {
        s->chunk = limit;
        s->chunks = (n + limit - 1) / limit;
        add_step(r, outer, s->chunks, inner);
    }
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    reduction *r = sg_calloc(1, sizeof *r);
    if (!r)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a sum");
    r->in_count = sg_shape_count(&spec->in_shape[0]);
    r->out_count = sg_shape_count(&spec->out_shape[0]);
    *out = (sg_kernel){.name = "sum", .launch = launch_empty, .state = r, .release = sg_free};
    if (r->in_count == 0 || r->out_count == 0)
        return SG_OK;
    out->launch = launch;
    const sg_sum_problem p = sg_sum_describe(spec);
    for (int32_t i = 0; i < p.count; i++)
        add_step(r, p.step[i].outer, p.step[i].size, p.step[i].inner);
    for (int32_t i = 0; i + 1 < r->n_steps; i++) {
        size_t bytes = sg_cpu_line((size_t)step_out(&r->steps[i]) * sizeof(float));
        r->half = bytes > r->half ? bytes : r->half;
    }
    out->workspace = 2 * r->half;
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec) { return spec->in_dtype[0] == SG_F32; }

const sg_cpu_kernel sg_cpu_reduce_kernels[] = {
    {&sg_op_sum, supports, prepare}, {&sg_op_sum_like, supports, prepare}, {0}};
