/* verb_score.c - compare predicted label sets with gold ones, without a model. GOLD is a data set. PRED is what `predict`
 * writes (jsonl or labels), or a data set whose labels are the predictions. */
#include "cli/cli.h"
#include "serialize/serialize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LARGEST_FILE ((size_t)1 << 31)

/* Scores and gold labels side by side, [rows, labels] each. */
typedef struct pair {
    const sg_dataset *gold;
    const char *path;
    float *p, *y, *known;
    bool scored; /* numbers, not only sets: rankings make sense */
    bool mixed;  /* both are data sets, of two formats: settings about either have an effect */
} pair;

static int64_t label_index(const sg_dataset *data, const char *name, size_t length)
{
    for (int64_t i = 0; i < data->labels; i++) {
        const char *label = data->schema->label_names[i];
        if (strlen(label) == length && memcmp(label, name, length) == 0)
            return i;
    }
    return -1;
}

static sg_status unknown_label(const pair *s, int64_t line, const char *name, size_t length, sg_error *err)
{
    return sg_fail_at(err, SG_E_DATA, s->path, line, 0, "the gold data has no label '%.*s'",
                      (int)(length < 100 ? length : 100), name);
}

/* ---- one line of jsonl: {"labels": [names], "scores": {name: number}} */

static sg_status put_scores(pair *s, int64_t row, int64_t line, json_t *scores, sg_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(scores, name, value)
    {
        int64_t label = label_index(s->gold, name, strlen(name));
        if (label < 0)
            return unknown_label(s, line, name, strlen(name), err);
        if (!json_is_number(value))
            return sg_fail_at(err, SG_E_DATA, s->path, line, 0, "the score of '%.80s' is not a number", name);
        s->p[row * s->gold->labels + label] = (float)json_number_value(value);
    }
    return SG_OK;
}

static sg_status put_labels(pair *s, int64_t row, int64_t line, json_t *labels, sg_error *err)
{
    size_t i;
    json_t *value;
    json_array_foreach(labels, i, value)
    {
        const char *name = json_string_value(value);
        int64_t label = name ? label_index(s->gold, name, strlen(name)) : -1;
        if (!name)
            return sg_fail_at(err, SG_E_DATA, s->path, line, 0, "\"labels\" must be a list of names");
        if (label < 0)
            return unknown_label(s, line, name, strlen(name), err);
        s->p[row * s->gold->labels + label] = 1;
    }
    return SG_OK;
}

static sg_status read_json_row(pair *s, int64_t row, int64_t line, const char *text, sg_error *err)
{
    json_error_t where;
    json_t *document = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    if (!document)
        return sg_fail_at(err, SG_E_DATA, s->path, line, where.column, "not valid JSON: %s", where.text);
    json_t *scores = json_object_get(document, "scores"), *labels = json_object_get(document, "labels");
    sg_status status = SG_OK;
    if (json_is_object(scores)) {
        s->scored = true;
        status = put_scores(s, row, line, scores, err);
    } else if (json_is_array(labels)) {
        status = put_labels(s, row, line, labels, err);
    } else {
        status = sg_fail_at(err, SG_E_DATA, s->path, line, 0, "a row needs \"scores\" or \"labels\"");
    }
    json_decref(document);
    return status;
}

/* ---- one line of label:score pairs */

/* The longest name that stands there before a colon: names may hold blanks and colons. */
static int64_t label_at(const sg_dataset *data, const char *at, size_t *length)
{
    int64_t found = -1;
    for (int64_t i = 0; i < data->labels; i++) {
        const char *label = data->schema->label_names[i];
        size_t n = strlen(label);
        if (n >= *length && strncmp(at, label, n) == 0 && at[n] == ':') {
            found = i;
            *length = n;
        }
    }
    return found;
}

static sg_status no_pair(const pair *s, int64_t line, const char *text, const char *at, size_t span, sg_error *err)
{
    return sg_fail_at(err, SG_E_DATA, s->path, line, at - text + 1, "expected label:score, not '%.*s'",
                      (int)(span < 80 ? span : 80), at);
}

