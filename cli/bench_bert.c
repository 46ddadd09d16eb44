/* bench_bert.c - `bench bert`: its flags, its table and its verdict. */
#include "cli/bench_internal.h"

sg_status sgi_bench_bert_options(const sg_cli *cli, sg_bench_bert_options *o, sg_error *err)
{
    *o = sg_bench_bert_defaults();
    sg_bert_sizes *n = &o->sizes;
    int64_t layers;
    SG_TRY(sg_cli_int(cli, "layers", 1, 60, n->layers, &layers, err));
    n->layers = (int32_t)layers;
    SG_TRY(sg_cli_int(cli, "hidden", 1, 1 << 14, n->hidden, &n->hidden, err));
    SG_TRY(sg_cli_int(cli, "heads", 1, n->hidden, n->heads, &n->heads, err));
    SG_TRY(sg_cli_int(cli, "vocab", 1, 1 << 20, n->vocabulary, &n->vocabulary, err));
    SG_TRY(sg_cli_int(cli, "batch", 1, 1 << 14, 0, &o->batch, err));
    SG_TRY(sg_cli_int(cli, "seq", 1, 1 << 14, 0, &o->length, err));
    n->intermediate = 4 * n->hidden;
    n->positions = o->length > n->positions ? o->length : n->positions;
    o->only = sg_cli_value(cli, "only");
    o->check = sg_cli_has(cli, "check");
    return sg_bench_bert_check(o, err);
}

static void ratio_cell(sg_table *t, double ratio, const char *fmt_unit)
{
    if (ratio > 0)
        sg_table_cell(t, "%.2f%s", ratio, fmt_unit);
    else
        sg_table_cell(t, " ");
}

static void add_row(sg_table *t, const sg_bench_row *r)
{
    double rate = r->flops / r->median_us * 1e6;
    sg_table_cell(t, "%s", r->name);
    sg_table_cell(t, "%s", r->target->device);
    sg_table_cell(t, "%s", r->target->dtype);
    sg_table_cell(t, "%.3f", r->median_us / 1e3);
    sg_table_cell(t, "%.3f", r->min_us / 1e3);
    sg_table_cell(t, "%.1f", r->examples_per_s);
    sg_table_cell(t, "%.1f", r->flops / 1e9);
    sg_table_cell(t, "%.2f", rate / 1e12);
    sg_table_cell(t, "%.1f %%", 100 * rate / r->target->flops);
    if (r->target->stated > 0)
        sg_table_cell(t, "%.1f %%", 100 * rate / r->target->stated);
    else
        sg_table_cell(t, " ");
    sg_table_cell(t, "%.3f", r->temporary_bytes / (1 << 30));
    ratio_cell(t, r->time_ratio, "");
    if (r->compared)
        sg_table_cell(t, "%.1e (f32: %.1e)", r->difference, r->rounding);
    else
        sg_table_cell(t, " ");
}

void sgi_bench_bert_print(const sg_cli *cli, const sg_bench *b, bool markdown)
{
    sg_table *t = sg_table_new("name|device|dtype|>median ms|>min|>examples/s|>GFLOP|>TFLOP/s|>MFU|>of stated|>planned "
                               "GiB|>time / gradient|>from decomposed");
    if (!t)
        return;
    sgi_bench_targets_print(b, markdown ? "* " : "");
    for (int32_t i = 0; i < b->count; i++)
        add_row(t, &b->rows[i]);
    sgi_bench_table_print(cli, t, markdown);
    printf("MFU: of the rate of 8192 x 8192 products measured above (on the cpu: of multiply-adds)");
    for (int32_t i = 0; i < b->n_targets; i++)
        if (b->target[i].stated > 0)
            printf("; stated for %s in %s: %.0f TFLOP/s", b->target[i].card, b->target[i].dtype,
                   b->target[i].stated / 1e12);
    printf(".\n");
    sgi_bench_missing_print(b, stdout, markdown ? "* " : "");
}

bool sgi_bench_bert_holds(const sg_cli *cli, const sg_bench *b)
{
    bool holds = true;
    for (int32_t i = 0; i < b->count; i++) {
        const sg_bench_row *r = &b->rows[i];
        if (!r->compared || r->difference <= sg_bench_bert_tolerance(r))
            continue;
        holds = false;
        sg_cli_warn(cli, "%s on %s in %s differs from the decomposed graph by %.1e, more than %.0e", r->name,
                    r->target->device, r->target->dtype, r->difference, sg_bench_bert_tolerance(r));
    }
    return holds;
}
