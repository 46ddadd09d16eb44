/* bench.c - timing plans: warm-up, many runs, the middle and the spread. */
#include "benchmarks/bench_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph/random_internal.h"
#include "ops/ops.h"

/* Whole numbers of an input are below this: places in any table that is measured. */
enum { IDS = 256 };
enum { WARM = 3, LEAST = 3, WANTED = 10, MOST = 10000, MOST_BATCH = 1000, TRANSFERS = 5 };

/* A device that runs on its own is asked for many runs at once, so that neither the call nor the wait counts. */
#define BATCH_SECONDS 5e-3

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static sg_status run_many(sg_session *session, sg_plan *plan, int32_t n, double *seconds, sg_error *err)
{
    double start = now();
    for (int32_t k = 0; k < n; k++)
        SG_TRY(sg_plan_run(plan, err));
    SG_TRY(sg_session_wait(session, err));
    *seconds = (now() - start) / n;
    return SG_OK;
}

typedef struct samples {
    double *seconds; /* a run, in ascending order */
    int32_t n, batch;
} samples;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static sg_status take_samples(const sg_bench *bench, bool apart, sg_session *session, sg_plan *plan, samples *s,
                              sg_error *err)
{
    double one;
    SG_TRY(run_many(session, plan, WARM, &one, err));
    SG_TRY(run_many(session, plan, 1, &one, err));
    s->batch =
        apart ? (int32_t)fmin(BATCH_SECONDS / one + 1, MOST_BATCH) : 1; /* of a time too short to tell: MOST_BATCH */
    double start = now(), elapsed = 0;
    for (s->n = 0; s->n < MOST; s->n++) {
        if (s->n >= LEAST && elapsed > (s->n < WANTED ? 4 : 1) * bench->seconds)
            break;
        SG_TRY(run_many(session, plan, s->batch, &s->seconds[s->n], err));
        elapsed = now() - start;
    }
    qsort(s->seconds, (size_t)s->n, sizeof *s->seconds, by_value);
    return SG_OK;
}

/* ---- transfers */

/* A run for which every input travels to the device, and after which every result travels back. */
static sg_status run_moved(const sg_bench_case *c, sg_session *session, sg_plan *plan, double *seconds, sg_error *err)
{
    double start = now();
    for (int32_t n = 0; n < sg_node_count(c->graph); n++) {
        const sg_node *node = sg_node_at(c->graph, n);
        if (node->op == &sg_op_input && sg_plan_input_shape(plan, node->attr[0].s))
            sg_plan_input_anew(plan, node->attr[0].s);
    }
    SG_TRY(sg_plan_run(plan, err));
    for (int32_t k = 0; k < sg_result_count(c->graph); k++)
        sg_plan_result(plan, sg_result_name(c->graph, k));
    SG_TRY(sg_session_wait(session, err));
    *seconds = now() - start;
    return SG_OK;
}

/* What the transfers add to one run that is waited for. Inputs have two copies, both of which `feed` has written. */
static sg_status time_transfers(const sg_bench_case *c, sg_session *session, sg_plan *plan, double *out, sg_error *err)
{
    double with[TRANSFERS], without[TRANSFERS];
    SG_TRY(c->feed(c, plan, err));
    for (int32_t k = 0; k < TRANSFERS; k++) {
        SG_TRY(run_moved(c, session, plan, &with[k], err));
        SG_TRY(run_many(session, plan, 1, &without[k], err));
    }
    qsort(with, TRANSFERS, sizeof *with, by_value);
    qsort(without, TRANSFERS, sizeof *without, by_value);
    double difference = with[TRANSFERS / 2] - without[TRANSFERS / 2];
    *out = difference > 0 ? difference : 0;
    return SG_OK;
}

static double larger(double a, double b) { return a > b ? a : b; }

/* One more element, zeroed, of a list that grows; NULL if out of memory. */
static void *add(void **list, int32_t *count, size_t size)
{
    char *grown = sg_realloc(*list, (size_t)(*count + 1) * size);
    if (!grown)
        return NULL;
    *list = grown;
    return memset(grown + (size_t)(*count)++ * size, 0, size);
}

static sg_bench_row *add_row(sg_bench *bench) { return add((void **)&bench->rows, &bench->count, sizeof *bench->rows); }

sg_status sg_bench_add_remark(sg_bench *bench, const char *name, const sg_bench_target *t, const char *text,
                              sg_error *err)
{
    sg_bench_remark *r = add((void **)&bench->remarks, &bench->n_remarks, sizeof *bench->remarks);
    if (!r)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    snprintf(r->name, sizeof r->name, "%s", name);
    snprintf(r->text, sizeof r->text, "%.255s", text);
    r->target = t;
    return SG_OK;
}

sg_status sg_bench_go_on(const sg_bench *bench, sg_error *err)
{
    if (bench->stop && bench->stop(bench->user))
        return sg_fail(err, SG_E_INTERRUPTED, "stopped before every row was measured");
    return SG_OK;
}

/* ---- rows */

