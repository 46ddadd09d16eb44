/* attention.c - attention without its matrix of probabilities in memory: for a tile of queries the scores against all keys,
 * softmax row by row, and the product with v. */
#include "runtime/cpu/attention_internal.h"
#include "runtime/cpu/cpu_kernels.h"

#include <math.h>
#include <string.h>

typedef struct operands {
    float *kt;     /* scale k', [depth, row] */
    float *v;      /* [keys, width_pad] */
    float *scores; /* [tile, row] */
    float *out;    /* [tile, width_pad] */
    float *drop;   /* [row] */
    float *over;   /* [tile]: 1 / sum of the row */
} operands;

static operands carve(const sg_attention_problem *a, sg_scratch *s)
{
    return (operands){.kt = sg_scratch_take(s, a->depth * a->row),
                      .v = sg_scratch_take(s, a->keys * a->width_pad),
                      .scores = sg_scratch_take(s, a->tile * a->row),
                      .out = sg_scratch_take(s, a->tile * a->width_pad),
                      .drop = sg_scratch_take(s, a->row),
                      .over = sg_scratch_take(s, a->tile)};
}

typedef struct job {
    sg_attention_run run;
    float *out, *lse;
    char *scratch;
    size_t each;
} job;

/* The row becomes exp(x - max), not yet divided by its sum, times dropout. A row of -inf becomes zeros. */
static float softmax_row(const job *j, const sg_attention_tile *t, int64_t i, const operands *o)
{
    const sg_tile_kernels *k = j->run.k;
    float *row = o->scores + i * j->run.a->row;
    float top = k->max(t->keys_pad, row);
    if (top == -INFINITY) {
        memset(row, 0, (size_t)t->keys_pad * sizeof(float));
        o->over[i] = 0;
        return top;
    }
    float sum = k->exp_sum(t->keys_pad, top, row);
    const float *drop = sg_attention_drop(&j->run, t, i, o->drop);
    if (drop)
        k->multiply(t->keys_pad, drop, row);
    o->over[i] = 1 / sum;
    return isinf(top) ? top : top + logf(sum);
}

static void run_tile(const job *j, const sg_attention_tile *t, const operands *o)
{
    const sg_attention_problem *a = j->run.a;
    sg_attention_scores(&j->run, t, o->kt, o->scores);
    float *lse = j->lse + (t->b * a->heads + t->h) * a->queries + t->first;
    for (int64_t i = 0; i < t->rows; i++)
        lse[i] = softmax_row(j, t, i, o);
    j->run.k->gemm(t->rows, a->width_pad, t->keys, o->scores, a->row, 1, o->v, a->width_pad, o->out, a->width_pad,
                   false);
    float *out = j->out + t->b * a->out.batch + t->h * a->out.head + t->first * a->out.row;
    for (int64_t i = 0; i < t->rows; i++)
        sg_attention_unpack(o->out + i * a->width_pad, 0, 1, a->width, o->over[i], out + i * a->out.row, 0);
}

/* Tiles of one head stand together: its keys and values are packed when the first of them is met. */
static void run_range(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    job *j = arg;
    const sg_attention_problem *a = j->run.a;
    sg_scratch s = {j->scratch + (size_t)thread * j->each, 0};
    operands o = carve(a, &s);
    int64_t tiles = sg_attention_tiles(a), packed = -1;
    bool whole = false;
    unsigned mode = sg_cpu_flush_subnormals();
    for (int64_t n = begin; n < end; n++) {
        sg_attention_tile t = sg_attention_tile_at(a, n / tiles, n % tiles);
        if (packed != n / tiles) {
            sg_attention_pack_columns(&j->run, &t, j->run.in[SG_ATTENTION_K], &a->k, a->depth, a->scale, o.kt);
            sg_attention_pack_rows(&t, j->run.in[SG_ATTENTION_V], &a->v, 0, a->keys, a->width, o.v);
            packed = n / tiles;
            whole = a->causal && !sg_attention_finite(&t, j->run.in[SG_ATTENTION_V], &a->v, a->keys, a->width);
        }
        if (whole)
            sg_attention_take_all(a, &t);
        run_tile(j, &t, &o);
    }
    sg_cpu_restore_subnormals(mode);
}

static size_t scratch_bytes(const sg_attention_problem *a)
{
    sg_scratch count = {0};
    carve(a, &count);
    return count.used;
}

static bool launch(const sg_launch *l, sg_error *err)
{
    (void)err;
    const sg_attention_problem *a = l->state;
    job j = {sg_attention_begin(a, l), l->out[SG_ATTENTION_OUT], l->out[SG_ATTENTION_LSE], l->workspace,
             scratch_bytes(a)};
    sg_cpu_parallel(l->threads, a->batch * a->heads * sg_attention_tiles(a), run_range, &j);
    return true;
}

static bool supports(const sg_kernel_spec *spec) { return sg_attention_fits(spec, spec->n_in); }

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    sg_attention_problem *a = sg_alloc(sizeof *a);
    if (!a)
        return sg_fail(err, SG_E_MEMORY, "out of memory for attention");
    *a = sg_attention_describe(spec, spec->n_in, 1);
    *out = (sg_kernel){.name = "attention", .launch = launch, .state = a, .release = sg_free};
    out->workspace = scratch_bytes(a) * (size_t)spec->threads;
    return SG_OK;
}

const sg_cpu_kernel sg_cpu_attention_kernels[] = {{&sg_op_attention, supports, prepare}, {0}};
