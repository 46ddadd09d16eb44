/* Checkpointed segments: the same values and derivatives, the same draws, less memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "runtime/runtime.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

enum { BATCH = 64, WIDTH = 16, INNER = 4, SEGMENTS = 6 };

/* Layers of a segment, with dropout in each. */
static sg_value segment(sg_scope scope, sg_value x, double rate)
{
    for (int i = 0; i < INNER; i++) {
        char name[8];
        snprintf(name, sizeof name, "W%d", i);
        sg_value W = sg_param(scope, name, SG_SHAPE(WIDTH, WIDTH), sg_init_normal(0, 0.3));
        x = sg_dropout(scope, sg_tanh(sg_matmul(x, W)), rate);
    }
    return x;
}

typedef enum form { PLAIN, MARKED, NESTED } form;

static sg_value net(sg_scope scope, sg_value x, form form, double rate)
{
    int32_t outer = sg_checkpoint_begin(scope.graph);
    for (int i = 0; i < SEGMENTS; i++) {
        char name[8];
        snprintf(name, sizeof name, "s%d", i);
        int32_t begin = sg_checkpoint_begin(scope.graph);
        x = segment(sg_scope_sub(scope, name), x, rate);
        if (form != PLAIN)
            sg_checkpoint_end(scope.graph, begin, &x, 1);
        if (form == NESTED && i == SEGMENTS / 2) {
            sg_checkpoint_end(scope.graph, outer, &x, 1);
            outer = sg_checkpoint_begin(scope.graph);
        }
    }
    return sg_mean_all(sg_square(x));
}

enum { PARAMETERS = SEGMENTS * INNER, NUMBERS = PARAMETERS * WIDTH * WIDTH };

typedef struct answer {
    double loss, gradient[NUMBERS], product[NUMBERS];
    sg_plan_info info;
} answer;

static sg_value flat(const sg_value *v, int32_t n)
{
    sg_value rows[PARAMETERS];
    for (int32_t i = 0; i < n; i++)
        rows[i] = sg_reshape(v[i], SG_SHAPE(-1));
    return sg_concat(rows, n, 0);
}

static void build(sg_graph *graph, sg_store *store, form form, double rate, bool product)
{
    sg_scope scope = sg_scope_root(graph, store);
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(BATCH, WIDTH)), p[PARAMETERS], g[PARAMETERS], v[PARAMETERS];
    sg_value loss = net(scope, x, form, rate);
    assert_int_equal(sg_params(scope, p, PARAMETERS), PARAMETERS);
    sg_grad(loss, p, PARAMETERS, g);
    sg_result(graph, "loss", loss);
    sg_result(graph, "gradient", flat(g, PARAMETERS));
    if (!product)
        return;
    for (int i = 0; i < PARAMETERS; i++)
        v[i] = sg_sin(sg_mul_scalar(p[i], 10 + i));
    sg_hvp(loss, p, v, PARAMETERS, g, SG_HVP_FORWARD_OVER_REVERSE);
    sg_value again[PARAMETERS];
    sg_hvp(loss, p, v, PARAMETERS, again, SG_HVP_REVERSE_OVER_REVERSE);
    sg_result(graph, "product", flat(g, PARAMETERS));
    sg_result(graph, "again", flat(again, PARAMETERS));
}

static answer *run(const char *backend, form form, double rate, bool product)
{
    sg_error err = {0};
    answer *a = test_calloc(1, sizeof *a);
    sg_store *store = sg_store_new(strcmp(backend, "cpu") == 0 ? SG_F32 : SG_F64);
    sg_graph *graph = sg_graph_new();
    build(graph, store, form, rate, product);
    sg_store_initialise(store, 11);
    sg_rng_seed(store, 5, 3);
    if (rate == 0)
        assert_int_equal(sg_graph_verify(graph, NULL), SG_OK);
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_session_options options = {.size = sizeof options, .backend = backend, .threads = 1, .poison = true};
    if (sg_session_new(&session, store, &options, &err) != SG_OK || sg_plan_new(&plan, session, graph, &err) != SG_OK)
        fail_msg("%s (%s)", err.text, err.node);
    double x[BATCH * WIDTH];
    for (int i = 0; i < BATCH * WIDTH; i++)
        x[i] = test_uniform(1, i) - 0.5;
    assert_int_equal(sg_plan_feed(plan, "x", x, BATCH * WIDTH, &err), SG_OK);
    assert_int_equal(sg_plan_run(plan, &err), SG_OK);
    assert_int_equal(sg_plan_fetch(plan, "loss", &a->loss, 1, &err), SG_OK);
    assert_int_equal(sg_plan_fetch(plan, "gradient", a->gradient, NUMBERS, &err), SG_OK);
    if (product) {
        double *again = test_calloc(NUMBERS, sizeof *again);
        assert_int_equal(sg_plan_fetch(plan, "product", a->product, NUMBERS, &err), SG_OK);
        assert_int_equal(sg_plan_fetch(plan, "again", again, NUMBERS, &err), SG_OK);
        double tolerance = strcmp(backend, "cpu") == 0 ? 1e-4 : 1e-12;
        assert_tensor_close(again, a->product, NUMBERS, tolerance, tolerance, "both modes");
        test_free(again);
    }
    a->info = sg_plan_describe(plan);
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
    return a;
}

