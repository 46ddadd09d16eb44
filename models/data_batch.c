/* Batches: the listed rows in the layout of the plan's inputs, without allocation. */
#include "models/data_internal.h"

#include <stdlib.h>
#include <string.h>

static int64_t row_nnz(const sg_dataset *d, int64_t r)
{
    if (d->sparse)
        return d->indptr[r + 1] - d->indptr[r];
    int64_t nnz = 0;
    for (int64_t j = 0; j < d->features; j++)
        nnz += d->dense[r * d->features + j] != 0.0f;
    return nnz;
}

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

int64_t sg_dataset_max_nnz(const sg_dataset *d, int64_t batch)
{
    int64_t *size = sg_calloc(d->rows > 0 ? d->rows : 1, sizeof *size), total = 0;
    if (!size) /* no memory to look: the bound that always holds */
        return batch * d->features > 0 ? batch * d->features : 1;
    for (int64_t r = 0; r < d->rows; r++)
        size[r] = row_nnz(d, r);
    qsort(size, (size_t)d->rows, sizeof *size, descending);
    for (int64_t r = 0; r < d->rows && r < batch; r++)
        total += size[r];
    sg_free(size);
    return total > 0 ? total : 1;
}

sg_status sg_batch_new(sg_batch **out, const sg_dataset *data, int64_t rows, int64_t capacity, sg_error *err)
{
    *out = NULL;
    int64_t cells, targets;
    if (rows < 1 || capacity < 0 || capacity > INT32_MAX || data->features > INT32_MAX ||
        !sg_mul_ok(rows, data->features, &cells) || !sg_mul_ok(rows, data->labels, &targets))
        return sg_fail(err, SG_E_ARGUMENT, "a batch of %lld rows with %lld non-zeros", (long long)rows,
                       (long long)capacity);
    sg_batch *b = sg_calloc(1, sizeof *b);
    if (!b)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a batch");
    b->rows = rows;
    b->features = data->features;
    b->labels = data->labels;
    b->capacity = capacity;
    bool ok = true;
    if (capacity == 0) {
        ok = (b->x = sg_calloc(cells + 1, sizeof *b->x)) != NULL;
    } else {
        b->values = sg_calloc(capacity, sizeof *b->values);
        b->columns = sg_calloc(capacity, sizeof *b->columns);
        b->indptr = sg_calloc(rows + 1, sizeof *b->indptr);
        b->t_rows = sg_calloc(capacity, sizeof *b->t_rows);
        b->t_order = sg_calloc(capacity, sizeof *b->t_order);
        b->t_indptr = sg_calloc(data->features + 1, sizeof *b->t_indptr);
        ok = b->values && b->columns && b->indptr && b->t_rows && b->t_order && b->t_indptr;
    }
    b->y = sg_calloc(targets + 1, sizeof *b->y);
    b->y_known = sg_calloc(targets + 1, sizeof *b->y_known);
    b->weight = sg_calloc(rows, sizeof *b->weight);
    if (ok && b->y && b->y_known && b->weight) {
        *out = b;
        return SG_OK;
    }
    sg_batch_free(b);
    return sg_fail(err, SG_E_MEMORY, "out of memory for a batch of %lld rows", (long long)rows);
}

void sg_batch_free(sg_batch *b)
{
    if (!b)
        return;
    sg_free(b->x);
    sg_free(b->values);
    sg_free(b->columns);
    sg_free(b->indptr);
    sg_free(b->t_rows);
    sg_free(b->t_order);
    sg_free(b->t_indptr);
    sg_free(b->y);
    sg_free(b->y_known);
    sg_free(b->weight);
    sg_free(b);
}

static void fill_dense(const sg_dataset *d, const int64_t *rows, int64_t n, sg_batch *b)
{
    int64_t width = d->features;
    memset(b->x, 0, (size_t)(b->rows * width) * sizeof *b->x);
    for (int64_t k = 0; k < n; k++) {
        float *x = b->x + k * width;
        if (!d->sparse) {
            memcpy(x, d->dense + rows[k] * width, (size_t)width * sizeof *x);
            continue;
        }
        for (int64_t i = d->indptr[rows[k]]; i < d->indptr[rows[k] + 1]; i++)
            x[d->columns[i]] = d->values[i];
    }
}