static sg_status read_pairs_row(pair *s, int64_t row, int64_t line, const char *text, sg_error *err)
{
    for (const char *at = text + strspn(text, " \t"); *at; at += strspn(at, " \t")) {
        size_t length = 0, span = strcspn(at, " \t");
        int64_t label = label_at(s->gold, at, &length);
        const char *colon = memrchr(at, ':', span), *number = at + length + 1;
        if (label < 0)
            return colon ? unknown_label(s, line, at, (size_t)(colon - at), err)
                         : no_pair(s, line, text, at, span, err);
        char *end;
        double score = strtod(number, &end);
        span = strcspn(number, " \t");
        if (span == 0 || end != number + span || !isfinite(score))
            return no_pair(s, line, text, at, length + 1 + span, err);
        s->p[row * s->gold->labels + label] = (float)score;
        at = end;
    }
    s->scored = true;
    return SG_OK;
}

static bool is_standard(const char *path) { return strcmp(path, "-") == 0; }

/* A name under which the file can be opened. */
static const char *opened(const char *path) { return is_standard(path) ? "/dev/stdin" : path; }

typedef sg_status row_fn(pair *s, int64_t row, int64_t line, const char *text, sg_error *err);

static sg_status read_lines(pair *s, row_fn *read_row, sg_error *err)
{
    char *text = NULL;
    size_t size = 0;
    int64_t row = 0;
    sg_status status = sg_file_read(opened(s->path), LARGEST_FILE, &text, &size, err);
    if (status != SG_OK && is_standard(s->path))
        return sg_fail_at(err, status, s->path, 0, 0, "cannot read it");
    SG_TRY(status);
    for (char *at = text; status == SG_OK && at < text + size; row++) {
        char *end = memchr(at, '\n', (size_t)(text + size - at));
        char *next = end ? end + 1 : text + size;
        if (end)
            *end = 0;
        if (end && end > at && end[-1] == '\r')
            end[-1] = 0;
        if (row >= s->gold->rows)
            status = sg_fail_at(err, SG_E_DATA, s->path, row + 1, 0, "more rows than the %lld of the gold data",
                                (long long)s->gold->rows);
        else
            status = read_row(s, row, row + 1, at, err);
        at = next;
    }
    sg_free(text);
    if (status == SG_OK && row < s->gold->rows)
        status = sg_fail_at(err, SG_E_DATA, s->path, row, 0, "ends after %lld rows; the gold data has %lld",
                            (long long)row, (long long)s->gold->rows);
    return status;
}

/* ---- data sets */

static sg_status read_dataset(const sg_cli *cli, pair *s, const sg_config *config, sg_error *err)
{
    sg_dataset *data = NULL;
    SG_TRY(sg_config_read_files(config, &s->path, 1, &data, err));
    sg_cli_notes(cli, data);
    sg_status status = SG_OK;
    s->mixed = data->schema->format != s->gold->schema->format;
    if (data->rows != s->gold->rows || data->labels != s->gold->labels)
        status = sg_fail_at(err, SG_E_DATA, s->path, 0, 0,
                            "%lld rows and %lld labels, but the gold data has %lld and %lld", (long long)data->rows,
                            (long long)data->labels, (long long)s->gold->rows, (long long)s->gold->labels);
    for (int64_t i = 0; status == SG_OK && i < data->labels; i++)
        if (strcmp(data->schema->label_names[i], s->gold->schema->label_names[i]) != 0)
            status = sg_fail_at(err, SG_E_DATA, s->path, 0, 0, "label %lld is '%.80s', but '%.80s' in the gold data",
                                (long long)i, data->schema->label_names[i], s->gold->schema->label_names[i]);
    if (status == SG_OK)
        sg_dataset_gold(data, NULL, data->rows, s->p, NULL);
    sg_dataset_free(data);
    return status;
}

static bool is_plain(const char *path)
{
    struct stat st;
    return stat(opened(path), &st) == 0 && S_ISREG(st.st_mode);
}

/* Whether these are lines of `predict`, whatever the name: no data set starts with a brace. What is looked into would be gone from a
 * pipe: there a first line that is none of a data set says it. */
static bool holds_json(const char *path)
{
    FILE *file = is_plain(path) ? fopen(opened(path), "rb") : NULL;
    int first = file ? fgetc(file) : EOF;
    if (file)
        fclose(file);
    return first == '{';
}

