/* trained.c - a trained model in use: its folder, the data it reads, its predictions. */
#include "models/data_internal.h"
#include "models/plan_batch_internal.h"
#include "serialize/serialize.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void sg_dataset_gold(const sg_dataset *data, const int64_t *rows, int64_t n, float *y, float *known)
{
    int64_t L = data->labels;
    memset(y, 0, (size_t)(n * L) * sizeof *y);
    for (int64_t i = 0; i < n; i++) {
        int64_t row = rows ? rows[i] : i;
        for (int64_t k = data->label_indptr[row]; k < data->label_indptr[row + 1]; k++)
            y[i * L + data->label_index[k]] = 1;
        for (int64_t k = 0; known && k < L; k++)
            known[i * L + k] = 1;
        for (int64_t k = known && data->unknown_indptr ? data->unknown_indptr[row] : 0;
             known && data->unknown_indptr && k < data->unknown_indptr[row + 1]; k++)
            known[i * L + data->unknown_index[k]] = 0;
    }
}

/* `folder`/model if that is there (a run directory), else `folder`. */
static char *model_folder(const char *folder)
{
    struct stat st;
    size_t size = strlen(folder) + sizeof "/model";
    char *path = sg_alloc(size);
    if (!path)
        return NULL;
    snprintf(path, size, "%s/model", folder);
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        snprintf(path, size, "%s", folder);
    return path;
}

static bool holds(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = sg_alloc(size);
    struct stat st;
    if (path)
        snprintf(path, size, "%s/%s", folder, name);
    bool found = path && stat(path, &st) == 0;
    sg_free(path);
    return found;
}

static sg_status read_thresholds(sg_trained *t, sg_error *err)
{
    t->labels = t->model->n_labels;
    t->thresholds = sg_calloc(t->labels ? t->labels : 1, sizeof *t->thresholds);
    if (!t->thresholds)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int64_t i = 0; i < t->labels; i++)
        t->thresholds[i] = t->model->thresholds ? (float)t->model->thresholds[i] : 0.5f;
    return SG_OK;
}

