/* config_table.c - the option table as data, and look-up by key with a guess for misspelt ones. */
#include "models/config_internal.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const sg_option table[] = {
#define X(section, field, TYPE, initial, domain, flag, help)                                                           \
    {#field, SG_OPTION_##TYPE, initial, domain, flag, help, offsetof(sg_train_config, field)},
    SG_TOP_OPTIONS(X, )
#undef X
#define X(section, field, TYPE, initial, domain, flag, help)                                                           \
    {#section "." #field, SG_OPTION_##TYPE, initial, domain, flag, help, offsetof(sg_train_config, section.field)},
        SG_DATA_OPTIONS(X) SG_MODEL_OPTIONS(X) SG_ENERGY_OPTIONS(X) SG_LOSS_OPTIONS(X) SG_TRAIN_OPTIONS(X)
#undef X
};

static const char *const sections[] = {"data", "model", "energy", "loss", "train"};

int32_t sg_option_count(void) { return (int32_t)(sizeof table / sizeof table[0]); }

const sg_option *sg_option_at(int32_t index) { return &table[index]; }

int32_t sg_option_index(const sg_option *option) { return (int32_t)(option - table); }

const sg_option *sg_option_find(const char *key)
{
    for (int32_t i = 0; i < sg_option_count(); i++)
        if (strcmp(table[i].key, key) == 0)
            return &table[i];
    return NULL;
}

bool sg_option_is_list(const sg_option *option) { return option->type >= SG_OPTION_INTS; }

bool sg_option_is_section(const char *name)
{
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        if (strcmp(sections[i], name) == 0)
            return true;
    return false;
}

/* One row of the table of prefixes at a time; keys are short, so a fixed row is enough and longer words never match. */
int32_t sg_edit_distance(const char *a, const char *b, int32_t limit)
{
    enum { LONGEST = 127 };
    int32_t row[LONGEST + 1];
    size_t n = strlen(b);
    if (n > LONGEST || strlen(a) > LONGEST)
        return limit + 1;
    for (size_t j = 0; j <= n; j++)
        row[j] = (int32_t)j;
    for (size_t i = 0; a[i]; i++) {
        int32_t diagonal = row[0];
        row[0] = (int32_t)i + 1;
        for (size_t j = 0; j < n; j++) {
            int32_t best = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (diagonal + 1 < best)
                best = diagonal + 1;
            row[j + 1] = best;
        }
    }
    return row[n] > limit ? limit + 1 : row[n];
}

/* Nearest section name, for a misspelt section ("trian:"). */
static const char *nearest_section(const char *key, int32_t limit)
{
    const char *found = NULL;
    int32_t best = limit + 1;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        int32_t distance = sg_edit_distance(key, sections[i], limit);
        if (distance < best) {
            best = distance;
            found = sections[i];
        }
    }
    return found;
}

const char *sg_option_nearest(const char *key)
{
    int32_t limit = 1 + (int32_t)strlen(key) / 4, best = limit + 1;
    const char *found = NULL;
    for (int32_t i = 0; i < sg_option_count(); i++) {
        int32_t distance = sg_edit_distance(key, table[i].key, limit);
        if (distance < best) {
            best = distance;
            found = table[i].key;
        }
    }
    /* The field alone, in whatever section it belongs to: "lr" or "model.lr" for train.lr. */
    const char *field = strrchr(key, '.') ? strrchr(key, '.') + 1 : key;
    for (int32_t i = 0; i < sg_option_count() && best > 0; i++) {
        const char *dot = strrchr(table[i].key, '.');
        if (dot && strcmp(dot + 1, field) == 0 && best > 1) {
            best = 1;
            found = table[i].key;
        }
    }
    return found ? found : nearest_section(key, limit);
}

const char *sg_option_environment(const sg_option *option, char *out, size_t size)
{
    snprintf(out, size, "SEALGRAPH_%s", option->key);
    for (char *c = out; *c; c++)
        *c = *c == '.' ? '_' : (char)toupper((unsigned char)*c);
    return out;
}

/* "cuda:7" is of the form "cuda:N". */
static bool is_numbered(const char *form, size_t span, const char *word, size_t length)
{
    if (span < 2 || form[span - 2] != ':' || form[span - 1] != 'N' || length < span ||
        memcmp(form, word, span - 1) != 0)
        return false;
    return strspn(word + span - 1, "0123456789") == length - (span - 1);
}

int32_t sg_domain_find(const char *domain, const char *word)
{
    size_t length = strlen(word);
    int32_t index = 0;
    for (const char *at = domain; *at; index++) {
        size_t span = strcspn(at, "|");
        bool same = span == length && memcmp(at, word, span) == 0 && at[span - 1] != 'N';
        if (same || is_numbered(at, span, word, length))
            return index;
        at += span + (at[span] == '|');
    }
    return -1;
}

const char *sg_domain_word(const char *domain, int32_t index, char *out, size_t size)
{
    const char *at = domain;
    for (; index > 0; index--)
        at += strcspn(at, "|") + 1;
    snprintf(out, size, "%.*s", (int)strcspn(at, "|"), at);
    return out;
}

sg_interval sg_domain_interval(const char *domain)
{
    sg_interval interval = {-INFINITY, INFINITY, true, true};
    if (!domain[0])
        return interval;
    const char *comma = strchr(domain, ',');
    interval.open_low = domain[0] == '(';
    interval.open_high = domain[strlen(domain) - 1] == ')';
    interval.low = strtod(domain + 1, NULL);
    interval.high = strtod(comma + 1, NULL);
    return interval;
}
