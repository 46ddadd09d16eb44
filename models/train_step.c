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
        .validation = validation,
        .best = best,
        .resumed = run->resumed,
        .task_parameters = sg_mlc_task_parameters(&g->step.task),
        .energy_parameters = seal ? sg_mlc_score_parameters(&g->step.energy) : 0,
        .features = g->step.task.inputs,
        .labels = g->step.task.labels,
        .device = g->device};
    memcpy(e.rows, g->d->split.count, sizeof e.rows);
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

static sg_status keep_best(sgi_run *run, sg_error *err)
{
    if (run->folder)
        return sgi_folder_model(run, err);
    sg_store_free(run->best_store);
    run->best_store = sg_store_copy(run->store, run->real);
    return run->best_store ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
}

/* ---- the end of an epoch, of several runs at a time: each of these touches one run */

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

static void keep(sgi_run *run)
{
    if (run->best && keep_best(run, &run->err) != SG_OK)
        return;
    if (run->folder)
        sgi_folder_log(run, &run->validation, now() - run->epoch_start, &run->err);
}

static void save(sgi_run *run)
{
    if (run->folder)
        sgi_folder_checkpoint(run, &run->err);
}

/* Bring home what is about to be written: only one thread at a time may ask a device for something. */
static void fetch(const sgi_run *run)
{
    for (int32_t i = 0; (run->folder || run->best) && i < sg_store_count(run->store); i++)
        sg_store_read(run->store, i);
}

static sg_status each(const sgi_group *g, sgi_run **run, int32_t n, void (*body)(sgi_run *run), sg_error *err)
{
    sgi_team_each(&g->team, run, n, body);
    for (int32_t i = 0; i < n; i++)
        if (run[i]->err.status != SG_OK) {
            *err = run[i]->err;
            return sgi_account(run[i], err->status, true, err);
        }
    return SG_OK;
}

sg_status sgi_end_epochs(sgi_group *g, sgi_run **run, int32_t n, bool *go_on, sg_error *err)
{
    SG_TRY(predict(g, SG_VALIDATION, err));
    SG_TRY(each(g, run, n, judge, err));
    for (int32_t i = 0; i < n; i++)
        fetch(run[i]);
    SG_TRY(each(g, run, n, keep, err));
    for (int32_t i = 0; i < n; i++) {
        *go_on &= sgi_tell(run[i], SG_TRAIN_EPOCH, &run[i]->validation, run[i]->best);
        run[i]->at.step = run[i]->sent = 0;
        run[i]->epoch_start = 0;
        memset(run[i]->at.sums, 0, sizeof run[i]->at.sums);
    }
    return each(g, run, n, save, err);
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
        return sgi_folder_finish(run, result, err);
    result->store = run->store;
    return SG_OK;
}
