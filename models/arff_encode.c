/* From ARFF tables to a data set: the schema (which attribute becomes which features), then row after row. */
#include "models/arff_internal.h"

#include <math.h>
#include <string.h>

/* Nominals with more values than this, or a new value in every row, identify rows and do not describe them. */
#define MAX_ONE_HOT 50

static sg_status no_memory(const arff_table *table, sg_error *err)
{
    return sg_fail(err, SG_E_MEMORY, "out of memory reading %s", table->path);
}

/* ------------------------------------------------------------------------------------------------------- schema */

static int64_t total_rows(const arff_table *tables, int32_t n)
{
    int64_t rows = 0;
    for (int32_t k = 0; k < n; k++)
        rows += tables[k].rows;
    return rows;
}

/* Does every row have its own value? Files after the first may have the attribute elsewhere; it is then looked for
 * by name only to decide this, which matters for at most MAX_ONE_HOT rows. */
static bool all_rows_differ(const arff_table *tables, int32_t n, int32_t attribute)
{
    bool used[MAX_ONE_HOT] = {false};
    for (int32_t k = 0; k < n; k++) {
        const arff_table *t = &tables[k];
        int32_t here = k == 0 ? attribute : sg_arff_find(t, tables[0].attributes[attribute].name);
        for (int64_t r = 0; r < t->rows; r++) {
            double value = 0.0;
            for (int64_t i = t->indptr[r]; i < t->indptr[r + 1]; i++)
                if (t->cell_attribute[i] == here)
                    value = t->cell_value[i];
            if (isnan(value) || value >= MAX_ONE_HOT || used[(int)value])
                return false;
            used[(int)value] = true;
        }
    }
    return true;
}

static int32_t positive_value(const arff_attribute *a)
{
    int32_t found = -1, count = 0;
    for (int32_t v = 0; v < a->n_values; v++) {
        if (sg_text_positive(a->values[v], NULL)) {
            found = v;
            count++;
        }
    }
    return count == 1 ? found : a->n_values - 1 > 0 ? 1 : -1;
}

static sg_column_kind nominal_kind(const arff_table *tables, int32_t n, int32_t index, sg_nominal_rule rule,
                                   sg_notes *notes)
{
    const arff_attribute *a = &tables[0].attributes[index];
    if (a->n_values <= 2 && rule == SG_NOMINAL_AUTO)
        rule = tables[0].hierarchy >= 0 ? SG_NOMINAL_ONE_HOT : SG_NOMINAL_BINARY;
    if (a->n_values <= 2 && rule != SG_NOMINAL_ONE_HOT)
        return SG_COLUMN_BINARY;
    int64_t rows = total_rows(tables, n);
    bool many = a->n_values > MAX_ONE_HOT;
    if (!many && !(rows > 2 && a->n_values >= rows && all_rows_differ(tables, n, index)))
        return SG_COLUMN_ONE_HOT;
    sg_note_add(notes, false, "%s:%lld: attribute '%s' is left out: a nominal with %s", tables[0].path,
                (long long)a->line, a->name, many ? "more than 50 values" : "another value in each row");
    return SG_COLUMN_DROPPED;
}

static bool fill_column(sg_column *c, const arff_attribute *a)
{
    c->name = sg_strdup(a->name);
    if (!c->name)
        return false;
    if (a->kind != ARFF_NOMINAL || c->kind == SG_COLUMN_DROPPED)
        return true;
    c->values = sg_calloc(a->n_values, sizeof *c->values);
    bool ok = c->values != NULL;
    c->n_values = ok ? a->n_values : 0;
    for (int32_t v = 0; ok && v < a->n_values; v++)
        ok = (c->values[v] = sg_strdup(a->values[v])) != NULL;
    return ok;
}

static bool fill_columns(sg_schema *s, const arff_table *tables, int32_t n, sg_nominal_rule rule, sg_notes *notes)
{
    int64_t at = 0;
    for (int32_t i = 0; i < tables[0].n_attributes; i++) {
        const arff_attribute *a = &tables[0].attributes[i];
        if (a->label >= 0 || a->kind == ARFF_HIERARCHICAL)
            continue;
        sg_column *c = &s->columns[at++];
        c->kind = a->kind == ARFF_NUMERIC ? SG_COLUMN_NUMERIC : SG_COLUMN_DROPPED;
        if (a->kind == ARFF_NOMINAL)
            c->kind = nominal_kind(tables, n, i, rule, notes);
        if (a->kind == ARFF_STRING)
            sg_note_add(notes, false, "%s:%lld: attribute '%s' is left out: it is a string", tables[0].path,
                        (long long)a->line, a->name);
        if (!fill_column(c, a))
            return false;
        c->positive = c->kind == SG_COLUMN_BINARY ? positive_value(a) : -1;
        c->first = c->kind == SG_COLUMN_DROPPED ? -1 : s->n_features;
        s->n_features += c->kind == SG_COLUMN_DROPPED ? 0 : c->kind == SG_COLUMN_ONE_HOT ? a->n_values : 1;
    }
    return true;
}

