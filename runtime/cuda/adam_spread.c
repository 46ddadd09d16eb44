/* adam_spread.c - in a loop that makes steps on one batch, a row of a sparse layer that the batch does not have is idle: its gradient
 * is zero in all iterations, and nobody reads it. Its n steps, one after the other in registers, can be done in any one iteration.
 * So only rows that the batch has are read and written in each, and of the idle ones every n-th (adam_sparse.cu): most of the traffic of
 * a layer of many columns. Values at the end of the loop are the same to the last bit.
 *
 * Nobody reads: the layer is read in the body, and in loops within it, by products with that batch alone, which do not touch idle rows,
 * and by the step; its new value is read by nobody until the next iteration. The batch and the rate must not change, and t has to grow by one, so
 * that an iteration knows the others'. */
#include "ops/repeat_internal.h"
#include "runtime/cuda/adam_group_internal.h"
#include "runtime/cuda/adam_internal.h"
#include "runtime/cuda/cuda_internal.h"
#include "runtime/updates_internal.h"

extern const sg_op sg_op_csr_matmul, sg_op_add, sg_op_constant;

enum { P = SG_JOINED_ADAM_P, M = SG_JOINED_ADAM_M, V = SG_JOINED_ADAM_V, LR = SG_JOINED_ADAM_LR, T = SG_JOINED_ADAM_T };
enum { CSR = SG_SPARSE_ADAM_VALUES, CSR_INPUTS = 6, LAYER = CSR_INPUTS, OUTPUTS = SG_JOINED_ADAM_OUTPUTS };

static const sg_attr_spec attrs[SG_SPREAD_ADAM_ATTRS] = {{"beta1", SG_ATTR_REAL},    {"beta2", SG_ATTR_REAL},
                                                         {"eps", SG_ATTR_REAL},      {"weight_decay", SG_ATTR_REAL},
                                                         {"decoupled", SG_ATTR_INT}, {"spread", SG_ATTR_INT}};

static void eval(const sg_eval_args *args)
{
    if (args->n_in > SG_SPARSE_ADAM_INPUTS)
        sg_cuda_eval_scaled(args, &sg_op_sparse_adam, SG_SPARSE_ADAM_DENSE);
    else
        sg_op_sparse_adam.eval(args);
}

static sg_cost cost(const sg_cost_args *args) { return sg_op_sparse_adam.cost(args); }

/* As a step of each iteration in its place; only the end of the loop shows the result. */
const sg_op sg_op_spread_adam = {
    .name = "spread_adam",
    .summary = "sparse_adam in a loop of `spread` iterations, each of which does the steps of some idle rows for all",
    .n_in = SG_VARIADIC,
    .n_out = OUTPUTS,
    .flags = SG_OP_STOP,
    .attrs = attrs,
    .n_attrs = SG_SPREAD_ADAM_ATTRS,
    .infer = sg_joined_adam_infer,
    .eval = eval,
    .cost = cost,
};

/* The same in all iterations: a number, or what the loop takes in and never changes. */
static bool is_constant(sg_graph *body, const sg_node *loop, int32_t value)
{
    int32_t k = sg_body_input_index(body, value);
    return k < 0 ? sg_node_of(sg_value_at(body, value))->op == &sg_op_constant : sg_repeat_input_output(loop, k) < 0;
}

/* Does the iteration make `next` of the body input `value`? */
static bool becomes(const sg_graph *body, const sg_node *loop, int32_t value, int32_t next)
{
    int32_t k = sg_body_input_index(body, value), output = k < 0 ? -1 : sg_repeat_input_output(loop, k);
    return output >= 0 && sg_repeat_next(loop, output).id == next;
}

static bool is_one(sg_graph *body, const sg_node *loop, int32_t value)
{
    sg_value inner, outer;
    const sg_node *node = sg_node_of(sg_value_at(body, value));
    if (node->op != &sg_op_constant && is_constant(body, loop, value)) {
        sg_body_input_at(body, sg_body_input_index(body, value), &inner, &outer);
        node = sg_node_of(outer);
    }
    return node->op == &sg_op_constant && node->attr[0].count == 1 && node->attr[0].reals[0] == 1;
}

/* t is last iteration's t + 1. */
static bool counts(sg_graph *body, const sg_node *loop, int32_t t)
{
    const sg_node *add = sg_node_of(sg_value_at(body, t));
    if (add->op != &sg_op_add)
        return false;
    for (int k = 0; k < 2; k++)
        if (becomes(body, loop, add->in[k], t) && is_one(body, loop, add->in[1 - k]))
            return true;
    return false;
}

