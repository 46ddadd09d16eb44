/* train_seeds.c - several seeds of a recipe in one run directory, and what they have in common at the end.
 *
 *   config.yml, run.json     of the whole; config.yml holds the key `seeds`
 *   seed-N/                  the run directory of seed N, as if it had been trained alone
 *   metrics.json             written last: each seed's metrics, their means and standard deviations */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/config_internal.h"
#include "models/json_internal.h"
#include "models/train_internal.h"

enum { SEEDS_MAX = 1024 };

/* ---- which seeds */

sg_status sg_config_seeds(const sg_config *config, int64_t **out, int32_t *count, sg_error *err)
{
    const sg_train_config *c = sg_config_values(config);
    bool counted = c->seeds.count == 1;
    int64_t n = counted ? c->seeds.at[0] : c->seeds.count ? c->seeds.count : 1;
    if (n < 1 || n > SEEDS_MAX)
        return sg_config_fail(config, "seeds", err, "seeds must be from 1 to %d, or a list of so many, not %lld",
                              SEEDS_MAX, (long long)n);
    if (counted && c->seed > INT64_MAX - (n - 1))
        return sg_config_fail(config, "seed", err, "there are no %lld seeds from %lld on", (long long)n,
                              (long long)c->seed);
    int64_t *seed = sg_calloc(n, sizeof *seed);
    if (!seed)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int64_t i = 0; i < n; i++) {
        seed[i] = c->seeds.count > 1 ? c->seeds.at[i] : c->seed + i;
        for (int64_t k = 0; k < i; k++)
            if (seed[k] == seed[i]) {
                int64_t twice = seed[i];
                sg_free(seed);
                return sg_config_fail(config, "seeds", err, "seeds lists %lld twice", (long long)twice);
            }
    }
    *out = seed;
    *count = (int32_t)n;
    return SG_OK;
}

/* The configuration of one seed alone. */
static sg_status config_of(const sg_config *config, int64_t seed, sg_config **out, sg_error *err)
{
    char number[24], *yaml = sg_config_yaml(config);
    if (!yaml)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    snprintf(number, sizeof number, "%lld", (long long)seed);
    const sg_setting sets[] = {{"seeds", "seed", number}, {"seeds", "seeds", "[]"}};
    sg_config_request request = {.file = "seeds", .text = yaml, .sets = sets, .n_sets = 2};
    sg_status status = sg_config_load(out, &request, err);
    sg_free(yaml);
    return status;
}

/* ---- the runs */

typedef struct company {
    sgi_group group;
    sgi_run whole;    /* its folder is the run directory; it trains nothing */
    bool opened;      /* that folder is this process's, so that it tells what becomes of the whole */
    int32_t n_opened; /* and those of so many seeds */
    sg_config **config;
} company;

static sg_status make_run(company *all, int32_t i, int64_t seed, const sg_config *config, sg_error *err)
{
    sgi_run *run = &all->group.run[i];
    SG_TRY(config_of(config, seed, &all->config[i], err));
    run->config = all->config[i];
    run->c = sg_config_values(run->config);
    if (!all->whole.folder)
        return SG_OK;
    size_t size = strlen(all->whole.folder) + 40;
    char *folder = sg_alloc(size);
    if (!folder)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    snprintf(folder, size, "%s/seed-%lld", all->whole.folder, (long long)seed);
    run->folder = folder;
    return SG_OK;
}

static sg_status make_runs(company *all, const sg_config *config, sg_error *err)
{
    sgi_group *g = &all->group;
    int64_t *seed;
    int32_t n;
    SG_TRY(sg_config_seeds(config, &seed, &n, err));
    g->run = sg_calloc(n, sizeof *g->run);
    all->config = sg_calloc(n, sizeof *all->config);
    sg_status status = g->run && all->config ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
    g->n = status == SG_OK ? n : 0;
    for (int32_t i = 0; status == SG_OK && i < n; i++)
        status = make_run(all, i, seed[i], config, err);
    sg_free(seed);
    return status;
}

