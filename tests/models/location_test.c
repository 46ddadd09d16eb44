/* Whatever a function of models/ builds, and what it refuses, has the line of the model that called it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "models/models.h"

typedef struct model {
    sg_graph *graph;
    sg_store *store;
    sg_scope root;
    sg_value x; /* [4, 3] */
} model;

static model model_new(void)
{
    model m = {.graph = sg_graph_new(), .store = sg_store_new(SG_F32)};
    m.root = sg_scope_root(m.graph, m.store);
    m.x = sg_input(m.graph, "x", SG_F32, SG_SHAPE(4, 3));
    return m;
}

static void model_free(model *m)
{
    sg_graph_free(m->graph);
    sg_store_free(m->store);
}

static void assert_refused(model *m, int line)
{
    sg_error err = {0};
    assert_int_not_equal(sg_graph_status(m->graph, &err), SG_OK);
    assert_string_equal(strrchr(err.file, '/'), "/location_test.c");
    assert_int_equal(err.line, line);
    model_free(m);
}

static const int64_t hidden[] = {5};
static const sg_mlc_sizes sizes = {.inputs = 7, .labels = 2, .layers = 1, .hidden = hidden, .global = 2};
static const sg_bert_sizes bert = {.vocabulary = 9, .positions = 4, .types = 2, .hidden = 3, .heads = 2};

static void nets(void **state)
{
    (void)state;
    model m = model_new();
    sg_feature_mlp(m.root, sg_features_dense(m.x), &sizes, true); /* 3 features, not 7 */
    assert_refused(&m, __LINE__ - 1);

    m = model_new();
    sg_mlc_task(m.root, sg_features_dense(m.x), &sizes, true);
    assert_refused(&m, __LINE__ - 1);

    m = model_new();
    sg_mlc_score(m.root, sg_features_dense(m.x), m.x, &sizes, true);
    assert_refused(&m, __LINE__ - 1);

    m = model_new();
    sg_bert_layers(m.root, m.x, SG_NONE, &bert, true); /* 3 is no multiple of 2 */
    assert_refused(&m, __LINE__ - 1);

    m = model_new();
    sg_bert_pooler(m.root, m.x, &bert);
    assert_refused(&m, __LINE__ - 1);

    m = model_new();
    sg_log_bernoulli(m.x, sg_input(m.graph, "y", SG_F32, SG_SHAPE(4, 1, 2)));
    assert_refused(&m, __LINE__ - 1);

    m = model_new();
    sg_nce_ranking_loss(m.x, sg_input(m.graph, "noise", SG_F32, SG_SHAPE(2, 2)));
    assert_refused(&m, __LINE__ - 1);
}

static void optimiser(void **state)
{
    (void)state;
    sg_adam_options adam = sg_adam_defaults(0);
    model m = model_new();
    sg_adam_step(m.root, &m.x, &m.x, 1, sg_scalar(m.graph, 0.1), &adam); /* no parameter */
    assert_refused(&m, __LINE__ - 1);

    m = model_new();
    sg_value w = sg_param(m.root, "w", SG_SHAPE(3), sg_init_zeros());
    sg_adam_step(m.root, &w, &m.x, 1, sg_scalar(m.graph, 0.1), &adam); /* a gradient of another shape */
    assert_refused(&m, __LINE__ - 1);
}

static void nodes_have_it_too(void **state)
{
    (void)state;
    model m = model_new();
    int32_t first = sg_node_count(m.graph), line = __LINE__ + 1;
    sg_log_bernoulli(m.x, sg_expand_dims(m.x, 1));
    assert_int_equal(sg_graph_status(m.graph, NULL), SG_OK);
    for (int32_t n = first; n < sg_node_count(m.graph); n++) {
        assert_string_equal(strrchr(sg_node_at(m.graph, n)->file, '/'), "/location_test.c");
        assert_int_equal(sg_node_at(m.graph, n)->line, line);
    }
    model_free(&m);
}

/* A step is a model itself: its nodes tell its own lines apart. */
static void steps_have_their_own(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F32);
    sg_step_options o = {.loss = SG_LOSS_CROSS_ENTROPY, .batch = 2, .n_task = 1, .bce_weight = 1, .task = sizes};
    o.task_adam = sg_adam_defaults(0);
    assert_int_equal(sg_step_build(graph, store, &o, NULL), SG_OK);
    for (int32_t n = 0; n < sg_node_count(graph); n++)
        assert_string_equal(sg_node_at(graph, n)->file, "models/seal_step.c");
    sg_graph_free(graph);
    sg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nets),
        cmocka_unit_test(optimiser),
        cmocka_unit_test(nodes_have_it_too),
        cmocka_unit_test(steps_have_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
