/* verb_train.c - train a task-net as a configuration says. */
#include "cli/cli.h"
#include "runtime/runtime.h"
#include "serialize/serialize.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the run folder: -o, the argument, or runs/RECIPE-seed-N, runs/RECIPE-N-seeds */

static void default_folder(const sg_cli *cli, const sg_train_config *v, char *out, size_t size)
{
    const char *file = sg_cli_value(cli, "config");
    char name[256] = "mlc";
    if (file && strcmp(file, "-") != 0) {
        const char *slash = strrchr(file, '/'), *start = file;
        for (const char *c = file; slash && c < slash; c++) /* the last folder belongs to the name: bibtex/seal... */
            if (*c == '/')
                start = c + 1;
        snprintf(name, sizeof name, "%s", start);
        char *dot = strrchr(name, '.');
        if (dot && dot != name)
            *dot = 0;
        for (char *c = name; *c; c++)
            *c = *c == '/' ? '-' : *c;
    }
    if (v->seeds.count)
        snprintf(out, size, "runs/%s-%lld-seeds", name,
                 (long long)(v->seeds.count > 1 ? v->seeds.count : v->seeds.at[0]));
    else
        snprintf(out, size, "runs/%s-seed-%lld", name, (long long)v->seed);
}

/* Without slashes at its end, as others are named after it. */
static void name_folder(const char *given, char *out, size_t size)
{
    size_t n = strlen(given);
    while (n > 1 && given[n - 1] == '/')
        n--;
    snprintf(out, size, "%.*s", (int)n, given);
}

static bool is_file(const char *folder, const char *name)
{
    char path[4096];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && access(path, F_OK) == 0;
}

static sg_status check_seeds(const sg_config *config, sg_error *err)
{
    int64_t *seeds;
    int32_t count;
    SG_TRY(sg_config_seeds(config, &seeds, &count, err));
    sg_free(seeds);
    return SG_OK;
}

/* Is `train RUN` all that is asked for? Threads change no result. */
static bool asks_to_go_on(const sg_cli *cli)
{
    static const char *const for_more[] = {"config", "resume", "force", "dry-run"};
    bool plain = cli->n_arguments == 1 && cli->n_sets == 0;
    for (size_t i = 0; i < sizeof for_more / sizeof *for_more; i++)
        plain = plain && !sg_cli_has(cli, for_more[i]);
    for (int i = 0; i < cli->n_flags; i++)
        plain = plain && strcmp(cli->flags[i].key, "threads") == 0;
    return plain;
}

/* Is there a run to go on with in the folder? `seeds`: it would be one of several. */
static sg_status check_unfinished(const sg_cli *cli, const char *folder, bool seeds, sg_error *err)
{
    const char *begins =
        sg_cli_has(cli, "resume") ? "-o FOLDER, without --resume, begins a new one" : "-o FOLDER begins a new one";
    struct stat st;
    if (stat(folder, &st) != 0)
        return sg_fail(err, SG_E_CONFIG, "%s: no such folder, so no run to go on with: %s", folder, begins);
    if (!S_ISDIR(st.st_mode))
        return sg_fail(err, SG_E_CONFIG, "%s is a file, not a run folder: -c names a recipe, --train data", folder);
    if (!is_file(folder, "config.yml"))
        return sg_fail(err, SG_E_CONFIG, "%s holds no run to go on with, no config.yml: %s", folder, begins);
    if (!is_file(folder, "metrics.json") || asks_to_go_on(cli))
        return SG_OK;
    return seeds ? sg_fail(err, SG_E_CONFIG, "%s holds a finished run of seeds, each a run in %s/seed-N: %s", folder,
                           folder, begins)
                 : sg_fail(err, SG_E_CONFIG, "%s holds a finished run, which `eval` evaluates: %s", folder, begins);
}

