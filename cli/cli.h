/* cli.h - what the verbs of the program share: the parsed command line, output, progress, tables and signals.
 *
 * A verb is a function in a file of its own. Standard output carries results only; messages and progress go to standard
 * error. With --json standard output is exactly one document, for errors too. */
#ifndef SG_CLI_H
#define SG_CLI_H

#include "models/config_internal.h"
#include "models/json_internal.h"
#include "models/models.h"

#include <jansson.h>
#include <limits.h>
#include <signal.h>

/* Exit codes, part of the interface. A signal adds 128 + its number. */
enum {
    SG_EXIT_OK = 0,
    SG_EXIT_RUNTIME = 1,
    SG_EXIT_USAGE = 2,
    SG_EXIT_DATA = 3,
    SG_EXIT_DIVERGED = 4,
    SG_EXIT_REQUIRE = 5
};

typedef struct sg_cli sg_cli;

/* A flag that is not an option of the configuration. `meta` NULL: it takes no value. */
typedef struct sg_flag {
    const char *name;  /* "output" */
    char letter;       /* 'o', or 0 */
    const char *meta;  /* "DIR" */
    const char *words; /* accepted values, "auto|bar", or NULL */
    const char *help;
} sg_flag;

/* Groups of common flags that a verb takes. -q, --color and --help are taken by all. */
enum {
    SG_TAKES_SETTINGS = 1 << 0, /* --set and the flags of the options that `reads` names */
    SG_TAKES_FILE = 1 << 1,     /* -c */
    SG_TAKES_CONFIG = SG_TAKES_SETTINGS | SG_TAKES_FILE,
    SG_TAKES_OUTPUT = 1 << 2,  /* -o, --force */
    SG_TAKES_RUN = 1 << 3,     /* --resume, --progress, --dry-run */
    SG_TAKES_REQUIRE = 1 << 4, /* --require */
    SG_TAKES_JSON = 1 << 5,    /* --json: its result is one document then */
    SG_TAKES_VERBOSE = 1 << 6  /* -v: it has more to tell */
};

/* Keys that commands read, for `reads`: how files are read, which ones, how rows are divided, where to compute. */
#define SG_READS_FORM                                                                                                  \
    "|data.dir|data.format|data.labels_xml|data.labels|data.positive|data.arff_index_base|data.index_base|"            \
    "data.label_base|data.features_count|data.labels_count|data.keep_blank|data.close_hierarchy|data.nominal|"         \
    "data.layout|"
#define SG_READS_FILES "|data.files|data.train|data.validation|data.test|"
#define SG_READS_PARTS "|data.split|data.split_seed|data.fractions|data.dev_fraction|"
#define SG_READS_DEVICE "|threads|device|precision|"

/* Keys that a command reads in some of its uses only: "|data.fractions|" "without FILEs". */
typedef struct sg_reads {
    const char *when;
    bool (*holds)(const sg_cli *cli);
    const char *keys;
} sg_reads;
bool sg_cli_has_files(const sg_cli *cli); /* the command line has arguments */
bool sg_cli_has_none(const sg_cli *cli);

/* What the arguments of a verb are, for completion. */
typedef enum sg_offer { SG_OFFER_FILES, SG_OFFER_COMMANDS, SG_OFFER_OPS } sg_offer;

typedef struct sg_verb {
    const char *name;        /* "train", "data info" */
    const char *arguments;   /* "[FILE...]", "", or all words that it may be, "bash|zsh|fish" */
    sg_offer offer;          /* unless `arguments` says it */
    const char *summary;     /* one line */
    const char *description; /* paragraphs for --help and the manual */
    unsigned takes;
    /* Keys of the configuration, "|seed|model.*|", and those read in some uses only, ended by a NULL `when` (NULL for none). Others
     * are not listed, and refused; variables of others are left alone. `reads` NULL: all are read. */
    const char *reads;
    const sg_reads *reads_when;
    struct {
        const char *key, *advice;
    } elsewhere; /* a key that is not read, though one would look for it here, and what to do; or NULL */
    int min_arguments, max_arguments; /* max -1: any number */
    const sg_flag *flags;             /* own flags, ended by a NULL name; NULL for none */
    bool in_steps;                    /* calls sg_signals_at_steps */
    int (*run)(sg_cli *cli);          /* returns the exit code */
} sg_verb;

extern const sg_verb *const sg_verbs[]; /* ended by NULL */

struct sg_cli {
    int argc;
    char **argv;
    const sg_verb *verb;
    int n_arguments;
    const char **arguments;
    int n_values;
    struct sg_flag_value {
        const char *name, *value;
    } * values;
    int n_sets, n_flags;
    sg_setting *sets, *flags; /* values of the first n_owned flags are owned */
    bool json;
    int verbosity; /* -1 quiet, 0, 1, 2 */
    bool color_out, color_err;
    char **owned; /* strings made while parsing */
    int n_owned;
};

