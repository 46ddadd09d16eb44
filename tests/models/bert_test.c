/* The BERT encoder: Hessian products through fused attention against the decomposed graph, names of entries, sizes that do
 * not fit, resizing. Values and derivatives against an independent implementation: the golden family `attention`. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "models/models.h"
#include "runtime/runtime.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

enum { BATCH = 3, ROWS = 9, WORDS = 21, MOST = 64, ELEMENTS = 40000 };

static const sg_bert_sizes sizes = {.vocabulary = WORDS,
                                    .positions = 12,
                                    .types = 2,
                                    .hidden = 24,
                                    .heads = 3,
                                    .intermediate = 40,
                                    .layers = 2,
                                    .dropout = 0.1,
                                    .attention_dropout = 0.1};

typedef struct encoder {
    sg_graph *graph;
    sg_store *store;
    sg_value hidden, p[MOST];
    int32_t n;
} encoder;

static void open_encoder(encoder *e, sg_dtype real, bool train)
{
    e->graph = sg_graph_new();
    e->store = sg_store_new(real);
    sg_scope scope = sg_scope_root(e->graph, e->store);
    sg_shape shape = sg_shape_named(sg_shape_named(SG_SHAPE(BATCH, ROWS), 0, "batch"), 1, "tokens");
    sg_value ids = sg_input(e->graph, "ids", SG_I32, shape), types = {0};
    sg_value mask = sg_input(e->graph, "mask", SG_BOOL, shape);
    e->hidden = sg_bert_encoder(scope, ids, types, mask, &sizes, train);
    e->n = sg_params(scope, e->p, MOST);
    assert_true(e->n > 0 && e->n <= MOST);
}

static void close_encoder(encoder *e)
{
    sg_graph_free(e->graph);
    sg_store_free(e->store);
}

/* All Hessian products, one after the other, of the mean square of tanh of the output, dropout on. */
static int64_t products_in(const char *backend, const char *precision, const char *decompose, sg_hvp_mode mode,
                           double *out)
{
    encoder e;
    sg_error err = {0};
    sg_session *session;
    sg_plan *plan;
    sg_value v[MOST], hv[MOST];
    bool reference = strcmp(backend, "reference") == 0;
    open_encoder(&e, reference ? SG_F64 : SG_F32, true);
    for (int32_t i = 0; i < e.n; i++) {
        sg_shape shape = *sg_shape_of(e.p[i]);
        int64_t count = sg_shape_count(&shape);
        double *data = test_calloc((size_t)count + 1, sizeof *data);
        for (int64_t k = 0; k < count; k++)
            data[k] = (double)(float)(2 * test_uniform((uint64_t)i, k) - 1);
        v[i] = sg_constant(e.graph, SG_F32, shape, data, count);
        test_free(data);
    }
    sg_hvp(sg_mean_all(sg_square(sg_tanh(e.hidden))), e.p, v, e.n, hv, mode);
    int64_t total = 0;
    for (int32_t i = 0; i < e.n; i++) {
        char name[16];
        snprintf(name, sizeof name, "h%d", (int)i);
        sg_result(e.graph, name, hv[i]);
        total += sg_shape_count(sg_shape_of(hv[i]));
    }
    assert_true(total <= ELEMENTS);
    sg_store_initialise(e.store, 5);
    sg_session_options options = {.size = sizeof options,
                                  .backend = backend,
                                  .threads = 1,
                                  .precision = precision,
                                  .decompose = decompose,
                                  .poison = true};
    if (sg_session_new(&session, e.store, &options, &err) != SG_OK ||
        sg_plan_new(&plan, session, e.graph, &err) != SG_OK)
        fail_msg("%s", err.text);
    double ids[BATCH * ROWS], mask[BATCH * ROWS];
    for (int32_t i = 0; i < BATCH * ROWS; i++) {
        ids[i] = i * 7 % WORDS;
        mask[i] = i % ROWS < ROWS - 2 * (i / ROWS);
    }
    assert_int_equal(sg_plan_feed(plan, "ids", ids, BATCH * ROWS, &err), SG_OK);
    assert_int_equal(sg_plan_feed(plan, "mask", mask, BATCH * ROWS, &err), SG_OK);
    assert_int_equal(sg_plan_run(plan, &err), SG_OK);
    for (int32_t i = 0, at = 0; i < e.n; i++) {
        char name[16];
        snprintf(name, sizeof name, "h%d", (int)i);
        int64_t count = sg_shape_count(sg_plan_result_shape(plan, name));
        assert_int_equal(sg_plan_fetch(plan, name, out + at, count, &err), SG_OK);
        at += (int32_t)count;
    }
    sg_plan_free(plan);
    sg_session_free(session);
    close_encoder(&e);
    return total;
}

