/* seal_step.c - one training step on one batch as one graph. */
#include <math.h>

#include "autodiff/autodiff.h"
#include "models/models.h"

enum { PARAMETERS_MAX = 256 };

typedef struct step {
    const sg_step_options *o;
    sg_scope task, energy; /* as seen from the graph being built */
    sg_features x;
    sg_value y, known, weight, share; /* share [B]: w_b / sum w, what a mean over rows multiplies by */
} step;

/* The configuration's own bounds, for steps that are made without one. */
static sg_status check(const sg_step_options *o, sg_error *err)
{
    const struct {
        const char *name;
        double value;
    } from_0[] = {{"energy_weight", o->energy_weight}, {"bce_weight", o->bce_weight}, {"clip", o->clip}};
    for (int k = 0; k < 3; k++)
        if (!(isfinite(from_0[k].value) && from_0[k].value >= 0))
            return sg_fail(err, SG_E_ARGUMENT, "a step's %s must be in [0, inf), not %g", from_0[k].name,
                           from_0[k].value);
    bool seal = o->loss == SG_LOSS_SEAL_DYNAMIC;
    if (o->batch < 1 || o->n_task < 1 || (seal && (o->n_energy < 1 || o->samples < 1)))
        return sg_fail(err, SG_E_ARGUMENT, "a step of %lld rows, %lld and %lld updates and %lld samples",
                       (long long)o->batch, (long long)o->n_task, (long long)o->n_energy, (long long)o->samples);
    return SG_OK;
}

/* The step's inputs; loop bodies capture them by use. */
static step step_inputs(sg_graph *graph, sg_store *store, const sg_step_options *o, bool labels)
{
    sg_scope root = sg_scope_root(graph, store);
    step s = {.o = o, .task = sg_scope_sub(root, "task"), .energy = sg_scope_sub(root, "energy")};
    int64_t B = o->batch, L = o->task.labels;
    if (o->capacity > 0)
        s.x = sg_features_sparse(sg_csr_input(graph, "x", B, o->task.inputs, o->capacity));
    else
        s.x = sg_features_dense(sg_input(graph, "x", SG_F32, SG_SHAPE(B, o->task.inputs)));
    s.y = s.known = SG_NONE;
    if (!labels)
        return s;
    s.y = sg_input(graph, "y", SG_F32, SG_SHAPE(B, L));
    if (o->known)
        s.known = sg_input(graph, "known", SG_F32, SG_SHAPE(B, L));
    s.weight = sg_input(graph, "weight", SG_F32, SG_SHAPE(B));
    s.share = sg_div(s.weight, sg_sum_all(s.weight));
    return s;
}

static step in_graph(const step *s, sg_graph *graph)
{
    step inner = *s;
    inner.task = sg_scope_in(s->task, graph);
    inner.energy = sg_scope_in(s->energy, graph);
    return inner;
}

static sg_value learning_rate(sg_scope net) { return sg_state(net, "lr", SG_F32, sg_shape_scalar(), sg_init_zeros()); }

/* Labels that are not known count neither for nor against: they are off in every candidate and out of every sum. */
static sg_value mask(const step *s, sg_value v, int32_t axis)
{
    if (sg_is_none(s->known))
        return v;
    return sg_mul(v, axis >= 0 ? sg_expand_dims(s->known, axis) : s->known);
}

static void update(sg_scope net, sg_value loss, double clip, const sg_adam_options *adam)
{
    sg_value p[PARAMETERS_MAX], g[PARAMETERS_MAX];
    int32_t n = sg_params(net, p, PARAMETERS_MAX);
    sg_grad(loss, p, n, g);
    if (clip > 0) {
        sg_value factor = sg_clip_factor(g, n, clip, NULL);
        for (int32_t i = 0; i < n; i++)
            g[i] = sg_mul(g[i], factor);
    }
    sg_adam_step(sg_scope_sub(net, "adam"), p, g, n, learning_rate(net), adam);
}

/* One loss-net update: candidates from the task-net, gold first. The task-net is held constant: neither this loss nor, through
 * the updated loss-net, the task-net's own loss sees where the candidates came from. state: sum of losses so far. */
static void energy_update(void *user, sg_graph *graph, const sg_value *state, sg_value *next)
{
    step s = in_graph(user, graph);
    sg_value z = sg_stop_gradient(sg_mlc_task(s.task, s.x, &s.o->task, true)); /* [B, L] */
    sg_value p = sg_tile_axis(sg_sigmoid(z), 1, s.o->samples);                 /* [B, K, L] */
    sg_value drawn = mask(&s, sg_bernoulli(s.task, p), 1);
    sg_value candidates = sg_concat((sg_value[]){sg_expand_dims(mask(&s, s.y, -1), 1), drawn}, 2, 1);
    sg_value noise = sg_log_bernoulli(z, candidates);
    sg_value score = sg_mlc_score(s.energy, s.x, candidates, &s.o->energy, true); /* [B, 1 + K] */
    sg_value loss = sg_nce_ranking_loss(score, noise);
    update(s.energy, sg_sum_all(sg_mul(loss, s.weight)), 0, &s.o->energy_adam);
    next[0] = sg_add(state[0], sg_sum_all(sg_mul(loss, s.share)));
}

