/* adam_internal.h - Adam steps, between adam.c and adam.cu. */
#ifndef SG_CUDA_ADAM_INTERNAL_H
#define SG_CUDA_ADAM_INTERNAL_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/cuda/csr_internal.h"

/* What the steps of one launch have in common. lr, t and factor are one number each, on the device. */
typedef struct sg_cuda_adam {
    const float *lr, *t, *factor;                  /* gradients are multiplied by factor, if that is not NULL */
    double log_beta1, log_beta2, decay;            /* logarithms -inf at 0 */
    float beta1, one_beta1, beta2, one_beta2, eps; /* one_beta is 1 - beta */
    bool decoupled;
} sg_cuda_adam;

/* One parameter: outputs may be the inputs. */
typedef struct sg_cuda_adam_member {
    const float *p, *g, *m, *v;
    float *p_out, *m_out, *v_out;
    int64_t count;
    unsigned first_block; /* set by the launch */
    bool in_quads;        /* likewise: all addresses allow loads of 16 bytes */
} sg_cuda_adam_member;

enum { SG_CUDA_ADAM_SPREAD_MOST = 64 }; /* iterations */
enum { SG_CUDA_ADAM_MEMBERS = 40 };     /* of a launch: arguments of a kernel have 4 KiB */
typedef struct sg_cuda_adam_members {
    int32_t count;
    sg_cuda_adam_member at[SG_CUDA_ADAM_MEMBERS];
} sg_cuda_adam_members;

#ifdef __cplusplus
extern "C" {
#endif

/* Members with elements. */
void sg_cuda_adam_steps(const sg_cuda_adam *a, sg_cuda_adam_members *members, sg_cuda_where where);

/* A layer [lines, width] whose gradient is the sum over its line's non-zeros, as sg_cuda_csr_product has it (not shared).
 * `member` has no g. In iteration `turn` of `spread` ones (adam_spread.c) of the lines without non-zeros only every spread-th may be
 * touched, with the steps of all iterations. */
void sg_cuda_adam_sparse(const sg_cuda_adam *a, const sg_cuda_adam_member *member, const sg_cuda_csr *c, int32_t spread,
                         int32_t turn, const float *value, const int32_t *pointers, const int32_t *index,
                         const int32_t *order, const float *dense, sg_cuda_where where);

#ifdef __cplusplus
}
#endif

#endif
