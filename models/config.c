/* config.c - resolving a configuration: defaults < extends < file < environment < --set < named flags. */
#include "models/config_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static sg_status assign_text(sg_config *config, const sg_option *option, const char *text, sg_place place,
                             sg_error *err)
{
    sg_raw_value value;
    SG_TRY(sg_config_split(config, option, text, place, &value, err));
    return sg_config_assign(config, option, &value, err);
}

static sg_status new_config(sg_config **out, sg_error *err)
{
    int32_t count = sg_option_count();
    sg_config *config = sg_calloc(1, sizeof *config);
    *out = config;
    if (!config)
        return sg_config_no_memory(err);
    config->places = sg_config_alloc(config, count, sizeof *config->places);
    config->origins = sg_config_alloc(config, count, sizeof *config->origins);
    if (!config->places || !config->origins)
        return sg_config_no_memory(err);
    for (int32_t i = 0; i < count; i++)
        SG_TRY(assign_text(config, sg_option_at(i), sg_option_at(i)->initial, (sg_place){0}, err));
    return SG_OK;
}

static bool reads(const sg_config_request *request, const sg_option *option)
{
    return !request->reads || request->reads(request->user, option->key);
}

/* A variable that differs from that of an option which is read by a slip is refused, since nothing else would tell the user. */
static sg_status check_misspelt(sg_config *config, const sg_config_request *request, const char *variable,
                                sg_error *err)
{
    char name[128], known[128], nearest[128] = "";
    size_t length = strcspn(variable, "=");
    if (length >= sizeof name)
        return SG_OK;
    memcpy(name, variable, length);
    name[length] = 0;
    for (int32_t i = 0; i < sg_option_count(); i++) {
        int32_t distance = sg_edit_distance(name, sg_option_environment(sg_option_at(i), known, sizeof known), 2);
        if (distance == 0)
            return SG_OK; /* SEALGRAPH_SEEDS is near to SEALGRAPH_SEED as well */
        if (distance <= 2 && !nearest[0] && reads(request, sg_option_at(i)))
            memcpy(nearest, known, sizeof nearest);
    }
    if (!nearest[0])
        return SG_OK;
    const char *text = sg_config_text(config, name, length);
    return sg_config_fail_at((sg_place){text, 0, 0}, err, "unknown variable (did you mean %s?)", nearest);
}

static sg_status apply_environment(sg_config *config, const sg_config_request *request, sg_error *err)
{
    char name[128];
    for (char **at = environ; at && *at; at++)
        if (strncmp(*at, "SEALGRAPH_", 10) == 0)
            SG_TRY(check_misspelt(config, request, *at, err));
    for (int32_t i = 0; i < sg_option_count(); i++) {
        const sg_option *option = sg_option_at(i);
        const char *value = getenv(sg_option_environment(option, name, sizeof name));
        if (!value || !reads(request, option))
            continue;
        const char *label = sg_config_text(config, name, strlen(name));
        if (!label)
            return sg_config_no_memory(err);
        SG_TRY(assign_text(config, option, value, (sg_place){label, 0, 0}, err));
    }
    return SG_OK;
}

static sg_status apply_settings(sg_config *config, const sg_setting *settings, int32_t count, sg_error *err)
{
    for (int32_t i = 0; i < count; i++) {
        sg_place place = {sg_config_text(config, settings[i].label, strlen(settings[i].label)), 0, 0};
        const sg_option *option = sg_option_find(settings[i].key);
        if (!place.source)
            return sg_config_no_memory(err);
        if (!option)
            return sg_config_unknown(settings[i].key, place, err);
        SG_TRY(assign_text(config, option, settings[i].value, place, err));
    }
    return SG_OK;
}

/* One rate a layer. A single rate stands for every layer but the last, as in the papers' settings. */
static sg_status spread_dropout(sg_config *config, const char *key, sg_reals *dropout, int64_t layers, sg_error *err)
{
    if (dropout->count == layers)
        return SG_OK;
    if (dropout->count != 1)
        return sg_config_fail(config, key, err, "%s has %lld rates for %lld layers", key, (long long)dropout->count,
                              (long long)layers);
    double *rates = sg_config_alloc(config, layers, sizeof *rates);
    if (!rates)
        return sg_config_no_memory(err);
    for (int64_t i = 0; i + 1 < layers; i++)
        rates[i] = dropout->at[0];
    *dropout = (sg_reals){layers, rates};
    return SG_OK;
}

