/* verb_completion.c - completion for bash, zsh and fish, written from the same tables as everything else. */
#include "cli/cli.h"

#include "ops/ops.h"

#include <string.h>

typedef void flag_fn(const char *name, char letter, const char *meta, const char *words, const char *help);

static void each_flag(const sg_verb *verb, flag_fn *visit)
{
    for (const sg_flag *flag = verb->flags; flag && flag->name; flag++)
        visit(flag->name, flag->letter, flag->meta, flag->words, flag->help);
    for (const sg_flag *flag = sg_common_flags; flag->name; flag++)
        if (sg_verb_takes(verb, flag))
            visit(flag->name, flag->letter, flag->meta, flag->words, flag->help);
    for (int32_t i = 0; i < sg_option_count(); i++) {
        const sg_option *option = sg_option_at(i);
        bool words = option->type == SG_OPTION_ENUM || option->type == SG_OPTION_WORD;
        bool file = option->type == SG_OPTION_PATH || option->type == SG_OPTION_PATHS;
        const char *meta = option->type == SG_OPTION_BOOL ? NULL : file ? "FILE" : "VALUE";
        if (option->flag[0] && sg_verb_reads(verb, option))
            visit(option->flag, 0, meta, words ? option->domain : NULL, option->help);
    }
}

/* A word with a number in it ("cuda:N") is nothing to complete to. */
static void print_words(const char *words)
{
    for (size_t n; *words; words += n + (words[n] == '|')) {
        n = strcspn(words, "|");
        if (n < 2 || strncmp(words + n - 2, ":N", 2) != 0)
            printf("%.*s ", (int)n, words);
    }
}

/* The first words of the verbs, each once, or the second words of a family. */
static void print_verbs(const char *family)
{
    char last[64] = "";
    size_t length = family ? strlen(family) : 0;
    for (const sg_verb *const *verb = sg_verbs; *verb; verb++) {
        const char *name = (*verb)->name;
        if (family && (strncmp(name, family, length) != 0 || name[length] != ' '))
            continue;
        if (family)
            name += length + 1;
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(name, " "), name);
        if (strcmp(word, last) != 0)
            printf("%s ", word);
        snprintf(last, sizeof last, "%s", word);
    }
}

/* Visit each family ("data", "config") once. */
static void each_family(void (*visit)(const char *family))
{
    char last[64] = "";
    for (const sg_verb *const *verb = sg_verbs; *verb; verb++) {
        char word[64];
        size_t length = strcspn((*verb)->name, " ");
        snprintf(word, sizeof word, "%.*s", (int)length, (*verb)->name);
        if ((*verb)->name[length] && strcmp(word, last) != 0)
            visit(word);
        snprintf(last, sizeof last, "%s", word);
    }
}

static void print_ops(void)
{
    for (int32_t i = 0; i < sg_op_count(); i++)
        printf("%s ", sg_op_at(i)->name);
}

static void print_family(const char *family) { print_verbs(family); }

static bool takes_files(const sg_verb *verb)
{
    return verb->offer == SG_OFFER_FILES && verb->arguments[0] && !strchr(verb->arguments, '|');
}

/* The words that the arguments of a verb may be. */
static void print_arguments(const sg_verb *verb)
{
    if (verb->offer == SG_OFFER_OPS)
        print_ops();
    else if (verb->offer == SG_OFFER_FILES)
        print_words(verb->arguments);
    else {
        print_verbs(NULL);
        each_family(print_family);
    }
}

static void print_recipe(void *unused, const char *name, const char *summary)
{
    (void)unused, (void)summary;
    printf("%s ", name);
}

/* A program that has none beside it completes without them. */
static void print_recipes(void) { sg_cli_each_recipe(print_recipe, NULL, NULL); }

/* The flag whose value may be a recipe, too. */
static bool is_recipe(const char *name) { return strcmp(name, "config") == 0; }

/* Is the value of a flag the name of a file? */
static bool is_path(const char *meta)
{
    return strcmp(meta, "FILE") == 0 || strcmp(meta, "PATH") == 0 || strcmp(meta, "DIR") == 0;
}

/* ---- bash */

static void bash_name(const char *name, char letter, const char *meta, const char *words, const char *help)
{
    (void)letter, (void)meta, (void)words, (void)help;
    printf("--%s ", name);
}

