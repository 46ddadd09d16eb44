/* matmul.c - Y = op(A) op(B) on the last two axes, op(A) = A or A' by attribute; the axes before them broadcast.
 *
 * Linear in each operand. With G the cotangent of Y, <G, dA B> = <G B', dA> and so on:
 *     Y = A  B :  dA = G B',   dB = A' G
 *     Y = A  B':  dA = G B,    dB = G' A
 *     Y = A' B :  dA = B G',   dB = A G
 * and the three forms suffice: no transpose is ever materialised. Where one operand has no batch axes but the other
 * has, its cotangent is a sum over the batch, which is one product of matrices whose rows are all rows of the batch:
 *     Y_i = A_i B,   dB = sum_i A_i' G_i = [A_1; A_2; ...]' [G_1; G_2; ...]. */
#include "ops/axis_internal.h"

enum { TRANS_A, TRANS_B };
static const sg_attr_spec attrs[] = {{"trans_a", SG_ATTR_INT}, {"trans_b", SG_ATTR_INT}};

/* Axes of a matrix stack: rows and columns of op(X). */
static int32_t row_axis(const sg_shape *x, bool trans) { return x->rank - (trans ? 1 : 2); }

static int32_t column_axis(const sg_shape *x, bool trans) { return x->rank - (trans ? 2 : 1); }

static sg_status infer(const sg_infer_args *args)
{
    const sg_shape *a = &args->in_shape[0], *b = &args->in_shape[1];
    bool trans_a = args->attr[TRANS_A].i != 0, trans_b = args->attr[TRANS_B].i != 0;
    SG_TRY(sg_require_real(args, 0));
    SG_TRY(sg_require_same_dtype(args, 0, 1));
    if (a->rank < 2 || b->rank < 2)
        return sg_infer_fail(args, SG_E_SHAPE, "both operands need at least two axes");
    if (trans_a && trans_b)
        return sg_infer_fail(args, SG_E_UNSUPPORTED, "both operands transposed: swap them and transpose the product");
    int64_t left = a->dim[column_axis(a, trans_a)], right = b->dim[row_axis(b, trans_b)];
    if (left != right)
        return sg_infer_fail(args, SG_E_SHAPE, "inner sizes %lld and %lld differ%s", (long long)left, (long long)right,
                             trans_b   ? " (second operand transposed)"
                             : trans_a ? " (first operand transposed)"
                                       : "");
    sg_shape batch_a = *a, batch_b = *b, out;
    batch_a.rank -= 2;
    batch_b.rank -= 2;
    if (!sg_shape_broadcast(&batch_a, &batch_b, &out))
        return sg_infer_fail(args, SG_E_SHAPE, "batch axes do not broadcast");
    sg_shape_put(&out, out.rank++, a, row_axis(a, trans_a));
    sg_shape_put(&out, out.rank++, b, column_axis(b, trans_b));
    args->out_shape[0] = out;
    args->out_dtype[0] = args->in_dtype[0];
    return SG_OK;
}

/* All rows of all matrices of the stack as one matrix. */
static sg_value stack_rows(sg_value x)
{
    int32_t rank = sg_rank_of(x);
    if (rank == 2)
        return x;
    sg_attr attr = sg_attr_ints((int64_t[]){-1, -2 - (int64_t)(rank - 1)}, 2);
    return sg_build_op(&sg_op_reshape, &x, 1, &attr);
}

static sg_value grad_a(sg_value b, sg_value g, bool trans_a, bool trans_b)
{
    if (trans_a)
        return sg_matmul_nt(b, g);
    return trans_b ? sg_matmul(g, b) : sg_matmul_nt(g, b);
}

static sg_value grad_b(sg_value a, sg_value g, bool trans_a, bool trans_b)
{
    if (trans_a)
        return sg_matmul(a, g);
    if (trans_b)
        return sg_matmul_tn(g, a);
    return sg_matmul_tn(a, g);
}

