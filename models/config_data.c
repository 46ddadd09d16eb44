/* config_data.c - the data sets that a configuration names. */
#include "models/config_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static sg_read_options read_options(const sg_config *config, const char *labels_xml)
{
    const sg_train_config *v = sg_config_values(config);
    sg_read_options options = sg_read_options_default();
    options.format = (sg_data_format)v->data.format;
    options.labels_xml = labels_xml;
    options.label_count = v->data.labels;
    options.positive = v->data.positive;
    options.arff_index_base = (int32_t)v->data.arff_index_base;
    options.index_base = (int32_t)v->data.index_base;
    options.label_base = (int32_t)v->data.label_base;
    options.features = v->data.features_count;
    options.labels = v->data.labels_count;
    options.keep_blank = v->data.keep_blank;
    options.close_hierarchy = v->data.close_hierarchy;
    options.layout = (sg_data_layout)v->data.layout;
    options.nominal = (sg_nominal_rule)v->data.nominal;
    return options;
}

static sg_status read_paths(const sg_config *config, char **paths, int64_t count, sg_dataset **data, sg_error *err)
{
    const char *xml = sg_config_values(config)->data.labels_xml;
    char *xml_path = xml ? sg_config_data_path(config, xml) : NULL;
    if (xml && !xml_path)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_read_options options = read_options(config, xml_path);
    sg_status status = sg_dataset_read(data, (const char *const *)paths, (int32_t)count, &options, err);
    sg_free(xml_path);
    return status;
}

static sg_status check_folder(const sg_config *config, sg_error *err)
{
    const char *folder = sg_config_values(config)->data.dir;
    struct stat st;
    if (folder && stat(folder, &st) != 0)
        return sg_fail_at(err, SG_E_IO, folder, 0, 0, "cannot open the folder that is data.dir: %s", strerror(errno));
    if (folder && !S_ISDIR(st.st_mode))
        return sg_fail_at(err, SG_E_IO, folder, 0, 0, "data.dir is no folder");
    return SG_OK;
}

sg_status sg_config_read_files(const sg_config *config, const char *const *files, int64_t count, sg_dataset **data,
                               sg_error *err)
{
    SG_TRY(sg_config_check_reading(config, err));
    SG_TRY(check_folder(config, err));
    char **paths = sg_calloc(count, sizeof *paths);
    sg_status status = paths ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int64_t i = 0; status == SG_OK && i < count; i++) {
        paths[i] = sg_config_data_path(config, files[i]);
        if (!paths[i])
            status = sg_fail(err, SG_E_MEMORY, "out of memory");
    }
    if (status == SG_OK)
        status = read_paths(config, paths, count, data, err);
    for (int64_t i = 0; paths && i < count; i++)
        sg_free(paths[i]);
    sg_free(paths);
    return status;
}

static sg_status divide(const sg_config *config, const sg_dataset *data, sg_split *split, sg_error *err)
{
    const sg_train_config *v = sg_config_values(config);
    if (v->data.files.count == 0) {
        double share = v->data.validation.count > 0 ? 0 : v->data.dev_fraction;
        return sg_split_by_file(split, data, (int32_t)v->data.train.count, (int32_t)v->data.validation.count, share,
                                (uint64_t)v->data.split_seed, err);
    }
    if (!v->data.split)
        return sg_split_stratified(split, data, v->data.fractions.at, (uint64_t)v->data.split_seed, err);
    char *path = sg_config_data_path(config, v->data.split);
    if (!path)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_status status = sg_split_read(split, path, data, err);
    sg_free(path);
    return status;
}

sg_status sg_config_data_files(const sg_config *config, const char ***files, int64_t *count, sg_error *err)
{
    const sg_train_config *v = sg_config_values(config);
    const sg_texts *groups[] = {&v->data.files, &v->data.train, &v->data.validation, &v->data.test};
    int64_t total = 0;
    *count = 0;
    if (v->data.files.count + v->data.train.count == 0)
        return sg_fail(err, SG_E_CONFIG, "no data: give data.train (--train FILE) or data.files");
    for (int i = 0; i < 4; i++)
        total += groups[i]->count;
    if (!(*files = sg_calloc(total, sizeof **files)))
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int i = 0; i < (v->data.files.count > 0 ? 1 : 4); i++)
        for (int64_t j = 0; j < groups[i]->count; j++)
            (*files)[(*count)++] = groups[i]->at[j];
    return SG_OK;
}

sg_status sg_config_read_data(const sg_config *config, sg_dataset **data, sg_split *split, sg_error *err)
{
    const char **files;
    int64_t count;
    SG_TRY(sg_config_data_files(config, &files, &count, err));
    *data = NULL;
    sg_status status = split ? sg_config_check_parts(config, err) : SG_OK;
    if (status == SG_OK)
        status = sg_config_read_files(config, files, count, data, err);
    sg_free(files);
    if (status == SG_OK)
        status = sg_config_check_format(config, (*data)->schema->format, err);
    if (status == SG_OK && split)
        status = divide(config, *data, split, err);
    if (status != SG_OK) {
        sg_dataset_free(*data);
        *data = NULL;
    }
    return status;
}
