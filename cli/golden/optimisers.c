/* optimisers.c - golden cases: traces of optimiser steps, clipping, and what schedules decide from steps and metrics. */
#include "cli/golden/golden_internal.h"

#include <string.h>

#include "models/train_internal.h"

/* ---- steps: p [n] and gradients [steps, n]; out p [steps, n] after each step and the slots after the last */

enum { MOST_STEPS = 64 };

typedef struct trace {
    sg_value p, gradients, lr;
    sg_value after[MOST_STEPS];
    int64_t steps;
} trace;

static trace begin(sg_golden *g)
{
    trace t = {sg_golden_in(g, "p"), sg_golden_in(g, "gradients"), SG_NONE, {SG_NONE}, 0};
    t.lr = sg_golden_number(t.p, sg_golden_real(g, "lr"));
    t.steps = sg_dim_of(t.gradients, 0);
    if (t.steps < 1 || t.steps > MOST_STEPS) {
        sg_golden_refuse(g, "a trace has 1 to %d steps", (int)MOST_STEPS);
        t.steps = 0;
    }
    return t;
}

static sg_value gradient(const trace *t, int64_t step)
{
    return sg_squeeze(sg_slice(t->gradients, 0, step, step + 1), 0);
}

static void keep(trace *t, int64_t step, sg_value p) { t->after[step] = sg_expand_dims(p, 0); }

static void end(sg_golden *g, const trace *t)
{
    if (t->steps)
        sg_golden_out(g, "p", sg_concat(t->after, (int32_t)t->steps, 0));
}

static void sgd(sg_golden *g)
{
    trace t = begin(g);
    double momentum = sg_golden_real_or(g, "momentum", 0), decay = sg_golden_real_or(g, "weight_decay", 0);
    sg_sgd_state now = {t.p, sg_zeros_like(t.p)};
    for (int64_t i = 0; i < t.steps; i++) {
        now = sg_sgd(now, gradient(&t, i), t.lr, momentum, decay, sg_golden_flag(g, "nesterov"));
        keep(&t, i, now.p);
    }
    end(g, &t);
    sg_golden_out(g, "momentum", now.u);
}

static void read_betas(sg_golden *g, double beta[2])
{
    const json_t *list = sg_golden_attr(g, "betas");
    if (json_array_size(list) != 2)
        sg_golden_refuse(g, "attrs.betas is no list of 2 numbers");
    for (size_t i = 0; i < 2; i++)
        beta[i] = json_number_value(json_array_get(list, i));
}

static void adam_with(sg_golden *g, bool decoupled)
{
    trace t = begin(g);
    double beta[2], eps = sg_golden_real(g, "eps"), decay = sg_golden_real_or(g, "weight_decay", 0);
    sg_value zero = sg_zeros_like(t.p);
    sg_adam_state now = {t.p, zero, zero};
    sg_amsgrad_state largest = {t.p, zero, zero, zero};
    bool amsgrad = sg_golden_flag(g, "amsgrad");
    read_betas(g, beta);
    for (int64_t i = 0; i < t.steps; i++) {
        sg_value count = sg_golden_number(t.p, (double)(i + 1)), slope = gradient(&t, i);
        if (amsgrad) {
            largest = sg_amsgrad(largest, slope, t.lr, count, beta[0], beta[1], eps, decay, decoupled);
            now = (sg_adam_state){largest.p, largest.m, largest.v};
        } else {
            now = sg_adam(now, slope, t.lr, count, beta[0], beta[1], eps, decay, decoupled);
        }
        keep(&t, i, now.p);
    }
    end(g, &t);
    sg_golden_out(g, "m", now.m);
    sg_golden_out(g, "v", now.v);
    if (amsgrad)
        sg_golden_out(g, "v_max", largest.v_max);
}

static void adam(sg_golden *g) { adam_with(g, false); }
static void adamw(sg_golden *g) { adam_with(g, true); }

