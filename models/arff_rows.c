/* The rows of an ARFF file, dense or sparse, told apart row by row. Only what differs from the sparse default is
 * kept: in a sparse row an omitted value is the number 0 or the *first declared* nominal value, whatever that means. */
#include "models/data_internal.h"

#include <math.h>
#include <string.h>

typedef struct row_reader {
    arff_table *table;
    sg_lines *lines;
    sg_notes *notes;
    int32_t index_base;
    char separator; /* of dense rows: ',' or tab, 0 until a row shows it */
    bool warned_order, zero_seen;
    int64_t *seen; /* [n_attributes] row that gave the attribute a value last, plus 1 */
    char *token;   /* unquoted text of the current value */
    bool token_quoted;
} row_reader;

static const char *skip_blanks(const char *at)
{
    while (sg_is_blank(*at))
        at++;
    return at;
}

static sg_status no_memory(const row_reader *r, sg_error *err)
{
    return sg_fail(err, SG_E_MEMORY, "out of memory reading %s", r->table->path);
}

/* The value that starts at *at, up to one of `stops`, a comment or the end. Numbers hold no '%', so it ends them;
 * elsewhere it is part of a text unless a blank stands before it. */
static sg_status read_token(row_reader *r, const char **at, const char *stops, bool number, sg_error *err)
{
    const char *begin = *at;
    sg_free(r->token);
    r->token = NULL;
    r->token_quoted = *begin == '\'' || *begin == '"';
    if (r->token_quoted) {
        if (!sg_arff_quoted(at, &r->token))
            return sg_lines_fail(r->lines, begin, err, "the quote is not closed");
        return r->token ? SG_OK : no_memory(r, err);
    }
    const char *end = begin;
    while (*end && !strchr(stops, *end) && !(*end == '%' && (number || end == begin || sg_is_blank(end[-1]))))
        end++;
    *at = end;
    while (end > begin && sg_is_blank(end[-1]))
        end--;
    r->token = sg_text_copy(begin, end);
    return r->token ? SG_OK : no_memory(r, err);
}

static sg_status keep(row_reader *r, int32_t attribute, double value, sg_error *err)
{
    arff_table *t = r->table;
    if (!sg_grow(&t->cell_attribute, &t->cell_attribute_capacity, t->cells + 1, sizeof *t->cell_attribute) ||
        !sg_grow(&t->cell_value, &t->cell_value_capacity, t->cells + 1, sizeof *t->cell_value))
        return no_memory(r, err);
    t->cell_attribute[t->cells] = attribute;
    t->cell_value[t->cells++] = value;
    return SG_OK;
}

static sg_status keep_class(row_reader *r, int32_t class, sg_error *err)
{
    arff_table *t = r->table;
    if (!sg_grow(&t->class_index, &t->class_index_capacity, t->classes + 1, sizeof *t->class_index))
        return no_memory(r, err);
    t->class_index[t->classes++] = class;
    return SG_OK;
}

/* `01/05@02/16`: the most specific classes of the row. */
static sg_status read_classes(row_reader *r, const arff_attribute *a, const char *at, sg_error *err)
{
    if (!r->token_quoted && strcmp(r->token, "?") == 0)
        return keep_class(r, -1, err);
    for (char *path = r->token; path;) {
        char *next = strchr(path, '@');
        if (next)
            *next++ = '\0';
        int32_t class = sg_names_find(&a->lookup, path);
        if (class < 0)
            return sg_lines_fail(r->lines, at, err, "class '%.80s' is not in the hierarchy of attribute '%.60s'", path,
                                 a->name);
        SG_TRY(keep_class(r, class, err));
        path = next;
    }
    return SG_OK;
}

static sg_status number_value(row_reader *r, int32_t index, const char *at, sg_error *err)
{
    const arff_attribute *a = &r->table->attributes[index];
    char hint[SG_COUNTED_TEXT];
    double value;
    if (!sg_text_number(r->token, r->token + strlen(r->token), &value))
        return sg_lines_fail(r->lines, at, err, "'%.60s' is not a number (attribute '%.80s')", r->token, a->name);
    if (fabs(value) > 3.402823e38)
        return sg_lines_fail(r->lines, at, err, "%.60s is too large for a 32-bit float (attribute '%.80s')", r->token,
                             a->name);
    if (a->label >= 0 && value != 0.0 && value != 1.0)
        return sg_lines_fail(r->lines, at, err, "label '%.80s' has the value %.60s: labels are 0 or 1%s", a->name,
                             r->token, sg_arff_counted(r->table, hint));
    return value == 0.0 ? SG_OK : keep(r, index, value, err);
}

