/* args.c - the command line: a verb, its flags and arguments, driven by the verb table, the common flags below and the
 * option table of the configuration. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const sg_flag sg_common_flags[] = {
    {"config", 'c', "FILE", NULL, "configuration in YAML; - reads standard input"},
    {"set", 0, "KEY=VALUE", NULL, "set one key of the configuration; may be repeated"},
    {"output", 'o', "PATH", NULL, "where to write"},
    {"force", 0, NULL, NULL, "replace what is there; a run folder is renamed to PATH.1"},
    {"resume", 0, NULL, NULL, "go on with an unfinished run; fail if there is none"},
    {"progress", 0, "MODE", "auto|bar|plain|none", "how progress is shown"},
    {"dry-run", 0, NULL, NULL, "read the data, build the graphs, print sizes, and stop"},
    {"require", 0, "COND", NULL, "exit with 5 unless it holds, e.g. 'test/example_f1>=0.40'; may be repeated"},
    {"json", 0, NULL, NULL, "print one JSON document on standard output"},
    {"quiet", 'q', NULL, NULL, "no messages"},
    {"verbose", 'v', NULL, NULL, "more messages; may be repeated"},
    {"color", 0, "WHEN", "auto|always|never", "colours; auto asks the terminal, NO_COLOR and CLICOLOR_FORCE"},
    {"help", 'h', NULL, NULL, "explain the command"},
    {NULL, 0, NULL, NULL, NULL},
};

unsigned sg_common_flag_group(const sg_flag *flag)
{
    static const struct {
        const char *name;
        unsigned group;
    } groups[] = {
        {"config", SG_TAKES_FILE},     {"set", SG_TAKES_SETTINGS},    {"output", SG_TAKES_OUTPUT},
        {"force", SG_TAKES_OUTPUT},    {"resume", SG_TAKES_RUN},      {"progress", SG_TAKES_RUN},
        {"dry-run", SG_TAKES_RUN},     {"require", SG_TAKES_REQUIRE}, {"json", SG_TAKES_JSON},
        {"verbose", SG_TAKES_VERBOSE},
    };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (strcmp(groups[i].name, flag->name) == 0)
            return groups[i].group;
    return 0;
}

bool sg_verb_takes(const sg_verb *verb, const sg_flag *common)
{
    unsigned group = sg_common_flag_group(common);
    return group == 0 || (verb->takes & group);
}

/* Is the key, or its section as "section.*", in the list? */
static bool lists_key(const char *reads, const char *key)
{
    char word[80];
    const char *dot = strchr(key, '.');
    snprintf(word, sizeof word, "|%s|", key);
    if (!reads || strstr(reads, word))
        return true;
    snprintf(word, sizeof word, "|%.*s.*|", dot ? (int)(dot - key) : 0, key);
    return dot && strstr(reads, word);
}

bool sg_cli_has_files(const sg_cli *cli) { return cli->n_arguments > 0; }
bool sg_cli_has_none(const sg_cli *cli) { return cli->n_arguments == 0; }

/* The use in which a verb reads a key that it does not always read; NULL: none. */
static const sg_reads *find_use(const sg_verb *verb, const char *key)
{
    for (const sg_reads *use = verb->reads_when; use && use->when; use++)
        if (lists_key(use->keys, key))
            return use;
    return NULL;
}

bool sg_verb_reads(const sg_verb *verb, const sg_option *option)
{
    return (verb->takes & SG_TAKES_SETTINGS) && (lists_key(verb->reads, option->key) || find_use(verb, option->key));
}

const char *sg_verb_reads_only(const sg_verb *verb, const sg_option *option)
{
    const sg_reads *use = lists_key(verb->reads, option->key) ? NULL : find_use(verb, option->key);
    return use ? use->when : NULL;
}

/* Does the command read the key as it is being used? */
static bool reads_key(const void *user, const char *key)
{
    const sg_cli *cli = user;
    if (lists_key(cli->verb->reads, key))
        return true;
    for (const sg_reads *use = cli->verb->reads_when; use && use->when; use++)
        if (lists_key(use->keys, key) && use->holds(cli))
            return true;
    return false;
}