/* Append row r behind `at`; -1 if the capacity is too small. */
static int64_t append_row(const sg_dataset *d, int64_t r, int64_t at, sg_batch *b)
{
    if (at + row_nnz(d, r) > b->capacity)
        return -1;
    if (d->sparse) {
        for (int64_t i = d->indptr[r]; i < d->indptr[r + 1]; i++, at++) {
            b->columns[at] = d->columns[i];
            b->values[at] = d->values[i];
        }
        return at;
    }
    const float *x = d->dense + r * d->features;
    for (int64_t j = 0; j < d->features; j++) {
        if (x[j] == 0.0f)
            continue;
        b->columns[at] = (int32_t)j;
        b->values[at++] = x[j];
    }
    return at;
}

/* Counting sort of the non-zeros by column; rows stay ascending within a column. t_indptr[j + 1] first holds the
 * start of column j and moves to its end as the column fills. */
static void transpose(sg_batch *b, int64_t nnz)
{
    memset(b->t_indptr, 0, (size_t)(b->features + 1) * sizeof *b->t_indptr);
    for (int64_t i = 0; i < nnz; i++)
        if (b->columns[i] + 2 <= b->features)
            b->t_indptr[b->columns[i] + 2]++;
    for (int64_t j = 2; j <= b->features; j++)
        b->t_indptr[j] += b->t_indptr[j - 1];
    for (int64_t r = 0; r < b->rows; r++) {
        for (int32_t i = b->indptr[r]; i < b->indptr[r + 1]; i++) {
            int32_t to = b->t_indptr[b->columns[i] + 1]++;
            b->t_rows[to] = (int32_t)r;
            b->t_order[to] = i;
        }
    }
}

static sg_status fill_sparse(const sg_dataset *d, const int64_t *rows, int64_t n, sg_batch *b, sg_error *err)
{
    int64_t at = 0;
    b->indptr[0] = 0;
    for (int64_t k = 0; k < b->rows; k++) {
        if (k < n)
            at = append_row(d, rows[k], at, b);
        if (at < 0)
            return sg_fail(err, SG_E_SHAPE, "the batch has more than %lld non-zeros", (long long)b->capacity);
        b->indptr[k + 1] = (int32_t)at;
    }
    transpose(b, at);
    return SG_OK;
}

static void fill_labels(const sg_dataset *d, const int64_t *rows, int64_t n, sg_batch *b)
{
    int64_t cells = b->rows * b->labels;
    memset(b->y, 0, (size_t)cells * sizeof *b->y);
    for (int64_t i = 0; i < cells; i++)
        b->y_known[i] = d->has_labels ? 1.0f : 0.0f;
    for (int64_t k = 0; k < n; k++) {
        int64_t r = rows[k];
        for (int64_t i = d->label_indptr[r]; i < d->label_indptr[r + 1]; i++)
            b->y[k * b->labels + d->label_index[i]] = 1.0f;
        for (int64_t i = d->unknown_indptr ? d->unknown_indptr[r] : 0;
             d->unknown_indptr && i < d->unknown_indptr[r + 1]; i++)
            b->y_known[k * b->labels + d->unknown_index[i]] = 0.0f;
    }
    for (int64_t k = 0; k < b->rows; k++)
        b->weight[k] = k >= n ? 0.0f : d->weights ? d->weights[rows[k]] : 1.0f;
}

sg_status sg_dataset_batch(const sg_dataset *d, const int64_t *rows, int64_t n, sg_batch *b, sg_error *err)
{
    if (n > b->rows || b->features != d->features || b->labels != d->labels)
        return sg_fail(err, SG_E_SHAPE,
                       "%lld rows of %lld features and %lld labels do not fit a batch of [%lld, %lld] and %lld labels",
                       (long long)n, (long long)d->features, (long long)d->labels, (long long)b->rows,
                       (long long)b->features, (long long)b->labels);
    for (int64_t k = 0; k < n; k++)
        if (rows[k] < 0 || rows[k] >= d->rows)
            return sg_fail(err, SG_E_ARGUMENT, "row %lld of a data set of %lld rows", (long long)rows[k],
                           (long long)d->rows);
    if (b->capacity)
        SG_TRY(fill_sparse(d, rows, n, b, err));
    else
        fill_dense(d, rows, n, b);
    fill_labels(d, rows, n, b);
    return SG_OK;
}
