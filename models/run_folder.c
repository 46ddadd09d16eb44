/* run_folder.c - the run directory: what is in it, how a run is found again, and how each file is replaced whole.
 *
 *   config.yml               the resolved configuration; a run is resumed only with the same one (threads may differ)
 *   checkpoint.safetensors   the store and, as metadata, sgi_progress
 *   metrics.jsonl            one line a value: step, epoch, split, name, value, wall
 *   model/                   parameters of the best epoch, usable at any time
 *   run.json                 version, command line, working directory, host, data hashes and counts, status: all that varies between
 *                            equal runs; and whether there was a checkpoint
 *   metrics.json             written last: a folder that has it is finished */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "models/config_internal.h"
#include "models/data_internal.h"
#include "models/json_internal.h"
#include "models/train_internal.h"
#include "serialize/serialize.h"

/* A disk that is full has no room for a second file, but that of the first. A last newline takes the place of the text's 0. */
static sg_status write_over(const sgi_run *run, const char *name, char *text)
{
    char *path = sgi_folder_path(run, name);
    size_t n = strlen(text);
    text[n] = '\n';
    sg_status status = path ? sg_file_overwrite(path, text, n + 1, NULL) : SG_E_MEMORY;
    sg_free(path);
    return status;
}

static sg_status write_record(const sgi_run *run, json_t *value, sg_error *err)
{
    char *text = value ? sg_json_dump(value, true) : NULL;
    sg_status status = text ? sgi_folder_write(run, "run.json", text, err) : sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_E_IO && write_over(run, "run.json", text) == SG_OK)
        status = SG_OK;
    sg_free(text);
    json_decref(value);
    return status;
}

/* ---- opening */

static sg_status move_aside(const sgi_run *run, sg_error *err)
{
    const char *folder = run->folder;
    size_t n = strlen(folder), size = n + 32;
    while (n > 1 && folder[n - 1] == '/')
        n--;
    char *aside = sg_alloc(size);
    if (!aside)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int k = 1; k < 1000000; k++) {
        snprintf(aside, size, "%.*s.%d", (int)n, folder, k);
        if (access(aside, F_OK) != 0)
            break;
    }
    sg_status status = sg_file_rename(folder, aside, err);
    sg_free(aside);
    return status;
}

static json_t *progress_json(const sgi_progress *at)
{
    return json_pack("{s:I, s:I, s:f, s:f, s:I, s:f, s:I, s:[f, f, f]}", "epoch", (json_int_t)at->epoch, "step",
                     (json_int_t)at->step, "lr", at->lr, "best", at->best, "best_epoch", (json_int_t)at->best_epoch,
                     "plateau_best", at->plateau_best, "plateau_bad", (json_int_t)at->plateau_bad, "sums", at->sums[0],
                     at->sums[1], at->sums[2]);
}

/* Numbers that no run can have come to are damage. */
static bool progress_parse(const char *text, const sgi_run *run, sgi_progress *at)
{
    json_int_t epoch, step, best_epoch, bad;
    json_t *value = json_loads(text, 0, NULL);
    bool good = value && json_unpack(value, "{s:I, s:I, s:F, s:F, s:I, s:F, s:I, s:[F, F, F]}", "epoch", &epoch, "step",
                                     &step, "lr", &at->lr, "best", &at->best, "best_epoch", &best_epoch, "plateau_best",
                                     &at->plateau_best, "plateau_bad", &bad, "sums", &at->sums[0], &at->sums[1],
                                     &at->sums[2]) == 0;
    json_decref(value);
    if (!good || epoch < 0 || epoch > run->c->train.epochs || step < 0 || step > run->group->steps ||
        (epoch == run->c->train.epochs && step > 0) || best_epoch < 0 || best_epoch > epoch ||
        (epoch > 0) != (best_epoch > 0) || bad < 0 || bad > epoch || !(at->lr > 0))
        return false;
    at->epoch = epoch;
    at->step = step;
    at->best_epoch = best_epoch;
    at->plateau_bad = bad;
    return true;
}

