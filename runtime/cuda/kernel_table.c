/* kernel_table.c - which kernel computes which op. Each file of kernels exports one table, ended by a row without op. */
#include "runtime/cuda/cuda_kernels.h"

/* clang-format off */
static const sg_cuda_kernel *const tables[] = {
    sg_cuda_attention_kernels,
    sg_cuda_layer_norm_kernels,
    sg_cuda_gelu_sums_kernels,
    sg_cuda_product_kernels,
    sg_cuda_product_csr_kernels,
    sg_cuda_vector_kernels,
    sg_cuda_matmul_kernels,
    sg_cuda_chain_kernels,
    sg_cuda_sum_kernels,
    sg_cuda_reduce_kernels,
    sg_cuda_channel_norm_kernels,
    sg_cuda_cross_entropy_kernels,
    sg_cuda_move_kernels,
    sg_cuda_transpose_kernels,
    sg_cuda_index_kernels,
    sg_cuda_csr_kernels,
    sg_cuda_top_k_kernels,
    sg_cuda_crf_kernels,
    sg_cuda_conv_kernels,
    sg_cuda_pool_kernels,
    sg_cuda_adam_kernels,
    sg_cuda_cast_group_kernels,
};
/* clang-format on */

static bool has_bf16(const sg_kernel_spec *spec)
{
    for (int32_t k = 0; k < spec->n_in; k++)
        if (spec->in_dtype[k] == SG_BF16)
            return true;
    for (int32_t j = 0; j < spec->n_out; j++)
        if (spec->out_dtype[j] == SG_BF16)
            return true;
    return false;
}

const sg_cuda_kernel *sg_cuda_find(const sg_kernel_spec *spec)
{
    bool bf16 = has_bf16(spec);
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const sg_cuda_kernel *k = tables[t]; k->op; k++)
            if (k->op == spec->node->op && (k->supports ? k->supports(spec) : !bf16))
                return k;
    return NULL;
}
