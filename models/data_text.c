/* Growing arrays, text and name tables of the data readers. */
#include "models/data_internal.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool sg_grow(void *array, int64_t *capacity, int64_t need, size_t item)
{
    if (need <= *capacity)
        return true;
    int64_t next = *capacity < 16 ? 16 : *capacity + *capacity / 2;
    if (next < need)
        next = need;
    int64_t bytes;
    if (!sg_mul_ok(next, (int64_t)item, &bytes))
        return false;
    void *old;
    memcpy(&old, array, sizeof old);
    void *data = sg_realloc(old, (size_t)bytes);
    if (!data)
        return false;
    memcpy(array, &data, sizeof data);
    *capacity = next;
    return true;
}

bool sg_is_blank(char c) { return c == ' ' || c == '\t'; }

char *sg_text_copy(const char *begin, const char *end)
{
    size_t length = (size_t)(end - begin);
    char *copy = sg_alloc(length + 1);
    if (!copy)
        return NULL;
    memcpy(copy, begin, length);
    copy[length] = '\0';
    return copy;
}

static const char *digits(const char *at, const char *end)
{
    while (at < end && isdigit((unsigned char)*at))
        at++;
    return at;
}

/* sign? digits* (. digits*)? (e sign? digits+)? with at least one digit before the exponent. */
static bool is_decimal(const char *at, const char *end)
{
    if (at < end && (*at == '+' || *at == '-'))
        at++;
    const char *whole = digits(at, end);
    int64_t count = whole - at;
    at = whole;
    if (at < end && *at == '.') {
        const char *fraction = digits(at + 1, end);
        count += fraction - at - 1;
        at = fraction;
    }
    if (count == 0)
        return false;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        const char *exponent = digits(at, end);
        if (exponent == at)
            return false;
        at = exponent;
    }
    return at == end;
}

/* strtod follows the locale, whose decimal point may be a comma. Plain decimals of few digits, nearly all of them,
 * are exact as integer / power of ten (both below 2^53 and 10^22); the rest goes through strtod with the point
 * replaced. */
static bool short_decimal(const char *at, const char *end, double *out)
{
    static const double power[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    bool negative = *at == '-';
    if (*at == '+' || *at == '-')
        at++;
    if (end - at > 16)
        return false;
    int64_t mantissa = 0;
    int fraction = 0;
    bool point = false;
    for (; at < end; at++) {
        if (*at == '.') {
            point = true;
        } else if (isdigit((unsigned char)*at)) {
            mantissa = mantissa * 10 + (*at - '0');
            fraction += point;
        } else {
            return false;
        }
    }
    if (mantissa > ((int64_t)1 << 53) || fraction > 15)
        return false;
    double value = (double)mantissa / power[fraction];
    *out = negative ? -value : value;
    return true;
}

bool sg_text_number(const char *begin, const char *end, double *out)
{
    if (!is_decimal(begin, end))
        return false;
    if (short_decimal(begin, end, out))
        return true;
    char buffer[512];
    size_t length = (size_t)(end - begin);
    if (length >= sizeof buffer)
        return false;
    memcpy(buffer, begin, length);
    buffer[length] = '\0';
    char local[8], *stop, *point = strchr(buffer, '.');
    snprintf(local, sizeof local, "%.1f", 0.5);
    if (point)
        *point = local[1];
    double value = strtod(buffer, &stop);
    *out = value;
    return *stop == '\0' && isfinite(value);
}

bool sg_text_integer(const char *begin, const char *end, int64_t *out)
{
    const char *at = begin;
    if (at < end && (*at == '+' || *at == '-'))
        at++;
    if (at == end || digits(at, end) != end || end - at > 18)
        return false;
    int64_t value = 0;
    for (; at < end; at++)
        value = value * 10 + (*at - '0');
    *out = *begin == '-' ? -value : value;
    return true;
}

bool sg_text_positive(const char *text, const char *positive)
{
    if (positive)
        return strcmp(text, positive) == 0;
    double number;
    if (sg_text_number(text, text + strlen(text), &number))
        return number == 1.0;
    return strcasecmp(text, "yes") == 0 || strcasecmp(text, "true") == 0 || strcasecmp(text, "t") == 0;
}

const char *sg_text_float(float value, char out[32])
{
    for (int precision = 6; precision <= 9; precision++) {
        snprintf(out, 32, "%.*g", precision, (double)value);
        if (strtof(out, NULL) == value)
            break;
    }
    return out;
}

/* FNV-1a, 64 bits: that of a text and one more byte. */
#define HASH_BEGIN 0xcbf29ce484222325u
static uint64_t hash_next(uint64_t hash, char byte) { return (hash ^ (unsigned char)byte) * 0x100000001b3u; }

static uint64_t hash_text(const char *text)
{
    uint64_t hash = HASH_BEGIN;
    for (; *text; text++)
        hash = hash_next(hash, *text);
    return hash;
}

static void place(sg_names *names, const char *key, int32_t index)
{
    uint64_t mask = (uint64_t)names->capacity - 1;
    uint64_t slot = hash_text(key) & mask;
    while (names->key[slot])
        slot = (slot + 1) & mask;
    names->key[slot] = key;
    names->index[slot] = index;
}

static bool enlarge(sg_names *names)
{
    int64_t capacity = names->capacity ? names->capacity * 2 : 16;
    sg_names next = {capacity, names->count, sg_calloc(capacity, sizeof *next.key),
                     sg_calloc(capacity, sizeof *next.index)};
    if (!next.key || !next.index) {
        sg_names_free(&next);
        return false;
    }
    for (int64_t i = 0; i < names->capacity; i++)
        if (names->key[i])
            place(&next, names->key[i], names->index[i]);
    sg_names_free(names);
    *names = next;
    return true;
}

bool sg_names_add(sg_names *names, const char *key, int32_t index)
{
    if (names->count * 2 >= names->capacity && !enlarge(names))
        return false;
    place(names, key, index);
    names->count++;
    return true;
}

static int32_t find(const sg_names *names, const char *text, size_t length, uint64_t hash)
{
    if (names->capacity == 0)
        return -1;
    uint64_t mask = (uint64_t)names->capacity - 1;
    for (uint64_t slot = hash & mask; names->key[slot]; slot = (slot + 1) & mask)
        if (strncmp(names->key[slot], text, length) == 0 && !names->key[slot][length])
            return names->index[slot];
    return -1;
}

int32_t sg_names_find(const sg_names *names, const char *key) { return find(names, key, strlen(key), hash_text(key)); }

int32_t sg_names_longest(const sg_names *names, const char *text, size_t most, char end, size_t *length)
{
    uint64_t hash = HASH_BEGIN;
    int32_t longest = -1;
    for (size_t n = 0; n <= most && text[n]; hash = hash_next(hash, text[n++])) {
        int32_t index = text[n] == end ? find(names, text, n, hash) : -1;
        if (index < 0)
            continue;
        longest = index;
        *length = n;
    }
    return longest;
}

void sg_names_free(sg_names *names)
{
    sg_free(names->key);
    sg_free(names->index);
    *names = (sg_names){0};
}

void sg_note_add(sg_notes *notes, bool warning, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!sg_grow(&notes->note, &notes->capacity, notes->count + 1, sizeof *notes->note))
        return;
    char *copy = sg_strdup(text);
    if (copy)
        notes->note[notes->count++] = (sg_note){warning, copy};
}

void sg_notes_free(sg_notes *notes)
{
    for (int32_t i = 0; i < notes->count; i++)
        sg_free(notes->note[i].text);
    sg_free(notes->note);
    *notes = (sg_notes){0};
}
