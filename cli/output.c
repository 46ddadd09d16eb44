/* output.c - results on standard output, messages on standard error. */
#include "cli/cli.h"

#include "serialize/serialize.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

int sg_exit_code(sg_status status)
{
    switch (status) {
    case SG_OK:
        return SG_EXIT_OK;
    case SG_E_CONFIG:
    case SG_E_ARGUMENT:
        return SG_EXIT_USAGE;
    case SG_E_DATA:
        return SG_EXIT_DATA;
    case SG_E_DIVERGED:
        return SG_EXIT_DIVERGED;
    case SG_E_INTERRUPTED:
        return 128 + (sg_signal_caught() ? sg_signal_caught() : SIGINT);
    default:
        return SG_EXIT_RUNTIME;
    }
}

static json_t *text_or_null(const char *text) { return sg_json_text(text[0] ? text : NULL); }

static json_t *int_or_null(int64_t value) { return value > 0 ? json_integer(value) : json_null(); }

static json_t *error_document(const sg_error *err, int code)
{
    return json_pack("{s:{s:i,s:o,s:o,s:o,s:o}}", "error", "code", code, "message", sg_json_text(err->text), "file",
                     text_or_null(err->file), "line", int_or_null(err->line), "column", int_or_null(err->column));
}

/* An operator's error already names node and shapes; the node's name is added where the text leaves it out. */
void sg_cli_error(const sg_cli *cli, const sg_error *err)
{
    char text[SG_ERROR_TEXT + SG_ERROR_FILE + 64];
    sg_error_format(err, text, sizeof text);
    const char *node = err->node[0] && !strstr(err->text, err->node) ? err->node : "";
    fprintf(stderr, "%ssealgraph:%s %s%s%s%s\n", sg_paint(cli->color_err, SG_STYLE_RED),
            sg_paint(cli->color_err, SG_STYLE_RESET), text, node[0] ? " (node " : "", node, node[0] ? ")" : "");
}

int sg_cli_fail(const sg_cli *cli, const sg_error *err)
{
    int code = sg_exit_code(err->status);
    sg_cli_error(cli, err);
    if (cli->json)
        sg_cli_json(error_document(err, code), code);
    return code;
}

/* Without a verb the first word may still be that of a family. */
int sg_cli_usage_error(const sg_cli *cli, const sg_error *err)
{
    int code = sg_cli_fail(cli, err);
    bool family = !cli->verb && cli->argc > 1 && sg_cli_is_family(cli->argv[1]);
    const char *about = cli->verb ? cli->verb->name : family ? cli->argv[1] : "";
    if (err->status == SG_E_CONFIG)
        fprintf(stderr, "Try 'sealgraph %s%s--help'.\n", about, about[0] ? " " : "");
    return code;
}

static void print_time(void)
{
    char text[16];
    time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    strftime(text, sizeof text, "%H:%M:%S", &local);
    fprintf(stderr, "%s ", text);
}

void sg_cli_log(const sg_cli *cli, const char *topic, const char *fmt, ...)
{
    va_list args;
    if (cli->verbosity < 0)
        return;
    va_start(args, fmt);
    fputs(sg_paint(cli->color_err, SG_STYLE_DIM), stderr);
    print_time();
    fprintf(stderr, "%s%-8s ", sg_paint(cli->color_err, SG_STYLE_RESET), topic);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
}

