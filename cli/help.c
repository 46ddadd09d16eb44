/* help.c - help for people and the manual page, both written from the verb table, the common flags and the option table. */
#include "cli/cli.h"

#include <string.h>

/* The commands of one family such as data, or all of them. */
static void list_verbs(const char *family)
{
    size_t length = family ? strlen(family) : 0;
    for (const sg_verb *const *verb = sg_verbs; *verb; verb++)
        if (!family || (strncmp((*verb)->name, family, length) == 0 && (*verb)->name[length] == ' '))
            printf("  %-15s %s\n", (*verb)->name, (*verb)->summary);
}

static void overview(const sg_cli *cli)
{
    const char *bold = sg_paint(cli->color_out, SG_STYLE_BOLD), *reset = sg_paint(cli->color_out, SG_STYLE_RESET);
    printf("sealgraph %s - trains structured prediction with learned losses\n\n", SG_VERSION);
    printf("%susage%s  sealgraph COMMAND [flags] [arguments]\n\n%scommands%s\n", bold, reset, bold, reset);
    list_verbs(NULL);
    printf("\nsealgraph COMMAND --help explains a command; sealgraph help --man writes the manual page.\n");
}

/* "-o, --output PATH" and the explanation, in two columns. */
static void print_flag(char letter, const char *name, const char *meta, const char *help, const char *more)
{
    char left[64];
    snprintf(left, sizeof left, "%c%c%s --%s%s%s", letter ? '-' : ' ', letter ? letter : ' ', letter ? "," : " ", name,
             meta ? " " : "", meta ? meta : "");
    printf("  %-30s%s %s%s%s%s\n", left, strlen(left) > 30 ? "\n                                " : "", help,
           more ? " (" : "", more ? more : "", more ? ")" : "");
}

static const char *option_meta(const sg_option *option)
{
    static const char *const metas[] = {
        [SG_OPTION_BOOL] = NULL,   [SG_OPTION_INT] = "N",      [SG_OPTION_REAL] = "X",    [SG_OPTION_ENUM] = "WORD",
        [SG_OPTION_WORD] = "WORD", [SG_OPTION_TEXT] = "TEXT",  [SG_OPTION_PATH] = "FILE", [SG_OPTION_INTS] = "N,N",
        [SG_OPTION_REALS] = "X,X", [SG_OPTION_PATHS] = "FILE",
    };
    return metas[option->type];
}

/* A long list of words is left to the manual. */
static bool lists_words(const sg_option *option)
{
    enum { SHORT = 40 };
    return option->type == SG_OPTION_ENUM || (option->type == SG_OPTION_WORD && strlen(option->domain) <= SHORT);
}

static void print_own_flags(const sg_verb *verb)
{
    for (const sg_flag *flag = verb->flags; flag && flag->name; flag++)
        print_flag(flag->letter, flag->name, flag->meta, flag->help, flag->words);
    for (const sg_flag *flag = sg_common_flags; flag->name; flag++)
        if (sg_verb_takes(verb, flag))
            print_flag(flag->letter, flag->name, flag->meta, flag->help, flag->words);
}

/* The words that are accepted, and the use of the command that reads it. */
static const char *explain(const sg_verb *verb, const sg_option *option, char *out, size_t size)
{
    const char *words = lists_words(option) ? option->domain : "", *when = sg_verb_reads_only(verb, option);
    snprintf(out, size, "%s%s%s", words, words[0] && when ? "; " : "", when ? when : "");
    return out[0] ? out : NULL;
}

/* Keys without a flag that are read in this use (NULL: in all), by name. */
static void print_keys(const sg_verb *verb, const char *when)
{
    enum { WIDTH = 100 };
    char title[80];
    int column = 0;
    snprintf(title, sizeof title, "  by --set%s%s: ", when ? ", " : "", when ? when : "");
    for (int32_t i = 0; i < sg_option_count(); i++) {
        const sg_option *option = sg_option_at(i);
        if (option->flag[0] || !sg_verb_reads(verb, option) || sg_verb_reads_only(verb, option) != when)
            continue;
        bool fits = column + (int)strlen(option->key) < WIDTH;
        int used = printf("%s%s", column == 0 ? title : fits ? " " : "\n            ", option->key);
        column = fits ? column + used : used - 1;
    }
    fputs(column ? "\n" : "", stdout);
}

