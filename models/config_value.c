/* config_value.c - from written values to typed ones. The schema decides the type: 1e-5 is a number because train.lr is one,
 * `no` is text, only true and false are booleans, and there are no octal or sexagesimal numbers. */
#include "models/config_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

struct sg_config_block {
    sg_config_block *next;
    max_align_t data[];
};

void *sg_config_alloc(sg_config *config, int64_t count, size_t size)
{
    int64_t bytes;
    if (!sg_mul_ok(count, (int64_t)size, &bytes))
        return NULL;
    sg_config_block *block = sg_calloc(1, sizeof *block + (size_t)bytes);
    if (!block)
        return NULL;
    block->next = config->blocks;
    config->blocks = block;
    return block->data;
}

const char *sg_config_text(sg_config *config, const char *text, size_t length)
{
    char *copy = sg_config_alloc(config, (int64_t)length + 1, 1);
    if (copy)
        memcpy(copy, text, length);
    return copy;
}

void sg_config_free(sg_config *config)
{
    if (!config)
        return;
    for (sg_config_block *block = config->blocks, *next; block; block = next) {
        next = block->next;
        sg_free(block);
    }
    sg_free(config);
}

sg_status sg_config_no_memory(sg_error *err)
{
    return sg_fail(err, SG_E_MEMORY, "out of memory while reading the configuration");
}

