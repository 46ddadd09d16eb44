/* normalisation.c - golden family: layer, root-mean-square, group and batch normalisation. */
#include "cli/golden/golden_internal.h"

static sg_value in_or_none(sg_golden *g, const char *input)
{
    return sg_golden_has(g, input) ? sg_golden_in(g, input) : SG_NONE;
}

/* Our axes are as many as gamma or beta has, or the last one: they must be those of the case. */
static void layer_norm(sg_golden *g)
{
    sg_value x = sg_golden_in(g, "x"), gamma = in_or_none(g, "gamma"), beta = in_or_none(g, "beta");
    int64_t axes[SG_MAX_RANK];
    int32_t n = sg_golden_ints(g, "axes", axes, SG_MAX_RANK);
    int32_t ours = !sg_is_none(gamma) ? sg_rank_of(gamma) : !sg_is_none(beta) ? sg_rank_of(beta) : 1;
    bool last = n == ours;
    for (int32_t i = 0; last && i < n; i++)
        last = axes[i] == i - n;
    if (!last)
        sg_golden_refuse(g, "the axes are not the last %d", (int)ours);
    sg_golden_out(g, "out", sg_layer_norm(x, gamma, beta, sg_golden_real(g, "eps")));
}

static void rms_norm(sg_golden *g)
{
    sg_golden_out(g, "out", sg_rms_norm(sg_golden_in(g, "x"), sg_golden_in(g, "gamma"), sg_golden_real(g, "eps")));
}

static void group_norm(sg_golden *g)
{
    sg_value y = sg_group_norm(sg_golden_in(g, "x"), sg_golden_int(g, "groups"), sg_golden_in(g, "gamma"),
                               sg_golden_in(g, "beta"), sg_golden_real(g, "eps"));
    sg_golden_out(g, "out", y);
}

static void batch_norm_training(sg_golden *g)
{
    sg_batch_norm_result r = sg_batch_norm(sg_golden_in(g, "x"), sg_golden_in(g, "gamma"), sg_golden_in(g, "beta"),
                                           sg_golden_in(g, "running_mean"), sg_golden_in(g, "running_var"),
                                           sg_golden_real(g, "momentum"), sg_golden_real(g, "eps"));
    sg_golden_out(g, "out", r.y);
    sg_golden_out(g, "running_mean", r.running_mean);
    sg_golden_out(g, "running_var", r.running_variance);
}

static void batch_norm_inference(sg_golden *g)
{
    sg_value y = sg_batch_norm_inference(sg_golden_in(g, "x"), sg_golden_in(g, "gamma"), sg_golden_in(g, "beta"),
                                         sg_golden_in(g, "running_mean"), sg_golden_in(g, "running_var"),
                                         sg_golden_real(g, "eps"));
    sg_golden_out(g, "out", y);
}

static const sg_golden_row rows[] = {
    {"layer_norm", NULL, layer_norm, 0},
    {"rms_norm", NULL, rms_norm, 0},
    {"group_norm", NULL, group_norm, 0},
    {"batch_norm_training", NULL, batch_norm_training, 0},
    {"batch_norm_inference", NULL, batch_norm_inference, 0},
};
SG_GOLDEN_TABLE(normalisation, rows);