static sg_status check_fractions(const sg_config *config, sg_error *err)
{
    const sg_reals *f = &config->values.data.fractions;
    double sum = 0;
    for (int64_t i = 0; i < f->count; i++)
        sum += f->at[i];
    if (f->count != 3 || fabs(sum - 1) > 1e-9)
        return sg_config_fail(config, "data.fractions", err, "data.fractions must be three numbers that sum to 1");
    return SG_OK;
}

/* data.files are divided, so that nothing is left to say about files of one part. */
static sg_status check_files(const sg_config *config, sg_error *err)
{
    const sg_train_config *v = &config->values;
    const struct {
        const char *key;
        int64_t count;
    } parts[] = {{"data.train", v->data.train.count},
                 {"data.validation", v->data.validation.count},
                 {"data.test", v->data.test.count}};
    for (int i = 0; i < 3 && v->data.files.count > 0; i++)
        if (parts[i].count > 0)
            return sg_config_fail(config, parts[i].key, err,
                                  "data.files and %s exclude each other: empty one of them ([])", parts[i].key);
    return SG_OK;
}

/* What depends on several keys. */
static sg_status finish(sg_config *config, sg_error *err)
{
    sg_train_config *v = &config->values;
    if (v->model.hidden.count == 0)
        return sg_config_fail(config, "model.hidden", err, "model.hidden must have at least one layer");
    if (v->energy.hidden.count == 0)
        v->energy.hidden = v->model.hidden;
    SG_TRY(spread_dropout(config, "model.dropout", &v->model.dropout, v->model.hidden.count, err));
    if (v->energy.dropout.count == 0 && v->energy.hidden.count == v->model.hidden.count)
        v->energy.dropout = v->model.dropout;
    if (v->energy.dropout.count == 0)
        return sg_config_fail(config, "energy.hidden", err,
                              "energy.hidden has other layers than model.hidden: energy.dropout must be given");
    SG_TRY(spread_dropout(config, "energy.dropout", &v->energy.dropout, v->energy.hidden.count, err));
    SG_TRY(check_files(config, err));
    return check_fractions(config, err);
}

static sg_status resolve(sg_config *config, const sg_config_request *request, sg_error *err)
{
    if (request->text)
        SG_TRY(sg_config_read_text(config, request->text, strlen(request->text), request->file, err));
    else if (request->file)
        SG_TRY(sg_config_read_file(config, request->file, request->recipes, err));
    if (request->environment)
        SG_TRY(apply_environment(config, request, err));
    SG_TRY(apply_settings(config, request->sets, request->n_sets, err));
    SG_TRY(apply_settings(config, request->flags, request->n_flags, err));
    return finish(config, err);
}

static sg_status keep_if_ok(sg_config **out, sg_status status)
{
    if (status != SG_OK) {
        sg_config_free(*out);
        *out = NULL;
    }
    return status;
}

sg_status sg_config_load(sg_config **out, const sg_config_request *request, sg_error *err)
{
    sg_status status = new_config(out, err);
    if (status == SG_OK)
        status = resolve(*out, request, err);
    return keep_if_ok(out, status);
}

sg_status sg_config_parse(sg_config **out, const char *text, size_t size, const char *name, sg_error *err)
{
    sg_status status = new_config(out, err);
    if (status == SG_OK)
        status = sg_config_read_text(*out, text, size, name, err);
    if (status == SG_OK)
        status = finish(*out, err);
    return keep_if_ok(out, status);
}

const sg_train_config *sg_config_values(const sg_config *config) { return &config->values; }

const char *sg_config_backend(const sg_train_config *values) { return values->device; }

sg_dtype sg_config_real(const sg_train_config *values)
{
    return strcmp(values->device, "reference") == 0 ? SG_F64 : SG_F32;
}

const char *sg_config_origin(const sg_config *config, const char *key)
{
    const sg_option *option = sg_option_find(key);
    return option ? config->origins[sg_option_index(option)] : "";
}

sg_status sg_config_fail(const sg_config *config, const char *key, sg_error *err, const char *fmt, ...)
{
    char text[SG_ERROR_TEXT];
    const sg_option *option = sg_option_find(key);
    sg_place place = option ? config->places[sg_option_index(option)] : (sg_place){0};
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return sg_config_fail_at(place, err, "%s", text);
}

char *sg_config_data_path(const sg_config *config, const char *file)
{
    const char *folder = config->values.data.dir;
    if (file[0] == '/' || !folder || strcmp(file, "-") == 0)
        return sg_strdup(file);
    size_t size = strlen(folder) + strlen(file) + 2;
    char *path = sg_alloc(size);
    if (path)
        snprintf(path, size, "%s/%s", folder, file);
    return path;
}
