/* config_yaml.c - a strict subset of YAML (JSON is part of it) by libyaml's events: one document, mappings of settings, flat
 * lists. No anchors, no tags, no merging; a duplicate key is an error. */
#include "models/config_internal.h"
#include "models/data_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#define LONGEST_PATH 4096
#define LARGEST_FILE (1 << 20)
#define DEEPEST_EXTENDS 16

/* One `key: value` of the file; `next` in file order. */
typedef struct setting {
    struct setting *next;
    const char *key;
    sg_place key_place;
    const sg_option *option; /* NULL for a section and for extends */
    sg_raw_value value;
} setting;

typedef struct reader {
    sg_config *config;
    yaml_parser_t parser;
    yaml_event_t event; /* the current one */
    bool has_event;
    const char *name;
    setting *first, **last;
    const setting *extends;
    sg_error *err;
} reader;

/* Files being read, innermost first, to find cycles of extends. */
typedef struct file_chain {
    const struct file_chain *outer;
    const char *path, *recipes;
    int depth;
} file_chain;

static sg_place place_of(const reader *r, yaml_mark_t mark)
{
    return (sg_place){r->name, (int64_t)mark.line + 1, (int64_t)mark.column + 1};
}

static sg_place here(const reader *r) { return place_of(r, r->event.start_mark); }

static sg_status advance(reader *r)
{
    if (r->has_event)
        yaml_event_delete(&r->event);
    r->has_event = yaml_parser_parse(&r->parser, &r->event) == 1;
    if (r->has_event)
        return SG_OK;
    if (r->parser.error == YAML_MEMORY_ERROR)
        return sg_config_no_memory(r->err);
    yaml_mark_t mark = r->parser.problem_mark;
    return sg_config_fail_at(place_of(r, mark), r->err, "not valid YAML: %s",
                             r->parser.problem ? r->parser.problem : "unreadable text");
}

static sg_status refuse_extras(const reader *r)
{
    const yaml_event_t *e = &r->event;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (e->type == YAML_ALIAS_EVENT)
        anchor = e->data.alias.anchor;
    if (e->type == YAML_SCALAR_EVENT)
        anchor = e->data.scalar.anchor, tag = e->data.scalar.tag;
    if (e->type == YAML_SEQUENCE_START_EVENT)
        anchor = e->data.sequence_start.anchor, tag = e->data.sequence_start.tag;
    if (e->type == YAML_MAPPING_START_EVENT)
        anchor = e->data.mapping_start.anchor, tag = e->data.mapping_start.tag;
    if (anchor)
        return sg_config_fail_at(here(r), r->err, "anchors and aliases are not part of this format");
    if (tag)
        return sg_config_fail_at(here(r), r->err, "tags are not part of this format");
    return SG_OK;
}

static sg_status read_scalar(reader *r, sg_scalar_text *out)
{
    size_t length = r->event.data.scalar.length;
    const char *text = (const char *)r->event.data.scalar.value;
    if (memchr(text, 0, length))
        return sg_config_fail_at(here(r), r->err, "a value holds a zero byte");
    out->text = sg_config_text(r->config, text, length);
    out->quoted = r->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    out->place = here(r);
    return out->text ? SG_OK : sg_config_no_memory(r->err);
}

/* Items are gathered in a growing array; the configuration owns every version, lists being short. */
static sg_status read_list(reader *r, const char *key, sg_raw_value *out)
{
    int64_t capacity = 8;
    sg_scalar_text *items = sg_config_alloc(r->config, capacity, sizeof *items);
    out->list = true;
    for (;;) {
        SG_TRY(advance(r));
        SG_TRY(refuse_extras(r));
        if (r->event.type == YAML_SEQUENCE_END_EVENT)
            break;
        if (r->event.type != YAML_SCALAR_EVENT)
            return sg_config_fail_at(here(r), r->err, "%s expects a flat list of values", key);
        if (items && out->count == capacity) {
            sg_scalar_text *more = sg_config_alloc(r->config, 2 * capacity, sizeof *more);
            if (more)
                memcpy(more, items, (size_t)capacity * sizeof *items);
            items = more;
            capacity *= 2;
        }
        if (!items)
            return sg_config_no_memory(r->err);
        SG_TRY(read_scalar(r, &items[out->count++]));
    }
    out->items = items;
    return SG_OK;
}

static sg_status read_value(reader *r, const char *key, sg_raw_value *out)
{
    *out = (sg_raw_value){.place = here(r)};
    if (r->event.type == YAML_SEQUENCE_START_EVENT)
        return read_list(r, key, out);
    sg_scalar_text *item = sg_config_alloc(r->config, 1, sizeof *item);
    if (!item)
        return sg_config_no_memory(r->err);
    out->count = 1;
    out->items = item;
    return read_scalar(r, item);
}

