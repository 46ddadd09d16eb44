/* chain_parts_internal.h - what chain_source.c is made of: operators as steps (chain_steps.c), places of operands (chain_places.c),
 * loops of sums (chain_sums.c), and text (chain_text.c). */
#ifndef SG_CUDA_CHAIN_PARTS_INTERNAL_H
#define SG_CUDA_CHAIN_PARTS_INTERNAL_H

#include "runtime/cuda/chain_internal.h"

bool sg_cuda_step_real(const sg_op *op); /* a function of float registers (chain_functions.cuh) */
bool sg_cuda_step_both(const sg_op *op); /* of float or of int registers */
bool sg_cuda_step_low(const sg_op *op);  /* has a form to the digits of bf16 */
bool sg_cuda_step_view(const sg_op *op); /* its operand itself, seen in another shape */
bool sg_cuda_step_draw(const sg_op *op);
bool sg_cuda_step_sum(const sg_op *op);

/* Elements that a thread takes at a time; `threads` keep the device busy. */
int32_t sg_cuda_chain_pack(const sg_kernel_spec *spec, const sg_cuda_chain *chain, int64_t threads);

/* Where the elements of an operand lie: axes of size 1 dropped, neighbours merged where one step of the outer is a walk of
 * the inner. */
typedef struct sg_cuda_places {
    int32_t rank;
    int64_t dim[SG_MAX_RANK], stride[SG_MAX_RANK];
} sg_cuda_places;
sg_cuda_places sg_cuda_places_of(const sg_shape *space, const sg_shape *shape, const int64_t *stride);

/* How a pack reads an operand. */
typedef enum sg_cuda_access {
    SG_CUDA_ACCESS_NUMBER,  /* one element for all */
    SG_CUDA_ACCESS_OWN,     /* a pack, at the place of the elements themselves */
    SG_CUDA_ACCESS_PACK,    /* a pack, elsewhere */
    SG_CUDA_ACCESS_SAME,    /* one element for the pack */
    SG_CUDA_ACCESS_ELEMENTS /* element by element */
} sg_cuda_access;
sg_cuda_access sg_cuda_access_of(const sg_cuda_places *places, int64_t pack);

/* Text that grows. `at` is released with sg_free. */
typedef struct sg_cuda_text {
    char *at;
    size_t length, capacity;
    bool failed; /* out of memory */
} sg_cuda_text;
/* As printf, at the end. */
void sg_cuda_put(sg_cuda_text *text, const char *format, ...) SG_PRINTF(2, 3);

/* The loops over what the sums of a chain add up, and after each sum `ends`. */
void sg_cuda_put_sums(const sg_cuda_chain *chain, const char *ends, sg_cuda_text *all);

#endif
