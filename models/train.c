/* train.c - the training loop: one run, or several seeds of a recipe side by side.
 *
 * Runs of a group see the same batches in the same order, so a batch is encoded once and given to all of them before the losses of
 * any are read. On a device that runs on by itself their work then happens at the same time, and the next batch is encoded
 * meanwhile; losses are read SGI_AHEAD batches late. Each run has its own store, session and plan: what it computes does not
 * depend on its company. */
#include <math.h>
#include <string.h>

#include "graph/random_internal.h"
#include "models/train_internal.h"

/* ---- setting up */

static sg_status build_plan(sgi_run *run, sg_error *err)
{
    sg_graph *graph = sg_graph_new();
    if (!graph)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_status status = sg_step_build(graph, run->store, &run->group->step, err);
    if (status == SG_OK) {
        sg_rng_seed(run->store, (uint64_t)run->c->seed, 0);
        sg_store_initialise(run->store, (uint64_t)run->c->seed);
        status = sg_plan_new(&run->plan, run->session, graph, err);
    }
    sg_graph_free(graph);
    return status;
}

static sg_status open_run(sgi_run *run, sg_error *err)
{
    run->real = sg_config_real(run->c);
    run->at.lr = run->c->train.lr;
    run->rates[0] = run->rates[1] = NAN;
    if (!(run->store = sg_store_new(run->real)))
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    SG_TRY(sg_session_new(&run->session, run->store,
                          &(sg_session_options){.size = sizeof(sg_session_options),
                                                .backend = sg_config_backend(run->c),
                                                .precision = run->c->precision,
                                                .threads = (int32_t)run->c->threads},
                          err));
    run->ahead = sg_session_runs_ahead(run->session) ? SGI_AHEAD : 0;
    SG_TRY(build_plan(run, err));
    SG_TRY(sgi_predictor_on(&run->predictor, run->session, &run->group->step, err));
    if (!run->folder)
        return SG_OK;
    size_t size = strlen(run->folder) + sizeof "/model";
    if (!(run->best_path = sg_alloc(size)))
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    snprintf(run->best_path, size, "%s/model", run->folder);
    return SG_OK;
}

static sg_status allocate(sgi_group *g, sg_error *err)
{
    const sg_split *split = &g->d->split;
    int64_t largest = 1, cells, L = g->step.task.labels;
    for (int part = SG_VALIDATION; part <= SG_TEST; part++)
        largest = split->count[part] > largest ? split->count[part] : largest;
    if (!sg_mul_ok(largest, L, &cells))
        return sg_fail(err, SG_E_MEMORY, "the validation or test rows are too many");
    g->order = sg_calloc(split->count[SG_TRAIN], sizeof *g->order);
    g->p = sg_calloc(cells, sizeof *g->p);
    g->y = sg_calloc(cells, sizeof *g->y);
    g->known = sg_calloc(cells, sizeof *g->known);
    if (!g->order || !g->p || !g->y || !g->known)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %lld rows of %lld labels", (long long)largest,
                       (long long)L);
    return sg_batch_new(&g->batch, g->d->data, g->step.batch, g->step.capacity, err);
}

sg_status sgi_group_open(sgi_group *g, const sg_config *config, sg_error *err)
{
    g->c = sg_config_values(config);
    g->step = sg_step_options_of(g->c, g->d->data);
    g->steps = (g->d->split.count[SG_TRAIN] + g->step.batch - 1) / g->step.batch;
    g->order_epoch = -1;
    for (int32_t i = 0; i < g->n; i++) {
        g->run[i].group = g;
        SG_TRY(open_run(&g->run[i], err));
    }
    return allocate(g, err);
}

static void close_run(sgi_run *run)
{
    sg_predictor_free(run->predictor);
    sg_plan_free(run->plan);
    sg_session_free(run->session);
    if (run->result.store != run->store)
        sg_store_free(run->store);
    sg_store_free(run->best_store);
    sg_free(run->best_path);
}

void sgi_group_close(sgi_group *g)
{
    for (int32_t i = 0; i < g->n; i++)
        close_run(&g->run[i]);
    if (g->lock)
        closedir(g->lock);
    sg_batch_free(g->batch);
    sg_free(g->order);
    sg_free(g->p);
    sg_free(g->y);
    sg_free(g->known);
}

/* ---- batches */

/* Fisher-Yates with the order's own seed: the same in every run of a recipe, whatever its seed, and after a resume. */
static void shuffle(sgi_group *g, int64_t epoch)
{
    int64_t n = g->d->split.count[SG_TRAIN];
    uint64_t seed = (uint64_t)g->c->train.order_seed, stream = sg_hash_text("order");
    const int32_t rng[4] = {(int32_t)(uint32_t)seed, (int32_t)(uint32_t)(seed >> 32), 0, 0};
    sg_draw draw = sg_draw_make(stream, rng, (uint64_t)epoch);
    memcpy(g->order, g->d->split.rows[SG_TRAIN], (size_t)n * sizeof *g->order);
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)((uint64_t)sg_random_bits(draw, (uint64_t)i) * (uint64_t)(i + 1) >> 32);
        int64_t row = g->order[i];
        g->order[i] = g->order[j];
        g->order[j] = row;
    }
    g->order_epoch = epoch;
}

static sg_status encode(sgi_group *g, int64_t epoch, int64_t step, sg_error *err)
{
    int64_t from = step * g->step.batch, left = g->d->split.count[SG_TRAIN] - from;
    if (g->order_epoch != epoch)
        shuffle(g, epoch);
    return sg_dataset_batch(g->d->data, g->order + from, left < g->step.batch ? left : g->step.batch, g->batch, err);
}

