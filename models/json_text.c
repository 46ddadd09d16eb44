/* json_text.c - texts from outside as JSON. */
#include <string.h>
#include <utf8proc.h>

#include "graph/graph.h"
#include "models/json_internal.h"

json_t *sg_json_text(const char *text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    json_t *value = text ? json_string(text) : json_null();
    if (value)
        return value;
    size_t n = strlen(text), kept = 0;
    char *clean = sg_calloc((int64_t)n + 1, sizeof replacement);
    for (size_t i = 0; clean && i < n;) {
        utf8proc_int32_t code;
        utf8proc_ssize_t step = utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(n - i), &code);
        memcpy(clean + kept, step > 0 ? text + i : replacement, step > 0 ? (size_t)step : sizeof replacement - 1);
        kept += step > 0 ? (size_t)step : sizeof replacement - 1;
        i += step > 0 ? (size_t)step : 1;
    }
    value = clean ? json_stringn(clean, kept) : NULL;
    sg_free(clean);
    return value;
}
