/* Whole plans on the cpu backend against the interpreter, with fusion, shared memory and poison; results independent of
 * threads; the training step of the models updates its store in place and does not allocate. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "models/models.h"
#include "ops/ops.h"
#include "tests/support/graph_run.h"
#include "tests/support/inplace_backend.h"
#include "tests/support/random_graph.h"
#include "tests/support/tensor_check.h"

enum { ROWS = 24, WIDE = 40 };

/* A two-layer net, its loss, its gradients, and an Adam step on each parameter. */
static sg_graph *net(sg_store *store)
{
    sg_graph *graph = sg_graph_new();
    sg_scope scope = sg_scope_root(graph, store);
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(ROWS, WIDE));
    sg_value w1 = sg_param(scope, "W1", SG_SHAPE(WIDE, 32), sg_init_normal(0, 0.2));
    sg_value b1 = sg_param(scope, "b1", SG_SHAPE(32), sg_init_normal(0, 0.2));
    sg_value w2 = sg_param(scope, "W2", SG_SHAPE(32, 8), sg_init_normal(0, 0.2));
    sg_value h = sg_dropout(scope, sg_softplus(sg_add(sg_matmul(x, w1), b1)), 0.2);
    sg_value z = sg_matmul(sg_mul(h, sg_sigmoid(h)), w2);
    sg_value loss =
        sg_named(sg_mean_all(sg_sub(sg_logsumexp(z, -1, false), sg_sum(sg_mul(sg_softmax(z, -1), z), -1))), "loss");
    sg_value p[3] = {w1, b1, w2}, g[3];
    sg_grad(loss, p, 3, g);
    const char *names[3] = {"1", "2", "3"};
    for (int32_t k = 0; k < 3; k++) {
        sg_scope s = sg_scope_sub(scope, names[k]);
        sg_value m = sg_state(s, "m", SG_F32, *sg_shape_of(p[k]), sg_init_zeros());
        sg_value v = sg_state(s, "v", SG_F32, *sg_shape_of(p[k]), sg_init_zeros());
        sg_adam_state next = sg_adam((sg_adam_state){p[k], m, v}, g[k], sg_scalar(graph, 0.01), sg_scalar(graph, 1),
                                     0.9, 0.999, 1e-8, 0.01, true);
        sg_assign(p[k], next.p);
        sg_assign(m, next.m);
        sg_assign(v, next.v);
        sg_result(graph, names[k], g[k]);
    }
    sg_result(graph, "loss", loss);
    return graph;
}

typedef struct outcome {
    double loss, w1[WIDE * 32], g1[WIDE * 32];
} outcome;

static outcome run_net(const char *backend, int32_t threads, bool no_fusion, bool no_reuse, bool audit)
{
    bool reference = strcmp(backend, "reference") == 0;
    sg_store *store = sg_store_new(reference ? SG_F64 : SG_F32);
    sg_graph *graph = net(store);
    sg_store_initialise(store, 11);
    sg_rng_seed(store, 3, 4);
    sg_session_options o = {.size = sizeof o,
                            .backend = backend,
                            .threads = threads,
                            .no_fusion = no_fusion,
                            .poison = true,
                            .audit = audit,
                            .audit_tolerance = 1e-5};
    sg_session *s;
    sg_error err;
    if (sg_session_new(&s, store, &o, &err) != SG_OK)
        fail_msg("%s", err.text);
    sg_plan *plan = compile_plan(s, graph, no_reuse);
    double x[ROWS * WIDE];
    for (int32_t i = 0; i < ROWS * WIDE; i++)
        x[i] = (float)(test_uniform(9, i) - 0.5);
    outcome out;
    sg_plan_feed(plan, "x", x, ROWS * WIDE, NULL);
    for (int32_t run = 0; run < 3; run++)
        run_plan(plan);
    assert_int_equal(sg_plan_fetch(plan, "loss", &out.loss, 1, NULL), SG_OK);
    assert_int_equal(sg_plan_fetch(plan, "1", out.g1, WIDE * 32, NULL), SG_OK);
    assert_int_equal(sg_store_get(store, "W1", out.w1, WIDE * 32, NULL), SG_OK);
    sg_plan_free(plan);
    sg_session_free(s);
    sg_graph_free(graph);
    sg_store_free(store);
    return out;
}

static void test_net(void **state)
{
    (void)state;
    outcome want = run_net("reference", 1, false, false, false), base = run_net("cpu", 1, false, false, false);
    assert_true(fabs(base.loss - want.loss) < 1e-5);
    for (int32_t i = 0; i < WIDE * 32; i++)
        assert_true(fabs(base.g1[i] - want.g1[i]) < 1e-5);
    for (int32_t threads = 1; threads <= 3; threads++)
        for (int32_t no_reuse = 0; no_reuse < 2; no_reuse++) {
            outcome got = run_net("cpu", threads, false, no_reuse, false);
            assert_memory_equal(&got, &base, sizeof got);
        }
    outcome plain = run_net("cpu", 1, true, false, false);
    assert_true(fabs(plain.loss - base.loss) < 1e-6);
}

/* Audited with and without fusion: every kernel agrees with its rule on what it was given. */
static void test_audit(void **state)
{
    (void)state;
    outcome fused = run_net("cpu", 2, false, false, true), plain = run_net("cpu", 2, true, false, true);
    assert_true(fabs(fused.loss - plain.loss) < 1e-6);
}

/* ---------------------------------------------------------------------------------------------------- random graphs */

enum { SIDE = 13, COUNT = SIDE * SIDE };