static sg_status add_setting(reader *r, const char *key, sg_place place, setting **out)
{
    for (const setting *s = r->first; s; s = s->next)
        if (strcmp(s->key, key) == 0)
            return sg_config_fail_at(place, r->err, "duplicate key '%s' (first on line %lld)", key,
                                     (long long)s->key_place.line);
    setting *s = sg_config_alloc(r->config, 1, sizeof *s);
    if (!s)
        return sg_config_no_memory(r->err);
    s->key = key;
    s->key_place = place;
    *r->last = s;
    r->last = &s->next;
    *out = s;
    return SG_OK;
}

static sg_status read_key(reader *r, const char *section, const char **out)
{
    char key[256];
    if (r->event.type != YAML_SCALAR_EVENT)
        return sg_config_fail_at(here(r), r->err, "a key must be a word");
    sg_scalar_text word;
    SG_TRY(read_scalar(r, &word));
    snprintf(key, sizeof key, "%s%s%s", section, section[0] ? "." : "", word.text);
    *out = sg_config_text(r->config, key, strlen(key));
    return *out ? SG_OK : sg_config_no_memory(r->err);
}

static sg_status read_mapping(reader *r, const char *section);

static sg_status read_section(reader *r, const char *key, sg_place place)
{
    bool nothing = r->event.type == YAML_SCALAR_EVENT && r->event.data.scalar.length == 0;
    if (nothing)
        return SG_OK;
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return sg_config_fail_at(place, r->err, "%s is a section: write its keys below it", key);
    return read_mapping(r, key);
}

/* Standard input has one reader, and is in no folder. */
static bool names_file(const sg_raw_value *value)
{
    const sg_scalar_text *item = value->items;
    return !value->list && item->text[0] && strcmp(item->text, "-") != 0 && !sg_config_is_null(item);
}

static sg_status read_pair(reader *r, const char *section)
{
    const char *key;
    sg_place place = here(r);
    setting *s = NULL;
    SG_TRY(read_key(r, section, &key));
    const sg_option *option = sg_option_find(key);
    bool extends = strcmp(key, "extends") == 0;
    bool is_section = !section[0] && sg_option_is_section(key);
    if (!option && !extends && !is_section)
        return sg_config_unknown(key, place, r->err);
    SG_TRY(add_setting(r, key, place, &s));
    SG_TRY(advance(r));
    SG_TRY(refuse_extras(r));
    if (is_section)
        return read_section(r, key, place);
    if (r->event.type == YAML_MAPPING_START_EVENT)
        return sg_config_fail_at(here(r), r->err, "%s expects a value, not a section", key);
    SG_TRY(read_value(r, key, &s->value));
    if (extends && !names_file(&s->value))
        return sg_config_fail_at(s->value.place, r->err, "extends expects the name of one file");
    s->option = option;
    if (extends)
        r->extends = s;
    return SG_OK;
}

static sg_status read_mapping(reader *r, const char *section)
{
    for (;;) {
        SG_TRY(advance(r));
        SG_TRY(refuse_extras(r));
        if (r->event.type == YAML_MAPPING_END_EVENT)
            return SG_OK;
        SG_TRY(read_pair(r, section));
    }
}

static sg_status read_document(reader *r)
{
    SG_TRY(advance(r)); /* stream start */
    SG_TRY(advance(r));
    if (r->event.type == YAML_STREAM_END_EVENT)
        return SG_OK;
    SG_TRY(advance(r)); /* the root, after document start */
    SG_TRY(refuse_extras(r));
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return sg_config_fail_at(here(r), r->err, "a configuration is a mapping of keys to values");
    SG_TRY(read_mapping(r, ""));
    SG_TRY(advance(r)); /* document end */
    SG_TRY(advance(r));
    if (r->event.type != YAML_STREAM_END_EVENT)
        return sg_config_fail_at(here(r), r->err, "a configuration is one document");
    return SG_OK;
}

/* Does it go up a folder anywhere, as a path of one's own may and a name that leads on from a folder may not? */
static bool goes_up(const char *name)
{
    for (size_t n; *name; name += n + (name[n] == '/')) {
        n = strcspn(name, "/");
        if (n == 2 && name[0] == '.' && name[1] == '.')
            return true;
    }
    return false;
}

/* `path`, unless it is not there and `name` is among the recipes: then that file, written to `found`. */
static const char *find_file(const char *path, const char *name, const char *recipes, char found[LONGEST_PATH])
{
    struct stat st;
    if (!recipes || name[0] == '/' || goes_up(name) || access(path, F_OK) == 0 ||
        snprintf(found, LONGEST_PATH, "%s/%s", recipes, name) >= LONGEST_PATH || stat(found, &st) != 0 ||
        !S_ISREG(st.st_mode))
        return path;
    return found;
}

