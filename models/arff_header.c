/* The header of an ARFF file: @relation, @attribute, @data. What real files contain decides: names without quotes
 * are literal up to the next blank or brace (backslashes, apostrophes and percent signs included), `%` starts a
 * comment only at the start of a line or behind a complete declaration. */
#include "models/data_internal.h"

#include <string.h>
#include <strings.h>

static const char *skip_blanks(const char *at)
{
    while (sg_is_blank(*at))
        at++;
    return at;
}

static const char *trim_back(const char *begin, const char *end)
{
    while (end > begin && sg_is_blank(end[-1]))
        end--;
    return end;
}

static bool at_end_or_comment(const char *at)
{
    at = skip_blanks(at);
    return *at == '\0' || *at == '%';
}

static sg_status no_memory(const sg_lines *lines, sg_error *err)
{
    return sg_fail(err, SG_E_MEMORY, "out of memory reading %s", sg_lines_path(lines));
}

static char escaped(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
        return '\r';
    default:
        return c;
    }
}

bool sg_arff_quoted(const char **at, char **out)
{
    const char *begin = *at, *end = begin + 1;
    while (*end && *end != *begin)
        end += end[0] == '\\' && end[1] ? 2 : 1;
    *out = NULL;
    if (*end == '\0')
        return false;
    char *text = sg_alloc((size_t)(end - begin));
    if (!text)
        return true;
    char *to = text;
    for (const char *from = begin + 1; from < end; from++) {
        if (*from == '\\' && from + 1 < end)
            *to++ = escaped(*++from);
        else
            *to++ = *from;
    }
    *to = '\0';
    *out = text;
    *at = end + 1;
    return true;
}

/* A quoted text with its errors: unterminated, or out of memory. */
static sg_status quoted(const sg_lines *lines, const char **at, char **out, sg_error *err)
{
    const char *begin = *at;
    if (!sg_arff_quoted(at, out))
        return sg_lines_fail(lines, begin, err, "the quote is not closed");
    return *out ? SG_OK : no_memory(lines, err);
}

static sg_status read_relation(arff_table *table, const sg_lines *lines, const char *at, sg_error *err)
{
    at = skip_blanks(at);
    sg_free(table->relation);
    table->relation = NULL;
    if (*at == '\'' || *at == '"')
        return quoted(lines, &at, &table->relation, err);
    table->relation = sg_text_copy(at, trim_back(at, at + strlen(at)));
    return table->relation ? SG_OK : no_memory(lines, err);
}

static sg_status read_name(const sg_lines *lines, const char **at, char **out, sg_error *err)
{
    const char *begin = *at, *end = begin;
    if (*begin == '\'' || *begin == '"')
        return quoted(lines, at, out, err);
    while (*end && !sg_is_blank(*end) && *end != '{') {
        if (*end == ',')
            return sg_lines_fail(lines, end, err, "a comma in an attribute name: put the name in quotes");
        end++;
    }
    if (end == begin)
        return sg_lines_fail(lines, begin, err, "@attribute without a name");
    *at = end;
    *out = sg_text_copy(begin, end);
    return *out ? SG_OK : no_memory(lines, err);
}

/* Takes ownership of `value`. */
static sg_status add_value(arff_attribute *a, const sg_lines *lines, const char *at, char *value, sg_error *err)
{
    if (sg_names_find(&a->lookup, value) >= 0) {
        sg_status status =
            sg_lines_fail(lines, at, err, "value '%.60s' is declared twice for attribute '%.60s'", value, a->name);
        sg_free(value);
        return status;
    }
    if (!sg_grow(&a->values, &a->values_capacity, a->n_values + 1, sizeof *a->values) ||
        !sg_names_add(&a->lookup, value, a->n_values)) {
        sg_free(value);
        return no_memory(lines, err);
    }
    a->values[a->n_values++] = value;
    return SG_OK;
}

