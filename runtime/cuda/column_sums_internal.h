/* column_sums_internal.h - sums over rows that a kernel leaves beside its results, and cotangents of attention as one tensor. */
#ifndef SG_CUDA_COLUMN_SUMS_INTERNAL_H
#define SG_CUDA_COLUMN_SUMS_INTERNAL_H

#include "runtime/cuda/cuda_internal.h"

/* A pass after the fusion of chains. The new nodes are sg_op_fused; their inputs and first outputs are those of the node in
 * their body, and sums over all rows of f32 follow, of those outputs that have one. */
sg_status sg_cuda_join_column_sums(sg_graph *from, sg_graph *to, sg_error *err);
/* A pass before sums of products are ordered (attention_joint.c). In its bodies the first result is [dq dk dv]. */
sg_status sg_cuda_join_cotangents(sg_graph *from, sg_graph *to, sg_error *err);

/* That node of a body, or NULL in others; *inner is then its own spec: operands and first outputs are those of the fused node. */
const sg_node *sg_cuda_summed_spec(const sg_kernel_spec *spec, sg_kernel_spec *inner);
/* The result of the body that is the sum of that node's `output`, or -1. */
int32_t sg_cuda_sum_output(sg_graph *body, int32_t output);

/* ---- what both passes need */

enum { SG_CUDA_SUMMED_INPUTS = 16 };
/* Who reads the values of a graph: of value v the nodes node[at[v] .. at[v + 1]), in order. */
typedef struct sg_cuda_readers {
    struct sg_cuda_readers *next; /* those of other graphs */
    sg_graph *graph;
    int32_t *at, *node;
    bool *root; /* results and effects */
} sg_cuda_readers;
/* NULL if memory is out. */
const sg_cuda_readers *sg_cuda_readers_of(sg_cuda_readers **all, sg_graph *graph);
void sg_cuda_readers_free(sg_cuda_readers **all);
/* The one reader of a value, or NULL. */
const sg_node *sg_cuda_only_reader(const sg_cuda_readers *readers, int32_t value);
/* Is this the sum of rows of so many columns? */
bool sg_cuda_sums_rows(sg_graph *graph, const sg_node *node, int64_t columns);
/* The sum in f32 of the rows of `value` or a view of it, a value, or -1. */
int32_t sg_cuda_find_row_sum(const sg_cuda_readers *readers, int32_t value, int64_t columns);
/* The same, built. */
sg_value sg_cuda_sum_of_rows(sg_value x, int64_t columns, const sg_shape *shape);

#endif
