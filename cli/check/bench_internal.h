/* bench_internal.h - a sample in a graph of its own, and how its expressions are computed. */
#ifndef SG_CLI_CHECK_BENCH_INTERNAL_H
#define SG_CLI_CHECK_BENCH_INTERNAL_H

#include "cli/check/op_check.h"

enum { SG_BENCH_RESULTS = 64 };

typedef struct sg_bench {
    const sg_sample *sample;
    sg_finding *finding;
    sg_graph *graph;
    sg_store *store;
    sg_scope scope;
    sg_value in[SG_SAMPLE_INPUTS], out[SG_SAMPLE_OUTPUTS];
    double *feed[SG_SAMPLE_INPUTS];
    sg_value wrt[SG_SAMPLE_INPUTS]; /* inputs that take part in derivatives, and their elements */
    double *at[SG_SAMPLE_INPUTS];
    int32_t n_wrt;
} sg_bench;

/* False, with the reason in the finding, if the sample cannot be built. sg_bench_close in any case. */
bool sg_bench_open(sg_bench *b, const sg_sample *sample, sg_dtype real, sg_finding *finding);
/* The same with the operator in bf16: its f32 inputs are rounded, cast before it, and its results cast back after it. */
bool sg_bench_open_low(sg_bench *b, const sg_sample *sample, sg_dtype real, sg_finding *finding);
void sg_bench_close(sg_bench *b);
/* False if the graph holds an error, which becomes the finding. */
bool sg_bench_sound(sg_bench *b);

/* A constant like v with elements in [-1, 1). */
sg_value sg_bench_direction(sg_value v, uint64_t stream);
/* L of op_check.h, and sum_i <a_i, c_i>. */
sg_value sg_bench_loss(const sg_bench *b);
sg_value sg_bench_inner(const sg_value *a, const sg_value *c, int32_t n);

/* Declare values and derivatives of all orders as results (op_checks.c). */
void sg_bench_declare_orders(sg_bench *b);

/* Evaluate on the reference rules, without compiling; out[k] has room for y[k]. */
bool sg_bench_evaluate(sg_bench *b, const sg_value *y, double *const *out, int32_t n);

/* ---- a compiled run */
typedef struct sg_bench_results {
    double *data[SG_BENCH_RESULTS];
    int64_t n[SG_BENCH_RESULTS];
    sg_shape shape[SG_BENCH_RESULTS];
    char name[SG_BENCH_RESULTS][32];
    int32_t count;
} sg_bench_results;
typedef struct sg_bench_way {
    const char *backend, *decompose; /* decompose NULL: fused kernels where there are */
    int32_t threads;
    int32_t runs;  /* the results are those of the last */
    bool recorded; /* a device that records runs replays the third; else each goes launch by launch */
    bool low;      /* the operator in bf16 */
} sg_bench_way;
/* Build the sample, declare results by `what`, compile and run. False with a finding; release the results in any case. */
bool sg_bench_run(const sg_sample *sample, void (*what)(sg_bench *), sg_bench_way way, sg_bench_results *out,
                  sg_finding *finding);
void sg_bench_release(sg_bench_results *results);

/* ---- findings */
void sg_finding_broken(sg_finding *finding, const char *fmt, ...) SG_PRINTF(2, 3);
/* |got - want| <= limit * scale for all elements, with scale = max(1, largest |want|); NaN equals NaN. */
void sg_finding_compare(sg_finding *finding, const double *got, const double *want, const sg_shape *shape, double limit,
                        const char *what);

#endif
