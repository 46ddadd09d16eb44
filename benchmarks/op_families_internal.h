/* op_families_internal.h - the operators that `bench ops` knows. */
#ifndef SG_OP_FAMILIES_INTERNAL_H
#define SG_OP_FAMILIES_INTERNAL_H

#include "graph/graph.h"

enum { SG_OP_OPERANDS = 8, SG_OP_NUMBERS = 8 };

/* An operator being built: the numbers of its shape, and its differentiable operands so far. */
typedef struct sg_op_bench {
    sg_graph *graph;
    sg_store *store;
    sg_dtype dtype;
    int64_t d[SG_OP_NUMBERS];
    int32_t n_d;
    sg_value in[SG_OP_OPERANDS];
    int32_t n_in;
} sg_op_bench;

enum {
    SG_OP_F32_ONLY = 1 << 0,   /* not offered in bf16 */
    SG_OP_VALUE_ONLY = 1 << 1, /* no derivatives to time */
    SG_OP_BY_NAME = 1 << 2     /* its numbers mean something of their own: a shape alone does not ask for it */
};

typedef struct sg_op_family {
    const char *name;
    sg_value (*build)(sg_op_bench *b);
    int32_t least, most; /* numbers of a shape */
    unsigned flags;
} sg_op_family;
extern const sg_op_family sg_op_families[]; /* ended by a NULL name */

/* Build the operator and declare its results. order 0: the value; 1: its cotangents by all operands, for a cotangent that is an
 * input; 2: the derivative of these along directions that are inputs. */
void sg_op_bench_build(sg_op_bench *b, const sg_op_family *family, int order);

#endif
