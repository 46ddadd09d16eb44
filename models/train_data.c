/* train_data.c - from the configuration's data section to rows that are ready to batch. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models/config_internal.h"
#include "models/train_internal.h"
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
    const char *path = d->data->n_files ? d->data->files[0] : "data";
    if (d->split.count[SG_TRAIN] == 0)
        return sg_fail_at(err, SG_E_DATA, path, 0, 0, "no training rows with labels%s",
                          d->data->weights ? " and a weight above 0" : "");
    if (d->split.count[SG_VALIDATION] == 0)
        return sg_fail_at(err, SG_E_DATA, path, 0, 0, "no validation rows with labels");
    SG_TRY(sg_preprocess_fit(&d->preprocess, d->data, d->split.rows[SG_TRAIN], d->split.count[SG_TRAIN],
                             (sg_impute)c->data.impute, scaling_of(c->data.scaling, d->data), err));
    return sg_preprocess_apply(d->preprocess, d->data, err);
}

typedef sg_status source_fn(void *user, const char *path, sg_error *err);

/* The files of the data, its label list and its division. */
static sg_status each_source(const sg_config *config, source_fn *visit, void *user, sg_error *err)
{
    const sg_train_config *c = sg_config_values(config);
    const char *beside[] = {c->data.labels_xml, c->data.files.count ? c->data.split : NULL}, **files;
    int64_t count;
    SG_TRY(sg_config_data_files(config, &files, &count, err));
    sg_status status = SG_OK;
    for (int64_t i = 0; status == SG_OK && i < count + 2; i++) {
        const char *name = i < count ? files[i] : beside[i - count];
        char *path = name ? sg_config_data_path(config, name) : NULL;
        if (path)
            status = visit(user, path, err);
        else if (name)
            status = sg_fail(err, SG_E_MEMORY, "out of memory");
        sg_free(path);
    }
    sg_free(files);
    return status;
}

/* A file that is not there is told by who reads it. */
static sg_status check_plain(void *unused, const char *path, sg_error *err)
{
    struct stat st;
    (void)unused;
    if (strcmp(path, "-") != 0 && (stat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return SG_OK;
    return sg_fail_at(err, SG_E_ARGUMENT, path, 0, 0,
                      "training reads a file twice, for its hash: it must be a plain one");
}

static sg_status add_hash(void *out, const char *path, sg_error *err)
{
    char hex[65];
    const char *slash = strrchr(path, '/');
    SG_TRY(sg_file_sha256(path, hex, err));
    fprintf(out, "%s %s\n", slash ? slash + 1 : path, hex);
    return SG_OK;
}

/* Names are without their folders, so that equal data gives equal text anywhere. */
sg_status sgi_hash_data(const sg_config *config, char **out, sg_error *err)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    *out = NULL;
    if (!stream)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_status status = each_source(config, check_plain, NULL, err);
    if (status == SG_OK)
        status = each_source(config, add_hash, stream, err);
    bool whole = !ferror(stream);
    whole &= fclose(stream) == 0;
    if (status == SG_OK && (!whole || !(*out = sg_strdup(text))))
        status = sg_fail(err, SG_E_MEMORY, "out of memory");
    free(text);
    return status;
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
    sg_status status = hashed ? each_source(config, check_plain, NULL, err) : SG_OK;
    if (status == SG_OK)
        status = sg_config_read_data(config, &d->data, &d->split, err);
    if (status == SG_OK && hashed)
        status = sgi_hash_data(config, &d->sha256, err);
    else if (status == SG_OK)
        status = no_hash(d, err);
    if (status == SG_OK)
        status = preprocess(d, config, err);
    if (status == SG_OK)
        sg_dataset_note_absent(d->data, d->split.rows[SG_TRAIN], d->split.count[SG_TRAIN]);
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
