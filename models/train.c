/* train.c - the training loop: one run, or several seeds of a recipe side by side.
 *
 * Runs of a group see the same batches in the same order. Those that are at the same batch are a team: replicas of one session, for
 * which a batch is encoded and sent once, and whose steps are one step of the device. They part when one is over, and runs that a
 * resumed group has left behind catch up first; a session is then opened anew. Each run has its own store, and what it computes
 * does not depend on its company.
 *
 * On a device that runs on by itself the next batch is encoded meanwhile, and losses are read SGI_AHEAD batches late. */
#include <math.h>
#include <string.h>

#include "graph/random_internal.h"
#include "models/train_internal.h"

/* ---- setting up */

/* The step's graph names the entries of the store. */
static sg_status make_entries(sgi_run *run, sg_error *err)
{
    sg_graph *graph = sg_graph_new();
    if (!graph)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_status status = sg_step_build(graph, run->store, &run->group->step, err);
    sg_graph_free(graph);
    SG_TRY(status);
    sg_rng_seed(run->store, (uint64_t)run->c->seed, 0);
    sg_store_initialise(run->store, (uint64_t)run->c->seed);
    return SG_OK;
}

static sg_status open_run(sgi_run *run, sg_error *err)
{
    run->real = sg_config_real(run->c);
    run->at.lr = run->c->train.lr;
    run->rates[0] = run->rates[1] = NAN;
    run->past = sg_calloc(1, sizeof *run->past);
    if (!run->past || !(run->store = sg_store_new(run->real)))
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    SG_TRY(make_entries(run, err));
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
    int64_t largest = 1, cells, all, L = g->step.task.labels;
    for (int part = SG_VALIDATION; part <= SG_TEST; part++)
        largest = split->count[part] > largest ? split->count[part] : largest;
    if (!sg_mul_ok(largest, L, &cells) || !sg_mul_ok(cells, g->n, &all))
        return sg_fail(err, SG_E_MEMORY, "the validation or test rows are too many");
    g->order = sg_calloc(split->count[SG_TRAIN], sizeof *g->order);
    g->p = sg_calloc(all, sizeof *g->p);
    g->y = sg_calloc(cells, sizeof *g->y);
    g->known = sg_calloc(cells, sizeof *g->known);
    g->team.run = sg_calloc(g->n, sizeof *g->team.run);
    g->ended = sg_calloc(g->n, sizeof *g->ended);
    if (!g->order || !g->p || !g->y || !g->known || !g->team.run || !g->ended)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %lld rows of %lld labels", (long long)largest,
                       (long long)L);
    for (int32_t i = 0; i < g->n; i++)
        g->run[i].p = g->p + i * cells;
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
    SG_TRY(allocate(g, err));
    return sgi_team_open(g, NULL, NULL, err);
}

static void close_run(sgi_run *run)
{
    if (run->result.store != run->store)
        sg_store_free(run->store);
    sg_store_free(run->best_store);
    sg_free(run->best_path);
    sg_free(run->past);
}