/* Bits, also with dropout: the masks are those of the forward pass. */
static void same_bits(void **state)
{
    (void)state;
    for (int device = 0; device < 2; device++)
        for (int dropout = 0; dropout < 2; dropout++) {
            const char *backend = device ? "cpu" : "reference";
            answer *plain = run(backend, PLAIN, 0.3 * dropout, false);
            for (form form = MARKED; form <= NESTED; form++) {
                answer *marked = run(backend, form, 0.3 * dropout, false);
                assert_true(marked->loss == plain->loss && plain->loss > 0);
                assert_memory_equal(marked->gradient, plain->gradient, sizeof plain->gradient);
                test_free(marked);
            }
            test_free(plain);
        }
}

/* 24 activations are kept without segments; with them the six ends, and the four of the segment at hand. */
static void less_memory(void **state)
{
    (void)state;
    for (int device = 0; device < 2; device++) {
        const char *backend = device ? "cpu" : "reference";
        size_t activation = BATCH * WIDTH * (device ? sizeof(float) : sizeof(double));
        answer *plain = run(backend, PLAIN, 0, false), *marked = run(backend, MARKED, 0, false);
        print_message("%s: planned temporaries %zu bytes, checkpointed %zu; flops %.0f, %.0f\n", backend,
                      plain->info.temporary_bytes, marked->info.temporary_bytes, plain->info.flops, marked->info.flops);
        assert_true(plain->info.temporary_bytes >= SEGMENTS * INNER * activation);
        assert_true(marked->info.temporary_bytes + 10 * activation <= plain->info.temporary_bytes);
        assert_true(marked->info.flops > plain->info.flops && marked->info.flops < 1.45 * plain->info.flops);
        test_free(plain);
        test_free(marked);
    }
}

/* Hessian products of a checkpointed net, in both modes. */
static void products(void **state)
{
    (void)state;
    for (int device = 0; device < 2; device++) {
        const char *backend = device ? "cpu" : "reference";
        answer *plain = run(backend, PLAIN, 0.2, true);
        double tolerance = device ? 1e-5 : 1e-13;
        for (form form = MARKED; form <= NESTED; form++) {
            answer *marked = run(backend, form, 0.2, true);
            assert_tensor_close(marked->product, plain->product, NUMBERS, tolerance, tolerance, "H v");
            test_free(marked);
        }
        test_free(plain);
    }
}

/* A segment's results may be read inside another, and a graph without derivatives carries no cost. */
static void no_cost_without_derivatives(void **state)
{
    (void)state;
    sg_store *store = sg_store_new(SG_F32);
    int32_t nodes[2];
    for (form form = PLAIN; form <= MARKED; form++) {
        sg_error err = {0};
        sg_graph *graph = sg_graph_new();
        sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(BATCH, WIDTH));
        sg_result(graph, "loss", net(sg_scope_root(graph, store), x, form, 0));
        sg_session *session = NULL;
        sg_plan *plan = NULL;
        sg_store_initialise(store, 1);
        sg_session_options options = {.size = sizeof options, .threads = 1};
        assert_int_equal(sg_session_new(&session, store, &options, &err), SG_OK);
        assert_int_equal(sg_plan_new(&plan, session, graph, &err), SG_OK);
        nodes[form] = sg_plan_describe(plan).nodes;
        sg_plan_free(plan);
        sg_session_free(session);
        sg_graph_free(graph);
    }
    assert_int_equal(nodes[PLAIN], nodes[MARKED]);
    sg_store_free(store);
}

static void beginnings_that_are_none(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value y = sg_tanh(sg_input(graph, "x", SG_F32, SG_SHAPE(2)));
    sg_checkpoint_end(graph, -1, &y, 1);
    assert_int_equal(sg_graph_status(graph, NULL), SG_E_ARGUMENT);
    sg_graph_free(graph);
    graph = sg_graph_new();
    y = sg_tanh(sg_input(graph, "x", SG_F32, SG_SHAPE(2)));
    sg_checkpoint_end(graph, 1000, &y, 1); /* nothing since: an empty segment */
    assert_int_equal(sg_graph_status(graph, NULL), SG_OK);
    sg_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test(less_memory),
        cmocka_unit_test(products),
        cmocka_unit_test(no_cost_without_derivatives),
        cmocka_unit_test(beginnings_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