static sg_status read_file_chain(sg_config *config, const char *path, const char *recipes, const file_chain *outer,
                                 sg_error *err);

/* The file named by extends, relative to the folder of the file that names it, or a recipe. */
static sg_status extend(reader *r, const file_chain *chain)
{
    char beside[LONGEST_PATH], found[LONGEST_PATH];
    const char *base = r->extends->value.items[0].text;
    const char *slash = strrchr(chain->path, '/');
    sg_place place = r->extends->value.place;
    int folder = base[0] == '/' || !slash ? 0 : (int)(slash - chain->path) + 1;
    if (snprintf(beside, sizeof beside, "%.*s%s", folder, chain->path, base) >= (int)sizeof beside)
        return sg_config_fail_at(place, r->err, "the path in extends is too long");
    const char *path = find_file(beside, base, chain->recipes, found);
    for (const file_chain *c = chain; c; c = c->outer) {
        char *a = realpath(c->path, NULL), *b = realpath(path, NULL);
        bool same = a && b && strcmp(a, b) == 0;
        free(a);
        free(b);
        if (same)
            return sg_config_fail_at(place, r->err, "extends goes in a circle: %s is already being read", base);
    }
    if (chain->depth >= DEEPEST_EXTENDS)
        return sg_config_fail_at(place, r->err, "extends is nested more than %d deep", DEEPEST_EXTENDS);
    FILE *probe = fopen(path, "rb");
    if (!probe)
        return sg_fail_at(r->err, SG_E_IO, place.source, place.line, place.column, "cannot open %s: %s", path,
                          strerror(errno));
    fclose(probe);
    return read_file_chain(r->config, path, chain->recipes, chain, r->err);
}

static sg_status apply(reader *r, const file_chain *chain)
{
    if (r->extends)
        SG_TRY(extend(r, chain));
    for (const setting *s = r->first; s; s = s->next)
        if (s->option)
            SG_TRY(sg_config_assign(r->config, s->option, &s->value, r->err));
    return SG_OK;
}

static sg_status read_text(sg_config *config, const char *text, size_t size, const file_chain *chain, sg_error *err)
{
    const char *file = sg_lines_name(chain->path), *name = sg_config_text(config, file, strlen(file));
    if (!name)
        return sg_config_no_memory(err);
    reader r = {.config = config, .name = name, .err = err};
    r.last = &r.first;
    if (!yaml_parser_initialize(&r.parser))
        return sg_config_no_memory(err);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, size);
    sg_status status = read_document(&r);
    if (r.has_event)
        yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return status == SG_OK ? apply(&r, chain) : status;
}

static sg_status slurp(const char *path, const char *recipes, char **out, size_t *size, sg_error *err)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rb");
    const char *name = sg_lines_name(path);
    if (!file)
        return sg_fail(err, SG_E_IO, "cannot open the configuration %.300s: %s%s%s", name, strerror(errno),
                       recipes ? "; the program's recipes are in " : "", recipes ? recipes : "");
    char *text = sg_alloc(LARGEST_FILE + 1);
    size_t length = text ? fread(text, 1, LARGEST_FILE + 1, file) : 0;
    bool failed = ferror(file) != 0;
    int reason = errno;
    if (!standard)
        fclose(file);
    *out = text;
    *size = length;
    if (!text)
        return sg_config_no_memory(err);
    if (failed)
        return sg_fail(err, SG_E_IO, "cannot read the configuration %s: %s", name, strerror(reason));
    if (length > LARGEST_FILE)
        return sg_fail(err, SG_E_CONFIG, "the configuration %s is larger than %d bytes", name, LARGEST_FILE);
    return SG_OK;
}

static sg_status read_file_chain(sg_config *config, const char *path, const char *recipes, const file_chain *outer,
                                 sg_error *err)
{
    file_chain chain = {outer, path, recipes, outer ? outer->depth + 1 : 0};
    char *text = NULL;
    size_t size = 0;
    sg_status status = slurp(path, recipes, &text, &size, err);
    if (status == SG_OK)
        status = read_text(config, text, size, &chain, err);
    sg_free(text);
    return status;
}

sg_status sg_config_read_file(sg_config *config, const char *name, const char *recipes, sg_error *err)
{
    char found[LONGEST_PATH];
    bool standard = strcmp(name, "-") == 0;
    return read_file_chain(config, standard ? name : find_file(name, name, recipes, found), recipes, NULL, err);
}

sg_status sg_config_read_text(sg_config *config, const char *text, size_t size, const char *name, sg_error *err)
{
    file_chain chain = {NULL, name, NULL, 0};
    return read_text(config, text, size, &chain, err);
}