sg_schema *sg_arff_schema(const arff_table *tables, int32_t n, int32_t n_labels, const sg_read_options *options,
                          sg_notes *notes)
{
    const arff_table *t = &tables[0];
    int64_t columns = t->n_attributes - (t->hierarchy >= 0 ? 1 : n_labels);
    sg_schema *s = sg_schema_new(columns, t->hierarchy >= 0 ? 0 : n_labels);
    if (!s)
        return NULL;
    s->format = SG_DATA_ARFF;
    sg_free(s->relation);
    s->relation = sg_strdup(t->relation ? t->relation : "");
    bool ok = s->relation && fill_columns(s, tables, n, options->nominal, notes);
    if (ok && options->positive)
        ok = (s->positive = sg_strdup(options->positive)) != NULL;
    if (ok && t->hierarchy >= 0)
        ok = sg_arff_class_labels(s, &t->attributes[t->hierarchy]);
    for (int32_t i = 0; ok && i < t->n_attributes; i++)
        if (t->attributes[i].label >= 0)
            ok = (s->label_names[t->attributes[i].label] = sg_strdup(t->attributes[i].name)) != NULL;
    if (ok)
        return s;
    sg_schema_free(s);
    return NULL;
}

/* ----------------------------------------------------------------------------------------------------- encoding */

typedef struct encoder {
    const arff_table *table;
    const sg_schema *schema;
    const sg_hierarchy *hierarchy;
    sg_builder *builder;
    int32_t file;
    const sg_column **column; /* [n_attributes] of the schema, NULL if not a feature */
    int32_t **value;          /* [n_attributes] value of this file -> value of the schema, -1 unknown */
    int64_t *seen;            /* [n_attributes] row that named the attribute last, plus 1 */
    int32_t *filled;          /* attributes whose omitted value is not zero */
    int32_t n_filled;
    int32_t *class_label; /* class of this file -> label */
    int64_t *marked;      /* [n_labels] row in which the label is on, plus 1 */
    int64_t unknown_values, violations;
    sg_names columns;
} encoder;

static void encoder_free(encoder *e)
{
    for (int32_t i = 0; e->value && i < e->table->n_attributes; i++)
        sg_free(e->value[i]);
    sg_free(e->column);
    sg_free(e->value);
    sg_free(e->seen);
    sg_free(e->filled);
    sg_free(e->class_label);
    sg_free(e->marked);
    sg_names_free(&e->columns);
}

static bool emit(encoder *e, int32_t attribute, double value)
{
    const arff_attribute *a = &e->table->attributes[attribute];
    if (a->label >= 0) {
        if (isnan(value))
            return sg_builder_unknown(e->builder, a->label);
        bool on = a->kind == ARFF_NUMERIC ? value == 1.0 : (int32_t)value == a->positive;
        return !on || sg_builder_label(e->builder, a->label);
    }
    const sg_column *c = e->column[attribute];
    if (!c || c->kind == SG_COLUMN_DROPPED)
        return true;
    int32_t first = (int32_t)c->first;
    e->builder->data->source_missing += isnan(value);
    if (c->kind == SG_COLUMN_NUMERIC)
        return sg_builder_value(e->builder, first, (float)value);
    int32_t index = isnan(value) ? -1 : e->value[attribute][(int32_t)value];
    e->unknown_values += index < 0 && !isnan(value);
    if (c->kind == SG_COLUMN_BINARY)
        return sg_builder_value(e->builder, first, index < 0 ? NAN : index == c->positive ? 1.0f : 0.0f);
    return index < 0 || sg_builder_value(e->builder, first + index, 1.0f);
}

/* Is the omitted value of this attribute something else than zero? */
static bool needs_filling(const encoder *e, int32_t i)
{
    const arff_attribute *a = &e->table->attributes[i];
    if (a->kind != ARFF_NOMINAL)
        return false;
    if (a->label >= 0)
        return a->positive == 0;
    const sg_column *c = e->column[i];
    if (!c || c->kind == SG_COLUMN_DROPPED)
        return false;
    return c->kind == SG_COLUMN_ONE_HOT || e->value[i][0] != (c->positive == 0 ? 1 : 0);
}