/* The value of a flag: words, a file or a recipe, or nothing to complete. */
static void bash_value(const char *name, char letter, const char *meta, const char *words, const char *help)
{
    (void)help;
    if (!meta)
        return;
    printf("            --%s", name);
    if (letter)
        printf("|-%c", letter);
    printf(") ");
    if (words) {
        printf("COMPREPLY=($(compgen -W \"");
        print_words(words);
        printf("\" -- \"$word\")); ");
    } else if (is_path(meta)) {
        printf("_sealgraph_files; ");
    }
    if (is_recipe(name)) {
        printf("COMPREPLY+=($(compgen -W \"");
        print_recipes();
        printf("\" -- \"$word\")); ");
    }
    printf("return ;;\n");
}

static void bash_family(const char *family)
{
    printf("        %s) if [ \"$COMP_CWORD\" -eq 2 ]; then COMPREPLY=($(compgen -W \"", family);
    print_verbs(family);
    printf("\" -- \"$word\")); return; fi; verb=\"$verb ${COMP_WORDS[2]}\" ;;\n");
}

static void bash_explained(const char *family)
{
    printf("%s) COMPREPLY=($(compgen -W \"", family);
    print_verbs(family);
    printf("\" -- \"$word\")) ;; ");
}

/* A command to explain has one word or two. */
static void bash_commands(void)
{
    printf("            if [ \"$COMP_CWORD\" -eq 2 ]; then COMPREPLY=($(compgen -W \"");
    print_verbs(NULL);
    printf("\" -- \"$word\")); else case \"$before\" in ");
    each_family(bash_explained);
    printf("esac; fi ;;\n");
}

static void bash_verb(const sg_verb *verb)
{
    printf("        \"%s\")\n            case \"$before\" in\n", verb->name);
    each_flag(verb, bash_value);
    printf("            esac\n            if [[ $word == -* ]]; then COMPREPLY=($(compgen -W \"");
    each_flag(verb, bash_name);
    printf("\" -- \"$word\")); return; fi\n");
    if (takes_files(verb)) {
        printf("            _sealgraph_files ;;\n");
    } else if (verb->offer == SG_OFFER_COMMANDS) {
        bash_commands();
    } else {
        printf("            COMPREPLY=($(compgen -W \"");
        print_arguments(verb);
        printf("\" -- \"$word\")) ;;\n");
    }
}

/* Names of folders end in a slash, which words of the same name must not. For bash the = of --flag=value is a word. */
static void bash(void)
{
    printf("# bash completion of sealgraph: source this file or put it under bash-completion/completions.\n"
           "_sealgraph_files() {\n    compopt -o filenames 2>/dev/null\n"
           "    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n}\n"
           "_sealgraph() {\n    local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\" "
           "verb=\"${COMP_WORDS[1]}\"\n    COMPREPLY=()\n"
           "    if [ \"$word\" = = ]; then word=; elif [ \"$before\" = = ]; then "
           "before=\"${COMP_WORDS[COMP_CWORD-2]}\"; fi\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then COMPREPLY=($(compgen -W \"");
    print_verbs(NULL);
    printf("\" -- \"$word\")); return; fi\n    case \"$verb\" in\n");
    each_family(bash_family);
    printf("    esac\n    case \"$verb\" in\n");
    for (const sg_verb *const *verb = sg_verbs; *verb; verb++)
        bash_verb(*verb);
    printf("    esac\n}\ncomplete -F _sealgraph sealgraph\n");
}

/* ---- zsh */

/* Text inside '...[...]' of _arguments: quotes and brackets would end it. */
static void zsh_text(const char *text)
{
    for (; *text; text++) {
        if (*text == '[' || *text == ']' || *text == ':' || *text == '\\')
            fputc('\\', stdout);
        fputs(*text == '\'' ? "'\\''" : (char[]){*text, 0}, stdout);
    }
}

static void zsh_flag(const char *name, char letter, const char *meta, const char *words, const char *help)
{
    (void)letter;
    printf("            '*--%s%s[", name, meta ? "=" : "");
    zsh_text(help);
    printf("]");
    if (words) {
        printf(":value:(");
        print_words(words);
        printf(")");
    } else if (is_recipe(name)) {
        printf(":%s:{_files; compadd -- ", meta);
        print_recipes();
        printf("}");
    } else if (meta) {
        printf(":%s:%s", meta, is_path(meta) ? "_files" : " ");
    }
    printf("' \\\n");
}

