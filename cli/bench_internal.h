/* bench_internal.h - what `bench` is made of. */
#ifndef SG_CLI_BENCH_INTERNAL_H
#define SG_CLI_BENCH_INTERNAL_H

#include "benchmarks/benchmarks.h"
#include "cli/cli.h"

/* ---- rows as text, Markdown, CSV and JSON (bench_output.c) */
int sgi_bench_print_json(const sg_bench *b, int code);
void sgi_bench_print_csv(const sg_bench *b);
/* Limits, table, and what is missing and why; `operators`: a line an operator, with columns for each target. */
void sgi_bench_print_tables(const sg_cli *cli, const sg_bench *b, bool operators, bool markdown);
/* Its parts: the devices and their limits; a table, which is released; targets and rows that are missing, and why. */
void sgi_bench_targets_print(const sg_bench *b, const char *lead);
void sgi_bench_table_print(const sg_cli *cli, sg_table *table, bool markdown);
void sgi_bench_missing_print(const sg_bench *b, FILE *out, const char *lead);

/* ---- a roofline plot as SVG, or PNG if the path ends in .png: each target's roof on logarithmic axes, each row at its flops a byte
 * and flops a second (bench_plot.c) */
sg_status sgi_bench_plot(const sg_bench *b, const char *path, sg_error *err);
bool sgi_bench_plot_ends_in(const char *path, const char *end);
/* Whether PNG can be made here; an SVG, from its beginning, as PNG (bench_png.c). */
sg_status sgi_bench_png_ready(sg_error *err);
sg_status sgi_bench_png(FILE *svg, const char *path, sg_error *err);

/* ---- bench bert (bench_bert.c) */
/* What its flags ask for, checked. */
sg_status sgi_bench_bert_options(const sg_cli *cli, sg_bench_bert_options *options, sg_error *err);
void sgi_bench_bert_print(const sg_cli *cli, const sg_bench *b, bool markdown);
/* Whether all rows that were compared agree with the decomposed graph; warns of those that do not. */
bool sgi_bench_bert_holds(const sg_cli *cli, const sg_bench *b);

#endif
