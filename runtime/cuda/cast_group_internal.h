/* cast_group_internal.h - casts of many leaves as one node: the pass (cast_group.c), and its kernel (cast_group.cu). */
#ifndef SG_CUDA_CAST_GROUP_INTERNAL_H
#define SG_CUDA_CAST_GROUP_INTERNAL_H

#include "graph/graph.h"
#include "runtime/cuda/replica_internal.h"

/* Casts of leaves from f32 to bf16, `most` elements a node (a larger one is alone). */
sg_status sg_cuda_group_casts(sg_graph *from, sg_graph *to, int64_t most, sg_error *err);

typedef struct sg_cuda_cast {
    const float *in;
    void *out; /* bf16 */
    int64_t count;
    unsigned first_block; /* set by the launch */
    bool in_packs;        /* likewise: both addresses allow words of 16 bytes */
} sg_cuda_cast;

enum { SG_CUDA_CASTS = 96 }; /* of a launch: arguments of a kernel have 4 KiB */
typedef struct sg_cuda_casts {
    int32_t count;
    sg_cuda_cast at[SG_CUDA_CASTS];
} sg_cuda_casts;

#ifdef __cplusplus
extern "C"
#endif
    /* Tensors with elements. */
    void
    sg_cuda_cast_tensors(sg_cuda_casts *all, sg_cuda_where where);

#endif