typedef struct picture {
    double y[3][COUNT], entry[2][COUNT];
} picture;

static picture run_random(uint64_t seed, const char *backend, int32_t threads, bool no_reuse)
{
    random_graph r = random_graph_new(seed, SIDE, strcmp(backend, "cpu") == 0 ? SG_F32 : SG_F64);
    sg_session_options o = {.size = sizeof o, .backend = backend, .threads = threads, .poison = true};
    sg_session *s;
    assert_int_equal(sg_session_new(&s, r.store, &o, NULL), SG_OK);
    sg_plan *plan = compile_plan(s, r.graph, no_reuse);
    double x[COUNT];
    for (int32_t i = 0; i < COUNT; i++)
        x[i] = (float)(test_uniform(seed, i) - 0.5);
    sg_plan_feed(plan, "x", x, COUNT, NULL);
    run_plan(plan);
    picture p;
    for (int32_t k = 0; k < 3; k++)
        sg_plan_fetch(plan, (const char *[]){"y0", "y1", "y2"}[k], p.y[k], COUNT, NULL);
    for (int32_t k = 0; k < 2; k++)
        sg_store_get(r.store, (const char *[]){"a", "b"}[k], p.entry[k], COUNT, NULL);
    sg_plan_free(plan);
    sg_session_free(s);
    random_graph_free(&r);
    return p;
}

/* What fused kernels may take over is subtle: sharing memory must change no bit, nor must threads. */
static void test_random_graphs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        picture plain = run_random(seed, "cpu", 1, true), shared = run_random(seed, "cpu", 1, false);
        picture threaded = run_random(seed, "cpu", 2, false), exact = run_random(seed, "reference", 1, false);
        if (memcmp(&plain, &shared, sizeof plain) != 0 || memcmp(&plain, &threaded, sizeof plain) != 0)
            fail_msg("seed %d: sharing memory or threads change the result", (int)seed);
        const double *got = &shared.y[0][0], *want = &exact.y[0][0];
        assert_tensor_close(got, want, 5 * COUNT, 1e-3, 1e-3 * tensor_scale(want, 5 * COUNT), "random graph");
    }
}

/* ------------------------------------------------------------------------------------------------ the training step */

static int64_t calls;
static void *counting_allocate(void *user, size_t bytes)
{
    (void)user;
    calls++;
    return malloc(bytes);
}
static void *counting_resize(void *user, void *old, size_t bytes)
{
    (void)user;
    calls++;
    return realloc(old, bytes);
}
static void counting_release(void *user, void *old)
{
    (void)user;
    free(old);
}

/* The largest copy that a plan makes, in bytes. */
static size_t largest_copy(const sg_plan *plan, const sg_frame *frame)
{
    size_t most = 0;
    const sg_copies *lists[] = {&frame->save, &frame->commit};
    for (int32_t l = 0; l < 2; l++)
        for (int32_t k = 0; k < lists[l]->count; k++)
            most = plan->buffer[lists[l]->item[k].to].bytes > most ? plan->buffer[lists[l]->item[k].to].bytes : most;
    for (int32_t i = 0; i < frame->n_steps; i++) {
        const sg_step *step = &frame->step[i];
        size_t inside = step->body ? largest_copy(plan, step->body) : 0;
        most = inside > most ? inside : most;
        for (int32_t k = 0; k < step->start.count; k++)
            most =
                plan->buffer[step->start.item[k].to].bytes > most ? plan->buffer[step->start.item[k].to].bytes : most;
    }
    return most;
}

static void test_training_step(void **state)
{
    (void)state;
    sg_allocator_set(&(sg_allocator){counting_allocate, counting_resize, counting_release, NULL});
    sg_store *store = sg_store_new(SG_F32);
    sg_graph *graph = sg_graph_new();
    static const int64_t hidden[] = {24, 16};
    static const double dropout[] = {0.3, 0.3};
    sg_mlc_sizes sizes = {.inputs = 30,
                          .labels = 9,
                          .layers = 2,
                          .hidden = hidden,
                          .dropout = dropout,
                          .activation = SG_ACTIVATION_SOFTPLUS,
                          .global = 5};
    sg_step_options o = {.loss = SG_LOSS_SEAL_DYNAMIC,
                         .batch = 8,
                         .task = sizes,
                         .energy = sizes,
                         .samples = 6,
                         .n_energy = 4,
                         .n_task = 3,
                         .energy_weight = 1,
                         .bce_weight = 1,
                         .clip = 10,
                         .task_adam = sg_adam_defaults(1e-3),
                         .energy_adam = sg_adam_defaults(1e-3)};
    sg_error err;
    if (sg_step_build(graph, store, &o, &err) != SG_OK)
        fail_msg("%s", err.text);
    sg_store_initialise(store, 1);
    sg_session *s;
    sg_session_options so = {.size = sizeof so, .backend = "cpu", .threads = 2, .poison = true};
    assert_int_equal(sg_session_new(&s, store, &so, &err), SG_OK);
    sg_plan *plan = compile_plan(s, graph, false);
    /* nothing but the running sums of losses and the state of the generator */
    assert_true(largest_copy(plan, plan->top) <= 4 * sizeof(int32_t));
    run_plan(plan);
    calls = 0;
    run_plan(plan);
    run_plan(plan);
    assert_int_equal(calls, 0);
    sg_plan_free(plan);
    sg_session_free(s);
    sg_graph_free(graph);
    sg_store_free(store);
    sg_allocator_set(&(sg_allocator){0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_net),
        cmocka_unit_test(test_audit),
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_training_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
