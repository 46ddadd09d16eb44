/* verb_bench.c - times of the training step, of prediction, of single operators, of Hessian products and of BERT. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/bench_internal.h"

static const char *const kinds[] = {"step", "predict", "hvp", "ops", "bert"};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* A picture that cannot be made is told before minutes of measuring. */
static sg_status check_plot(const char *plot, sg_error *err)
{
    bool png = sgi_bench_plot_ends_in(plot, ".png");
    const char *slash = strrchr(plot, '/');
    char folder[4096];
    struct stat st; /* a plain file is replaced, which its folder must allow; anything else is written to */
    bool written_to = lstat(plot, &st) == 0 && !S_ISREG(st.st_mode) && access(plot, F_OK) == 0;
    if (!png && !sgi_bench_plot_ends_in(plot, ".svg"))
        return sg_fail(err, SG_E_CONFIG, "--plot %s: give a name that ends in .svg or .png", plot);
    if (png)
        SG_TRY(sgi_bench_png_ready(err));
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - plot) + 1 : 1, slash ? plot : ".");
    if (written_to && S_ISDIR(st.st_mode))
        return sg_fail(err, SG_E_CONFIG, "%s is a directory, which no file replaces", plot);
    if (access(written_to ? plot : folder, W_OK) != 0)
        return sg_fail(err, SG_E_IO, "cannot write %s: %s", plot, strerror(errno));
    return SG_OK;
}

