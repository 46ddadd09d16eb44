/* Which attributes of an ARFF file are labels. Order of trust: the XML list, then --labels N, then -C N in the
 * relation's name. A wrong choice trains on labels as features without a word, so contradictions are refused, not
 * resolved. */
#include "models/data_internal.h"

#include <stdlib.h>
#include <string.h>

/* MEKA: options stand behind the first ':' of the relation's name; -C N means the first N attributes, -C -N the
 * last. */
static bool relation_count(const char *relation, int64_t *out)
{
    const char *at = strchr(relation, ':');
    while (at && (at = strstr(at, "-C")) != NULL) {
        bool starts = sg_is_blank(at[-1]) || at[-1] == ':';
        at += 2;
        if (!starts || !sg_is_blank(*at))
            continue;
        while (sg_is_blank(*at))
            at++;
        /* Filters of Weka glue their names to the last option: "45-weka.filters...". */
        const char *number = at + (*at == '-' || *at == '+');
        const char *end = number + strspn(number, "0123456789");
        return sg_text_integer(at, end, out) && *out != 0;
    }
    return false;
}

static bool in_count(int64_t index, int64_t n, int64_t count) { return count > 0 ? index < count : index >= n + count; }

static bool count_fits(const arff_table *table, int64_t count)
{
    return count != 0 && llabs(count) < table->n_attributes;
}

static void number_labels(arff_table *table, int32_t *n_labels)
{
    *n_labels = 0;
    for (int32_t i = 0; i < table->n_attributes; i++)
        if (table->attributes[i].label >= 0)
            table->attributes[i].label = (*n_labels)++;
}

/* Every name of the list must be an attribute. The order of the ARFF file wins over the list's. */
static sg_status by_list(arff_table *table, const sg_label_list *list, const char *xml, sg_error *err)
{
    sg_names names = {0};
    bool ok = true;
    for (int32_t i = 0; ok && i < table->n_attributes; i++)
        ok = sg_names_add(&names, table->attributes[i].name, i);
    sg_status status = ok ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory reading %s", table->path);
    for (int32_t i = 0; status == SG_OK && i < list->count; i++) {
        int32_t found = sg_names_find(&names, list->name[i]);
        if (found < 0)
            status = sg_fail_at(err, SG_E_DATA, xml, list->line[i], 0, "label '%.100s' is not an attribute of %s",
                                list->name[i], table->path);
        else
            table->attributes[found].label = 0;
    }
    sg_names_free(&names);
    return status;
}

static bool agrees(const arff_table *table, int64_t count)
{
    for (int32_t i = 0; i < table->n_attributes; i++)
        if ((table->attributes[i].label >= 0) != in_count(i, table->n_attributes, count))
            return false;
    return true;
}

static sg_status by_count(arff_table *table, const sg_read_options *options, sg_error *err)
{
    int64_t inside = 0, count = options->label_count;
    bool has_inside = relation_count(table->relation ? table->relation : "", &inside);
    bool filtered = table->relation && strstr(table->relation, "-weka.filters");
    if (has_inside && filtered)
        return sg_fail_at(err, SG_E_DATA, table->path, 0, 0,
                          "the relation was filtered by Weka ('-weka.filters'), so its -C %lld may be wrong: say which "
                          "attributes are labels with --labels-xml",
                          (long long)inside);
    if (count != 0 && has_inside && count != inside)
        return sg_fail_at(err, SG_E_DATA, table->path, 0, 0,
                          "--labels %lld contradicts -C %lld in the relation's name: use --labels-xml",
                          (long long)count, (long long)inside);
    if (count == 0)
        count = inside;
    if (count == 0)
        return sg_fail_at(
            err, SG_E_DATA, table->path, 0, 0,
            "which attributes are labels? Give --labels-xml FILE, or --labels N (first N) or -N (last N)");
    if (!count_fits(table, count))
        return sg_fail_at(err, SG_E_DATA, table->path, 0, 0,
                          "%lld labels, but the file has %d attributes in all, some of which are features",
                          llabs(count), table->n_attributes);
    table->counted = count;
    table->counted_inside = options->label_count == 0;
    for (int32_t i = 0; i < table->n_attributes; i++)
        table->attributes[i].label = in_count(i, table->n_attributes, count) ? 0 : -1;
    return SG_OK;
}

