/* peak.c - what this machine can do, measured: multiply-adds in registers, and the triad a = b + s c (McCalpin's STREAM) over
 * arrays larger than the last cache. The best of several short runs counts, since other programs can only slow one down. */
#include "runtime/cpu/cpu_internal.h"
#include "runtime/cpu/peak_internal.h"
#include "runtime/runtime.h"

#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#define RUNS 24
#define ROUNDS 300000
#define MIN_TRIAD_BYTES ((int64_t)96 << 20)
#define MAX_TRIAD_BYTES ((int64_t)384 << 20)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What a measurement hands out to the team: pieces, PIECES a thread. */
enum { PIECES = 16 };

typedef struct peak_work {
    int32_t threads;
    double rate; /* the best so far */
    float *room; /* for the triad: three arrays of `count` */
    int64_t count;
    bool first;
    _Atomic bool odd; /* a sum was not finite: never, but reading the sums keeps the loops */
} peak_work;

static double loop(int64_t rounds, float *sink)
{
    static double (*const loops[])(int64_t, float *) = {sg_peak_x86_64, sg_peak_avx2, sg_peak_avx512};
    return loops[sg_cpu_isa_level()](rounds, sink);
}

static void multiply_add(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    peak_work *w = arg;
    float sink = 0;
    for (int64_t i = begin; i < end; i++)
        loop(ROUNDS / PIECES, &sink);
    if (sink != sink)
        atomic_store(&w->odd, true);
}

static void measure(peak_work *w, sg_cpu_range_fn fn, double work)
{
    double start = now();
    sg_cpu_parallel(w->threads, (int64_t)w->threads * PIECES, fn, w);
    double rate = work / (now() - start);
    w->rate = rate > w->rate && !w->first ? rate : w->rate;
    w->first = false;
}

static void multiply_adds(void *user)
{
    peak_work *w = user;
    float sink = 0;
    double flops = w->threads * PIECES * loop(ROUNDS / PIECES, &sink);
    for (int run = 0; run <= RUNS && sink == sink; run++)
        measure(w, multiply_add, flops);
}

/* Twice the last cache, split over three arrays. */
static int64_t triad_count(void)
{
    int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE), bytes = 2 * (cache > 0 ? cache : MIN_TRIAD_BYTES / 2);
    bytes = bytes < MIN_TRIAD_BYTES ? MIN_TRIAD_BYTES : bytes > MAX_TRIAD_BYTES ? MAX_TRIAD_BYTES : bytes;
    return bytes / 3 / (int64_t)sizeof(float) / 64 * 64;
}

/* The first run writes b and c, which also places the pages near threads that use them. */
static void triad(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    peak_work *w = arg;
    int64_t pieces = (int64_t)w->threads * PIECES, first = begin * w->count / pieces, past = end * w->count / pieces;
    float *a = w->room, *b = a + w->count, *c = b + w->count;
    for (int64_t i = first; i < past; i++) {
        if (w->first)
            b[i] = c[i] = 1;
        a[i] = b[i] + 0.5f * c[i];
    }
}

static void triads(void *user)
{
    peak_work *w = user;
    for (int run = 0; run <= RUNS; run++)
        measure(w, triad, 3.0 * (double)w->count * sizeof *w->room);
}

/* 0 if memory is out. */
static double best_rate(int32_t threads, void (*body)(void *user), float *room, int64_t count)
{
    peak_work w = {.threads = threads, .room = room, .count = count, .first = true};
    sg_cpu_team *team = sg_cpu_team_new(threads);
    if (!team)
        return 0;
    sg_cpu_run(team, body, &w);
    sg_cpu_team_free(team);
    return atomic_load(&w.odd) ? 0 : w.rate;
}

sg_machine_peak sg_measure_peak(int32_t threads)
{
    threads = threads > 0 ? threads : sg_machine_threads();
    int64_t n = triad_count();
    float *room = sg_alloc_aligned((size_t)n * 3 * sizeof *room);
    sg_machine_peak peak = {best_rate(threads, multiply_adds, NULL, 0), room ? best_rate(threads, triads, room, n) : 0};
    sg_free_aligned(room);
    return peak;
}
