/* bench_internal.h - for the files of benchmarks/: what is timed, and on what. */
#ifndef SG_BENCH_INTERNAL_H
#define SG_BENCH_INTERNAL_H

#include "benchmarks/benchmarks.h"

/* A graph with its store, and what fills the inputs of its plans. */
typedef struct sg_bench_case {
    const char *name;
    sg_graph *graph;
    sg_store *store;
    sg_status (*feed)(const struct sg_bench_case *c, sg_plan *plan, sg_error *err);
    const void *data;      /* of `feed` */
    double examples;       /* a run; 0: not about examples */
    bool typed;            /* the graph is written in the target's dtype: no mixed precision is asked for */
    const char *decompose; /* session option */
} sg_bench_case;

/* A row on each target that is there, or on one. */
sg_status sg_bench_time(sg_bench *bench, const sg_bench_case *c, sg_error *err);
sg_status sg_bench_time_on(sg_bench *bench, const sg_bench_case *c, const sg_bench_target *t, sg_error *err);
/* The plan as a row has it, for other uses: `use` is called once. */
typedef sg_status (*sg_bench_use)(sg_bench *bench, const sg_bench_case *c, const sg_bench_target *t,
                                  sg_session *session, sg_plan *plan, sg_error *err);
sg_status sg_bench_with_plan(sg_bench *bench, const sg_bench_case *c, const sg_bench_target *t, bool profiled,
                             sg_bench_use use, sg_error *err);
sg_status sg_bench_add_remark(sg_bench *bench, const char *name, const sg_bench_target *t, const char *text,
                              sg_error *err);
/* SG_E_INTERRUPTED if the user wants no more rows. */
sg_status sg_bench_go_on(const sg_bench *bench, sg_error *err);

/* As `feed`: every real input is standard normal (no subnormals, no infinities on the way). */
sg_status sg_bench_fill(const sg_bench_case *c, sg_plan *plan, sg_error *err);
/* Set the ratios of the rows from `first` on to the first of them with their target. */
void sg_bench_compare(sg_bench *bench, int32_t first);

#endif
