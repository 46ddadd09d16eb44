/* train_watch.c - what training tells, as messages and progress: of one run, or of several seeds side by side. */
#include "cli/cli.h"

#include <math.h>
#include <string.h>

struct sg_watch {
    const sg_cli *cli;
    const sg_train_config *v;
    sg_progress progress;
    bool begun, titled;
    int64_t updates; /* of parameters, for each batch */
};

sg_watch *sg_watch_new(const sg_cli *cli, const sg_config *config, sg_error *err)
{
    const sg_train_config *v = sg_config_values(config);
    bool seal = v->loss.name == SG_LOSS_SEAL_DYNAMIC;
    sg_watch *w = sg_calloc(1, sizeof *w);
    if (w)
        *w = (sg_watch){.cli = cli, .v = v, .updates = seal ? v->loss.n_task * (v->loss.n_energy + 1) : 1};
    else
        sg_fail(err, SG_E_MEMORY, "out of memory");
    return w;
}

void sg_watch_free(sg_watch *w) { sg_free(w); }

void sg_watch_end(sg_watch *w) { sg_progress_end(&w->progress); }

static void tell_all(sg_watch *w, const sg_train_event *e)
{
    char energy[64] = "", seeds[48] = "";
    if (e->energy_parameters > 0)
        snprintf(energy, sizeof energy, "; loss-net %.3f M", 1e-6 * (double)e->energy_parameters);
    if (e->runs > 1)
        snprintf(seeds, sizeof seeds, "; %d seeds side by side", (int)e->runs);
    else
        snprintf(seeds, sizeof seeds, "; seed %lld", (long long)e->seed);
    sg_cli_log(w->cli, "data", "%lld training, %lld validation, %lld test rows; %lld features, %lld labels",
               (long long)e->rows[SG_TRAIN], (long long)e->rows[SG_VALIDATION], (long long)e->rows[SG_TEST],
               (long long)e->features, (long long)e->labels);
    sg_cli_log(w->cli, "model", "task-net %.3f M parameters%s", 1e-6 * (double)e->task_parameters, energy);
    sg_cli_log(w->cli, "device", "%s%s", e->device, seeds);
}

static void tell_start(sg_watch *w, const sg_train_event *e)
{
    char seed[48] = "", best[64] = "";
    if (!w->begun)
        tell_all(w, e);
    if (!isnan(e->best_value))
        snprintf(best, sizeof best, "; best %s %.4f", w->v->train.metric, e->best_value);
    if (e->runs > 1)
        snprintf(seed, sizeof seed, "seed %lld ", (long long)e->seed);
    if (e->resumed)
        sg_cli_log(w->cli, "resume", "%sfrom epoch %lld, batch %lld%s", seed, (long long)e->epoch,
                   (long long)e->step + 1, best);
    if (!w->begun)
        sg_progress_begin(&w->progress, w->cli, e->runs > 1 ? "updates" : "batches");
    w->begun = true;
}

static double metric_of(const sg_metrics *metrics, const char *name)
{
    const sg_metric *metric = metrics ? sg_metrics_find(metrics, name) : NULL;
    return metric && metric->defined ? metric->value : NAN;
}

/* Of several runs the progress is that of all together, told in updates. */
static void tell_step(sg_watch *w, const sg_train_event *e)
{
    char text[96];
    int64_t each = e->runs > 1 ? w->updates : 1;
    int n = snprintf(text, sizeof text, "epoch %lld  bce %.4f", (long long)e->epoch, e->bce);
    if (!isnan(e->best_value))
        snprintf(text + n, sizeof text - (size_t)n, "  best %s %.4f", w->v->train.metric, e->best_value);
    sg_progress_update(&w->progress, e->done * each, (e->done + e->left) * each, text);
}

static void tell_title(sg_watch *w, bool seeds, bool seal)
{
    sg_progress_line(&w->progress, "%s%s   ep      bce%s  %13s  micro_f1  macro_f1        lr    s/ep%s",
                     sg_paint(w->cli->color_err, SG_STYLE_BOLD), seeds ? "    seed" : "",
                     seal ? "   energy      nce" : "", w->v->train.metric, sg_paint(w->cli->color_err, SG_STYLE_RESET));
    w->titled = true;
}

static void tell_epoch(sg_watch *w, const sg_train_event *e)
{
    bool seal = w->v->loss.name == SG_LOSS_SEAL_DYNAMIC;
    double value = metric_of(e->validation, w->v->train.metric);
    char losses[64] = "", seed[24] = "", chosen[24] = "-"; /* undefined */
    if (!w->titled)
        tell_title(w, e->runs > 1, seal);
    if (e->runs > 1)
        snprintf(seed, sizeof seed, "%8lld", (long long)e->seed);
    if (seal)
        snprintf(losses, sizeof losses, " %8.4f %8.4f", e->energy, e->nce);
    if (!isnan(value))
        snprintf(chosen, sizeof chosen, "%.4f", value);
    sg_progress_line(&w->progress, "%s%5lld %8.4f%s  %13s  %8.4f  %8.4f  %8.2e  %6.2f%s", seed, (long long)e->epoch,
                     e->bce, losses, chosen, metric_of(e->validation, "micro_f1"), metric_of(e->validation, "macro_f1"),
                     e->lr, e->seconds, e->best ? " *" : "");
}

bool sg_watch_listen(void *user, const sg_train_event *e)
{
    sg_watch *w = user;
    if (e->moment == SG_TRAIN_STARTED)
        tell_start(w, e);
    else if (e->moment == SG_TRAIN_STEP)
        tell_step(w, e);
    else
        tell_epoch(w, e);
    return sg_signal_caught() == 0;
}
