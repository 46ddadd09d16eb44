/* verb_bench.c - times of the training step, of prediction and of single operators. */
#include "cli/cli.h"

#include <string.h>

#include "benchmarks/benchmarks.h"

static json_t *row_document(const sg_bench_row *r)
{
    json_t *row = json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:I, s:f, s:f, s:o}", "name", r->name, "device", r->device,
                            "dtype", r->dtype, "median_us", r->median_us, "min_us", r->min_us, "max_us", r->max_us,
                            "runs", (json_int_t)r->runs, "flops", r->flops, "bytes", r->bytes, "peak_fraction",
                            sg_json_number(r->peak_fraction));
    if (row && r->examples_per_s > 0)
        json_object_set_new(row, "examples_per_s", json_real(r->examples_per_s));
    if (row && r->time_ratio > 0) {
        json_object_set_new(row, "temporary_bytes", json_real(r->temporary_bytes));
        json_object_set_new(row, "time_ratio", json_real(r->time_ratio));
        json_object_set_new(row, "bytes_ratio", json_real(r->bytes_ratio));
    }
    return row;
}

static int print_json(const sg_bench *b)
{
    json_t *rows = json_array();
    for (int32_t i = 0; i < b->count; i++)
        json_array_append_new(rows, row_document(&b->rows[i]));
    json_t *machine = json_pack("{s:I, s:s, s:f, s:f}", "threads", (json_int_t)b->threads, "isa", sg_cpu_isa(),
                                "peak_flops", b->peak.flops, "peak_bytes_per_s", b->peak.bytes);
    return sg_cli_json(json_pack("{s:o, s:o}", "machine", machine, "rows", rows), SG_EXIT_OK);
}

static void print_machine(const sg_bench *b)
{
    printf("cpu, %d threads, %s: %.0f GFLOP/s, %.1f GB/s measured\n", (int)b->threads, sg_cpu_isa(),
           b->peak.flops / 1e9, b->peak.bytes / 1e9);
}

/* Rows beside their gradient. */
static void print_products(const sg_cli *cli, const sg_bench *b)
{
    sg_table *t =
        sg_table_new("name|>median us|>min|>MFLOP|>GFLOP/s|>of peak|>time / gradient|>planned MB|>MB / gradient");
    if (!t)
        return;
    print_machine(b);
    for (int32_t i = 0; i < b->count; i++) {
        const sg_bench_row *r = &b->rows[i];
        sg_table_cell(t, "%s", r->name);
        sg_table_cell(t, "%.1f", r->median_us);
        sg_table_cell(t, "%.1f", r->min_us);
        sg_table_cell(t, "%.1f", r->flops / 1e6);
        sg_table_cell(t, "%.1f", r->flops / r->median_us / 1e3);
        sg_table_cell(t, "%.0f %%", 100 * r->peak_fraction);
        sg_table_cell(t, "%.2f", r->time_ratio);
        sg_table_cell(t, "%.2f", r->temporary_bytes / 1e6);
        sg_table_cell(t, "%.2f", r->bytes_ratio);
    }
    sg_table_print(t, stdout, cli->color_out);
    sg_table_free(t);
    printf("The products of an exact Hessian product alone cost 8 / 3 = 2.67 gradients.\n");
}

static void print_table(const sg_cli *cli, const sg_bench *b)
{
    sg_table *t = sg_table_new("name|>median us|>min|>max|>MFLOP|>MB|>GFLOP/s|>GB/s|>of peak|>examples/s");
    if (!t)
        return;
    print_machine(b);
    for (int32_t i = 0; i < b->count; i++) {
        const sg_bench_row *r = &b->rows[i];
        sg_table_cell(t, "%s", r->name);
        sg_table_cell(t, "%.1f", r->median_us);
        sg_table_cell(t, "%.1f", r->min_us);
        sg_table_cell(t, "%.1f", r->max_us);
        sg_table_cell(t, "%.2f", r->flops / 1e6);
        sg_table_cell(t, "%.2f", r->bytes / 1e6);
        sg_table_cell(t, "%.1f", r->flops / r->median_us / 1e3);
        sg_table_cell(t, "%.1f", r->bytes / r->median_us / 1e3);
        sg_table_cell(t, "%.0f %%", 100 * r->peak_fraction);
        if (r->examples_per_s > 0)
            sg_table_cell(t, "%.0f", r->examples_per_s);
        else
            sg_table_cell(t, " ");
    }
    sg_table_print(t, stdout, cli->color_out);
    sg_table_free(t);
}

