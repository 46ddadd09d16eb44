/* kernel_table.c - which kernel computes which op. Each file of kernels exports one table, ended by a row without op. */
#include "runtime/cuda/cuda_kernels.h"

/* clang-format off */
static const sg_cuda_kernel *const tables[] = {
    sg_cuda_chain_kernels,
    sg_cuda_matmul_kernels,
    sg_cuda_reduce_kernels,
    sg_cuda_move_kernels,
    sg_cuda_transpose_kernels,
    sg_cuda_index_kernels,
    sg_cuda_csr_kernels,
    sg_cuda_top_k_kernels,
    sg_cuda_conv_kernels,
    sg_cuda_pool_kernels,
    sg_cuda_adam_kernels,
};
/* clang-format on */

const sg_cuda_kernel *sg_cuda_find(const sg_kernel_spec *spec)
{
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const sg_cuda_kernel *k = tables[t]; k->op; k++)
            if (k->op == spec->node->op && (!k->supports || k->supports(spec)))
                return k;
    return NULL;
}
