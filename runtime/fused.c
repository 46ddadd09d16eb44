/* fused.c - the node that a fusion pass makes: a body of elementwise operators run as one kernel. Its meaning is its
 * body. */
#include <math.h>
#include <string.h>

#include "runtime/backend_internal.h"
#include "runtime/reference/interpreter_internal.h"

static sg_status fused_infer(const sg_infer_args *args)
{
    sg_graph *body = args->attr[0].graph;
    if (args->n_in != sg_body_input_count(body))
        return sg_infer_fail(args, SG_E_GRAPH, "%d inputs for a fused body of %d", (int)args->n_in,
                             (int)sg_body_input_count(body));
    for (int32_t k = 0; k < args->n_in; k++) {
        sg_value inner, outer;
        sg_body_input_at(body, k, &inner, &outer);
        if (!sg_shape_equal(sg_shape_of(inner), &args->in_shape[k]) || sg_dtype_of(inner) != args->in_dtype[k])
            return sg_infer_fail(args, SG_E_SHAPE, "input %d does not fit the fused body", (int)k);
    }
    int32_t n = sg_result_count(body);
    if (n < 1 || n > SG_MAX_OUTPUTS)
        return sg_infer_fail(args, SG_E_GRAPH, "a fused body with %d results", (int)n);
    ((sg_infer_args *)args)->n_out = n;
    for (int32_t k = 0; k < n; k++) {
        args->out_shape[k] = *sg_shape_of(sg_result_value(body, k));
        args->out_dtype[k] = sg_dtype_of(sg_result_value(body, k));
    }
    return SG_OK;
}

static bool evaluate_body(sg_graph *body, const sg_eval_args *args, double **data, bool *given, int32_t *root)
{
    if (!data || !given || !root)
        return false;
    for (int32_t k = 0; k < args->n_in; k++) {
        sg_value inner, outer;
        sg_body_input_at(body, k, &inner, &outer);
        data[inner.id] = args->in[k].data;
        given[inner.id] = true;
    }
    for (int32_t k = 0; k < args->n_out; k++)
        root[k] = sg_result_value(body, k).id;
    bool good = sg_interpret(body, data, given, root, args->n_out, args->run, NULL) == SG_OK;
    for (int32_t k = 0; good && k < args->n_out; k++)
        memcpy(args->out[k].data, data[root[k]], (size_t)sg_shape_count(args->out[k].shape) * sizeof(double));
    sg_interpret_release(body, data, given);
    return good;
}

/* A rule cannot report a failure; out of memory shows as NaN. */
static void fused_eval(const sg_eval_args *args)
{
    sg_graph *body = args->attr[0].graph;
    int32_t n = sg_value_count(body) + 1;
    double **data = sg_calloc(n, sizeof *data);
    bool *given = sg_calloc(n, sizeof *given);
    int32_t *root = sg_calloc(args->n_out + 1, sizeof *root);
    if (!evaluate_body(body, args, data, given, root))
        for (int32_t k = 0; k < args->n_out; k++)
            for (int64_t i = 0; i < sg_shape_count(args->out[k].shape); i++)
                args->out[k].data[i] = NAN;
    sg_free(data);
    sg_free(given);
    sg_free(root);
}

/* All the arithmetic of the body, but only the node's own operands travel through memory. */
static sg_cost fused_cost(const sg_cost_args *args)
{
    sg_graph *body = args->attr[0].graph;
    sg_cost cost = {0, 0};
    for (int32_t i = 0; i < sg_node_count(body); i++)
        cost.flops += sg_node_cost(body, sg_node_at(body, i)).flops;
    for (int32_t k = 0; k < args->n_in; k++)
        cost.bytes += (double)sg_shape_count(&args->in_shape[k]) * (double)sg_dtype_size(args->in_dtype[k]);
    for (int32_t k = 0; k < args->n_out; k++)
        cost.bytes += (double)sg_shape_count(&args->out_shape[k]) * (double)sg_dtype_size(args->out_dtype[k]);
    return cost;
}

static const sg_attr_spec fused_attrs[] = {{"body", SG_ATTR_GRAPH}};

const sg_op sg_op_fused = {
    .name = "fused",
    .summary = "a chain of elementwise operators as one kernel",
    .n_in = SG_VARIADIC,
    .n_out = SG_VARIADIC,
    .flags = SG_OP_STOP,
    .attrs = fused_attrs,
    .n_attrs = 1,
    .infer = fused_infer,
    .eval = fused_eval,
    .cost = fused_cost,
};

sg_value sg_build_fused(sg_graph *graph, sg_graph *body, const sg_value *in, int32_t n_in)
{
    sg_attr attr = sg_attr_graph(body);
    return sg_build(graph, &sg_op_fused, in, n_in, &attr);
}