static sg_status resolve(const sg_cli *cli, sg_config **config, char *folder, size_t size, sg_error *err)
{
    const char *output = sg_cli_value(cli, "output"), *file = sg_cli_value(cli, "config");
    char path[4096];
    SG_TRY(sg_require_check(cli, true, err));
    SG_TRY(sg_cli_not_with(cli, "force", "resume", err));
    static const char *const of_a_run[] = {"require", "force", "progress"};
    for (int i = 0; i < 3; i++)
        SG_TRY(sg_cli_not_with(cli, of_a_run[i], "dry-run", err));
    if (cli->n_arguments == 1 && output)
        return sg_fail(err, SG_E_CONFIG, "give the run folder once: as argument or by -o");
    if (cli->n_arguments == 1)
        output = cli->arguments[0];
    bool own = output && !file && is_file(output, "config.yml") && (cli->n_arguments == 1 || sg_cli_has(cli, "resume"));
    if (own) {
        snprintf(path, sizeof path, "%s/config.yml", output);
        file = path;
    }
    SG_TRY(sg_cli_config_on(cli, file, NULL, config, err));
    SG_TRY(sg_config_check_training(*config, err));
    SG_TRY(check_seeds(*config, err));
    if (output && (!output[0] || strcmp(output, "-") == 0))
        return sg_fail(err, SG_E_CONFIG,
                       output[0] ? "a run is a folder, which cannot go to standard output"
                                 : "the run folder has no name");
    if (output)
        name_folder(output, folder, size);
    else
        default_folder(cli, sg_config_values(*config), folder, size);
    bool goes_on = cli->n_arguments == 1 || sg_cli_has(cli, "resume");
    return goes_on ? check_unfinished(cli, folder, sg_config_values(*config)->seeds.count > 0, err) : SG_OK;
}

/* ---- --dry-run: everything up to the first step */

static int report_dry_run(const sg_cli *cli, const sg_step_options *o, const sg_plan_info *info, const sg_split *split)
{
    bool seal = o->loss == SG_LOSS_SEAL_DYNAMIC;
    int64_t task = sg_mlc_task_parameters(&o->task), energy = seal ? sg_mlc_score_parameters(&o->energy) : 0;
    int64_t steps = (split->count[SG_TRAIN] + o->batch - 1) / o->batch;
    if (cli->json)
        return sg_cli_json(json_pack("{s:I,s:I,s:I,s:I,s:I,s:i,s:o}", "task_parameters", (json_int_t)task,
                                     "energy_parameters", (json_int_t)energy, "arena_bytes",
                                     (json_int_t)info->arena_bytes, "store_bytes", (json_int_t)info->store_bytes,
                                     "steps_per_epoch", (json_int_t)steps, "kernels", (int)info->nodes, "step_flops",
                                     sg_json_number(info->flops)),
                           SG_EXIT_OK);
    printf("parameters   task-net %lld, loss-net %lld\n", (long long)task, (long long)energy);
    printf("memory       %.1f MB working, %.1f MB parameters and moments\n", 1e-6 * (double)info->arena_bytes,
           1e-6 * (double)info->store_bytes);
    printf("step         %d kernels (%d fused), %.3f GFLOP; %lld steps an epoch\n", (int)info->nodes, (int)info->fused,
           1e-9 * info->flops, (long long)steps);
    return SG_EXIT_OK;
}

static sg_status plan_step(const sg_train_config *v, const sg_step_options *o, sg_plan_info *info, sg_error *err)
{
    sg_session_options options = {.size = sizeof options,
                                  .backend = sg_config_backend(v),
                                  .precision = v->precision,
                                  .threads = (int32_t)v->threads};
    sg_store *store = sg_store_new(sg_config_real(v));
    sg_graph *graph = sg_graph_new();
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_status status = store && graph ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK)
        status = sg_step_build(graph, store, o, err);
    if (status == SG_OK)
        status = sg_session_new(&session, store, &options, err);
    if (status == SG_OK)
        status = sg_plan_new(&plan, session, graph, err);
    if (status == SG_OK)
        *info = sg_plan_describe(plan);
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
    return status;
}

static int dry_run(const sg_cli *cli, const sg_config *config, const sg_training_data *data)
{
    sg_plan_info info;
    sg_error err;
    sg_step_options o = sg_step_options_of(sg_config_values(config), data->data);
    if (plan_step(sg_config_values(config), &o, &info, &err) != SG_OK)
        return sg_cli_fail(cli, &err);
    return report_dry_run(cli, &o, &info, &data->split);
}

/* ---- the run */

