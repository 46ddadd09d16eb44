/* train_data.c - from the configuration's data section to rows that are ready to batch. */
#include <string.h>

#include "models/models.h"
#include "serialize/serialize.h"

/* The file list of a run: everything under one data set, training files first. */
typedef struct file_list {
    char **paths;
    int32_t count, train, validation;
} file_list;

static void free_files(file_list *files)
{
    for (int32_t i = 0; i < files->count; i++)
        sg_free(files->paths[i]);
    sg_free(files->paths);
}

static sg_status add_files(file_list *files, const sg_config *config, sg_texts names, sg_error *err)
{
    if (!names.count)
        return SG_OK;
    char **grown = sg_realloc(files->paths, (size_t)(files->count + names.count) * sizeof *grown);
    if (!grown)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    files->paths = grown;
    for (int64_t i = 0; i < names.count; i++) {
        char *path = sg_config_data_path(config, names.at[i]);
        if (!path)
            return sg_fail(err, SG_E_MEMORY, "out of memory");
        files->paths[files->count++] = path;
    }
    return SG_OK;
}

static sg_status list_files(file_list *files, const sg_config *config, sg_error *err)
{
    const sg_train_config *c = sg_config_values(config);
    if (c->data.files.count)
        return add_files(files, config, c->data.files, err);
    if (!c->data.train.count)
        return sg_config_fail(config, "data.files", err, "no data: give data.files, or data.train");
    SG_TRY(add_files(files, config, c->data.train, err));
    files->train = files->count;
    SG_TRY(add_files(files, config, c->data.validation, err));
    files->validation = files->count - files->train;
    return add_files(files, config, c->data.test, err);
}

/* The words of these options are those of the data section's enumerations, in the same order. */
static sg_status read_options(sg_read_options *o, char **xml, const sg_config *config, sg_error *err)
{
    const sg_train_config *c = sg_config_values(config);
    *o = sg_read_options_default();
    o->format = (sg_data_format)c->data.format;
    o->label_count = c->data.labels;
    o->positive = c->data.positive;
    o->arff_index_base = (int32_t)c->data.arff_index_base;
    o->index_base = (int32_t)c->data.index_base;
    o->features = c->data.features_count;
    o->labels = c->data.labels_count;
    o->keep_blank = c->data.keep_blank;
    o->close_hierarchy = c->data.close_hierarchy;
    o->nominal = (sg_nominal_rule)c->data.nominal;
    o->layout = (sg_data_layout)c->data.layout;
    if (c->data.labels_xml && !(*xml = sg_config_data_path(config, c->data.labels_xml)))
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    o->labels_xml = *xml;
    return SG_OK;
}

static sg_status split_rows(sg_training_data *d, const sg_config *config, const file_list *files, sg_error *err)
{
    const sg_train_config *c = sg_config_values(config);
    uint64_t seed = (uint64_t)c->data.split_seed;
    if (files && !c->data.files.count)
        return sg_split_by_file(&d->split, d->data, files->train, files->validation,
                                files->validation ? 0 : c->data.dev_fraction, seed, err);
    if (files && c->data.split) {
        char *path = sg_config_data_path(config, c->data.split);
        sg_status status = path ? sg_split_read(&d->split, path, d->data, err)
                                : sg_fail(err, SG_E_MEMORY, "out of memory");
        sg_free(path);
        return status;
    }
    if (c->data.fractions.count != 3)
        return sg_config_fail(config, "data.fractions", err, "data.fractions needs three numbers that sum to 1");
    return sg_split_stratified(&d->split, d->data, c->data.fractions.at, seed, err);
}

static sg_status preprocess(sg_training_data *d, const sg_config *config, sg_error *err)
{
    const sg_train_config *c = sg_config_values(config);
    if (d->split.count[SG_TRAIN] == 0 || d->split.count[SG_VALIDATION] == 0)
        return sg_fail(err, SG_E_DATA, "%s: no %s rows with labels", d->data->n_files ? d->data->files[0] : "data",
                       d->split.count[SG_TRAIN] ? "validation" : "training");
    SG_TRY(sg_preprocess_fit(&d->preprocess, d->data, d->split.rows[SG_TRAIN], d->split.count[SG_TRAIN],
                             (sg_impute)c->data.impute, (sg_scaling)c->data.scaling, err));
    return sg_preprocess_apply(d->preprocess, d->data, err);
}