/* Those that the command reads. */
static void print_settings(const sg_cli *cli, const sg_verb *verb)
{
    char more[256];
    printf("\n%ssettings%s (by flag, or --set KEY=VALUE; `sealgraph config show` tells the keys of all)\n",
           sg_paint(cli->color_out, SG_STYLE_BOLD), sg_paint(cli->color_out, SG_STYLE_RESET));
    for (int32_t i = 0; i < sg_option_count(); i++) {
        const sg_option *option = sg_option_at(i);
        if (sg_verb_reads(verb, option) && option->flag[0])
            print_flag(0, option->flag, option_meta(option), option->help, explain(verb, option, more, sizeof more));
    }
    print_keys(verb, NULL);
    for (const sg_reads *use = verb->reads_when; use && use->when; use++)
        print_keys(verb, use->when);
}

/* Where a configuration is looked up. */
static void print_recipes(const sg_cli *cli)
{
    char folder[PATH_MAX];
    if (sg_cli_recipes(folder))
        printf("\n%srecipes%s (-c bibtex/cross-entropy.yml, or `extends` in a file of one's own; `sealgraph config "
               "recipes` lists them)\n  %s\n",
               sg_paint(cli->color_out, SG_STYLE_BOLD), sg_paint(cli->color_out, SG_STYLE_RESET), folder);
}

int sg_help_verb(const sg_cli *cli, const sg_verb *verb)
{
    const char *bold = sg_paint(cli->color_out, SG_STYLE_BOLD), *reset = sg_paint(cli->color_out, SG_STYLE_RESET);
    printf("%s\n\n%susage%s  sealgraph %s [flags]%s%s\n\n", verb->summary, bold, reset, verb->name,
           verb->arguments[0] ? " " : "", verb->arguments);
    if (verb->description[0])
        printf("%s\n\n", verb->description);
    printf("%sflags%s\n", bold, reset);
    print_own_flags(verb);
    if (verb->takes & SG_TAKES_FILE)
        print_recipes(cli);
    if (verb->takes & SG_TAKES_SETTINGS)
        print_settings(cli, verb);
    return SG_EXIT_OK;
}

/* ---- the manual page, in mdoc(7) */

/* Text as roff: backslashes doubled, control characters at the start of a line hidden, indented lines kept as they are, a paragraph
 * for an empty line. `stop` ends the last one. */
static void roff_until(const char *text, const char *stop)
{
    bool start = true, literal = false;
    for (; *text; text++) {
        if (start && (*text == ' ') != literal) {
            literal = !literal;
            fputs(literal ? ".Bd -literal\n" : ".Ed\n", stdout);
        }
        if (start && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        if (start && *text == '\n')
            fputs(".Pp\n", stdout);
        else if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            fputc(*text, stdout);
        start = *text == '\n';
    }
    printf("%s%s", stop, literal ? "\n.Ed\n" : "\n");
}

static void roff(const char *text) { roff_until(text, ""); }

/* Words that are accepted; a long list may be broken behind each. */
static void man_domain(const char *domain)
{
    fputs("Accepts\n.Li \"", stdout);
    for (; *domain; domain++)
        printf("%c%s", *domain, *domain == '|' ? "\\:" : "");
    fputs("\" .\n", stdout);
}

static void man_flag(char letter, const char *name, const char *meta, const char *help)
{
    fputs(".It Fl ", stdout);
    if (letter)
        printf("%c , Fl ", letter);
    printf("\\-%s%s%s\n", name, meta ? " Ar " : "", meta ? meta : "");
    roff(help);
}

static void man_verbs(void)
{
    printf(".Sh COMMANDS\n.Bl -tag -width Ds\n");
    for (const sg_verb *const *verb = sg_verbs; *verb; verb++) {
        printf(".It Cm %s%s%s\n", (*verb)->name, (*verb)->arguments[0] ? " Ar " : "", (*verb)->arguments);
        roff((*verb)->summary);
        if ((*verb)->description[0]) {
            printf(".Pp\n");
            roff((*verb)->description);
        }
        if (!(*verb)->flags)
            continue;
        printf(".Bl -tag -width Ds\n");
        for (const sg_flag *flag = (*verb)->flags; flag->name; flag++)
            man_flag(flag->letter, flag->name, flag->meta, flag->help);
        printf(".El\n");
    }
    printf(".El\n");
}

static void man_settings(void)
{
    char name[128];
    printf(".Sh SETTINGS\nKeys of the configuration, with their flag, environment variable and default.\n");
    printf("Later sources win: defaults, the file named by\n.Cm extends ,\nthe file, the environment,\n"
           ".Fl \\-set ,\nnamed flags.\n.Bl -tag -width Ds\n");
    for (int32_t i = 0; i < sg_option_count(); i++) {
        const sg_option *option = sg_option_at(i);
        printf(".It Cm %s\n", option->key);
        roff_until(option->help, "."); /* sentences follow it */
        if (option->domain[0])
            man_domain(option->domain);
        if (option->initial[0])
            printf("Default\n.Li \"%s\" .\n", option->initial);
        if (option->flag[0])
            printf("Flag\n.Fl \\-%s .\n", option->flag);
        printf("Variable\n.Ev %s .\n", sg_option_environment(option, name, sizeof name));
    }
    printf(".El\n");
}

/* Those that are no settings. */
static void man_variables(void)
{
    static const struct {
        const char *names, *help;
    } variables[] = {
        {"SEALGRAPH_LOG", "quiet, verbose or debug."},
        {"SEALGRAPH_MODULE_PATH", "The folder of the GPU module, which otherwise lies beside the program or where it "
                                  "was installed."},
        {"SEALGRAPH_CACHE", "Kernels that were compiled for the GPU are kept in this folder, up to 1024 of them, by "
                            "default $XDG_CACHE_HOME/sealgraph or ~/.cache/sealgraph; off keeps none. The folder may "
                            "be removed at any time."},
        {"SEALGRAPH_ISA",
         "Kernels for a lower instruction set of the processor than its best: x86-64, avx2 or avx512."},
        {"NO_COLOR , CLICOLOR_FORCE", "turn colours off or on."},
    };
    printf(".Sh ENVIRONMENT\n.Bl -tag -width Ds\n");
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        printf(".It Ev %s\n", variables[i].names);
        roff(variables[i].help);
    }
    printf(".El\n");
}