/* A setting on the command line that is not read would have no effect, and be taken for one that had it. */
static sg_status check_read(const sg_cli *cli, const sg_setting *given, int count, sg_error *err)
{
    for (int i = 0; i < count; i++) {
        const char *key = given[i].key, *name = cli->verb->name;
        if (!sg_option_find(key) || reads_key(cli, key))
            continue;
        const sg_reads *use = find_use(cli->verb, key);
        const char *elsewhere = cli->verb->elsewhere.key;
        if (elsewhere && strcmp(elsewhere, key) == 0)
            return sg_fail(err, SG_E_CONFIG, "%s: %s does not read %s: %s", given[i].label, name, key,
                           cli->verb->elsewhere.advice);
        return use ? sg_fail(err, SG_E_CONFIG, "%s: %s reads %s only %s", given[i].label, name, key, use->when)
                   : sg_fail(err, SG_E_CONFIG, "%s: %s does not read %s", given[i].label, name, key);
    }
    return SG_OK;
}

/* Of a key set both by its flag and by --set one value would have no effect, whichever it is. */
static sg_status check_once(const sg_cli *cli, sg_error *err)
{
    for (int i = 0; i < cli->n_flags; i++)
        for (int k = 0; k < cli->n_sets; k++)
            if (strcmp(cli->flags[i].key, cli->sets[k].key) == 0)
                return sg_fail(err, SG_E_CONFIG, "%s and --set %s are the same setting: give one of them",
                               cli->flags[i].label, cli->sets[k].key);
    return SG_OK;
}

/* ---- looking flags up */

static const sg_flag *find_flag(const sg_verb *verb, const char *name, size_t length, char letter)
{
    const sg_flag *const tables[] = {verb->flags, sg_common_flags};
    for (int t = 0; t < 2; t++)
        for (const sg_flag *flag = tables[t]; flag && flag->name; flag++) {
            bool same = name ? strlen(flag->name) == length && memcmp(flag->name, name, length) == 0
                             : flag->letter && flag->letter == letter;
            if (same && (t == 0 || sg_verb_takes(verb, flag)))
                return flag;
        }
    return NULL;
}

static const sg_option *find_option(const sg_verb *verb, const char *name, size_t length)
{
    for (int32_t i = 0; (verb->takes & SG_TAKES_SETTINGS) && i < sg_option_count(); i++) {
        const char *flag = sg_option_at(i)->flag;
        if (flag[0] && strlen(flag) == length && memcmp(flag, name, length) == 0)
            return sg_option_at(i);
    }
    return NULL;
}

/* The candidate nearest to a misspelt name so far. */
typedef struct guess {
    const char *best;
    int32_t distance;
} guess;

#define FARTHEST 2

static void consider(guess *g, const char *name, const char *candidate)
{
    int32_t distance = candidate[0] ? sg_edit_distance(name, candidate, FARTHEST) : FARTHEST + 1;
    if (distance < g->distance)
        *g = (guess){candidate, distance};
}

static const char *nearest_flag(const sg_verb *verb, const char *name)
{
    guess g = {NULL, FARTHEST + 1};
    for (const sg_flag *flag = verb->flags; flag && flag->name; flag++)
        consider(&g, name, flag->name);
    for (const sg_flag *flag = sg_common_flags; flag->name; flag++)
        if (sg_verb_takes(verb, flag))
            consider(&g, name, flag->name);
    for (int32_t i = 0; i < sg_option_count(); i++)
        if (sg_verb_reads(verb, sg_option_at(i)))
            consider(&g, name, sg_option_at(i)->flag);
    return g.best;
}

/* Another command's flag is none that was misspelt. */
static bool is_common(const char *name)
{
    for (const sg_flag *flag = sg_common_flags; flag->name; flag++)
        if (strcmp(flag->name, name) == 0)
            return true;
    return false;
}

