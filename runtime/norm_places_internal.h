/* norm_places_internal.h - where the operands of layer_norm and of its derivatives lie, for the kernels of every device. */
#ifndef SG_LAYER_NORM_PLACES_INTERNAL_H
#define SG_LAYER_NORM_PLACES_INTERNAL_H

#include "runtime/backend_internal.h"

/* Where the node's operands lie; -1: there is none. */
typedef struct sg_layer_norm_places {
    int32_t mean, rstd, g;         /* known beforehand */
    int32_t tx, tgamma, tbeta, tg; /* tangents */
    int32_t gx, ggamma, gbeta;     /* outputs of the reverse derivative */
} sg_layer_norm_places;

/* False for choices of derivatives that are left to the decomposition: those of mean and rstd. */
bool sg_layer_norm_find(const sg_kernel_spec *spec, sg_layer_norm_places *p);

#endif
