/* gradcheck_golden.c - `gradcheck --golden DIR`: the report of a folder of golden cases. */
#include "cli/cli.h"
#include "cli/golden/golden.h"

#include <math.h>
#include <string.h>

static const char *const verdicts[] = {"passed", "failed", "not built", "skipped"};

static bool all_passed(const sg_golden_report *report)
{
    sg_golden_count total = sg_golden_total(report);
    return total.by_verdict[SG_GOLDEN_FAILED] == 0 && total.by_verdict[SG_GOLDEN_NOT_BUILT] == 0;
}

/* The largest error of a family on a device; negative if nothing ran. */
static double worst_of(const sg_golden_report *report, int32_t family, int device)
{
    double worst = -1;
    for (int32_t i = 0; i < report->n_results; i++) {
        const sg_golden_result *r = &report->results[i];
        if (r->family == family && r->on[device].ran)
            worst = fmax(worst, r->on[device].worst);
    }
    return worst;
}

/* ---- for people */

static void print_table(const sg_cli *cli, const sg_golden_report *report)
{
    sg_table *table = sg_table_new("family|>cases|>passed|>failed|>not built|>skipped|>worst, reference|>worst, cpu");
    for (int32_t i = 0; i < report->n_families; i++) {
        const sg_golden_count *f = &report->families[i];
        sg_table_cell(table, "%s", f->name);
        sg_table_cell(table, "%d", (int)f->cases);
        for (int v = 0; v <= SG_GOLDEN_SKIPPED; v++)
            sg_table_cell(table, "%d", (int)f->by_verdict[v]);
        for (int d = 0; d < SG_GOLDEN_DEVICES; d++) {
            double worst = worst_of(report, i, d);
            sg_table_cell(table, worst < 0 ? "-" : "%.1e", worst);
        }
    }
    sg_table_print(table, stdout, cli->color_out);
    sg_table_free(table);
}

static void print_case(const sg_cli *cli, const sg_golden_report *report, const sg_golden_result *r)
{
    const char *paint = r->verdict == SG_GOLDEN_PASSED || r->verdict == SG_GOLDEN_SKIPPED ? "" : "red";
    printf("%s%-9s%s %s %s (%s)", paint[0] ? sg_paint(cli->color_out, SG_STYLE_RED) : "", verdicts[r->verdict],
           paint[0] ? sg_paint(cli->color_out, SG_STYLE_RESET) : "", report->families[r->family].name, r->name, r->op);
    for (int d = 0; d < SG_GOLDEN_DEVICES; d++)
        if (r->on[d].ran && !r->on[d].passed)
            printf("\n          on %s: %s", sg_golden_devices[d], r->on[d].text);
        else if (r->on[d].ran)
            printf("  %s %.1e", sg_golden_devices[d], r->on[d].worst);
    putchar('\n');
}

static void print_report(const sg_cli *cli, const sg_golden_report *report)
{
    print_table(cli, report);
    for (int32_t i = 0; i < report->n_families; i++)
        if (!report->families[i].known)
            printf("not built %s: a family unknown here, %d cases\n", report->families[i].name,
                   (int)report->families[i].cases);
    for (int32_t i = 0; i < report->n_results; i++) {
        const sg_golden_result *r = &report->results[i];
        bool told =
            r->verdict == SG_GOLDEN_FAILED || (r->verdict == SG_GOLDEN_NOT_BUILT && report->families[r->family].known);
        if (told || cli->verbosity > 0)
            print_case(cli, report, r);
    }
    sg_golden_count total = sg_golden_total(report);
    if (total.by_verdict[SG_GOLDEN_SKIPPED])
        printf("%d more cases do not fit float32 and were skipped\n", (int)total.by_verdict[SG_GOLDEN_SKIPPED]);
    printf("%d cases, %d passed, %d failed, %d not built\n", (int)total.cases, (int)total.by_verdict[SG_GOLDEN_PASSED],
           (int)total.by_verdict[SG_GOLDEN_FAILED], (int)total.by_verdict[SG_GOLDEN_NOT_BUILT]);
}