static sg_status unknown_flag(const sg_verb *verb, const char *name, sg_error *err)
{
    if (is_common(name))
        return sg_fail(err, SG_E_CONFIG, "%s takes no --%s", verb->name, name);
    const char *nearest = nearest_flag(verb, name);
    if (nearest)
        return sg_fail(err, SG_E_CONFIG, "unknown flag --%s (did you mean --%s?)", name, nearest);
    return sg_fail(err, SG_E_CONFIG, "unknown flag --%s", name);
}

/* ---- verbs */

static const char *nearest_verb(const char *name)
{
    guess g = {NULL, FARTHEST + 1};
    for (const sg_verb *const *verb = sg_verbs; *verb; verb++)
        consider(&g, name, (*verb)->name);
    return g.best;
}

bool sg_cli_is_family(const char *name)
{
    size_t length = strlen(name);
    for (const sg_verb *const *verb = sg_verbs; *verb; verb++)
        if (strncmp((*verb)->name, name, length) == 0 && (*verb)->name[length] == ' ')
            return true;
    return false;
}

/* Of a family the second word, "recipes" of config. */
static const char *nearest_of_family(const char *family, const char *name)
{
    guess g = {NULL, FARTHEST + 1};
    size_t length = strlen(family);
    for (const sg_verb *const *verb = sg_verbs; *verb; verb++)
        if (strncmp((*verb)->name, family, length) == 0 && (*verb)->name[length] == ' ')
            consider(&g, name, (*verb)->name + length + 1);
    return g.best;
}

static sg_status unknown_of_family(const char *family, const char *names, const char *word, sg_error *err)
{
    const char *nearest = word ? nearest_of_family(family, word) : NULL;
    if (!word)
        return sg_fail(err, SG_E_CONFIG, "%s needs one of: %s", family, names);
    if (!nearest)
        return sg_fail(err, SG_E_CONFIG, "%s needs one of: %s; not '%.80s'", family, names, word);
    return sg_fail(err, SG_E_CONFIG, "%s needs one of: %s; not '%.80s' (did you mean '%s %s'?)", family, names, word,
                   family, nearest);
}

sg_status sg_cli_unknown_verb(const char *first, const char *second, sg_error *err)
{
    size_t length = strlen(first);
    bool word = second && second[0] != '-';
    char names[256] = "";
    if (first[0] == '-')
        return sg_fail(err, SG_E_CONFIG, "%.80s stands before the command: flags go behind it, sealgraph COMMAND %.80s",
                       first, first);
    for (const sg_verb *const *verb = sg_verbs; *verb; verb++) {
        if (strcmp((*verb)->name, first) == 0 && word)
            return sg_fail(err, SG_E_CONFIG, "unknown command '%s %s' (%s is one word)", first, second, first);
        if (strncmp((*verb)->name, first, length) == 0 && (*verb)->name[length] == ' ')
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", names[0] ? ", " : "",
                     (*verb)->name + length + 1);
    }
    if (names[0])
        return unknown_of_family(first, names, word ? second : NULL, err);
    const char *nearest = nearest_verb(first);
    if (nearest)
        return sg_fail(err, SG_E_CONFIG, "unknown command '%s' (did you mean '%s'?)", first, nearest);
    return sg_fail(err, SG_E_CONFIG, "unknown command '%s'", first);
}

/* The verb at argv[1], or argv[1] and argv[2]; *used tells how many words it took. */
static sg_status find_verb(int argc, char **argv, const sg_verb **out, int *used, sg_error *err)
{
    char two[128];
    snprintf(two, sizeof two, "%s %s", argv[1], argc > 2 ? argv[2] : "");
    for (const sg_verb *const *verb = sg_verbs; *verb; verb++) {
        *out = *verb;
        *used = strchr((*verb)->name, ' ') ? 2 : 1;
        if (strcmp((*verb)->name, *used == 2 ? two : argv[1]) == 0)
            return SG_OK;
    }
    *out = NULL;
    return sg_cli_unknown_verb(argv[1], argc > 2 ? argv[2] : NULL, err);
}

/* ---- storing */

static void add_value(sg_cli *cli, const char *name, const char *value)
{
    cli->values[cli->n_values].name = name;
    cli->values[cli->n_values++].value = value;
}

