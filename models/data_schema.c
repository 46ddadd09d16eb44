/* Schemas: what the columns of the source are and how they become features. */
#include "models/data_internal.h"

#include <string.h>

sg_schema *sg_schema_new(int64_t n_columns, int64_t n_labels)
{
    sg_schema *s = sg_calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->n_columns = n_columns;
    s->n_labels = n_labels;
    s->columns = sg_calloc(n_columns > 0 ? n_columns : 1, sizeof *s->columns);
    s->label_names = sg_calloc(n_labels > 0 ? n_labels : 1, sizeof *s->label_names);
    s->relation = sg_strdup("");
    if (s->columns && s->label_names && s->relation)
        return s;
    sg_schema_free(s);
    return NULL;
}

void sg_schema_free(sg_schema *s)
{
    if (!s)
        return;
    for (int64_t i = 0; s->columns && i < s->n_columns; i++) {
        sg_column *c = &s->columns[i];
        for (int32_t v = 0; c->values && v < c->n_values; v++)
            sg_free(c->values[v]);
        sg_free(c->values);
        sg_free(c->name);
    }
    for (int64_t i = 0; s->label_names && i < s->n_labels; i++)
        sg_free(s->label_names[i]);
    sg_free(s->columns);
    sg_free(s->label_names);
    sg_free(s->relation);
    sg_free(s->positive);
    sg_free(s);
}

static bool copy_column(sg_column *to, const sg_column *from)
{
    *to = *from;
    to->values = NULL;
    to->name = sg_strdup(from->name);
    if (!to->name)
        return false;
    if (from->n_values == 0)
        return true;
    to->values = sg_calloc(from->n_values, sizeof *to->values);
    bool ok = to->values != NULL;
    for (int32_t v = 0; ok && v < from->n_values; v++)
        ok = (to->values[v] = sg_strdup(from->values[v])) != NULL;
    return ok;
}

sg_schema *sg_schema_copy(const sg_schema *from)
{
    sg_schema *s = sg_schema_new(from->n_columns, from->n_labels);
    if (!s)
        return NULL;
    bool ok = true;
    s->format = from->format;
    s->index_base = from->index_base;
    s->label_base = from->label_base;
    s->n_features = from->n_features;
    s->hierarchical = from->hierarchical;
    sg_free(s->relation);
    ok = (s->relation = sg_strdup(from->relation)) != NULL;
    if (ok && from->positive)
        ok = (s->positive = sg_strdup(from->positive)) != NULL;
    for (int64_t i = 0; ok && i < s->n_columns; i++)
        ok = copy_column(&s->columns[i], &from->columns[i]);
    for (int64_t i = 0; ok && i < s->n_labels; i++)
        ok = (s->label_names[i] = sg_strdup(from->label_names[i])) != NULL;
    if (ok)
        return s;
    sg_schema_free(s);
    return NULL;
}

const char *sg_schema_feature_name(const sg_schema *s, int64_t feature, char *out, size_t size)
{
    /* Features are numbered in column order, so the column is the last one that starts at or before the feature. */
    const sg_column *found = NULL;
    int64_t low = 0, high = s->n_columns;
    while (low < high) {
        int64_t middle = low + (high - low) / 2, probe = middle;
        while (probe < high && s->columns[probe].first < 0)
            probe++;
        if (probe < high && s->columns[probe].first <= feature) {
            found = &s->columns[probe];
            low = probe + 1;
        } else {
            high = middle;
        }
    }
    if (!found)
        snprintf(out, size, "feature%lld", (long long)feature);
    else if (found->kind == SG_COLUMN_ONE_HOT && feature - found->first < found->n_values)
        snprintf(out, size, "%s=%s", found->name, found->values[feature - found->first]);
    else if (feature == found->first)
        snprintf(out, size, "%s", found->name);
    else
        snprintf(out, size, "feature%lld", (long long)feature);
    return out;
}

const char *sg_data_format_name(sg_data_format format)
{
    static const char *const name[] = {"auto", "arff", "libsvm", "xc"};
    return name[format];
}

bool sg_data_format_parse(const char *name, sg_data_format *out)
{
    for (int i = SG_DATA_AUTO; i <= SG_DATA_XC; i++) {
        if (strcmp(name, sg_data_format_name((sg_data_format)i)) == 0) {
            *out = (sg_data_format)i;
            return true;
        }
    }
    return false;
}
