/* config_write.c - a resolved configuration as YAML, and the JSON Schema of its files. Both read back. */
#include "models/config_internal.h"
#include "models/json_internal.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* A text being written into a fixed buffer. */
typedef struct writer {
    char *out;
    size_t size, used;
} writer;

static void put(writer *w, const char *text, size_t length)
{
    for (size_t i = 0; i < length && w->used + 1 < w->size; i++)
        w->out[w->used++] = text[i];
    w->out[w->used] = 0;
}

static void put_text(writer *w, const char *text) { put(w, text, strlen(text)); }

/* 1.0e-05 and not 1e-05, which is a text to readers of YAML 1.1. */
static void put_real(writer *w, double value)
{
    char text[32];
    const char *exponent = strchr(sg_json_digits(value, text), 'e');
    size_t mantissa = exponent ? (size_t)(exponent - text) : strlen(text);
    put(w, text, mantissa);
    if (exponent && !memchr(text, '.', mantissa))
        put_text(w, ".0");
    put_text(w, text + mantissa);
}

static void put_int(writer *w, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    put_text(w, text);
}

/* Control characters, breaks of lines that YAML knows and is not to fold, and what its readers refuse. */
static bool is_escaped(utf8proc_int32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 || code == 0xfeff ||
           code == 0xfffe || code == 0xffff;
}

/* Plain where no YAML reader could take it for something else, else in double quotes. */
static void put_string(writer *w, const char *text)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+";
    bool word = text[0] && !text[strspn(text, safe)] && strspn(text, "0123456789.+-eE_") != strlen(text);
    if (word && text[0] != '-' && strcmp(text, "null") && strcmp(text, "true") && strcmp(text, "false")) {
        put_text(w, text);
        return;
    }
    put_text(w, "\"");
    utf8proc_int32_t code;
    for (utf8proc_ssize_t step; *text; text += step) {
        char escape[8];
        step = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &code);
        step = step > 0 ? step : 1; /* texts are checked where they are read */
        if (*text == '"' || *text == '\\')
            snprintf(escape, sizeof escape, "\\%c", *text);
        else if (is_escaped(code))
            snprintf(escape, sizeof escape, code < 0x100 ? "\\x%02X" : "\\u%04X", (unsigned)code);
        else
            snprintf(escape, sizeof escape, "%.*s", (int)step, text);
        put_text(w, escape);
    }
    put_text(w, "\"");
}

static void put_element(writer *w, const sg_option *option, const void *slot, int64_t i)
{
    if (option->type == SG_OPTION_INTS)
        put_int(w, ((const sg_ints *)slot)->at[i]);
    else if (option->type == SG_OPTION_REALS)
        put_real(w, ((const sg_reals *)slot)->at[i]);
    else
        put_string(w, ((const sg_texts *)slot)->at[i]);
}

static int64_t list_count(const sg_option *option, const void *slot)
{
    if (option->type == SG_OPTION_INTS)
        return ((const sg_ints *)slot)->count;
    if (option->type == SG_OPTION_REALS)
        return ((const sg_reals *)slot)->count;
    return ((const sg_texts *)slot)->count;
}

static void put_value(writer *w, const sg_option *option, const void *slot)
{
    char word[64];
    switch (option->type) {
    case SG_OPTION_BOOL:
        put_text(w, *(const bool *)slot ? "true" : "false");
        return;
    case SG_OPTION_INT:
        put_int(w, *(const int64_t *)slot);
        return;
    case SG_OPTION_REAL:
        put_real(w, *(const double *)slot);
        return;
    case SG_OPTION_ENUM:
        put_text(w, sg_domain_word(option->domain, *(const int32_t *)slot, word, sizeof word));
        return;
    case SG_OPTION_WORD:
    case SG_OPTION_TEXT:
    case SG_OPTION_PATH:
        if (*(const char *const *)slot)
            put_string(w, *(const char *const *)slot);
        else
            put_text(w, "null");
        return;
    default:
        put_text(w, "[");
        for (int64_t i = 0; i < list_count(option, slot); i++) {
            put_text(w, i ? ", " : "");
            put_element(w, option, slot, i);
        }
        put_text(w, "]");
    }
}

const char *sg_config_format(const sg_config *config, const sg_option *option, char *out, size_t size)
{
    writer w = {out, size, 0};
    if (size == 0)
        return out;
    out[0] = 0;
    put_value(&w, option, (const char *)&config->values + option->offset);
    return out;
}

/* An upper bound of the length of one value: a path is at most 4 KiB and every byte may become four. */
static size_t value_bound(const sg_config *config, const sg_option *option)
{
    const void *slot = (const char *)&config->values + option->offset;
    size_t bound = 64;
    if (sg_option_is_list(option))
        for (int64_t i = 0; i < list_count(option, slot); i++)
            bound += option->type == SG_OPTION_PATHS ? 4 * strlen(((const sg_texts *)slot)->at[i]) + 8 : 40;
    else if (option->type >= SG_OPTION_WORD && *(const char *const *)slot)
        bound += 4 * strlen(*(const char *const *)slot);
    return bound;
}

char *sg_config_value_text(const sg_config *config, const sg_option *option)
{
    size_t size = value_bound(config, option);
    char *text = sg_alloc(size);
    if (text)
        sg_config_format(config, option, text, size);
    return text;
}