static const char *own(sg_cli *cli, char *text)
{
    if (text)
        cli->owned[cli->n_owned++] = text;
    return text;
}

static char *join(const char *a, const char *middle, const char *b)
{
    size_t size = strlen(a) + strlen(middle) + strlen(b) + 1;
    char *text = sg_alloc(size);
    if (text)
        snprintf(text, size, "%s%s%s", a, middle, b);
    return text;
}

/* A repeated list flag adds to its list: --train a --train b. */
static sg_status add_option(sg_cli *cli, const sg_option *option, const char *value, sg_error *err)
{
    const char *label = own(cli, join("--", option->flag, ""));
    if (option->type >= SG_OPTION_INTS)
        for (int i = 0; i < cli->n_flags; i++)
            if (cli->flags[i].key == option->key) {
                cli->flags[i].value = own(cli, join(cli->flags[i].value, ",", value));
                return cli->flags[i].value ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
            }
    cli->flags[cli->n_flags++] = (sg_setting){label, option->key, value};
    return label ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
}

static sg_status add_set(sg_cli *cli, const char *text, sg_error *err)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return sg_fail(err, SG_E_CONFIG, "--set expects KEY=VALUE, not '%.80s'", text);
    char *key = sg_strdup(text);
    if (!own(cli, key))
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    key[equals - text] = 0;
    cli->sets[cli->n_sets++] = (sg_setting){"--set", key, equals + 1};
    return SG_OK;
}

static bool among(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; *at;) {
        size_t span = strcspn(at, "|");
        if (span == length && memcmp(at, word, span) == 0)
            return true;
        at += span + (at[span] == '|');
    }
    return false;
}

static sg_status add_flag(sg_cli *cli, const sg_flag *flag, const char *value, sg_error *err)
{
    if (flag->words && !among(flag->words, value))
        return sg_fail(err, SG_E_CONFIG, "--%s must be one of %s, not '%.80s'", flag->name, flag->words, value);
    if (strcmp(flag->name, "set") == 0)
        return add_set(cli, value, err);
    cli->verbosity += strcmp(flag->name, "verbose") == 0;
    if (strcmp(flag->name, "quiet") == 0)
        cli->verbosity = -1;
    add_value(cli, flag->name, value);
    return SG_OK;
}

/* ---- parsing */

/* The value of a flag: after '=', or the next word. */
static sg_status take_value(const char *name, const char *attached, int argc, char **argv, int *at, const char **out,
                            sg_error *err)
{
    if (!attached && *at + 1 >= argc)
        return sg_fail(err, SG_E_CONFIG, "%s needs a value", name);
    *out = attached ? attached : argv[++*at];
    return SG_OK;
}

static sg_status parse_option(sg_cli *cli, const sg_option *option, const char *attached, int argc, char **argv,
                              int *at, sg_error *err)
{
    const char *value = attached ? attached : "true";
    if (option->type != SG_OPTION_BOOL)
        SG_TRY(take_value(argv[*at], attached, argc, argv, at, &value, err));
    return add_option(cli, option, value, err);
}

static sg_status parse_long(sg_cli *cli, int argc, char **argv, int *at, sg_error *err)
{
    const char *name = argv[*at] + 2, *value = "";
    size_t length = strcspn(name, "=");
    const char *attached = name[length] == '=' ? name + length + 1 : NULL;
    const sg_flag *flag = find_flag(cli->verb, name, length, 0);
    const sg_option *option = flag ? NULL : find_option(cli->verb, name, length);
    if (option)
        return parse_option(cli, option, attached, argc, argv, at, err);
    if (!flag && strncmp(name, "no-", 3) == 0) {
        option = find_option(cli->verb, name + 3, length - 3);
        if (option && option->type == SG_OPTION_BOOL && !attached)
            return add_option(cli, option, "false", err);
    }
    if (!flag) {
        char text[80];
        snprintf(text, sizeof text, "%.*s", (int)(length < 79 ? length : 79), name);
        return unknown_flag(cli->verb, text, err);
    }
    if (flag->meta)
        SG_TRY(take_value(argv[*at], attached, argc, argv, at, &value, err));
    else if (attached)
        return sg_fail(err, SG_E_CONFIG, "--%s takes no value", flag->name);
    return add_flag(cli, flag, value, err);
}