static void fill_row(sg_bench_row *row, const sg_bench_case *c, const sg_bench_target *t, const sg_plan *plan,
                     const samples *s, double transfer)
{
    sg_plan_info info = sg_plan_describe(plan);
    double median = s->seconds[s->n / 2], floor = larger(info.flops / t->flops, info.bytes / t->bytes);
    snprintf(row->name, sizeof row->name, "%s", c->name);
    row->target = t;
    row->median_us = 1e6 * median;
    row->min_us = 1e6 * s->seconds[0];
    row->max_us = 1e6 * s->seconds[s->n - 1];
    row->runs = (int64_t)s->n * s->batch;
    row->transfer_us = 1e6 * transfer;
    row->flops = info.flops;
    row->bytes = info.bytes;
    row->temporary_bytes = (double)info.temporary_bytes;
    row->peak_fraction = floor / median;
    row->examples_per_s = c->examples / median;
}

static sg_status time_plan(sg_bench *bench, const sg_bench_case *c, const sg_bench_target *t, sg_session *session,
                           sg_plan *plan, sg_error *err)
{
    double transfer = 0;
    samples s = {.seconds = sg_calloc(MOST, sizeof *s.seconds)};
    sg_status status = s.seconds ? take_samples(bench, t->upload > 0, session, plan, &s, err)
                                 : sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK && t->upload > 0)
        status = time_transfers(c, session, plan, &transfer, err);
    sg_bench_row *row = status == SG_OK ? add_row(bench) : NULL;
    if (status == SG_OK && !row)
        status = sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK)
        fill_row(row, c, t, plan, &s, transfer);
    sg_free(s.seconds);
    return status;
}

/* Times by kernel come from a session of their own: on a GPU they need a wait after each kernel. */
static sg_status profile(sg_bench *bench, const sg_bench_case *c, const sg_bench_target *t, sg_session *session,
                         sg_plan *plan, sg_error *err)
{
    double seconds;
    SG_TRY(run_many(session, plan, WANTED, &seconds, err));
    fprintf(bench->profile, "%s on %s in %s\n", c->name, t->device, t->dtype);
    sg_plan_profile_print(plan, bench->profile);
    return SG_OK;
}

sg_status sg_bench_with_plan(sg_bench *bench, const sg_bench_case *c, const sg_bench_target *t, bool profiled,
                             sg_bench_use use, sg_error *err)
{
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_session_options options = {.size = sizeof options,
                                  .backend = t->device,
                                  .precision = c->typed && strcmp(t->dtype, "bf16") == 0 ? "f32" : t->dtype,
                                  .threads = bench->threads,
                                  .decompose = c->decompose,
                                  .profile = profiled};
    sg_status status = sg_session_new(&session, c->store, &options, err);
    if (status == SG_OK)
        status = sg_plan_new(&plan, session, c->graph, err);
    if (status == SG_OK)
        status = c->feed(c, plan, err);
    if (status == SG_OK)
        status = use(bench, c, t, session, plan, err);
    sg_plan_free(plan);
    sg_session_free(session);
    return status;
}

sg_status sg_bench_time_on(sg_bench *bench, const sg_bench_case *c, const sg_bench_target *t, sg_error *err)
{
    SG_TRY(sg_bench_with_plan(bench, c, t, false, time_plan, err));
    return bench->profile ? sg_bench_with_plan(bench, c, t, true, profile, err) : SG_OK;
}

sg_status sg_bench_time(sg_bench *bench, const sg_bench_case *c, sg_error *err)
{
    for (int32_t k = 0; k < bench->n_targets; k++)
        if (!bench->target[k].missing[0])
            SG_TRY(sg_bench_time_on(bench, c, &bench->target[k], err));
    return SG_OK;
}

/* ---- inputs */

/* Normal numbers, repeated: drawing each would take longer than what is measured. A prime, so that rows differ. */
enum { PERIOD = 65521 };

static void fill_input(const sg_value v, void *memory, int64_t count, const float *normal)
{
    uint16_t *half = memory;
    int32_t *whole = memory;
    float *real = memory;
    uint32_t bits;
    for (int64_t i = 0; i < count; i++) {
        float x = normal[(i + v.id) % PERIOD];
        memcpy(&bits, &x, sizeof bits);
        if (sg_dtype_of(v) == SG_F32)
            real[i] = x;
        else if (sg_dtype_of(v) == SG_BF16)
            half[i] = (uint16_t)(bits >> 16);
        else if (sg_dtype_of(v) == SG_I32)
            whole[i] = (int32_t)(bits % IDS);
    }
}

sg_status sg_bench_fill(const sg_bench_case *c, sg_plan *plan, sg_error *err)
{
    const int32_t rng[4] = {3, 0, 0, 0};
    float *normal = sg_calloc(PERIOD, sizeof *normal);
    if (!normal)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int64_t i = 0; i < PERIOD; i++)
        normal[i] = sg_random_normal(1, rng, 0, (uint64_t)i);
    for (int32_t n = 0; n < sg_node_count(c->graph); n++) {
        const sg_node *node = sg_node_at(c->graph, n);
        const char *name = node->op == &sg_op_input ? node->attr[0].s : NULL;
        const sg_shape *shape = name ? sg_plan_input_shape(plan, name) : NULL;
        void *memory = shape ? sg_plan_input_anew(plan, name) : NULL;
        if (memory)
            fill_input(sg_value_at(c->graph, node->out), memory, sg_shape_count(shape), normal);
    }
    sg_free(normal);
    return SG_OK;
}

void sg_bench_end(sg_bench *bench)
{
    sg_free(bench->rows);
    sg_free(bench->remarks);
    bench->rows = NULL;
    bench->remarks = NULL;
    bench->count = bench->n_remarks = 0;
}