/* Figures would not compare with those of a program that keeps such rows, so leaving them out is told. */
static void tell_left_out(const sg_cli *cli, const sg_split *split)
{
    static const char *const names[] = {"training", "validation", "test"};
    char parts[120] = "";
    for (int p = 0; p < 3; p++) {
        size_t at = strlen(parts);
        if (split->without_label[p])
            snprintf(parts + at, sizeof parts - at, "%s%lld of %s", at ? ", " : ": ",
                     (long long)split->without_label[p], names[p]);
    }
    if (split->unlabelled)
        sg_cli_log(cli, "note", "%lld row%s without a label left out%s", (long long)split->unlabelled,
                   split->unlabelled == 1 ? "" : "s", parts);
    if (split->weightless)
        sg_cli_log(cli, "note", "%lld row%s of weight 0 left out of training", (long long)split->weightless,
                   split->weightless == 1 ? "" : "s");
}

static int report(const sg_cli *cli, const char *folder, const sg_train_result *result)
{
    int code = sg_require_hold(cli, &result->best, &result->test);
    if (cli->json)
        return sg_cli_json(json_pack("{s:o,s:I,s:o,s:o}", "run", sg_json_text(folder), "epoch",
                                     (json_int_t)result->epoch, "best", sg_metrics_document(&result->best), "test",
                                     sg_metrics_document(&result->test)),
                           code);
    printf("run          %s\nbest epoch   %lld\n", folder, (long long)result->epoch);
    sg_metrics_print(&result->best, "validation   ");
    sg_metrics_print(&result->test, "test         ");
    return code;
}

static int interrupted(const sg_cli *cli, const char *folder)
{
    sg_error err;
    sg_fail(&err, SG_E_INTERRUPTED, "stopped; the same command goes on from the checkpoint in %s", folder);
    return sg_cli_fail(cli, &err);
}

static json_t *parts_document(const sg_metrics *best, const sg_metrics *test)
{
    return json_pack("{s:o, s:o}", "best", sg_metrics_document(best), "test", sg_metrics_document(test));
}

static json_t *seeds_document(const char *folder, const sg_seeds_result *result)
{
    json_t *seeds = json_array();
    for (int32_t i = 0; i < result->count; i++) {
        const sg_seed_result *s = &result->seed[i];
        char path[4200];
        snprintf(path, sizeof path, "%s/seed-%lld", folder, (long long)s->seed);
        json_t *seed = parts_document(&s->result.best, &s->result.test);
        json_object_set_new(seed, "seed", json_integer(s->seed));
        json_object_set_new(seed, "run", sg_json_text(path));
        json_object_set_new(seed, "epoch", json_integer(s->result.epoch));
        json_array_append_new(seeds, seed);
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "run", sg_json_text(folder), "seeds", seeds, "mean",
                     parts_document(&result->mean_best, &result->mean_test), "std",
                     parts_document(&result->deviation_best, &result->deviation_test));
}

static void metric_cell(sg_table *table, const sg_metrics *metrics, const char *name)
{
    const sg_metric *metric = sg_metrics_find(metrics, name);
    if (metric && metric->defined)
        sg_table_cell(table, "%.4f", metric->value);
    else
        sg_table_cell(table, "-");
}

static void metric_cells(sg_table *table, const sg_metrics *best, const sg_metrics *test, const char *chosen)
{
    metric_cell(table, best, chosen);
    metric_cell(table, test, "example_f1");
    metric_cell(table, test, "micro_f1");
    metric_cell(table, test, "macro_f1");
    metric_cell(table, test, "map.example");
}

static void print_seeds(const sg_cli *cli, const sg_seeds_result *result, const char *chosen)
{
    char titles[160];
    snprintf(titles, sizeof titles, "seed|>epoch|>validation %s|>test example_f1|>micro_f1|>macro_f1|>map.example",
             chosen);
    sg_table *table = sg_table_new(titles);
    if (!table)
        return;
    for (int32_t i = 0; i < result->count; i++) {
        const sg_seed_result *s = &result->seed[i];
        if (!s->result.finished)
            continue;
        sg_table_cell(table, "%lld", (long long)s->seed);
        sg_table_cell(table, "%lld", (long long)s->result.epoch);
        metric_cells(table, &s->result.best, &s->result.test, chosen);
    }
    sg_table_cell(table, "mean");
    sg_table_cell(table, " ");
    metric_cells(table, &result->mean_best, &result->mean_test, chosen);
    sg_table_cell(table, "std");
    sg_table_cell(table, " ");
    metric_cells(table, &result->deviation_best, &result->deviation_test, chosen);
    sg_table_print(table, stdout, cli->color_out);
    sg_table_free(table);
}