/* What was named may be any folder, or a data file. One that cannot be searched is told by who reads it. */
static sg_status check_folder(const char *folder, const char *model, sg_error *err)
{
    struct stat st;
    if (holds(model, "model.safetensors") || holds(model, "model.pb"))
        return SG_OK;
    if (stat(folder, &st) != 0)
        return sg_fail(err, SG_E_IO, "cannot open %s: %s: give a run folder or a model folder", folder,
                       strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return sg_fail(err, SG_E_IO, "%s is a file: give a run folder or a model folder", folder);
    return access(model, X_OK) != 0
               ? SG_OK
               : sg_fail(err, SG_E_IO,
                         "%s is neither a run folder nor a model folder: there is no model.safetensors in it", folder);
}

static sg_status read_folder(sg_trained *t, const char *folder, sg_error *err)
{
    if (!(t->folder = model_folder(folder)))
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    if (holds(folder, "config.yml") && !holds(t->folder, "model.safetensors"))
        return sg_fail(err, SG_E_IO,
                       "%s is a run without a model: its first epoch is not over, or it has one for each seed, "
                       "in %s/seed-N",
                       folder, folder);
    SG_TRY(check_folder(folder, t->folder, err));
    return sg_model_read(&t->model, t->folder, err);
}

static sg_status read_encoding(sg_trained *t, sg_error *err)
{
    const char *encoding = t->model->encoding;
    SG_TRY(sg_encoding_load(encoding, strlen(encoding), &t->schema, &t->preprocess, err));
    if (t->schema->n_labels != t->model->n_labels)
        return sg_fail_at(err, SG_E_DATA, t->folder, 0, 0, "the encoding has %lld labels, the model %lld",
                          (long long)t->schema->n_labels, (long long)t->model->n_labels);
    return SG_OK;
}

static bool is_trained(const sg_trained *t) { return strcmp(t->model->task, "mlc") == 0; }

static sg_status open_any(sg_trained *t, const char *folder, sg_error *err)
{
    SG_TRY(read_folder(t, folder, err));
    if (is_trained(t))
        SG_TRY(read_encoding(t, err));
    return read_thresholds(t, err);
}

static sg_status open_trained(sg_trained *t, const char *folder, sg_error *err)
{
    SG_TRY(open_any(t, folder, err));
    if (!is_trained(t))
        return sg_fail(err, SG_E_UNSUPPORTED,
                       "%s is not a model that `train` left: its task is '%.40s', not mlc (`model info` tells what it "
                       "holds)",
                       t->folder, t->model->task);
    return SG_OK;
}

static sg_status open_by(sg_status (*open)(sg_trained *, const char *, sg_error *), sg_trained **out,
                         const char *folder, sg_error *err)
{
    sg_trained *t = sg_calloc(1, sizeof *t);
    sg_status status = t ? open(t, folder, err) : sg_fail(err, SG_E_MEMORY, "out of memory");
    *out = t;
    if (status != SG_OK) {
        sg_trained_free(t);
        *out = NULL;
    }
    return status;
}

sg_status sg_trained_open(sg_trained **out, const char *folder, sg_error *err)
{
    return open_by(open_trained, out, folder, err);
}

sg_status sg_trained_open_any(sg_trained **out, const char *folder, sg_error *err)
{
    return open_by(open_any, out, folder, err);
}

void sg_trained_free(sg_trained *t)
{
    if (!t)
        return;
    sg_model_free(t->model);
    sg_schema_free(t->schema);
    sg_preprocess_free(t->preprocess);
    sg_free(t->thresholds);
    sg_free(t->folder);
    sg_free(t);
}

/* How rows are to be understood, of the settings that the model was trained with; the schema tells what their columns are. */
static sg_status read_options(const sg_trained *t, sg_read_options *out, sg_error *err)
{
    sg_config *recipe;
    SG_TRY(sg_config_parse(&recipe, t->model->recipe, strlen(t->model->recipe), "recipe of the model", err));
    const sg_train_config *c = sg_config_values(recipe);
    *out = sg_read_options_default();
    out->schema = t->schema;
    out->keep_blank = c->data.keep_blank;
    out->index_base = (int32_t)c->data.index_base;
    out->label_base = (int32_t)c->data.label_base;
    out->arff_index_base = (int32_t)c->data.arff_index_base;
    sg_config_free(recipe);
    return SG_OK;
}

sg_status sg_trained_read(const sg_trained *t, const char *const *files, int32_t n, sg_dataset **data, sg_error *err)
{
    sg_read_options options;
    *data = NULL;
    SG_TRY(read_options(t, &options, err));
    SG_TRY(sg_dataset_read(data, files, n, &options, err));
    sg_status status = t->preprocess ? sg_preprocess_apply(t->preprocess, *data, err) : SG_OK;
    if (status != SG_OK) {
        sg_dataset_free(*data);
        *data = NULL;
    }
    return status;
}

/* Every row of the data when no list is given. */
static int64_t *first_rows(int64_t n)
{
    int64_t *rows = sg_calloc(n, sizeof *rows);
    for (int64_t i = 0; rows && i < n; i++)
        rows[i] = i;
    return rows;
}

/* The recipe's own sizes, not `config`'s, shape the net. */
static sg_status predict(const sg_trained *t, const sg_train_config *device, sg_store *store, const sg_dataset *data,
                         const int64_t *rows, int64_t n, float *p, sg_error *err)
{
    sg_config *recipe;
    sg_predictor *predictor = NULL;
    SG_TRY(sg_config_parse(&recipe, t->model->recipe, strlen(t->model->recipe), "recipe of the model", err));
    sg_step_options options = sg_step_options_of(sg_config_values(recipe), data);
    options.task.labels = t->labels;
    sg_status status = sg_predictor_new(&predictor, store, &options, sg_config_backend(device), device->precision,
                                        (int32_t)device->threads, err);
    if (status == SG_OK)
        status = sg_predictor_run(predictor, data, rows, n, p, err);
    sg_predictor_free(predictor);
    sg_config_free(recipe);
    return status;
}

sg_status sg_trained_predict(const sg_trained *t, const sg_config *config, const sg_dataset *data, const int64_t *rows,
                             int64_t n, float *p, sg_error *err)
{
    const sg_train_config *v = sg_config_values(config);
    sg_store *store = sg_store_copy(t->model->store, sg_config_real(v));
    int64_t *all = rows ? NULL : first_rows(n);
    sg_status status = store && (rows || all) ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK)
        status = predict(t, v, store, data, rows ? rows : all, n, p, err);
    sg_store_free(store);
    sg_free(all);
    return status;
}
