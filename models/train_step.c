/* train_step.c - what one run does: a batch through its compiled step, losses, validation, the best epoch. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "models/train_internal.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool is_seal(const sgi_run *run) { return run->group->step.loss == SG_LOSS_SEAL_DYNAMIC; }

/* ---- telling */

bool sgi_tell(sgi_run *run, sg_train_moment moment, const sg_metrics *validation, bool best)
{
    const sgi_group *g = run->group;
    if (!g->options->listener)
        return true;
    bool seal = is_seal(run);
    double done = (double)(moment == SG_TRAIN_EPOCH ? g->steps : run->at.step);
    sg_train_event e = {
        .moment = moment,
        .seed = run->c->seed,
        .run = (int32_t)(run - g->run),
        .runs = g->n,
        .epoch = run->at.epoch + (moment != SG_TRAIN_EPOCH),
        .step = run->at.step,
        .epochs = g->c->train.epochs,
        .steps = g->steps,
        .bce = run->at.sums[0] / done,
        .energy = seal ? run->at.sums[1] / done : NAN,
        .nce = seal ? run->at.sums[2] / done : NAN,
        .lr = sgi_schedule_rate(run, run->at.epoch * g->steps + (moment == SG_TRAIN_EPOCH ? 0 : run->at.step)),
        .seconds = moment == SG_TRAIN_STARTED ? 0 : now() - run->epoch_start,
        .best_value = run->at.best_epoch ? run->at.best : NAN,
        .validation = validation,
        .best = best,
        .resumed = run->resumed,
        .task_parameters = sg_mlc_task_parameters(&g->step.task),
        .energy_parameters = seal ? sg_mlc_score_parameters(&g->step.energy) : 0,
        .features = g->step.task.inputs,
        .labels = g->step.task.labels,
        .device = g->device};
    memcpy(e.rows, g->d->split.count, sizeof e.rows);
    for (int32_t i = 0; i < g->n; i++) {
        const sgi_progress *at = &g->run[i].at;
        bool counted = moment == SG_TRAIN_EPOCH && at->step == g->steps; /* among the epochs */
        int64_t batches = at->epoch * g->steps + (counted ? 0 : at->step);
        e.done += batches;
        e.left += g->run[i].over ? 0 : g->c->train.epochs * g->steps - batches;
    }
    return g->options->listener(g->options->user, &e);
}

/* ---- a batch */

/* A rate that stays as it is costs nothing. */
static sg_status set_rate(sgi_run *run, int which, double rate, sg_error *err)
{
    static const char *const names[] = {"task/lr", "energy/lr"};
    if (rate == run->rates[which])
        return SG_OK;
    run->rates[which] = rate;
    return sg_store_set(run->store, names[which], &rate, 1, err);
}

sg_status sgi_set_rates(sgi_run *run, sg_error *err)
{
    const sgi_group *g = run->group;
    if (run->epoch_start == 0)
        run->epoch_start = now();
    SG_TRY(set_rate(run, 0, sgi_schedule_rate(run, run->at.epoch * g->steps + run->sent), err));
    return is_seal(run) ? set_rate(run, 1, g->c->train.energy_lr, err) : SG_OK;
}

static sg_status diverged(const sgi_run *run, const char *name, float loss, sg_error *err)
{
    char kept[128] = "", seed[48] = "";
    if (run->folder && run->at.epoch > 0)
        snprintf(kept, sizeof kept, "; checkpoint.safetensors holds the end of epoch %lld", (long long)run->at.epoch);
    if (run->group->n > 1)
        snprintf(seed, sizeof seed, "seed %lld: ", (long long)run->c->seed);
    return sg_fail(err, SG_E_DIVERGED, "%sloss '%s' is %f in epoch %lld, batch %lld: try a smaller learning rate%s",
                   seed, name, isnan(loss) ? NAN : (double)loss, (long long)run->at.epoch + 1,
                   (long long)run->at.step + 1, kept);
}