/* { value, value, ... }: `at` stands on the brace. */
static sg_status read_nominal(arff_attribute *a, const sg_lines *lines, const char **at, sg_error *err)
{
    const char *brace = *at, *p = brace;
    a->kind = ARFF_NOMINAL;
    do {
        p = skip_blanks(p + 1);
        const char *begin = p;
        char *value = NULL;
        if (*p == '\'' || *p == '"') {
            SG_TRY(quoted(lines, &p, &value, err));
        } else {
            while (*p && *p != ',' && *p != '}')
                p++;
            if (trim_back(begin, p) == begin)
                return sg_lines_fail(lines, begin, err,
                                     *p ? "an empty value in the list of attribute '%.60s'"
                                        : "the list of values of attribute '%.60s' has no '}'",
                                     a->name);
            value = sg_text_copy(begin, trim_back(begin, p));
            if (!value)
                return no_memory(lines, err);
        }
        SG_TRY(add_value(a, lines, begin, value, err));
        p = skip_blanks(p);
    } while (*p == ',');
    if (*p != '}')
        return sg_lines_fail(lines, *p ? p : brace, err,
                             *p ? "expected ',' or '}' in the values of attribute '%.60s'"
                                : "the list of values of attribute '%.60s' has no '}'",
                             a->name);
    *at = p + 1;
    return SG_OK;
}

/* Clus: `hierarchical 01,01/01,...`, every class of the hierarchy by its path. */
static sg_status read_hierarchy(arff_attribute *a, const sg_lines *lines, const char *at, sg_error *err)
{
    a->kind = ARFF_HIERARCHICAL;
    for (;;) {
        at = skip_blanks(at);
        const char *end = at + strcspn(at, ",");
        const char *stop = trim_back(at, end);
        if (stop == at)
            return sg_lines_fail(lines, at, err, "an empty class in the hierarchy of attribute '%.60s'", a->name);
        char *class = sg_text_copy(at, stop);
        if (!class)
            return no_memory(lines, err);
        SG_TRY(add_value(a, lines, at, class, err));
        if (*end == '\0')
            return SG_OK;
        at = end + 1;
    }
}

static sg_status read_type(arff_attribute *a, const sg_lines *lines, const char *at, sg_error *err)
{
    at = skip_blanks(at);
    if (*at == '{') {
        SG_TRY(read_nominal(a, lines, &at, err));
    } else {
        size_t n = strcspn(at, " \t%");
        const char *word = at;
        at += n;
        if (n == 0)
            return sg_lines_fail(lines, word, err, "attribute '%.60s' has no type", a->name);
        if (n == 12 && strncasecmp(word, "hierarchical", n) == 0)
            return read_hierarchy(a, lines, at, err);
        bool number = (n == 7 && (strncasecmp(word, "numeric", n) == 0 || strncasecmp(word, "integer", n) == 0)) ||
                      (n == 4 && strncasecmp(word, "real", n) == 0);
        bool string = n == 6 && strncasecmp(word, "string", n) == 0;
        if (!number && !string)
            return sg_lines_fail(lines, word, err,
                                 "type '%.*s' of attribute '%.60s' is not supported (numeric, real, integer, string, "
                                 "{values} and hierarchical are)",
                                 (int)(n < 40 ? n : 40), word, a->name);
        a->kind = number ? ARFF_NUMERIC : ARFF_STRING;
    }
    if (!at_end_or_comment(at))
        return sg_lines_fail(lines, skip_blanks(at), err, "unexpected text behind the declaration of attribute '%.60s'",
                             a->name);
    return SG_OK;
}

static sg_status read_attribute(arff_table *table, const sg_lines *lines, const char *at, sg_error *err)
{
    if (table->n_attributes >= SG_MAX_COLUMNS)
        return sg_lines_fail(lines, at, err, "more than %d attributes", SG_MAX_COLUMNS);
    if (!sg_grow(&table->attributes, &table->attributes_capacity, table->n_attributes + 1, sizeof *table->attributes))
        return no_memory(lines, err);
    arff_attribute *a = &table->attributes[table->n_attributes++];
    *a = (arff_attribute){.line = sg_lines_number(lines), .twin = -1, .label = -1, .positive = -1};
    at = skip_blanks(at);
    SG_TRY(read_name(lines, &at, &a->name, err));
    SG_TRY(read_type(a, lines, at, err));
    if (a->kind == ARFF_HIERARCHICAL) {
        if (table->hierarchy >= 0)
            return sg_lines_fail(lines, at, err, "a second hierarchical attribute: only one is supported");
        table->hierarchy = table->n_attributes - 1;
    }
    return SG_OK;
}

