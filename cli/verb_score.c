/* verb_score.c - compare predicted label sets with gold ones, without a model. GOLD is a data set. PRED is what `predict`
 * writes (jsonl or labels), or a data set whose labels are the predictions. */
#include "cli/score_internal.h"

#include <string.h>

/* Predictions and gold labels side by side, [rows, labels] each. */
typedef struct pair {
    const sg_dataset *gold;
    sgi_predictions predicted;
    float *y, *known;
} pair;

static sg_status no_memory(const sg_dataset *gold, sg_error *err)
{
    int arrays = gold->unknown_indptr ? 4 : 3; /* as allocate makes them */
    double cells = (double)gold->rows * (double)gold->labels;
    return sg_fail(err, SG_E_MEMORY, "out of memory for %lld rows x %lld labels: they take %.1f GB",
                   (long long)gold->rows, (long long)gold->labels, 1e-9 * (double)sizeof(float) * arrays * cells);
}

static sg_status allocate(pair *s, sg_error *err)
{
    int64_t cells;
    const sg_dataset *gold = s->gold;
    if (!sg_mul_ok(gold->rows, gold->labels, &cells))
        return sg_fail(err, SG_E_DATA, "%lld x %lld cells are too many", (long long)gold->rows,
                       (long long)gold->labels);
    s->predicted.score = sg_calloc(cells, sizeof *s->predicted.score);
    s->predicted.on = sg_calloc(cells, sizeof *s->predicted.on);
    s->y = sg_calloc(cells, sizeof *s->y);
    s->known = gold->unknown_indptr ? sg_calloc(cells, sizeof *s->known) : NULL;
    if (!s->predicted.score || !s->predicted.on || !s->y || (gold->unknown_indptr && !s->known))
        return no_memory(gold, err);
    return SG_OK;
}

/* A score that is not listed counts as 0, like one that is. */
static void warn_of_incomplete(const sg_cli *cli, const sgi_predictions *s)
{
    if (s->scored && s->incomplete)
        sg_cli_warn(cli,
                    "%s: %lld of %lld rows list no score for some label, which counts as 0: %s may be wrong; "
                    "`predict` without --top lists all",
                    strcmp(s->path, "-") == 0 ? "standard input" : s->path, (long long)s->incomplete,
                    (long long)s->gold->rows, s->cut ? "all metrics" : "rankings (map, ap, lrap, ndcg, p@k)");
}

static sg_status make_pair(const sg_cli *cli, const sg_config *config, pair *s, sg_error *err)
{
    const sg_dataset *gold = s->gold;
    sgi_predictions *predicted = &s->predicted;
    if (!gold->has_labels)
        return sg_fail_at(err, SG_E_DATA, cli->arguments[0], 0, 0, "the gold data has no labels");
    SG_TRY(allocate(s, err));
    sg_dataset_gold(gold, NULL, gold->rows, s->y, s->known);
    predicted->gold = gold;
    predicted->config = config;
    predicted->threshold = (float)sg_config_values(config)->train.threshold;
    predicted->asked = strncmp(sg_config_origin(config, "train.threshold"), "--", 2) == 0;
    SG_TRY(sgi_score_read(cli, predicted, err));
    warn_of_incomplete(cli, predicted);
    return predicted->mixed ? SG_OK : sg_config_check_format(config, gold->schema->format, err);
}

/* ---- report */

/* What is printed of each label. */
typedef struct label_table {
    const sg_dataset *gold;
    const sg_label_report *reports;
} label_table;

static sg_status print_per_label(void *user, FILE *out, sg_error *err)
{
    const label_table *t = user;
    (void)err;
    fputs("label\ttp\tfp\tfn\tprecision\trecall\tf1\n", out);
    for (int64_t i = 0; i < t->gold->labels; i++) {
        const sg_label_report *r = &t->reports[i];
        fprintf(out, "%s\t%lld\t%lld\t%lld\t%.6f\t%.6f\t%.6f\n", t->gold->schema->label_names[i], (long long)r->tp,
                (long long)r->fp, (long long)r->fn, r->precision, r->recall, r->f1);
    }
    return SG_OK;
}

static sg_status write_per_label(const sg_cli *cli, const pair *s, sg_error *err)
{
    const char *path = sg_cli_value(cli, "per-label");
    sg_label_report *reports = sg_calloc(s->gold->labels, sizeof *reports);
    if (!reports)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    label_table table = {s->gold, reports};
    sg_status status =
        sg_metrics_per_label(reports, s->predicted.on, s->y, s->known, s->gold->rows, s->gold->labels, NULL, err);
    if (status == SG_OK)
        status = sg_cli_write(cli, strcmp(path, "-") == 0 ? NULL : path, print_per_label, &table, err);
    sg_free(reports);
    return status;
}