/* Lines of epochs after the checkpoint belong to work that is done again. */
static sg_status trim_log(sgi_run *run, sg_error *err)
{
    char *path = sgi_folder_path(run, "metrics.jsonl"), *text = NULL;
    size_t size, kept = 0;
    sg_status status =
        path ? sg_file_read(path, SGI_TEXT_LIMIT, &text, &size, err) : sg_fail(err, SG_E_MEMORY, "out of memory");
    for (char *line = text; status == SG_OK && *line;) {
        char *end = strchr(line, '\n');
        json_int_t epoch = 0;
        json_t *value = end ? json_loadb(line, (size_t)(end - line), 0, NULL) : NULL;
        bool keep = value && json_unpack(value, "{s:I}", "epoch", &epoch) == 0 && epoch <= run->at.epoch;
        json_decref(value);
        if (!keep)
            break;
        line = end + 1;
        kept = (size_t)(line - text);
    }
    if (status == SG_OK)
        status = sg_file_write(path, text, kept, err);
    sg_free(path);
    sg_free(text);
    return status;
}

static sg_status refuse_damaged(const sgi_run *run, const char *path, sg_error *err)
{
    char advice[SG_ERROR_TEXT], what[SG_ERROR_TEXT] = "";
    if (err)
        memcpy(what, err->text, sizeof what);
    return sg_fail_at(err, SG_E_DATA, path, 0, 0, "%.250s: put back a whole one, or %s", what,
                      sgi_way_out(run, advice, sizeof advice));
}

static sg_status load_checkpoint(sgi_run *run, sg_error *err)
{
    char *path = sgi_folder_path(run, "checkpoint.safetensors"), *text = NULL;
    sg_status status =
        path ? sg_checkpoint_read(path, run->store, &text, err) : sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK && !progress_parse(text, run, &run->at))
        status = sg_fail_at(err, SG_E_DATA, path, 0, 0, "the checkpoint's progress record is damaged");
    if (status == SG_E_DATA)
        status = refuse_damaged(run, path, err);
    run->resumed = status == SG_OK;
    sg_free(path);
    sg_free(text);
    return status;
}

static sg_status create(sgi_run *run, sg_error *err)
{
    char *yaml = sg_config_yaml(run->config);
    sg_status status = sgi_folder_write(run, "config.yml", yaml, err);
    sg_free(yaml);
    return status;
}

/* What a killed run left behind of files that were being replaced: NAME.tmp123, and NAME.new.tmp123 in a model folder. */
static void sweep(const char *folder)
{
    static const char *const written[] = {"config.yml",           "run.json",     "metrics.json",
                                          "metrics.jsonl",        "model.pb.new", "checkpoint.safetensors",
                                          "model.safetensors.new"};
    DIR *entries = opendir(folder);
    for (const struct dirent *e = entries ? readdir(entries) : NULL; e; e = readdir(entries))
        for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
            size_t n = strlen(written[i]);
            if (strncmp(e->d_name, written[i], n) == 0 && strncmp(e->d_name + n, ".tmp", 4) == 0)
                unlinkat(dirfd(entries), e->d_name, 0);
        }
    if (entries)
        closedir(entries);
}

static sg_status is_empty(const char *folder, bool *empty, sg_error *err)
{
    int found = 0; /* "." and ".." */
    DIR *entries = opendir(folder);
    if (!entries)
        return sg_fail(err, SG_E_IO, "cannot open folder %s: %s", folder, strerror(errno));
    while (found < 3 && readdir(entries))
        found++;
    closedir(entries);
    *empty = found < 3;
    return SG_OK;
}

static sg_status claim(sgi_run *run, sg_error *err)
{
    SG_TRY(sg_folder_make(run->folder, err));
    return sgi_lock(run, err);
}

static sg_status check_kind(const char *folder, sg_error *err)
{
    struct stat st;
    return stat(folder, &st) != 0 || S_ISDIR(st.st_mode) ? SG_OK
                                                         : sg_fail(err, SG_E_ARGUMENT, "%s is not a directory", folder);
}

