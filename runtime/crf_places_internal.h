/* crf_places_internal.h - where the operands of crf_log_partition and its derivatives lie, for the kernels of every device. */
#ifndef SG_CRF_PLACES_INTERNAL_H
#define SG_CRF_PLACES_INTERNAL_H

#include "runtime/backend_internal.h"

/* Which input or output of the node holds what; -1: there is none. Inputs 0 to 3 are those of the operator itself, which leaves log Z
 * and alpha, or their tangents, as outputs 0 and 1. */
typedef struct sg_crf_places {
    int32_t lengths, alpha, g, tg;
    int32_t te, ttransitions, tstart, tend; /* tangents */
    int32_t de, dtransitions, dstart, dend; /* outputs of the reverse derivative */
    bool reverse, forward;                  /* of the derivative: reverse, forward, or both */
} sg_crf_places;

/* False if a cotangent of alpha takes part: nobody asks for one, and the decomposition has it. */
bool sg_crf_find(const sg_kernel_spec *spec, sg_crf_places *p);

#endif
