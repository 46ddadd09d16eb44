#include "tests/support/gpu_session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/graph_run.h"

static sg_session *open_session(sg_store *store, const char *precision)
{
    sg_session *session = NULL;
    sg_error err = {0};
    setenv("SEALGRAPH_MODULE_PATH", SG_BINARY_DIR, 0);
    sg_session_options options = {.size = sizeof options, .backend = "cuda", .precision = precision};
    if (sg_session_new(&session, store, &options, &err) != SG_OK) {
        printf("skipped: %s\n", err.text);
        return NULL;
    }
    return session;
}

sg_session *test_gpu_session(sg_store *store) { return open_session(store, NULL); }

bool test_gpu_is_there(const char *precision)
{
    sg_store *store = sg_store_new(SG_F32);
    sg_session *session = open_session(store, precision);
    bool there = session != NULL;
    sg_session_free(session);
    sg_store_free(store);
    return there;
}

static void feed(sg_plan *plan, const test_gpu_graph *g)
{
    for (int32_t k = 0; k < g->n_in; k++) {
        float *x = sg_plan_input(plan, g->inputs[k]);
        int64_t n = sg_shape_count(sg_plan_input_shape(plan, g->inputs[k]));
        for (int64_t i = 0; i < n; i++)
            x[i] = (float)(g->most * (2 * test_uniform((uint64_t)k + 1, i) - 1));
    }
}

int32_t test_gpu_run(const test_gpu_graph *g, float *out, int64_t room)
{
    sg_error err = {0};
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_session_options options = {
        .size = sizeof options, .backend = "cuda", .no_fusion = g->no_fusion, .precision = g->precision};
    if (sg_session_new(&session, g->store, &options, &err) != SG_OK ||
        sg_plan_new(&plan, session, g->graph, &err) != SG_OK)
        fail_msg("%s", err.text);
    feed(plan, g);
    for (int i = 0; i < 3; i++)
        if (sg_plan_run(plan, &err) != SG_OK)
            fail_msg("%s", err.text);
    for (int32_t k = 0; k < g->n_out; k++) {
        int64_t n = sg_shape_count(sg_plan_result_shape(plan, g->results[k]));
        assert_true(n <= room);
        memcpy(out, sg_plan_result(plan, g->results[k]), (size_t)n * sizeof *out);
        out += n;
        room -= n;
    }
    int32_t steps = sg_plan_describe(plan).nodes;
    sg_plan_free(plan);
    sg_session_free(session);
    return steps;
}