static sg_status nominal_value(row_reader *r, int32_t index, const char *at, sg_error *err)
{
    const arff_attribute *a = &r->table->attributes[index];
    int32_t value = sg_names_find(&a->lookup, r->token);
    if (value < 0)
        return sg_lines_fail(r->lines, at, err, "'%.60s' is not a declared value of attribute '%.80s' (line %lld)",
                             r->token, a->name, (long long)a->line);
    return value == 0 ? SG_OK : keep(r, index, (double)value, err);
}

/* The token is the value of attribute `index`; `at` is where it stands. */
static sg_status take_value(row_reader *r, int32_t index, const char *at, sg_error *err)
{
    const arff_attribute *a = &r->table->attributes[index];
    if (a->kind == ARFF_HIERARCHICAL)
        return read_classes(r, a, at, err);
    if (!r->token_quoted && r->token[0] == '\0')
        return sg_lines_fail(r->lines, at, err, "the value of attribute '%.80s' is empty ('?' means missing)", a->name);
    if (a->kind == ARFF_STRING)
        return SG_OK;
    if (!r->token_quoted && strcmp(r->token, "?") == 0)
        return keep(r, index, NAN, err);
    return a->kind == ARFF_NUMERIC ? number_value(r, index, at, err) : nominal_value(r, index, at, err);
}

/* {5} behind the values: the weight of the row. `at` stands on the brace. */
static sg_status read_weight(row_reader *r, const char **at, float *weight, sg_error *err)
{
    const char *begin = skip_blanks(*at + 1), *end = begin + strcspn(begin, "}");
    const char *stop = end;
    while (stop > begin && sg_is_blank(stop[-1]))
        stop--;
    double value;
    if (*end != '}' || !sg_text_number(begin, stop, &value) || value < 0 || value > 1e30)
        return sg_lines_fail(r->lines, *at, err,
                             "expected an instance weight {number}, from 0 to 1e30, behind the last value");
    *weight = (float)value;
    *at = end + 1;
    return SG_OK;
}

/* Comma if there is one outside quotes, else tab: decided by the first row that has either. */
static void find_separator(row_reader *r, const char *at)
{
    bool tab = false;
    for (char quote = 0; *at; at++) {
        if (quote) {
            if (*at == '\\' && at[1])
                at++;
            else if (*at == quote)
                quote = 0;
        } else if (*at == '\'' || *at == '"') {
            quote = *at;
        } else if (*at == ',') {
            r->separator = ',';
            return;
        }
        tab |= *at == '\t';
    }
    if (tab)
        r->separator = '\t';
}

/* Blanks around values; a tab is one only if it is not the separator. */
static const char *skip_around(const row_reader *r, const char *at)
{
    while (*at == ' ' || (*at == '\t' && r->separator != '\t'))
        at++;
    return at;
}

static sg_status wrong_width(const row_reader *r, const char *at, int32_t values, sg_error *err)
{
    return sg_lines_fail(r->lines, at, err, "the row has %s%d value%s, the header declares %d attributes",
                         values > r->table->n_attributes ? "more than " : "only ",
                         values > r->table->n_attributes ? r->table->n_attributes : values, values == 1 ? "" : "s",
                         r->table->n_attributes);
}

static sg_status read_dense(row_reader *r, const char *at, float *weight, sg_error *err)
{
    int32_t n = r->table->n_attributes;
    if (!r->separator)
        find_separator(r, at);
    const char stops[2] = {r->separator, '\0'};
    for (int32_t i = 0; i < n; i++) {
        at = skip_around(r, at);
        const char *begin = at;
        SG_TRY(read_token(r, &at, stops, r->table->attributes[i].kind == ARFF_NUMERIC, err));
        SG_TRY(take_value(r, i, begin, err));
        at = skip_around(r, at);
        if (i + 1 == n)
            break;
        if (*at == '\0' || *at == '%')
            return wrong_width(r, at, i + 1, err);
        if (*at != r->separator)
            return sg_lines_fail(r->lines, at, err, "expected %s behind the value of attribute '%.80s'",
                                 r->separator == '\t' ? "a tab" : "','", r->table->attributes[i].name);
        at++;
    }
    const char *brace = *at && *at == r->separator ? skip_blanks(at + 1) : at;
    if (*brace == '{') {
        SG_TRY(read_weight(r, &brace, weight, err));
        at = skip_blanks(brace);
    }
    if (*at && *at != '%')
        return wrong_width(r, at, n + 1, err);
    return SG_OK;
}

static sg_status sparse_index(row_reader *r, const char **at, int32_t *index, sg_error *err)
{
    const char *begin = *at, *end = begin + strspn(begin, "0123456789");
    int64_t value;
    if (end == begin || !sg_is_blank(*end) || !sg_text_integer(begin, end, &value))
        return sg_lines_fail(r->lines, begin, err, "expected `index value` in a sparse row");
    r->zero_seen |= value == 0;
    value -= r->index_base;
    if (value < 0)
        return sg_lines_fail(r->lines, begin, err, "index 0, but indices were said to count from 1");
    if (value >= r->table->n_attributes)
        return sg_lines_fail(r->lines, begin, err, "index %lld is out of range: there are %d attributes%s",
                             (long long)value + r->index_base, r->table->n_attributes,
                             r->index_base == 0 && !r->zero_seen && value == r->table->n_attributes
                                 ? ". If indices count from 1 (Clus), say --arff-index-base 1"
                                 : ", counted from 0");
    *index = (int32_t)value;
    *at = skip_blanks(end);
    return SG_OK;
}