/* ---- command line (args.c) */
extern const sg_flag sg_common_flags[];
unsigned sg_common_flag_group(const sg_flag *flag); /* 0: taken by all verbs */
bool sg_cli_is_family(const char *name);            /* the first word of verbs of two, like data */
/* Fail: no verb has this name, of one word or two (`second` may be NULL); the error tells which are near. */
sg_status sg_cli_unknown_verb(const char *first, const char *second, sg_error *err);
bool sg_verb_takes(const sg_verb *verb, const sg_flag *common);
bool sg_verb_reads(const sg_verb *verb, const sg_option *option); /* in any of its uses */
/* The one use in which it does, "without FILEs"; NULL: in all. */
const char *sg_verb_reads_only(const sg_verb *verb, const sg_option *option);
sg_status sg_cli_parse(sg_cli *cli, int argc, char **argv, sg_error *err);
void sg_cli_free(sg_cli *cli);
bool sg_cli_has(const sg_cli *cli, const char *flag);
const char *sg_cli_value(const sg_cli *cli, const char *flag); /* the last one given; NULL if none */
const char *sg_cli_output(const sg_cli *cli); /* -o; NULL if it is not given, or "-", standard output */
/* A whole number given to a flag, or `fallback`. */
sg_status sg_cli_int(const sg_cli *cli, const char *flag, int64_t low, int64_t high, int64_t fallback, int64_t *out,
                     sg_error *err);
/* `flag` has no effect beside `other`. */
sg_status sg_cli_not_with(const sg_cli *cli, const char *flag, const char *other, sg_error *err);
/* `flag` has no effect without `other`. */
sg_status sg_cli_needs(const sg_cli *cli, const char *flag, const char *other, sg_error *err);
/* The configuration that the command line describes: file, environment, --set and flags. */
sg_status sg_cli_config(const sg_cli *cli, sg_config **out, sg_error *err);
/* The same on top of another file or text in place of -c. */
sg_status sg_cli_config_on(const sg_cli *cli, const char *file, const char *text, sg_config **out, sg_error *err);

/* Does a flag or the environment name files of the data, or, if `folder`, the folder they are in? They replace those of a recipe, and
 * must be there. */
bool sg_cli_names_data(const sg_config *config, bool folder);

/* The error with what to do about it at its end: the data files of a recipe are not where it says. */
sg_status sg_cli_advise(sg_error *err, const char *advice);
/* The same where reading the data that `config` names ended with `status`, which is returned: a recipe names files, but seldom the
 * folder they are in, which each machine has elsewhere. `advice` is given instead of that, if it is not NULL. */
sg_status sg_cli_data_read(const sg_config *config, sg_status status, const char *advice, sg_error *err);

/* ---- recipes (recipes.c) */
/* The folder of those that come with the program, written to `out`; NULL if it is not there. */
const char *sg_cli_recipes(char out[PATH_MAX]);
/* Visit each, in order of their names, as -c takes them; `summary` is one line, or "". */
typedef void sg_recipe_fn(void *user, const char *name, const char *summary);
sg_status sg_cli_each_recipe(sg_recipe_fn *visit, void *user, sg_error *err);
/* The error that the configuration of this name is neither a file nor a recipe, with where to look and the recipe that is near; returns
 * its status. */
sg_status sg_cli_recipe_is_absent(const char *name, sg_error *err);

/* ---- help (help.c) */
int sg_help_verb(const sg_cli *cli, const sg_verb *verb);

/* ---- results, messages (output.c) */
int sg_exit_code(sg_status status);
/* Print the error on standard error. */
void sg_cli_error(const sg_cli *cli, const sg_error *err);
/* Print the error (and, with --json, the document) and return the exit code. */
int sg_cli_fail(const sg_cli *cli, const sg_error *err);
int sg_cli_usage_error(const sg_cli *cli, const sg_error *err);
/* "12:00:01 model    mlp 1836-400-400-159" on standard error, unless -q. */
void sg_cli_log(const sg_cli *cli, const char *topic, const char *fmt, ...) SG_PRINTF(3, 4);
void sg_cli_warn(const sg_cli *cli, const char *fmt, ...) SG_PRINTF(2, 3);
/* Write what `print` prints: a new file, or one replaced whole if --force is given, or standard output if `path` is NULL. */
typedef sg_status sg_print_fn(void *user, FILE *out, sg_error *err);
sg_status sg_cli_write(const sg_cli *cli, const char *path, sg_print_fn *print, void *user, sg_error *err);
/* The same to a file that may be replaced. */
sg_status sg_cli_replace(const char *path, sg_print_fn *print, void *user, sg_error *err);
/* Is the name free, or may it be replaced? */
sg_status sg_cli_may_write(const sg_cli *cli, const char *path, sg_error *err);
/* The same of -o, before any work is done; and --force goes with one. */
sg_status sg_cli_check_output(const sg_cli *cli, sg_error *err);
/* What is written goes to standard output without -o, where --json wants to be alone. */
sg_status sg_cli_one_result(const sg_cli *cli, sg_error *err);
/* Print a JSON document on standard output and release it. Returns `code`, or SG_EXIT_RUNTIME if it cannot be written. */
int sg_cli_json(json_t *document, int code);
typedef enum sg_style { SG_STYLE_BOLD, SG_STYLE_DIM, SG_STYLE_GREEN, SG_STYLE_RED, SG_STYLE_RESET } sg_style;
const char *sg_paint(bool color, sg_style style); /* escape sequence or "" */
/* Notes of a data set as messages. */
void sg_cli_notes(const sg_cli *cli, const sg_dataset *data);

