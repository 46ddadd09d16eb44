/* adam_clip.c - updates clipped by the global norm: every gradient g of a net is used twice,
 *
 *     f = min(1, limit / |(g, ..)|)      adam(p, f g, m, v, lr, t)
 *
 * so that f g would be written and read again for a multiplication: a step takes f as an operand instead. And the gradient of a first
 * layer fed with sparse rows, x^T d, is as large as the layer, while most of its rows are zero. It is made twice in registers, for its
 * squares and for its step, and never is in memory. The sum of squares adds up in the order of the sum that it stands for. */
#include <math.h>

#include "ops/ops_internal.h"
#include "runtime/cuda/adam_group_internal.h"
#include "runtime/cuda/csr_internal.h"
#include "runtime/cuda/sum_internal.h"

extern const sg_op sg_op_csr_t_matmul, sg_op_mul, sg_op_square, sg_op_sum;

enum { P, G, M, V, LR, T, ADAM_INPUTS };
enum { CSR_INPUTS = 6, T_INDPTR = CSR_INPUTS - 1, D = CSR_INPUTS };

/* ---- the sum of squares */

static int64_t chunks_of(const sg_shape *pointers, const sg_shape *dense, int64_t chunk)
{
    int64_t n = (pointers->dim[0] - 1) * dense->dim[1];
    return (n + chunk - 1) / chunk;
}

static sg_status infer_squares(const sg_infer_args *args)
{
    args->out_shape[0] = SG_SHAPE(chunks_of(&args->in_shape[T_INDPTR], &args->in_shape[D], args->attr[0].i));
    args->out_dtype[0] = args->in_dtype[D];
    return SG_OK;
}

static void eval_squares(const sg_eval_args *args)
{
    sg_shape shape = SG_SHAPE(args->in[T_INDPTR].shape->dim[0] - 1, args->in[D].shape->dim[1]);
    int64_t n = sg_shape_count(&shape), chunk = args->attr[0].i, chunks = sg_shape_count(args->out[0].shape);
    sg_tensor64 g = {&shape, sg_calloc(n + 1, sizeof(double))};
    sg_eval_args a = {.n_in = D + 1, .n_out = 1, .in = args->in, .out = &g, .run = args->run};
    if (g.data)
        sg_op_csr_t_matmul.eval(&a);
    for (int64_t c = 0; c < chunks; c++)
        args->out[0].data[c] = g.data ? 0 : NAN;
    for (int64_t i = 0; g.data && i < n; i++)
        args->out[0].data[i / chunk] += g.data[i] * g.data[i];
    sg_free(g.data);
}

static sg_cost squares_cost(const sg_cost_args *args)
{
    double capacity = (double)args->in_shape[0].dim[0], dense = (double)sg_shape_count(&args->in_shape[D]);
    return (sg_cost){4 * capacity * (double)args->in_shape[D].dim[1], 4 * dense + 12 * capacity};
}

static const sg_attr_spec squares_attrs[] = {{"chunk", SG_ATTR_INT}};

const sg_op sg_op_csr_t_squares = {
    .name = "csr_t_squares",
    .summary = "sums of the squares of csr_t_matmul(x, d), of every `chunk` elements",
    .n_in = SG_CSR_T_SQUARES_INPUTS,
    .n_out = 1,
    .flags = SG_OP_STOP,
    .attrs = squares_attrs,
    .n_attrs = 1,
    .infer = infer_squares,
    .eval = eval_squares,
    .cost = squares_cost,
};

/* ---- the pass */

static const sg_node *maker(sg_graph *graph, int32_t value) { return sg_node_of(sg_value_at(graph, value)); }

/* Which operand of a mul is a number, if the other is what it scales? -1: none. */
static int32_t factor_of(sg_graph *graph, const sg_node *mul)
{
    for (int32_t k = 0; mul->op == &sg_op_mul && k < 2; k++)
        if (sg_rank_of(sg_value_at(graph, mul->in[k])) == 0 && sg_rank_of(sg_value_at(graph, mul->in[1 - k])) > 0)
            return k;
    return -1;
}

/* The product with a number that an adam step has for its gradient, if nothing else reads it; else NULL. */
static const sg_node *scaling_of(sg_graph *graph, const sg_node *adam)
{
    if (adam->op != &sg_op_adam || sg_dtype_of(sg_value_at(graph, adam->in[P])) != SG_F32)
        return NULL;
    const sg_node *mul = maker(graph, adam->in[G]);
    return factor_of(graph, mul) >= 0 && sg_reader_count(graph, adam->in[G]) == 1 ? mul : NULL;
}