static void vjp(const sg_vjp_args *args)
{
    sg_value a = args->in[0], b = args->in[1], g = args->gout[0];
    bool trans_a = args->node->attr[TRANS_A].i != 0, trans_b = args->node->attr[TRANS_B].i != 0;
    if (args->need[0])
        args->gin[0] = grad_a(b, g, trans_a, trans_b);
    if (!args->need[1])
        return;
    if (sg_rank_of(b) == 2 && !trans_a)
        args->gin[1] = grad_b(stack_rows(a), stack_rows(g), trans_a, trans_b);
    else
        args->gin[1] = grad_b(a, g, trans_a, trans_b);
}

typedef struct matrix_view {
    const double *data;
    int64_t row, column; /* strides of op(X) */
} matrix_view;

static matrix_view view(const sg_tensor64 *x, bool trans, const sg_shape *batch, int64_t place)
{
    const sg_shape *s = x->shape;
    int64_t rows = s->dim[s->rank - 2], columns = s->dim[s->rank - 1];
    sg_shape own = *s;
    own.rank -= 2;
    matrix_view v = {x->data + sg_broadcast_offset(&own, batch, place) * rows * columns, columns, 1};
    return trans ? (matrix_view){v.data, v.column, v.row} : v;
}

static void eval(const sg_eval_args *args)
{
    const sg_shape *y = args->out[0].shape;
    bool trans_a = args->attr[TRANS_A].i != 0, trans_b = args->attr[TRANS_B].i != 0;
    int64_t m = y->dim[y->rank - 2], n = y->dim[y->rank - 1];
    int64_t depth = args->in[0].shape->dim[column_axis(args->in[0].shape, trans_a)];
    sg_shape batch = *y;
    batch.rank -= 2;
    double *out = args->out[0].data;
    for (int64_t place = 0, matrices = sg_shape_count(&batch); place < matrices; place++) {
        matrix_view a = view(&args->in[0], trans_a, &batch, place), b = view(&args->in[1], trans_b, &batch, place);
        for (int64_t i = 0; i < m; i++) {
            for (int64_t j = 0; j < n; j++) {
                double sum = 0;
                for (int64_t k = 0; k < depth; k++)
                    sum += a.data[i * a.row + k * a.column] * b.data[k * b.row + j * b.column];
                *out++ = sum;
            }
        }
    }
}

static sg_cost cost(const sg_cost_args *args)
{
    const sg_shape *a = &args->in_shape[0];
    double depth = (double)a->dim[column_axis(a, args->attr[TRANS_A].i != 0)];
    double y = (double)sg_shape_count(&args->out_shape[0]);
    double elements = y + (double)sg_shape_count(a) + (double)sg_shape_count(&args->in_shape[1]);
    return (sg_cost){2 * y * depth, elements * (double)sg_dtype_size(args->out_dtype[0])};
}

const sg_op sg_op_matmul = {
    .name = "matmul",
    .summary = "Y = op(A) op(B), batched over leading axes",
    .n_in = 2,
    .n_out = 1,
    .flags = SG_OP_LOW,
    .linear = 3,
    .attrs = attrs,
    .n_attrs = 2,
    .infer = infer,
    .vjp = vjp,
    .eval = eval,
    .cost = cost,
};

/* A vector becomes a matrix with one row or one column: the axis to add, and the axis of the product to take away. */
static sg_value build(sg_value a, sg_value b, bool trans_a, bool trans_b)
{
    if (!sg_common_graph((sg_value[]){a, b}, 2))
        return SG_NONE;
    bool row = sg_rank_of(a) == 1, column = sg_rank_of(b) == 1;
    if (row)
        a = sg_expand_dims(a, trans_a ? 1 : 0);
    if (column)
        b = sg_expand_dims(b, trans_b ? 0 : 1);
    sg_value in[] = {a, b};
    sg_attr attr[] = {sg_attr_int(trans_a), sg_attr_int(trans_b)};
    sg_value y = sg_build_op(&sg_op_matmul, in, 2, attr);
    if (column)
        y = sg_squeeze(y, -1);
    return row ? sg_squeeze(y, column ? -1 : -2) : y;
}

sg_value sg_matmul(sg_value a, sg_value b) { return build(a, b, false, false); }

sg_value sg_matmul_nt(sg_value a, sg_value b) { return build(a, b, false, true); }

sg_value sg_matmul_tn(sg_value a, sg_value b) { return build(a, b, true, false); }
