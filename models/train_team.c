/* train_team.c - runs that see the same batch at the same time, as replicas of one session. */
#include <string.h>

#include "models/train_internal.h"

/* ---- opening */

static sg_status open_session(sgi_team *t, const sgi_run *first, sg_error *err)
{
    sg_store **more = sg_calloc(t->n, sizeof *more);
    if (!more)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int32_t i = 1; i < t->n; i++)
        more[i - 1] = t->run[i]->store;
    const sg_session_options options = {.size = sizeof options,
                                        .backend = sg_config_backend(first->c),
                                        .precision = first->c->precision,
                                        .threads = (int32_t)first->c->threads,
                                        .replicas = t->n,
                                        .more = more};
    sg_status status = sg_session_new(&t->session, first->store, &options, err);
    sg_free(more);
    return status;
}

static sg_status compile(sgi_team *t, const sgi_run *first, sg_error *err)
{
    sg_graph *graph = sg_graph_new();
    if (!graph)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_status status = sg_step_build(graph, first->store, &first->group->step, err);
    if (status == SG_OK)
        status = sg_plan_new(&t->plan, t->session, graph, err);
    sg_graph_free(graph);
    return status;
}

sg_status sgi_team_open(sgi_group *g, bool (*fits)(const sgi_run *run, const sgi_run *as), const sgi_run *as,
                        sg_error *err)
{
    sgi_team *t = &g->team;
    sgi_team_close(t);
    for (int32_t i = 0; i < g->n; i++)
        if (!fits || fits(&g->run[i], as)) {
            g->run[i].replica = t->n;
            t->run[t->n++] = &g->run[i];
        }
    SG_TRY(open_session(t, t->run[0], err));
    t->ahead = sg_session_runs_ahead(t->session) ? SGI_AHEAD : 0;
    snprintf(g->device, sizeof g->device, "%s", sg_session_describe(t->session));
    SG_TRY(compile(t, t->run[0], err));
    return sgi_predictor_on(&t->predictor, t->session, &g->step, err);
}

void sgi_team_close(sgi_team *t)
{
    for (int32_t i = 0; i < t->n; i++)
        sg_shadow_release(&t->run[i]->shadow, t->session);
    sg_predictor_free(t->predictor);
    sg_plan_free(t->plan);
    sg_session_free(t->session);
    *t = (sgi_team){.run = t->run};
}

/* ---- on the device */

sg_status sgi_team_send(sgi_group *g, sg_error *err)
{
    sgi_team *t = &g->team;
    SG_TRY(sgi_feed_batch(t->plan, t->run[0]->real, g->batch, err));
    for (int32_t i = 0; i < t->n; i++)
        SG_TRY(sgi_set_rates(t->run[i], err));
    SG_TRY(sg_plan_run(t->plan, err));
    SG_TRY(sg_plan_post(t->plan, (int32_t)(t->run[0]->sent % SG_POSTS), err));
    for (int32_t i = 0; i < t->n; i++)
        t->run[i]->sent++;
    return SG_OK;
}

sg_status sgi_team_predict(sgi_group *g, sg_part part, sg_error *err)
{
    sgi_team *t = &g->team;
    float **p = sg_calloc(t->n, sizeof *p);
    if (!p)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int32_t i = 0; i < t->n; i++)
        p[i] = t->run[i]->p;
    sg_status status =
        sgi_predictor_run(t->predictor, g->d->data, g->d->split.rows[part], g->d->split.count[part], p, t->n, err);
    sg_free(p);
    return status;
}

/* ---- on the host */

static void *take_shares(void *user)
{
    sgi_crew *c = user;
    for (int32_t i = atomic_fetch_add(&c->next, 1); i < c->n; i = atomic_fetch_add(&c->next, 1))
        c->body(c->run[i]);
    return NULL;
}

sg_status sgi_crew_start(sgi_crew *c, sgi_run *const *run, int32_t n, int32_t threads, void (*body)(sgi_run *run),
                         sg_error *err)
{
    c->run = sg_calloc(n, sizeof *c->run);
    if (!c->run)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    memcpy(c->run, run, (size_t)n * sizeof *run);
    c->n = n;
    c->body = body;
    c->n_threads = 0;
    atomic_init(&c->next, 0);
    threads = threads < n ? threads : n;
    threads = threads < SGI_CREW ? threads : SGI_CREW;
    while (c->n_threads < threads && pthread_create(&c->thread[c->n_threads], NULL, take_shares, c) == 0)
        c->n_threads++;
    if (c->n_threads == 0)
        take_shares(c);
    return SG_OK;
}

void sgi_crew_wait(sgi_crew *c)
{
    for (int32_t i = 0; i < c->n_threads; i++)
        pthread_join(c->thread[i], NULL);
    sg_free(c->run);
    c->run = NULL;
    c->n_threads = c->n = 0;
}