sg_status sgi_collect(sgi_run *run, bool *go_on, sg_error *err)
{
    static const char *const names[SGI_LOSSES] = {"bce", "energy", "nce"};
    int32_t slot = (int32_t)(run->at.step % SG_POSTS);
    for (int k = 0; k < (is_seal(run) ? SGI_LOSSES : 1); k++) {
        float loss;
        SG_TRY(sgi_posted_floats(run->group->team.plan, run->real, slot, run->replica, names[k], &loss, 1, err));
        if (!isfinite(loss))
            return diverged(run, names[k], loss, err);
        run->at.sums[k] += (double)loss;
    }
    run->at.step++;
    *go_on &= sgi_tell(run, SG_TRAIN_STEP, NULL, false);
    return SG_OK;
}

/* ---- validation */

static const float *known_of(const sgi_group *g) { return g->d->data->unknown_indptr ? g->known : NULL; }

/* The predictions and the truth of a part are there. */
static sg_status measure(sgi_run *run, sg_part part, bool ranking, sg_metrics *out, sg_error *err)
{
    const sgi_group *g = run->group;
    int64_t L = g->step.task.labels;
    float *thresholds = sg_calloc(L, sizeof *thresholds);
    if (!thresholds)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int64_t i = 0; i < L; i++)
        thresholds[i] = (float)run->c->train.threshold;
    sg_status status =
        sg_metrics_multilabel(out, run->p, g->y, known_of(g), g->d->split.count[part], L, thresholds, ranking, err);
    sg_free(thresholds);
    return status;
}

static sg_status predict(sgi_group *g, sg_part part, sg_error *err)
{
    SG_TRY(sgi_team_predict(g, part, err));
    sg_dataset_gold(g->d->data, g->d->split.rows[part], g->d->split.count[part], g->y, known_of(g) ? g->known : NULL);
    return SG_OK;
}

/* ---- the end of an epoch: what is done of several runs at a time touches one run each */

static void judge(sgi_run *run)
{
    const char *name = run->c->train.metric;
    bool ranking = strncmp(name, "map", 3) == 0;
    run->err.status = SG_OK;
    if (measure(run, SG_VALIDATION, ranking, &run->validation, &run->err) != SG_OK)
        return;
    const sg_metric *metric = sg_metrics_find(&run->validation, name);
    run->best = sgi_schedule(&run->at, run->c, metric && metric->defined ? metric->value : 0);
}

/* Bring home what is about to be written: only one thread at a time may ask a device for something. A run that goes on meanwhile
 * leaves its values where they are. */
static sg_status fetch(sgi_run *run, sg_error *err)
{
    const sgi_team *t = &run->group->team;
    if (!run->folder && !run->best)
        return SG_OK;
    if (t->ahead)
        return sg_shadow_refresh(&run->shadow, t->session, run->replica, err);
    for (int32_t i = 0; i < sg_store_count(run->store); i++)
        sg_store_read(run->store, i);
    return SG_OK;
}

/* The run as it is, with a store of its own if the run's goes on. */
static void freeze(sgi_run *run)
{
    sgi_run *past = run->past;
    *past = *run;
    run->writing = true;
    if (run->group->team.ahead)
        past->store = run->shadow.store;
}

static sg_status keep_best(sgi_run *past, sg_error *err)
{
    if (past->folder)
        return sgi_folder_model(past, err);
    sg_store_free(past->best_store);
    past->best_store = sg_store_copy(past->store, past->real);
    return past->best_store ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
}

static void start_anew(sgi_run *run)
{
    run->at.step = run->sent = 0;
    memset(run->at.sums, 0, sizeof run->at.sums);
}

static void write_files(sgi_run *past)
{
    if (past->best && keep_best(past, &past->err) != SG_OK)
        return;
    if (past->folder && sgi_folder_log(past, &past->validation, past->seconds, &past->err) != SG_OK)
        return;
    start_anew(past);
    if (past->folder)
        sgi_folder_checkpoint(past, &past->err);
}

/* A failure of one of the runs. */
static sg_status failure_of(sgi_run *const *run, int32_t n, sg_error *err)
{
    for (int32_t i = 0; i < n; i++)
        if (run[i]->err.status != SG_OK) {
            *err = run[i]->err;
            return sgi_account(run[i], err->status, true, err);
        }
    return SG_OK;
}