enum { SUM_BCE, SUM_ENERGY, SUM_NCE, SUMS };

/* The task-net's loss from a new forward pass; its terms, means over rows, in bce and energy (SG_NONE without a loss-net). */
static sg_value task_loss(const step *s, sg_value *bce, sg_value *energy)
{
    sg_value z = sg_mlc_task(s->task, s->x, &s->o->task, true);
    *bce = sg_sum_all(sg_mul(sg_sum(mask(s, sg_bce_with_logits(z, s->y), -1), -1), s->share));
    *energy = SG_NONE;
    sg_value loss = sg_mul_scalar(*bce, s->o->bce_weight);
    if (s->o->loss != SG_LOSS_SEAL_DYNAMIC)
        return loss;
    sg_value p = sg_expand_dims(mask(s, sg_sigmoid(z), -1), 1);
    sg_value score = sg_squeeze(sg_mlc_score(s->energy, s->x, p, &s->o->energy, true), 1); /* [B] */
    *energy = sg_neg(sg_sum_all(sg_mul(score, s->share)));
    return sg_add(loss, sg_mul_scalar(*energy, s->o->energy_weight));
}

/* n_energy loss-net updates, then one task-net update. */
static void task_update(void *user, sg_graph *graph, const sg_value *state, sg_value *next)
{
    step s = in_graph(user, graph);
    bool seal = s.o->loss == SG_LOSS_SEAL_DYNAMIC;
    next[SUM_NCE] = state[SUM_NCE];
    if (seal)
        sg_repeat(graph, s.o->n_energy, energy_update, &s, &state[SUM_NCE], 1, &next[SUM_NCE], s.o->n_energy == 1);
    sg_value bce, energy, loss = task_loss(&s, &bce, &energy);
    next[SUM_BCE] = sg_add(state[SUM_BCE], bce);
    next[SUM_ENERGY] = seal ? sg_add(state[SUM_ENERGY], energy) : state[SUM_ENERGY];
    update(s.task, loss, s.o->clip, &s.o->task_adam);
}

static void average(sg_graph *graph, const char *name, sg_value sum, double count)
{
    sg_result(graph, name, sg_mul_scalar(sum, 1 / count));
}

sg_status sg_step_build(sg_graph *graph, sg_store *store, const sg_step_options *o, sg_error *err)
{
    SG_TRY(check(o, err));
    step s = step_inputs(graph, store, o, true);
    sg_value zero = sg_scalar(graph, 0), sums[SUMS] = {zero, zero, zero};
    sg_repeat(graph, o->n_task, task_update, &s, sums, SUMS, sums, o->n_task == 1);
    sg_rng_advance(s.task);
    average(graph, "bce", sums[SUM_BCE], (double)o->n_task);
    if (o->loss == SG_LOSS_SEAL_DYNAMIC) {
        average(graph, "energy", sums[SUM_ENERGY], (double)o->n_task);
        average(graph, "nce", sums[SUM_NCE], (double)o->n_task * (double)o->n_energy);
    }
    return sg_graph_status(graph, err);
}

sg_status sg_hvp_build(sg_graph *graph, sg_store *store, const sg_step_options *o, sg_error *err)
{
    SG_TRY(check(o, err));
    step s = step_inputs(graph, store, o, true);
    sg_value p[PARAMETERS_MAX], v[PARAMETERS_MAX], hv[PARAMETERS_MAX], bce, energy, loss = task_loss(&s, &bce, &energy);
    int32_t n = sg_params(s.task, p, PARAMETERS_MAX);
    SG_TRY(sg_graph_status(graph, err));
    for (int32_t i = 0; i < n; i++) {
        char name[160];
        snprintf(name, sizeof name, "v:%s", sg_store_peek(store, sg_entry_of(p[i]))->name);
        v[i] = sg_input(graph, name, sg_dtype_of(p[i]), *sg_shape_of(p[i]));
    }
    sg_hvp(loss, p, v, n, hv, SG_HVP_FORWARD_OVER_REVERSE);
    for (int32_t i = 0; i < n; i++) {
        char name[160];
        snprintf(name, sizeof name, "hv:%s", sg_store_peek(store, sg_entry_of(p[i]))->name);
        sg_result(graph, name, hv[i]);
    }
    return sg_graph_status(graph, err);
}

sg_status sg_predict_build(sg_graph *graph, sg_store *store, const sg_step_options *o, sg_error *err)
{
    step s = step_inputs(graph, store, o, false);
    sg_result(graph, "p", sg_sigmoid(sg_mlc_task(s.task, s.x, &o->task, false)));
    return sg_graph_status(graph, err);
}
