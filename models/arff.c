/* Reading ARFF files: header, choice of labels, rows, then one data set of all files. */
#include "models/arff_internal.h"
#include "models/data_internal.h"

#include <string.h>

int32_t sg_arff_find(const arff_table *table, const char *name)
{
    for (int32_t i = 0; i < table->n_attributes; i++)
        if (strcmp(table->attributes[i].name, name) == 0)
            return i;
    return -1;
}

/* ---------------------------------------------------------------------------------------------- class hierarchies */

static bool add_class(sg_schema *s, int64_t *capacity, sg_names *names, const char *begin, const char *end)
{
    char *name = sg_text_copy(begin, end);
    if (!name)
        return false;
    if (sg_names_find(names, name) >= 0) {
        sg_free(name);
        return true;
    }
    if (!sg_grow(&s->label_names, capacity, s->n_labels + 1, sizeof *s->label_names) ||
        !sg_names_add(names, name, (int32_t)s->n_labels)) {
        sg_free(name);
        return false;
    }
    s->label_names[s->n_labels++] = name;
    return true;
}

bool sg_arff_class_labels(sg_schema *s, const arff_attribute *classes)
{
    static const char root[] = "root";
    sg_names names = {0};
    int64_t capacity = 0;
    s->hierarchical = true;
    bool ok = add_class(s, &capacity, &names, root, root + 4);
    for (int32_t c = 0; ok && c < classes->n_values; c++)
        ok = add_class(s, &capacity, &names, classes->values[c], classes->values[c] + strlen(classes->values[c]));
    for (int32_t c = 0; ok && c < classes->n_values; c++)
        for (const char *slash = strchr(classes->values[c], '/'); ok && slash; slash = strchr(slash + 1, '/'))
            ok = slash == classes->values[c] || add_class(s, &capacity, &names, classes->values[c], slash);
    sg_names_free(&names);
    return ok;
}

/* The parent of a path is the path without its last level; of a single level, the root. */
static bool path_parents(const sg_schema *s, const sg_names *names, int32_t *parent)
{
    for (int64_t i = 0; i < s->n_labels; i++) {
        const char *name = s->label_names[i], *slash = strrchr(name, '/');
        parent[i] = i == 0 ? -1 : 0;
        if (i == 0 || !slash || slash == name)
            continue;
        char *above = sg_text_copy(name, slash);
        if (!above)
            return false;
        int32_t found = sg_names_find(names, above);
        parent[i] = found >= 0 ? found : 0;
        sg_free(above);
    }
    return true;
}

static bool list_parents(const sg_label_list *list, const sg_names *names, int32_t *parent, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        parent[i] = -1;
    for (int32_t i = 0; i < list->count; i++) {
        int32_t label = sg_names_find(names, list->name[i]);
        if (label >= 0 && list->parent[i] >= 0)
            parent[label] = sg_names_find(names, list->name[list->parent[i]]);
    }
    return true;
}

static sg_status find_hierarchy(sg_hierarchy *out, const sg_schema *s, const sg_label_list *list, bool close,
                                sg_error *err)
{
    bool nested = s->hierarchical;
    for (int32_t i = 0; list && i < list->count; i++)
        nested |= list->parent[i] >= 0;
    out->close = s->hierarchical || close;
    if (!nested)
        return SG_OK;
    sg_names names = {0};
    out->parent = sg_calloc(s->n_labels, sizeof *out->parent);
    bool ok = out->parent != NULL;
    for (int64_t i = 0; ok && i < s->n_labels; i++)
        ok = sg_names_add(&names, s->label_names[i], (int32_t)i);
    if (ok)
        ok = s->hierarchical ? path_parents(s, &names, out->parent)
                             : list_parents(list, &names, out->parent, s->n_labels);
    sg_names_free(&names);
    return ok ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory for the label hierarchy");
}

/* -------------------------------------------------------------------------------------------------- several files */

typedef struct arff_reader {
    const sg_read_options *options;
    const char *const *paths;
    int32_t n;
    sg_lines **opened;
    arff_table *tables;
    sg_label_list list;
    bool has_list;
    char **label_names; /* of the first file or the given schema; not owned */
    int32_t n_labels;
    bool any_labels;
    sg_builder builder;
} arff_reader;

/* Later files, and files for a trained model, have their labels under the same names, in any place. */
static sg_status labels_by_name(arff_reader *r, arff_table *t, char *const *names, int64_t n, sg_error *err)
{
    sg_names known = {0};
    bool ok = true;
    for (int64_t i = 0; ok && i < n; i++)
        ok = sg_names_add(&known, names[i], (int32_t)i);
    int64_t found = 0;
    for (int32_t i = 0; ok && i < t->n_attributes; i++) {
        t->attributes[i].label = sg_names_find(&known, t->attributes[i].name);
        found += t->attributes[i].label >= 0;
    }
    sg_names_free(&known);
    if (!ok)
        return sg_fail(err, SG_E_MEMORY, "out of memory reading %s", t->path);
    r->any_labels |= found > 0;
    if (found == n || (found == 0 && r->options->schema))
        return SG_OK;
    for (int64_t i = 0; i < n; i++)
        if (sg_arff_find(t, names[i]) < 0)
            return sg_fail_at(err, SG_E_DATA, t->path, 0, 0, "label '%.100s' is missing (%lld of %lld labels are)",
                              names[i], (long long)(n - found), (long long)n);
    return SG_OK;
}

