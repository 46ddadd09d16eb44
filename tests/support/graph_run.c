#include "tests/support/graph_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/runtime.h"

static bool fetch_results(sg_plan *plan, sg_graph *graph, double *const *out, sg_error *err)
{
    for (int32_t k = 0; k < sg_result_count(graph); k++) {
        int64_t n = sg_shape_count(sg_shape_of(sg_result_value(graph, k)));
        if (sg_plan_fetch(plan, sg_result_name(graph, k), out[k], n, err) != SG_OK)
            return false;
    }
    return true;
}

static bool run_plan(sg_plan *plan, sg_graph *graph, const char *const *names, double *const *feed, int32_t n_in,
                     double *const *out, sg_error *err)
{
    for (int32_t k = 0; k < n_in; k++) {
        const sg_shape *shape = sg_plan_input_shape(plan, names[k]);
        if (shape && sg_plan_feed(plan, names[k], feed[k], sg_shape_count(shape), err) != SG_OK)
            return false;
    }
    return sg_plan_run(plan, err) == SG_OK && fetch_results(plan, graph, out, err);
}

bool graph_run(sg_graph *graph, sg_store *store, const char *backend, int32_t threads, const char *const *names,
               double *const *feed, int32_t n_in, double *const *out)
{
    sg_error err = {0};
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_store *own = store ? NULL : sg_store_new(strcmp(backend, "reference") == 0 ? SG_F64 : SG_F32);
    sg_session_options options = {.size = sizeof options, .backend = backend, .threads = threads, .poison = true};
    bool ok = sg_session_new(&session, store ? store : own, &options, &err) == SG_OK &&
              sg_plan_new(&plan, session, graph, &err) == SG_OK && run_plan(plan, graph, names, feed, n_in, out, &err);
    if (!ok) {
        char text[2 * SG_ERROR_TEXT];
        print_error("%s backend: %s (op %s, node %s)\n", backend, sg_error_format(&err, text, sizeof text), err.op,
                    err.node);
    }
    sg_plan_free(plan);
    sg_session_free(session);
    sg_store_free(own);
    return ok;
}

static bool evaluate(void *user, sg_graph *graph, const sg_value *x, double *const *feed, int32_t n_x,
                     const sg_value *y, double *const *out, int32_t n_y, sg_error *err)
{
    (void)user;
    return sg_reference_eval(graph, x, feed, n_x, y, out, n_y, err) == SG_OK;
}

const sg_evaluator reference_evaluator = {evaluate, NULL};

void graph_eval(sg_graph *graph, const sg_value *x, double *const *feed, int32_t n_x, const sg_value *y,
                double *const *out, int32_t n_y)
{
    sg_error err = {0};
    if (sg_reference_eval(graph, x, feed, n_x, y, out, n_y, &err) != SG_OK)
        fail_msg("%s (op %s, node %s)", err.text, err.op, err.node);
}

double test_uniform(uint64_t stream, int64_t i)
{
    uint64_t z = 0x9e3779b97f4a7c15u * (stream + 1) + 0xd1b54a32d192ed03u * ((uint64_t)i + 1);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}
