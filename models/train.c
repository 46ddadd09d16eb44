/* train.c - the training loop: batches through the compiled step, validation, the best epoch, the end. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "graph/random_internal.h"
#include "models/train_internal.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- setting up */

static sg_status build_plan(sgi_run *run, sg_error *err)
{
    sg_graph *graph = sg_graph_new();
    if (!graph)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_status status = sg_step_build(graph, run->store, &run->step, err);
    if (status == SG_OK) {
        sg_rng_seed(run->store, (uint64_t)run->c->seed, 0);
        sg_store_initialise(run->store, (uint64_t)run->c->seed);
        status = sg_plan_new(&run->plan, run->session, graph, err);
    }
    sg_graph_free(graph);
    return status;
}

static sg_status allocate(sgi_run *run, sg_error *err)
{
    const sg_split *split = &run->d->split;
    int64_t largest = 1, cells, L = run->step.task.labels;
    for (int part = SG_VALIDATION; part <= SG_TEST; part++)
        largest = split->count[part] > largest ? split->count[part] : largest;
    if (!sg_mul_ok(largest, L, &cells))
        return sg_fail(err, SG_E_MEMORY, "the validation or test rows are too many");
    run->order = sg_calloc(split->count[SG_TRAIN], sizeof *run->order);
    run->p = sg_calloc(cells, sizeof *run->p);
    run->y = sg_calloc(cells, sizeof *run->y);
    run->known = sg_calloc(cells, sizeof *run->known);
    if (!run->order || !run->p || !run->y || !run->known)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %lld rows of %lld labels", (long long)largest,
                       (long long)L);
    return sg_batch_new(&run->batch, run->d->data, run->step.batch, run->step.capacity, err);
}

static sg_status set_up(sgi_run *run, sg_error *err)
{
    run->real = sg_config_real(run->c);
    run->step = sg_step_options_of(run->c, run->d->data);
    run->steps = (run->d->split.count[SG_TRAIN] + run->step.batch - 1) / run->step.batch;
    run->at.lr = run->c->train.lr;
    if (!(run->store = sg_store_new(run->real)))
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    SG_TRY(sg_session_new(&run->session, run->store,
                          &(sg_session_options){.size = sizeof(sg_session_options),
                                                .backend = sg_config_backend(run->c),
                                                .precision = run->c->precision,
                                                .threads = (int32_t)run->c->threads},
                          err));
    SG_TRY(build_plan(run, err));
    SG_TRY(sgi_predictor_on(&run->predictor, run->session, &run->step, err));
    SG_TRY(allocate(run, err));
    if (!run->options->folder)
        return SG_OK;
    size_t size = strlen(run->options->folder) + sizeof "/model";
    if (!(run->best_path = sg_alloc(size)))
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    snprintf(run->best_path, size, "%s/model", run->options->folder);
    return sgi_folder_open(run, err);
}

static void tear_down(sgi_run *run)
{
    sg_predictor_free(run->predictor);
    sg_plan_free(run->plan);
    sg_session_free(run->session);
    sg_batch_free(run->batch);
    sg_store_free(run->store);
    sg_store_free(run->best_store);
    sg_free(run->order);
    sg_free(run->p);
    sg_free(run->y);
    sg_free(run->known);
    sg_free(run->best_path);
}

/* ---- telling */

static bool tell(sgi_run *run, sg_train_moment moment, const sg_metrics *validation, bool best, double seconds)
{
    if (!run->options->listener)
        return true;
    const sg_split *split = &run->d->split;
    bool seal = run->step.loss == SG_LOSS_SEAL_DYNAMIC;
    double done = (double)(moment == SG_TRAIN_EPOCH ? run->steps : run->at.step);
    sg_train_event e = {
        .moment = moment,
        .epoch = run->at.epoch + (moment != SG_TRAIN_EPOCH),
        .step = run->at.step,
        .epochs = run->c->train.epochs,
        .steps = run->steps,
        .bce = run->at.sums[0] / done,
        .energy = seal ? run->at.sums[1] / done : NAN,
        .nce = seal ? run->at.sums[2] / done : NAN,
        .lr = sgi_schedule_rate(run, run->at.epoch * run->steps + (moment == SG_TRAIN_EPOCH ? 0 : run->at.step)),
        .seconds = seconds,
        .validation = validation,
        .best = best,
        .resumed = run->resumed,
        .task_parameters = sg_mlc_task_parameters(&run->step.task),
        .energy_parameters = seal ? sg_mlc_score_parameters(&run->step.energy) : 0,
        .features = run->step.task.inputs,
        .labels = run->step.task.labels,
        .device = sg_session_describe(run->session)};
    memcpy(e.rows, split->count, sizeof e.rows);
    return run->options->listener(run->options->user, &e);
}

