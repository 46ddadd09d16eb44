/* train_watch.c - what training tells, as messages and progress: of one run, or of several seeds side by side. */
#include "cli/cli.h"

#include <math.h>
#include <string.h>

struct sg_watch {
    const sg_cli *cli;
    const sg_train_config *v;
    sg_progress progress;
    bool begun, titled;
    int32_t runs;
    int64_t updates; /* of parameters, for each batch */
    int64_t *done;   /* [runs] batches */
    double *best;    /* [runs] */
};

sg_watch *sg_watch_new(const sg_cli *cli, const sg_config *config, sg_error *err)
{
    const sg_train_config *v = sg_config_values(config);
    int64_t *seeds;
    int32_t runs;
    if (sg_config_seeds(config, &seeds, &runs, err) != SG_OK)
        return NULL;
    sg_free(seeds);
    sg_watch *w = sg_calloc(1, sizeof *w);
    if (w) {
        *w = (sg_watch){.cli = cli, .v = v, .runs = runs};
        w->updates = v->loss.name == SG_LOSS_SEAL_DYNAMIC ? v->loss.n_task * (v->loss.n_energy + 1) : 1;
        w->done = sg_calloc(runs, sizeof *w->done);
        w->best = sg_calloc(runs, sizeof *w->best);
    }
    if (!w || !w->done || !w->best) {
        sg_watch_free(w);
        sg_fail(err, SG_E_MEMORY, "out of memory");
        return NULL;
    }
    for (int32_t i = 0; i < runs; i++)
        w->best[i] = NAN;
    return w;
}

void sg_watch_free(sg_watch *w)
{
    if (!w)
        return;
    sg_free(w->done);
    sg_free(w->best);
    sg_free(w);
}

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
    char seed[48] = "";
    if (!w->begun)
        tell_all(w, e);
    if (e->runs > 1)
        snprintf(seed, sizeof seed, "seed %lld ", (long long)e->seed);
    if (e->resumed)
        sg_cli_log(w->cli, "resume", "%sfrom epoch %lld, batch %lld", seed, (long long)e->epoch,
                   (long long)e->step + 1);
    if (!w->begun && e->runs > 1)
        sg_progress_begin(&w->progress, w->cli, "updates", e->runs * e->epochs * e->steps * w->updates);
    else if (!w->begun)
        sg_progress_begin(&w->progress, w->cli, "batches", e->epochs * e->steps);
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
    int64_t done = 0;
    w->done[e->run] = (e->epoch - 1) * e->steps + e->step;
    for (int32_t i = 0; i < w->runs; i++)
        done += w->done[i];
    snprintf(text, sizeof text, "epoch %lld  bce %.4f  best %s %.4f", (long long)e->epoch, e->bce, w->v->train.metric,
             w->best[e->run]);
    sg_progress_update(&w->progress, w->runs > 1 ? done * w->updates : done, text);
}

static void tell_title(sg_watch *w, bool seal)
{
    sg_progress_line(&w->progress, "%s%s   ep      bce%s  %13s  micro_f1  macro_f1        lr    s/ep%s",
                     sg_paint(w->cli->color_err, SG_STYLE_BOLD), w->runs > 1 ? "    seed" : "",
                     seal ? "   energy      nce" : "", w->v->train.metric, sg_paint(w->cli->color_err, SG_STYLE_RESET));
    w->titled = true;
}

static void tell_epoch(sg_watch *w, const sg_train_event *e)
{
    bool seal = w->v->loss.name == SG_LOSS_SEAL_DYNAMIC;
    double value = metric_of(e->validation, w->v->train.metric);
    char losses[64] = "", seed[24] = "";
    if (e->best)
        w->best[e->run] = value;
    if (!w->titled)
        tell_title(w, seal);
    if (w->runs > 1)
        snprintf(seed, sizeof seed, "%8lld", (long long)e->seed);
    if (seal)
        snprintf(losses, sizeof losses, " %8.4f %8.4f", e->energy, e->nce);
    sg_progress_line(&w->progress, "%s%5lld %8.4f%s  %13.4f  %8.4f  %8.4f  %8.2e  %6.2f%s", seed, (long long)e->epoch,
                     e->bce, losses, value, metric_of(e->validation, "micro_f1"), metric_of(e->validation, "macro_f1"),
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