void sg_cli_warn(const sg_cli *cli, const char *fmt, ...)
{
    va_list args;
    if (cli->verbosity < 0)
        return;
    va_start(args, fmt);
    fputs("sealgraph: warning: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
}

/* ---- files */

sg_status sg_cli_may_write(const sg_cli *cli, const char *path, sg_error *err)
{
    struct stat st; /* pipes and devices are written to, not replaced */
    if (stat(path, &st) != 0)
        return SG_OK;
    if (S_ISDIR(st.st_mode))
        return sg_fail(err, SG_E_CONFIG, "%s is a directory, which no file replaces", path);
    if (sg_cli_has(cli, "force") || !S_ISREG(st.st_mode))
        return SG_OK;
    return sg_fail(err, SG_E_CONFIG, "%s exists; --force replaces it", path);
}

sg_status sg_cli_check_output(const sg_cli *cli, sg_error *err)
{
    const char *path = sg_cli_output(cli);
    SG_TRY(sg_cli_needs(cli, "force", "output", err));
    return path ? sg_cli_may_write(cli, path, err) : SG_OK;
}

sg_status sg_cli_one_result(const sg_cli *cli, sg_error *err)
{
    if (!cli->json || sg_cli_output(cli))
        return SG_OK;
    return sg_fail(err, SG_E_CONFIG, "%s --json needs -o FILE: both results would go to standard output",
                   cli->verb->name);
}

static sg_status print_to_stdout(sg_print_fn *print, void *user, sg_error *err)
{
    SG_TRY(print(user, stdout, err));
    return fflush(stdout) == 0 && !ferror(stdout)
               ? SG_OK
               : sg_fail(err, SG_E_IO, "cannot write to standard output: %s", strerror(errno));
}

sg_status sg_cli_replace(const char *path, sg_print_fn *print, void *user, sg_error *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_status status = print(user, stream, err);
    bool whole = !ferror(stream);
    if ((fclose(stream) != 0 || !whole) && status == SG_OK)
        status = sg_fail(err, SG_E_MEMORY, "out of memory for %s", path);
    if (status == SG_OK)
        status = sg_file_write(path, text, size, err);
    free(text);
    return status;
}

sg_status sg_cli_write(const sg_cli *cli, const char *path, sg_print_fn *print, void *user, sg_error *err)
{
    if (!path)
        return print_to_stdout(print, user, err);
    SG_TRY(sg_cli_may_write(cli, path, err));
    return sg_cli_replace(path, print, user, err);
}

/* Warnings always, notices with -v. A file with thousands of oddities must not bury the rest. */
void sg_cli_notes(const sg_cli *cli, const sg_dataset *data)
{
    enum { MOST = 10 };
    int shown = 0;
    for (int32_t i = 0; i < data->n_notes; i++) {
        const sg_note *note = &data->notes[i];
        if (!note->warning && cli->verbosity < 1)
            continue;
        if (shown++ == MOST && cli->verbosity < 2) {
            sg_cli_warn(cli, "more %swarnings left out; `sealgraph data check` prints all",
                        cli->verbosity < 1 ? "" : "notes and ");
            return;
        }
        if (note->warning)
            sg_cli_warn(cli, "%s", note->text);
        else
            sg_cli_log(cli, "note", "%s", note->text);
    }
}

int sg_cli_json(json_t *document, int code)
{
    bool good = sg_json_write(document, true, stdout);
    json_decref(document);
    if (good)
        fputc('\n', stdout);
    if (good && fflush(stdout) == 0)
        return code;
    fprintf(stderr, "sealgraph: cannot write to standard output: %s\n", strerror(errno));
    return code ? code : SG_EXIT_RUNTIME;
}

json_t *sg_metrics_document(const sg_metrics *metrics)
{
    json_t *document = json_object();
    for (int32_t i = 0; i < metrics->count; i++)
        json_object_set_new(document, metrics->metric[i].name,
                            metrics->metric[i].defined ? sg_json_number(metrics->metric[i].value) : json_null());
    return document;
}

void sg_metrics_print(const sg_metrics *metrics, const char *prefix)
{
    for (int32_t i = 0; i < metrics->count; i++)
        if (metrics->metric[i].defined)
            printf("%s%-22s %.6g\n", prefix, metrics->metric[i].name, metrics->metric[i].value);
        else
            printf("%s%-22s undefined\n", prefix, metrics->metric[i].name);
}

const char *sg_paint(bool color, sg_style style)
{
    static const char *const codes[] = {"\033[1m", "\033[2m", "\033[32m", "\033[31m", "\033[0m"};
    return color ? codes[style] : "";
}