/* If `at` starts with the keyword (any case) and a blank or the end: the place behind it, else NULL. */
static const char *keyword(const char *at, const char *word)
{
    size_t n = strlen(word);
    if (strncasecmp(at, word, n) != 0 || (at[n] && !sg_is_blank(at[n])))
        return NULL;
    return at + n;
}

/* Duplicate feature names get "#2", "#3"... so that every column can be found by its name. */
static sg_status make_unique(arff_table *table, sg_notes *notes, sg_error *err)
{
    sg_names seen = {0};
    bool ok = true;
    for (int32_t i = 0; ok && i < table->n_attributes; i++) {
        arff_attribute *a = &table->attributes[i];
        int32_t first = sg_names_find(&seen, a->name);
        for (int number = 2; first >= 0 && a->twin < 0; number++) {
            size_t size = strlen(a->name) + 16;
            char *name = sg_alloc(size);
            ok = name != NULL;
            if (!ok)
                break;
            snprintf(name, size, "%s#%d", table->attributes[first].name, number);
            if (sg_names_find(&seen, name) >= 0) {
                sg_free(name);
                continue;
            }
            sg_note_add(notes, true,
                        "%s:%lld: attribute '%s' is declared twice (first in line %lld); this one is called '%s'",
                        table->path, (long long)a->line, a->name, (long long)table->attributes[first].line, name);
            sg_free(a->name);
            a->name = name;
            a->twin = first;
        }
        ok = ok && sg_names_add(&seen, a->name, i);
    }
    sg_names_free(&seen);
    return ok ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory reading %s", table->path);
}

sg_status sg_arff_header(arff_table *table, sg_lines *lines, sg_notes *notes, sg_error *err)
{
    table->hierarchy = -1;
    for (;;) {
        char *text;
        int64_t length;
        SG_TRY(sg_lines_next(lines, &text, &length, err));
        if (!text)
            return sg_fail_at(err, SG_E_DATA, table->path, sg_lines_number(lines), 0,
                              "the file ends before @data: it is not a complete ARFF file");
        const char *at = skip_blanks(text), *rest;
        if (*at == '\0' || *at == '%')
            continue;
        if ((rest = keyword(at, "@relation"))) {
            SG_TRY(read_relation(table, lines, rest, err));
        } else if ((rest = keyword(at, "@attribute"))) {
            SG_TRY(read_attribute(table, lines, rest, err));
        } else if ((rest = keyword(at, "@data")) && at_end_or_comment(rest)) {
            if (table->n_attributes == 0)
                return sg_lines_fail(lines, at, err, "@data before any @attribute");
            return make_unique(table, notes, err);
        } else {
            return sg_lines_fail(lines, at, err, "expected @relation, @attribute or @data, found '%.40s'", at);
        }
    }
}

void sg_arff_free(arff_table *table)
{
    for (int32_t i = 0; i < table->n_attributes; i++) {
        arff_attribute *a = &table->attributes[i];
        for (int32_t v = 0; v < a->n_values; v++)
            sg_free(a->values[v]);
        sg_free(a->values);
        sg_names_free(&a->lookup);
        sg_free(a->name);
    }
    sg_free(table->attributes);
    sg_free(table->relation);
    sg_free(table->indptr);
    sg_free(table->lines);
    sg_free(table->weights);
    sg_free(table->cell_attribute);
    sg_free(table->cell_value);
    sg_free(table->class_indptr);
    sg_free(table->class_index);
    *table = (arff_table){0};
}
