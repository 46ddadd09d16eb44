/* eval.c - sg_reference_eval: values of a graph in double, computed by the interpreter. */
#include <string.h>

#include "runtime/reference/interpreter_internal.h"
#include "runtime/runtime.h"

static sg_status check_values(const sg_graph *graph, const sg_value *v, int32_t n, const char *what, sg_error *err)
{
    for (int32_t k = 0; k < n; k++)
        if (sg_is_none(v[k]) || v[k].graph != graph)
            return sg_fail(err, SG_E_ARGUMENT, "sg_reference_eval: %s %d is not a value of the graph", what, (int)k);
    return SG_OK;
}

static sg_status evaluate(sg_graph *graph, const sg_value *x, double *const *feed, int32_t n_x, const sg_value *y,
                          double *const *out, int32_t n_y, double **data, bool *given, int32_t *root, sg_error *err)
{
    for (int32_t k = 0; k < n_x; k++) {
        data[x[k].id] = feed[k];
        given[x[k].id] = true;
    }
    for (int32_t k = 0; k < n_y; k++)
        root[k] = y[k].id;
    sg_status status = sg_interpret(graph, data, given, root, n_y, (sg_run_index){0}, err);
    for (int32_t k = 0; status == SG_OK && k < n_y; k++)
        memcpy(out[k], data[root[k]], (size_t)sg_shape_count(sg_shape_of(y[k])) * sizeof(double));
    sg_interpret_release(graph, data, given);
    return status;
}

sg_status sg_reference_eval(sg_graph *graph, const sg_value *x, double *const *feed, int32_t n_x, const sg_value *y,
                            double *const *out, int32_t n_y, sg_error *err)
{
    if (!graph)
        return sg_fail(err, SG_E_ARGUMENT, "sg_reference_eval: no graph");
    SG_TRY(sg_graph_status(graph, err));
    SG_TRY(check_values(graph, x, n_x, "fed value", err));
    SG_TRY(check_values(graph, y, n_y, "wanted value", err));
    int32_t n = sg_value_count(graph);
    double **data = sg_calloc(n + 1, sizeof *data);
    bool *given = sg_calloc(n + 1, sizeof *given);
    int32_t *root = sg_calloc(n_y + 1, sizeof *root);
    sg_status status = data && given && root
                           ? evaluate(graph, x, feed, n_x, y, out, n_y, data, given, root, err)
                           : sg_fail(err, SG_E_MEMORY, "out of memory while evaluating on the reference rules");
    sg_free(data);
    sg_free(given);
    sg_free(root);
    return status;
}