sg_status sg_arff_choose_labels(arff_table *table, const sg_read_options *options, const sg_label_list *list,
                                sg_notes *notes, int32_t *n_labels, sg_error *err)
{
    *n_labels = 0;
    if (table->hierarchy >= 0) {
        if (list || options->label_count)
            sg_note_add(notes, true, "%s: labels are the classes of attribute '%s'; other label settings are ignored",
                        table->path, table->attributes[table->hierarchy].name);
        return SG_OK;
    }
    if (!list) {
        SG_TRY(by_count(table, options, err));
        number_labels(table, n_labels);
        return SG_OK;
    }
    SG_TRY(by_list(table, list, options->labels_xml, err));
    int64_t inside;
    if (relation_count(table->relation ? table->relation : "", &inside) && !agrees(table, inside))
        sg_note_add(notes, true, "%s: -C %lld in the relation's name disagrees with %s, which is used", table->path,
                    (long long)inside, options->labels_xml);
    if (options->label_count && !agrees(table, options->label_count))
        sg_note_add(notes, true, "%s: --labels %lld disagrees with %s, which is used", table->path,
                    (long long)options->label_count, options->labels_xml);
    number_labels(table, n_labels);
    if (*n_labels == table->n_attributes)
        return sg_fail_at(err, SG_E_DATA, table->path, 0, 0, "every attribute is a label: there are no features");
    return SG_OK;
}

const char *sg_arff_counted(const arff_table *table, char out[SG_COUNTED_TEXT])
{
    const char *name = table->counted_inside ? "-C" : "--labels", *signs[] = {"", "-"}, *ends[] = {"first", "last"};
    long long n = llabs(table->counted);
    int last = table->counted < 0;
    out[0] = 0;
    if (n > 0)
        snprintf(out, SG_COUNTED_TEXT, " (%s %s%lld takes the %s %lld attributes, %s %s%lld the %s)", name, signs[last],
                 n, ends[last], n, name, signs[!last], n, ends[!last]);
    return out;
}

static sg_status label_value(arff_table *table, arff_attribute *a, const char *positive, sg_error *err)
{
    char hint[SG_COUNTED_TEXT];
    sg_arff_counted(table, hint);
    if (a->kind == ARFF_NUMERIC)
        return SG_OK;
    if (a->kind != ARFF_NOMINAL || a->n_values > 2)
        return sg_fail_at(err, SG_E_DATA, table->path, a->line, 0,
                          "label '%.100s' is not binary: a label column is {0,1}, "
                          "another pair of values, or numeric%s",
                          a->name, hint);
    for (int32_t v = 0; v < a->n_values; v++) {
        if (!sg_text_positive(a->values[v], positive))
            continue;
        if (a->positive >= 0)
            return sg_fail_at(err, SG_E_DATA, table->path, a->line, 0, "both values of label '%.100s' mean \"on\"",
                              a->name);
        a->positive = v;
    }
    if (a->positive < 0 && a->n_values == 2)
        return sg_fail_at(err, SG_E_DATA, table->path, a->line, 0,
                          "label '%.100s' has the values {%.40s,%.40s}: say which one means \"on\" with --positive%s",
                          a->name, a->values[0], a->values[1], hint);
    return SG_OK;
}

sg_status sg_arff_label_values(arff_table *table, const char *positive, sg_error *err)
{
    for (int32_t i = 0; i < table->n_attributes; i++) {
        arff_attribute *a = &table->attributes[i];
        if (a->twin >= 0 && (a->label >= 0 || table->attributes[a->twin].label >= 0))
            return sg_fail_at(err, SG_E_DATA, table->path, a->line, 0,
                              "label '%.100s' is declared twice, first in line %lld", table->attributes[a->twin].name,
                              (long long)table->attributes[a->twin].line);
        if (a->label >= 0)
            SG_TRY(label_value(table, a, positive, err));
    }
    return SG_OK;
}
