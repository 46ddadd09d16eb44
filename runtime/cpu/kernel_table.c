/* kernel_table.c - which kernel computes which op. Each file of kernels exports one NULL-ended table. */
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/matmul_internal.h"
#include "runtime/cpu/update_internal.h"

/* clang-format off */
static const sg_cpu_kernel *const tables[] = {
    sg_cpu_fused_kernels,
    sg_cpu_matmul_kernels, sg_cpu_matmul_sum_kernels,
    sg_cpu_csr_kernels,
    sg_cpu_reduce_kernels,
    sg_cpu_along_kernels,
    sg_cpu_move_kernels,
    sg_cpu_transpose_kernels,
    sg_cpu_index_kernels,
    sg_cpu_index_elements_kernels,
    sg_cpu_top_k_kernels,
    sg_cpu_lstm_kernels,
    sg_cpu_crf_kernels,
    sg_cpu_viterbi_kernels,
    sg_cpu_attention_kernels,
    sg_cpu_attention_derivative_kernels,
    sg_cpu_layer_norm_kernels,
    sg_cpu_cross_entropy_kernels,
    sg_cpu_conv_kernels,
    sg_cpu_pool_kernels,
    sg_cpu_adam_kernels,
    sg_cpu_sparse_adam_kernels, sg_cpu_product_adam_kernels,
};
/* clang-format on */

const sg_cpu_kernel *sg_cpu_find(const sg_kernel_spec *spec)
{
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const sg_cpu_kernel *k = tables[t]; k->op; k++)
            if (k->op == spec->node->op && (!k->supports || k->supports(spec)))
                return k;
    return NULL;
}
