/* verb_predict.c - labels and probabilities for new rows, one line a row. */
#include "cli/cli.h"
#include "models/data_internal.h"
#include "serialize/serialize.h"

#include <stdlib.h>
#include <string.h>

typedef struct prediction {
    sg_trained *trained;
    sg_config *config;
    sg_dataset *data;
    float *p;       /* [rows, labels] */
    int64_t *order; /* labels of one row, best first */
    int64_t top;    /* scores written a row */
    bool as_labels;
} prediction;

static void release(prediction *s)
{
    sg_trained_free(s->trained);
    sg_config_free(s->config);
    sg_dataset_free(s->data);
    sg_free(s->p);
    sg_free(s->order);
}

static sg_status predict(const sg_cli *cli, prediction *s, sg_error *err)
{
    int64_t cells;
    if (!sg_cli_output(cli))
        SG_TRY(sg_cli_not_with(cli, "to", "json", err));
    const char *form = sg_cli_value(cli, "to");
    s->as_labels = form && strcmp(form, "labels") == 0;
    SG_TRY(sg_trained_open(&s->trained, cli->arguments[0], err));
    SG_TRY(sg_cli_config_on(cli, "recipe of the model", s->trained->model->recipe, &s->config, err));
    SG_TRY(sg_cli_int(cli, "top", 1, 1 << 30, s->trained->labels, &s->top, err));
    SG_TRY(sg_trained_read(s->trained, cli->arguments + 1, cli->n_arguments - 1, &s->data, err));
    sg_cli_notes(cli, s->data);
    if (s->top > s->trained->labels)
        s->top = s->trained->labels;
    if (!sg_mul_ok(s->data->rows, s->trained->labels, &cells))
        return sg_fail(err, SG_E_DATA, "too many rows");
    s->p = sg_calloc(cells, sizeof *s->p);
    s->order = sg_calloc(s->trained->labels, sizeof *s->order);
    if (!s->p || !s->order)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %lld rows", (long long)s->data->rows);
    return sg_trained_predict(s->trained, s->config, s->data, NULL, s->data->rows, s->p, err);
}

/* ---- one row */

static int by_score(const void *a, const void *b, void *scores)
{
    const float *p = scores;
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    if (p[i] != p[j])
        return p[i] > p[j] ? -1 : 1;
    return i < j ? -1 : 1; /* ties by label order */
}

static const float *rank(prediction *s, int64_t row)
{
    float *p = s->p + row * s->trained->labels;
    for (int64_t i = 0; i < s->trained->labels; i++)
        s->order[i] = i;
    qsort_r(s->order, (size_t)s->trained->labels, sizeof *s->order, by_score, p);
    return p;
}

static json_t *row_document(prediction *s, int64_t row)
{
    const float *p = rank(s, row);
    const char *const *names = s->trained->model->labels;
    json_t *labels = json_array(), *scores = json_object();
    for (int64_t i = 0; i < s->trained->labels; i++)
        if (p[i] >= s->trained->thresholds[i])
            json_array_append_new(labels, json_string(names[i]));
    for (int64_t k = 0; k < s->top; k++)
        json_object_set_new(scores, names[s->order[k]], sg_json_float(p[s->order[k]]));
    return json_pack("{s:I,s:o,s:o}", "row", (json_int_t)row, "labels", labels, "scores", scores);
}

static void write_jsonl(prediction *s, int64_t row, FILE *out)
{
    json_t *document = row_document(s, row);
    sg_json_write(document, false, out);
    fputc('\n', out);
    json_decref(document);
}

static void write_labels(prediction *s, int64_t row, FILE *out)
{
    char text[32];
    const float *p = rank(s, row);
    for (int64_t k = 0; k < s->top; k++)
        fprintf(out, "%s%s:%s", k ? " " : "", s->trained->model->labels[s->order[k]],
                sg_text_float(p[s->order[k]], text));
    fputc('\n', out);
}

/* ---- where to */

static sg_status print_rows(void *user, FILE *out, sg_error *err)
{
    prediction *s = user;
    (void)err;
    for (int64_t row = 0; row < s->data->rows; row++)
        if (s->as_labels)
            write_labels(s, row, out);
        else
            write_jsonl(s, row, out);
    return SG_OK;
}

static int write_json(const sg_cli *cli, prediction *s)
{
    const char *path = sg_cli_output(cli);
    if (path)
        return sg_cli_json(json_pack("{s:o,s:I}", "written", sg_json_text(path), "rows", (json_int_t)s->data->rows),
                           SG_EXIT_OK);
    json_t *rows = json_array();
    for (int64_t row = 0; row < s->data->rows; row++)
        json_array_append_new(rows, row_document(s, row));
    return sg_cli_json(json_pack("{s:o}", "predictions", rows), SG_EXIT_OK);
}

static int run(sg_cli *cli)
{
    prediction s = {0};
    sg_error err;
    const char *path = sg_cli_output(cli);
    sg_status status = sg_cli_check_output(cli, &err);
    if (status == SG_OK)
        status = predict(cli, &s, &err);
    if (status == SG_OK && (path || !cli->json))
        status = sg_cli_write(cli, path, print_rows, &s, &err);
    int code = SG_EXIT_OK;
    if (status != SG_OK)
        code = sg_cli_fail(cli, &err);
    else if (cli->json)
        code = write_json(cli, &s);
    release(&s);
    return code;
}

static const sg_flag flags[] = {
    {"to", 0, "FORM", "jsonl|labels", "form of the lines; labels is label:score pairs, best first"},
    {"top", 0, "K", NULL, "write the scores of the K best labels only"},
    {NULL, 0, NULL, NULL, NULL},
};

const sg_verb sg_verb_predict = {
    .name = "predict",
    .arguments = "RUN FILE...",
    .summary = "predict labels for the rows of files",
    .description =
        "FILEs are in a format of the training data; columns are found by name and label columns may be missing.\n"
        "A label is predicted where its score reaches the threshold stored with the model. The keys of jsonl and the\n"
        "lines of labels are described in docs/conventions.md, under Predictions.",
    .takes = SG_TAKES_SETTINGS | SG_TAKES_OUTPUT | SG_TAKES_JSON | SG_TAKES_VERBOSE,
    .reads = SG_READS_DEVICE,
    .elsewhere = {"train.threshold", "a model keeps its own; lines of jsonl hold the scores, and `score GOLD P.jsonl "
                                     "--threshold X` compares with another one"},
    .min_arguments = 2,
    .max_arguments = -1,
    .flags = flags,
    .run = run,
};