static sg_status first_labels(arff_reader *r, arff_table *t, sg_error *err)
{
    SG_TRY(sg_arff_choose_labels(t, r->options, r->has_list ? &r->list : NULL, &r->builder.notes, &r->n_labels, err));
    r->label_names = sg_calloc(r->n_labels > 0 ? r->n_labels : 1, sizeof *r->label_names);
    if (!r->label_names)
        return sg_fail(err, SG_E_MEMORY, "out of memory reading %s", t->path);
    for (int32_t i = 0; i < t->n_attributes; i++)
        if (t->attributes[i].label >= 0)
            r->label_names[t->attributes[i].label] = t->attributes[i].name;
    r->any_labels = true;
    return SG_OK;
}

static sg_status choose_labels(arff_reader *r, int32_t k, sg_error *err)
{
    arff_table *t = &r->tables[k];
    const sg_schema *given = r->options->schema;
    bool hierarchical = given ? given->hierarchical : r->tables[0].hierarchy >= 0;
    if (given || k > 0) {
        if ((t->hierarchy >= 0) != hierarchical && !(given && t->hierarchy < 0))
            return sg_fail_at(err, SG_E_DATA, t->path, 0, 0,
                              "the file %s a hierarchical class attribute, unlike the first",
                              hierarchical ? "lacks" : "has");
        if (hierarchical)
            r->any_labels |= t->hierarchy >= 0;
        else
            SG_TRY(labels_by_name(r, t, given ? given->label_names : r->label_names,
                                  given ? given->n_labels : r->n_labels, err));
    } else {
        SG_TRY(first_labels(r, t, err));
    }
    return sg_arff_label_values(t, given ? given->positive : r->options->positive, err);
}

static sg_status read_table(arff_reader *r, int32_t k, sg_error *err)
{
    arff_table *t = &r->tables[k];
    sg_lines *lines;
    t->path = sg_lines_name(r->paths[k]);
    SG_TRY(sg_lines_take(&lines, r->opened, r->paths[k], &r->builder.notes, err));
    sg_status status = sg_arff_header(t, lines, &r->builder.notes, err);
    if (status == SG_OK)
        status = choose_labels(r, k, err);
    if (status == SG_OK)
        status = sg_arff_rows(t, lines, r->options->arff_index_base, &r->builder.notes, err);
    sg_lines_close(lines);
    return status;
}

static sg_status encode_tables(arff_reader *r, sg_schema *schema, sg_error *err)
{
    sg_hierarchy hierarchy = {0};
    sg_status status =
        find_hierarchy(&hierarchy, schema, r->has_list ? &r->list : NULL, r->options->close_hierarchy, err);
    for (int32_t k = 0; status == SG_OK && k < r->n; k++)
        status = sg_arff_encode(&r->tables[k], schema, &hierarchy, k, &r->builder, err);
    sg_free(hierarchy.parent);
    return status;
}

static sg_status read_tables(arff_reader *r, sg_dataset **out, sg_error *err)
{
    const sg_read_options *options = r->options;
    if (options->labels_xml && !options->schema) {
        SG_TRY(sg_mulan_read(&r->list, options->labels_xml, &r->builder.notes, err));
        r->has_list = true;
    }
    for (int32_t k = 0; k < r->n; k++)
        SG_TRY(read_table(r, k, err));
    sg_schema *schema = options->schema ? sg_schema_copy(options->schema)
                                        : sg_arff_schema(r->tables, r->n, r->n_labels, options, &r->builder.notes);
    if (!schema)
        return sg_fail(err, SG_E_MEMORY, "out of memory reading %s", r->paths[0]);
    sg_status status = SG_OK;
    if (schema->n_features == 0)
        status = sg_fail_at(err, SG_E_DATA, r->paths[0], 0, 0, "no attribute is left as a feature");
    if (status == SG_OK)
        status = encode_tables(r, schema, err);
    if (status != SG_OK) {
        sg_schema_free(schema);
        return status;
    }
    r->builder.data->has_labels = r->any_labels;
    return sg_builder_finish(&r->builder, schema, options->layout, out, err);
}

sg_status sg_read_arff(sg_dataset **out, const char *const *paths, int32_t n, sg_lines **opened,
                       const sg_read_options *options, sg_error *err)
{
    arff_reader r = {.options = options, .paths = paths, .n = n, .opened = opened};
    r.tables = sg_calloc(n, sizeof *r.tables);
    sg_status status = r.tables && sg_builder_init(&r.builder, paths, n) ? SG_OK : SG_E_MEMORY;
    if (status == SG_OK)
        status = read_tables(&r, out, err);
    else
        sg_fail(err, status, "out of memory reading %s", paths[0]);
    for (int32_t k = 0; r.tables && k < n; k++)
        sg_arff_free(&r.tables[k]);
    sg_free(r.tables);
    sg_free(r.label_names);
    sg_mulan_free(&r.list);
    sg_builder_free(&r.builder);
    return status;
}
