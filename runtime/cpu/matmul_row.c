/* matmul_row.c - sums of products with a row or a column that is spread over a matrix, written as products of matrices.
 *
 *     s = sum_k x[i, k] r[k]     of every row i (scores of candidates)                   X r', a dot product a row
 *     s = sum_i c[i] x[i, k]     of every column k (the derivative with respect to r)    c' X, a sum of scaled rows
 *
 * for matrices x in a stack. As a chain, the first repeats r for each row of a tile, and the second is written to memory as large as x
 * and read again; the row kernels of matmul_small.c read x once and nothing else of its size. */
#include "ops/ops.h"
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/matmul_internal.h"
#include "runtime/cpu/program_internal.h"
#include "runtime/leaf_internal.h"

/* Shorter rows have more of a dot product's fixed cost than of its work. */
enum { LEAST_ROW = 32 };

/* The one axis that a sum takes away, or -1. */
static int32_t summed_axis(const sg_node *node, const sg_shape *x, const sg_shape *y)
{
    if (node->op == &sg_op_sum)
        return node->attr[0].count == 1 ? (int32_t)node->attr[0].ints[0] : -1;
    if (node->op != &sg_op_sum_like || x->rank != y->rank)
        return -1;
    int32_t axis = -1;
    for (int32_t i = 0; i < x->rank; i++)
        if (x->dim[i] != y->dim[i])
            axis = axis < 0 ? i : SG_MAX_RANK;
    return axis < x->rank ? axis : -1;
}

/* Is `narrow` as `wide`, but for a size of 1 on this axis? */
static bool spread_over(const sg_shape *narrow, const sg_shape *wide, int32_t axis)
{
    if (narrow->rank != wide->rank || wide->dim[axis] == 1)
        return false;
    for (int32_t i = 0; i < wide->rank; i++)
        if (narrow->dim[i] != (i == axis ? 1 : wide->dim[i]))
            return false;
    return true;
}

/* Readers of the numbers of a value: others want its shape, which costs nothing. */
static int32_t readers(sg_graph *graph, int32_t id)
{
    int32_t n = sg_reader_count(graph, id);
    for (int32_t i = 0; i < sg_node_count(graph); i++) {
        const sg_node *node = sg_node_at(graph, i);
        for (int32_t k = 0; k < node->n_in; k++)
            n -= node->in[k] == id && sg_reads_shape_only(node, k);
    }
    return n;
}

/* Does this value lie in memory anyway? What a chain makes could be summed on the way. */
static bool in_memory(sg_graph *graph, int32_t id)
{
    enum { MOST = 8 };
    sg_dtype in[MOST];
    const sg_node *node = sg_node_of(sg_value_at(graph, id));
    for (int32_t k = 0; k < node->n_in && k < MOST; k++)
        in[k] = sg_dtype_of(sg_value_at(graph, node->in[k]));
    return readers(graph, id) > 1 && (node->n_in > MOST || !sg_program_has(node->op, node->n_in, in, SG_F32));
}

/* The derivative of a sum comes already spread. */
static sg_value before_spreading(sg_value x)
{
    const sg_node *node = sg_node_of(x);
    return node->op == &sg_op_broadcast_like ? sg_value_at(x.graph, node->in[0]) : x;
}

/* Without names: they stay with what is reshaped to the shape of a value. */
static sg_value reshaped(sg_value x, sg_shape shape)
{
    for (int32_t i = 0; i < shape.rank; i++)
        shape.name[i] = NULL;
    return sg_reshape(x, shape);
}

/* sum over `axis`, the last or the one before it, of wide * narrow, with this shape. */
static sg_value product(sg_value wide, sg_value narrow, int32_t axis, const sg_shape *result)
{
    sg_shape row = *sg_shape_of(narrow);
    int32_t last = row.rank - 1;
    if (axis == last)
        return reshaped(sg_matmul_nt(wide, narrow), *result);
    row.dim[last] = row.dim[axis];
    row.dim[axis] = 1;
    return reshaped(sg_matmul(reshaped(narrow, row), wide), *result);
}

static bool rewrite(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    (void)user;
    if ((node->op != &sg_op_sum && node->op != &sg_op_sum_like) || sg_node_of(in[0])->op != &sg_op_mul ||
        sg_dtype_of(in[0]) != SG_F32 || sg_rank_of(in[0]) < 2 || readers(from, node->in[0]) != 1)
        return false;
    const sg_shape *x = sg_shape_of(in[0]), *result = sg_shape_of(sg_value_at(from, node->out));
    int32_t last = x->rank - 1, axis = summed_axis(node, x, result);
    if ((axis != last && axis != last - 1) || x->dim[last] < LEAST_ROW)
        return false;
    const int32_t *old = sg_node_of(sg_value_at(from, node->in[0]))->in, *new = sg_node_of(in[0])->in;
    for (int32_t k = 0; k < 2; k++) {
        sg_value wide = sg_value_at(to, new[k]), narrow = before_spreading(sg_value_at(to, new[1 - k]));
        if (!in_memory(from, old[k]) || !sg_shape_equal(sg_shape_of(wide), x) ||
            !spread_over(sg_shape_of(narrow), x, axis == last ? last - 1 : last))
            continue;
        out[0] = product(wide, narrow, axis, result);
        return true;
    }
    return false;
}

sg_status sg_cpu_products_with_rows(sg_graph *from, sg_graph *to, sg_error *err)
{
    return sg_graph_rewrite(from, to, rewrite, NULL, NULL, err);
}
