/* What a data set holds: the figures of `data info` and the findings of `data check`. */
#include "models/data_internal.h"

#include <math.h>
#include <string.h>

static void count_columns(sg_dataset_info *info, const sg_schema *s)
{
    for (int64_t i = 0; i < s->n_columns; i++) {
        sg_column_kind kind = s->columns[i].kind;
        info->numeric += kind == SG_COLUMN_NUMERIC;
        info->binary += kind == SG_COLUMN_BINARY;
        info->nominal += kind == SG_COLUMN_ONE_HOT;
        info->dropped += kind == SG_COLUMN_DROPPED;
    }
}

static int64_t count_nonzero(const sg_dataset *d)
{
    if (d->sparse)
        return d->indptr[d->rows];
    int64_t nnz = 0;
    for (int64_t i = 0; i < d->rows * d->features; i++)
        nnz += d->dense[i] != 0.0f;
    return nnz;
}

/* In how many of the rows (NULL: of all) each label is on; NULL if out of memory. */
static int64_t *label_counts(const sg_dataset *d, const int64_t *rows, int64_t n)
{
    int64_t *count = sg_calloc(d->labels + 1, sizeof *count);
    for (int64_t k = 0; count && k < (rows ? n : d->rows); k++) {
        int64_t r = rows ? rows[k] : k;
        for (int64_t i = d->label_indptr[r]; i < d->label_indptr[r + 1]; i++)
            count[d->label_index[i]]++;
    }
    return count;
}

sg_dataset_info sg_dataset_describe(const sg_dataset *d)
{
    const sg_schema *s = d->schema;
    sg_dataset_info info = {
        .format = s->format,
        .source_sparse = d->source_sparse,
        .sparse = d->sparse,
        .rows = d->rows,
        .attributes = s->n_columns,
        .features = d->features,
        .labels = d->labels,
        .missing_features = d->source_missing,
        .unknown_labels = d->unknown_indptr ? d->unknown_indptr[d->rows] : 0,
        .relation = s->relation,
        .first_label = d->labels ? s->label_names[0] : "",
        .last_label = d->labels ? s->label_names[d->labels - 1] : "",
    };
    count_columns(&info, s);
    for (int64_t r = 0; r < d->rows; r++) {
        info.unlabelled += !sg_dataset_has_label(d, r);
        info.weightless += d->weights && d->weights[r] == 0;
    }
    int64_t *count = label_counts(d, NULL, 0);
    for (int64_t i = 0; count && i < d->labels; i++)
        info.never_positive += count[i] == 0;
    sg_free(count);
    double rows = (double)(d->rows ? d->rows : 1), labels = (double)(d->labels ? d->labels : 1);
    info.cardinality = (double)d->label_indptr[d->rows] / rows;
    info.label_density = info.cardinality / labels;
    info.feature_density = (double)count_nonzero(d) / (rows * (double)(d->features ? d->features : 1));
    return info;
}

/* ---- labels that are never on */

/* Labels that are numbers stand at their number, by default from 0, so that files which count from 1 never have the first. */
static bool may_count_from_one(const sg_dataset *d)
{
    bool on = d->schema->format == SG_DATA_ARFF || strcmp(d->schema->label_names[0], "0") != 0;
    for (int64_t i = 0; !on && i < d->label_indptr[d->rows]; i++)
        on = d->label_index[i] == 0;
    return !on;
}

/* The first few names: 'a', 'b', ... */
static void add_name(char *names, size_t size, const char *name, int64_t before)
{
    enum { SHOWN = 3 };
    size_t at = strlen(names);
    if (before < SHOWN)
        snprintf(names + at, size - at, "%s'%.60s'", before ? ", " : "", name);
    else if (before == SHOWN)
        snprintf(names + at, size - at, ", ...");
}

static const char *advice(const sg_dataset *d)
{
    if (!may_count_from_one(d))
        return "add rows that have such labels, or leave the labels out";
    return d->schema->format == SG_DATA_XC
               ? "labels of XC files count from 0; in a file that counts from 1 write each as one less"
               : "labels that are numbers count from 0; --label-base 1 (data.label_base) reads a file that counts from "
                 "1";
}

static void note_absent(const sg_dataset *d, const int64_t *rows, int64_t n, sg_notes *notes)
{
    char names[256] = "";
    int64_t *count = label_counts(d, rows, n), absent = 0;
    for (int64_t i = 0; count && i < d->labels; i++)
        if (count[i] == 0)
            add_name(names, sizeof names, d->schema->label_names[i], absent++);
    sg_free(count);
    if (absent)
        sg_note_add(notes, true, "%lld of %lld labels %s on in no %srow, so never predicted (%s): %s",
                    (long long)absent, (long long)d->labels, absent == 1 ? "is" : "are", rows ? "training " : "", names,
                    advice(d));
}

void sg_dataset_note_absent(sg_dataset *d, const int64_t *rows, int64_t n)
{
    sg_notes notes = {d->n_notes, d->n_notes, d->notes};
    if (d->has_labels)
        note_absent(d, rows, n, &notes);
    d->notes = notes.note;
    d->n_notes = notes.count;
}

/* ----------------------------------------------------------------------------------------------------- data check */

