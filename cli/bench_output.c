/* bench_output.c - results of `sealgraph bench` as text, Markdown, CSV and JSON. */
#include "cli/bench_internal.h"

#include <string.h>

/* ---- JSON */

static void add_real(json_t *object, const char *key, double value)
{
    if (object && value > 0)
        json_object_set_new(object, key, json_real(value));
}

static json_t *row_document(const sg_bench_row *r)
{
    json_t *row = json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:I, s:f, s:f, s:o}", "name", r->name, "device",
                            r->target->device, "dtype", r->target->dtype, "median_us", r->median_us, "min_us",
                            r->min_us, "max_us", r->max_us, "runs", (json_int_t)r->runs, "flops", r->flops, "bytes",
                            r->bytes, "peak_fraction", sg_json_number(r->peak_fraction));
    if (r->target->upload > 0)
        json_object_set_new(row, "transfer_us", json_real(r->transfer_us));
    add_real(row, "examples_per_s", r->examples_per_s);
    if (r->time_ratio > 0 || r->examples_per_s > 0)
        json_object_set_new(row, "temporary_bytes", json_real(r->temporary_bytes));
    add_real(row, "time_ratio", r->time_ratio);
    add_real(row, "bytes_ratio", r->bytes_ratio);
    if (row && r->compared) {
        json_object_set_new(row, "difference", sg_json_number(r->difference));
        json_object_set_new(row, "rounding", sg_json_number(r->rounding));
    }
    return row;
}

static json_t *target_document(const sg_bench_target *t)
{
    if (t->missing[0])
        return json_pack("{s:o, s:s, s:o}", "device", sg_json_text(t->device), "dtype", t->dtype, "missing",
                         sg_json_text(t->missing));
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f}", "device", t->device, "dtype", t->dtype, "text", t->text,
                     "peak_flops", t->flops, "peak_bytes_per_s", t->bytes, "upload_bytes_per_s", t->upload,
                     "download_bytes_per_s", t->download);
}

/* The first target measured stands for the machine. */
static json_t *machine_document(const sg_bench *b)
{
    const sg_bench_target *t = b->target;
    while (t->missing[0])
        t++;
    return json_pack("{s:I, s:s, s:f, s:f}", "threads", (json_int_t)b->threads, "isa", sg_cpu_isa(), "peak_flops",
                     t->flops, "peak_bytes_per_s", t->bytes);
}

int sgi_bench_print_json(const sg_bench *b, int code)
{
    json_t *rows = json_array(), *targets = json_array(), *remarks = json_array();
    for (int32_t i = 0; i < b->count; i++)
        json_array_append_new(rows, row_document(&b->rows[i]));
    for (int32_t i = 0; i < b->n_targets; i++)
        json_array_append_new(targets, target_document(&b->target[i]));
    for (int32_t i = 0; i < b->n_remarks; i++) {
        const sg_bench_remark *r = &b->remarks[i];
        json_array_append_new(remarks, json_pack("{s:s, s:s, s:s, s:s}", "name", r->name, "device", r->target->device,
                                                 "dtype", r->target->dtype, "text", r->text));
    }
    return sg_cli_json(json_pack("{s:o, s:o, s:o, s:o}", "machine", machine_document(b), "targets", targets, "rows",
                                 rows, "remarks", remarks),
                       code);
}

/* ---- CSV: one line a row and target, every field */

void sgi_bench_print_csv(const sg_bench *b)
{
    printf(
        "name,device,dtype,median_us,min_us,max_us,runs,flops,bytes,flops_per_s,bytes_per_s,peak_fraction,transfer_us,"
        "examples_per_s,temporary_bytes,time_ratio,bytes_ratio\n");
    for (int32_t i = 0; i < b->count; i++) {
        const sg_bench_row *r = &b->rows[i];
        double seconds = 1e-6 * r->median_us;
        printf("\"%s\",%s,%s,%.3f,%.3f,%.3f,%lld,%.0f,%.0f,%.4g,%.4g,%.4f,%.3f,%.2f,%.0f,%.4f,%.4f\n", r->name,
               r->target->device, r->target->dtype, r->median_us, r->min_us, r->max_us, (long long)r->runs, r->flops,
               r->bytes, r->flops / seconds, r->bytes / seconds, r->peak_fraction, r->transfer_us, r->examples_per_s,
               r->temporary_bytes, r->time_ratio, r->bytes_ratio);
    }
}

