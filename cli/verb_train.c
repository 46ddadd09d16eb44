/* verb_train.c - train a task-net as a configuration says. */
#include "cli/cli.h"
#include "runtime/runtime.h"
#include "serialize/serialize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the listener keeps between its calls. */
typedef struct watcher {
    const sg_cli *cli;
    const sg_train_config *v;
    sg_progress progress;
    bool titled;
    double best;
} watcher;

static void tell_start(watcher *w, const sg_train_event *e)
{
    char energy[64] = "";
    if (e->energy_parameters > 0)
        snprintf(energy, sizeof energy, "; loss-net %.3f M", 1e-6 * (double)e->energy_parameters);
    sg_cli_log(w->cli, "data", "%lld training, %lld validation, %lld test rows; %lld features, %lld labels",
               (long long)e->rows[SG_TRAIN], (long long)e->rows[SG_VALIDATION], (long long)e->rows[SG_TEST],
               (long long)e->features, (long long)e->labels);
    sg_cli_log(w->cli, "model", "task-net %.3f M parameters%s", 1e-6 * (double)e->task_parameters, energy);
    sg_cli_log(w->cli, "device", "%s; seed %lld", e->device, (long long)w->v->seed);
    if (e->resumed)
        sg_cli_log(w->cli, "resume", "from epoch %lld, batch %lld", (long long)e->epoch, (long long)e->step + 1);
    sg_progress_begin(&w->progress, w->cli, "batches", e->epochs * e->steps);
}

static double metric_of(const sg_metrics *metrics, const char *name)
{
    const sg_metric *metric = metrics ? sg_metrics_find(metrics, name) : NULL;
    return metric && metric->defined ? metric->value : NAN;
}

static void tell_step(watcher *w, const sg_train_event *e)
{
    char text[96];
    snprintf(text, sizeof text, "epoch %lld  bce %.4f  best %s %.4f", (long long)e->epoch, e->bce, w->v->train.metric,
             w->best);
    sg_progress_update(&w->progress, (e->epoch - 1) * e->steps + e->step, text);
}

static void tell_epoch(watcher *w, const sg_train_event *e)
{
    bool seal = w->v->loss.name == SG_LOSS_SEAL_DYNAMIC;
    double value = metric_of(e->validation, w->v->train.metric);
    char losses[64] = "";
    if (e->best)
        w->best = value;
    if (!w->titled)
        sg_progress_line(&w->progress, "%s   ep      bce%s  %13s  micro_f1  macro_f1        lr    s/ep%s",
                         sg_paint(w->cli->color_err, SG_STYLE_BOLD), seal ? "   energy      nce" : "",
                         w->v->train.metric, sg_paint(w->cli->color_err, SG_STYLE_RESET));
    w->titled = true;
    if (seal)
        snprintf(losses, sizeof losses, " %8.4f %8.4f", e->energy, e->nce);
    sg_progress_line(&w->progress, "%5lld %8.4f%s  %13.4f  %8.4f  %8.4f  %8.2e  %6.2f%s", (long long)e->epoch, e->bce,
                     losses, value, metric_of(e->validation, "micro_f1"), metric_of(e->validation, "macro_f1"), e->lr,
                     e->seconds, e->best ? " *" : "");
}

static bool listen(void *user, const sg_train_event *e)
{
    watcher *w = user;
    if (e->moment == SG_TRAIN_STARTED)
        tell_start(w, e);
    else if (e->moment == SG_TRAIN_STEP)
        tell_step(w, e);
    else
        tell_epoch(w, e);
    return sg_signal_caught() == 0;
}

/* ---- the run folder: -o, the argument, or runs/RECIPE-seed-N */

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
    snprintf(out, size, "runs/%s-seed-%lld", name, (long long)v->seed);
}

static bool is_file(const char *folder, const char *name)
{
    char path[4096];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && access(path, F_OK) == 0;
}

static sg_status resolve(const sg_cli *cli, sg_config **config, char *folder, size_t size, sg_error *err)
{
    const char *output = sg_cli_value(cli, "output"), *file = sg_cli_value(cli, "config");
    char path[4096];
    SG_TRY(sg_require_check(cli, err));
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
    if (output)
        snprintf(folder, size, "%s", output);
    else
        default_folder(cli, sg_config_values(*config), folder, size);
    bool unfinished = is_file(folder, "config.yml") && !is_file(folder, "metrics.json");
    if ((cli->n_arguments == 1 || sg_cli_has(cli, "resume")) && !unfinished)
        return sg_fail(err, SG_E_CONFIG, "%s holds no unfinished run to resume", folder);
    return SG_OK;
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

static int report(const sg_cli *cli, const char *folder, const sg_train_result *result)
{
    int code = sg_require_hold(cli, &result->best, &result->test);
    if (cli->json)
        return sg_cli_json(json_pack("{s:s,s:I,s:o,s:o}", "run", folder, "epoch", (json_int_t)result->epoch, "best",
                                     sg_metrics_document(&result->best), "test", sg_metrics_document(&result->test)),
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

static int train(sg_cli *cli, const sg_config *config, sg_training_data *data, const char *folder)
{
    sg_error err;
    sg_train_result result;
    watcher w = {.cli = cli, .v = sg_config_values(config), .best = NAN};
    sg_train_options options = {.size = sizeof options,
                                .folder = folder,
                                .force = sg_cli_has(cli, "force"),
                                .listener = listen,
                                .user = &w,
                                .argv = (const char *const *)cli->argv,
                                .argc = cli->argc};
    sg_cli_notes(cli, data->data);
    sg_status status = sg_train(config, data, &options, &result, &err);
    sg_progress_end(&w.progress);
    if (status != SG_OK)
        return sg_cli_fail(cli, &err);
    return result.finished ? report(cli, folder, &result) : interrupted(cli, folder);
}

static int run(sg_cli *cli)
{
    sg_config *config = NULL;
    sg_training_data *data = NULL;
    sg_error err;
    char folder[4096];
    int code;
    sg_status status = resolve(cli, &config, folder, sizeof folder, &err);
    if (status == SG_OK)
        status = sg_training_data_load(&data, config, &err);
    if (status != SG_OK)
        code = sg_cli_fail(cli, &err);
    else if (sg_cli_has(cli, "dry-run"))
        code = dry_run(cli, config, data);
    else
        code = train(cli, config, data, folder);
    sg_training_data_free(data);
    sg_config_free(config);
    return code;
}

const sg_verb sg_verb_train = {
    .name = "train",
    .arguments = "[RUN]",
    .summary = "train a model",
    .description = "With a configuration, or with flags alone:\n"
                   "  sealgraph train -c models/recipes/bibtex/cross-entropy.yml --data-dir DIR -o RUN\n"
                   "  sealgraph train --task mlc --train a.arff.gz --labels-xml a.xml -o RUN\n"
                   "The run folder defaults to runs/RECIPE-seed-N. The same command on an unfinished run goes on with\n"
                   "it, and so does `sealgraph train --resume RUN`. Ctrl-C stops after the current step.",
    .takes = SG_TAKES_CONFIG | SG_TAKES_OUTPUT | SG_TAKES_RUN | SG_TAKES_REQUIRE,
    .max_arguments = 1,
    .run = run,
};