/* Of a loop or a fused node. */
static const sg_graph *body_of(const sg_node *node)
{
    return node->op == &sg_op_repeat ? sg_repeat_body(node) : node->op == &sg_op_fused ? node->attr[0].graph : NULL;
}

/* Operand k of a node as its body sees it, if it stays as it is; else -1. */
static int32_t constant_inside(const sg_node *node, int32_t k)
{
    sg_value inner, outer;
    sg_body_input_at(body_of(node), k, &inner, &outer);
    return node->op == &sg_op_fused || sg_repeat_input_output(node, k) < 0 ? inner.id : -1;
}

/* The same of a value, one of the operands or not. */
static int32_t constant_from(const sg_node *node, int32_t value)
{
    int32_t k = 0;
    while (k < node->n_in && node->in[k] != value)
        k++;
    return k < node->n_in ? constant_inside(node, k) : -1;
}

static bool multiplies(const sg_node *node, int32_t k, const int32_t batch[CSR_INPUTS])
{
    int32_t count = 0;
    while (count < CSR_INPUTS && node->op == &sg_op_csr_matmul && node->in[count] == batch[count])
        count++;
    return count == CSR_INPUTS && k == LAYER;
}

/* Does a node read of the layer, its operand k, only the rows that the batch has? One with a body does if all readers there do. */
static bool reads_active_rows(const sg_node *node, int32_t k, const int32_t batch[CSR_INPUTS])
{
    int32_t inner[CSR_INPUTS], count = 0;
    const sg_graph *body = body_of(node);
    if (!body)
        return multiplies(node, k, batch);
    int32_t layer = constant_inside(node, k);
    for (int j = 0; j < CSR_INPUTS; j++)
        inner[j] = constant_from(node, batch[j]);
    for (int32_t j = 0; node->op == &sg_op_repeat && j < node->n_out; j++)
        count += sg_repeat_next(node, j).id == layer;
    bool good = layer >= 0 && count == 0;
    for (int32_t n = 0; good && n < sg_node_count(body); n++) {
        const sg_node *reader = sg_node_at(body, n);
        for (int32_t i = 0; good && i < reader->n_in; i++)
            good = reader->in[i] != layer || reads_active_rows(reader, i, inner);
    }
    return good;
}

/* No other node of the body reads p, m, v or what the step makes of them, and no other state takes them over. */
static bool is_private(sg_graph *body, const sg_node *loop, const sg_node *step)
{
    int32_t mine[] = {step->in[P], step->in[M], step->in[V], step->out, step->out + 1, step->out + 2};
    int32_t taken = 0;
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++) {
        for (int32_t n = 0; n < sg_node_count(body); n++) {
            const sg_node *node = sg_node_at(body, n);
            for (int32_t k = 0; node != step && k < node->n_in; k++)
                if (node->in[k] == mine[i] && !(i == 0 && reads_active_rows(node, k, step->in + CSR)))
                    return false;
        }
        for (int32_t j = 0; j < loop->n_out; j++)
            taken += sg_repeat_next(loop, j).id == mine[i];
    }
    return taken == OUTPUTS;
}

static bool is_idle_work(sg_graph *body, const sg_node *loop, const sg_node *step)
{
    for (int k = 0; k < CSR_INPUTS; k++)
        if (!is_constant(body, loop, step->in[CSR + k]))
            return false;
    return is_constant(body, loop, step->in[LR]) && counts(body, loop, step->in[T]) &&
           becomes(body, loop, step->in[P], step->out) && becomes(body, loop, step->in[M], step->out + 1) &&
           becomes(body, loop, step->in[V], step->out + 2) && is_private(body, loop, step);
}

static bool spread(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    (void)user;
    bool sparse = node->op == &sg_op_sparse_adam || node->op == &sg_op_spread_adam;
    const sg_node *loop = sparse ? sg_repeat_of(from) : NULL;
    if (!loop || sg_repeat_count(loop) > SG_CUDA_ADAM_SPREAD_MOST || !is_idle_work(from, loop, node))
        return false;
    sg_attr attr[SG_SPREAD_ADAM_ATTRS];
    for (int k = 0; k < SG_JOINED_ADAM_ATTRS; k++)
        attr[k] = node->attr[k];
    attr[SG_SPREAD_ADAM_SPREAD] = sg_attr_int(sg_repeat_count(loop));
    sg_value first = sg_build(to, &sg_op_spread_adam, in, node->n_in, attr);
    for (int k = 0; k < OUTPUTS; k++)
        out[k] = sg_output_of(first, k);
    return true;
}

sg_status sg_cuda_spread_updates(sg_graph *from, sg_graph *to, sg_error *err)
{
    return sg_graph_rewrite(from, to, spread, NULL, NULL, err);
}
