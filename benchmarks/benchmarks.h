/* benchmarks.h - timings behind `sealgraph bench`: each row is one compiled plan, run again and again on synthetic data.
 *
 * A row tells its work (flops, bytes that must move), its time, and the fraction of the machine's measured limits that it
 * reaches: floor time / median time, floor = max(flops / peak flop rate, bytes / peak bandwidth). */
#ifndef SG_BENCHMARKS_H
#define SG_BENCHMARKS_H

#include <stdio.h>

#include "runtime/runtime.h"

typedef struct sg_bench_row {
    char name[80];
    const char *device, *dtype;
    double median_us, min_us, max_us;
    int64_t runs;
    double flops, bytes, peak_fraction;
    double examples_per_s;          /* 0: not a row about examples */
    double temporary_bytes;         /* planned memory that is neither input nor result */
    double time_ratio, bytes_ratio; /* to the gradient's row; 0: no such row */
} sg_bench_row;

typedef struct sg_bench {
    int32_t threads;
    double seconds;           /* time given to each row; at least 10 runs are made */
    bool (*stop)(void *user); /* asked between rows; NULL: never */
    void *user;
    FILE *profile; /* where each row's times by kernel go (measuring them slows the row a little); NULL: nowhere */
    sg_machine_peak peak; /* set by sg_bench_begin */
    sg_bench_row *rows;
    int32_t count, capacity;
} sg_bench;

/* Measure the machine. `bench` holds threads and seconds; release with sg_bench_end. */
sg_status sg_bench_begin(sg_bench *bench, sg_error *err);
void sg_bench_end(sg_bench *bench);

/* The SEAL-NCE step at B = 32, K = 20: one loss-net and one task-net update, two layers of 400, global width 200, Adam, no
 * dropout, no clipping; a row with sparse and one with dense input, 4 % of it ones. shape: bibtex, delicious, eurlexev or
 * NULL for all. */
sg_status sg_bench_step(sg_bench *bench, const char *shape, sg_error *err);
/* Predictions of B = 4096 rows: dense rows of uniform numbers, and sparse rows with 4 % ones. */
sg_status sg_bench_predict(sg_bench *bench, const char *shape, sg_error *err);
/* Single operators at the shapes of the step and of common layers. `only`: a part of the names wanted, or NULL. */
sg_status sg_bench_ops(sg_bench *bench, const char *only, sg_error *err);

/* Gradients and Hessian products (forward over reverse, reverse over reverse) of a 4-layer encoder (width 256, 4 heads, 4 x 128
 * rows, mean square of the output) and of the task loss of bibtex's shape (E + BCE, 32 dense rows). The products alone cost
 * 8 / 3 = 2.67 gradients. `only`: a part of the names encoder, bibtex, or NULL. */
sg_status sg_bench_hvp(sg_bench *bench, const char *only, sg_error *err);

/* For the files of benchmarks/: a session for a row, and the row from its plan. */
sg_status sg_bench_session(const sg_bench *bench, sg_store *store, sg_session **out, sg_error *err);
sg_status sg_bench_time(sg_bench *bench, const char *name, sg_plan *plan, double examples, sg_error *err);

#endif