static sg_status read_predictions(const sg_cli *cli, const sg_config *config, pair *s, sg_error *err)
{
    const char *from = sg_cli_value(cli, "from"), *dot = strrchr(s->path, '.');
    bool jsonl = from ? strcmp(from, "jsonl") == 0 : dot && strcmp(dot, ".jsonl") == 0;
    bool labels = from ? strcmp(from, "labels") == 0 : dot && (!strcmp(dot, ".labels") || !strcmp(dot, ".txt"));
    if (jsonl)
        return read_lines(s, read_json_row, err);
    if (labels)
        return read_lines(s, read_pairs_row, err);
    bool told = from || (dot && (strcmp(dot, ".arff") == 0 || strcmp(dot, ".gz") == 0));
    sg_status status = !told && holds_json(s->path) ? sg_fail(err, SG_E_CONFIG, "it begins with a brace")
                                                    : read_dataset(cli, s, config, err);
    bool other = status == SG_E_CONFIG || (status == SG_E_DATA && err->line == 1 && !is_plain(s->path));
    if (told || !other)
        return status;
    char why[SG_ERROR_TEXT];
    snprintf(why, sizeof why, "%s", err->text);
    return sg_fail_at(err, SG_E_CONFIG, s->path, 0, 0,
                      "the name does not tell what this is, and it is no data set like GOLD (%.200s): say --from "
                      "jsonl, labels or data",
                      why);
}

static sg_status make_pair(const sg_cli *cli, const sg_config *config, pair *s, sg_error *err)
{
    int64_t cells;
    const sg_dataset *gold = s->gold;
    if (!gold->has_labels)
        return sg_fail_at(err, SG_E_DATA, cli->arguments[0], 0, 0, "the gold data has no labels");
    if (!sg_mul_ok(gold->rows, gold->labels, &cells))
        return sg_fail(err, SG_E_DATA, "%lld x %lld cells are too many", (long long)gold->rows,
                       (long long)gold->labels);
    s->p = sg_calloc(cells, sizeof *s->p);
    s->y = sg_calloc(cells, sizeof *s->y);
    s->known = gold->unknown_indptr ? sg_calloc(cells, sizeof *s->known) : NULL;
    if (!s->p || !s->y || (gold->unknown_indptr && !s->known))
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_dataset_gold(gold, NULL, gold->rows, s->y, s->known);
    SG_TRY(read_predictions(cli, config, s, err));
    return s->mixed ? SG_OK : sg_config_check_format(config, gold->schema->format, err);
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

static sg_status write_per_label(const sg_cli *cli, const pair *s, const float *thresholds, sg_error *err)
{
    const char *path = sg_cli_value(cli, "per-label");
    sg_label_report *reports = sg_calloc(s->gold->labels, sizeof *reports);
    if (!reports)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    label_table table = {s->gold, reports};
    sg_status status =
        sg_metrics_per_label(reports, s->p, s->y, s->known, s->gold->rows, s->gold->labels, thresholds, err);
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
    const sg_train_config *v = sg_config_values(config);
    SG_TRY(make_pair(cli, config, s, err));
    float *thresholds = sg_calloc(s->gold->labels, sizeof *thresholds);
    if (!thresholds)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int64_t i = 0; i < s->gold->labels; i++)
        thresholds[i] = (float)v->train.threshold;
    sg_status status = sg_metrics_multilabel(metrics, s->p, s->y, s->known, s->gold->rows, s->gold->labels, thresholds,
                                             s->scored, err);
    if (status == SG_OK && sg_cli_has(cli, "per-label"))
        status = write_per_label(cli, s, thresholds, err);
    sg_free(thresholds);
    return status;
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
    pair s = {.path = cli->arguments[1]};
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
    sg_free(s.p);
    sg_free(s.y);
    sg_free(s.known);
    sg_dataset_free(gold);
    sg_config_free(config);
    return code;
}

static const sg_flag flags[] = {
    {"from", 0, "FORMAT", "jsonl|labels|data", "what PRED is; else its name tells"},
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
        "GOLD is a data set. PRED is jsonl, lines of label:score pairs, or a data set. Rows pair in order. A\n"
        "label counts as predicted where its score is at least --threshold. What each metric is stands in\n"
        "docs/conventions.md, under Metrics.",
    .takes = SG_TAKES_CONFIG | SG_TAKES_JSON | SG_TAKES_VERBOSE,
    .reads = SG_READS_FORM "|train.threshold|",
    .min_arguments = 2,
    .max_arguments = 2,
    .flags = flags,
    .run = run,
};
