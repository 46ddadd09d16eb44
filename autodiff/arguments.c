/* arguments.c - one place for the checks of sg_vjp, sg_jvp and sg_hvp. */
#include "autodiff/arguments_internal.h"

/* The value in `graph`, SG_NONE (with the sticky error) if there is none or its dtype carries no derivative. */
static sg_value take(sg_graph *graph, const char *function, const char *what, int32_t k, sg_value v)
{
    if (sg_is_none(v))
        return sg_graph_fail(graph, SG_E_ARGUMENT, SG_NONE, "%s: %s[%d] is no value", function, what, (int)k);
    if (!sg_dtype_is_real(sg_dtype_of(v)))
        return sg_graph_fail(graph, SG_E_DTYPE, v, "%s: %s[%d] is %s, but only real values have derivatives", function,
                             what, (int)k, sg_dtype_name(sg_dtype_of(v)));
    if (v.graph == graph)
        return v;
    if (sg_body_parent(graph))
        return sg_capture(graph, v);
    return sg_graph_fail(graph, SG_E_ARGUMENT, SG_NONE, "%s: %s[%d] belongs to another graph", function, what, (int)k);
}

static bool fits(sg_graph *graph, const char *function, const char *of, int32_t k, sg_value v, sg_value direction)
{
    char want[SG_SHAPE_TEXT], got[SG_SHAPE_TEXT];
    if (sg_shape_equal(sg_shape_of(v), sg_shape_of(direction)) && sg_dtype_of(v) == sg_dtype_of(direction))
        return true;
    sg_graph_fail(graph, SG_E_SHAPE, v, "%s: %s[%d] is %s %s, its value is %s %s", function, of, (int)k,
                  sg_dtype_name(sg_dtype_of(direction)), sg_shape_format(sg_shape_of(direction), got, sizeof got),
                  sg_dtype_name(sg_dtype_of(v)), sg_shape_format(sg_shape_of(v), want, sizeof want));
    return false;
}

static sg_graph *graph_of(const sg_value *value, int32_t n)
{
    for (int32_t k = 0; k < n; k++)
        if (!sg_is_none(value[k]))
            return value[k].graph;
    return NULL;
}

bool sg_arguments_take(sg_arguments *out, sg_graph **graph, const char *function, const char *what,
                       const sg_value *value, const char *of, const sg_value *direction, int32_t n)
{
    *out = (sg_arguments){0};
    if (!*graph)
        *graph = graph_of(value, n);
    if (!*graph)
        return false;
    out->value = sg_calloc(n > 0 ? n : 1, sizeof *out->value);
    out->direction = sg_calloc(n > 0 ? n : 1, sizeof *out->direction);
    if (!out->value || !out->direction) {
        sg_graph_fail(*graph, SG_E_MEMORY, SG_NONE, "out of memory in %s", function);
        return false;
    }
    for (int32_t k = 0; k < n; k++) {
        out->value[k] = take(*graph, function, what, k, value[k]);
        if (sg_is_none(out->value[k]))
            return false;
        if (!direction)
            continue;
        out->direction[k] = take(*graph, function, of, k, direction[k]);
        if (sg_is_none(out->direction[k]) || !fits(*graph, function, of, k, out->value[k], out->direction[k]))
            return false;
    }
    return true;
}

void sg_arguments_free(sg_arguments *arguments)
{
    sg_free(arguments->value);
    sg_free(arguments->direction);
    *arguments = (sg_arguments){0};
}