/* ---- what stands above and below the tables */

void sgi_bench_targets_print(const sg_bench *b, const char *lead)
{
    for (int32_t i = 0; i < b->n_targets; i++) {
        const sg_bench_target *t = &b->target[i];
        if (t->missing[0])
            continue;
        if (t->upload > 0)
            printf("%s%s in %s: %.1f TFLOP/s, %.0f GB/s measured, %.0f GB/s from and %.0f to the host (%s)\n", lead,
                   t->device, t->dtype, t->flops / 1e12, t->bytes / 1e9, t->upload / 1e9, t->download / 1e9, t->text);
        else
            printf("%s%s in %s, %d threads, %s: %.0f GFLOP/s, %.1f GB/s measured\n", lead, t->device, t->dtype,
                   (int)b->threads, sg_cpu_isa(), t->flops / 1e9, t->bytes / 1e9);
    }
}

/* Is an earlier target missing on the same device for the same reason? */
static bool told(const sg_bench *b, int32_t i)
{
    for (int32_t k = 0; k < i; k++)
        if (strcmp(b->target[k].device, b->target[i].device) == 0 &&
            strcmp(b->target[k].missing, b->target[i].missing) == 0)
            return true;
    return false;
}

void sgi_bench_missing_print(const sg_bench *b, FILE *out, const char *lead)
{
    for (int32_t i = 0; i < b->n_targets; i++) {
        const sg_bench_target *t = &b->target[i];
        if (!t->missing[0] || told(b, i))
            continue;
        fprintf(out, "%s%s in %s", lead, t->device, t->dtype);
        for (int32_t k = i + 1; k < b->n_targets; k++)
            if (strcmp(b->target[k].device, t->device) == 0 && strcmp(b->target[k].missing, t->missing) == 0)
                fprintf(out, ", %s", b->target[k].dtype);
        fprintf(out, ": not measured: %s\n", t->missing);
    }
    for (int32_t i = 0; i < b->n_remarks; i++) {
        const sg_bench_remark *r = &b->remarks[i];
        fprintf(out, "%s%s on %s in %s: %s\n", lead, r->name, r->target->device, r->target->dtype, r->text);
    }
}

/* ---- a line for each row */

typedef struct shown {
    bool examples, ratios;
} shown;

/* A number, or nothing where it is not known. */
static void number_cell(sg_table *table, bool known, int digits, double value, const char *unit)
{
    char text[48] = "";
    if (known)
        snprintf(text, sizeof text, "%.*f%s", digits, value, unit);
    sg_table_cell(table, "%s", text);
}

static sg_table *row_table(const sg_bench *b, const shown *s)
{
    char titles[512] = "name|device|dtype|>median us|>min|>max|>MFLOP|>MB|>GFLOP/s|>GB/s|>of peak";
    snprintf(titles + strlen(titles), sizeof titles - strlen(titles), "%s%s", s->examples ? "|>examples/s" : "",
             s->ratios ? "|>time / gradient|>planned MB|>MB / gradient" : "");
    sg_table *t = sg_table_new(titles);
    for (int32_t i = 0; t && i < b->count; i++) {
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
        if (s->examples)
            number_cell(t, r->examples_per_s > 0, 0, r->examples_per_s, "");
        if (s->ratios) {
            number_cell(t, r->time_ratio > 0, 2, r->time_ratio, "");
            sg_table_cell(t, "%.2f", r->temporary_bytes / 1e6);
            number_cell(t, r->bytes_ratio > 0, 2, r->bytes_ratio, "");
        }
    }
    return t;
}

/* ---- a line for each operator, columns for each target */

