/* status.c - status texts and error records. */
#include "graph/graph_internal.h"

#include <string.h>

const char *sg_status_text(sg_status status)
{
    switch (status) {
#define X(number, name, text)                                                                                          \
    case SG_##name:                                                                                                    \
        return text;
        SG_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}

void sgi_one_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

static sg_status fill(sg_error *err, sg_status status, const char *file, int64_t line, int64_t column, const char *fmt,
                      va_list args)
{
    if (!err)
        return status;
    memset(err, 0, sizeof *err);
    err->status = status;
    err->line = line;
    err->column = column;
    bool standard = file && strcmp(file, "-") == 0;
    snprintf(err->file, sizeof err->file, "%s", standard ? "standard input" : file ? file : "");
    vsnprintf(err->text, sizeof err->text, fmt, args);
    sgi_one_line(err->file);
    sgi_one_line(err->text);
    return status;
}

sg_status sg_fail(sg_error *err, sg_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(err, status, NULL, 0, 0, fmt, args);
    va_end(args);
    return status;
}

sg_status sg_fail_at(sg_error *err, sg_status status, const char *file, int64_t line, int64_t column, const char *fmt,
                     ...)
{
    va_list args;
    va_start(args, fmt);
    fill(err, status, file, line, column, fmt, args);
    va_end(args);
    return status;
}

const char *sg_error_format(const sg_error *err, char *out, size_t size)
{
    int at = 0;
    if (size == 0)
        return out;
    out[0] = 0;
    if (err->file[0])
        at += snprintf(out + at, size - (size_t)at, "%s:", err->file);
    if (err->file[0] && err->line > 0 && (size_t)at < size)
        at += snprintf(out + at, size - (size_t)at, "%lld:", (long long)err->line);
    if (err->file[0] && err->line > 0 && err->column > 0 && (size_t)at < size)
        at += snprintf(out + at, size - (size_t)at, "%lld:", (long long)err->column);
    if ((size_t)at < size)
        snprintf(out + at, size - (size_t)at, "%s%s", at ? " " : "", err->text);
    return out;
}
