/* bench_internal.h - what `bench` is made of. */
#ifndef SG_CLI_BENCH_INTERNAL_H
#define SG_CLI_BENCH_INTERNAL_H

#include "benchmarks/benchmarks.h"
#include "cli/cli.h"

/* The devices and their limits (verb_bench.c). */
void sgi_bench_targets_print(const sg_bench *b);

/* ---- bench bert (bench_bert.c) */
sg_status sgi_bench_bert(const sg_cli *cli, sg_bench *b, sg_error *err);
void sgi_bench_bert_print(const sg_cli *cli, const sg_bench *b);
/* Whether all rows that were compared agree with the decomposed graph; warns of those that do not. */
bool sgi_bench_bert_holds(const sg_cli *cli, const sg_bench *b);

#endif