static int64_t products(const char *backend, const char *decompose, sg_hvp_mode mode, double *out)
{
    return products_in(backend, NULL, decompose, mode, out);
}

/* Relative to the largest element. */
static double largest(const double *x, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fabs(x[i]) > most ? fabs(x[i]) : most;
    assert_true(most > 0);
    return most;
}

static void fused_equals_decomposed(void **state)
{
    (void)state;
    static double fused[ELEMENTS], other[ELEMENTS];
    for (int mode = 0; mode < 2; mode++) {
        int64_t n = products("cpu", NULL, (sg_hvp_mode)mode, fused);
        products("cpu", "attention", (sg_hvp_mode)mode, other);
        assert_tensor_close(fused, other, n, 0, 1e-4 * largest(other, n), "cpu, fused against decomposed attention");
        products("cpu", "all", (sg_hvp_mode)mode, other);
        assert_tensor_close(fused, other, n, 0, 1e-4 * largest(other, n), "cpu, fused against all decomposed");
        products("reference", NULL, (sg_hvp_mode)mode, other);
        assert_tensor_close(fused, other, n, 0, 1e-4 * largest(other, n), "cpu against reference");
    }
}

static bool gpu_is_there(void)
{
    sg_store *store = sg_store_new(SG_F32);
    sg_session *session = NULL;
    sg_error err = {0};
    sg_session_options options = {.size = sizeof options, .backend = "cuda"};
    bool there = store && sg_session_new(&session, store, &options, &err) == SG_OK;
    if (!there)
        printf("skipped: %s\n", err.text);
    sg_session_free(session);
    sg_store_free(store);
    return there;
}

static void fused_equals_decomposed_on_a_gpu(void **state)
{
    (void)state;
    static double fused[ELEMENTS], other[ELEMENTS];
    if (!gpu_is_there())
        skip();
    for (int mode = 0; mode < 2; mode++) {
        int64_t n = products("cuda", NULL, (sg_hvp_mode)mode, fused);
        products("cuda", "attention", (sg_hvp_mode)mode, other);
        assert_tensor_close(fused, other, n, 0, 1e-4 * largest(other, n), "cuda, fused against decomposed attention");
        products("reference", NULL, (sg_hvp_mode)mode, other);
        assert_tensor_close(fused, other, n, 0, 1e-4 * largest(other, n), "cuda against reference");
        products_in("cuda", "bf16", NULL, (sg_hvp_mode)mode, fused);
        products_in("cuda", "bf16", "attention", (sg_hvp_mode)mode, other);
        assert_tensor_close(fused, other, n, 0, 2e-2 * largest(other, n), "cuda, bf16, fused against decomposed");
    }
}

static void reference_equals_decomposed(void **state)
{
    (void)state;
    static double whole[ELEMENTS], parts[ELEMENTS];
    for (int mode = 0; mode < 2; mode++) {
        int64_t n = products("reference", NULL, (sg_hvp_mode)mode, whole);
        products("reference", "all", (sg_hvp_mode)mode, parts);
        assert_tensor_close(whole, parts, n, 0, 1e-9 * largest(parts, n), "reference");
    }
}

/* The first pieces alone: their states and all gradients are those of the whole encoder. */
static int64_t leading_in(const char *backend, const char *precision, int64_t leading, double *out)
{
    sg_error err = {0};
    sg_session *session;
    sg_plan *plan;
    sg_value p[MOST], g[MOST];
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(strcmp(backend, "reference") == 0 ? SG_F64 : SG_F32);
    sg_scope scope = sg_scope_root(graph, store);
    sg_value ids = sg_input(graph, "ids", SG_I32, SG_SHAPE(BATCH, ROWS));
    sg_value mask = sg_input(graph, "mask", SG_BOOL, SG_SHAPE(BATCH, ROWS)), types = {0};
    sg_bert_sizes n = sizes;
    n.leading = leading;
    sg_value first = sg_slice(sg_bert_encoder(scope, ids, types, mask, &n, false), 1, 0, 2);
    int32_t count = sg_params(scope, p, MOST);
    sg_grad(sg_mean_all(sg_square(sg_tanh(first))), p, count, g);
    sg_result(graph, "first", first);
    for (int32_t i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "g%d", (int)i);
        sg_result(graph, name, g[i]);
    }
    sg_store_initialise(store, 5);
    sg_session_options options = {.size = sizeof options, .backend = backend, .precision = precision, .threads = 1};
    if (sg_session_new(&session, store, &options, &err) != SG_OK || sg_plan_new(&plan, session, graph, &err) != SG_OK)
        fail_msg("%s", err.text);
    double word[BATCH * ROWS], there[BATCH * ROWS];
    for (int32_t i = 0; i < BATCH * ROWS; i++) {
        word[i] = i * 7 % WORDS;
        there[i] = i % ROWS < ROWS - 2 * (i / ROWS);
    }
    assert_int_equal(sg_plan_feed(plan, "ids", word, BATCH * ROWS, &err), SG_OK);
    assert_int_equal(sg_plan_feed(plan, "mask", there, BATCH * ROWS, &err), SG_OK);
    assert_int_equal(sg_plan_run(plan, &err), SG_OK);
    int64_t at = 0;
    for (int32_t i = -1; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, i < 0 ? "first" : "g%d", (int)i);
        int64_t elements = sg_shape_count(sg_plan_result_shape(plan, name));
        assert_true(at + elements <= ELEMENTS);
        assert_int_equal(sg_plan_fetch(plan, name, out + at, elements, &err), SG_OK);
        at += elements;
    }
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
    return at;
}