/* Note the attribute as given in this row: twice is an error, out of order is worth one warning. */
static sg_status note_index(row_reader *r, int32_t index, int32_t *last, const char *at, sg_error *err)
{
    if (r->seen[index] == r->table->rows + 1)
        return sg_lines_fail(r->lines, at, err, "attribute '%.80s' has two values in one row",
                             r->table->attributes[index].name);
    if (index < *last && !r->warned_order) {
        r->warned_order = true;
        sg_note_add(r->notes, true, "%s:%lld: indices of a sparse row are not in ascending order", r->table->path,
                    (long long)sg_lines_number(r->lines));
    }
    r->seen[index] = r->table->rows + 1;
    *last = index;
    return SG_OK;
}

static sg_status read_sparse(row_reader *r, const char *at, float *weight, sg_error *err)
{
    r->table->sparse = true;
    int32_t last = -1;
    at = skip_blanks(at + 1);
    while (*at != '}') {
        const char *begin = at;
        int32_t index = 0;
        SG_TRY(sparse_index(r, &at, &index, err));
        SG_TRY(note_index(r, index, &last, begin, err));
        begin = at;
        SG_TRY(read_token(r, &at, ",}", r->table->attributes[index].kind == ARFF_NUMERIC, err));
        SG_TRY(take_value(r, index, begin, err));
        at = skip_blanks(at);
        if (*at == ',')
            at = skip_blanks(at + 1);
        else if (*at != '}')
            return sg_lines_fail(r->lines, at, err, *at ? "expected ',' or '}'" : "the sparse row has no '}'");
        else
            continue;
        if (*at == '}')
            return sg_lines_fail(r->lines, at, err, "expected `index value` behind the comma");
    }
    at = skip_blanks(at + 1);
    const char *brace = *at == ',' ? skip_blanks(at + 1) : at;
    if (*brace == '{') {
        SG_TRY(read_weight(r, &brace, weight, err));
        at = skip_blanks(brace);
    }
    if (*at && *at != '%')
        return sg_lines_fail(r->lines, at, err, "unexpected text behind the sparse row");
    return SG_OK;
}

static sg_status close_row(row_reader *r, float weight, sg_error *err)
{
    arff_table *t = r->table;
    if (!sg_grow(&t->indptr, &t->indptr_capacity, t->rows + 2, sizeof *t->indptr) ||
        !sg_grow(&t->class_indptr, &t->class_indptr_capacity, t->rows + 2, sizeof *t->class_indptr) ||
        !sg_grow(&t->lines, &t->lines_capacity, t->rows + 1, sizeof *t->lines) ||
        !sg_grow(&t->weights, &t->weights_capacity, t->rows + 1, sizeof *t->weights))
        return no_memory(r, err);
    if (t->rows == 0)
        t->indptr[0] = t->class_indptr[0] = 0;
    t->lines[t->rows] = sg_lines_number(r->lines);
    t->weights[t->rows] = weight;
    t->weighted |= weight != 1.0f;
    t->rows++;
    t->indptr[t->rows] = t->cells;
    t->class_indptr[t->rows] = t->classes;
    return SG_OK;
}

static sg_status read_all(row_reader *r, sg_error *err)
{
    for (;;) {
        char *text;
        int64_t length;
        SG_TRY(sg_lines_next(r->lines, &text, &length, err));
        if (!text)
            return SG_OK;
        const char *at = skip_blanks(text);
        if (*at == '\0' || *at == '%')
            continue;
        float weight = 1.0f;
        SG_TRY(*at == '{' ? read_sparse(r, at, &weight, err) : read_dense(r, text, &weight, err));
        SG_TRY(close_row(r, weight, err));
    }
}

sg_status sg_arff_rows(arff_table *table, sg_lines *lines, int32_t index_base, sg_notes *notes, sg_error *err)
{
    row_reader r = {.table = table, .lines = lines, .notes = notes, .index_base = index_base};
    r.seen = sg_calloc(table->n_attributes, sizeof *r.seen);
    sg_status status = r.seen ? read_all(&r, err) : no_memory(&r, err);
    if (status == SG_OK && table->rows == 0)
        status =
            sg_fail_at(err, SG_E_DATA, table->path, sg_lines_number(lines), 0, "the file has no rows behind @data");
    sg_free(r.token);
    sg_free(r.seen);
    return status;
}
