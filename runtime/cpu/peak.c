/* peak.c - what this machine can do, measured: multiply-adds in registers, and the triad a = b + s c (McCalpin's STREAM) over
 * arrays larger than the last cache. The best of several short runs counts, since other programs can only slow one down. */
#include "runtime/cpu/cpu_internal.h"
#include "runtime/cpu/peak_internal.h"
#include "runtime/runtime.h"

#include <omp.h>
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

static double multiply_add_rate(int32_t threads)
{
    double (*const loops[])(int64_t, float *) = {sg_peak_x86_64, sg_peak_avx2, sg_peak_avx512};
    double (*loop)(int64_t, float *) = loops[sg_cpu_isa_level()];
    double best = 0;
    float total = 0;
    for (int run = 0; run < RUNS; run++) {
        double flops = 0, start = now();
#pragma omp parallel num_threads(threads) reduction(+ : flops, total)
        {
            float sink = 0;
            flops += loop(ROUNDS, &sink);
            total += sink;
        }
        double rate = flops / (now() - start);
        best = rate > best ? rate : best;
    }
    /* The sums are finite by construction; reading them keeps the loops. */
    return total == total ? best : 0;
}

/* Twice the last cache, split over three arrays. */
static int64_t triad_count(void)
{
    int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE), bytes = 2 * (cache > 0 ? cache : MIN_TRIAD_BYTES / 2);
    bytes = bytes < MIN_TRIAD_BYTES ? MIN_TRIAD_BYTES : bytes > MAX_TRIAD_BYTES ? MAX_TRIAD_BYTES : bytes;
    return bytes / 3 / (int64_t)sizeof(float) / 64 * 64;
}

static double triad_rate(int32_t threads)
{
    int64_t n = triad_count();
    float *a = sg_alloc_aligned((size_t)n * 3 * sizeof *a), *b = a + n, *c = b + n;
    if (!a)
        return 0;
    double best = 0;
    for (int run = 0; run <= RUNS; run++) {
        double start = now();
        /* The first run writes b and c, which also places the pages near the threads that use them. */
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int64_t i = 0; i < n; i++) {
            if (run == 0)
                b[i] = c[i] = 1;
            a[i] = b[i] + 0.5f * c[i];
        }
        double rate = 3.0 * (double)n * sizeof *a / (now() - start);
        best = run > 0 && rate > best ? rate : best;
    }
    sg_free_aligned(a);
    return best;
}

sg_machine_peak sg_measure_peak(int32_t threads)
{
    threads = threads > 0 ? threads : omp_get_num_procs();
    return (sg_machine_peak){multiply_add_rate(threads), triad_rate(threads)};
}