/* Does the directory hold a run that these settings go on with? */
static sg_status may_go_on(const sgi_run *run, sg_error *err)
{
    const char *folder = run->folder;
    if (sgi_folder_finished(run))
        return sg_fail(err, SG_E_ARGUMENT, "%s holds a finished run: use --force to keep it as %s.1 and train again",
                       folder, folder);
    if (!sgi_folder_has(run, "config.yml"))
        return sg_fail(err, SG_E_ARGUMENT, "%s is not empty and holds no run: choose another directory", folder);
    SG_TRY(sgi_same_settings(run, err));
    return sgi_keeps_checkpoint(run, err);
}

/* Hashing reads the files, but that is little beside making a data set of them. What cannot be read is told by who does that. */
static sg_status check_held(const sgi_run *run, sg_error *err)
{
    bool empty = false;
    char *hashes = NULL;
    sweep(run->folder);
    SG_TRY(is_empty(run->folder, &empty, err));
    if (empty || run->group->options->force)
        return SG_OK;
    SG_TRY(may_go_on(run, err));
    sg_status status = SG_OK;
    if (sgi_hash_data(run->config, &hashes, NULL) == SG_OK)
        status = sgi_same_data(run, hashes, err);
    sg_free(hashes);
    return status;
}

sg_status sg_train_check_folder(const sg_config *config, const sg_train_options *options, sg_error *err)
{
    sgi_group g = {.options = options};
    sgi_run run = {.group = &g, .config = config, .c = sg_config_values(config), .folder = options->folder};
    SG_TRY(check_kind(options->folder, err));
    if (access(options->folder, F_OK) != 0)
        return SG_OK;
    sg_status status = sgi_lock(&run, err);
    if (status == SG_OK)
        status = check_held(&run, err);
    sgi_unlock(&g);
    return status;
}

sg_status sgi_folder_open(sgi_run *run, sg_error *err)
{
    const char *folder = run->folder;
    SG_TRY(check_kind(folder, err));
    SG_TRY(claim(run, err));
    sweep(folder);
    bool fresh = false;
    SG_TRY(is_empty(folder, &fresh, err));
    if (!fresh && run->group->options->force) {
        SG_TRY(move_aside(run, err));
        SG_TRY(claim(run, err));
        fresh = true;
    }
    SG_TRY(fresh ? create(run, err) : may_go_on(run, err));
    if (!fresh)
        SG_TRY(sgi_same_data(run, run->group->d->sha256, err));
    if (run->best_path)
        sweep(run->best_path);
    if (!fresh && sgi_folder_has(run, "checkpoint.safetensors"))
        SG_TRY(load_checkpoint(run, err));
    if (sgi_folder_has(run, "metrics.jsonl")) /* also of a run that was killed before its first checkpoint */
        SG_TRY(trim_log(run, err));
    return sgi_folder_status(run, "running", err);
}

/* ---- while it runs */

sg_status sgi_folder_checkpoint(sgi_run *run, sg_error *err)
{
    json_t *value = progress_json(&run->at);
    char *text = value ? sg_json_dump(value, false) : NULL;
    char *path = sgi_folder_path(run, "checkpoint.safetensors");
    sg_status status =
        text && path ? sg_checkpoint_write(path, run->store, text, err) : sg_fail(err, SG_E_MEMORY, "out of memory");
    json_decref(value);
    sg_free(text);
    sg_free(path);
    return status;
}

static void log_line(FILE *out, const sgi_run *run, const char *split, const char *name, double value, bool defined,
                     double wall)
{
    json_t *line = json_pack("{s:I, s:I, s:s, s:s, s:o, s:f}", "step", (json_int_t)(run->at.epoch * run->group->steps),
                             "epoch", (json_int_t)run->at.epoch, "split", split, "name", name, "value",
                             defined ? sg_json_number(value) : json_null(), "wall", round(1e6 * wall) / 1e6);
    sg_json_write(line, false, out);
    fputc('\n', out);
    json_decref(line);
}

static void log_epoch(FILE *out, const sgi_run *run, const sg_metrics *validation, double seconds)
{
    static const char *names[SGI_LOSSES] = {"bce", "energy", "nce"};
    int losses = run->c->loss.name == SG_LOSS_SEAL_DYNAMIC ? SGI_LOSSES : 1;
    for (int k = 0; k < losses; k++)
        log_line(out, run, "train", names[k], run->at.sums[k] / (double)run->group->steps, true, seconds);
    log_line(out, run, "train", "lr", sgi_schedule_rate(run, run->at.epoch * run->group->steps), true, seconds);
    for (int32_t k = 0; k < validation->count; k++)
        log_line(out, run, "validation", validation->metric[k].name, validation->metric[k].value,
                 validation->metric[k].defined, seconds);
}