static sg_status map_values(encoder *e, int32_t i, sg_error *err)
{
    const arff_attribute *a = &e->table->attributes[i];
    const sg_column *c = e->column[i];
    if (!c || c->kind == SG_COLUMN_DROPPED)
        return SG_OK;
    bool nominal = a->kind == ARFF_NOMINAL;
    if (a->kind == ARFF_STRING || nominal != (c->kind != SG_COLUMN_NUMERIC))
        return sg_fail_at(err, SG_E_DATA, e->table->path, a->line, 0,
                          "attribute '%.100s' is %s here, but %s was expected", a->name,
                          nominal                  ? "nominal"
                          : a->kind == ARFF_STRING ? "a string"
                                                   : "a number",
                          c->kind == SG_COLUMN_NUMERIC ? "a number" : "a nominal");
    if (!nominal)
        return SG_OK;
    e->value[i] = sg_calloc(a->n_values, sizeof **e->value);
    if (!e->value[i])
        return no_memory(e->table, err);
    for (int32_t v = 0; v < a->n_values; v++) {
        e->value[i][v] = -1;
        for (int32_t w = 0; w < c->n_values; w++)
            if (strcmp(a->values[v], c->values[w]) == 0)
                e->value[i][v] = w;
    }
    return SG_OK;
}

/* Find the schema's column of each attribute, by name; every column that matters must be there. */
static sg_status map_columns(encoder *e, sg_error *err)
{
    const sg_schema *s = e->schema;
    int64_t found = 0, needed = 0, ignored = 0;
    for (int64_t j = 0; j < s->n_columns; j++) {
        needed += s->columns[j].kind != SG_COLUMN_DROPPED;
        if (!sg_names_add(&e->columns, s->columns[j].name, (int32_t)j))
            return no_memory(e->table, err);
    }
    for (int32_t i = 0; i < e->table->n_attributes; i++) {
        const arff_attribute *a = &e->table->attributes[i];
        if (a->label >= 0 || a->kind == ARFF_HIERARCHICAL)
            continue;
        int32_t j = sg_names_find(&e->columns, a->name);
        ignored += j < 0;
        if (j < 0)
            continue;
        e->column[i] = &s->columns[j];
        found += s->columns[j].kind != SG_COLUMN_DROPPED;
        SG_TRY(map_values(e, i, err));
    }
    if (ignored)
        sg_note_add(&e->builder->notes, true, "%s: %lld attribute%s not known and ignored", e->table->path,
                    (long long)ignored, ignored == 1 ? " is" : "s are");
    for (int64_t j = 0; found < needed && j < s->n_columns; j++)
        if (s->columns[j].kind != SG_COLUMN_DROPPED && sg_arff_find(e->table, s->columns[j].name) < 0)
            return sg_fail_at(err, SG_E_DATA, e->table->path, 0, 0, "attribute '%.100s' is missing (%lld of %lld are)",
                              s->columns[j].name, (long long)(needed - found), (long long)needed);
    return SG_OK;
}

static sg_status map_classes(encoder *e, sg_error *err)
{
    if (e->table->hierarchy < 0)
        return SG_OK;
    const arff_attribute *a = &e->table->attributes[e->table->hierarchy];
    sg_names labels = {0};
    bool ok = (e->class_label = sg_calloc(a->n_values, sizeof *e->class_label)) != NULL;
    for (int64_t i = 0; ok && i < e->schema->n_labels; i++)
        ok = sg_names_add(&labels, e->schema->label_names[i], (int32_t)i);
    sg_status status = ok ? SG_OK : no_memory(e->table, err);
    for (int32_t c = 0; status == SG_OK && c < a->n_values; c++) {
        e->class_label[c] = sg_names_find(&labels, a->values[c]);
        if (e->class_label[c] < 0)
            status = sg_fail_at(err, SG_E_DATA, e->table->path, a->line, 0, "class '%.100s' is not among the labels",
                                a->values[c]);
    }
    sg_names_free(&labels);
    return status;
}

