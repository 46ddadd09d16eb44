/* bench.c - timing a plan: warm-up, many runs, the middle and the spread. */
#include "benchmarks/benchmarks.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WARM = 3, LEAST = 10, MOST = 10000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

sg_status sg_bench_begin(sg_bench *bench, sg_error *err)
{
    if (bench->threads < 1 || !(bench->seconds > 0))
        return sg_fail(err, SG_E_ARGUMENT, "a benchmark needs threads and time");
    bench->peak = sg_measure_peak(bench->threads);
    return SG_OK;
}

void sg_bench_end(sg_bench *bench)
{
    sg_free(bench->rows);
    bench->rows = NULL;
    bench->count = bench->capacity = 0;
}

sg_status sg_bench_session(const sg_bench *bench, sg_store *store, sg_session **out, sg_error *err)
{
    sg_session_options options = {.size = sizeof options, .threads = bench->threads, .profile = bench->profile != NULL};
    return sg_session_new(out, store, &options, err);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static sg_status measure(sg_bench *bench, sg_plan *plan, double *times, int64_t *runs, sg_error *err)
{
    double end = now() + bench->seconds;
    for (int k = 0; k < WARM; k++)
        SG_TRY(sg_plan_run(plan, err));
    for (*runs = 0; *runs < MOST && (*runs < LEAST || now() < end); ++*runs) {
        double start = now();
        SG_TRY(sg_plan_run(plan, err));
        times[*runs] = now() - start;
    }
    qsort(times, (size_t)*runs, sizeof *times, by_value);
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

sg_status sg_bench_time(sg_bench *bench, const char *name, sg_plan *plan, double examples, sg_error *err)
{
    int64_t runs = 0;
    double *times = sg_calloc(MOST, sizeof *times);
    sg_status status = times ? measure(bench, plan, times, &runs, err) : sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_bench_row *row = status == SG_OK ? add_row(bench) : NULL;
    if (status == SG_OK && !row)
        status = sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK) {
        sg_plan_info info = sg_plan_describe(plan);
        double median = times[runs / 2], floor = larger(info.flops / bench->peak.flops, info.bytes / bench->peak.bytes);
        snprintf(row->name, sizeof row->name, "%s", name);
        row->device = "cpu";
        row->dtype = "f32";
        row->median_us = 1e6 * median;
        row->min_us = 1e6 * times[0];
        row->max_us = 1e6 * times[runs - 1];
        row->runs = runs;
        row->flops = info.flops;
        row->bytes = info.bytes;
        row->temporary_bytes = (double)info.temporary_bytes;
        row->peak_fraction = floor / median;
        row->examples_per_s = examples / median;
        if (bench->profile) {
            fprintf(bench->profile, "%s\n", name);
            sg_plan_profile_print(plan, bench->profile);
        }
    }
    sg_free(times);
    return status;
}
