/* verb_eval.c - metrics of a trained model on its recipe's test part or on other files. */
#include "cli/cli.h"
#include "serialize/serialize.h"

#include <string.h>

typedef struct evaluation {
    sg_trained *trained;
    sg_config *config;
    sg_dataset *data;
    bool divided;
    sg_split split;
    const int64_t *rows; /* NULL: all */
    int64_t count;
    float *p, *y, *known;
    sg_metrics metrics;
} evaluation;

static void release(evaluation *e)
{
    if (e->divided)
        sg_split_free(&e->split);
    sg_trained_free(e->trained);
    sg_dataset_free(e->data);
    sg_config_free(e->config);
    sg_free(e->p);
    sg_free(e->y);
    sg_free(e->known);
}

/* Relative names in a recipe are told from where training began, which need not be here. */
static sg_status without_files(const sg_config *config, sg_status status, sg_error *err)
{
    bool typed = strncmp(sg_config_origin(config, "data.dir"), "--", 2) == 0;
    if (status != SG_E_IO || typed || !err->file[0] || err->file[0] == '/')
        return status;
    return sg_cli_advise(err, "give --data-dir, the folder of the recipe's files, or files to evaluate on");
}

/* The test rows of the recipe the model was trained with. In changed files other rows are the test part: some may have been
 * trained on. */
static sg_status read_recipe_data(const sg_cli *cli, evaluation *e, sg_error *err)
{
    if (!sg_cli_names_data(e->config, false))
        SG_TRY(sg_trained_check_data(e->trained, e->config, err));
    SG_TRY(without_files(e->config, sg_config_read_data(e->config, &e->data, &e->split, err), err));
    sg_cli_notes(cli, e->data);
    e->divided = true;
    e->rows = e->split.rows[SG_TEST];
    e->count = e->split.count[SG_TEST];
    if (e->count == 0)
        return sg_fail(err, SG_E_CONFIG, "the recipe of the model has no test rows: give files to evaluate on");
    return e->trained->preprocess ? sg_preprocess_apply(e->trained->preprocess, e->data, err) : SG_OK;
}

static sg_status read_data(const sg_cli *cli, evaluation *e, sg_error *err)
{
    if (cli->n_arguments == 1)
        return read_recipe_data(cli, e, err);
    SG_TRY(sg_trained_read(e->trained, cli->arguments + 1, cli->n_arguments - 1, &e->data, err));
    sg_cli_notes(cli, e->data);
    e->count = e->data->rows;
    if (!e->data->has_labels)
        return sg_fail_at(err, SG_E_DATA, cli->arguments[1], 0, 0, "the file has no labels to compare with");
    return SG_OK;
}

static sg_status evaluate(const sg_cli *cli, evaluation *e, sg_error *err)
{
    int64_t cells;
    SG_TRY(sg_require_check(cli, false, err));
    SG_TRY(sg_trained_open(&e->trained, cli->arguments[0], err));
    SG_TRY(sg_cli_config_on(cli, "recipe of the model", e->trained->model->recipe, &e->config, err));
    SG_TRY(read_data(cli, e, err));
    if (!sg_mul_ok(e->count, e->trained->labels, &cells))
        return sg_fail(err, SG_E_DATA, "too many rows");
    if (e->data->labels != e->trained->labels)
        return sg_fail(err, SG_E_DATA, "the data has %lld labels, the model %lld", (long long)e->data->labels,
                       (long long)e->trained->labels);
    e->p = sg_calloc(cells, sizeof *e->p);
    e->y = sg_calloc(cells, sizeof *e->y);
    e->known = e->data->unknown_indptr ? sg_calloc(cells, sizeof *e->known) : NULL;
    if (!e->p || !e->y || (e->data->unknown_indptr && !e->known))
        return sg_fail(err, SG_E_MEMORY, "out of memory for %lld rows", (long long)e->count);
    SG_TRY(sg_trained_predict(e->trained, e->config, e->data, e->rows, e->count, e->p, err));
    sg_dataset_gold(e->data, e->rows, e->count, e->y, e->known);
    return sg_metrics_multilabel(&e->metrics, e->p, e->y, e->known, e->count, e->trained->labels,
                                 e->trained->thresholds, true, err);
}

/* What metrics.json of the run says about the epoch and validation, if there is one. */
static void recall_run(const char *folder, json_t *document)
{
    char path[4096];
    char *text = NULL;
    size_t size;
    if (snprintf(path, sizeof path, "%s/metrics.json", folder) >= (int)sizeof path ||
        sg_file_read(path, 1 << 20, &text, &size, NULL) != SG_OK)
        return;
    json_t *run = json_loads(text, 0, NULL);
    json_object_set(document, "epoch", json_object_get(run, "epoch"));
    json_object_set(document, "best", json_object_get(run, "best"));
    json_decref(run);
    sg_free(text);
}

/* Metrics of the test part have two names in the document: that of a run's metrics.json, and that of `score`, so that what reads
 * those reads this. Of other files they are no test part's. */
static json_t *document_of(const sg_cli *cli, const evaluation *e)
{
    json_t *metrics = sg_metrics_document(&e->metrics);
    json_t *document = json_pack("{s:o,s:n,s:n}", "run", sg_json_text(cli->arguments[0]), "epoch", "best");
    if (e->divided)
        json_object_set(document, "test", metrics);
    json_object_set_new(document, "metrics", metrics);
    json_object_set_new(document, "rows", json_integer((json_int_t)e->count));
    recall_run(cli->arguments[0], document);
    return document;
}

static int report(const sg_cli *cli, const evaluation *e)
{
    sg_metrics none = {0};
    int code = sg_require_hold(cli, &none, &e->metrics);
    if (cli->json)
        return sg_cli_json(document_of(cli, e), code);
    printf("model                  %s\nrows                   %lld\n", e->trained->folder, (long long)e->count);
    sg_metrics_print(&e->metrics, "");
    return code;
}

static int run(sg_cli *cli)
{
    evaluation e = {0};
    sg_error err;
    int code = evaluate(cli, &e, &err) == SG_OK ? report(cli, &e) : sg_cli_fail(cli, &err);
    release(&e);
    return code;
}

static bool is_alone(const sg_cli *cli) { return cli->n_arguments < 2; }

static const sg_reads reads_when[] = {{"without FILEs", is_alone, SG_READS_FORM SG_READS_FILES SG_READS_PARTS}, {0}};

const sg_verb sg_verb_eval = {
    .name = "eval",
    .arguments = "RUN [FILE...]",
    .summary = "evaluate a trained model",
    .description =
        "RUN is a run folder or a model folder. Without FILEs the test rows of the model's recipe are used, but for\n"
        "those without a label, which its parts leave out; its files must be as they were in training, unless flags\n"
        "name others. With FILEs, which are read as those of its training were, all their rows count, as they do\n"
        "for `score`. What each metric is stands in docs/conventions.md, under Metrics.",
    .takes = SG_TAKES_SETTINGS | SG_TAKES_REQUIRE | SG_TAKES_JSON | SG_TAKES_VERBOSE,
    .reads = SG_READS_DEVICE,
    .reads_when = reads_when,
    .elsewhere = {"train.threshold", "a model keeps its own; for another one, `predict RUN FILE -o P.jsonl` and then "
                                     "`score FILE P.jsonl --threshold X`"},
    .min_arguments = 1,
    .max_arguments = -1,
    .run = run,
};