/* Conditions of --require are about the means. */
static int report_seeds(const sg_cli *cli, const char *folder, const sg_seeds_result *result, const char *chosen)
{
    int code = sg_require_hold(cli, &result->mean_best, &result->mean_test);
    if (cli->json)
        return sg_cli_json(seeds_document(folder, result), code);
    printf("run          %s\n", folder);
    print_seeds(cli, result, chosen);
    return code;
}

/* Seeds that are done are shown even if another one failed; with --json the error is the one document. */
static int train_seeds(sg_cli *cli, const sg_config *config, sg_training_data *data, const sg_train_options *options)
{
    sg_error err;
    sg_seeds_result result;
    const char *chosen = sg_config_values(config)->train.metric;
    sg_status status = sg_train_seeds(config, data, options, &result, &err);
    sg_watch_end(options->user);
    int code;
    if (status == SG_OK && result.finished)
        code = report_seeds(cli, options->folder, &result, chosen);
    else if (status == SG_OK)
        code = interrupted(cli, options->folder);
    else
        code = sg_cli_fail(cli, &err);
    if (status == SG_E_DIVERGED && !cli->json && result.mean_best.count)
        print_seeds(cli, &result, chosen);
    sg_seeds_result_free(&result);
    return code;
}

static int train_one(sg_cli *cli, const sg_config *config, sg_training_data *data, const sg_train_options *options)
{
    sg_error err;
    sg_train_result result;
    sg_status status = sg_train(config, data, options, &result, &err);
    sg_watch_end(options->user);
    if (status != SG_OK)
        return sg_cli_fail(cli, &err);
    return result.finished ? report(cli, options->folder, &result) : interrupted(cli, options->folder);
}

/* Whoever goes on with a run until it is finished, as a queue that starts a command again does, has not failed when it is: it ends as
 * it ended the first time. `config` is the run's own: the environment does not tell which seeds it has. */
static int tell_result(const sg_cli *cli, const sg_config *config, const char *folder)
{
    sg_error err;
    sg_train_result one;
    sg_seeds_result several = {0};
    bool seeds = sg_config_values(config)->seeds.count > 0;
    sg_status status =
        seeds ? sg_seeds_result_read(config, folder, &several, &err) : sg_train_result_read(folder, &one, &err);
    if (status == SG_OK)
        sg_cli_log(cli, "finished", "%s: nothing is left to train; -o FOLDER begins a new run", folder);
    int code = status != SG_OK ? sg_cli_fail(cli, &err)
               : seeds         ? report_seeds(cli, folder, &several, sg_config_values(config)->train.metric)
                               : report(cli, folder, &one);
    sg_seeds_result_free(&several);
    return code;
}

static int tell_again(const sg_cli *cli, const char *folder)
{
    char path[4096 + 16];
    sg_error err;
    sg_config *own = NULL;
    snprintf(path, sizeof path, "%s/config.yml", folder);
    sg_status status = sg_config_load(&own, &(sg_config_request){.file = path}, &err);
    int code = status == SG_OK ? tell_result(cli, own, folder) : sg_cli_fail(cli, &err);
    sg_config_free(own);
    return code;
}

/* Where the run in the folder was last at work, by its run.json, written to `out`; "": that does not tell. */
static void read_directory(const char *folder, char *out, size_t size)
{
    enum { LARGEST = 1 << 20 };
    char path[4096], *text = NULL;
    size_t length;
    out[0] = 0;
    if (snprintf(path, sizeof path, "%s/run.json", folder) >= (int)sizeof path ||
        sg_file_read(path, LARGEST, &text, &length, NULL) != SG_OK)
        return;
    json_t *record = json_loads(text, 0, NULL);
    const char *known = json_string_value(json_object_get(record, "directory"));
    snprintf(out, size, "%s", known ? known : "");
    json_decref(record);
    sg_free(text);
}

