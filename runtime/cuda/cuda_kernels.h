/* cuda_kernels.h - the tables of kernels, one a file, each ended by a row without op. */
#ifndef SG_CUDA_KERNELS_H
#define SG_CUDA_KERNELS_H

#include "runtime/cuda/cuda_internal.h"

extern const sg_cuda_kernel sg_cuda_chain_kernels[];   /* chain.c: elementwise ops and fused chains */
extern const sg_cuda_kernel sg_cuda_product_kernels[]; /* product.c: products of small matrices, with what follows */
extern const sg_cuda_kernel
    sg_cuda_product_csr_kernels[];                    /* product_csr.c: products with sparse rows, with what follows */
extern const sg_cuda_kernel sg_cuda_vector_kernels[]; /* product_vector.c: a vector times a matrix */
extern const sg_cuda_kernel sg_cuda_matmul_kernels[]; /* matmul.c: products by cuBLASLt */
extern const sg_cuda_kernel sg_cuda_sum_kernels[];    /* sum.c */
extern const sg_cuda_kernel sg_cuda_reduce_kernels[]; /* reduce.c: other reductions, softmax, running sums */
extern const sg_cuda_kernel sg_cuda_layer_norm_kernels[]; /* layer_norm.c: layer_norm, rms_norm and their derivatives */
extern const sg_cuda_kernel sg_cuda_channel_norm_kernels[];  /* channel_norm.c: the same of batch_norm and group_norm */
extern const sg_cuda_kernel sg_cuda_cross_entropy_kernels[]; /* cross_entropy.c: the same of softmax_cross_entropy */
extern const sg_cuda_kernel sg_cuda_move_kernels[];          /* move.c: concat, slice, pad */
extern const sg_cuda_kernel sg_cuda_transpose_kernels[];     /* transpose.c */
extern const sg_cuda_kernel sg_cuda_index_kernels[]; /* index.c: gather, scatter, one_hot, state of random numbers */
extern const sg_cuda_kernel sg_cuda_csr_kernels[];   /* csr.c: products with sparse rows */
extern const sg_cuda_kernel sg_cuda_top_k_kernels[]; /* top_k.c: top_k, crf_viterbi */
extern const sg_cuda_kernel sg_cuda_crf_kernels[];   /* crf.c: crf_log_partition and its derivatives */
extern const sg_cuda_kernel sg_cuda_conv_kernels[];  /* conv.c: convolutions and their gradients */
extern const sg_cuda_kernel sg_cuda_pool_kernels[];  /* pool.c: pooling */
extern const sg_cuda_kernel sg_cuda_adam_kernels[];  /* adam.c */
extern const sg_cuda_kernel sg_cuda_gelu_sums_kernels[];  /* gelu_sums.c */
extern const sg_cuda_kernel sg_cuda_cast_group_kernels[]; /* cast_group.c */
extern const sg_cuda_kernel sg_cuda_attention_kernels[];  /* attention.c: attention and its derivatives */

#endif