sg_status sgi_folder_log(sgi_run *run, const sg_metrics *validation, double seconds, sg_error *err)
{
    char *path = sgi_folder_path(run, "metrics.jsonl"), *text = NULL;
    size_t size = 0;
    FILE *out = path ? open_memstream(&text, &size) : NULL;
    if (out)
        log_epoch(out, run, validation, seconds);
    bool whole = out && !ferror(out);
    if (out)
        whole &= fclose(out) == 0;
    sg_status status = whole ? sg_file_append(path, text, size, err) : sg_fail(err, SG_E_MEMORY, "out of memory");
    free(text);
    sg_free(path);
    return status;
}

/* The text without its `threads:` line: results do not depend on it. */
static void without_threads(char *text)
{
    char *at = strncmp(text, "threads:", 8) == 0 ? text : strstr(text, "\nthreads:");
    if (!at)
        return;
    at += *at == '\n';
    char *end = strchr(at, '\n');
    if (end)
        memmove(at, end + 1, strlen(end + 1) + 1);
    else
        *at = 0;
}

sg_status sgi_folder_model(sgi_run *run, sg_error *err)
{
    sg_graph *graph = sg_graph_new();
    char *encoding = sg_encoding_save(run->group->d->data->schema, run->group->d->preprocess),
         *recipe = sg_config_yaml(run->config);
    double *thresholds = sg_calloc(run->group->step.task.labels, sizeof *thresholds);
    sg_status status = graph && encoding && recipe && thresholds ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int64_t i = 0; status == SG_OK && i < run->group->step.task.labels; i++)
        thresholds[i] = run->c->train.threshold;
    if (status == SG_OK)
        status = sg_predict_build(graph, run->store, &run->group->step, err);
    if (status == SG_OK) {
        without_threads(recipe);
        sg_text_pair provenance[] = {{"version", SG_VERSION}, {"data", run->group->d->sha256}};
        sg_model model = {.graph = graph,
                          .store = run->store,
                          .task = "mlc",
                          .n_labels = run->group->step.task.labels,
                          .labels = (const char *const *)run->group->d->data->schema->label_names,
                          .thresholds = thresholds,
                          .encoding = encoding,
                          .recipe = recipe,
                          .provenance = provenance,
                          .n_provenance = 2};
        status = sg_model_write(run->best_path, &model, err);
    }
    sg_graph_free(graph);
    sg_free(encoding);
    sg_free(recipe);
    sg_free(thresholds);
    return status;
}

sg_status sgi_folder_restore_best(sgi_run *run, sg_error *err)
{
    sg_model *model;
    SG_TRY(sg_model_read(&model, run->best_path, err));
    sg_status status = SG_OK;
    for (int32_t i = 0; status == SG_OK && i < sg_store_count(model->store); i++) {
        const sg_entry *e = sg_store_peek(model->store, i);
        int64_t n = sg_shape_count(&e->shape);
        double *values = sg_calloc(n, sizeof *values);
        status =
            values ? sg_store_get(model->store, e->name, values, n, err) : sg_fail(err, SG_E_MEMORY, "out of memory");
        if (status == SG_OK)
            status = sg_store_set(run->store, e->name, values, n, err);
        sg_free(values);
    }
    sg_model_free(model);
    return status;
}

/* ---- ends */

char *sg_metrics_json(const sg_metrics *metrics)
{
    json_t *object = json_object();
    for (int32_t i = 0; object && i < metrics->count; i++) {
        const sg_metric *m = &metrics->metric[i];
        json_object_set_new(object, m->name, m->defined ? sg_json_number(m->value) : json_null());
    }
    char *text = object ? sg_json_dump(object, false) : NULL;
    json_decref(object);
    return text;
}

