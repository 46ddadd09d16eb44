/* benchmarks.h - timings behind `sealgraph bench`: each row is one compiled plan, run again and again on synthetic data, on one
 * device in one arithmetic.
 *
 * A row tells its work (flops, bytes that must move), its time, and the fraction of the device's measured limits that it
 * reaches: floor time / median time, floor = max(flops / peak flop rate, bytes / peak bandwidth). */
#ifndef SG_BENCHMARKS_H
#define SG_BENCHMARKS_H

#include <stdio.h>

#include "models/models.h"
#include "runtime/runtime.h"

/* A device and an arithmetic, with its limits: flops a second of large products (on the host: of multiply-adds), bytes a
 * second copied in its memory, and moved from and to the host (0: it is the host's). */
typedef struct sg_bench_target {
    char device[16];   /* "cpu", "cuda", "cuda:1" */
    char dtype[8];     /* "f32", "tf32", "bf16" */
    char text[256];    /* what the session says of it */
    char missing[256]; /* why it is not measured; "" if it is */
    double flops, bytes, upload, download;
    const char *card; /* whose products its maker states at `stated` flops a second; NULL: unknown */
    double stated;
} sg_bench_target;

typedef struct sg_bench_row {
    char name[80];
    const sg_bench_target *target;
    double median_us, min_us, max_us; /* of samples; a sample is as many runs as the clock needs */
    int64_t runs;                     /* of the samples together */
    double transfer_us;               /* inputs to the device and results back, beside a run; 0 in the host's memory */
    double flops, bytes, peak_fraction;
    double examples_per_s;          /* 0: not a row about examples */
    double temporary_bytes;         /* planned memory that is neither input nor result */
    double time_ratio, bytes_ratio; /* to the gradient's row; 0: no such row */
    bool compared;     /* sg_bench_bert with `check`: |a - b| / |b| over all results, where a are the row's and */
    double difference; /* b those of the decomposed graph in the row's arithmetic, */
    double rounding;   /* and in f32 */
} sg_bench_row;

/* Why a target has no row of this name. */
typedef struct sg_bench_remark {
    char name[80];
    const sg_bench_target *target;
    char text[256];
} sg_bench_remark;

enum { SG_BENCH_TARGETS = 8 };

typedef struct sg_bench {
    int32_t threads;
    double seconds;           /* time given to each row; at least 3 samples are taken, 10 if that is not long */
    bool (*stop)(void *user); /* asked between rows; NULL: never */
    void *user;
    FILE *profile; /* where each row's times by kernel go, measured after the row; NULL: nowhere */
    sg_bench_target target[SG_BENCH_TARGETS]; /* set by sg_bench_begin */
    int32_t n_targets;
    sg_bench_row *rows;
    sg_bench_remark *remarks;
    int32_t count, n_remarks; /* of rows and remarks */
} sg_bench;

/* Find and measure the devices of a comma-separated list ("cpu,cuda"), each in the arithmetics of another ("f32,bf16"). What
 * cannot be measured is left out and says why in its target; it is an error if nothing is left. `bench` holds threads and
 * seconds; release with sg_bench_end. */
sg_status sg_bench_begin(sg_bench *bench, const char *devices, const char *dtypes, sg_error *err);
void sg_bench_end(sg_bench *bench);

/* The SEAL-NCE step at B = 32, K = 20: one loss-net and one task-net update, two layers of 400, global width 200, Adam, no
 * dropout, no clipping; a row with sparse and one with dense input, 4 % of it ones. shape: bibtex, delicious, eurlexev or
 * NULL for all. */
sg_status sg_bench_step(sg_bench *bench, const char *shape, sg_error *err);
/* Predictions of B = 4096 rows: dense rows of uniform numbers, and sparse rows with 4 % ones. */
sg_status sg_bench_predict(sg_bench *bench, const char *shape, sg_error *err);

/* Single operators: value, gradient (cotangents of all operands) and second order (the derivative of these along directions of
 * all operands). Operands have the target's dtype. A row that a target cannot give becomes a remark. */
typedef struct sg_bench_ops_options {
    const char *only;   /* a part of the names wanted; NULL: all */
    const char *preset; /* "bert", "fcn", "mlc": the shapes of these nets; NULL: a mixture */
    const char *shape;  /* "4096x768x3072": every operator that takes so many numbers; NULL: those of the preset */
    const char *order;  /* "value,gradient,hvp"; NULL: as listed, value at `shape` */
} sg_bench_ops_options;
/* Each benchmark that can be asked for what there is not has a check, which measures nothing: it fails if no row is wanted. */
sg_status sg_bench_ops_check(const sg_bench_ops_options *options, sg_error *err);
sg_status sg_bench_ops(sg_bench *bench, const sg_bench_ops_options *options, sg_error *err);

/* Gradients and Hessian products (forward over reverse, reverse over reverse) of a 4-layer encoder (width 256, 4 heads, 4 x 128
 * rows, mean square of the output) and of the task loss of bibtex's shape (E + BCE, 32 dense rows). The products alone cost
 * 8 / 3 = 2.67 gradients. `only`: a part of the names encoder, bibtex, or NULL. */
sg_status sg_bench_hvp_check(const char *only, sg_error *err);
sg_status sg_bench_hvp(sg_bench *bench, const char *only, sg_error *err);

/* A classifier with 54 labels on a BERT encoder, without padding: training steps (AdamW; without dropout and with 0.1) of
 * 32 rows of 128, 256 and 512 pieces; gradient and Hessian product (forward over reverse) of 16 x 256. `batch` and `length`
 * replace these where they are not 0. `check` compares gradients and products with the decomposed graph's. */
typedef struct sg_bench_bert_options {
    sg_bert_sizes sizes;
    int64_t batch, length;
    const char *only; /* a part of the names wanted, or NULL */
    bool check;
} sg_bench_bert_options;
sg_bench_bert_options sg_bench_bert_defaults(void); /* BERT-base */
sg_status sg_bench_bert_check(const sg_bench_bert_options *options, sg_error *err);
sg_status sg_bench_bert(sg_bench *bench, const sg_bench_bert_options *options, sg_error *err);
/* What a compared row's difference may be: 1e-4 in f32, 2e-2 else. */
double sg_bench_bert_tolerance(const sg_bench_row *row);

#endif