/* Metrics as an object, undefined ones null; and as lines for people. */
json_t *sg_metrics_document(const sg_metrics *metrics);
void sg_metrics_print(const sg_metrics *metrics, const char *prefix);

/* ---- gradcheck --golden (gradcheck_golden.c), ops --check (ops_check.c) */
int sg_gradcheck_golden(const sg_cli *cli);
int sg_ops_check(const sg_cli *cli);

/* ---- conditions of --require (require.c) */
/* Check each condition before any work is done; `validation`: there will be metrics of the validation rows. */
sg_status sg_require_check(const sg_cli *cli, bool validation, sg_error *err);
/* The same of what the data tells before training: a condition on the test part needs rows there. */
sg_status sg_require_rows(const sg_cli *cli, int64_t test_rows, sg_error *err);
/* SG_EXIT_OK, or SG_EXIT_REQUIRE after telling which condition does not hold. `best` are validation metrics. */
int sg_require_hold(const sg_cli *cli, const sg_metrics *best, const sg_metrics *test);

/* ---- tables (table.c): columns as wide as their widest cell, numbers right-aligned */
typedef struct sg_table sg_table;
/* Titles separated by '|'; a title that starts with '>' is right-aligned. NULL if out of memory. */
sg_table *sg_table_new(const char *titles);
void sg_table_cell(sg_table *table, const char *fmt, ...) SG_PRINTF(2, 3);
void sg_table_print(const sg_table *table, FILE *out, bool color);
void sg_table_print_markdown(const sg_table *table, FILE *out);
void sg_table_free(sg_table *table);

/* ---- progress (progress.c): a bar on a terminal, plain lines elsewhere */
typedef struct sg_progress {
    enum { SG_PROGRESS_NONE, SG_PROGRESS_PLAIN, SG_PROGRESS_BAR } mode;
    const char *unit;
    int64_t first; /* done at the first update; -1 before it */
    double started, shown;
    bool drawn;
    bool color;
} sg_progress;
void sg_progress_begin(sg_progress *progress, const sg_cli *cli, const char *unit);
/* `done` of `total` units, which may shrink when less is to do; `text` (may be "") tells loss and metric. Drawn at most ten times a second as a bar, once in 30
 * seconds as a line. */
void sg_progress_update(sg_progress *progress, int64_t done, int64_t total, const char *text);
/* A line that stays, above the bar. */
void sg_progress_line(sg_progress *progress, const char *fmt, ...) SG_PRINTF(2, 3);
void sg_progress_end(sg_progress *progress);
double sg_cli_clock(void);                                       /* seconds, monotonic */
const char *sg_duration(double seconds, char *out, size_t size); /* "1h02m", "3m05s", "12.3s" */

/* ---- training told as it goes on (train_watch.c); `user` of sg_watch_listen is the watch */
typedef struct sg_watch sg_watch;
sg_watch *sg_watch_new(const sg_cli *cli, const sg_config *config, sg_error *err); /* NULL on failure */
bool sg_watch_listen(void *user, const sg_train_event *event);
void sg_watch_end(sg_watch *watch); /* clears the progress bar */
void sg_watch_free(sg_watch *watch);

/* ---- signals (signals.c): the first SIGINT, SIGTERM or SIGHUP ends a verb at once, but once it is at its steps asks it to stop, and
 * the second ends it */
/* Before any other thread exists: those of later inherit what is blocked. */
void sg_signals_install(const sg_verb *verb);
/* From now on the verb, which has `in_steps`, looks at sg_signal_caught every moment: what waits for input is over. */
void sg_signals_at_steps(void);
int sg_signal_caught(void); /* its number, or 0 */
/* The same as a predicate for long library calls. */
bool sg_stop_requested(void *unused);

#endif
