/* The order of steps and sums of products: a Hessian product needs little more than twice the memory of its gradient, and neither
 * changes what is computed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "runtime/runtime.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

enum { LAYERS = 5, ROWS = 48, WIDTH = 40, WEIGHTS = WIDTH * WIDTH };

typedef struct net {
    sg_graph *graph;
    sg_store *store;
    sg_value w[LAYERS], loss;
} net;

static sg_value input(net *n, const char *name, int32_t i, int64_t rows)
{
    char text[16];
    snprintf(text, sizeof text, "%s%d", name, (int)i);
    return sg_input(n->graph, text, SG_F32, SG_SHAPE(rows, WIDTH));
}

/* Layers of gelu(x W + x W'); each x enters two products. */
static void open_net(net *n, sg_dtype real)
{
    n->graph = sg_graph_new();
    n->store = sg_store_new(real);
    sg_value x = input(n, "x", 0, ROWS);
    for (int32_t i = 0; i < LAYERS; i++) {
        n->w[i] = input(n, "w", i, WIDTH);
        x = sg_gelu(sg_add(sg_matmul(x, n->w[i]), sg_matmul_nt(x, n->w[i])));
    }
    n->loss = sg_sum_all(sg_square(x));
}

static void declare_products(net *n, sg_hvp_mode mode)
{
    sg_value v[LAYERS], hv[LAYERS];
    for (int32_t i = 0; i < LAYERS; i++)
        v[i] = input(n, "v", i, WIDTH);
    sg_hvp(n->loss, n->w, v, LAYERS, hv, mode);
    for (int32_t i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "h%d", (int)i);
        sg_result(n->graph, name, hv[i]);
    }
}

static void feed(sg_plan *plan, const char *name, int64_t count, uint64_t stream, double scale)
{
    double *data = test_calloc((size_t)count, sizeof *data);
    for (int64_t i = 0; i < count; i++)
        data[i] = (double)(float)(scale * (2 * test_uniform(stream, i) - 1));
    assert_int_equal(sg_plan_feed(plan, name, data, count, NULL), SG_OK);
    test_free(data);
}

/* All products, one after the other; returns the plan's description. */
static sg_plan_info products(const char *backend, bool no_fusion, int32_t threads, sg_hvp_mode mode, double *out)
{
    net n;
    sg_error err = {0};
    sg_session *session;
    sg_plan *plan = NULL;
    open_net(&n, backend[0] == 'r' ? SG_F64 : SG_F32);
    declare_products(&n, mode);
    sg_session_options options = {
        .size = sizeof options, .backend = backend, .threads = threads, .no_fusion = no_fusion, .poison = true};
    if (sg_session_new(&session, n.store, &options, &err) != SG_OK ||
        sg_plan_new(&plan, session, n.graph, &err) != SG_OK)
        fail_msg("%s", err.text);
    feed(plan, "x0", ROWS * WIDTH, 1, 1);
    for (int32_t i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", (int)i);
        feed(plan, name, WEIGHTS, 10 + (uint64_t)i, 0.2);
        name[0] = 'v';
        feed(plan, name, WEIGHTS, 20 + (uint64_t)i, 1);
    }
    assert_int_equal(sg_plan_run(plan, &err), SG_OK);
    for (int32_t i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "h%d", (int)i);
        assert_int_equal(sg_plan_fetch(plan, name, out + i * WEIGHTS, WEIGHTS, &err), SG_OK);
    }
    sg_plan_info info = sg_plan_describe(plan);
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(n.graph);
    sg_store_free(n.store);
    return info;
}

static void same_products(void **state)
{
    (void)state;
    static double want[LAYERS * WEIGHTS], got[LAYERS * WEIGHTS], again[LAYERS * WEIGHTS];
    for (int mode = 0; mode < 2; mode++) {
        products("reference", false, 1, (sg_hvp_mode)mode, want);
        double atol = 1e-5 * tensor_scale(want, LAYERS * WEIGHTS);
        products("cpu", true, 1, (sg_hvp_mode)mode, got);
        assert_tensor_close(got, want, LAYERS * WEIGHTS, 0, atol, "unfused");
        products("cpu", false, 1, (sg_hvp_mode)mode, got);
        assert_tensor_close(got, want, LAYERS * WEIGHTS, 0, atol, "fused");
        products("cpu", false, 3, (sg_hvp_mode)mode, again);
        assert_memory_equal(got, again, sizeof got);
    }
}

/* Products x w are added up where they are made: fewer kernels. */
static void joins_sums_of_products(void **state)
{
    (void)state;
    static double out[LAYERS * WEIGHTS];
    sg_plan_info apart = products("cpu", true, 1, SG_HVP_FORWARD_OVER_REVERSE, out);
    sg_plan_info joined = products("cpu", false, 1, SG_HVP_FORWARD_OVER_REVERSE, out);
    assert_true(joined.nodes < apart.nodes / 2);
    assert_true(joined.flops > 0.9 * apart.flops && joined.flops <= 1.001 * apart.flops);
}

static void needs_about_twice_the_memory(void **state)
{
    (void)state;
    static double out[LAYERS * WEIGHTS];
    net n;
    sg_value g[LAYERS];
    sg_error err = {0};
    sg_session *session;
    sg_plan *plan;
    open_net(&n, SG_F32);
    sg_grad(n.loss, n.w, LAYERS, g);
    for (int32_t i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "g%d", (int)i);
        sg_result(n.graph, name, g[i]);
    }
    sg_session_options options = {.size = sizeof options, .threads = 1};
    assert_int_equal(sg_session_new(&session, n.store, &options, &err), SG_OK);
    assert_int_equal(sg_plan_new(&plan, session, n.graph, &err), SG_OK);
    size_t gradient = sg_plan_describe(plan).temporary_bytes;
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(n.graph);
    sg_store_free(n.store);
    size_t product = products("cpu", false, 1, SG_HVP_FORWARD_OVER_REVERSE, out).temporary_bytes;
    if ((double)product > 2.3 * (double)gradient)
        fail_msg("%zu bytes against %zu of the gradient", product, gradient);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_products),
        cmocka_unit_test(joins_sums_of_products),
        cmocka_unit_test(needs_about_twice_the_memory),
    };
    return cmocka_run_group_tests_name("runtime/order", tests, NULL, NULL);
}