static void zsh_family(const char *family)
{
    printf("        %s) if (( CURRENT == 3 )); then compadd -- ", family);
    print_verbs(family);
    printf("; return; fi; verb=\"$verb $words[3]\" ;;\n");
}

static void zsh(void)
{
    printf("#compdef sealgraph\n# zsh completion of sealgraph: put this file as _sealgraph in a folder of $fpath.\n"
           "_sealgraph() {\n    local verb=\"$words[2]\"\n    if (( CURRENT == 2 )); then compadd -- ");
    print_verbs(NULL);
    printf("; return; fi\n    case \"$verb\" in\n");
    each_family(zsh_family);
    printf("    esac\n    case \"$verb\" in\n");
    for (const sg_verb *const *verb = sg_verbs; *verb; verb++) {
        printf("        '%s') _arguments -S \\\n", (*verb)->name);
        each_flag(*verb, zsh_flag);
        printf("            '*:");
        if (takes_files(*verb)) {
            printf("file:_files");
        } else if (!(*verb)->arguments[0]) {
            printf(" : ");
        } else {
            printf("word:(");
            print_arguments(*verb);
            printf(")");
        }
        printf("' ;;\n");
    }
    printf("    esac\n}\n_sealgraph \"$@\"\n");
}

/* ---- fish */

static const char *fish_verb;

static void fish_text(const char *text)
{
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            fputc('\\', stdout);
        fputc(*text, stdout);
    }
}

static void fish_flag(const char *name, char letter, const char *meta, const char *words, const char *help)
{
    printf("complete -c sealgraph -n '__sealgraph_verb \"%s\"' -l %s", fish_verb, name);
    if (letter)
        printf(" -s %c", letter);
    if (meta)
        printf(is_path(meta) ? " -r -F" : " -x");
    if (words || is_recipe(name)) {
        printf(" -a '");
        if (words)
            print_words(words);
        else
            print_recipes();
        printf("'");
    }
    printf(" -d '");
    fish_text(help);
    printf("'\n");
}

static void fish_family(const char *family)
{
    printf("complete -c sealgraph -f -n '__sealgraph_verb \"%s\"' -a '", family);
    print_verbs(family);
    printf("'\n");
}

static void fish(void)
{
    printf("# fish completion of sealgraph: put this file as sealgraph.fish in ~/.config/fish/completions.\n"
           "function __sealgraph_verb\n    set -l words (commandline -opc)\n    set -e words[1]\n"
           "    set -l count (count (string split ' ' -- $argv[1]))\n    if test (count $words) -lt $count\n"
           "        return 1\n    end\n    test \"$words[1..$count]\" = \"$argv[1]\"\nend\n"
           "complete -c sealgraph -f -n 'test (count (commandline -opc)) -eq 1' -a '");
    print_verbs(NULL);
    printf("'\n");
    each_family(fish_family);
    for (const sg_verb *const *verb = sg_verbs; *verb; verb++) {
        fish_verb = (*verb)->name;
        each_flag(*verb, fish_flag);
        if (takes_files(*verb))
            continue;
        printf("complete -c sealgraph -f -n '__sealgraph_verb \"%s\"' -a '", fish_verb);
        print_arguments(*verb);
        printf("'\n");
    }
}

static int run(sg_cli *cli)
{
    static const struct {
        const char *name;
        void (*write)(void);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    sg_error err;
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++)
        if (strcmp(cli->arguments[0], shells[i].name) == 0) {
            shells[i].write();
            return SG_EXIT_OK;
        }
    sg_fail(&err, SG_E_CONFIG, "completion is written for bash, zsh and fish, not '%.40s'", cli->arguments[0]);
    return sg_cli_usage_error(cli, &err);
}

const sg_verb sg_verb_completion = {
    .name = "completion",
    .arguments = "bash|zsh|fish",
    .summary = "write a completion script for a shell",
    .description = "For bash: source <(sealgraph completion bash)",
    .min_arguments = 1,
    .max_arguments = 1,
    .run = run,
};