sg_status sg_config_fail_at(sg_place place, sg_error *err, const char *fmt, ...)
{
    char text[SG_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (place.line > 0)
        return sg_fail_at(err, SG_E_CONFIG, place.source, place.line, place.column, "%s", text);
    return sg_fail(err, SG_E_CONFIG, "%s%s%s", place.source ? place.source : "", place.source ? ": " : "", text);
}

sg_status sg_config_unknown(const char *key, sg_place place, sg_error *err)
{
    const char *nearest = sg_option_nearest(key);
    if (nearest)
        return sg_config_fail_at(place, err, "unknown key '%s' (did you mean '%s'?)", key, nearest);
    return sg_config_fail_at(place, err, "unknown key '%s' (`sealgraph config show` lists the keys)", key);
}

bool sg_config_is_null(const sg_scalar_text *item)
{
    return !item->quoted && (!item->text[0] || !strcmp(item->text, "null") || !strcmp(item->text, "~"));
}

static sg_status mismatch(const sg_option *option, const sg_scalar_text *item, const char *wanted, sg_error *err)
{
    if (sg_config_is_null(item))
        return sg_config_fail_at(item->place, err, "%s expects %s, not nothing", option->key, wanted);
    if (item->quoted)
        return sg_config_fail_at(item->place, err, "%s expects %s, not the quoted text \"%.80s\"", option->key, wanted,
                                 item->text);
    return sg_config_fail_at(item->place, err, "%s expects %s, not '%.80s'", option->key, wanted, item->text);
}

static bool inside(double value, sg_interval domain)
{
    bool above = domain.open_low ? value > domain.low : value >= domain.low;
    bool below = domain.open_high ? value < domain.high : value <= domain.high;
    return above && below;
}

static sg_status out_of_range(const sg_option *option, const sg_scalar_text *item, sg_error *err)
{
    return sg_config_fail_at(item->place, err, "%s must be in %s, not %.80s", option->key, option->domain, item->text);
}

static sg_status parse_bool(const sg_option *option, const sg_scalar_text *item, bool *out, sg_error *err)
{
    *out = strcmp(item->text, "true") == 0;
    if (item->quoted || (!*out && strcmp(item->text, "false") != 0))
        return mismatch(option, item, "true or false", err);
    return SG_OK;
}

static sg_status parse_int(const sg_option *option, const sg_scalar_text *item, int64_t *out, sg_error *err)
{
    const char *digits = item->text + (item->text[0] == '-' || item->text[0] == '+');
    if (item->quoted || !digits[0] || digits[strspn(digits, "0123456789")])
        return mismatch(option, item, "a whole number", err);
    errno = 0;
    *out = strtoll(item->text, NULL, 10);
    if (errno == ERANGE || !inside((double)*out, sg_domain_interval(option->domain)))
        return out_of_range(option, item, err);
    return SG_OK;
}

static sg_status parse_real(const sg_option *option, const sg_scalar_text *item, double *out, sg_error *err)
{
    char *end;
    *out = strtod(item->text, &end);
    /* The set of characters keeps out strtod's nan, inf and hexadecimal forms. */
    if (item->quoted || end == item->text || *end || item->text[strspn(item->text, "0123456789+-.eE")])
        return mismatch(option, item, "a finite number", err);
    if (!isfinite(*out) || !inside(*out, sg_domain_interval(option->domain)))
        return out_of_range(option, item, err);
    return SG_OK;
}

/* Write "a, b or c" for the domain "a|b|c". */
static void list_words(const char *domain, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (const char *at = domain; *at && used < size;) {
        size_t span = strcspn(at, "|");
        const char *joint = used == 0 ? "" : strchr(at, '|') ? ", " : " or ";
        used += (size_t)snprintf(out + used, size - used, "%s%.*s", joint, (int)span, at);
        at += span + (at[span] == '|');
    }
}

static sg_status parse_word(sg_config *config, const sg_option *option, const sg_scalar_text *item, void *slot,
                            sg_error *err)
{
    int32_t index = sg_domain_find(option->domain, item->text);
    if (index < 0) {
        char words[SG_ERROR_TEXT / 2];
        list_words(option->domain, words, sizeof words);
        return sg_config_fail_at(item->place, err, "%s must be %s, not '%.80s'", option->key, words, item->text);
    }
    if (option->type == SG_OPTION_ENUM) {
        *(int32_t *)slot = index;
        return SG_OK;
    }
    *(const char **)slot = sg_config_text(config, item->text, strlen(item->text));
    return *(const char **)slot ? SG_OK : sg_config_no_memory(err);
}

/* Replace each ${NAME} by the variable's value. */
static sg_status expand(sg_config *config, const sg_scalar_text *item, const char **out, sg_error *err)
{
    char path[4096];
    size_t used = 0;
    for (const char *at = item->text; *at;) {
        const char *close = at[0] == '$' && at[1] == '{' ? strchr(at, '}') : NULL;
        const char *piece = at;
        size_t length = 1;
        if (close) {
            char name[256];
            snprintf(name, sizeof name, "%.*s", (int)(close - at - 2), at + 2);
            piece = getenv(name);
            if (!piece)
                return sg_config_fail_at(item->place, err, "the environment variable %s is not set", name);
            length = strlen(piece);
        }
        if (used + length >= sizeof path)
            return sg_config_fail_at(item->place, err, "the path is longer than %zu bytes", sizeof path - 1);
        memcpy(path + used, piece, length);
        used += length;
        at = close ? close + 1 : at + 1;
    }
    *out = sg_config_text(config, path, used);
    return *out ? SG_OK : sg_config_no_memory(err);
}

/* The configuration is kept as YAML, in run directories and models, and YAML holds Unicode alone. */
static sg_status check_unicode(const sg_option *option, const sg_scalar_text *item, const char *text, sg_error *err)
{
    utf8proc_int32_t code;
    for (utf8proc_ssize_t step; *text; text += step)
        if ((step = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &code)) <= 0)
            return sg_config_fail_at(item->place, err, "%s is not UTF-8: %.80s", option->key, item->text);
    return SG_OK;
}

static sg_status parse_text(sg_config *config, const sg_option *option, const sg_scalar_text *item, const char **out,
                            sg_error *err)
{
    *out = NULL;
    if (sg_config_is_null(item))
        return SG_OK;
    if (option->type == SG_OPTION_PATH || option->type == SG_OPTION_PATHS)
        SG_TRY(expand(config, item, out, err));
    else if (!(*out = sg_config_text(config, item->text, strlen(item->text))))
        return sg_config_no_memory(err);
    return check_unicode(option, item, *out, err);
}

static sg_status assign_scalar(sg_config *config, const sg_option *option, const sg_scalar_text *item, void *slot,
                               sg_error *err)
{
    switch (option->type) {
    case SG_OPTION_BOOL:
        return parse_bool(option, item, slot, err);
    case SG_OPTION_INT:
        return parse_int(option, item, slot, err);
    case SG_OPTION_REAL:
        return parse_real(option, item, slot, err);
    case SG_OPTION_ENUM:
    case SG_OPTION_WORD:
        return parse_word(config, option, item, slot, err);
    default:
        return parse_text(config, option, item, slot, err);
    }
}

