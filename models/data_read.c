/* One call for all formats. */
#include "models/data_internal.h"

#include <string.h>

sg_read_options sg_read_options_default(void) { return (sg_read_options){.index_base = -1}; }

static bool name_has(const char *path, const char *suffix)
{
    size_t n = strlen(path), m = strlen(suffix);
    if (n > 3 && strcmp(path + n - 3, ".gz") == 0)
        n -= 3;
    return n >= m && strncmp(path + n - m, suffix, m) == 0;
}

/* The name decides where it can; else ARFF files start, behind comments, with '@'. A file that was looked into is `*opened`. */
static sg_status detect(const char *path, sg_data_format *out, sg_lines **opened, sg_error *err)
{
    char first;
    *out = SG_DATA_ARFF;
    if (name_has(path, ".arff"))
        return SG_OK;
    SG_TRY(sg_lines_open(opened, path, NULL, err));
    SG_TRY(sg_lines_peek(*opened, &first, err));
    *out = first == '@' ? SG_DATA_ARFF : SG_DATA_LIBSVM;
    return SG_OK;
}

static sg_status check_options(const sg_read_options *o, sg_error *err)
{
    if (o->arff_index_base != 0 && o->arff_index_base != 1)
        return sg_fail(err, SG_E_CONFIG, "arff_index_base is 0 or 1, not %d", o->arff_index_base);
    if (o->index_base < -1 || o->index_base > 1)
        return sg_fail(err, SG_E_CONFIG, "index_base is 0 or 1, not %d", o->index_base);
    if (o->label_base != 0 && o->label_base != 1)
        return sg_fail(err, SG_E_CONFIG, "label_base is 0 or 1, not %d", o->label_base);
    if (o->features < 0 || o->features > SG_MAX_COLUMNS || o->labels < 0 || o->labels > SG_MAX_COLUMNS)
        return sg_fail(err, SG_E_CONFIG, "the number of features or labels is out of range");
    return SG_OK;
}

static sg_status read_as(sg_data_format format, sg_dataset **out, const char *const *paths, int32_t n,
                         sg_lines **opened, const sg_read_options *options, sg_error *err)
{
    if (format == SG_DATA_ARFF)
        return sg_read_arff(out, paths, n, opened, options, err);
    if (options->labels_xml && !options->schema)
        return sg_fail_at(err, SG_E_CONFIG, paths[0], 0, 0, "a label list in XML goes with ARFF files only");
    return sg_read_libsvm(out, paths, n, opened, options, err);
}

sg_status sg_dataset_read(sg_dataset **out, const char *const *paths, int32_t n, const sg_read_options *options,
                          sg_error *err)
{
    *out = NULL;
    sg_read_options defaults = sg_read_options_default();
    if (!options)
        options = &defaults;
    if (n < 1)
        return sg_fail(err, SG_E_ARGUMENT, "no data file was given");
    SG_TRY(check_options(options, err));
    sg_data_format format = options->format;
    sg_lines *opened = NULL;
    sg_status status = format == SG_DATA_AUTO ? detect(paths[0], &format, &opened, err) : SG_OK;
    if (status == SG_OK)
        status = read_as(format, out, paths, n, &opened, options, err);
    sg_lines_close(opened);
    return status;
}
