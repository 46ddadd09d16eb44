/* nce.c - noise-contrastive ranking: how well the loss-net tells the gold labels from samples of the task-net. */
#include "models/models.h"

sg_value sg_log_bernoulli(sg_value z, sg_value y)
{
    sg_value on = sg_clip(sg_log_sigmoid(z), -100, 0), off = sg_clip(sg_log_sigmoid(sg_neg(z)), -100, 0);
    /* sum_i y_i on_i + (1 - y_i) off_i with the part that no candidate changes summed once a row. */
    sg_value chosen = sg_sum(sg_mul(y, sg_expand_dims(sg_sub(on, off), 1)), -1); /* [B, K] */
    return sg_add(chosen, sg_expand_dims(sg_sum(off, -1), 1));
}

sg_value sg_nce_ranking_loss(sg_value score, sg_value log_noise)
{
    sg_value r = sg_sub(score, log_noise);
    sg_value gold = sg_squeeze(sg_slice(r, 1, 0, 1), 1);
    return sg_sub(sg_logsumexp(r, 1, false), gold);
}
