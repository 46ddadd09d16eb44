/* train_data.c - from the configuration's data section to rows that are ready to batch. */
#include <string.h>
#include <sys/stat.h>

#include "models/config_internal.h"
#include "models/models.h"
#include "serialize/serialize.h"

/* Dense measurements come in any unit; flags, counts of words and their sparse rows are left as they are. */
static sg_scaling scaling_of(int32_t choice, const sg_dataset *data)
{
    if (choice > 0)
        return (sg_scaling)(choice - 1);
    bool numeric = false;
    for (int64_t k = 0; k < data->schema->n_columns; k++)
        numeric |= data->schema->columns[k].kind == SG_COLUMN_NUMERIC;
    return numeric && !data->sparse ? SG_SCALING_STANDARDISE : SG_SCALING_NONE;
}

static sg_status preprocess(sg_training_data *d, const sg_config *config, sg_error *err)
{
    const sg_train_config *c = sg_config_values(config);
    if (d->split.count[SG_TRAIN] == 0 || d->split.count[SG_VALIDATION] == 0)
        return sg_fail_at(err, SG_E_DATA, d->data->n_files ? d->data->files[0] : "data", 0, 0, "no %s rows with labels",
                          d->split.count[SG_TRAIN] ? "validation" : "training");
    SG_TRY(sg_preprocess_fit(&d->preprocess, d->data, d->split.rows[SG_TRAIN], d->split.count[SG_TRAIN],
                             (sg_impute)c->data.impute, scaling_of(c->data.scaling, d->data), err));
    return sg_preprocess_apply(d->preprocess, d->data, err);
}

static sg_status add_hash(char *text, size_t size, const char *file, sg_error *err)
{
    char hex[65];
    struct stat st;
    const char *slash = strrchr(file, '/');
    size_t at = strlen(text);
    if (stat(file, &st) != 0 || !S_ISREG(st.st_mode))
        return sg_fail_at(err, SG_E_ARGUMENT, file, 0, 0,
                          "training reads a file twice, for its hash: it must be a plain one");
    SG_TRY(sg_file_sha256(file, hex, err));
    snprintf(text + at, size - at, "%s %s\n", slash ? slash + 1 : file, hex);
    return SG_OK;
}

/* "name sha256" a line for the data, its label list and its division; names without their folders, so that equal data gives equal text
 * anywhere. */
static sg_status hash_files(sg_training_data *d, const sg_config *config, sg_error *err)
{
    const sg_train_config *c = sg_config_values(config);
    const char *beside[] = {c->data.labels_xml, c->data.files.count ? c->data.split : NULL};
    size_t size = 1;
    for (int32_t i = 0; i < d->data->n_files; i++)
        size += strlen(d->data->files[i]) + 70;
    for (int k = 0; k < 2; k++)
        size += beside[k] ? strlen(beside[k]) + 70 : 0;
    if (!(d->sha256 = sg_calloc((int64_t)size, 1)))
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int32_t i = 0; i < d->data->n_files; i++)
        SG_TRY(add_hash(d->sha256, size, d->data->files[i], err));
    for (int k = 0; k < 2; k++) {
        char *path = beside[k] ? sg_config_data_path(config, beside[k]) : NULL;
        sg_status status = path ? add_hash(d->sha256, size, path, err) : SG_OK;
        if (beside[k] && !path)
            status = sg_fail(err, SG_E_MEMORY, "out of memory");
        sg_free(path);
        SG_TRY(status);
    }
    return SG_OK;
}

static sg_status no_hash(sg_training_data *d, sg_error *err)
{
    d->sha256 = sg_strdup("");
    return d->sha256 ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
}

static sg_status finish(sg_status status, sg_training_data *d, sg_training_data **out)
{
    if (status != SG_OK)
        sg_training_data_free(d);
    else
        *out = d;
    return status;
}

sg_status sg_training_data_load(sg_training_data **out, const sg_config *config, bool hashed, sg_error *err)
{
    sg_training_data *d = sg_calloc(1, sizeof *d);
    if (!d)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_status status = sg_config_read_data(config, &d->data, &d->split, err);
    if (status == SG_OK && hashed)
        status = hash_files(d, config, err);
    else if (status == SG_OK)
        status = no_hash(d, err);
    if (status == SG_OK)
        status = preprocess(d, config, err);
    return finish(status, d, out);
}

sg_status sg_training_data_take(sg_training_data **out, const sg_config *config, sg_dataset *data, sg_error *err)
{
    const sg_train_config *c = sg_config_values(config);
    sg_training_data *d = sg_calloc(1, sizeof *d);
    if (!d) {
        sg_dataset_free(data);
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    }
    d->data = data;
    sg_status status = sg_split_stratified(&d->split, data, c->data.fractions.at, (uint64_t)c->data.split_seed, err);
    if (status == SG_OK)
        status = preprocess(d, config, err);
    if (status == SG_OK)
        status = no_hash(d, err);
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
    o.task = (sg_mlc_sizes){.inputs = data->features,
                            .labels = data->labels,
                            .layers = (int32_t)c->model.hidden.count,
                            .hidden = c->model.hidden.at,
                            .dropout = c->model.dropout.at,
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
