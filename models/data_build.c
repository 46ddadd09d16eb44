/* Building data sets row by row, their layout, copies of parts of them, and their end. */
#include "models/data_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SPARSE_BELOW 0.1

bool sg_builder_init(sg_builder *b, const char *const *paths, int32_t n)
{
    *b = (sg_builder){0};
    sg_dataset *data = b->data = sg_calloc(1, sizeof *data);
    if (!data)
        return false;
    data->sparse = true;
    data->files = sg_calloc(n > 0 ? n : 1, sizeof *data->files);
    bool ok = data->files && sg_grow(&data->indptr, &b->indptr_capacity, 1, sizeof *data->indptr) &&
              sg_grow(&data->label_indptr, &b->label_indptr_capacity, 1, sizeof *data->label_indptr) &&
              sg_grow(&data->unknown_indptr, &b->unknown_indptr_capacity, 1, sizeof *data->unknown_indptr) &&
              sg_grow(&data->columns, &b->columns_capacity, 1, sizeof *data->columns) &&
              sg_grow(&data->values, &b->values_capacity, 1, sizeof *data->values) &&
              sg_grow(&data->label_index, &b->label_capacity, 1, sizeof *data->label_index) &&
              sg_grow(&data->unknown_index, &b->unknown_capacity, 1, sizeof *data->unknown_index);
    for (int32_t i = 0; ok && i < n; i++) {
        data->files[i] = sg_strdup(paths[i]);
        ok = data->files[i] != NULL;
        data->n_files += ok;
    }
    if (ok)
        data->indptr[0] = data->label_indptr[0] = data->unknown_indptr[0] = 0;
    return ok;
}

bool sg_builder_value(sg_builder *b, int32_t column, float value)
{
    sg_dataset *data = b->data;
    if (!sg_grow(&data->columns, &b->columns_capacity, b->nnz + 1, sizeof *data->columns) ||
        !sg_grow(&data->values, &b->values_capacity, b->nnz + 1, sizeof *data->values))
        return false;
    data->columns[b->nnz] = column;
    data->values[b->nnz++] = value;
    data->missing += isnan(value);
    return true;
}

bool sg_builder_label(sg_builder *b, int32_t label)
{
    if (!sg_grow(&b->data->label_index, &b->label_capacity, b->on + 1, sizeof(int32_t)))
        return false;
    b->data->label_index[b->on++] = label;
    return true;
}

bool sg_builder_unknown(sg_builder *b, int32_t label)
{
    if (!sg_grow(&b->data->unknown_index, &b->unknown_capacity, b->unknown + 1, sizeof(int32_t)))
        return false;
    b->data->unknown_index[b->unknown++] = label;
    return true;
}

