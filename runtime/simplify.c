/* simplify.c - products of matrices with one column, said differently. Gradients of scores y = H v are full of them:
 *
 *     dH = g v'   [M, 1] x [1, N] is no sum at all: a multiplication with broadcasting, which joins the chain around it.
 *     dv = H' g   [M, K]' x [M, 1] reads H by columns; (g' H)' is the same sum of rows of H. */
#include "ops/ops_internal.h"
#include "runtime/fuse_internal.h"

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

static bool simplify(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    (void)user, (void)to, (void)from;
    if (node->op != &sg_op_matmul)
        return false;
    bool trans_a = node->attr[TRANS_A].i != 0, trans_b = node->attr[TRANS_B].i != 0;
    if (sg_dim_of(in[0], trans_a ? -2 : -1) == 1)
        out[0] = sg_mul(trans_a ? turned(in[0]) : in[0], trans_b ? turned(in[1]) : in[1]);
    else if (trans_a && sg_dim_of(in[1], -1) == 1)
        out[0] = turned(sg_matmul(turned(in[1]), in[0]));
    else
        return false;
    return true;
}

sg_status sg_fuse_simplify(sg_graph *from, sg_graph *to, sg_error *err)
{
    return sg_graph_rewrite(from, to, simplify, NULL, NULL, err);
}