static void leading_pieces_are_those_of_the_whole(void **state)
{
    (void)state;
    static double whole[ELEMENTS], leading[ELEMENTS];
    int64_t n = leading_in("reference", NULL, 0, whole);
    for (int64_t pieces = 2; pieces <= ROWS; pieces += ROWS - 2) {
        assert_int_equal(leading_in("reference", NULL, pieces, leading), n);
        assert_tensor_close(leading, whole, n, 0, 1e-12 * largest(whole, n), "reference");
        leading_in("cpu", NULL, pieces, leading);
        assert_tensor_close(leading, whole, n, 0, 1e-5 * largest(whole, n), "cpu");
    }
    if (!gpu_is_there())
        return;
    leading_in("cuda", NULL, 2, leading);
    assert_tensor_close(leading, whole, n, 0, 1e-5 * largest(whole, n), "cuda");
    leading_in("cuda", "bf16", 2, leading);
    assert_tensor_close(leading, whole, n, 0, 2e-2 * largest(whole, n), "cuda, bf16");
}

static void entries_have_the_published_names(void **state)
{
    (void)state;
    static const char *const names[] = {
        "embeddings/word_embeddings/weight",           "embeddings/LayerNorm/bias",
        "encoder/layer/0/attention/self/query/weight", "encoder/layer/1/attention/output/dense/bias",
        "encoder/layer/1/intermediate/dense/weight",   "encoder/layer/0/output/LayerNorm/weight"};
    encoder e;
    open_encoder(&e, SG_F32, false);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (sg_store_find(e.store, names[i]) < 0)
            fail_msg("no entry '%s'", names[i]);
    assert_int_equal(e.n, 5 + 2 * 16);
    close_encoder(&e);
}

static void resizes(void **state)
{
    (void)state;
    encoder e;
    sg_error err = {0};
    open_encoder(&e, SG_F32, true);
    sg_result(e.graph, "hidden", e.hidden);
    sg_binding to[] = {{"batch", 1}, {"tokens", 12}};
    assert_int_equal(sg_graph_bind(e.graph, to, 2, &err), SG_OK);
    assert_int_equal(sg_dim_of(e.hidden, 0), 1);
    assert_int_equal(sg_dim_of(e.hidden, 1), 12);
    to[0].size = 0;
    assert_int_equal(sg_graph_bind(e.graph, to, 2, &err), SG_OK);
    close_encoder(&e);
}

static void refuses_heads_that_do_not_divide(void **state)
{
    (void)state;
    sg_error err = {0};
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F32);
    sg_bert_sizes wrong = {.hidden = 10, .heads = 4, .intermediate = 8, .layers = 1};
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(2, 3, 10)), none = {0};
    assert_true(sg_is_none(sg_bert_layers(sg_scope_root(graph, store), x, none, &wrong, false)));
    assert_int_equal(sg_graph_status(graph, &err), SG_E_ARGUMENT);
    assert_non_null(strstr(err.text, "heads"));
    sg_graph_free(graph);
    sg_store_free(store);
}

int main(void)
{
    setenv("SEALGRAPH_MODULE_PATH", SG_BINARY_DIR, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_equals_decomposed),          cmocka_unit_test(fused_equals_decomposed_on_a_gpu),
        cmocka_unit_test(reference_equals_decomposed),      cmocka_unit_test(leading_pieces_are_those_of_the_whole),
        cmocka_unit_test(entries_have_the_published_names), cmocka_unit_test(resizes),
        cmocka_unit_test(refuses_heads_that_do_not_divide),
    };
    return cmocka_run_group_tests_name("models/bert", tests, NULL, NULL);
}
