/* Multi-label LIBSVM rows, `l1,l2 index:value ...`, and files of the extreme classification repository, which are
 * the same with a header `rows features labels`. Indices and labels count from 0 under a header, else from the base of LIBSVM or
 * the one given: the form of a file decides, for a trained model's files too, and its contents are never guessed at. */
#include "models/data_internal.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

typedef struct svm_reader {
    const sg_read_options *options;
    sg_builder builder;
    sg_lines *lines;
    int32_t file;
    int32_t base, label_base; /* numbers of the first feature and label of this file */
    bool counted;             /* labels of the given schema are numbers, from its own base on */
    bool first_headed;        /* the first file has a header: then all have one */
    int64_t header_rows, header_features, header_labels; /* -1 without header */
    int64_t features;                                    /* largest index so far + 1 */
    sg_names labels; /* label text -> number, by first appearance (or by the schema) */
    char **label_text;
    int64_t label_capacity;
    int32_t n_labels;
    bool numeric; /* all labels so far are whole numbers */
    bool warned_qid, warned_label;
    int64_t dropped; /* values of features that the schema does not have */
} svm_reader;

static sg_status no_memory(const svm_reader *r, sg_error *err)
{
    return sg_fail(err, SG_E_MEMORY, "out of memory reading %s", sg_lines_path(r->lines));
}

/* To be said behind an error of a file that only by default is taken for LIBSVM and has shown no feature yet: a table with commas? */
static const char *read_as(const svm_reader *r)
{
    return r->options->format == SG_DATA_AUTO && r->header_features < 0 && r->features == 0
               ? " (the file is neither ARFF nor XC, so it is read as LIBSVM: `l1,l2 index:value ...`)"
               : "";
}

/* Without leading zeros, so that equal numbers are equal texts. */
static bool whole_number(const char *text, int64_t *out)
{
    return isdigit((unsigned char)*text) && !(text[0] == '0' && text[1]) &&
           sg_text_integer(text, text + strlen(text), out);
}

/* Labels that count have bounds; others are names, any text. */
static sg_status check_label(const svm_reader *r, const char *at, const char *text, const int64_t *number,
                             sg_error *err)
{
    int64_t limit = r->header_labels >= 0 ? r->header_labels : SG_MAX_COLUMNS;
    bool named = r->header_labels < 0 && r->label_base == 0;
    if (number ? *number >= r->label_base && *number < limit : named)
        return SG_OK;
    return sg_lines_fail(r->lines, at, err,
                         r->label_base ? "label %.60s is not a number from 1 to %lld: labels were said to count from 1 "
                                         "(--label-base, data.label_base)"
                                       : "label %.60s is not a number below %lld: labels count from 0",
                         text, (long long)(limit - r->label_base));
}

/* The label as the schema calls it, which may count from elsewhere than this file. */
static bool rename_label(const svm_reader *r, char **text, int64_t number)
{
    char name[32];
    snprintf(name, sizeof name, "%lld", (long long)(number - r->label_base + r->options->schema->label_base));
    sg_free(*text);
    return (*text = sg_strdup(name)) != NULL;
}

/* Takes ownership of `text`. */
static sg_status new_label(svm_reader *r, char *text, int32_t *label, sg_error *err)
{
    if (r->n_labels >= SG_MAX_COLUMNS ||
        !sg_grow(&r->label_text, &r->label_capacity, r->n_labels + 1, sizeof *r->label_text) ||
        !sg_names_add(&r->labels, text, r->n_labels)) {
        sg_free(text);
        return no_memory(r, err);
    }
    r->label_text[r->n_labels] = text;
    *label = r->n_labels++;
    return SG_OK;
}