/* "name sha256" a line, names without their folders, so that equal data gives equal text anywhere. */
static sg_status hash_files(sg_training_data *d, const file_list *files, sg_error *err)
{
    size_t size = 1;
    for (int32_t i = 0; i < files->count; i++)
        size += strlen(files->paths[i]) + 70;
    if (!(d->sha256 = sg_calloc((int64_t)size, 1)))
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int32_t i = 0; i < files->count; i++) {
        char hex[65];
        const char *slash = strrchr(files->paths[i], '/');
        SG_TRY(sg_file_sha256(files->paths[i], hex, err));
        size_t at = strlen(d->sha256);
        snprintf(d->sha256 + at, size - at, "%s %s\n", slash ? slash + 1 : files->paths[i], hex);
    }
    return SG_OK;
}

static sg_status load(sg_training_data *d, const sg_config *config, file_list *files, char **xml, sg_error *err)
{
    sg_read_options options;
    SG_TRY(list_files(files, config, err));
    SG_TRY(read_options(&options, xml, config, err));
    SG_TRY(sg_dataset_read(&d->data, (const char *const *)files->paths, files->count, &options, err));
    SG_TRY(split_rows(d, config, files, err));
    SG_TRY(preprocess(d, config, err));
    return hash_files(d, files, err);
}

static sg_status finish(sg_status status, sg_training_data *d, sg_training_data **out)
{
    if (status != SG_OK)
        sg_training_data_free(d);
    else
        *out = d;
    return status;
}

sg_status sg_training_data_load(sg_training_data **out, const sg_config *config, sg_error *err)
{
    file_list files = {0};
    char *xml = NULL;
    sg_training_data *d = sg_calloc(1, sizeof *d);
    sg_status status = d ? load(d, config, &files, &xml, err) : sg_fail(err, SG_E_MEMORY, "out of memory");
    free_files(&files);
    sg_free(xml);
    return finish(status, d, out);
}

sg_status sg_training_data_take(sg_training_data **out, const sg_config *config, sg_dataset *data, sg_error *err)
{
    sg_training_data *d = sg_calloc(1, sizeof *d);
    if (!d) {
        sg_dataset_free(data);
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    }
    d->data = data;
    sg_status status = split_rows(d, config, NULL, err);
    if (status == SG_OK)
        status = preprocess(d, config, err);
    if (status == SG_OK && !(d->sha256 = sg_strdup("")))
        status = sg_fail(err, SG_E_MEMORY, "out of memory");
    return finish(status, d, out);
}

void sg_training_data_free(sg_training_data *d)
{
    if (!d)
        return;
    sg_dataset_free(d->data);
    sg_split_free(&d->split);
    sg_preprocess_free(d->preprocess);
    sg_free(d->sha256);
    sg_free(d);
}

sg_step_options sg_step_options_of(const sg_train_config *c, const sg_dataset *data)
{
    sg_step_options o = {.loss = (sg_loss)c->loss.name, .batch = c->train.batch, .known = data->unknown_indptr != NULL};
    o.capacity = data->sparse ? sg_dataset_max_nnz(data, c->train.batch) : 0;
    o.task = (sg_mlc_sizes){.inputs = data->features, .labels = data->labels, .layers = (int32_t)c->model.hidden.count,
                            .hidden = c->model.hidden.at, .dropout = c->model.dropout.at,
                            .activation = (sg_activation)c->model.activation};
    o.energy = o.task;
    o.energy.layers = (int32_t)c->energy.hidden.count;
    o.energy.hidden = c->energy.hidden.at;
    o.energy.dropout = c->energy.dropout.at;
    o.energy.global = c->energy.global;
    o.samples = c->loss.samples;
    o.n_energy = c->loss.n_energy;
    o.n_task = c->loss.n_task;
    o.energy_weight = c->loss.energy_weight;
    o.bce_weight = c->loss.bce_weight;
    o.clip = c->train.clip;
    o.task_adam = sg_adam_defaults(c->train.weight_decay);
    o.energy_adam = sg_adam_defaults(c->train.energy_weight_decay);
    return o;
}