static sg_status encoder_prepare(encoder *e, sg_error *err)
{
    int32_t n = e->table->n_attributes;
    e->column = sg_calloc(n, sizeof *e->column);
    e->value = sg_calloc(n, sizeof *e->value);
    e->seen = sg_calloc(n, sizeof *e->seen);
    e->filled = sg_calloc(n, sizeof *e->filled);
    e->marked = sg_calloc(e->schema->n_labels + 1, sizeof *e->marked);
    if (!e->column || !e->value || !e->seen || !e->filled || !e->marked)
        return no_memory(e->table, err);
    SG_TRY(map_columns(e, err));
    SG_TRY(map_classes(e, err));
    for (int32_t i = 0; i < n; i++)
        if (needs_filling(e, i))
            e->filled[e->n_filled++] = i;
    return SG_OK;
}

static bool encode_classes(encoder *e, int64_t row)
{
    const arff_table *t = e->table;
    bool ok = sg_builder_label(e->builder, 0);
    for (int64_t i = t->class_indptr[row]; ok && i < t->class_indptr[row + 1]; i++) {
        if (t->class_index[i] >= 0)
            ok = sg_builder_label(e->builder, e->class_label[t->class_index[i]]);
        else
            for (int64_t label = 1; ok && label < e->schema->n_labels; label++)
                ok = sg_builder_unknown(e->builder, (int32_t)label);
    }
    return ok;
}

/* Walk up from every label that is on. Ancestors that are off are added, or counted as violations. */
static bool close_labels(encoder *e)
{
    sg_builder *b = e->builder;
    const int32_t *parent = e->hierarchy->parent;
    int64_t stamp = b->data->rows + 1, end = b->on;
    for (int64_t i = b->label_begin; i < end; i++)
        e->marked[b->data->label_index[i]] = stamp;
    for (int64_t i = b->label_begin; i < end; i++) {
        for (int32_t p = parent[b->data->label_index[i]]; p >= 0 && e->marked[p] != stamp; p = parent[p]) {
            e->violations++;
            e->marked[p] = stamp;
            if (e->hierarchy->close && !sg_builder_label(b, p))
                return false;
        }
    }
    return true;
}

static bool encode_row(encoder *e, int64_t row)
{
    const arff_table *t = e->table;
    bool ok = true;
    for (int64_t i = t->indptr[row]; ok && i < t->indptr[row + 1]; i++) {
        e->seen[t->cell_attribute[i]] = row + 1;
        ok = emit(e, t->cell_attribute[i], t->cell_value[i]);
    }
    for (int32_t k = 0; ok && k < e->n_filled; k++)
        if (e->seen[e->filled[k]] != row + 1)
            ok = emit(e, e->filled[k], 0.0);
    if (ok && t->hierarchy >= 0)
        ok = encode_classes(e, row);
    if (ok && e->hierarchy->parent)
        ok = close_labels(e);
    return ok && sg_builder_row(e->builder, e->file, t->lines[row], t->weights[row], NULL);
}

static void report(const encoder *e)
{
    sg_notes *notes = &e->builder->notes;
    const char *path = e->table->path;
    int32_t omitted_on = 0;
    for (int32_t i = 0; e->table->sparse && i < e->table->n_attributes; i++)
        omitted_on += e->table->attributes[i].label >= 0 && e->table->attributes[i].positive == 0;
    if (omitted_on)
        sg_note_add(notes, true,
                    "%s: %d label%s on where a sparse row leaves out the value, because the first declared value "
                    "means \"on\"",
                    path, omitted_on, omitted_on == 1 ? " is" : "s are");
    if (e->unknown_values)
        sg_note_add(notes, true, "%s: %lld nominal values were not declared in the first file and count as missing",
                    path, (long long)e->unknown_values);
    if (e->violations && !e->schema->hierarchical)
        sg_note_add(notes, !e->hierarchy->close, "%s: %lld labels are on without their parent label%s", path,
                    (long long)e->violations,
                    e->hierarchy->close ? "; the parents were added" : " (--close-hierarchy adds the parents)");
}

sg_status sg_arff_encode(const arff_table *table, const sg_schema *schema, const sg_hierarchy *hierarchy, int32_t file,
                         sg_builder *builder, sg_error *err)
{
    encoder e = {.table = table, .schema = schema, .hierarchy = hierarchy, .builder = builder, .file = file};
    sg_status status = encoder_prepare(&e, err);
    for (int64_t r = 0; status == SG_OK && r < table->rows; r++)
        if (!encode_row(&e, r))
            status = no_memory(table, err);
    if (status == SG_OK)
        report(&e);
    builder->data->source_sparse |= table->sparse;
    encoder_free(&e);
    return status;
}
