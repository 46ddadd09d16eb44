/* cuda_kernels.h - the tables of kernels, one a file, each ended by a row without op. */
#ifndef SG_CUDA_KERNELS_H
#define SG_CUDA_KERNELS_H

#include "runtime/cuda/cuda_internal.h"

extern const sg_cuda_kernel sg_cuda_chain_kernels[];  /* chain.c: elementwise ops and fused chains */
extern const sg_cuda_kernel sg_cuda_matmul_kernels[]; /* matmul.c: products by cuBLASLt */

#endif
