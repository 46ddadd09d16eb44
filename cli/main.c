/* main.c - the program: finds the verb, prepares output and signals, runs it. */
#include "cli/cli.h"
#include "runtime/runtime.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One file a verb. A verb is listed here when it works. */
#define VERBS(X)                                                                                                       \
    X(demo)                                                                                                            \
    X(init)                                                                                                            \
    X(data_info)                                                                                                       \
    X(data_check)                                                                                                      \
    X(data_convert)                                                                                                    \
    X(data_split)                                                                                                      \
    X(train)                                                                                                           \
    X(eval)                                                                                                            \
    X(predict)                                                                                                         \
    X(score)                                                                                                           \
    X(model_info)                                                                                                      \
    X(graph)                                                                                                           \
    X(gradcheck)                                                                                                       \
    X(ops)                                                                                                             \
    X(bench)                                                                                                           \
    X(config_show)                                                                                                     \
    X(config_schema)                                                                                                   \
    X(config_recipes)                                                                                                  \
    X(completion)                                                                                                      \
    X(version)                                                                                                         \
    X(help)

#define X(name) extern const sg_verb sg_verb_##name;
VERBS(X)
#undef X

const sg_verb *const sg_verbs[] = {
#define X(name) &sg_verb_##name,
    VERBS(X)
#undef X
        NULL};

/* NO_COLOR and CLICOLOR_FORCE as their pages say: set and not empty. */
static bool wants_color(const sg_cli *cli, int stream)
{
    const char *when = sg_cli_value(cli, "color"), *term = getenv("TERM");
    const char *off = getenv("NO_COLOR"), *force = getenv("CLICOLOR_FORCE");
    if (when && strcmp(when, "auto") != 0)
        return strcmp(when, "always") == 0;
    if (off && off[0])
        return false;
    if (force && force[0] && strcmp(force, "0") != 0)
        return true;
    return isatty(stream) && term && strcmp(term, "dumb") != 0;
}

/* SEALGRAPH_LOG sets the level that -q and -v change. */
static sg_status default_verbosity(int *out, sg_error *err)
{
    static const char *const levels[] = {"quiet", "", "verbose", "debug"};
    const char *level = getenv("SEALGRAPH_LOG");
    *out = 0;
    for (int i = 0; level && i < 4; i++)
        if (strcmp(level, levels[i]) == 0) {
            *out = i - 1;
            return SG_OK;
        }
    return level ? sg_fail(err, SG_E_CONFIG, "SEALGRAPH_LOG must be one of quiet|verbose|debug, not '%.40s'", level)
                 : SG_OK;
}

/* Where a standard stream is closed, the next file opened would take its number, and messages would be written into it. What is there
 * instead can be neither read nor written as the stream would be. */
static void keep_stream_numbers(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            _exit(SG_EXIT_RUNTIME);
}

/* --json must hold for errors of parsing itself. */
static bool asks_for_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0)
            return true;
    return false;
}

static int run(sg_cli *cli, int argc, char **argv)
{
    sg_error err;
    cli->json = asks_for_json(argc, argv);
    cli->color_err = wants_color(cli, STDERR_FILENO);
    if (default_verbosity(&cli->verbosity, &err) != SG_OK || sg_cpu_isa_check(&err) != SG_OK ||
        sg_cli_parse(cli, argc, argv, &err) != SG_OK)
        return sg_cli_usage_error(cli, &err);
    cli->color_out = wants_color(cli, STDOUT_FILENO);
    cli->color_err = wants_color(cli, STDERR_FILENO);
    if (sg_cli_not_with(cli, "json", "help", &err) != SG_OK)
        return sg_cli_usage_error(cli, &err);
    sg_signals_install(cli->verb);
    int code = sg_cli_has(cli, "help") ? sg_help_verb(cli, cli->verb) : cli->verb->run(cli);
    bool failed = ferror(stdout) != 0; /* a flush that has nothing left to write does not tell of those before */
    if ((fflush(stdout) != 0 || failed) && code == SG_EXIT_OK) {
        sg_fail(&err, SG_E_IO, "cannot write to standard output");
        code = sg_cli_fail(cli, &err);
    }
    return code;
}

int main(int argc, char **argv)
{
    sg_cli cli = {0};
    keep_stream_numbers();
    if (argc < 2) {
        fputs("sealgraph: no command given\nTry 'sealgraph help'.\n", stderr);
        return SG_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        argv[1] = "help";
    if (strcmp(argv[1], "--version") == 0)
        argv[1] = "version";
    /* "data --help" asks about a family of commands. */
    if (argc == 3 && sg_cli_is_family(argv[1]) && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0)) {
        argv[2] = argv[1];
        argv[1] = "help";
    }
    int code = run(&cli, argc, argv);
    sg_cli_free(&cli);
    return code;
}
