/* verb_bench.c - times of the training step, of prediction and of single operators. */
#include "cli/bench_internal.h"

#include <string.h>

static json_t *row_document(const sg_bench_row *r)
{
    json_t *row = json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:I, s:f, s:f, s:o}", "name", r->name, "device",
                            r->target->device, "dtype", r->target->dtype, "median_us", r->median_us, "min_us",
                            r->min_us, "max_us", r->max_us, "runs", (json_int_t)r->runs, "flops", r->flops, "bytes",
                            r->bytes, "peak_fraction", sg_json_number(r->peak_fraction));
    if (row && r->examples_per_s > 0)
        json_object_set_new(row, "examples_per_s", json_real(r->examples_per_s));
    if (row && r->time_ratio > 0) {
        json_object_set_new(row, "temporary_bytes", json_real(r->temporary_bytes));
        json_object_set_new(row, "time_ratio", json_real(r->time_ratio));
        json_object_set_new(row, "bytes_ratio", json_real(r->bytes_ratio));
    }
    if (row && r->compared) {
        json_object_set_new(row, "difference", sg_json_number(r->difference));
        json_object_set_new(row, "rounding", sg_json_number(r->rounding));
    }
    return row;
}

static json_t *target_document(const sg_bench_target *t)
{
    if (t->missing[0])
        return json_pack("{s:s, s:s, s:s}", "device", t->device, "dtype", t->dtype, "missing", t->missing);
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f}", "device", t->device, "dtype", t->dtype, "text", t->text,
                     "peak_flops", t->flops, "peak_bytes_per_s", t->bytes, "upload_bytes_per_s", t->upload,
                     "download_bytes_per_s", t->download);
}

/* The first device measured is the machine. */
static json_t *machine_document(const sg_bench *b)
{
    const sg_bench_target *t = b->target;
    while (t->missing[0])
        t++;
    return json_pack("{s:I, s:s, s:f, s:f}", "threads", (json_int_t)b->threads, "isa", sg_cpu_isa(), "peak_flops",
                     t->flops, "peak_bytes_per_s", t->bytes);
}

static int print_json(const sg_bench *b, int code)
{
    json_t *rows = json_array(), *targets = json_array();
    for (int32_t i = 0; i < b->count; i++)
        json_array_append_new(rows, row_document(&b->rows[i]));
    for (int32_t i = 0; i < b->n_targets; i++)
        json_array_append_new(targets, target_document(&b->target[i]));
    return sg_cli_json(json_pack("{s:o, s:o, s:o}", "machine", machine_document(b), "targets", targets, "rows", rows),
                       code);
}

void sgi_bench_targets_print(const sg_bench *b)
{
    for (int32_t i = 0; i < b->n_targets; i++) {
        const sg_bench_target *t = &b->target[i];
        if (t->missing[0])
            printf("%s in %s: not measured: %s\n", t->device, t->dtype, t->missing);
        else if (t->upload > 0)
            printf("%s in %s: %.1f TFLOP/s, %.0f GB/s measured, %.0f and %.0f GB/s from and to the host (%s)\n",
                   t->device, t->dtype, t->flops / 1e12, t->bytes / 1e9, t->upload / 1e9, t->download / 1e9, t->text);
        else
            printf("%s in %s, %d threads, %s: %.0f GFLOP/s, %.1f GB/s measured\n", t->device, t->dtype, (int)b->threads,
                   sg_cpu_isa(), t->flops / 1e9, t->bytes / 1e9);
    }
}