static json_t *metrics_value(const sg_metrics *metrics)
{
    char *text = sg_metrics_json(metrics);
    json_t *value = text ? json_loads(text, 0, NULL) : NULL;
    sg_free(text);
    return value;
}

/* metrics.json may have come to its place and only its folder not be synced: a run that failed must not be taken for a finished one. */
static void fail_to_finish(sgi_run *run)
{
    char *path = sgi_folder_path(run, "metrics.json");
    if (path)
        unlink(path);
    sg_free(path);
    if (!sgi_folder_finished(run))
        sgi_folder_status(run, "failed", NULL);
}

sg_status sgi_folder_finish(sgi_run *run, char *metrics, sg_error *err)
{
    sg_status status = metrics ? sgi_folder_status(run, "finished", err) : sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK)
        status = sgi_folder_write(run, "metrics.json", metrics, err);
    if (status != SG_OK)
        fail_to_finish(run);
    sg_free(metrics);
    return status;
}

char *sgi_result_json(const sg_train_result *result)
{
    json_t *value = json_pack("{s:o, s:o, s:I}", "best", metrics_value(&result->best), "test",
                              metrics_value(&result->test), "epoch", (json_int_t)result->epoch);
    char *text = value ? sg_json_dump(value, true) : NULL;
    json_decref(value);
    return text;
}

static void read_metrics(const json_t *object, sg_metrics *out)
{
    const char *name;
    const json_t *value;
    out->count = 0;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        if (out->count == SG_METRICS_MAX)
            break;
        sg_metric *m = &out->metric[out->count++];
        snprintf(m->name, sizeof m->name, "%s", name);
        m->defined = json_is_number(value);
        m->value = m->defined ? json_number_value(value) : 0;
    }
}

sg_status sgi_folder_result(const sgi_run *run, sg_train_result *result, sg_error *err)
{
    char *path = sgi_folder_path(run, "metrics.json"), *text = NULL;
    size_t size;
    sg_status status =
        path ? sg_file_read(path, SGI_TEXT_LIMIT, &text, &size, err) : sg_fail(err, SG_E_MEMORY, "out of memory");
    json_t *value = status == SG_OK ? json_loads(text, 0, NULL) : NULL, *best = NULL, *test = NULL;
    json_int_t epoch = 0;
    if (status == SG_OK &&
        (!value || json_unpack(value, "{s:o, s:o, s:I}", "best", &best, "test", &test, "epoch", &epoch) != 0))
        status = sg_fail_at(err, SG_E_DATA, path, 0, 0, "not the metrics of a finished run");
    if (status == SG_OK) {
        read_metrics(best, &result->best);
        read_metrics(test, &result->test);
        result->epoch = epoch;
        result->finished = true;
    }
    json_decref(value);
    sg_free(text);
    sg_free(path);
    return status;
}

/* null: it is not to be known. */
static json_t *working_directory(void)
{
    char *folder = getcwd(NULL, 0);
    json_t *value = sg_json_text(folder);
    free(folder);
    return value;
}

sg_status sgi_folder_status(sgi_run *run, const char *status, sg_error *err)
{
    char host[256] = "", when[64] = "";
    time_t now = time(NULL);
    struct tm utc;
    gethostname(host, sizeof host - 1);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    json_t *argv = json_array();
    for (int i = 0; argv && i < run->group->options->argc; i++)
        json_array_append_new(argv, sg_json_text(run->group->options->argv[i]));
    json_t *value =
        json_pack("{s:s, s:o, s:s, s:s, s:o, s:I, s:I, s:I, s:s, s:I}", "version", SG_VERSION, "argv", argv, "host",
                  host, "device", run->group->device, "data", sg_json_text(run->group->d->sha256), "rows",
                  (json_int_t)run->group->d->data->rows, "labels", (json_int_t)run->group->d->data->labels, "seed",
                  (json_int_t)run->c->seed, "status", status, "epoch", (json_int_t)run->at.epoch);
    if (value) {
        json_object_set_new(value, "updated", json_string(when));
        json_object_set_new(value, "directory", working_directory());
        json_object_set_new(value, "checkpoint", json_boolean(sgi_folder_has(run, "checkpoint.safetensors")));
    }
    return write_record(run, value, err);
}