static sg_status unknown_letter(const sg_verb *verb, const char *name, sg_error *err)
{
    for (const sg_flag *flag = sg_common_flags; flag->name; flag++)
        if (flag->letter && flag->letter == name[1])
            return sg_fail(err, SG_E_CONFIG, "%s takes no %s", verb->name, name);
    return sg_fail(err, SG_E_CONFIG, "unknown flag %s", name);
}

static sg_status parse_short(sg_cli *cli, int argc, char **argv, int *at, sg_error *err)
{
    const char *word = argv[*at];
    for (const char *letter = word + 1; *letter; letter++) {
        char name[3] = {'-', *letter, 0};
        const char *value = "";
        const sg_flag *flag = find_flag(cli->verb, NULL, 0, *letter);
        if (!flag)
            return unknown_letter(cli->verb, name, err);
        if (!flag->meta) {
            SG_TRY(add_flag(cli, flag, value, err));
            continue;
        }
        SG_TRY(take_value(name, letter[1] ? letter + 1 : NULL, argc, argv, at, &value, err));
        return add_flag(cli, flag, value, err);
    }
    return SG_OK;
}

static sg_status check_arguments(const sg_cli *cli, sg_error *err)
{
    const sg_verb *verb = cli->verb;
    if (sg_cli_has(cli, "help"))
        return SG_OK;
    if (cli->n_arguments < verb->min_arguments)
        return sg_fail(err, SG_E_CONFIG, "%s needs %s", verb->name, verb->arguments);
    if (verb->max_arguments >= 0 && cli->n_arguments > verb->max_arguments)
        return sg_fail(err, SG_E_CONFIG, "%s: unexpected argument '%.80s'", verb->name,
                       cli->arguments[verb->max_arguments]);
    return SG_OK;
}

static sg_status allocate(sg_cli *cli, int argc, sg_error *err)
{
    int64_t n = argc + 1;
    cli->arguments = sg_calloc(n, sizeof *cli->arguments);
    cli->values = sg_calloc(n, sizeof *cli->values);
    cli->sets = sg_calloc(n, sizeof *cli->sets);
    cli->flags = sg_calloc(n, sizeof *cli->flags);
    cli->owned = sg_calloc(2 * n, sizeof *cli->owned);
    if (!cli->arguments || !cli->values || !cli->sets || !cli->flags || !cli->owned)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    return SG_OK;
}

sg_status sg_cli_parse(sg_cli *cli, int argc, char **argv, sg_error *err)
{
    int at = 0;
    bool flags = true;
    cli->argc = argc;
    cli->argv = argv;
    SG_TRY(allocate(cli, argc, err));
    SG_TRY(find_verb(argc, argv, &cli->verb, &at, err));
    for (at++; at < argc; at++) {
        const char *word = argv[at];
        if (!flags || word[0] != '-' || !word[1])
            cli->arguments[cli->n_arguments++] = word;
        else if (strcmp(word, "--") == 0)
            flags = false;
        else if (word[1] == '-')
            SG_TRY(parse_long(cli, argc, argv, &at, err));
        else
            SG_TRY(parse_short(cli, argc, argv, &at, err));
    }
    SG_TRY(check_read(cli, cli->sets, cli->n_sets, err));
    SG_TRY(check_read(cli, cli->flags, cli->n_flags, err));
    SG_TRY(check_once(cli, err));
    return check_arguments(cli, err);
}

void sg_cli_free(sg_cli *cli)
{
    for (int i = 0; i < cli->n_owned; i++)
        sg_free(cli->owned[i]);
    sg_free(cli->owned);
    sg_free(cli->arguments);
    sg_free(cli->values);
    sg_free(cli->sets);
    sg_free(cli->flags);
}