static sg_status each(sgi_group *g, void (*body)(sgi_run *run), sg_error *err)
{
    int32_t threads = g->n_ended > 1 ? sg_session_threads(g->team.session) : 0;
    SG_TRY(sgi_crew_start(&g->crew, g->ended, g->n_ended, threads, body, err));
    sgi_crew_wait(&g->crew);
    return failure_of(g->ended, g->n_ended, err);
}

static void for_past(sgi_run *run) { write_files(run->past); }

sg_status sgi_files_done(sgi_group *g, sg_error *err)
{
    sg_status status = SG_OK;
    sgi_crew_wait(&g->crew);
    for (int32_t i = 0; i < g->n; i++) {
        sgi_run *run = &g->run[i], *past = run->past;
        if (!run->writing)
            continue;
        run->writing = false;
        run->best_store = past->best_store;
        if (status == SG_OK && past->err.status != SG_OK)
            status = failure_of(&past, 1, err);
        run->over |= past->over;
    }
    return status;
}

static void find_ended(sgi_group *g)
{
    g->n_ended = 0;
    for (int32_t i = 0; i < g->team.n; i++)
        if (!g->team.run[i]->over && g->team.run[i]->at.step == g->steps)
            g->ended[g->n_ended++] = g->team.run[i];
}

sg_status sgi_end_epochs(sgi_group *g, bool *go_on, sg_error *err)
{
    int32_t threads = sg_session_threads(g->team.session);
    SG_TRY(sgi_files_done(g, err));
    find_ended(g);
    if (g->n_ended == 0)
        return SG_OK;
    SG_TRY(predict(g, SG_VALIDATION, err));
    SG_TRY(each(g, judge, err));
    for (int32_t i = 0; i < g->n_ended; i++)
        SG_TRY(fetch(g->ended[i], err));
    SG_TRY(sg_session_wait(g->team.session, err));
    for (int32_t i = 0; i < g->n_ended; i++) {
        g->ended[i]->seconds = now() - g->ended[i]->epoch_start;
        freeze(g->ended[i]);
    }
    SG_TRY(
        sgi_crew_start(&g->crew, g->ended, g->n_ended, g->team.ahead || g->n_ended > 1 ? threads : 0, for_past, err));
    for (int32_t i = 0; i < g->n_ended; i++) {
        sgi_run *run = g->ended[i];
        *go_on &= sgi_tell(run, SG_TRAIN_EPOCH, &run->validation, run->best);
        start_anew(run);
        run->epoch_start = 0;
    }
    return g->team.ahead ? SG_OK : sgi_files_done(g, err);
}

/* ---- the end */

static sg_status restore_best(sgi_run *run, sg_error *err)
{
    if (run->folder)
        return sgi_folder_restore_best(run, err);
    for (int32_t i = 0; i < sg_store_count(run->store); i++) {
        sg_entry *to = sg_store_at(run->store, i);
        const sg_entry *from = sg_store_read(run->best_store, i);
        size_t width = to->dtype == SG_I32 ? sizeof(int32_t) : sg_dtype_size(run->real);
        memcpy(to->data, from->data, (size_t)sg_shape_count(&to->shape) * width);
    }
    return SG_OK;
}

sg_status sgi_finish(sgi_run *run, sg_error *err)
{
    sg_train_result *result = &run->result;
    SG_TRY(restore_best(run, err));
    SG_TRY(predict(run->group, SG_VALIDATION, err));
    SG_TRY(measure(run, SG_VALIDATION, true, &result->best, err));
    if (run->group->d->split.count[SG_TEST]) {
        SG_TRY(predict(run->group, SG_TEST, err));
        SG_TRY(measure(run, SG_TEST, true, &result->test, err));
    }
    result->finished = true;
    result->epoch = run->at.best_epoch;
    if (run->folder)
        return sgi_folder_finish(run, sgi_result_json(result), err);
    result->store = run->store;
    return SG_OK;
}