/* The only reader of a value, or one of its two: the one that is not `other`. NULL: there are more. */
static const sg_node *reader_of(sg_graph *graph, int32_t value, const sg_node *other)
{
    const sg_node *found = NULL;
    if (sg_reader_count(graph, value) != (other ? 2 : 1))
        return NULL;
    for (int32_t n = 0; n < sg_node_count(graph); n++) {
        const sg_node *node = sg_node_at(graph, n);
        for (int32_t k = 0; k < node->n_in; k++)
            if (node->in[k] == value && node != other)
                found = node;
    }
    return found;
}

/* Of a sparse product which only its sum of squares and a scaled step read, elements of a chunk of that sum; else 0. */
static int64_t chunk_of(sg_graph *graph, const sg_node *product, const sg_node *square)
{
    if (product->op != &sg_op_csr_t_matmul || square->op != &sg_op_square)
        return 0;
    const sg_node *sum = reader_of(graph, square->out, NULL), *mul = reader_of(graph, product->out, square);
    const sg_node *adam = mul && factor_of(graph, mul) >= 0 ? reader_of(graph, mul->out, NULL) : NULL;
    if (!sum || sum->op != &sg_op_sum || sg_shape_count(sg_shape_of(sg_value_at(graph, sum->out))) != 1 || !adam ||
        scaling_of(graph, adam) != mul)
        return 0;
    int64_t rows = sg_dim_of(sg_value_at(graph, product->out), 0),
            width = sg_dim_of(sg_value_at(graph, product->out), 1);
    int64_t capacity = sg_dim_of(sg_value_at(graph, product->in[0]), 0), chunk = sg_cuda_sum_chunk(rows * width);
    bool fits = chunk > 0 && width % 4 == 0 && chunk / width + 2 <= SG_CUDA_CSR_SQUARES_LINES;
    return fits && capacity / SG_CUDA_LONG_LINE < rows ? chunk : 0;
}

static bool build_squares(sg_graph *to, sg_graph *from, const sg_node *sum, const sg_value *in, sg_value *out)
{
    const sg_node *square = maker(from, sum->in[0]);
    const sg_node *product = square->op == &sg_op_square ? maker(from, square->in[0]) : NULL;
    int64_t chunk = product ? chunk_of(from, product, square) : 0;
    if (chunk == 0)
        return false;
    const sg_node *made = maker(to, sg_node_of(in[0])->in[0]);
    sg_value operands[SG_CSR_T_SQUARES_INPUTS];
    for (int32_t k = 0; k < SG_CSR_T_SQUARES_INPUTS; k++)
        operands[k] = sg_value_at(to, made->in[k]);
    sg_attr attr = sg_attr_int(chunk);
    sg_value parts = sg_build(to, &sg_op_csr_t_squares, operands, SG_CSR_T_SQUARES_INPUTS, &attr);
    out[0] = sg_reshape(sg_sum_all(parts), *sg_shape_of(sg_value_at(from, sum->out)));
    return true;
}

/* mul' and product' are those in `to`. */
static void build_step(sg_graph *to, const sg_node *adam, const sg_value *in, bool sparse, sg_value *out)
{
    const sg_node *mul = sg_node_of(in[G]);
    int32_t factor = factor_of(to, mul); /* operands may have changed places */
    sg_value operands[SG_SPARSE_ADAM_INPUTS + 1], f = sg_value_at(to, mul->in[factor]);
    int32_t n = ADAM_INPUTS;
    for (int32_t k = 0; k < ADAM_INPUTS; k++)
        operands[k] = in[k];
    operands[G] = sg_value_at(to, mul->in[1 - factor]);
    if (sparse) {
        const sg_node *product = sg_node_of(operands[G]);
        for (int32_t k = 0; k < CSR_INPUTS; k++)
            operands[n++] = sg_value_at(to, product->in[k]);
        operands[G] = sg_value_at(to, product->in[D]);
    }
    operands[n++] = f;
    sg_attr attr[SG_SPREAD_ADAM_ATTRS];
    for (int k = 0; k < SG_JOINED_ADAM_ATTRS; k++)
        attr[k] = adam->attr[k];
    attr[SG_SPREAD_ADAM_SPREAD] = sg_attr_int(1);
    sg_value first = sg_build(to, sparse ? &sg_op_spread_adam : &sg_op_scaled_adam, operands, n, attr);
    for (int k = 0; k < SG_JOINED_ADAM_OUTPUTS; k++)
        out[k] = sg_output_of(first, k);
}

static bool clip(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    (void)user;
    if (node->op == &sg_op_sum)
        return build_squares(to, from, node, in, out);
    const sg_node *mul = scaling_of(from, node);
    if (!mul)
        return false;
    int32_t value = mul->in[1 - factor_of(from, mul)];
    const sg_node *product = maker(from, value), *square = reader_of(from, value, mul);
    build_step(to, node, in, square && chunk_of(from, product, square) > 0, out);
    return true;
}

sg_status sg_cuda_clip_updates(sg_graph *from, sg_graph *to, sg_error *err)
{
    return sg_graph_rewrite(from, to, clip, NULL, NULL, err);
}