static sg_status assign_list(sg_config *config, const sg_option *option, const sg_raw_value *value, void *slot,
                             sg_error *err)
{
    int64_t count = value->count;
    if (!value->list && sg_config_is_null(&value->items[0]))
        count = 0;
    size_t size = option->type == SG_OPTION_INTS    ? sizeof(int64_t)
                  : option->type == SG_OPTION_REALS ? sizeof(double)
                                                    : sizeof(const char *);
    char *elements = sg_config_alloc(config, count, size);
    if (!elements)
        return sg_config_no_memory(err);
    for (int64_t i = 0; i < count; i++) {
        const sg_scalar_text *item = &value->items[i];
        void *element = elements + (size_t)i * size;
        if (option->type == SG_OPTION_INTS)
            SG_TRY(parse_int(option, item, element, err));
        else if (option->type == SG_OPTION_REALS)
            SG_TRY(parse_real(option, item, element, err));
        else if (sg_config_is_null(item))
            return mismatch(option, item, "text", err);
        else
            SG_TRY(parse_text(config, option, item, element, err));
    }
    if (option->type == SG_OPTION_INTS)
        *(sg_ints *)slot = (sg_ints){count, (const int64_t *)elements};
    else if (option->type == SG_OPTION_REALS)
        *(sg_reals *)slot = (sg_reals){count, (const double *)elements};
    else
        *(sg_texts *)slot = (sg_texts){count, (const char *const *)elements};
    return SG_OK;
}

static sg_status record_origin(sg_config *config, int32_t index, sg_place place, sg_error *err)
{
    char text[512];
    config->places[index] = place;
    if (!place.source) {
        config->origins[index] = "default";
        return SG_OK;
    }
    int length = place.line > 0 ? snprintf(text, sizeof text, "%s:%lld:%lld", place.source, (long long)place.line,
                                           (long long)place.column)
                                : snprintf(text, sizeof text, "%s", place.source);
    if (length >= (int)sizeof text)
        length = (int)sizeof text - 1;
    config->origins[index] = sg_config_text(config, text, (size_t)length);
    return config->origins[index] ? SG_OK : sg_config_no_memory(err);
}

sg_status sg_config_assign(sg_config *config, const sg_option *option, const sg_raw_value *value, sg_error *err)
{
    void *slot = (char *)&config->values + option->offset;
    if (sg_option_is_list(option))
        SG_TRY(assign_list(config, option, value, slot, err));
    else if (value->list)
        return sg_config_fail_at(value->place, err, "%s expects one value, not a list", option->key);
    else
        SG_TRY(assign_scalar(config, option, &value->items[0], slot, err));
    return record_origin(config, sg_option_index(option), value->place, err);
}

static void trim(const char **text, size_t *length)
{
    while (*length > 0 && ((*text)[0] == ' ' || (*text)[0] == '\t'))
        (*text)++, (*length)--;
    while (*length > 0 && ((*text)[*length - 1] == ' ' || (*text)[*length - 1] == '\t'))
        (*length)--;
}

sg_status sg_config_split(sg_config *config, const sg_option *option, const char *text, sg_place place,
                          sg_raw_value *out, sg_error *err)
{
    size_t length = strlen(text);
    int64_t capacity = 1, count = 0;
    *out = (sg_raw_value){.list = sg_option_is_list(option), .place = place};
    for (const char *c = text; *c; c++)
        capacity += *c == ',';
    sg_scalar_text *items = sg_config_alloc(config, capacity, sizeof *items);
    if (!items)
        return sg_config_no_memory(err);
    out->items = items;
    if (!out->list) {
        items[0] = (sg_scalar_text){text, false, place};
        out->count = 1;
        return SG_OK;
    }
    trim(&text, &length);
    const char *open = memchr(text, '[', length), *shut = memchr(text, ']', length);
    if ((open == text && length && !shut) || (shut && shut == text + length - 1 && !open))
        return sg_config_fail_at(place, err, "%s: the list '%.80s' has one bracket alone", option->key, text);
    if (length >= 2 && text[0] == '[' && text[length - 1] == ']')
        text++, length -= 2;
    trim(&text, &length);
    for (size_t start = 0, end; start < length; start = end + 1) {
        for (end = start; end < length && text[end] != ','; end++)
            ;
        const char *piece = text + start;
        size_t size = end - start;
        trim(&piece, &size);
        items[count].text = sg_config_text(config, piece, size);
        items[count].place = place;
        if (!items[count++].text)
            return sg_config_no_memory(err);
    }
    out->count = count;
    return SG_OK;
}