static int compare_index(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Sort and drop repetitions; returns the new end. */
static int64_t sort_set(int32_t *index, int64_t begin, int64_t end)
{
    qsort(index + begin, (size_t)(end - begin), sizeof *index, compare_index);
    int64_t to = begin;
    for (int64_t i = begin; i < end; i++)
        if (to == begin || index[to - 1] != index[i])
            index[to++] = index[i];
    return to;
}

typedef struct cell {
    int32_t column;
    float value;
} cell;

static int compare_cell(const void *a, const void *b)
{
    return compare_index(&((const cell *)a)->column, &((const cell *)b)->column);
}

static bool sort_cells(int32_t *columns, float *values, int64_t n)
{
    bool sorted = true;
    for (int64_t i = 1; sorted && i < n; i++)
        sorted = columns[i - 1] < columns[i];
    if (sorted)
        return true;
    cell *cells = sg_calloc(n, sizeof *cells);
    if (!cells)
        return false;
    for (int64_t i = 0; i < n; i++)
        cells[i] = (cell){columns[i], values[i]};
    qsort(cells, (size_t)n, sizeof *cells, compare_cell);
    for (int64_t i = 0; i < n; i++) {
        columns[i] = cells[i].column;
        values[i] = cells[i].value;
    }
    sg_free(cells);
    return true;
}

/* Zeros are let go when the row is whole: till then they tell that a column was given. */
static void drop_zeros(sg_builder *b)
{
    const sg_dataset *d = b->data;
    int64_t end = b->nnz;
    b->nnz = b->row_begin;
    for (int64_t i = b->row_begin; i < end; i++) {
        if (d->values[i] == 0.0f)
            continue;
        d->columns[b->nnz] = d->columns[i];
        d->values[b->nnz++] = d->values[i];
    }
}

bool sg_builder_row(sg_builder *b, int32_t file, int64_t line, float weight, int32_t *repeated)
{
    sg_dataset *d = b->data;
    int64_t row = d->rows;
    if (!sg_grow(&d->indptr, &b->indptr_capacity, row + 2, sizeof *d->indptr) ||
        !sg_grow(&d->label_indptr, &b->label_indptr_capacity, row + 2, sizeof *d->label_indptr) ||
        !sg_grow(&d->unknown_indptr, &b->unknown_indptr_capacity, row + 2, sizeof *d->unknown_indptr) ||
        !sg_grow(&d->weights, &b->weights_capacity, row + 1, sizeof *d->weights) ||
        !sg_grow(&d->source_file, &b->file_capacity, row + 1, sizeof *d->source_file) ||
        !sg_grow(&d->source_line, &b->line_capacity, row + 1, sizeof *d->source_line))
        return false;
    int32_t *columns = d->columns + b->row_begin;
    int64_t n = b->nnz - b->row_begin;
    if (!sort_cells(columns, d->values + b->row_begin, n))
        return false;
    if (repeated) {
        *repeated = -1;
        for (int64_t i = 1; i < n; i++)
            if (columns[i - 1] == columns[i])
                *repeated = columns[i];
    }
    drop_zeros(b);
    b->on = sort_set(d->label_index, b->label_begin, b->on);
    b->unknown = sort_set(d->unknown_index, b->unknown_begin, b->unknown);
    d->source_file[row] = file;
    d->source_line[row] = line;
    d->weights[row] = weight;
    b->weighted |= weight != 1.0f;
    d->rows++;
    d->indptr[d->rows] = b->row_begin = b->nnz;
    d->label_indptr[d->rows] = b->label_begin = b->on;
    d->unknown_indptr[d->rows] = b->unknown_begin = b->unknown;
    return true;
}

void sg_builder_free(sg_builder *b)
{
    sg_dataset_free(b->data);
    sg_notes_free(&b->notes);
    *b = (sg_builder){0};
}

bool sg_dataset_make_dense(sg_dataset *d)
{
    int64_t cells;
    if (!d->sparse)
        return true;
    if (!sg_mul_ok(d->rows, d->features, &cells))
        return false;
    float *dense = sg_calloc(cells > 0 ? cells : 1, sizeof *dense);
    if (!dense)
        return false;
    for (int64_t r = 0; r < d->rows; r++)
        for (int64_t i = d->indptr[r]; i < d->indptr[r + 1]; i++)
            dense[r * d->features + d->columns[i]] = d->values[i];
    sg_free(d->indptr);
    sg_free(d->columns);
    sg_free(d->values);
    d->indptr = NULL;
    d->columns = NULL;
    d->values = NULL;
    d->dense = dense;
    d->sparse = false;
    return true;
}

bool sg_dataset_make_sparse(sg_dataset *d)
{
    if (d->sparse)
        return true;
    int64_t nnz = 0, cells = d->rows * d->features;
    for (int64_t i = 0; i < cells; i++)
        nnz += d->dense[i] != 0.0f;
    int64_t *indptr = sg_calloc(d->rows + 1, sizeof *indptr);
    int32_t *columns = sg_calloc(nnz + 1, sizeof *columns);
    float *values = sg_calloc(nnz + 1, sizeof *values);
    if (!indptr || !columns || !values) {
        sg_free(indptr);
        sg_free(columns);
        sg_free(values);
        return false;
    }
    int64_t at = 0;
    for (int64_t r = 0; r < d->rows; r++) {
        const float *x = d->dense + r * d->features;
        for (int64_t j = 0; j < d->features; j++) {
            if (x[j] == 0.0f)
                continue;
            columns[at] = (int32_t)j;
            values[at++] = x[j];
        }
        indptr[r + 1] = at;
    }
    sg_free(d->dense);
    d->dense = NULL;
    d->indptr = indptr;
    d->columns = columns;
    d->values = values;
    d->sparse = true;
    return true;
}

sg_status sg_builder_finish(sg_builder *b, sg_schema *schema, sg_data_layout layout, sg_dataset **out, sg_error *err)
{
    sg_dataset *d = b->data;
    d->schema = schema;
    d->features = b->features ? b->features : schema->n_features;
    d->labels = schema->n_labels;
    d->notes = b->notes.note;
    d->n_notes = b->notes.count;
    b->notes = (sg_notes){0};
    if (!b->weighted) {
        sg_free(d->weights);
        d->weights = NULL;
    }
    if (b->unknown == 0) {
        sg_free(d->unknown_indptr);
        sg_free(d->unknown_index);
        d->unknown_indptr = NULL;
        d->unknown_index = NULL;
    }
    double cells = (double)d->rows * (double)d->features;
    bool dense = layout == SG_LAYOUT_DENSE || (layout == SG_LAYOUT_AUTO && (double)b->nnz >= SPARSE_BELOW * cells);
    if (dense && !sg_dataset_make_dense(d)) {
        sg_builder_free(b);
        return sg_fail(err, SG_E_MEMORY, "out of memory for a dense data set");
    }
    *out = d;
    b->data = NULL;
    return SG_OK;
}

void sg_dataset_free(sg_dataset *d)
{
    if (!d)
        return;
    for (int32_t i = 0; i < d->n_files; i++)
        sg_free(d->files[i]);
    for (int32_t i = 0; i < d->n_notes; i++)
        sg_free(d->notes[i].text);
    sg_free(d->files);
    sg_free(d->notes);
    sg_free(d->dense);
    sg_free(d->indptr);
    sg_free(d->columns);
    sg_free(d->values);
    sg_free(d->label_indptr);
    sg_free(d->label_index);
    sg_free(d->unknown_indptr);
    sg_free(d->unknown_index);
    sg_free(d->weights);
    sg_free(d->source_file);
    sg_free(d->source_line);
    sg_schema_free(d->schema);
    sg_free(d);
}

bool sg_dataset_has_label(const sg_dataset *d, int64_t row) { return d->label_indptr[row + 1] > d->label_indptr[row]; }

static bool copy_row(sg_builder *b, const sg_dataset *d, int64_t r)
{
    bool ok = true;
    if (d->sparse)
        for (int64_t i = d->indptr[r]; ok && i < d->indptr[r + 1]; i++)
            ok = sg_builder_value(b, d->columns[i], d->values[i]);
    else
        for (int64_t j = 0; ok && j < d->features; j++)
            ok = sg_builder_value(b, (int32_t)j, d->dense[r * d->features + j]);
    for (int64_t i = d->label_indptr[r]; ok && i < d->label_indptr[r + 1]; i++)
        ok = sg_builder_label(b, d->label_index[i]);
    for (int64_t i = d->unknown_indptr ? d->unknown_indptr[r] : 0;
         ok && d->unknown_indptr && i < d->unknown_indptr[r + 1]; i++)
        ok = sg_builder_unknown(b, d->unknown_index[i]);
    return ok && sg_builder_row(b, d->source_file[r], d->source_line[r], d->weights ? d->weights[r] : 1.0f, NULL);
}

sg_status sg_dataset_subset(sg_dataset **out, const sg_dataset *d, const int64_t *rows, int64_t n, sg_error *err)
{
    *out = NULL;
    sg_builder b;
    bool ok = sg_builder_init(&b, (const char *const *)d->files, d->n_files);
    for (int64_t i = 0; ok && i < n; i++) {
        if (rows[i] < 0 || rows[i] >= d->rows) {
            sg_builder_free(&b);
            return sg_fail(err, SG_E_ARGUMENT, "row %lld of a data set of %lld rows", (long long)rows[i],
                           (long long)d->rows);
        }
        ok = copy_row(&b, d, rows[i]);
    }
    sg_schema *schema = ok ? sg_schema_copy(d->schema) : NULL;
    if (!schema) {
        sg_builder_free(&b);
        return sg_fail(err, SG_E_MEMORY, "out of memory copying a data set");
    }
    b.data->has_labels = d->has_labels;
    b.data->source_sparse = d->source_sparse;
    b.features = d->features; /* preprocessing may have added features since the schema was made */
    return sg_builder_finish(&b, schema, d->sparse ? SG_LAYOUT_SPARSE : SG_LAYOUT_DENSE, out, err);
}

static sg_schema *numbered_schema(int64_t features, int64_t labels)
{
    sg_schema *schema = sg_schema_new(features, labels);
    char name[32];
    bool ok = schema != NULL;
    for (int64_t j = 0; ok && j < features; j++) {
        snprintf(name, sizeof name, "x%lld", (long long)j);
        schema->columns[j] = (sg_column){sg_strdup(name), SG_COLUMN_NUMERIC, 0, NULL, 0, j};
        ok = schema->columns[j].name != NULL;
    }
    for (int64_t i = 0; ok && i < labels; i++) {
        snprintf(name, sizeof name, "l%lld", (long long)i);
        ok = (schema->label_names[i] = sg_strdup(name)) != NULL;
    }
    if (ok) {
        schema->n_features = features;
        return schema;
    }
    sg_schema_free(schema);
    return NULL;
}

sg_status sg_dataset_from_arrays(sg_dataset **out, const float *x, const float *y, int64_t rows, int64_t features,
                                 int64_t labels, sg_data_layout layout, sg_error *err)
{
    *out = NULL;
    if (features > SG_MAX_COLUMNS || labels > SG_MAX_COLUMNS)
        return sg_fail(err, SG_E_ARGUMENT, "a data set has at most %d features or labels", SG_MAX_COLUMNS);
    if (rows < 1 || features < 1 || labels < 1)
        return sg_fail(err, SG_E_ARGUMENT, "a data set needs at least one row, feature and label");
    sg_builder b;
    bool ok = sg_builder_init(&b, NULL, 0);
    for (int64_t r = 0; ok && r < rows; r++) {
        for (int64_t j = 0; ok && j < features; j++)
            ok = sg_builder_value(&b, (int32_t)j, x[r * features + j]);
        for (int64_t i = 0; ok && i < labels; i++)
            ok = y[r * labels + i] < 0.5f || sg_builder_label(&b, (int32_t)i);
        ok = ok && sg_builder_row(&b, -1, r + 1, 1.0f, NULL);
    }
    sg_schema *schema = ok ? numbered_schema(features, labels) : NULL;
    if (!schema) {
        sg_builder_free(&b);
        return sg_fail(err, SG_E_MEMORY, "out of memory building a data set");
    }
    b.data->has_labels = true;
    return sg_builder_finish(&b, schema, layout, out, err);
}
