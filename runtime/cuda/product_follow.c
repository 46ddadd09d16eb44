/* product_follow.c - what the fusion pass lets follow a product. */
#include "runtime/cuda/csr_internal.h"
#include "runtime/cuda/product_internal.h"

extern const sg_op sg_op_matmul, sg_op_csr_matmul, sg_op_cast, sg_op_add;

static const sg_node *first_of(sg_graph *body, const sg_op *op)
{
    for (int32_t i = 0; i < sg_node_count(body); i++)
        if (sg_node_at(body, i)->op == op)
            return sg_node_at(body, i);
    return NULL;
}

const sg_node *sg_cuda_product_in(sg_graph *body) { return first_of(body, &sg_op_matmul); }
const sg_node *sg_cuda_csr_in(sg_graph *body) { return first_of(body, &sg_op_csr_matmul); }

sg_matmul_problem sg_cuda_product_problem(sg_graph *graph, const sg_node *product)
{
    sg_shape in[2] = {*sg_shape_of(sg_value_at(graph, product->in[0])),
                      *sg_shape_of(sg_value_at(graph, product->in[1]))};
    sg_shape out = *sg_shape_of(sg_value_at(graph, product->out));
    return sg_matmul_describe(&(sg_kernel_spec){.attr = product->attr, .in_shape = in, .out_shape = &out});
}

/* Of lines that blocks share, whose columns go by fours, and elements that are counted by 30 bits (product_csr.cuh). */
static bool is_shared(sg_graph *graph, const sg_node *product)
{
    enum { VALUES, DENSE = 6 };
    sg_value out = sg_value_at(graph, product->out);
    int64_t lines = sg_shape_of(out)->dim[0], width = sg_shape_of(out)->dim[1];
    int64_t capacity = sg_shape_count(sg_shape_of(sg_value_at(graph, product->in[VALUES])));
    return sg_dtype_of(out) == SG_F32 && lines * width > 0 && lines * width <= INT32_MAX / 2 && width % 4 == 0 &&
           capacity >= SG_CUDA_LONG_LINE * lines &&
           sg_shape_count(sg_shape_of(sg_value_at(graph, product->in[DENSE]))) > 0;
}

/* Steps in a kernel of our own cost nothing; cuBLASLt can add to products of bfloat16, or keep them float32. With a row it does
 * not split the sum, which products of float32 need to occupy the device: not there. */
sg_fuse_follow sg_cuda_product_follow(sg_graph *graph, const sg_node *product)
{
    if (product->op == &sg_op_csr_matmul)
        return is_shared(graph, product) ? SG_FUSE_STEPS : SG_FUSE_NOTHING;
    sg_dtype dtype = sg_dtype_of(sg_value_at(graph, product->out));
    sg_matmul_problem p = sg_cuda_product_problem(graph, product);
    if ((dtype != SG_F32 && dtype != SG_BF16) || p.batch * p.m * p.n == 0 || p.k == 0)
        return SG_FUSE_NOTHING;
    if (dtype == SG_F32)
        return sg_cuda_product_is_ours(&p, true) ? SG_FUSE_STEPS : SG_FUSE_NOTHING;
    return SG_FUSE_CHOSEN;
}

/* ---- what cuBLASLt does at the end of a product */

sg_cuda_product_end sg_cuda_product_begin(const sg_node *product)
{
    return (sg_cuda_product_end){.row = -1, .whole = -1, .last = product->out};
}

/* A vector along the last axis of the result, of its dtype, in whole words of 16 bytes. */
static bool is_row(const sg_shape *row, const sg_shape *result)
{
    int64_t n = row->rank > 0 ? row->dim[row->rank - 1] : 0;
    return n == result->dim[result->rank - 1] && sg_shape_count(row) == n && n % 8 == 0;
}

static bool extend_by_sum(sg_graph *graph, sg_cuda_product_end *end, const sg_node *add)
{
    int32_t other = add->in[add->in[0] == end->last];
    const sg_shape *x = sg_shape_of(sg_value_at(graph, other)), *y = sg_shape_of(sg_value_at(graph, add->out));
    if (other == end->last || sg_dtype_of(sg_value_at(graph, other)) != sg_dtype_of(sg_value_at(graph, add->out)))
        return false;
    if (sg_shape_equal(x, y) && end->whole < 0) {
        end->whole = other;
        return true;
    }
    if (!is_row(x, y) || end->row >= 0 || end->wide)
        return false;
    end->row = other;
    return true;
}

/* The row is added in the dtype of the product, which is also that of the result: what is f32 has none. */
static bool extend_by_cast(sg_graph *graph, sg_cuda_product_end *end, const sg_node *cast)
{
    end->wide = sg_dtype_of(sg_value_at(graph, end->last)) == SG_BF16 &&
                sg_dtype_of(sg_value_at(graph, cast->out)) == SG_F32 && end->row < 0 && end->whole < 0;
    return end->wide;
}

bool sg_cuda_product_extend(sg_graph *graph, sg_cuda_product_end *end, const sg_node *step)
{
    if (!sg_shape_equal(sg_shape_of(sg_value_at(graph, end->last)), sg_shape_of(sg_value_at(graph, step->out))))
        return false;
    bool good = step->op == &sg_op_add    ? extend_by_sum(graph, end, step)
                : step->op == &sg_op_cast ? extend_by_cast(graph, end, step)
                                          : false;
    end->last = step->out;
    return good;
}

static bool reads(const sg_node *node, int32_t value)
{
    for (int32_t k = 0; k < node->n_in; k++)
        if (node->in[k] == value)
            return true;
    return false;
}

/* Only the last value of the chain is there to be read. */
bool sg_cuda_product_chooses(sg_graph *graph, const sg_node *const *member, int32_t n, const sg_node *step)
{
    sg_cuda_product_end end = sg_cuda_product_begin(member[0]);
    for (int32_t i = 1; i < n; i++) {
        if (reads(step, member[i - 1]->out))
            return false;
        sg_cuda_product_extend(graph, &end, member[i]);
    }
    return sg_cuda_product_extend(graph, &end, step);
}