/* A flag without an effect would be taken for one that had it. */
static sg_status check_flags(const sg_cli *cli, sg_error *err)
{
    static const struct {
        const char *flag, *kinds;
    } table[] = {{"shape", "step, predict, ops"},
                 {"preset", "ops"},
                 {"order", "ops"},
                 {"only", "ops, hvp, bert"},
                 {"layers", "bert"},
                 {"hidden", "bert"},
                 {"heads", "bert"},
                 {"vocab", "bert"},
                 {"batch", "bert"},
                 {"seq", "bert"},
                 {"check", "bert"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (sg_cli_has(cli, table[i].flag) && !strstr(table[i].kinds, cli->arguments[0]))
            return sg_fail(err, SG_E_CONFIG, "bench %s takes no --%s (it is for %s)", cli->arguments[0], table[i].flag,
                           table[i].kinds);
    SG_TRY(sg_cli_not_with(cli, "csv", "json", err));
    SG_TRY(sg_cli_not_with(cli, "markdown", "json", err));
    return sg_cli_not_with(cli, "markdown", "csv", err);
}

/* What is asked for is checked before any device is measured. */
static sg_status check(const sg_cli *cli, sg_error *err)
{
    static const char *const shapes[] = {"bibtex", "delicious", "eurlexev"};
    const char *what = cli->arguments[0], *shape = sg_cli_value(cli, "shape");
    int32_t k = 0;
    while (k < KINDS && strcmp(what, kinds[k]) != 0)
        k++;
    if (k == KINDS)
        return sg_fail(err, SG_E_CONFIG, "bench what? step, predict, ops, hvp or bert, not '%s'", what);
    SG_TRY(check_flags(cli, err));
    const char *plot = sg_cli_value(cli, "plot");
    if (plot)
        SG_TRY(check_plot(plot, err));
    if (!shape || k > 1)
        return SG_OK;
    for (int i = 0; i < 3; i++)
        if (strcmp(shape, shapes[i]) == 0)
            return SG_OK;
    return sg_fail(err, SG_E_CONFIG, "--shape accepts bibtex|delicious|eurlexev, not '%s'", shape);
}

typedef struct request {
    sg_bench_ops_options ops;
    sg_bench_bert_options bert;
} request;

/* Measuring the devices takes seconds, after which nobody wants to hear that there is no such row. */
static sg_status check_rows(const sg_cli *cli, request *r, sg_error *err)
{
    const char *what = cli->arguments[0], *only = sg_cli_value(cli, "only");
    r->ops = (sg_bench_ops_options){only, sg_cli_value(cli, "preset"), sg_cli_value(cli, "shape"),
                                    sg_cli_value(cli, "order")};
    if (strcmp(what, "ops") == 0)
        return sg_bench_ops_check(&r->ops, err);
    if (strcmp(what, "hvp") == 0)
        return sg_bench_hvp_check(only, err);
    return strcmp(what, "bert") == 0 ? sgi_bench_bert_options(cli, &r->bert, err) : SG_OK;
}

static sg_status measure(const sg_cli *cli, sg_bench *b, sg_error *err)
{
    const char *what = cli->arguments[0], *shape = sg_cli_value(cli, "shape");
    const char *devices = sg_cli_value(cli, "device"), *dtypes = sg_cli_value(cli, "dtype");
    request r;
    SG_TRY(check(cli, err));
    SG_TRY(check_rows(cli, &r, err));
    sg_signals_at_steps();
    SG_TRY(sg_bench_begin(b, devices ? devices : "cpu", dtypes ? dtypes : "f32", err));
    if (strcmp(what, "step") == 0)
        return sg_bench_step(b, shape, err);
    if (strcmp(what, "predict") == 0)
        return sg_bench_predict(b, shape, err);
    if (strcmp(what, "hvp") == 0)
        return sg_bench_hvp(b, r.ops.only, err);
    if (strcmp(what, "bert") == 0)
        return sg_bench_bert(b, &r.bert, err);
    return sg_bench_ops(b, &r.ops, err);
}

static int show(const sg_cli *cli, const sg_bench *b)
{
    const char *what = cli->arguments[0];
    bool markdown = sg_cli_has(cli, "markdown");
    int code = sgi_bench_bert_holds(cli, b) ? SG_EXIT_OK : SG_EXIT_RUNTIME;
    if (cli->json)
        return sgi_bench_print_json(b, code);
    if (sg_cli_has(cli, "csv")) {
        sgi_bench_print_csv(b);
        sgi_bench_missing_print(b, stderr, "");
    } else if (strcmp(what, "bert") == 0) {
        sgi_bench_bert_print(cli, b, markdown);
    } else {
        sgi_bench_print_tables(cli, b, strcmp(what, "ops") == 0, markdown);
    }
    return code;
}

/* What was measured is shown even if the picture of it then fails, which the exit code tells. */
static int report(const sg_cli *cli, const sg_bench *b)
{
    sg_error err;
    const char *plot = sg_cli_value(cli, "plot");
    int code = show(cli, b);
    if (!plot || sgi_bench_plot(b, plot, &err) == SG_OK)
        return code;
    sg_cli_error(cli, &err);
    return SG_EXIT_RUNTIME;
}

static int run(sg_cli *cli)
{
    sg_error err;
    int64_t milliseconds, threads;
    if (sg_cli_int(cli, "time", 1, 600000, 500, &milliseconds, &err) != SG_OK ||
        sg_cli_int(cli, "threads", 0, 1024, 0, &threads, &err) != SG_OK)
        return sg_cli_usage_error(cli, &err);
    sg_bench b = {.threads = threads ? (int32_t)threads : sg_machine_threads(),
                  .seconds = (double)milliseconds / 1000,
                  .stop = sg_stop_requested,
                  .profile = sg_cli_has(cli, "profile") ? stderr : NULL};
    int code = measure(cli, &b, &err) == SG_OK ? report(cli, &b) : sg_cli_fail(cli, &err);
    sg_bench_end(&b);
    return code;
}

static const sg_flag flags[] = {
    {"device", 0, "LIST", NULL, "devices, each a row: cpu,cuda,cuda:1 (cpu)"},
    {"dtype", 0, "LIST", NULL, "arithmetics, each a row: f32,tf32,bf16 (f32)"},
    {"shape", 0, "SHAPE", NULL,
     "step, predict: bibtex, delicious or eurlexev; ops: 4096x768x3072, for all that take so many numbers"},
    {"preset", 0, "NAME", "bert|fcn|mlc", "ops: operators and shapes of these nets"},
    {"order", 0, "LIST", NULL, "ops: value,gradient,hvp"},
    {"only", 0, "TEXT", NULL, "rows whose name holds this text (ops, hvp, bert)"},
    {"layers", 0, "N", NULL, "layers of the encoder (bert; 12)"},
    {"hidden", 0, "N", NULL, "its width, with four times as much within a layer (bert; 768)"},
    {"heads", 0, "N", NULL, "heads of its attention (bert; 12)"},
    {"vocab", 0, "N", NULL, "word pieces (bert; 30522)"},
    {"batch", 0, "N", NULL, "rows at once (bert; 32, gradients 16)"},
    {"seq", 0, "N", NULL, "word pieces a row (bert; 128, 256 and 512, gradients 256)"},
    {"check", 0, NULL, NULL, "compare gradients and products with the decomposed graph; exit 1 if they differ (bert)"},
    {"csv", 0, NULL, NULL, "one line a row and target, every field"},
    {"markdown", 0, NULL, NULL, "the tables as Markdown"},
    {"plot", 0, "FILE", NULL, "also draw a roofline plot: FILE.svg, or FILE.png by rsvg-convert"},
    {"profile", 0, NULL, NULL, "where the time of each row goes, by kernel, on standard error"},
    {"time", 0, "MS", NULL, "milliseconds for each row (500)"},
    {"threads", 0, "N", NULL, "threads on the cpu; 0 takes every core the process may use, at most 16 (0)"},
    {0}};

const sg_verb sg_verb_bench = {
    .name = "bench",
    .arguments = "step|predict|ops|hvp|bert",
    .summary = "time training steps, prediction, operators and Hessian products on each device",
    .description =
        "step: one SEAL-NCE training step (32 rows, 20 candidates, two layers of 400, Adam) on synthetic rows of the "
        "shapes\n"
        "of three data sets, with sparse and with dense input. predict: 4096 rows at once. ops: single operators, the\n"
        "devices side by side. hvp: gradient and exact Hessian product of a transformer encoder and of a task loss.\n"
        "bert: training step, gradient and Hessian product of a BERT classifier; `of stated` is the fraction of the\n"
        "rate of products on the maker's data sheet, for cards that are known.\n"
        "Each row tells time (median, least, most; the tables of ops have the median alone, those of bert no most,\n"
        "--csv and --json all), work, and the fraction of the device's measured peak it reaches. On a GPU the run is\n"
        "recorded and repeated without waiting between runs; transfers are timed apart. A device that is not there\n"
        "has no rows, with ops an empty column, and a line says why; it is an error if none is left. No files are\n"
        "needed.",
    .takes = SG_TAKES_JSON,
    .min_arguments = 1,
    .max_arguments = 1,
    .flags = flags,
    .in_steps = true,
    .run = run,
};
