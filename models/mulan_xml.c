/* MULAN's list of label names: <labels><label name="x"> nested labels </label></labels>; nesting is the hierarchy. */
#include "models/data_internal.h"

#include <expat.h>
#include <string.h>

#define MAX_DEPTH 256

typedef struct xml_reader {
    XML_Parser parser;
    sg_label_list *list;
    sg_names seen;
    const char *path;
    sg_error *err;
    sg_status status;
    int32_t depth;
    int32_t open[MAX_DEPTH]; /* label at each depth; -1: the root element */
} xml_reader;

static void stop(xml_reader *r, sg_status status, const char *fmt, const char *what)
{
    if (r->status != SG_OK)
        return;
    char text[256];
    snprintf(text, sizeof text, fmt, what);
    r->status = sg_fail_at(r->err, status, r->path, (int64_t)XML_GetCurrentLineNumber(r->parser),
                           (int64_t)XML_GetCurrentColumnNumber(r->parser) + 1, "%s", text);
    XML_StopParser(r->parser, XML_FALSE);
}

/* Element names may carry a prefix: home-made files bind the namespace in different ways or not at all. */
static const char *local_name(const char *name)
{
    const char *colon = strrchr(name, ':');
    return colon ? colon + 1 : name;
}

static void add_label(xml_reader *r, const char *name)
{
    sg_label_list *list = r->list;
    if (sg_names_find(&r->seen, name) >= 0) {
        stop(r, SG_E_DATA, "label '%.100s' is listed twice", name);
        return;
    }
    int64_t capacity = list->capacity;
    bool ok = list->count < SG_MAX_COLUMNS && sg_grow(&list->name, &capacity, list->count + 1, sizeof *list->name);
    capacity = list->capacity;
    ok = ok && sg_grow(&list->parent, &capacity, list->count + 1, sizeof *list->parent);
    capacity = list->capacity;
    ok = ok && sg_grow(&list->line, &capacity, list->count + 1, sizeof *list->line);
    char *copy = ok ? sg_strdup(name) : NULL;
    if (copy)
        list->capacity = capacity;
    if (!copy || !sg_names_add(&r->seen, copy, list->count)) {
        sg_free(copy);
        stop(r, SG_E_MEMORY, "out of memory%s", "");
        return;
    }
    list->name[list->count] = copy;
    list->parent[list->count] = r->open[r->depth - 1];
    list->line[list->count] = (int64_t)XML_GetCurrentLineNumber(r->parser);
    r->open[r->depth] = list->count++;
}

static void XMLCALL on_start(void *user, const XML_Char *element, const XML_Char **attribute)
{
    xml_reader *r = user;
    if (r->status != SG_OK)
        return;
    const char *expected = r->depth == 0 ? "labels" : "label";
    if (strcmp(local_name(element), expected) != 0) {
        stop(r, SG_E_DATA,
             r->depth == 0 ? "expected the element <labels>, found <%.60s>"
                           : "expected the element <label>, found <%.60s>",
             element);
        return;
    }
    if (r->depth == MAX_DEPTH - 1) {
        stop(r, SG_E_DATA, "labels are nested too deep%s", "");
        return;
    }
    if (r->depth == 0) {
        r->open[0] = -1;
    } else {
        while (*attribute && strcmp(*attribute, "name") != 0)
            attribute += 2;
        if (*attribute && attribute[1][0])
            add_label(r, attribute[1]);
        else
            stop(r, SG_E_DATA, "a <label> has no name%s", "");
    }
    r->depth++;
}

static void XMLCALL on_end(void *user, const XML_Char *element)
{
    xml_reader *r = user;
    (void)element;
    r->depth--;
}

static void parse(xml_reader *r, sg_lines *lines)
{
    for (;;) {
        char *text;
        int64_t length;
        sg_status status = sg_lines_next(lines, &text, &length, r->err);
        if (status != SG_OK) {
            r->status = status;
            return;
        }
        enum XML_Status parsed = text ? XML_Parse(r->parser, text, (int)length, 0) : XML_Parse(r->parser, "", 0, 1);
        if (parsed == XML_STATUS_OK && text)
            parsed = XML_Parse(r->parser, "\n", 1, 0);
        if (r->status != SG_OK)
            return;
        if (parsed != XML_STATUS_OK) {
            stop(r, SG_E_DATA, "bad XML: %s", XML_ErrorString(XML_GetErrorCode(r->parser)));
            return;
        }
        if (!text)
            return;
    }
}

sg_status sg_mulan_read(sg_label_list *out, const char *path, sg_notes *notes, sg_error *err)
{
    *out = (sg_label_list){0};
    sg_lines *lines;
    SG_TRY(sg_lines_open(&lines, path, notes, err));
    xml_reader r = {.list = out, .path = path, .err = err};
    /* Lines arrive as UTF-8 whatever the file was, so an encoding that the file declares no longer applies. */
    r.parser = XML_ParserCreate("UTF-8");
    if (r.parser) {
        XML_SetUserData(r.parser, &r);
        XML_SetElementHandler(r.parser, on_start, on_end);
        parse(&r, lines);
        XML_ParserFree(r.parser);
    } else {
        r.status = sg_fail(err, SG_E_MEMORY, "out of memory reading %s", path);
    }
    sg_lines_close(lines);
    sg_names_free(&r.seen);
    if (r.status == SG_OK && out->count == 0)
        r.status = sg_fail_at(err, SG_E_DATA, path, 0, 0, "the file lists no labels");
    if (r.status != SG_OK)
        sg_mulan_free(out);
    return r.status;
}

void sg_mulan_free(sg_label_list *list)
{
    for (int32_t i = 0; i < list->count; i++)
        sg_free(list->name[i]);
    sg_free(list->name);
    sg_free(list->parent);
    sg_free(list->line);
    *list = (sg_label_list){0};
}