static sg_status write_option(const sg_config *config, const sg_option *option, FILE *out, bool origins)
{
    const char *dot = strchr(option->key, '.');
    char *value = sg_config_value_text(config, option);
    if (!value)
        return SG_E_MEMORY;
    int used = fprintf(out, "%s%s: %s", dot ? "  " : "", dot ? dot + 1 : option->key, value);
    if (origins)
        fprintf(out, "%*s # %s", used < 44 ? 44 - used : 0, "", sg_config_origin(config, option->key));
    fputc('\n', out);
    sg_free(value);
    return SG_OK;
}

sg_status sg_config_write_yaml(const sg_config *config, FILE *out, bool origins)
{
    const char *previous = "";
    for (int32_t i = 0; i < sg_option_count(); i++) {
        const sg_option *option = sg_option_at(i);
        size_t length = strcspn(option->key, ".");
        if (option->key[length] && strncmp(previous, option->key, length + 1) != 0)
            fprintf(out, "%.*s:\n", (int)length, option->key);
        previous = option->key;
        SG_TRY(write_option(config, option, out, origins));
    }
    return ferror(out) ? SG_E_IO : SG_OK;
}

char *sg_config_yaml(const sg_config *config)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    sg_status status = sg_config_write_yaml(config, stream, false);
    if (fclose(stream) != 0)
        status = SG_E_IO;
    char *copy = status == SG_OK ? sg_strdup(text) : NULL;
    free(text);
    return copy;
}

static void add_bounds(json_t *schema, const char *domain)
{
    sg_interval interval = sg_domain_interval(domain);
    if (isfinite(interval.low))
        json_object_set_new(schema, interval.open_low ? "exclusiveMinimum" : "minimum", json_real(interval.low));
    if (isfinite(interval.high))
        json_object_set_new(schema, interval.open_high ? "exclusiveMaximum" : "maximum", json_real(interval.high));
}

/* Words with a number in them ("cuda:N") make it a pattern. */
static json_t *words_schema(const char *domain)
{
    json_t *words = json_array();
    char word[64], pattern[512];
    int32_t count = 1;
    for (const char *c = domain; *c; c++)
        count += *c == '|';
    for (int32_t i = 0; i < count; i++)
        json_array_append_new(words, json_string(sg_domain_word(domain, i, word, sizeof word)));
    const char *number = strstr(domain, ":N");
    if (!number)
        return json_pack("{s:o}", "enum", words);
    json_decref(words);
    snprintf(pattern, sizeof pattern, "^(%.*s:[0-9]+%s)$", (int)(number - domain), domain, number + 2);
    return json_pack("{s:s, s:s}", "type", "string", "pattern", pattern);
}

static json_t *scalar_schema(const sg_option *option)
{
    if (option->type == SG_OPTION_ENUM || option->type == SG_OPTION_WORD)
        return words_schema(option->domain);
    if (option->type == SG_OPTION_BOOL)
        return json_pack("{s:s}", "type", "boolean");
    bool whole = option->type == SG_OPTION_INT || option->type == SG_OPTION_INTS;
    bool number = whole || option->type == SG_OPTION_REAL || option->type == SG_OPTION_REALS;
    json_t *schema = json_pack("{s:s}", "type", whole ? "integer" : number ? "number" : "string");
    if (number)
        add_bounds(schema, option->domain);
    return schema;
}

static json_t *option_schema(const sg_option *option)
{
    json_t *schema = scalar_schema(option);
    if (sg_option_is_list(option))
        schema = json_pack("{s:[o,{s:s,s:O}]}", "anyOf", schema, "type", "array", "items", schema);
    else if (option->type == SG_OPTION_PATH || option->type == SG_OPTION_TEXT)
        json_object_set_new(schema, "type", json_pack("[ss]", "string", "null"));
    json_object_set_new(schema, "description", json_string(option->help));
    if (option->initial[0])
        json_object_set_new(schema, "default", json_loads(option->initial, JSON_DECODE_ANY, NULL));
    if (!json_object_get(schema, "default") && option->initial[0])
        json_object_set_new(schema, "default", json_string(option->initial));
    return schema;
}

/* The object of the section `key` belongs to, made at first use. */
static json_t *section_properties(json_t *root, const char *key)
{
    char name[32];
    json_t *properties = json_object_get(root, "properties");
    size_t length = strcspn(key, ".");
    if (!key[length])
        return properties;
    snprintf(name, sizeof name, "%.*s", (int)length, key);
    if (!json_object_get(properties, name))
        json_object_set_new(properties, name,
                            json_pack("{s:s,s:{},s:b}", "type", "object", "properties", "additionalProperties", 0));
    return json_object_get(json_object_get(properties, name), "properties");
}

void sg_config_write_schema(FILE *out)
{
    json_t *root = json_pack(
        "{s:s,s:s,s:s,s:{s:{s:s,s:s}},s:b}", "$schema", "https://json-schema.org/draft/2020-12/schema", "title",
        "sealgraph configuration", "type", "object", "properties", "extends", "type", "string", "description",
        "another configuration, relative to this file, whose settings come first", "additionalProperties", 0);
    for (int32_t i = 0; root && i < sg_option_count(); i++) {
        const sg_option *option = sg_option_at(i);
        const char *dot = strchr(option->key, '.');
        json_object_set_new(section_properties(root, option->key), dot ? dot + 1 : option->key, option_schema(option));
    }
    sg_json_write(root, true, out);
    fputc('\n', out);
    json_decref(root);
}