/* A run that was begun has the folder of its files in its configuration, and goes on with no other. */
static sg_status look_where_begun(const sg_config *config, const char *folder, sg_status status, sg_error *err)
{
    char directory[PATH_MAX], here[PATH_MAX], advice[SG_ERROR_TEXT];
    read_directory(folder, directory, sizeof directory);
    if (directory[0] && getcwd(here, sizeof here) && strcmp(directory, here) == 0)
        return status;
    snprintf(advice, sizeof advice,
             "relative paths of a run are looked up from the folder in which it was begun%s%.250s: go on from there",
             directory[0] ? ", " : "", directory);
    return sg_cli_data_read(config, status, advice, err);
}

static sg_status load_data(const sg_cli *cli, const sg_config *config, const char *folder, sg_training_data **data,
                           sg_error *err)
{
    bool begun = is_file(folder, "config.yml") && !sg_cli_has(cli, "force");
    sg_status status = sg_training_data_load(data, config, true, err);
    return begun ? look_where_begun(config, folder, status, err) : sg_cli_data_read(config, status, NULL, err);
}

static int train(sg_cli *cli, const sg_config *config, sg_training_data *data, const char *folder)
{
    const sg_train_config *v = sg_config_values(config);
    sg_error err;
    sg_watch *watch = sg_watch_new(cli, config, &err);
    if (!watch)
        return sg_cli_fail(cli, &err);
    sg_train_options options = {.size = sizeof options,
                                .folder = folder,
                                .force = sg_cli_has(cli, "force"),
                                .listener = sg_watch_listen,
                                .user = watch,
                                .argv = (const char *const *)cli->argv,
                                .argc = cli->argc};
    sg_signals_at_steps();
    int code = v->seeds.count ? train_seeds(cli, config, data, &options) : train_one(cli, config, data, &options);
    sg_watch_free(watch);
    return code;
}

static int run_in(sg_cli *cli, const sg_config *config, const char *folder)
{
    sg_training_data *data = NULL;
    sg_error err;
    int code;
    sg_status status = SG_OK;
    if (!sg_cli_has(cli, "dry-run"))
        status = sg_train_check_folder(config, &(sg_train_options){.folder = folder, .force = sg_cli_has(cli, "force")},
                                       &err);
    if (status == SG_OK)
        status = load_data(cli, config, folder, &data, &err);
    if (status == SG_OK)
        status = sg_require_rows(cli, data->split.count[SG_TEST], &err);
    if (status == SG_OK) {
        sg_cli_notes(cli, data->data);
        tell_left_out(cli, &data->split);
    }
    if (status != SG_OK)
        code = sg_cli_fail(cli, &err);
    else if (sg_cli_has(cli, "dry-run"))
        code = dry_run(cli, config, data);
    else
        code = train(cli, config, data, folder);
    sg_training_data_free(data);
    return code;
}

static int run(sg_cli *cli)
{
    sg_config *config = NULL;
    sg_error err;
    char folder[4096];
    int code;
    if (resolve(cli, &config, folder, sizeof folder, &err) != SG_OK)
        code = sg_cli_fail(cli, &err);
    else if (asks_to_go_on(cli) && is_file(folder, "metrics.json"))
        code = tell_again(cli, folder);
    else
        code = run_in(cli, config, folder);
    sg_config_free(config);
    return code;
}

const sg_verb sg_verb_train = {
    .name = "train",
    .arguments = "[RUN]",
    .summary = "train a model",
    .description =
        "With a configuration, or with flags alone:\n"
        "  sealgraph train -c bibtex/cross-entropy.yml --data-dir DIR -o RUN\n"
        "  sealgraph train --task mlc --train a.arff.gz --labels-xml a.xml -o RUN\n"
        "-o names the folder of a new run, by default runs/RECIPE-seed-N. The same command on an unfinished run\n"
        "goes on with it, and so does `sealgraph train RUN`, which begins none, and of a finished run tells the "
        "result\n"
        "again. Ctrl-C stops after the current step.\n"
        "--seeds 10 (from --seed on) or --seeds 2,123,234 trains several seeds side by side, each in a folder\n"
        "RUN/seed-N, and tells means and deviations; on a GPU they run at the same time.",
    .takes = SG_TAKES_CONFIG | SG_TAKES_OUTPUT | SG_TAKES_RUN | SG_TAKES_REQUIRE | SG_TAKES_JSON | SG_TAKES_VERBOSE,
    .max_arguments = 1,
    .in_steps = true,
    .run = run,
};
