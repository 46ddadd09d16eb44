/* score_read.c - the predictions of `score`: what the file is, and its rows. */
#include "cli/score_internal.h"

#include <string.h>
#include <sys/stat.h>

/* ---- lines */

static void warn_of(const sg_cli *cli, sg_notes *notes)
{
    for (int32_t i = 0; i < notes->count; i++)
        sg_cli_warn(cli, "%s", notes->note[i].text);
    sg_notes_free(notes);
}

static sg_status read_rows(sgi_predictions *s, sg_lines *lines, sgi_row_fn *read_row, sg_error *err)
{
    char *text;
    int64_t length, row = 0, rows = s->gold->rows;
    for (;; row++) {
        SG_TRY(sg_lines_next(lines, &text, &length, err));
        if (!text)
            break;
        if (row == rows)
            return sg_lines_fail(lines, NULL, err, "more rows than the %lld of the gold data", (long long)rows);
        SG_TRY(read_row(s, row, text, err));
    }
    if (row < rows)
        return sg_lines_fail(lines, NULL, err, "ends after %lld rows; the gold data has %lld", (long long)row,
                             (long long)rows);
    return SG_OK;
}

/* Lines name their labels in any order, of which there may be thousands a row. */
static sg_status index_labels(sgi_predictions *s, sg_error *err)
{
    for (int64_t i = 0; i < s->gold->labels; i++) {
        const char *name = s->gold->schema->label_names[i];
        size_t length = strlen(name);
        if (!sg_names_add(&s->labels, name, (int32_t)i))
            return sg_fail(err, SG_E_MEMORY, "out of memory for %lld labels", (long long)s->gold->labels);
        s->longest = length > s->longest ? length : s->longest;
    }
    return SG_OK;
}

static sg_status read_lines(const sg_cli *cli, sgi_predictions *s, sgi_row_fn *read_row, sg_error *err)
{
    sg_lines *lines = NULL;
    sg_notes notes = {0};
    sg_status status = index_labels(s, err);
    if (status == SG_OK)
        status = sg_lines_open(&lines, s->path, &notes, err);
    if (status == SG_OK)
        status = read_rows(s, lines, read_row, err);
    sg_lines_close(lines);
    sg_names_free(&s->labels);
    warn_of(cli, &notes);
    return status;
}

/* ---- data sets */

sg_status sgi_score_no_threshold(const sgi_predictions *s, int64_t line, sg_error *err)
{
    char place[32] = "";
    if (line)
        snprintf(place, sizeof place, ":%lld", (long long)line);
    return sg_config_fail(s->config, "train.threshold", err,
                          "train.threshold has no effect on labels without scores, as in %.200s%s",
                          sg_lines_name(s->path), place);
}

static sg_status same_labels(const sgi_predictions *s, const sg_dataset *data, sg_error *err)
{
    const sg_dataset *gold = s->gold;
    if (data->rows != gold->rows || data->labels != gold->labels)
        return sg_fail_at(err, SG_E_DATA, s->path, 0, 0,
                          "%lld rows and %lld labels, but the gold data has %lld and %lld", (long long)data->rows,
                          (long long)data->labels, (long long)gold->rows, (long long)gold->labels);
    for (int64_t i = 0; i < data->labels; i++)
        if (strcmp(data->schema->label_names[i], gold->schema->label_names[i]) != 0)
            return sg_fail_at(err, SG_E_DATA, s->path, 0, 0, "label %lld is '%.80s', but '%.80s' in the gold data",
                              (long long)i, data->schema->label_names[i], gold->schema->label_names[i]);
    return SG_OK;
}

/* Pairs of numbers are lines of LIBSVM too, in which no row has a label. */
static void warn_of_none(const sg_cli *cli, const sgi_predictions *s, const sg_dataset *data)
{
    if (data->rows && data->label_indptr[data->rows] == 0)
        sg_cli_warn(cli, "%s: read as a data set, in which no row has a label: --from labels reads label:score lines",
                    sg_lines_name(s->path));
}

