/* norm_places_internal.h - where the operands of layer_norm, rms_norm, group_norm, batch_norm and their derivatives lie, for the kernels of
 * every device. rms_norm is layer_norm with mean 0 and without beta. The statistic beside the mean is 1 / sqrt(variance + eps), or
 * in batch_norm the variance. */
#ifndef SG_NORM_PLACES_INTERNAL_H
#define SG_NORM_PLACES_INTERNAL_H

#include "runtime/backend_internal.h"

/* Where the node's operands lie; -1: there is none. x is input 0, gamma input 1, y or its tangent output 0. */
typedef struct sg_norm_places {
    int32_t beta;
    int32_t mean, spread, g;       /* known beforehand; `spread` is the other statistic */
    int32_t tx, tgamma, tbeta, tg; /* tangents */
    int32_t gx, ggamma, gbeta;     /* outputs of the reverse derivative */
    int32_t out_mean, out_spread;  /* of the others */
    bool centred;                  /* a mean is subtracted */
    double eps;
} sg_norm_places;

/* False for choices of derivatives that are left to the decomposition: those of the statistics. */
bool sg_norm_find(const sg_kernel_spec *spec, sg_norm_places *p);

#endif