static int print_metrics(const sg_cli *cli, const pair *s, const sg_metrics *metrics)
{
    if (cli->json)
        return sg_cli_json(json_pack("{s:I,s:I,s:o}", "rows", (json_int_t)s->gold->rows, "labels",
                                     (json_int_t)s->gold->labels, "metrics", sg_metrics_document(metrics)),
                           SG_EXIT_OK);
    sg_metrics_print(metrics, "");
    return SG_EXIT_OK;
}

static sg_status score(const sg_cli *cli, const sg_config *config, pair *s, sg_metrics *metrics, sg_error *err)
{
    SG_TRY(make_pair(cli, config, s, err));
    const sg_dataset *gold = s->gold;
    SG_TRY(sg_metrics_multilabel(metrics, s->predicted.on, s->y, s->known, gold->rows, gold->labels, NULL, false, err));
    if (s->predicted.scored)
        SG_TRY(sg_metrics_add_rankings(metrics, s->predicted.score, s->y, s->known, gold->rows, gold->labels, err));
    return sg_cli_has(cli, "per-label") ? write_per_label(cli, s, err) : SG_OK;
}

static sg_status check_output(const sg_cli *cli, sg_error *err)
{
    const char *path = sg_cli_value(cli, "per-label");
    SG_TRY(sg_cli_needs(cli, "force", "per-label", err));
    if (path && strcmp(path, "-") != 0)
        return sg_cli_may_write(cli, path, err);
    return path && cli->json ? sg_fail(err, SG_E_CONFIG, "--per-label - and --json both want standard output") : SG_OK;
}

static int run(sg_cli *cli)
{
    sg_config *config = NULL;
    sg_dataset *gold = NULL;
    sg_metrics metrics;
    sg_error err;
    pair s = {.predicted.path = cli->arguments[1]};
    const char *per_label = sg_cli_value(cli, "per-label");
    bool in_place = per_label && strcmp(per_label, "-") == 0; /* of the metrics */
    sg_status status = check_output(cli, &err);
    if (status == SG_OK)
        status = sg_cli_config(cli, &config, &err);
    if (status == SG_OK)
        status = sg_config_read_files(config, cli->arguments, 1, &gold, &err);
    s.gold = gold;
    if (status == SG_OK)
        sg_cli_notes(cli, gold);
    if (status == SG_OK)
        status = score(cli, config, &s, &metrics, &err);
    int code = SG_EXIT_OK;
    if (status != SG_OK)
        code = sg_cli_fail(cli, &err);
    else if (!in_place)
        code = print_metrics(cli, &s, &metrics);
    sg_free(s.predicted.score);
    sg_free(s.predicted.on);
    sg_free(s.y);
    sg_free(s.known);
    sg_dataset_free(gold);
    sg_config_free(config);
    return code;
}

static const sg_flag flags[] = {
    {"from", 0, "FORMAT", "jsonl|labels|data", "what PRED is, in place of what its name tells"},
    {"per-label", 0, "FILE", NULL,
     "write counts, precision, recall and F1 of each label as TSV; - prints them in place of the metrics"},
    {"force", 0, NULL, NULL, "replace the file of --per-label"},
    {NULL, 0, NULL, NULL, NULL},
};

const sg_verb sg_verb_score = {
    .name = "score",
    .arguments = "GOLD PRED",
    .summary = "compare predictions with gold labels, without a model",
    .description =
        "GOLD is a data set. PRED is lines of JSON as `predict` writes them, lines of label:score pairs, or a data\n"
        "set. Its name tells which, unless --from does: .jsonl, .labels or .txt, anything else is a data set; each\n"
        "may end in .gz. Rows pair in order, and \"row\" of a line of JSON must be that order.\n"
        "\n"
        "Sets (F1, precision, recall, ...) compare \"labels\" where a row of JSON has them and --threshold is not\n"
        "given; else a label counts as predicted where its score is at least --threshold. Rankings (map, ndcg, ...)\n"
        "compare scores. A score that is not listed counts as 0, and a warning says it. The forms of PRED and what\n"
        "each metric is stand in docs/conventions.md, under Predictions and Metrics.",
    .takes = SG_TAKES_CONFIG | SG_TAKES_JSON | SG_TAKES_VERBOSE,
    .reads = SG_READS_FORM "|train.threshold|",
    .min_arguments = 2,
    .max_arguments = 2,
    .flags = flags,
    .run = run,
};