static sg_status read_dataset(const sg_cli *cli, sgi_predictions *s, sg_error *err)
{
    sg_dataset *data = NULL;
    SG_TRY(sg_config_read_files(s->config, &s->path, 1, &data, err));
    sg_cli_notes(cli, data);
    s->mixed = data->schema->format != s->gold->schema->format;
    sg_status status = same_labels(s, data, err);
    if (status == SG_OK)
        sg_dataset_gold(data, NULL, data->rows, s->on, NULL);
    if (status == SG_OK && !sg_cli_value(cli, "from"))
        warn_of_none(cli, s, data);
    sg_dataset_free(data);
    return status;
}

/* ---- which of them it is */

/* A name under which the file can be opened. */
static const char *opened(const char *path) { return strcmp(path, "-") == 0 ? "/dev/stdin" : path; }

/* Whether these are lines of `predict`, whatever the name: no data set starts with a brace. What is looked into would be gone from a
 * pipe: there a first line that is none of a data set says it. */
static bool holds_json(const char *path)
{
    struct stat st;
    sg_lines *lines = NULL;
    char first = 0;
    if (stat(opened(path), &st) == 0 && S_ISREG(st.st_mode) &&
        sg_lines_open(&lines, opened(path), NULL, NULL) == SG_OK && sg_lines_peek(lines, &first, NULL) != SG_OK)
        first = 0;
    sg_lines_close(lines);
    return first == '{';
}

static bool is_named(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    if (n > 3 && strcmp(path + n - 3, ".gz") == 0)
        n -= 3;
    return n >= m && strncmp(path + n - m, end, m) == 0;
}

/* The first line is none of the format that the name tells: what is wrong in jsonl has a `column` then. Among pairs whatever stands
 * before a colon is a label that the gold data lacks. */
static sg_status advise(sg_status status, bool told, bool column, const char *advice, sg_error *err)
{
    bool first = status == SG_E_DATA && err->line == 1 && (err->column > 0 || !column);
    return first && !told ? sg_cli_advise(err, advice) : status;
}

static sg_status no_dataset(const sgi_predictions *s, sg_error *err)
{
    char why[SG_ERROR_TEXT];
    snprintf(why, sizeof why, "%s", err->text);
    return sg_fail_at(err, SG_E_CONFIG, s->path, 0, 0,
                      "the name does not tell what this is, and it is no data set like GOLD (%.200s): say --from "
                      "jsonl, labels or data",
                      why);
}

static sg_status read_unnamed(const sg_cli *cli, sgi_predictions *s, sg_error *err)
{
    bool json = holds_json(s->path);
    sg_status status = json ? sg_fail(err, SG_E_CONFIG, "it begins with a brace") : read_dataset(cli, s, err);
    return status == SG_E_CONFIG || (status == SG_E_DATA && err->line == 1) ? no_dataset(s, err) : status;
}

sg_status sgi_score_read(const sg_cli *cli, sgi_predictions *s, sg_error *err)
{
    const char *from = sg_cli_value(cli, "from");
    bool jsonl = from ? strcmp(from, "jsonl") == 0 : is_named(s->path, ".jsonl");
    bool labels = from ? strcmp(from, "labels") == 0 : is_named(s->path, ".labels") || is_named(s->path, ".txt");
    if (jsonl)
        return advise(read_lines(cli, s, sgi_score_json_row, err), from, true,
                      "if this is no jsonl, say --from labels or data", err);
    if (labels)
        return advise(read_lines(cli, s, sgi_score_pairs_row, err), from, false,
                      "if these are no label:score lines, say --from jsonl or data", err);
    SG_TRY(from || is_named(s->path, ".arff") ? read_dataset(cli, s, err) : read_unnamed(cli, s, err));
    return s->asked ? sgi_score_no_threshold(s, 0, err) : SG_OK;
}