static sg_status take_label(svm_reader *r, const char *begin, const char *end, sg_error *err)
{
    if (begin == end)
        return sg_lines_fail(r->lines, begin, err, "an empty label: is there a comma too many?%s", read_as(r));
    char *text = sg_text_copy(begin, end);
    if (!text)
        return no_memory(r, err);
    int64_t number = 0;
    bool whole = whole_number(text, &number);
    sg_status status = check_label(r, begin, text, whole ? &number : NULL, err);
    if (status == SG_OK && whole && r->counted && !rename_label(r, &text, number))
        return no_memory(r, err);
    int32_t label = sg_names_find(&r->labels, text);
    r->numeric &= whole;
    if (status == SG_OK && label < 0 && r->options->schema)
        status = sg_lines_fail(r->lines, begin, err, "label '%.60s' is unknown to the model%s", text, read_as(r));
    if (status != SG_OK || label >= 0)
        sg_free(text);
    else
        status = new_label(r, text, &label, err);
    if (status == SG_OK && !sg_builder_label(&r->builder, label))
        status = no_memory(r, err);
    return status;
}

static const char *word_end(const char *at)
{
    while (*at && !isspace((unsigned char)*at))
        at++;
    return at;
}

static const char *skip_space(const char *at)
{
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

static bool has_colon(const char *begin, const char *end) { return memchr(begin, ':', (size_t)(end - begin)) != NULL; }

/* The label field: text between commas; a blank behind a comma is allowed (LSHTC), a comma at the end is not. */
static sg_status read_labels(svm_reader *r, const char **at, sg_error *err)
{
    const char *p = *at;
    for (;;) {
        const char *stop = word_end(p), *begin = p;
        while (p < stop && *p != ',')
            p++;
        SG_TRY(take_label(r, begin, p, err));
        if (p == stop)
            break;
        const char *comma = p++;
        if (p < stop)
            continue;
        p = skip_space(p);
        if (*p == '\0' || has_colon(p, word_end(p)))
            return sg_lines_fail(r->lines, comma, err, "a comma behind the last label%s", read_as(r));
    }
    *at = p;
    return SG_OK;
}

static sg_status take_feature(svm_reader *r, const char *begin, const char *colon, const char *end, sg_error *err)
{
    int64_t index;
    double value;
    if (!isdigit((unsigned char)*begin) || !sg_text_integer(begin, colon, &index))
        return sg_lines_fail(r->lines, begin, err, "'%.*s' is not a feature index",
                             (int)(colon - begin < 40 ? colon - begin : 40), begin);
    if (!sg_text_number(colon + 1, end, &value) || fabs(value) > 3.402823e38)
        return sg_lines_fail(r->lines, colon + 1, err, "'%.*s' is not a number",
                             (int)(end - colon - 1 < 40 ? end - colon - 1 : 40), colon + 1);
    index -= r->base;
    if (index < 0)
        return sg_lines_fail(r->lines, begin, err,
                             r->options->schema
                                 ? "feature index 0, but LIBSVM indices count from 1 (for a model trained with "
                                   "--index-base 0 from 0)"
                                 : "feature index 0, but indices count from 1 (--index-base 0 changes that)");
    int64_t limit = r->header_features >= 0 ? r->header_features
                    : r->options->features  ? r->options->features
                                            : SG_MAX_COLUMNS;
    if (index >= limit)
        return sg_lines_fail(r->lines, begin, err,
                             "feature index %lld is too large: there are %lld features, from %d%s",
                             (long long)index + r->base, (long long)limit, r->base,
                             r->header_features < 0 && r->options->features ? " (data.features_count)" : "");
    if (r->options->schema && index >= r->options->schema->n_columns) {
        r->dropped++;
        return SG_OK;
    }
    if (index >= r->features)
        r->features = index + 1;
    return sg_builder_value(&r->builder, (int32_t)index, (float)value) ? SG_OK : no_memory(r, err);
}

static sg_status read_features(svm_reader *r, const char *at, sg_error *err)
{
    for (at = skip_space(at); *at; at = skip_space(at)) {
        const char *end = word_end(at), *colon = memchr(at, ':', (size_t)(end - at));
        if (!colon)
            return sg_lines_fail(r->lines, at, err, "expected index:value, found '%.*s'%s",
                                 (int)(end - at < 40 ? end - at : 40), at, read_as(r));
        if (colon - at == 3 && memcmp(at, "qid", 3) == 0) {
            if (!r->warned_qid)
                sg_note_add(&r->builder.notes, true, "%s:%lld: qid is ignored", sg_lines_path(r->lines),
                            (long long)sg_lines_number(r->lines));
            r->warned_qid = true;
        } else {
            SG_TRY(take_feature(r, at, colon, end, err));
        }
        at = end;
    }
    return SG_OK;
}

static sg_status close_row(svm_reader *r, sg_error *err)
{
    sg_builder *b = &r->builder;
    int64_t given = b->on - b->label_begin, row = b->data->rows;
    int32_t repeated;
    if (!sg_builder_row(b, r->file, sg_lines_number(r->lines), 1.0f, &repeated))
        return no_memory(r, err);
    if (repeated >= 0)
        return sg_lines_fail(r->lines, NULL, err, "feature index %lld stands twice in the row",
                             (long long)repeated + r->base);
    if (b->data->label_indptr[row + 1] - b->data->label_indptr[row] != given && !r->warned_label) {
        r->warned_label = true;
        sg_note_add(&b->notes, true, "%s:%lld: a label stands twice in the row and counts once",
                    sg_lines_path(r->lines), (long long)sg_lines_number(r->lines));
    }
    return SG_OK;
}

static sg_status read_row(svm_reader *r, char *text, sg_error *err)
{
    char *comment = strchr(text, '#');
    if (comment)
        *comment = '\0';
    const char *at = skip_space(text);
    if (*at == '\0') {
        if (comment)
            return SG_OK;
        if (!r->options->keep_blank)
            return sg_lines_fail(r->lines, text, err,
                                 "a blank line (--keep-blank makes it a row without labels and features)");
        return close_row(r, err);
    }
    if (at == text && !has_colon(at, word_end(at)))
        SG_TRY(read_labels(r, &at, err));
    SG_TRY(read_features(r, at, err));
    return close_row(r, err);
}

/* Exactly `n` whole numbers and nothing else. */
static bool only_numbers(const char *at, int n, int64_t *out)
{
    for (int i = 0; i < n; i++) {
        at = skip_space(at);
        const char *end = word_end(at);
        if (!isdigit((unsigned char)*at) || !sg_text_integer(at, end, &out[i]))
            return false;
        at = end;
    }
    return *skip_space(at) == '\0';
}

static sg_status check_header(svm_reader *r, const int64_t h[3], sg_error *err)
{
    if (h[1] < 1 || h[1] > SG_MAX_COLUMNS || h[2] < 1 || h[2] > SG_MAX_COLUMNS)
        return sg_lines_fail(r->lines, NULL, err, "a header with %lld features and %lld labels", (long long)h[1],
                             (long long)h[2]);
    if (r->header_features >= 0 && (h[1] != r->header_features || h[2] != r->header_labels))
        return sg_lines_fail(
            r->lines, NULL, err, "the header says %lld features and %lld labels, the first file %lld and %lld",
            (long long)h[1], (long long)h[2], (long long)r->header_features, (long long)r->header_labels);
    r->header_rows = h[0];
    r->header_features = h[1];
    r->header_labels = h[2];
    return SG_OK;
}

static int32_t base_of(const svm_reader *r, bool header)
{
    return header ? 0 : r->options->index_base >= 0 ? r->options->index_base : 1;
}

static int32_t label_base_of(const svm_reader *r, bool header)
{
    return header || (r->options->schema && !r->counted) ? 0 : r->options->label_base;
}

/* A header is three whole numbers in line 1: a row never looks like that, since its features have a ':'. */
static sg_status read_start(svm_reader *r, sg_error *err)
{
    char *text;
    int64_t length, h[3];
    SG_TRY(sg_lines_next(r->lines, &text, &length, err));
    if (!text)
        return sg_lines_fail(r->lines, NULL, err, "the file is empty");
    bool header = only_numbers(text, 3, h), two = !header && only_numbers(text, 2, h);
    if (two || (r->options->format == SG_DATA_XC && !header))
        return sg_lines_fail(r->lines, text, err, "expected a header `rows features labels`%s",
                             two ? "; separate label and feature files (two numbers) are not supported" : "");
    if (!header && r->file > 0 && r->header_features >= 0)
        return sg_lines_fail(r->lines, text, err,
                             "the first file has a header `rows features labels`, this one has none");
    if (r->file == 0)
        r->first_headed = header;
    r->base = base_of(r, header);
    r->label_base = label_base_of(r, header);
    return header ? check_header(r, h, err) : read_row(r, text, err);
}

static sg_status read_lines(svm_reader *r, sg_error *err)
{
    int64_t before = r->builder.data->rows;
    r->header_rows = -1;
    SG_TRY(read_start(r, err));
    for (;;) {
        char *text;
        int64_t length;
        SG_TRY(sg_lines_next(r->lines, &text, &length, err));
        if (!text)
            break;
        SG_TRY(read_row(r, text, err));
    }
    int64_t rows = r->builder.data->rows - before;
    if (r->header_rows >= 0 && rows != r->header_rows)
        return sg_fail_at(err, SG_E_DATA, sg_lines_path(r->lines), 1, 0, "the header says %lld rows, the file has %lld",
                          (long long)r->header_rows, (long long)rows);
    if (rows == 0)
        return sg_fail_at(err, SG_E_DATA, sg_lines_path(r->lines), 0, 0, "the file has no rows");
    return SG_OK;
}

/* Labels that are all numbers stand at their number, others in order of appearance. */
static sg_status number_labels(svm_reader *r, int64_t *n_labels, sg_error *err)
{
    sg_dataset *d = r->builder.data;
    *n_labels = r->n_labels;
    if (!r->numeric)
        return SG_OK;
    int32_t base = label_base_of(r, r->first_headed);
    int64_t count = r->header_labels >= 0 ? r->header_labels : r->options->labels, end = 0, number = 0;
    for (int32_t i = 0; i < r->n_labels; i++)
        if (whole_number(r->label_text[i], &number) && number - base >= end)
            end = number - base + 1;
    if (count > 0 && end > count)
        return sg_fail_at(err, SG_E_DATA, d->files[0], 0, 0, "label %lld, but there are %lld labels, from %d%s",
                          (long long)(end - 1 + base), (long long)count, base,
                          r->header_labels < 0 ? " (data.labels_count)" : "");
    *n_labels = count > 0 ? count : end;
    for (int64_t i = 0; i < r->builder.on; i++) {
        whole_number(r->label_text[d->label_index[i]], &number);
        d->label_index[i] = (int32_t)(number - base);
    }
    return SG_OK;
}

static void sort_labels(sg_dataset *d)
{
    for (int64_t row = 0; row < d->rows; row++)
        for (int64_t i = d->label_indptr[row] + 1; i < d->label_indptr[row + 1]; i++)
            for (int64_t k = i; k > d->label_indptr[row] && d->label_index[k - 1] > d->label_index[k]; k--) {
                int32_t swap = d->label_index[k];
                d->label_index[k] = d->label_index[k - 1];
                d->label_index[k - 1] = swap;
            }
}

static sg_schema *make_schema(svm_reader *r, int64_t features, int64_t n_labels)
{
    sg_schema *s = sg_schema_new(features, n_labels);
    bool ok = s != NULL;
    char name[32];
    if (ok) {
        s->index_base = base_of(r, r->first_headed);
        s->label_base = label_base_of(r, r->first_headed);
    }
    for (int64_t j = 0; ok && j < features; j++) {
        snprintf(name, sizeof name, "f%lld", (long long)j + s->index_base);
        s->columns[j] = (sg_column){sg_strdup(name), SG_COLUMN_NUMERIC, 0, NULL, -1, j};
        ok = s->columns[j].name != NULL;
    }
    for (int64_t i = 0; ok && i < n_labels; i++) {
        snprintf(name, sizeof name, "%lld", (long long)i + s->label_base);
        ok = (s->label_names[i] = sg_strdup(r->numeric ? name : r->label_text[i])) != NULL;
    }
    if (!ok) {
        sg_schema_free(s);
        return NULL;
    }
    s->format = r->first_headed ? SG_DATA_XC : SG_DATA_LIBSVM;
    s->n_features = features;
    return s;
}

static sg_status make_dataset(svm_reader *r, sg_dataset **out, sg_error *err)
{
    const sg_schema *given = r->options->schema;
    int64_t features = r->header_features >= 0    ? r->header_features
                       : r->options->features > 0 ? r->options->features
                                                  : r->features;
    int64_t n_labels = r->n_labels;
    const char *path = sg_lines_name(r->builder.data->files[0]);
    if (!given)
        SG_TRY(number_labels(r, &n_labels, err));
    if (!given && (features < 1 || n_labels < 1))
        return sg_fail_at(err, SG_E_DATA, path, 0, 0, "the file has no %s at all%s",
                          features < 1 ? "features" : "labels", read_as(r));
    if (r->dropped)
        sg_note_add(&r->builder.notes, true, "%s: %lld values of features that the model does not know were ignored",
                    path, (long long)r->dropped);
    sort_labels(r->builder.data);
    sg_schema *schema = given ? sg_schema_copy(given) : make_schema(r, features, n_labels);
    if (!schema)
        return sg_fail(err, SG_E_MEMORY, "out of memory reading %s", path);
    r->builder.data->has_labels = !given || r->builder.on > 0;
    r->builder.data->source_sparse = true;
    return sg_builder_finish(&r->builder, schema, r->options->layout, out, err);
}

static bool counts_labels(const sg_schema *s)
{
    int64_t number;
    for (int64_t i = 0; i < s->n_labels; i++)
        if (!whole_number(s->label_names[i], &number) || number != i + s->label_base)
            return false;
    return true;
}

static sg_status read_files(svm_reader *r, const char *const *paths, int32_t n, sg_lines **opened, sg_error *err)
{
    const sg_schema *given = r->options->schema;
    r->counted = given && counts_labels(given);
    for (int64_t i = 0; given && i < given->n_labels; i++)
        if (!sg_names_add(&r->labels, given->label_names[i], (int32_t)i))
            return sg_fail(err, SG_E_MEMORY, "out of memory reading %s", paths[0]);
    for (r->file = 0; r->file < n; r->file++) {
        SG_TRY(sg_lines_take(&r->lines, opened, paths[r->file], &r->builder.notes, err));
        sg_status status = read_lines(r, err);
        sg_lines_close(r->lines);
        SG_TRY(status);
    }
    return SG_OK;
}

sg_status sg_read_libsvm(sg_dataset **out, const char *const *paths, int32_t n, sg_lines **opened,
                         const sg_read_options *options, sg_error *err)
{
    svm_reader r = {.options = options, .header_features = -1, .header_labels = -1, .numeric = true};
    if (options->schema && options->schema->n_columns != options->schema->n_features)
        return sg_fail_at(err, SG_E_DATA, paths[0], 0, 0,
                          "the model was trained on columns with names; LIBSVM and XC files have only numbers");
    sg_status status = SG_OK;
    if (!sg_builder_init(&r.builder, paths, n))
        status = sg_fail(err, SG_E_MEMORY, "out of memory reading %s", paths[0]);
    if (status == SG_OK)
        status = read_files(&r, paths, n, opened, err);
    if (status == SG_OK)
        status = make_dataset(&r, out, err);
    for (int32_t i = 0; i < r.n_labels; i++)
        sg_free(r.label_text[i]);
    sg_free(r.label_text);
    sg_names_free(&r.labels);
    sg_builder_free(&r.builder);
    return status;
}
