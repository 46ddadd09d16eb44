/* product_follow.c - what the fusion pass lets follow a matrix product. */
#include "runtime/cuda/product_internal.h"

extern const sg_op sg_op_matmul, sg_op_cast, sg_op_add;

const sg_node *sg_cuda_product_in(sg_graph *body)
{
    for (int32_t i = 0; i < sg_node_count(body); i++)
        if (sg_node_at(body, i)->op == &sg_op_matmul)
            return sg_node_at(body, i);
    return NULL;
}

sg_matmul_problem sg_cuda_product_problem(sg_graph *graph, const sg_node *product)
{
    sg_shape in[2] = {*sg_shape_of(sg_value_at(graph, product->in[0])),
                      *sg_shape_of(sg_value_at(graph, product->in[1]))};
    sg_shape out = *sg_shape_of(sg_value_at(graph, product->out));
    return sg_matmul_describe(&(sg_kernel_spec){.attr = product->attr, .in_shape = in, .out_shape = &out});
}

/* Steps in a kernel of our own cost nothing; cuBLASLt can add a row, or keep float32 of bfloat16. With a row it does not split
 * the sum, which products of float32 need to occupy the device: not there. */
sg_fuse_follow sg_cuda_product_follow(sg_graph *graph, const sg_node *product)
{
    sg_dtype dtype = sg_dtype_of(sg_value_at(graph, product->out));
    sg_matmul_problem p = sg_cuda_product_problem(graph, product);
    if ((dtype != SG_F32 && dtype != SG_BF16) || p.batch * p.m * p.n == 0 || p.k == 0)
        return SG_FUSE_NOTHING;
    if (dtype == SG_F32)
        return sg_cuda_product_is_small(&p, true) ? SG_FUSE_STEPS : SG_FUSE_NOTHING;
    return SG_FUSE_ONE_STEP;
}

/* A vector along the last axis of the product, of its dtype, in whole words of 16 bytes. */
static bool is_row(sg_graph *graph, int32_t value, int32_t product)
{
    sg_value row = sg_value_at(graph, value), c = sg_value_at(graph, product);
    const sg_shape *r = sg_shape_of(row), *s = sg_shape_of(c);
    return value != product && r->rank > 0 && sg_dtype_of(row) == sg_dtype_of(c) &&
           r->dim[r->rank - 1] == s->dim[s->rank - 1] && sg_shape_count(r) == r->dim[r->rank - 1] &&
           sg_shape_count(r) % 8 == 0;
}

bool sg_cuda_product_ends(sg_graph *graph, const sg_node *product, const sg_node *step)
{
    sg_value c = sg_value_at(graph, product->out), out = sg_value_at(graph, step->out);
    if (!sg_shape_equal(sg_shape_of(c), sg_shape_of(out)))
        return false;
    if (step->op == &sg_op_cast)
        return sg_dtype_of(c) == SG_BF16 && sg_dtype_of(out) == SG_F32;
    return step->op == &sg_op_add && is_row(graph, step->in[step->in[0] == product->out], product->out);
}