/* Rows that training leaves out, which may be all that it could train on. */
static void check_left_out(const sg_dataset *d, sg_notes *notes)
{
    int64_t empty = 0, light = 0, left = 0;
    for (int64_t r = 0; r < d->rows; r++) {
        bool labelled = sg_dataset_has_label(d, r), weightless = d->weights && d->weights[r] == 0;
        empty += !labelled;
        light += weightless;
        left += labelled && !weightless;
    }
    if (empty)
        sg_note_add(notes, false, "%lld of %lld rows have no label; training leaves them out", (long long)empty,
                    (long long)d->rows);
    if (light)
        sg_note_add(notes, false, "%lld of %lld rows have weight 0; training leaves them out", (long long)light,
                    (long long)d->rows);
    if (empty < d->rows && left == 0)
        sg_note_add(notes, true,
                    "all rows that have a label have weight 0, so none is left to train on: give some a weight above "
                    "0, or leave the weights out");
}

static void check_labels(const sg_dataset *d, sg_notes *notes)
{
    int64_t *count = label_counts(d, NULL, 0), always = 0, first_always = -1;
    for (int64_t i = 0; count && i < d->labels; i++)
        if (count[i] == d->rows && !(d->schema->hierarchical && i == 0) && always++ == 0)
            first_always = i;
    sg_free(count);
    note_absent(d, NULL, 0, notes);
    if (always)
        sg_note_add(notes, true, "%lld labels are on in every row (the first is '%s')", (long long)always,
                    d->schema->label_names[first_always]);
    check_left_out(d, notes);
}

static float value_at(const sg_dataset *d, int64_t r, int64_t j)
{
    if (!d->sparse)
        return d->dense[r * d->features + j];
    int64_t low = d->indptr[r], high = d->indptr[r + 1];
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (d->columns[middle] < j)
            low = middle + 1;
        else
            high = middle;
    }
    return low < d->indptr[r + 1] && d->columns[low] == j ? d->values[low] : 0.0f;
}

static void check_features(const sg_dataset *d, sg_notes *notes)
{
    int64_t constant = 0, first = -1;
    char name[128];
    for (int64_t j = 0; j < d->features; j++) {
        int64_t r = 1;
        float value = d->rows ? value_at(d, 0, j) : 0.0f;
        while (r < d->rows && value_at(d, r, j) == value)
            r++;
        if (r >= d->rows && constant++ == 0)
            first = j;
    }
    if (constant)
        sg_note_add(notes, false, "%lld of %lld features have one value in all rows (the first is '%s')",
                    (long long)constant, (long long)d->features,
                    sg_schema_feature_name(d->schema, first, name, sizeof name));
    if (d->source_missing)
        sg_note_add(notes, false, "%lld feature values are missing", (long long)d->source_missing);
}

/* Features of a row as text bytes, hashed (FNV-1a); equal rows have equal hashes whatever the layout. */
static uint64_t hash_row(const sg_dataset *d, int64_t r)
{
    uint64_t hash = 0xcbf29ce484222325u;
    int64_t n = d->sparse ? d->indptr[r + 1] - d->indptr[r] : d->features;
    for (int64_t i = 0; i < n; i++) {
        float value = d->sparse ? d->values[d->indptr[r] + i] : d->dense[r * d->features + i];
        uint32_t bits, column = d->sparse ? (uint32_t)d->columns[d->indptr[r] + i] : (uint32_t)i;
        if (value == 0.0f)
            continue;
        memcpy(&bits, &value, sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3u;
        hash = (hash ^ column) * 0x100000001b3u;
    }
    return hash;
}

static bool same_rows(const sg_dataset *d, int64_t a, int64_t b)
{
    if (!d->sparse)
        return memcmp(d->dense + a * d->features, d->dense + b * d->features, (size_t)d->features * sizeof(float)) == 0;
    int64_t n = d->indptr[a + 1] - d->indptr[a];
    return n == d->indptr[b + 1] - d->indptr[b] &&
           memcmp(d->columns + d->indptr[a], d->columns + d->indptr[b], (size_t)n * sizeof(int32_t)) == 0 &&
           memcmp(d->values + d->indptr[a], d->values + d->indptr[b], (size_t)n * sizeof(float)) == 0;
}

/* Rows whose features equal an earlier row's; open addressing over row numbers. */
static bool check_duplicates(const sg_dataset *d, sg_notes *notes)
{
    int64_t capacity = 16, duplicates = 0, first = -1;
    while (capacity < 2 * d->rows)
        capacity *= 2;
    int64_t *slot = sg_calloc(capacity, sizeof *slot);
    if (!slot)
        return false;
    for (int64_t r = 0; r < d->rows; r++) {
        uint64_t at = hash_row(d, r) & ((uint64_t)capacity - 1);
        while (slot[at] && !same_rows(d, slot[at] - 1, r))
            at = (at + 1) & ((uint64_t)capacity - 1);
        if (!slot[at])
            slot[at] = r + 1;
        else if (duplicates++ == 0)
            first = r;
    }
    sg_free(slot);
    if (duplicates)
        sg_note_add(notes, false, "%lld rows have the features of an earlier row (the first is row %lld, line %lld)",
                    (long long)duplicates, (long long)first, (long long)d->source_line[first]);
    return true;
}

int32_t sg_dataset_check(sg_dataset *d)
{
    int32_t before = d->n_notes;
    sg_notes notes = {d->n_notes, d->n_notes, d->notes};
    if (d->has_labels)
        check_labels(d, &notes);
    check_features(d, &notes);
    bool ok = check_duplicates(d, &notes);
    d->notes = notes.note;
    d->n_notes = notes.count;
    return ok ? d->n_notes - before : -1;
}