/* Rows beside their gradient. */
static void print_products(const sg_cli *cli, const sg_bench *b)
{
    sg_table *t = sg_table_new(
        "name|device|dtype|>median us|>min|>MFLOP|>GFLOP/s|>of peak|>time / gradient|>planned MB|>MB / gradient");
    if (!t)
        return;
    sgi_bench_targets_print(b);
    for (int32_t i = 0; i < b->count; i++) {
        const sg_bench_row *r = &b->rows[i];
        sg_table_cell(t, "%s", r->name);
        sg_table_cell(t, "%s", r->target->device);
        sg_table_cell(t, "%s", r->target->dtype);
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
    sg_table *t = sg_table_new("name|device|dtype|>median us|>min|>max|>MFLOP|>MB|>GFLOP/s|>GB/s|>of peak|>examples/s");
    if (!t)
        return;
    sgi_bench_targets_print(b);
    for (int32_t i = 0; i < b->count; i++) {
        const sg_bench_row *r = &b->rows[i];
        sg_table_cell(t, "%s", r->name);
        sg_table_cell(t, "%s", r->target->device);
        sg_table_cell(t, "%s", r->target->dtype);
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
    const char *devices = sg_cli_value(cli, "device"), *dtypes = sg_cli_value(cli, "dtype");
    SG_TRY(sg_bench_begin(b, devices ? devices : "cpu", dtypes ? dtypes : "f32", err));
    if (strcmp(what, "step") == 0)
        return sg_bench_step(b, shape, err);
    if (strcmp(what, "predict") == 0)
        return sg_bench_predict(b, shape, err);
    if (strcmp(what, "ops") == 0)
        return sg_bench_ops(b, shape ? shape : sg_cli_value(cli, "only"), err);
    if (strcmp(what, "hvp") == 0)
        return sg_bench_hvp(b, shape ? shape : sg_cli_value(cli, "only"), err);
    if (strcmp(what, "bert") == 0)
        return sgi_bench_bert(cli, b, err);
    return sg_fail(err, SG_E_CONFIG, "bench what? step, predict, ops, hvp or bert, not '%s'", what);
}

static int print(const sg_cli *cli, const sg_bench *b)
{
    int code = sgi_bench_bert_holds(cli, b) ? SG_EXIT_OK : SG_EXIT_RUNTIME;
    if (cli->json)
        return print_json(b, code);
    if (strcmp(cli->arguments[0], "bert") == 0)
        sgi_bench_bert_print(cli, b);
    else if (b->count && b->rows[0].time_ratio > 0)
        print_products(cli, b);
    else
        print_table(cli, b);
    return code;
}

static int run(sg_cli *cli)
{
    sg_error err;
    int64_t milliseconds, threads;
    if (sg_cli_int(cli, "time", 1, 600000, 500, &milliseconds, &err) != SG_OK ||
        sg_cli_int(cli, "threads", 0, 1024, 0, &threads, &err) != SG_OK)
        return sg_cli_usage_error(cli, &err);
    sg_bench b = {.threads = threads ? (int32_t)threads : sg_machine_threads(),
                  .seconds = (double)milliseconds / 1000,
                  .stop = sg_stop_requested,
                  .profile = sg_cli_has(cli, "profile") ? stderr : NULL};
    sg_status status = measure(cli, &b, &err);
    int code = status == SG_OK ? print(cli, &b) : sg_cli_fail(cli, &err);
    sg_bench_end(&b);
    return code;
}

static const sg_flag flags[] = {
    {"device", 0, "LIST", NULL, "devices, each a row: cpu,cuda,cuda:1 (cpu)"},
    {"dtype", 0, "LIST", NULL, "arithmetics, each a row: f32,tf32,bf16 (f32)"},
    {"threads", 0, "N", NULL, "threads on the cpu; 0 takes every core the process may use (0)"},
    {"shape", 0, "NAME", "bibtex|delicious|eurlexev", "one shape only (step, predict)"},
    {"only", 0, "TEXT", NULL, "rows whose name holds this text (ops, hvp, bert)"},
    {"layers", 0, "N", NULL, "layers of the encoder (bert; 12)"},
    {"hidden", 0, "N", NULL, "its width, with four times as much within a layer (bert; 768)"},
    {"heads", 0, "N", NULL, "heads of its attention (bert; 12)"},
    {"vocab", 0, "N", NULL, "word pieces (bert; 30522)"},
    {"batch", 0, "N", NULL, "rows at once (bert; 32, gradients 16)"},
    {"seq", 0, "N", NULL, "word pieces a row (bert; 128, 256 and 512, gradients 256)"},
    {"check", 0, NULL, NULL, "compare gradients and products with the decomposed graph; exit 1 if they differ (bert)"},
    {"profile", 0, NULL, NULL, "where the time of each row goes, by kernel, on standard error"},
    {"time", 0, "MS", NULL, "milliseconds for each row (500)"},
    {0}};

const sg_verb sg_verb_bench = {
    .name = "bench",
    .arguments = "step|predict|ops|hvp|bert",
    .summary = "time the training step, prediction, single operators, Hessian products or BERT",
    .description =
        "step: one SEAL-NCE training step (32 rows, 20 candidates, two layers of 400, Adam) on synthetic rows of the "
        "shapes\n"
        "of three data sets, with sparse and with dense input. predict: 4096 rows at once. ops: single operators.\n"
        "hvp: gradient and exact Hessian product of a transformer encoder and of a task loss, with planned memory.\n"
        "bert: training steps (AdamW), gradient and exact Hessian product of a classifier on BERT-base.\n"
        "Each row tells time (median, least, most), work, and the fraction of the machine's measured peak it reaches.\n"
        "No files are needed.",
    .min_arguments = 1,
    .max_arguments = 1,
    .flags = flags,
    .run = run,
};
