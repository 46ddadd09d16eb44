/* prod.c - y = product of x over one axis; 1 over an empty axis.
 *
 * dx_i = dy prod_{j != i} x_j. Dividing y by x_i is wrong at zeros, so the derivative is built as a polynomial: halves
 * are multiplied pairwise until one element is left (log2 n levels, an odd level is filled up with ones),
 *     p_{l+1} = a_l b_l,   with a_l, b_l the halves of p_l,
 * and the cotangent walks back down,   e_l = (e_{l+1} b_l, e_{l+1} a_l). Every step is a product, a slice or a
 * concatenation, hence exact at zeros at every order. The slices hold the size of the axis: a graph with such a
 * derivative refuses to resize that axis (the final reshape to x's shape does not fit). */
#include "ops/axis_internal.h"
#include "ops/reduce_internal.h"

enum { MAX_LEVELS = 63 };

/* dx for the cotangent g, whose axis has size 1. */
static sg_value reverse(sg_value x, sg_value g, int32_t axis)
{
    sg_value half[MAX_LEVELS][2];
    int64_t size[MAX_LEVELS];
    int32_t levels = 0;
    for (sg_value p = x; sg_dim_of(p, axis) > 1; levels++) {
        size[levels] = sg_dim_of(p, axis);
        if (size[levels] % 2 == 1)
            p = sg_concat((sg_value[]){p, sg_ones_like(sg_slice(p, axis, 0, 1))}, 2, axis);
        int64_t middle = (size[levels] + 1) / 2;
        half[levels][0] = sg_slice(p, axis, 0, middle);
        half[levels][1] = sg_slice(p, axis, middle, 2 * middle);
        p = sg_mul(half[levels][0], half[levels][1]);
    }
    sg_value e = g;
    while (levels-- > 0) {
        sg_value sides[] = {sg_mul(e, half[levels][1]), sg_mul(e, half[levels][0])};
        e = sg_slice(sg_concat(sides, 2, axis), axis, 0, size[levels]);
    }
    return e;
}

static void vjp(const sg_vjp_args *a)
{
    int32_t axis = (int32_t)a->node->attr[SG_REDUCE_AXIS].i;
    sg_value x = a->in[0];
    if (sg_dim_of(x, axis) == 0)
        return;
    sg_value e = reverse(x, sg_reduce_keep(a->node, a->gout[0]), axis);
    a->gin[0] = sg_build_binary(&sg_op_reshape_like, e, x);
}

static void eval(const sg_eval_args *a)
{
    sg_axis_split v = sg_split_at(a->in[0].shape, a->attr[SG_REDUCE_AXIS].i);
    for (int64_t o = 0; o < v.outer; o++) {
        for (int64_t j = 0; j < v.inner; j++) {
            double product = 1;
            for (int64_t i = 0; i < v.size; i++)
                product *= a->in[0].data[(o * v.size + i) * v.inner + j];
            a->out[0].data[o * v.inner + j] = product;
        }
    }
}

const sg_op sg_op_prod = {
    .name = "prod",
    .summary = "y = product of x over an axis",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_FULL,
    .attrs = sg_reduce_attrs,
    .n_attrs = 2,
    .infer = sg_reduce_infer,
    .vjp = vjp,
    .eval = eval,
    .cost = sg_reduce_cost,
};

sg_value sg_prod(sg_value x, int32_t axis, bool keep) { return sg_reduce_build(&sg_op_prod, x, axis, keep); }
