/* compare.c - the tolerances of golden.h. */
#include "cli/golden/runner_internal.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* By device and group; traces have a limit of their own for values. */
static double limit_of(const sg_golden *g, int group)
{
    static const double value[SG_GOLDEN_DEVICES] = {1e-10, 1e-5, 1e-5}, hvp[SG_GOLDEN_DEVICES] = {1e-9, 1e-4, 1e-4};
    static const double third[SG_GOLDEN_DEVICES] = {1e-8, 1e-3, 1e-3};
    bool loose = g->device == SG_GOLDEN_REFERENCE && strcmp(g->tol, "loose") == 0;
    bool trace = group == SG_GOLDEN_OUTPUTS && (g->row->flags & SG_GOLDEN_TRACE);
    double limit = group == SG_GOLDEN_THIRD || trace ? third[g->device]
                   : group == SG_GOLDEN_HVP          ? hvp[g->device]
                                                     : value[g->device];
    return loose ? 1e-6 : limit;
}

static double scale_of(const sg_golden_tensor *want)
{
    double scale = 1;
    for (int64_t i = 0; i < want->count; i++)
        if (isfinite(want->data[i]))
            scale = fmax(scale, fabs(want->data[i]));
    return scale;
}

/* The stored third derivative of softplus at 0, which is 0: what rounding left of the sum s(0) s(-0) (1 - 2 s(0)) - 0. */
static bool is_rounded_zero(double want) { return want == -0x1p-55; }

typedef struct measure {
    double error, limit; /* in the same unit */
} measure;

/* An infinite error stands for one that has no size: NaN or infinity against a number. */
static measure measure_of(const sg_golden *g, int group, const sg_golden_tensor *want, double scale, int64_t i,
                          double got)
{
    double w = want->data[i];
    if (isnan(w) ? isnan(got) : got == w)
        return (measure){0, 1};
    if (!isfinite(w) || !isfinite(got) || want->kind != SG_GOLDEN_REALS)
        return (measure){INFINITY, 1};
    if (g->device == SG_GOLDEN_REFERENCE && strcmp(g->tol, "relative") == 0 && w != 0) {
        if (fabs(w) < 1e-300 || (is_rounded_zero(w) && got == 0))
            return (measure){0, 1};
        return (measure){fabs(got - w) / fabs(w), 1e-10};
    }
    return (measure){fabs(got - w) / scale, limit_of(g, group)};
}

void sg_golden_compare(const sg_golden *g, int group, const char *label, const sg_golden_tensor *want,
                       const double *got, sg_golden_outcome *outcome)
{
    double scale = scale_of(want);
    for (int64_t i = 0; i < want->count; i++) {
        measure m = measure_of(g, group, want, scale, i, got[i]);
        outcome->worst = fmax(outcome->worst, m.error);
        if (m.error / m.limit <= outcome->excess)
            continue;
        outcome->excess = m.error / m.limit;
        outcome->passed = outcome->passed && outcome->excess <= 1;
        snprintf(outcome->text, sizeof outcome->text,
                 "%s '%.60s' [%lld]: %.17g, expected %.17g; error %.2g, limit %.0e", label, want->name, (long long)i,
                 got[i], want->data[i], m.error, m.limit);
    }
}

/* 0, NaN and infinities are the same in every format. */
static bool fits_float(const sg_golden_tensor *t)
{
    for (int64_t i = 0; t->kind == SG_GOLDEN_REALS && i < t->count; i++) {
        double size = fabs(t->data[i]);
        if (size > 0 && isfinite(size) && (size > (double)FLT_MAX || size < (double)FLT_MIN))
            return false;
    }
    return true;
}

/* A loose case hangs on digits of its inputs that float32 does not have, such as small deviations from a large mean. A trace is
 * loose because its steps multiply errors; its limit allows for that. */
static bool hangs_on_digits(const sg_golden *g)
{
    return strcmp(g->tol, "loose") == 0 && !(g->row->flags & SG_GOLDEN_TRACE);
}

bool sg_golden_fits_float(const sg_golden *g)
{
    static const char extreme[] = "_extreme";
    size_t length = strlen(g->name), tail = sizeof extreme - 1;
    if (hangs_on_digits(g) || (length >= tail && strcmp(g->name + length - tail, extreme) == 0))
        return false;
    for (int32_t k = 0; k < g->group[SG_GOLDEN_INPUTS].n; k++)
        if (!fits_float(&g->group[SG_GOLDEN_INPUTS].at[k]))
            return false;
    return true;
}
