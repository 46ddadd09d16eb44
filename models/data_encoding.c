/* Schema and preprocessing as JSON, so that a model folder carries what turns a file into its features. */
#include "models/data_internal.h"
#include "models/json_internal.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_name[] = {"numeric", "binary", "one-hot", "dropped"};

static json_t *text_list(char *const *text, int64_t n)
{
    json_t *list = json_array();
    for (int64_t i = 0; list && i < n; i++)
        if (json_array_append_new(list, json_string(text[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *real_list(const float *value, int64_t n)
{
    json_t *list = json_array();
    for (int64_t i = 0; list && i < n; i++)
        if (json_array_append_new(list, sg_json_float(value[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *save_columns(const sg_schema *s)
{
    json_t *list = json_array();
    for (int64_t i = 0; list && i < s->n_columns; i++) {
        const sg_column *c = &s->columns[i];
        json_t *column = json_pack("{s:s, s:s}", "name", c->name, "kind", kind_name[c->kind]);
        if (column && c->n_values)
            json_object_set_new(column, "values", text_list(c->values, c->n_values));
        if (column && c->kind == SG_COLUMN_BINARY)
            json_object_set_new(column, "positive", json_integer(c->positive));
        if (json_array_append_new(list, column) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *save_preprocess(const sg_preprocess *p)
{
    json_t *flagged = json_array();
    for (int64_t i = 0; flagged && i < p->n_out - p->n_in; i++)
        json_array_append_new(flagged, json_integer(p->flagged[i]));
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "impute", sg_impute_name(p->impute), "scaling",
                     sg_scaling_name(p->scaling), "fill", real_list(p->fill, p->n_in), "flagged", flagged, "offset",
                     real_list(p->offset, p->n_out), "scale", real_list(p->scale, p->n_out));
}

char *sg_encoding_save(const sg_schema *s, const sg_preprocess *p)
{
    json_t *root =
        json_pack("{s:s, s:i, s:i, s:s, s:b, s:o, s:o}", "format", sg_data_format_name(s->format), "index_base",
                  s->index_base, "label_base", s->label_base, "relation", s->relation, "hierarchical", s->hierarchical,
                  "columns", save_columns(s), "labels", text_list(s->label_names, s->n_labels));
    if (root && s->positive)
        json_object_set_new(root, "positive", json_string(s->positive));
    if (root && p && json_object_set_new(root, "preprocess", save_preprocess(p)) != 0) {
        json_decref(root);
        root = NULL;
    }
    char *text = root ? sg_json_dump(root, false) : NULL;
    json_decref(root);
    return text;
}

/* -------------------------------------------------------------------------------------------------------- loading */

static sg_status bad(sg_error *err, const char *what)
{
    return sg_fail(err, SG_E_DATA, "the stored encoding is damaged: %s", what);
}

static int find_name(const char *name, const char *const *names, int n)
{
    for (int i = 0; name && i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

static sg_status load_texts(const json_t *list, char **out, sg_error *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text)
            return bad(err, "a list of texts holds something else");
        out[i] = sg_strdup(text);
        if (!out[i])
            return sg_fail(err, SG_E_MEMORY, "out of memory loading an encoding");
    }
    return SG_OK;
}

static sg_status load_column(sg_column *c, const json_t *from, int64_t *features, sg_error *err)
{
    const char *name = json_string_value(json_object_get(from, "name"));
    int kind = find_name(json_string_value(json_object_get(from, "kind")), kind_name, 4);
    const json_t *values = json_object_get(from, "values"), *positive = json_object_get(from, "positive");
    size_t n = json_array_size(values);
    if (!name || kind < 0 || n > SG_MAX_COLUMNS)
        return bad(err, "a column without name or kind");
    bool nominal = kind == SG_COLUMN_BINARY || kind == SG_COLUMN_ONE_HOT;
    if (nominal != (n > 0) || (kind == SG_COLUMN_BINARY && n > 2))
        return bad(err, "the values of a column do not fit its kind");
    c->kind = (sg_column_kind)kind;
    c->positive = json_is_integer(positive) ? (int32_t)json_integer_value(positive) : -1;
    c->name = sg_strdup(name);
    c->values = n ? sg_calloc((int64_t)n, sizeof *c->values) : NULL;
    if (!c->name || (n && !c->values))
        return sg_fail(err, SG_E_MEMORY, "out of memory loading an encoding");
    c->n_values = (int32_t)n;
    SG_TRY(load_texts(values, c->values, err));
    c->first = kind == SG_COLUMN_DROPPED ? -1 : *features;
    *features += kind == SG_COLUMN_DROPPED ? 0 : kind == SG_COLUMN_ONE_HOT ? (int64_t)n : 1;
    return *features <= SG_MAX_COLUMNS ? SG_OK : bad(err, "too many features");
}

static sg_status load_schema(sg_schema *s, const json_t *root, sg_error *err)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    const char *relation = json_string_value(json_object_get(root, "relation"));
    const char *positive = json_string_value(json_object_get(root, "positive"));
    int64_t base = json_integer_value(json_object_get(root, "index_base"));
    int64_t label_base = json_integer_value(json_object_get(root, "label_base"));
    if (!format || !sg_data_format_parse(format, &s->format) || !relation || base < 0 || base > 1 || label_base < 0 ||
        label_base > 1)
        return bad(err, "format, relation, index base or label base");
    s->index_base = (int32_t)base;
    s->label_base = (int32_t)label_base;
    s->hierarchical = json_is_true(json_object_get(root, "hierarchical"));
    sg_free(s->relation);
    s->relation = sg_strdup(relation);
    s->positive = positive ? sg_strdup(positive) : NULL;
    if (!s->relation || (positive && !s->positive))
        return sg_fail(err, SG_E_MEMORY, "out of memory loading an encoding");
    const json_t *columns = json_object_get(root, "columns");
    for (int64_t i = 0; i < s->n_columns; i++)
        SG_TRY(load_column(&s->columns[i], json_array_get(columns, (size_t)i), &s->n_features, err));
    return load_texts(json_object_get(root, "labels"), s->label_names, err);
}

static sg_status load_reals(const json_t *list, float *out, int64_t n, sg_error *err)
{
    if (json_array_size(list) != (size_t)n)
        return bad(err, "a list of numbers has the wrong length");
    for (int64_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, (size_t)i);
        out[i] = (float)json_number_value(item);
        if (!json_is_number(item) || !isfinite(out[i]))
            return bad(err, "a list of numbers holds something else");
    }
    return SG_OK;
}

static sg_status load_preprocess(sg_preprocess **out, const json_t *from, int64_t features, sg_error *err)
{
    const char *impute = json_string_value(json_object_get(from, "impute"));
    const char *scaling = json_string_value(json_object_get(from, "scaling"));
    const json_t *flagged = json_object_get(from, "flagged");
    int64_t extra = (int64_t)json_array_size(flagged);
    if (extra > features)
        return bad(err, "more indicators than features");
    sg_preprocess *p = *out = sg_preprocess_new(features, features + extra);
    if (!p)
        return sg_fail(err, SG_E_MEMORY, "out of memory loading an encoding");
    if (!impute || !sg_impute_parse(impute, &p->impute) || !scaling || !sg_scaling_parse(scaling, &p->scaling))
        return bad(err, "imputation or scaling");
    for (int64_t i = 0; i < extra; i++) {
        int64_t feature = json_integer_value(json_array_get(flagged, (size_t)i));
        if (feature < 0 || feature >= features)
            return bad(err, "an indicator of no feature");
        p->flagged[i] = (int32_t)feature;
    }
    SG_TRY(load_reals(json_object_get(from, "fill"), p->fill, p->n_in, err));
    SG_TRY(load_reals(json_object_get(from, "offset"), p->offset, p->n_out, err));
    return load_reals(json_object_get(from, "scale"), p->scale, p->n_out, err);
}

static sg_status load_root(const json_t *root, sg_schema **schema, sg_preprocess **p, sg_error *err)
{
    size_t columns = json_array_size(json_object_get(root, "columns"));
    size_t labels = json_array_size(json_object_get(root, "labels"));
    if (columns < 1 || columns > SG_MAX_COLUMNS || labels < 1 || labels > SG_MAX_COLUMNS)
        return bad(err, "no columns or no labels");
    *schema = sg_schema_new((int64_t)columns, (int64_t)labels);
    if (!*schema)
        return sg_fail(err, SG_E_MEMORY, "out of memory loading an encoding");
    SG_TRY(load_schema(*schema, root, err));
    const json_t *preprocess = json_object_get(root, "preprocess");
    return preprocess ? load_preprocess(p, preprocess, (*schema)->n_features, err) : SG_OK;
}

sg_status sg_encoding_load(const char *text, size_t size, sg_schema **schema, sg_preprocess **p, sg_error *err)
{
    *schema = NULL;
    *p = NULL;
    json_error_t where;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return bad(err, where.text);
    sg_status status = load_root(root, schema, p, err);
    json_decref(root);
    if (status != SG_OK) {
        sg_schema_free(*schema);
        sg_preprocess_free(*p);
        *schema = NULL;
        *p = NULL;
    }
    return status;
}
