/* simplify.c - what derivatives are full of, said in a way that costs less.
 *
 * Products of matrices with one column, from scores y = H v:
 *
 *     dH = g v'   [M, 1] x [1, N] is no sum at all: a multiplication with broadcasting, which joins the chain around it.
 *     dv = H' g   [M, K]' x [M, 1] reads H by columns; (g' H)' is the same sum of rows of H.
 *
 * Sums with a tangent that was spread over the shape of what it is the tangent of, from y = x W + b: addition spreads it by
 * itself, and who knows it as a row may add it at the end of a product. */
#include "ops/ops_internal.h"
#include "runtime/fuse_internal.h"

extern const sg_op sg_op_broadcast_like;

enum { TRANS_A, TRANS_B };

/* The matrices of a stack with one row or column, turned over: no element moves. */
static sg_value turned(sg_value x)
{
    sg_shape shape = *sg_shape_of(x);
    int64_t rows = shape.dim[shape.rank - 2];
    shape.dim[shape.rank - 2] = shape.dim[shape.rank - 1];
    shape.dim[shape.rank - 1] = rows;
    for (int32_t i = 0; i < shape.rank; i++)
        shape.name[i] = NULL;
    return sg_reshape(x, shape);
}

/* What was spread to make x, in the type of x; x itself if nothing was. */
static sg_value narrow(sg_value x)
{
    const sg_node *node = sg_node_of(x);
    bool is_cast = node->op == &sg_op_cast;
    if (is_cast)
        node = sg_node_of(sg_value_at(x.graph, node->in[0]));
    if (node->op != &sg_op_broadcast_like)
        return x;
    sg_value row = sg_value_at(x.graph, node->in[0]);
    return is_cast ? sg_cast(row, sg_dtype_of(x)) : row;
}

static bool simplify_sum(const sg_value *in, sg_value *out)
{
    for (int32_t k = 0; k < 2; k++) {
        const sg_shape *whole = sg_shape_of(in[1 - k]);
        sg_shape wide;
        sg_value x = narrow(in[k]);
        if (x.id == in[k].id || !sg_shape_equal(whole, sg_shape_of(in[k])) ||
            !sg_shape_broadcast(sg_shape_of(x), whole, &wide) || !sg_shape_equal(&wide, whole))
            continue;
        out[0] = sg_add(in[1 - k], x);
        return true;
    }
    return false;
}

static bool simplify_product(const sg_node *node, const sg_value *in, sg_value *out)
{
    bool trans_a = node->attr[TRANS_A].i != 0, trans_b = node->attr[TRANS_B].i != 0;
    if (sg_dim_of(in[0], trans_a ? -2 : -1) == 1)
        out[0] = sg_mul(trans_a ? turned(in[0]) : in[0], trans_b ? turned(in[1]) : in[1]);
    else if (trans_a && sg_dim_of(in[1], -1) == 1)
        out[0] = turned(sg_matmul(turned(in[1]), in[0]));
    else
        return false;
    return true;
}

static bool simplify(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    (void)user, (void)to, (void)from;
    return node->op == &sg_op_matmul ? simplify_product(node, in, out)
           : node->op == &sg_op_add  ? simplify_sum(in, out)
                                     : false;
}

sg_status sg_fuse_simplify(sg_graph *from, sg_graph *to, sg_error *err)
{
    return sg_graph_rewrite(from, to, simplify, NULL, NULL, err);
}