/* ---- one epoch */

/* Fisher-Yates with the order's own seed: the same in every run of a recipe, whatever its seed, and after a resume. */
static void shuffle(sgi_run *run)
{
    int64_t n = run->d->split.count[SG_TRAIN];
    uint64_t seed = (uint64_t)run->c->train.order_seed, stream = sg_hash_text("order");
    const int32_t rng[4] = {(int32_t)(uint32_t)seed, (int32_t)(uint32_t)(seed >> 32), 0, 0};
    sg_draw draw = sg_draw_make(stream, rng, (uint64_t)run->at.epoch);
    memcpy(run->order, run->d->split.rows[SG_TRAIN], (size_t)n * sizeof *run->order);
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)((uint64_t)sg_random_bits(draw, (uint64_t)i) * (uint64_t)(i + 1) >> 32);
        int64_t row = run->order[i];
        run->order[i] = run->order[j];
        run->order[j] = row;
    }
}

static sg_status set_rates(sgi_run *run, sg_error *err)
{
    double rate = sgi_schedule_rate(run, run->at.epoch * run->steps + run->at.step);
    SG_TRY(sg_store_set(run->store, "task/lr", &rate, 1, err));
    if (run->step.loss == SG_LOSS_SEAL_DYNAMIC)
        SG_TRY(sg_store_set(run->store, "energy/lr", &run->c->train.energy_lr, 1, err));
    return SG_OK;
}

static sg_status diverged(const sgi_run *run, const char *name, float loss, sg_error *err)
{
    const char *folder = run->options->folder;
    char kept[128] = "";
    if (folder && run->at.epoch > 0)
        snprintf(kept, sizeof kept, "; checkpoint.safetensors holds the end of epoch %lld", (long long)run->at.epoch);
    return sg_fail(err, SG_E_DIVERGED, "loss '%s' is %f in epoch %lld, batch %lld: try a smaller learning rate%s", name,
                   (double)loss, (long long)run->at.epoch + 1, (long long)run->at.step + 1, kept);
}

static sg_status one_step(sgi_run *run, sg_error *err)
{
    static const char *names[SGI_LOSSES] = {"bce", "energy", "nce"};
    int64_t from = run->at.step * run->step.batch, left = run->d->split.count[SG_TRAIN] - from;
    int losses = run->step.loss == SG_LOSS_SEAL_DYNAMIC ? SGI_LOSSES : 1;
    SG_TRY(sg_dataset_batch(run->d->data, run->order + from, left < run->step.batch ? left : run->step.batch,
                            run->batch, err));
    SG_TRY(sgi_feed_batch(run->plan, run->real, run->batch, err));
    SG_TRY(set_rates(run, err));
    SG_TRY(sg_plan_run(run->plan, err));
    for (int k = 0; k < losses; k++) {
        float loss;
        SG_TRY(sgi_fetch_floats(run->plan, run->real, names[k], &loss, 1, err));
        if (!isfinite(loss))
            return diverged(run, names[k], loss, err);
        run->at.sums[k] += (double)loss;
    }
    run->at.step++;
    return SG_OK;
}

static sg_status measure(sgi_run *run, sg_part part, bool ranking, sg_metrics *out, sg_error *err)
{
    const int64_t *rows = run->d->split.rows[part];
    int64_t n = run->d->split.count[part], L = run->step.task.labels;
    SG_TRY(sg_predictor_run(run->predictor, run->d->data, rows, n, run->p, err));
    bool unknown = run->d->data->unknown_indptr != NULL;
    memset(run->y, 0, (size_t)(n * L) * sizeof *run->y);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = run->d->data->label_indptr[rows[i]]; k < run->d->data->label_indptr[rows[i] + 1]; k++)
            run->y[i * L + run->d->data->label_index[k]] = 1;
        for (int64_t k = 0; unknown && k < L; k++)
            run->known[i * L + k] = 1;
        for (int64_t k = unknown ? run->d->data->unknown_indptr[rows[i]] : 0;
             unknown && k < run->d->data->unknown_indptr[rows[i] + 1]; k++)
            run->known[i * L + run->d->data->unknown_index[k]] = 0;
    }
    float *thresholds = sg_calloc(L, sizeof *thresholds);
    if (!thresholds)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int64_t i = 0; i < L; i++)
        thresholds[i] = (float)run->c->train.threshold;
    sg_status status =
        sg_metrics_multilabel(out, run->p, run->y, unknown ? run->known : NULL, n, L, thresholds, ranking, err);
    sg_free(thresholds);
    return status;
}

