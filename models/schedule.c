/* schedule.c - the learning rate by step, and what a validation metric decides: the best epoch, the rate, the end. */
#include "models/train_internal.h"

#include <math.h>

double sg_schedule_factor(sg_schedule schedule, int64_t warmup, int64_t total, int64_t step)
{
    if (step < warmup)
        return (double)step / (double)warmup;
    if (schedule == SG_SCHEDULE_PLATEAU || schedule == SG_SCHEDULE_CONSTANT)
        return 1;
    if (step >= total)
        return 0;
    double done = (double)(step - warmup) / (double)(total - warmup);
    return schedule == SG_SCHEDULE_LINEAR ? 1 - done : (1 + cos(M_PI * done)) / 2;
}

double sgi_schedule_rate(const sgi_run *run, int64_t step)
{
    const sg_train_config *c = run->c;
    return run->at.lr * sg_schedule_factor((sg_schedule)c->train.schedule, c->train.warmup,
                                           c->train.epochs * run->group->steps, step);
}

/* A metric is a mean of ratios: the same mean of other rows differs in its last bits, by how it was rounded, which must not
 * decide anything. Sums of so many rows as there are lose less than TIE; means that differ truly differ by more. */
#define TIE 1e-12
static bool exceeds(double metric, double than) { return metric > than + TIE * fabs(than); }

/* Reduce on plateau: an epoch counts as better only by more than the relative threshold; after more than plateau_patience
 * others in a row the rate is multiplied by the factor and the count starts again. No cooldown, no floor. */
static void plateau(sgi_progress *at, const sg_train_config *c, double metric)
{
    bool better = at->epoch == 0 || exceeds(metric, at->plateau_best * (1 + c->train.plateau_threshold));
    if (better)
        at->plateau_best = metric;
    at->plateau_bad = better ? 0 : at->plateau_bad + 1;
    if (at->plateau_bad <= c->train.plateau_patience)
        return;
    at->lr *= c->train.plateau_factor;
    at->plateau_bad = 0;
}

bool sgi_schedule(sgi_progress *at, const sg_train_config *c, double metric)
{
    if (c->train.schedule == SG_SCHEDULE_PLATEAU)
        plateau(at, c, metric);
    at->epoch++;
    if (at->best_epoch && !exceeds(metric, at->best))
        return false;
    at->best = metric;
    at->best_epoch = at->epoch;
    return true;
}

bool sgi_schedule_over(const sgi_progress *at, const sg_train_config *c)
{
    return at->epoch >= c->train.epochs || (at->best_epoch && at->epoch - at->best_epoch >= c->train.patience);
}
