/* bench.c - timing plans: warm-up, many runs, the middle and the spread. */
#include "benchmarks/benchmarks.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph/random_internal.h"
#include "ops/ops.h"

enum { WARM = 3, LEAST = 3, WANTED = 10, MOST = 10000, MOST_BATCH = 1000 };

/* A device that runs on its own is asked for many runs at once, so that neither the call nor the wait counts. */
#define BATCH_SECONDS 2e-2

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
    s->batch = apart && one < BATCH_SECONDS ? (int32_t)(BATCH_SECONDS / one) + 1 : 1;
    s->batch = s->batch < MOST_BATCH ? s->batch : MOST_BATCH;
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

static double larger(double a, double b) { return a > b ? a : b; }

static sg_bench_row *add_row(sg_bench *bench)
{
    if (bench->count == bench->capacity) {
        int32_t wider = bench->capacity ? 2 * bench->capacity : 16;
        sg_bench_row *grown = sg_realloc(bench->rows, (size_t)wider * sizeof *grown);
        if (!grown)
            return NULL;
        bench->rows = grown;
        bench->capacity = wider;
    }
    return memset(&bench->rows[bench->count++], 0, sizeof *bench->rows);
}

static void fill_row(sg_bench_row *row, const sg_bench_case *c, const sg_bench_target *t, const sg_plan *plan,
                     const samples *s)
{
    sg_plan_info info = sg_plan_describe(plan);
    double median = s->seconds[s->n / 2], floor = larger(info.flops / t->flops, info.bytes / t->bytes);
    snprintf(row->name, sizeof row->name, "%s", c->name);
    row->target = t;
    row->median_us = 1e6 * median;
    row->min_us = 1e6 * s->seconds[0];
    row->max_us = 1e6 * s->seconds[s->n - 1];
    row->runs = (int64_t)s->n * s->batch;
    row->flops = info.flops;
    row->bytes = info.bytes;
    row->temporary_bytes = (double)info.temporary_bytes;
    row->peak_fraction = floor / median;
    row->examples_per_s = c->examples / median;
}

static sg_status time_plan(sg_bench *bench, const sg_bench_case *c, const sg_bench_target *t, sg_session *session,
                           sg_plan *plan, sg_error *err)
{
    samples s = {.seconds = sg_calloc(MOST, sizeof *s.seconds)};
    sg_status status = s.seconds ? take_samples(bench, t->upload > 0, session, plan, &s, err)
                                 : sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_bench_row *row = status == SG_OK ? add_row(bench) : NULL;
    if (status == SG_OK && !row)
        status = sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK)
        fill_row(row, c, t, plan, &s);
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

typedef sg_status (*measure_fn)(sg_bench *bench, const sg_bench_case *c, const sg_bench_target *t, sg_session *session,
                                sg_plan *plan, sg_error *err);

static sg_status with_plan(sg_bench *bench, const sg_bench_case *c, const sg_bench_target *t, bool profiled,
                           measure_fn measure, sg_error *err)
{
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_session_options options = {.size = sizeof options,
                                  .backend = t->device,
                                  .precision = t->dtype,
                                  .threads = bench->threads,
                                  .profile = profiled};
    sg_status status = sg_session_new(&session, c->store, &options, err);
    if (status == SG_OK)
        status = sg_plan_new(&plan, session, c->graph, err);
    if (status == SG_OK)
        status = c->feed(c, plan, err);
    if (status == SG_OK)
        status = measure(bench, c, t, session, plan, err);
    sg_plan_free(plan);
    sg_session_free(session);
    return status;
}

sg_status sg_bench_time(sg_bench *bench, const sg_bench_case *c, sg_error *err)
{
    for (int32_t k = 0; k < bench->n_targets; k++) {
        const sg_bench_target *t = &bench->target[k];
        if (t->missing[0])
            continue;
        SG_TRY(with_plan(bench, c, t, false, time_plan, err));
        if (bench->profile)
            SG_TRY(with_plan(bench, c, t, true, profile, err));
    }
    return SG_OK;
}

sg_status sg_bench_fill(const sg_bench_case *c, sg_plan *plan, sg_error *err)
{
    (void)err;
    const int32_t rng[4] = {3, 0, 0, 0};
    for (int32_t n = 0; n < sg_node_count(c->graph); n++) {
        const sg_node *node = sg_node_at(c->graph, n);
        bool real = node->op == &sg_op_input && sg_dtype_of(sg_value_at(c->graph, node->out)) == SG_F32;
        float *data = real ? sg_plan_input(plan, node->attr[0].s) : NULL;
        int64_t count = data ? sg_shape_count(sg_plan_input_shape(plan, node->attr[0].s)) : 0;
        for (int64_t i = 0; i < count; i++)
            data[i] = sg_random_normal((uint64_t)n, rng, 0, (uint64_t)i);
    }
    return SG_OK;
}

void sg_bench_end(sg_bench *bench)
{
    sg_free(bench->rows);
    bench->rows = NULL;
    bench->count = bench->capacity = 0;
}