void sgi_group_close(sgi_group *g)
{
    sg_error unused;
    sgi_files_done(g, &unused);
    sgi_team_close(&g->team);
    sgi_unlock(g);
    sg_free(g->team.run);
    sg_free(g->ended);
    for (int32_t i = 0; i < g->n; i++)
        close_run(&g->run[i]);
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

static bool beside(const sgi_run *run, const sgi_run *other)
{
    return !run->over && run->at.epoch == other->at.epoch && run->sent == other->sent;
}

/* Is the team all runs beside this one, and no other? */
static bool is_team_of(const sgi_group *g, const sgi_run *run)
{
    int32_t n = 0;
    for (int32_t i = 0; i < g->n; i++)
        n += beside(&g->run[i], run);
    for (int32_t i = 0; i < g->team.n; i++)
        n -= beside(g->team.run[i], run) ? 1 : n + 1;
    return n == 0;
}

static bool under_way(const sgi_group *g)
{
    bool found = false;
    for (int32_t i = 0; i < g->team.n; i++)
        found |= !g->team.run[i]->over && g->team.run[i]->sent > g->team.run[i]->at.step;
    return found;
}

sg_status sgi_account(sgi_run *run, sg_status status, bool alone, sg_error *err)
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

/* The losses of all batches under way but the `leave` newest. */
static sg_status collect(sgi_group *g, int64_t leave, bool alone, bool *go_on, sg_error *err)
{
    for (bool more = true; more;) {
        more = false;
        for (int32_t i = 0; i < g->team.n; i++) {
            sgi_run *run = g->team.run[i];
            if (run->over || run->sent - run->at.step <= leave)
                continue;
            SG_TRY(sgi_account(run, sgi_collect(run, go_on, err), alone, err));
            more = true;
        }
    }
    return SG_OK;
}

/* Of the runs whose epoch is done; then those that are over are finished. */
static sg_status end_epochs(sgi_group *g, bool *go_on, sg_error *err)
{
    SG_TRY(sgi_end_epochs(g, go_on, err));
    for (int32_t i = 0; i < g->n_ended; i++) {
        sgi_run *run = g->ended[i];
        run->over = sgi_schedule_over(&run->at, run->c);
        if (!run->over)
            continue;
        SG_TRY(sgi_files_done(g, err));
        SG_TRY(sgi_finish(run, err));
    }
    return SG_OK;
}

/* The next batch through the team. */
static sg_status advance(sgi_group *g, bool alone, bool *go_on, sg_error *err)
{
    const sgi_run *first = g->team.run[0];
    SG_TRY(encode(g, first->at.epoch, first->sent, err));
    SG_TRY(sgi_team_send(g, err));
    bool last = first->sent == g->steps;
    SG_TRY(collect(g, last ? 0 : g->team.ahead, alone, go_on, err));
    return last ? end_epochs(g, go_on, err) : SG_OK;
}

/* Everything under way is accounted for and kept. */
static sg_status stop(sgi_group *g, bool alone, sg_error *err)
{
    bool ignored = true;
    SG_TRY(collect(g, 0, alone, &ignored, err));
    SG_TRY(sgi_files_done(g, err));
    for (int32_t i = 0; i < g->n; i++) {
        sgi_run *run = &g->run[i];
        if (run->over || !run->folder)
            continue;
        SG_TRY(sgi_account(run, sgi_folder_checkpoint(run, err), alone, err));
        SG_TRY(sgi_account(run, sgi_folder_status(run, "interrupted", err), alone, err));
    }
    return SG_OK;
}

/* A resumed run may have been stopped behind the last batch of an epoch, or killed behind its last epoch. */
static sg_status begin(sgi_group *g, bool *go_on, sg_error *err)
{
    for (int32_t i = 0; i < g->n; i++) {
        sgi_run *run = &g->run[i];
        if (run->over)
            continue;
        run->sent = run->at.step;
        *go_on &= sgi_tell(run, SG_TRAIN_STARTED, NULL, false);
        run->over = run->at.step == 0 && sgi_schedule_over(&run->at, run->c);
        if (run->over)
            SG_TRY(sgi_finish(run, err));
    }
    return end_epochs(g, go_on, err);
}

/* Until nothing is left to do, or the listener wants to stop. */
static sg_status go(sgi_group *g, bool alone, bool *go_on, sg_error *err)
{
    SG_TRY(begin(g, go_on, err));
    for (const sgi_run *run = hindmost(g); *go_on && run; run = hindmost(g)) {
        if (is_team_of(g, run))
            SG_TRY(advance(g, alone, go_on, err));
        else if (under_way(g))
            SG_TRY(collect(g, 0, alone, go_on, err));
        else {
            SG_TRY(sgi_files_done(g, err)); /* the team has what is being written */
            SG_TRY(sgi_team_open(g, beside, run, err));
        }
    }
    return SG_OK;
}

sg_status sgi_group_loop(sgi_group *g, bool alone, sg_error *err)
{
    bool go_on = true;
    sg_error here, unused;
    err = err ? err : &here;
    sg_status status = go(g, alone, &go_on, err);
    if (status != SG_OK)
        sgi_files_done(g, &unused);
    if (status != SG_OK)
        return alone && !g->run[0].over ? sgi_account(&g->run[0], status, true, err) : status;
    return go_on ? SG_OK : stop(g, alone, err);
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

sg_status sg_train_result_read(const char *folder, sg_train_result *result, sg_error *err)
{
    memset(result, 0, sizeof *result);
    return sgi_folder_result(&(sgi_run){.folder = folder}, result, err);
}
