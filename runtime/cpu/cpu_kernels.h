/* cpu_kernels.h - the tables of kernels, one a file, each ended by a row without op. kernel_table.c lists them. */
#ifndef SG_CPU_KERNELS_H
#define SG_CPU_KERNELS_H

#include "runtime/cpu/cpu_internal.h"

#define SG_OP(name) extern const sg_op sg_op_##name;
#include "ops/op_list.h"
#undef SG_OP

/* clang-format off */
/* fused_kernel.c: fused chains, and every elementwise op, cast, broadcast, fill and draw as a chain of one node */
extern const sg_cpu_kernel sg_cpu_fused_kernels[];
extern const sg_cpu_kernel sg_cpu_matmul_kernels[];    /* matmul.c */
extern const sg_cpu_kernel sg_cpu_csr_kernels[];       /* csr.c: products with sparse rows */
extern const sg_cpu_kernel sg_cpu_reduce_kernels[];    /* reduce.c: sums */
extern const sg_cpu_kernel sg_cpu_along_kernels[];     /* along.c: other reductions and scans along one axis, softmax */
extern const sg_cpu_kernel sg_cpu_move_kernels[];      /* move.c: concat, slice, pad */
extern const sg_cpu_kernel sg_cpu_transpose_kernels[]; /* transpose.c */
extern const sg_cpu_kernel sg_cpu_index_kernels[];     /* index.c: gather, scatter, segment_max, one_hot, rng_advance */
extern const sg_cpu_kernel sg_cpu_index_elements_kernels[]; /* index_elements.c */
extern const sg_cpu_kernel sg_cpu_top_k_kernels[];     /* top_k.c */
extern const sg_cpu_kernel sg_cpu_lstm_kernels[];      /* lstm.c */
extern const sg_cpu_kernel sg_cpu_crf_kernels[];       /* crf.c */
extern const sg_cpu_kernel sg_cpu_viterbi_kernels[];   /* viterbi.c */
extern const sg_cpu_kernel sg_cpu_attention_kernels[]; /* attention.c */
extern const sg_cpu_kernel sg_cpu_attention_derivative_kernels[]; /* attention_derivative.c */
extern const sg_cpu_kernel sg_cpu_layer_norm_kernels[]; /* layer_norm.c: layer_norm, rms_norm and their derivatives */
extern const sg_cpu_kernel sg_cpu_conv_kernels[];      /* conv.c: convolutions and their gradients */
extern const sg_cpu_kernel sg_cpu_pool_kernels[];      /* pool.c: pooling */
extern const sg_cpu_kernel sg_cpu_cross_entropy_kernels[]; /* cross_entropy.c: softmax_cross_entropy and its derivatives */
extern const sg_cpu_kernel sg_cpu_adam_kernels[];      /* adam.c */
/* clang-format on */

#endif