/* ---- the loop */

/* The run that is furthest behind: runs of a group that was killed may be an epoch apart. NULL: all are over. */
static const sgi_run *hindmost(const sgi_group *g)
{
    const sgi_run *found = NULL;
    for (int32_t i = 0; i < g->n; i++) {
        const sgi_run *run = &g->run[i];
        if (run->over)
            continue;
        if (!found || run->at.epoch < found->at.epoch || (run->at.epoch == found->at.epoch && run->sent < found->sent))
            found = run;
    }
    return found;
}

/* What `call` answers for a run. One run's failure stops all, except that divergence only ends that run if it has company. */
static sg_status account(sgi_run *run, sg_status status, bool alone, sg_error *err)
{
    if (status == SG_OK)
        return SG_OK;
    if (run->folder)
        sgi_folder_status(run, status == SG_E_DIVERGED ? "diverged" : "failed", NULL);
    run->over = true;
    if (alone || status != SG_E_DIVERGED)
        return status;
    run->err = *err;
    return SG_OK;
}

static sg_status collect(sgi_run *run, int64_t leave, bool *go_on, sg_error *err)
{
    while (run->sent - run->at.step > leave)
        SG_TRY(sgi_collect(run, go_on, err));
    return SG_OK;
}

/* Validation and files keep the host busy: the first batches of the next epoch, though not its last, go to the device before the
 * host turns to another run. */
static sg_status send_ahead(sgi_run *run, sg_error *err)
{
    for (int64_t k = 0; k < run->ahead && k + 1 < run->group->steps; k++) {
        SG_TRY(encode(run->group, run->at.epoch, k, err));
        SG_TRY(sgi_send(run, err));
    }
    return SG_OK;
}

static sg_status after_batch(sgi_run *run, bool *go_on, sg_error *err)
{
    bool last = run->sent == run->group->steps;
    SG_TRY(collect(run, last ? 0 : run->ahead, go_on, err));
    if (!last || run->at.step < run->sent)
        return SG_OK;
    SG_TRY(sgi_end_epoch(run, go_on, err));
    run->over = sgi_schedule_over(&run->at, run->c);
    if (run->over)
        return sgi_finish(run, err);
    return *go_on ? send_ahead(run, err) : SG_OK;
}

/* The next batch through every run that is up to it. */
static sg_status advance(sgi_group *g, int64_t epoch, int64_t step, bool alone, bool *go_on, sg_error *err)
{
    SG_TRY(encode(g, epoch, step, err));
    for (int32_t i = 0; i < g->n; i++) {
        sgi_run *run = &g->run[i];
        if (!run->over && run->at.epoch == epoch && run->sent == step)
            SG_TRY(account(run, sgi_send(run, err), alone, err));
    }
    for (int32_t i = 0; i < g->n; i++) {
        sgi_run *run = &g->run[i];
        if (!run->over && run->at.epoch == epoch && run->sent == step + 1)
            SG_TRY(account(run, after_batch(run, go_on, err), alone, err));
    }
    return SG_OK;
}

/* Everything under way is accounted for and kept. */
static sg_status stop(sgi_run *run, sg_error *err)
{
    bool ignored = true;
    SG_TRY(collect(run, 0, &ignored, err));
    if (!run->folder)
        return SG_OK;
    SG_TRY(sgi_folder_checkpoint(run, err));
    return sgi_folder_status(run, "interrupted", err);
}

static sg_status stop_all(sgi_group *g, bool alone, sg_error *err)
{
    for (int32_t i = 0; i < g->n; i++)
        if (!g->run[i].over)
            SG_TRY(account(&g->run[i], stop(&g->run[i], err), alone, err));
    return SG_OK;
}

/* A resumed run may have been stopped behind the last batch of an epoch, or killed behind its last epoch. */
static sg_status begin(sgi_run *run, bool *go_on, sg_error *err)
{
    run->sent = run->at.step;
    *go_on &= sgi_tell(run, SG_TRAIN_STARTED, NULL, false);
    if (run->at.step == run->group->steps)
        return after_batch(run, go_on, err);
    run->over = run->at.step == 0 && sgi_schedule_over(&run->at, run->c);
    return run->over ? sgi_finish(run, err) : SG_OK;
}

sg_status sgi_group_loop(sgi_group *g, bool alone, sg_error *err)
{
    bool go_on = true;
    sg_error here;
    err = err ? err : &here;
    for (int32_t i = 0; i < g->n; i++)
        if (!g->run[i].over)
            SG_TRY(account(&g->run[i], begin(&g->run[i], &go_on, err), alone, err));
    for (const sgi_run *run = hindmost(g); go_on && run; run = hindmost(g))
        SG_TRY(advance(g, run->at.epoch, run->sent, alone, &go_on, err));
    return go_on ? SG_OK : stop_all(g, alone, err);
}

sg_status sg_train(const sg_config *config, sg_training_data *data, const sg_train_options *options,
                   sg_train_result *result, sg_error *err)
{
    sgi_run run = {.config = config, .c = sg_config_values(config), .folder = options->folder};
    sgi_group g = {.d = data, .options = options, .run = &run, .n = 1};
    sg_status status = sgi_group_open(&g, config, err);
    if (status == SG_OK && run.folder)
        status = sgi_folder_open(&run, err);
    if (status == SG_OK)
        status = sgi_group_loop(&g, true, err);
    if (status == SG_OK && !run.result.finished)
        run.result.epoch = run.at.best_epoch;
    sgi_group_close(&g);
    *result = run.result;
    return status;
}
