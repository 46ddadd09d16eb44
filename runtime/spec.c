/* spec.c - a node as a backend sees it. */
#include "runtime/elements_internal.h"
#include "runtime/plan_internal.h"

/* No machine holds a larger tensor; sums of so many bytes do not overflow. */
static const size_t largest_tensor = (size_t)1 << 46;

static bool fill(sg_graph *graph, const sg_node *node, int32_t threads, sg_shape *shape, sg_dtype *dtype,
                 sg_kernel_spec *spec)
{
    if (!shape || !dtype)
        return false;
    int32_t n_in = node->n_in, n_out = node->n_out;
    for (int32_t k = 0; k < n_in + n_out; k++) {
        sg_value v = sg_value_at(graph, k < n_in ? node->in[k] : node->out + k - n_in);
        shape[k] = *sg_shape_of(v);
        dtype[k] = sg_dtype_of(v);
    }
    *spec = (sg_kernel_spec){.node = node,
                             .attr = node->attr,
                             .n_in = n_in,
                             .n_out = n_out,
                             .in_shape = shape,
                             .out_shape = shape + n_in,
                             .in_dtype = dtype,
                             .out_dtype = dtype + n_in,
                             .threads = threads};
    return true;
}

/* Waking the other threads and waiting for them takes some microseconds: a kernel that one thread finishes in about that time
 * is left to one thread. The rates are those of a modest core; results do not depend on the choice. */
static int32_t worthwhile_threads(const sg_plan *plan, sg_graph *graph, const sg_node *node)
{
    const double bytes_per_us = 10e3, flops_per_us = 10e3, least_us = 6;
    sg_cost cost = sg_node_cost(graph, node);
    return cost.bytes / bytes_per_us + cost.flops / flops_per_us < least_us ? 1 : plan->session->threads;
}

sg_status sg_spec_fill(sg_plan *plan, sg_graph *graph, const sg_node *node, sg_kernel_spec *spec, sg_error *err)
{
    int32_t n = node->n_in + node->n_out;
    sg_shape *shape = sg_plan_take(plan, n, sizeof *shape);
    sg_dtype *dtype = sg_plan_take(plan, n, sizeof *dtype);
    if (!fill(graph, node, worthwhile_threads(plan, graph, node), shape, dtype, spec))
        return sg_fail(err, SG_E_MEMORY, "out of memory while compiling");
    for (int32_t k = 0; k < n; k++) {
        size_t bytes;
        if (!sg_tensor_bytes(sg_session_storage(plan->session, dtype[k]), &shape[k], &bytes) ||
            bytes > largest_tensor) {
            char text[SG_SHAPE_TEXT];
            return sg_fail_at(err, SG_E_SHAPE, node->file, node->line, 0,
                              "'%s' (%s): a tensor of shape %s is too large", node->name, node->op->name,
                              sg_shape_format(&shape[k], text, sizeof text));
        }
    }
    return SG_OK;
}

static bool in_f32(sg_dtype *dtype, int32_t n)
{
    bool changed = false;
    for (int32_t k = 0; k < n; k++)
        if (dtype[k] == SG_BF16) {
            dtype[k] = SG_F32;
            changed = true;
        }
    return changed;
}

sg_status sg_spec_supported(sg_session *session, sg_graph *graph, const sg_node *node, bool wide, bool *yes)
{
    int32_t n = node->n_in + node->n_out;
    *yes = false;
    if (sg_session_decomposes(session, node->op))
        return SG_OK;
    sg_shape few_shapes[8], *shape = n <= 8 ? few_shapes : sg_calloc(n, sizeof *shape);
    sg_dtype few_dtypes[8], *dtype = n <= 8 ? few_dtypes : sg_calloc(n, sizeof *dtype);
    sg_kernel_spec spec;
    bool filled = fill(graph, node, session->threads, shape, dtype, &spec);
    if (filled && (!wide || in_f32(dtype, n)))
        *yes = session->backend->supports(session->device, &spec);
    if (n > 8) {
        sg_free(shape);
        sg_free(dtype);
    }
    return filled ? SG_OK : SG_E_MEMORY;
}