static sg_status measure(sg_cli *cli, sg_bench *b, sg_error *err)
{
    const char *what = cli->arguments[0], *shape = sg_cli_value(cli, "shape");
    SG_TRY(sg_bench_begin(b, err));
    if (strcmp(what, "step") == 0)
        return sg_bench_step(b, shape, err);
    if (strcmp(what, "predict") == 0)
        return sg_bench_predict(b, shape, err);
    if (strcmp(what, "ops") == 0)
        return sg_bench_ops(b, shape ? shape : sg_cli_value(cli, "only"), err);
    if (strcmp(what, "hvp") == 0)
        return sg_bench_hvp(b, shape ? shape : sg_cli_value(cli, "only"), err);
    return sg_fail(err, SG_E_CONFIG, "bench what? step, predict, ops or hvp, not '%s'", what);
}

static int run(sg_cli *cli)
{
    sg_error err;
    sg_config *config;
    if (sg_cli_config(cli, &config, &err) != SG_OK)
        return sg_cli_fail(cli, &err);
    int64_t milliseconds;
    int32_t threads = (int32_t)sg_config_values(config)->threads;
    sg_config_free(config);
    if (sg_cli_int(cli, "time", 1, 600000, 500, &milliseconds, &err) != SG_OK)
        return sg_cli_usage_error(cli, &err);
    sg_bench b = {.threads = threads ? threads : sg_machine_threads(),
                  .seconds = (double)milliseconds / 1000,
                  .stop = sg_stop_requested,
                  .profile = sg_cli_has(cli, "profile") ? stderr : NULL};
    sg_status status = measure(cli, &b, &err);
    int code = SG_EXIT_OK;
    if (status != SG_OK)
        code = sg_cli_fail(cli, &err);
    else if (cli->json)
        code = print_json(&b);
    else if (b.count && b.rows[0].time_ratio > 0)
        print_products(cli, &b);
    else
        print_table(cli, &b);
    sg_bench_end(&b);
    return code;
}

static const sg_flag flags[] = {
    {"shape", 0, "NAME", "bibtex|delicious|eurlexev", "one shape only (step, predict)"},
    {"only", 0, "TEXT", NULL, "rows whose name holds this text (ops, hvp)"},
    {"profile", 0, NULL, NULL, "where the time of each row goes, by kernel, on standard error"},
    {"time", 0, "MS", NULL, "milliseconds for each row (500)"},
    {0}};

const sg_verb sg_verb_bench = {
    .name = "bench",
    .arguments = "step|predict|ops|hvp",
    .summary = "time the training step, prediction, single operators or Hessian products",
    .description =
        "step: one SEAL-NCE training step (32 rows, 20 candidates, two layers of 400, Adam) on synthetic rows of the "
        "shapes\n"
        "of three data sets, with sparse and with dense input. predict: 4096 rows at once. ops: single operators.\n"
        "hvp: gradient and exact Hessian product of a transformer encoder and of a task loss, with planned memory.\n"
        "Each row tells time (median, least, most), work, and the fraction of the machine's measured peak it reaches.\n"
        "No files are needed.",
    .takes = SG_TAKES_CONFIG,
    .min_arguments = 1,
    .max_arguments = 1,
    .flags = flags,
    .run = run,
};