static const sg_bench_row *find_row(const sg_bench *b, const char *name, const sg_bench_target *t)
{
    for (int32_t i = 0; i < b->count; i++)
        if (b->rows[i].target == t && strcmp(b->rows[i].name, name) == 0)
            return &b->rows[i];
    return NULL;
}

/* The target that others are compared with: the host in f32. */
static const sg_bench_target *host(const sg_bench *b)
{
    for (int32_t k = 0; k < b->n_targets; k++)
        if (!b->target[k].missing[0] && b->target[k].upload == 0)
            return &b->target[k];
    return NULL;
}

static void add_title(char *titles, size_t size, const char *fmt, const char *device, const char *dtype)
{
    size_t n = strlen(titles);
    snprintf(titles + n, size - n, fmt, device, dtype);
}

static sg_table *operator_table_of(const sg_bench *b)
{
    char titles[1024] = "operator|>MFLOP|>MB";
    for (int32_t k = 0; k < b->n_targets; k++) {
        const sg_bench_target *t = &b->target[k];
        add_title(titles, sizeof titles, "|>%s %s us", t->device, t->dtype);
        if (t->missing[0])
            continue;
        add_title(titles, sizeof titles, "|>of peak", "", "");
        if (t->upload > 0)
            add_title(titles, sizeof titles, "|>transfer us", "", "");
        if (host(b) && t != host(b))
            add_title(titles, sizeof titles, "|>faster", "", "");
    }
    return sg_table_new(titles);
}

static void target_cells(sg_table *table, const sg_bench *b, const char *name, const sg_bench_target *t)
{
    const sg_bench_row *r = find_row(b, name, t), *at_host = host(b) ? find_row(b, name, host(b)) : NULL;
    number_cell(table, r, 1, r ? r->median_us : 0, "");
    if (t->missing[0])
        return;
    number_cell(table, r, 0, r ? 100 * r->peak_fraction : 0, " %");
    if (t->upload > 0)
        number_cell(table, r, 1, r ? r->transfer_us : 0, "");
    if (host(b) && t != host(b))
        number_cell(table, r && at_host, 1, r && at_host ? at_host->median_us / r->median_us : 0, "x");
}

static sg_table *operator_table(const sg_bench *b)
{
    sg_table *table = operator_table_of(b);
    for (int32_t i = 0; table && i < b->count; i++) {
        const sg_bench_row *r = &b->rows[i];
        bool first = true;
        for (int32_t k = 0; k < i; k++)
            first = first && strcmp(b->rows[k].name, r->name) != 0;
        if (!first)
            continue;
        sg_table_cell(table, "%s", r->name);
        sg_table_cell(table, "%.2f", r->flops / 1e6);
        sg_table_cell(table, "%.2f", r->bytes / 1e6);
        for (int32_t k = 0; k < b->n_targets; k++)
            target_cells(table, b, r->name, &b->target[k]);
    }
    return table;
}

/* ---- the whole */

void sgi_bench_table_print(const sg_cli *cli, sg_table *t, bool markdown)
{
    if (markdown) {
        printf("\n");
        sg_table_print_markdown(t, stdout);
        printf("\n");
    } else {
        sg_table_print(t, stdout, cli->color_out);
    }
    sg_table_free(t);
}

void sgi_bench_print_tables(const sg_cli *cli, const sg_bench *b, bool operators, bool markdown)
{
    shown s = {false, false};
    const char *lead = markdown ? "* " : "";
    for (int32_t i = 0; i < b->count; i++) {
        s.examples = s.examples || b->rows[i].examples_per_s > 0;
        s.ratios = s.ratios || b->rows[i].time_ratio > 0;
    }
    sgi_bench_targets_print(b, lead);
    sg_table *t = operators ? operator_table(b) : row_table(b, &s);
    sgi_bench_table_print(cli, t, markdown);
    if (s.ratios)
        printf("%sThe products of an exact Hessian product alone cost 8 / 3 = 2.67 gradients.\n", lead);
    if (operators)
        printf("%sMFLOP and MB are those of the first target measured; transfers are not part of the times.\n", lead);
    sgi_bench_missing_print(b, stdout, lead);
}