static void clip_by_global_norm(sg_golden *g)
{
    sg_value in[2] = {sg_golden_in(g, "a"), sg_golden_in(g, "b")}, norm;
    if (sg_golden_real(g, "eps") != 1e-6)
        sg_golden_refuse(g, "the factor is limit / (norm + 1e-6)");
    sg_value factor = sg_clip_factor(in, 2, sg_golden_real(g, "max_norm"), &norm);
    sg_golden_out(g, "a", sg_mul(in[0], factor));
    sg_golden_out(g, "b", sg_mul(in[1], factor));
    sg_golden_out(g, "norm", norm);
}

/* ---- schedules: numbers of the training loop, outside any graph */

enum { MOST_EPOCHS = 256 };

static void factors(sg_golden *g, sg_schedule schedule)
{
    double factor[MOST_EPOCHS];
    int64_t warmup = sg_golden_int(g, "warmup"), total = sg_golden_int(g, "total");
    if (total < 0 || total + 2 > MOST_EPOCHS) {
        sg_golden_refuse(g, "attrs.total is not in 0..%d", MOST_EPOCHS - 2);
        return;
    }
    for (int64_t step = 0; step < total + 2; step++) /* two past the end */
        factor[step] = sg_schedule_factor(schedule, warmup, total, step);
    sg_golden_numbers(g, "factor", factor, total + 2);
}

static void schedule_linear(sg_golden *g) { factors(g, SG_SCHEDULE_LINEAR); }
static void schedule_cosine(sg_golden *g) { factors(g, SG_SCHEDULE_COSINE); }

static const double *metrics(sg_golden *g, int64_t *count)
{
    const double *metric = sg_golden_elements(g, "metric", count);
    if (metric && *count <= MOST_EPOCHS)
        return metric;
    sg_golden_refuse(g, "input 'metric' has more than %d epochs", (int)MOST_EPOCHS);
    *count = 0;
    return NULL;
}

static void reduce_on_plateau(sg_golden *g)
{
    double rate[MOST_EPOCHS];
    int64_t n = 0;
    const double *metric = metrics(g, &n);
    sgi_progress at = {.lr = sg_golden_real(g, "lr")};
    sg_train_config c = {0};
    c.train.schedule = SG_SCHEDULE_PLATEAU;
    c.train.plateau_factor = sg_golden_real(g, "factor");
    c.train.plateau_patience = sg_golden_int(g, "patience");
    c.train.plateau_threshold = sg_golden_real(g, "threshold");
    if (!sg_golden_is(g, "mode", "max"))
        sg_golden_refuse(g, "the plateau rule takes the larger metric as better");
    for (int64_t i = 0; i < n; i++) {
        sgi_schedule(&at, &c, metric[i]);
        rate[i] = at.lr;
    }
    sg_golden_numbers(g, "lr", rate, n);
}

/* Epochs of the cases count from 0, best_epoch here from 1. */
static void early_stopping(sg_golden *g)
{
    int64_t n = 0;
    const double *metric = metrics(g, &n);
    sgi_progress at = {.lr = 1};
    sg_train_config c = {0};
    c.train.epochs = n;
    c.train.schedule = SG_SCHEDULE_CONSTANT;
    c.train.patience = sg_golden_int(g, "patience");
    while (!sgi_schedule_over(&at, &c))
        sgi_schedule(&at, &c, metric[at.epoch]);
    sg_golden_numbers(g, "best_epoch", &(double){(double)(at.best_epoch - 1)}, 1);
    sg_golden_numbers(g, "last_epoch", &(double){(double)(at.epoch - 1)}, 1);
}

#define TRACE(name)                                                                                                    \
    {                                                                                                                  \
#name, NULL, name, SG_GOLDEN_TRACE                                                                             \
    }
/* clang-format off */
static const sg_golden_row rows[] = {
    TRACE(sgd), TRACE(adam), TRACE(adamw), TRACE(clip_by_global_norm),
    TRACE(schedule_linear), TRACE(schedule_cosine), TRACE(reduce_on_plateau), TRACE(early_stopping),
};
/* clang-format on */

SG_GOLDEN_TABLE(optimisers, rows);
