/* targets.c - the devices and arithmetics of a benchmark, and their measured limits. */
#include <math.h>
#include <string.h>

#include "benchmarks/bench_internal.h"
#include "ops/ops.h"

/* Products of square matrices one after the other, so that what surrounds them (an operand rounded, a result widened) does not
 * count; larger ones until a run takes a while. */
enum { LEAST_SIDE = 1024, MOST_SIDE = 8192, PRODUCTS = 4 };
#define LONG_ENOUGH_US 2e4

/* The next name of a comma-separated list. */
static bool next_name(const char **list, char *out, size_t size)
{
    if (!**list)
        return false;
    size_t n = strcspn(*list, ",");
    snprintf(out, size, "%.*s", (int)n, *list);
    *list += n + ((*list)[n] == ',');
    return true;
}

static sg_status list_targets(sg_bench *bench, const char *devices, const char *dtypes, sg_error *err)
{
    char device[16], dtype[8];
    while (next_name(&devices, device, sizeof device)) {
        if (strcmp(device, "reference") == 0)
            return sg_fail(err, SG_E_CONFIG,
                           "reference is what others are tested against and is not timed: cpu or cuda");
        for (const char *rest = dtypes; next_name(&rest, dtype, sizeof dtype);) {
            if (bench->n_targets == SG_BENCH_TARGETS)
                return sg_fail(err, SG_E_CONFIG, "more than %d pairs of a device and a dtype", SG_BENCH_TARGETS);
            sg_bench_target *t = &bench->target[bench->n_targets++];
            snprintf(t->device, sizeof t->device, "%s", device);
            snprintf(t->dtype, sizeof t->dtype, "%s", dtype);
        }
    }
    return bench->n_targets ? SG_OK : sg_fail(err, SG_E_CONFIG, "a benchmark needs a device and a dtype");
}

/* Scattered numbers of variance 1 / side, so that products stay in range; zeros would draw less power than real work. */
static sg_status scatter(const sg_bench_case *c, sg_plan *plan, sg_error *err)
{
    (void)c;
    float *a = sg_plan_input_anew(plan, "a");
    if (!a)
        return sg_fail(err, SG_E_DEVICE, "the device has failed");
    int64_t n = sg_shape_count(sg_plan_input_shape(plan, "a"));
    float scale = (float)(sqrt(3 / sqrt((double)n)) / INT32_MAX);
    for (int64_t i = 0; i < n; i++)
        a[i] = scale * (float)(int32_t)((uint32_t)i * 2654435761u);
    return SG_OK;
}

/* The best rate of a few samples, and how long the median run took. */
static sg_status product_rate(sg_bench_target *t, int64_t side, double *median_us, sg_error *err)
{
    sg_bench inner = {.threads = 1, .seconds = 0.05, .n_targets = 1};
    sg_bench_case c = {.name = "peak", .graph = sg_graph_new(), .store = sg_store_new(SG_F32), .feed = scatter};
    sg_status status = c.graph && c.store ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
    inner.target[0] = *t;
    if (status == SG_OK) {
        sg_value a = sg_input(c.graph, "a", SG_F32, SG_SHAPE(side, side)), y = a;
        for (int k = 0; k < PRODUCTS; k++)
            y = sg_matmul(y, a);
        sg_result(c.graph, "y", y);
        status = sg_bench_time(&inner, &c, err);
    }
    if (status == SG_OK) {
        double reached = 2.0 * PRODUCTS * (double)side * (double)side * (double)side / (1e-6 * inner.rows[0].min_us);
        t->flops = reached > t->flops ? reached : t->flops;
        *median_us = inner.rows[0].median_us;
    }
    sg_bench_end(&inner);
    sg_store_free(c.store);
    sg_graph_free(c.graph);
    return status;
}

static sg_status measure_products(sg_bench_target *t, sg_error *err)
{
    double median_us = 0;
    for (int64_t side = LEAST_SIDE; side <= MOST_SIDE && median_us < LONG_ENOUGH_US; side *= 2)
        SG_TRY(product_rate(t, side, &median_us, err));
    return SG_OK;
}

/* Dense products, from the data sheets of the SXM modules. */
static void state_limit(sg_bench_target *t)
{
    static const struct {
        const char *card, *dtype;
        double flops;
    } sheets[] = {{"H200", "bf16", 989e12}, {"H200", "tf32", 494.5e12}, {"H200", "f32", 67e12},
                  {"H100", "bf16", 989e12}, {"H100", "tf32", 494.5e12}, {"H100", "f32", 67e12},
                  {"A100", "bf16", 312e12}, {"A100", "tf32", 156e12},   {"A100", "f32", 19.5e12}};
    for (size_t k = 0; k < sizeof sheets / sizeof sheets[0]; k++)
        if (strstr(t->text, sheets[k].card) && strcmp(t->dtype, sheets[k].dtype) == 0) {
            t->card = sheets[k].card;
            t->stated = sheets[k].flops;
        }
}

static sg_status measure_limits(const sg_bench *bench, sg_bench_target *t, sg_session *session, sg_error *err)
{
    sg_memory_peak memory;
    snprintf(t->text, sizeof t->text, "%s", sg_session_describe(session));
    SG_TRY(sg_measure_memory(session, &memory, err));
    state_limit(t);
    t->bytes = memory.copy;
    t->upload = memory.upload;
    t->download = memory.download;
    if (t->upload > 0)
        return measure_products(t, err);
    t->flops = sg_measure_peak(bench->threads).flops;
    return SG_OK;
}

static sg_status open_target(const sg_bench *bench, sg_bench_target *t, sg_error *err)
{
    sg_session *session = NULL;
    sg_store *store = sg_store_new(SG_F32);
    sg_session_options options = {
        .size = sizeof options, .backend = t->device, .precision = t->dtype, .threads = bench->threads};
    sg_status status =
        store ? sg_session_new(&session, store, &options, err) : sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK)
        status = measure_limits(bench, t, session, err);
    sg_session_free(session);
    sg_store_free(store);
    return status;
}

sg_status sg_bench_begin(sg_bench *bench, const char *devices, const char *dtypes, sg_error *err)
{
    int32_t there = 0;
    if (bench->threads < 1 || !(bench->seconds > 0))
        return sg_fail(err, SG_E_ARGUMENT, "a benchmark needs threads and time");
    SG_TRY(list_targets(bench, devices, dtypes, err));
    for (int32_t k = 0; k < bench->n_targets; k++) {
        sg_bench_target *t = &bench->target[k];
        sg_status status = open_target(bench, t, err);
        if (status == SG_E_ARGUMENT) /* a name that no machine has */
            return status;
        if (status == SG_OK)
            there++;
        else
            snprintf(t->missing, sizeof t->missing, "%.250s", err->text);
    }
    return there ? SG_OK : err->status;
}