/* ---- JSON */

static json_t *count_document(const sg_golden_count *c)
{
    return json_pack("{s:i,s:i,s:i,s:i,s:i}", "cases", (int)c->cases, "passed", (int)c->by_verdict[SG_GOLDEN_PASSED],
                     "failed", (int)c->by_verdict[SG_GOLDEN_FAILED], "not_built",
                     (int)c->by_verdict[SG_GOLDEN_NOT_BUILT], "skipped", (int)c->by_verdict[SG_GOLDEN_SKIPPED]);
}

static json_t *case_document(const sg_golden_report *report, const sg_golden_result *r)
{
    json_t *devices = json_object();
    for (int d = 0; d < SG_GOLDEN_DEVICES; d++)
        if (r->on[d].ran)
            json_object_set_new(devices, sg_golden_devices[d],
                                json_pack("{s:b,s:o,s:o,s:s}", "passed", r->on[d].passed, "worst",
                                          sg_json_number(r->on[d].worst), "of_limit", sg_json_number(r->on[d].excess),
                                          "where", r->on[d].text));
    return json_pack("{s:s,s:s,s:s,s:s,s:o}", "family", report->families[r->family].name, "name", r->name, "op", r->op,
                     "verdict", verdicts[r->verdict], "devices", devices);
}

static json_t *document_of(const sg_golden_report *report)
{
    sg_golden_count total = sg_golden_total(report);
    json_t *document = count_document(&total), *families = json_array(), *cases = json_array();
    for (int32_t i = 0; i < report->n_families; i++) {
        json_t *family = count_document(&report->families[i]);
        json_object_set_new(family, "name", json_string(report->families[i].name));
        json_object_set_new(family, "known", json_boolean(report->families[i].known));
        json_array_append_new(families, family);
    }
    for (int32_t i = 0; i < report->n_results; i++)
        json_array_append_new(cases, case_document(report, &report->results[i]));
    json_object_set_new(document, "families", families);
    json_object_set_new(document, "results", cases);
    return document;
}

/* ---- the command line */

static bool sets_device(const sg_setting *setting, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(setting[i].key, "device") == 0)
            return true;
    return false;
}

/* Both devices, unless the command line names one. */
static sg_status read_options(const sg_cli *cli, sg_golden_options *options, sg_error *err)
{
    sg_config *config = NULL;
    if (sg_cli_has(cli, "order"))
        return sg_fail(err, SG_E_CONFIG, "--order does not go with --golden: the cases say which orders they have");
    SG_TRY(sg_cli_config(cli, &config, err));
    bool one = sets_device(cli->flags, cli->n_flags) || sets_device(cli->sets, cli->n_sets);
    const char *device = sg_config_backend(sg_config_values(config));
    *options = (sg_golden_options){.folder = sg_cli_value(cli, "golden"), .families = sg_cli_value(cli, "family")};
    options->devices[SG_GOLDEN_REFERENCE] = !one || strcmp(device, "reference") == 0;
    options->devices[SG_GOLDEN_CPU] = !one || strcmp(device, "cpu") == 0;
    options->devices[SG_GOLDEN_CUDA] = one && strncmp(device, "cuda", 4) == 0;
    sg_config_free(config);
    return SG_OK;
}

int sg_gradcheck_golden(const sg_cli *cli)
{
    sg_golden_options options;
    sg_golden_report report = {0};
    sg_error err;
    sg_status status = read_options(cli, &options, &err);
    if (status == SG_OK)
        status = sg_golden_run(&options, &report, &err);
    int code = all_passed(&report) ? SG_EXIT_OK : SG_EXIT_RUNTIME;
    if (status != SG_OK)
        code = sg_cli_fail(cli, &err);
    else if (cli->json)
        code = sg_cli_json(document_of(&report), code);
    else
        print_report(cli, &report);
    sg_golden_report_free(&report);
    return code;
}