const char *sg_cli_value(const sg_cli *cli, const char *flag)
{
    for (int i = cli->n_values - 1; i >= 0; i--)
        if (strcmp(cli->values[i].name, flag) == 0)
            return cli->values[i].value;
    return NULL;
}

const char *sg_cli_output(const sg_cli *cli)
{
    const char *path = sg_cli_value(cli, "output");
    return path && strcmp(path, "-") != 0 ? path : NULL;
}

bool sg_cli_has(const sg_cli *cli, const char *flag) { return sg_cli_value(cli, flag) != NULL; }

sg_status sg_cli_not_with(const sg_cli *cli, const char *flag, const char *other, sg_error *err)
{
    if (!sg_cli_has(cli, flag) || !sg_cli_has(cli, other))
        return SG_OK;
    return sg_fail(err, SG_E_CONFIG, "--%s has no effect with --%s", flag, other);
}

sg_status sg_cli_needs(const sg_cli *cli, const char *flag, const char *other, sg_error *err)
{
    if (!sg_cli_has(cli, flag) || sg_cli_has(cli, other))
        return SG_OK;
    return sg_fail(err, SG_E_CONFIG, "--%s has no effect without --%s", flag, other);
}

sg_status sg_cli_int(const sg_cli *cli, const char *flag, int64_t low, int64_t high, int64_t fallback, int64_t *out,
                     sg_error *err)
{
    const char *text = sg_cli_value(cli, flag);
    char *end;
    *out = fallback;
    if (!text)
        return SG_OK;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (errno || end == text || *end || *out < low || *out > high)
        return sg_fail(err, SG_E_CONFIG, "--%s must be a whole number in [%lld, %lld], not '%.40s'", flag,
                       (long long)low, (long long)high, text);
    return SG_OK;
}

sg_status sg_cli_config(const sg_cli *cli, sg_config **out, sg_error *err)
{
    return sg_cli_config_on(cli, sg_cli_value(cli, "config"), NULL, out, err);
}

/* Variables are there for all commands and uses, so those that say nothing to this one are no mistake, unlike its flags. */
sg_status sg_cli_config_on(const sg_cli *cli, const char *file, const char *text, sg_config **out, sg_error *err)
{
    char recipes[PATH_MAX];
    sg_config_request request = {.file = file,
                                 .text = text,
                                 .recipes = sg_cli_recipes(recipes),
                                 .sets = cli->sets,
                                 .n_sets = cli->n_sets,
                                 .flags = cli->flags,
                                 .n_flags = cli->n_flags,
                                 .environment = true,
                                 .reads = reads_key,
                                 .user = cli};
    sg_status status = sg_config_load(out, &request, err);
    bool absent = status == SG_E_IO && !err->file[0] && file && access(file, F_OK) != 0;
    return absent ? sg_cli_recipe_is_absent(file, err) : status;
}

bool sg_cli_names_data(const sg_config *config, bool folder)
{
    static const char *const keys[] = {"data.dir",  "data.files", "data.train",     "data.validation",
                                       "data.test", "data.split", "data.labels_xml"};
    for (size_t i = folder ? 0 : 1; i < sizeof keys / sizeof *keys; i++) {
        const char *origin = sg_config_origin(config, keys[i]);
        if (strncmp(origin, "--", 2) == 0 || strncmp(origin, "SEALGRAPH_", 10) == 0)
            return true;
    }
    return false;
}

sg_status sg_cli_advise(sg_error *err, const char *advice)
{
    const sg_error had = *err;
    if (!had.file[0])
        return sg_fail(err, had.status, "%.200s; %s", had.text, advice);
    return sg_fail_at(err, had.status, had.file, had.line, had.column, "%.200s; %s", had.text, advice);
}

sg_status sg_cli_data_read(const sg_config *config, sg_status status, const char *advice, sg_error *err)
{
    if (status != SG_E_IO || !err->file[0] || sg_cli_names_data(config, true))
        return status;
    if (err->file[0] == '/' && !sg_config_values(config)->data.dir)
        return status;
    return sg_cli_advise(err, advice ? advice
                                     : "give --data-dir (data.dir in the recipe), the folder of the recipe's files");
}