static void release(company *all)
{
    sgi_group_close(&all->group);
    for (int32_t i = 0; i < all->group.n; i++) {
        sg_free((char *)(uintptr_t)all->group.run[i].folder);
        sg_config_free(all->config[i]);
    }
    sg_free(all->group.run);
    sg_free(all->config);
}

/* Seeds that are finished train no more. */
static sg_status open_folders(company *all, sg_error *err)
{
    if (!all->whole.folder)
        return SG_OK;
    SG_TRY(sgi_folder_open(&all->whole, err));
    all->opened = true;
    for (int32_t i = 0; i < all->group.n; i++) {
        sgi_run *run = &all->group.run[i];
        run->over = sgi_folder_finished(run);
        run->result.finished = run->over;
        SG_TRY(run->over ? sgi_lock(run, err) : sgi_folder_open(run, err));
        all->n_opened++;
    }
    return SG_OK;
}

/* Runs that have not ended can be gone on with. */
static sg_status failed(company *all, sg_status status)
{
    for (int32_t i = 0; i < all->n_opened; i++)
        if (!all->group.run[i].over)
            sgi_folder_status(&all->group.run[i], "interrupted", NULL);
    if (all->opened)
        sgi_folder_status(&all->whole, "failed", NULL);
    return status;
}

static sg_status train(company *all, const sg_config *config, sg_error *err)
{
    SG_TRY(sgi_group_open(&all->group, config, err));
    sg_status status = open_folders(all, err);
    if (status == SG_OK)
        status = sgi_group_loop(&all->group, false, err);
    return status == SG_OK ? SG_OK : failed(all, status);
}

/* ---- the end */

static sg_status take_results(company *all, sg_seeds_result *out, sg_error *err)
{
    int32_t n = all->group.n;
    out->seed = sg_calloc(n, sizeof *out->seed);
    if (!out->seed)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    out->count = n;
    out->finished = true;
    for (int32_t i = 0; i < n; i++) {
        sgi_run *run = &all->group.run[i];
        if (!run->result.finished)
            run->result.epoch = run->at.best_epoch;
        else if (run->folder) /* from the file, as for a seed that was finished before */
            SG_TRY(sgi_folder_result(run, &run->result, err));
        out->seed[i] = (sg_seed_result){run->c->seed, run->err.status == SG_E_DIVERGED, run->result};
        out->finished &= run->result.finished;
    }
    return SG_OK;
}

static sg_status spread(sg_seeds_result *out, sg_error *err)
{
    const sg_metrics **part = sg_calloc(2 * (int64_t)out->count, sizeof *part), **test = part + out->count;
    int32_t n = 0;
    if (!part)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int32_t i = 0; i < out->count; i++)
        if (out->seed[i].result.finished) {
            part[n] = &out->seed[i].result.best;
            test[n++] = &out->seed[i].result.test;
        }
    sg_metrics_spread(part, n, &out->mean_best, &out->deviation_best);
    sg_metrics_spread(test, n, &out->mean_test, &out->deviation_test);
    sg_free(part);
    return SG_OK;
}

static sg_status conclude(company *all, sg_seeds_result *out, sg_error *err)
{
    sg_status status = take_results(all, out, err);
    if (status == SG_OK)
        status = spread(out, err);
    if (status != SG_OK)
        return failed(all, status);
    const sgi_run *lost = NULL;
    for (int32_t i = 0; i < all->group.n && !lost; i++)
        lost = out->seed[i].diverged ? &all->group.run[i] : NULL;
    if (all->whole.folder) {
        if (out->finished)
            SG_TRY(sgi_folder_finish(&all->whole, sg_seeds_json(out), err));
        else
            SG_TRY(sgi_folder_status(&all->whole, lost ? "diverged" : "interrupted", err));
    }
    if (lost && err)
        *err = lost->err;
    return lost ? SG_E_DIVERGED : SG_OK;
}