static void man_files(void)
{
    printf(".Sh FILES\n.Bl -tag -width Ds\n.It Pa share/sealgraph/recipes\n");
    roff("Recipes that come with the program, under the prefix it was installed to. They are found by their path from "
         "there on: "
         "-c bibtex/cross-entropy.yml, or extends in a file of one's own; config recipes lists them.");
    printf(".El\n");
}

static void manual(void)
{
    printf(
        ".Dd January 1, 2026\n.Dt SEALGRAPH 1\n.Os\n.Sh NAME\n.Nm sealgraph\n"
        ".Nd train structured prediction with learned losses\n.Sh SYNOPSIS\n.Nm\n.Ar command\n.Op Ar flags\n"
        ".Op Ar arguments\n.Sh DESCRIPTION\n.Nm\ntrains, evaluates and applies task\\-nets whose loss is learned.\n"
        "Results go to standard output, messages and progress to standard error.\n.Sh FLAGS\nTaken by all commands to "
        "which they apply.\n.Bl -tag -width Ds\n");
    for (const sg_flag *flag = sg_common_flags; flag->name; flag++)
        man_flag(flag->letter, flag->name, flag->meta, flag->help);
    printf(".El\n");
    man_verbs();
    man_settings();
    man_variables();
    man_files();
    printf(
        ".Sh EXIT STATUS\n.Bl -tag -width Ds\n.It 0\nsuccess\n.It "
        "1\nfailure at run time, also of reading or writing files\n.It 2\nwrong use or configuration\n.It 3\nbad input "
        "data\n.It 4\ntraining diverged\n.It 5\na condition of\n.Fl \\-require\ndid not hold\n.It 129 , 130 , 143\n"
        "stopped by SIGHUP, SIGINT, SIGTERM\n.El\n");
}

static const sg_verb *find(const sg_cli *cli)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s%s", cli->arguments[0], cli->n_arguments > 1 ? " " : "",
             cli->n_arguments > 1 ? cli->arguments[1] : "");
    for (const sg_verb *const *verb = sg_verbs; *verb; verb++)
        if (strcmp((*verb)->name, name) == 0)
            return *verb;
    return NULL;
}

static int run(sg_cli *cli)
{
    sg_error err;
    if (sg_cli_has(cli, "man")) {
        manual();
        return SG_EXIT_OK;
    }
    if (cli->n_arguments == 0) {
        overview(cli);
        return SG_EXIT_OK;
    }
    const sg_verb *verb = find(cli);
    if (verb)
        return sg_help_verb(cli, verb);
    if (cli->n_arguments == 1 && sg_cli_is_family(cli->arguments[0])) {
        list_verbs(cli->arguments[0]);
        return SG_EXIT_OK;
    }
    sg_cli_unknown_verb(cli->arguments[0], cli->n_arguments > 1 ? cli->arguments[1] : NULL, &err);
    return sg_cli_fail(cli, &err);
}

static const sg_flag flags[] = {
    {"man", 0, NULL, NULL, "write the manual page in mdoc form"},
    {NULL, 0, NULL, NULL, NULL},
};

const sg_verb sg_verb_help = {
    .name = "help",
    .arguments = "[COMMAND]",
    .offer = SG_OFFER_COMMANDS,
    .summary = "list the commands or explain one",
    .description = "",
    .max_arguments = 2,
    .flags = flags,
    .run = run,
};
