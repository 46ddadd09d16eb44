/* chain_internal.h - elementwise chains as generated kernels: from a node to source text (chain_source.c), and running it
 * (chain.c). */
#ifndef SG_CUDA_CHAIN_INTERNAL_H
#define SG_CUDA_CHAIN_INTERNAL_H

#include "runtime/cuda/cuda_internal.h"
#include "runtime/fuse_internal.h"

enum {
    SG_CUDA_CHAIN_BLOCK = 256,     /* threads */
    SG_CUDA_CHAIN_FACTORS = 7,     /* operands of a product, at most */
    SG_CUDA_CHAIN_PARAMETERS = 512 /* of a kernel, at most */
};

/* A node's operands in the order of the kernel's parameters, and its text. Inputs that the text does not read have no
 * parameter. */
typedef struct sg_cuda_chain {
    char *source;
    int64_t count;  /* elements of the iteration space */
    int32_t pack;   /* elements that a thread takes at a time */
    bool draws;     /* every thread has to find the addresses of draws first */
    int32_t *input; /* operands that are parameters */
    int32_t n_input, n_out;
    int32_t *alias;  /* by output, as in sg_kernel */
    int32_t n_steps; /* operators computed */
    int32_t n_once;  /* of which once for all elements */
    /* Of a chain that begins with a product: its operands, which are not among `input`; else -1. */
    int32_t factor[SG_CUDA_CHAIN_FACTORS];
    int32_t n_streams; /* and how many operands its steps read that are not one number */
    bool odd_streams;  /* of which some have elements of other sizes than float */
    sg_sum_form sum;   /* of its sums; length 0: none */
    int32_t lanes; /* threads that take a row to be added up: a warp or a block; of columns, 1: a thread takes each */
    bool many;     /* replicas that do it at once: threads enough for few of each */
} sg_cuda_chain;

/* Can this op with these dtypes be a step? Shapes are not looked at. */
bool sg_cuda_chain_has(const sg_op *op, int32_t n_in, const sg_dtype *in, sg_dtype out);
/* A fused body, or one op. The kernel is named `chain`; parameters: inputs, outputs, then the loop iteration and the
 * bytes from one replica to the next (uint64_t both).
 * `threads` is how many keep the device busy. If the chain begins with a product, the product's operands are the first parameter, a
 * struct, and product.cuh, or of sparse rows product_csr.cuh, computes it and hands over its elements. */
sg_status sg_cuda_chain_write(sg_cuda_chain *chain, const sg_kernel_spec *spec, int64_t threads, sg_error *err);
void sg_cuda_chain_release(sg_cuda_chain *chain);
/* For a launch: where its parameters are, without the operands of a product. */
void sg_cuda_chain_parameters(const sg_cuda_chain *chain, const sg_launch *launch, void **parameter);
/* Does a thread add up a column alone, though in as many sums as a block's warps would have? */
bool sg_cuda_chain_alone(const sg_cuda_chain *chain);

/* The backend's `fuse`. */
sg_status sg_cuda_fuse(sg_graph *from, sg_graph *to, sg_error *err);

#endif