static sg_status keep_best(sgi_run *run, sg_error *err)
{
    if (run->options->folder)
        return sgi_folder_model(run, err);
    sg_store_free(run->best_store);
    run->best_store = sg_store_copy(run->store, run->real);
    return run->best_store ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
}

static sg_status end_epoch(sgi_run *run, double seconds, bool *go_on, sg_error *err)
{
    sg_metrics validation;
    SG_TRY(measure(run, SG_VALIDATION, strncmp(run->c->train.metric, "map", 3) == 0, &validation, err));
    const sg_metric *metric = sg_metrics_find(&validation, run->c->train.metric);
    double value = metric && metric->defined ? metric->value : 0;
    bool best = sgi_schedule(&run->at, run->c, value);
    if (best)
        SG_TRY(keep_best(run, err));
    if (run->options->folder)
        SG_TRY(sgi_folder_log(run, &validation, seconds, err));
    *go_on = tell(run, SG_TRAIN_EPOCH, &validation, best, seconds);
    run->at.step = 0;
    memset(run->at.sums, 0, sizeof run->at.sums);
    return run->options->folder ? sgi_folder_checkpoint(run, err) : SG_OK;
}

static sg_status one_epoch(sgi_run *run, bool *go_on, sg_error *err)
{
    double start = now();
    shuffle(run);
    while (run->at.step < run->steps) {
        SG_TRY(one_step(run, err));
        if (!tell(run, SG_TRAIN_STEP, NULL, false, now() - start)) {
            *go_on = false;
            return run->options->folder ? sgi_folder_checkpoint(run, err) : SG_OK;
        }
    }
    return end_epoch(run, now() - start, go_on, err);
}

/* ---- the run */

static sg_status restore_best(sgi_run *run, sg_error *err)
{
    if (run->options->folder)
        return sgi_folder_restore_best(run, err);
    for (int32_t i = 0; i < sg_store_count(run->store); i++) {
        sg_entry *to = sg_store_at(run->store, i);
        const sg_entry *from = sg_store_read(run->best_store, i);
        size_t width = to->dtype == SG_I32 ? sizeof(int32_t) : sg_dtype_size(run->real);
        memcpy(to->data, from->data, (size_t)sg_shape_count(&to->shape) * width);
    }
    return SG_OK;
}

static sg_status finish(sgi_run *run, sg_train_result *result, sg_error *err)
{
    result->finished = true;
    result->epoch = run->at.best_epoch;
    SG_TRY(restore_best(run, err));
    SG_TRY(measure(run, SG_VALIDATION, true, &result->best, err));
    if (run->d->split.count[SG_TEST])
        SG_TRY(measure(run, SG_TEST, true, &result->test, err));
    if (run->options->folder)
        return sgi_folder_finish(run, result, err);
    result->store = run->store;
    run->store = NULL;
    return SG_OK;
}

static sg_status loop(sgi_run *run, sg_train_result *result, sg_error *err)
{
    bool go_on = tell(run, SG_TRAIN_STARTED, NULL, false, 0);
    while (go_on && !sgi_schedule_over(&run->at, run->c))
        SG_TRY(one_epoch(run, &go_on, err));
    if (sgi_schedule_over(&run->at, run->c) && run->at.step == 0)
        return finish(run, result, err);
    result->epoch = run->at.best_epoch;
    return run->options->folder ? sgi_folder_status(run, "interrupted", err) : SG_OK;
}

sg_status sg_train(const sg_config *config, sg_training_data *data, const sg_train_options *options,
                   sg_train_result *result, sg_error *err)
{
    sgi_run run = {.config = config, .c = sg_config_values(config), .d = data, .options = options};
    memset(result, 0, sizeof *result);
    sg_status status = set_up(&run, err);
    if (status == SG_OK) {
        status = loop(&run, result, err);
        if (status != SG_OK && options->folder)
            sgi_folder_status(&run, status == SG_E_DIVERGED ? "diverged" : "failed", NULL);
    }
    tear_down(&run);
    return status;
}
