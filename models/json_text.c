/* json_text.c - texts from outside as JSON, and JSON as text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "models/data_internal.h"
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

/* ---- numbers */

json_t *sg_json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *sg_json_float(float value)
{
    char text[32];
    return isfinite(value) ? json_real(strtod(sg_text_float(value, text), NULL)) : json_null();
}

const char *sg_json_digits(double value, char out[32])
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, 32, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    return out;
}

/* ---- writing. jansson has one number of digits for all reals. */

/* A real stays one when it is read: it has a point or an exponent. */
static void put_real(double value, FILE *out)
{
    char text[32];
    sg_json_digits(value, text);
    fputs(text, out);
    if (!strpbrk(text, ".e"))
        fputs(".0", out);
}

/* Between the members of a container, and before and after them. */
static void put_break(bool lines, int depth, FILE *out)
{
    if (lines)
        fprintf(out, "\n%*s", 2 * depth, "");
}

static bool put(const json_t *value, bool lines, int depth, FILE *out);

static bool put_array(const json_t *array, bool lines, int depth, FILE *out)
{
    bool good = true;
    size_t n = json_array_size(array);
    fputc('[', out);
    for (size_t i = 0; i < n && good; i++) {
        fputs(i ? "," : "", out);
        put_break(lines, depth + 1, out);
        good = put(json_array_get(array, i), lines, depth + 1, out);
    }
    if (n)
        put_break(lines, depth, out);
    fputc(']', out);
    return good;
}

static bool put_object(json_t *object, bool lines, int depth, FILE *out)
{
    bool good = true, first = true;
    const char *name;
    json_t *value;
    fputc('{', out);
    json_object_foreach(object, name, value)
    {
        json_t *key = json_string(name);
        fputs(first ? "" : ",", out);
        put_break(lines, depth + 1, out);
        good = good && key && json_dumpf(key, out, JSON_ENCODE_ANY) == 0;
        fputs(lines ? ": " : ":", out);
        good = good && put(value, lines, depth + 1, out);
        json_decref(key);
        first = false;
    }
    if (!first)
        put_break(lines, depth, out);
    fputc('}', out);
    return good;
}

static bool put(const json_t *value, bool lines, int depth, FILE *out)
{
    if (json_is_real(value))
        put_real(json_real_value(value), out);
    else if (json_is_array(value))
        return put_array(value, lines, depth, out);
    else if (json_is_object(value))
        return put_object((json_t *)(uintptr_t)value, lines, depth, out);
    else
        return json_dumpf(value, out, JSON_ENCODE_ANY) == 0;
    return true;
}

bool sg_json_write(const json_t *value, bool lines, FILE *out)
{
    return value && put(value, lines, 0, out) && !ferror(out);
}

char *sg_json_dump(const json_t *value, bool lines)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    bool good = out && sg_json_write(value, lines, out);
    if (out && fclose(out) != 0)
        good = false;
    char *copy = good ? sg_strdup(text) : NULL;
    free(text);
    return copy;
}