sg_status sg_train_seeds(const sg_config *config, sg_training_data *data, const sg_train_options *options,
                         sg_seeds_result *result, sg_error *err)
{
    company all = {.group = {.d = data, .options = options}};
    all.whole =
        (sgi_run){.group = &all.group, .config = config, .c = sg_config_values(config), .folder = options->folder};
    memset(result, 0, sizeof *result);
    sg_status status = make_runs(&all, config, err);
    if (status == SG_OK)
        status = train(&all, config, err);
    if (status == SG_OK)
        status = conclude(&all, result, err);
    for (int32_t i = 0; i < all.group.n && result->count == 0; i++)
        all.group.run[i].result.store = NULL; /* nobody takes it */
    release(&all);
    return status;
}

static sg_status read_results(company *all, sg_seeds_result *result, sg_error *err)
{
    for (int32_t i = 0; i < all->group.n; i++) {
        sgi_run *run = &all->group.run[i];
        run->result.finished = sgi_folder_finished(run);
        if (!run->result.finished)
            return sg_fail(err, SG_E_DATA, "%s: the run of a seed is gone: no metrics.json", run->folder);
    }
    SG_TRY(take_results(all, result, err));
    return spread(result, err);
}

sg_status sg_seeds_result_read(const sg_config *config, const char *folder, sg_seeds_result *result, sg_error *err)
{
    company all = {.whole = {.folder = folder}};
    memset(result, 0, sizeof *result);
    sg_status status = make_runs(&all, config, err);
    if (status == SG_OK)
        status = read_results(&all, result, err);
    release(&all);
    return status;
}

void sg_seeds_result_free(sg_seeds_result *result)
{
    for (int32_t i = 0; i < result->count; i++)
        sg_store_free(result->seed[i].result.store);
    sg_free(result->seed);
    memset(result, 0, sizeof *result);
}

/* ---- means */

void sg_metrics_spread(const sg_metrics *const *of, int32_t n, sg_metrics *mean, sg_metrics *deviation)
{
    mean->count = deviation->count = n ? of[0]->count : 0;
    for (int32_t k = 0; k < mean->count; k++) {
        double sum = 0, squares = 0;
        int32_t defined = 0;
        sg_metric *m = &mean->metric[k], *d = &deviation->metric[k];
        *m = *d = of[0]->metric[k];
        for (int pass = 0; pass < 2; pass++)
            for (int32_t i = 0; i < n; i++) {
                const sg_metric *x = sg_metrics_find(of[i], m->name);
                if (!x || !x->defined)
                    continue;
                if (pass == 0)
                    sum += x->value, defined++;
                else
                    squares += (x->value - sum / defined) * (x->value - sum / defined);
            }
        m->defined = defined > 0;
        m->value = defined > 0 ? sum / defined : 0;
        d->defined = defined > 1;
        d->value = defined > 1 ? sqrt(squares / (defined - 1)) : 0;
    }
}

static json_t *object_of(const sg_metrics *metrics)
{
    char *text = sg_metrics_json(metrics);
    json_t *object = text ? json_loads(text, 0, NULL) : NULL;
    sg_free(text);
    return object;
}

static json_t *parts_of(const sg_metrics *best, const sg_metrics *test)
{
    return json_pack("{s:o, s:o}", "best", object_of(best), "test", object_of(test));
}

char *sg_seeds_json(const sg_seeds_result *result)
{
    json_t *seeds = json_array();
    for (int32_t i = 0; seeds && i < result->count; i++) {
        const sg_seed_result *s = &result->seed[i];
        if (s->result.finished)
            json_array_append_new(seeds, json_pack("{s:I, s:I, s:o, s:o}", "seed", (json_int_t)s->seed, "epoch",
                                                   (json_int_t)s->result.epoch, "best", object_of(&s->result.best),
                                                   "test", object_of(&s->result.test)));
    }
    json_t *whole =
        json_pack("{s:o, s:o, s:o}", "seeds", seeds, "mean", parts_of(&result->mean_best, &result->mean_test), "std",
                  parts_of(&result->deviation_best, &result->deviation_test));
    char *text = whole ? sg_json_dump(whole, true) : NULL;
    json_decref(whole);
    return text;
}
