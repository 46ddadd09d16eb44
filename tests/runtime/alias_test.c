/* alias_test.c - chains that take over the memory of an operand: what a kernel declares in `alias` must be safe. Each output
 * is computed into memory of its own and again over the operand, with the same bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "ops/ops.h"
#include "runtime/cpu/cpu_internal.h"
#include "runtime/backend_internal.h"
#include "tests/support/graph_run.h"

enum { MOST = 8, ELEMENTS = 4096 };

typedef struct chain {
    sg_graph *graph;
    const sg_node *node;
    sg_device *device;
    sg_kernel kernel;
    sg_kernel_spec spec;
    sg_shape shape[2 * MOST];
    sg_dtype dtype[2 * MOST];
    float operand[MOST][ELEMENTS], out[MOST][ELEMENTS];
    void *workspace;
} chain;

static void prepare(chain *c, sg_graph *from)
{
    sg_error err = {0};
    c->graph = sg_graph_new();
    assert_int_equal(sg_cpu_fuse(from, c->graph, &err), SG_OK);
    for (int32_t i = 0; i < sg_node_count(c->graph); i++)
        if (sg_node_at(c->graph, i)->op == &sg_op_fused)
            c->node = sg_node_at(c->graph, i);
    assert_non_null(c->node);
    for (int32_t k = 0; k < c->node->n_in + c->node->n_out; k++) {
        int32_t id = k < c->node->n_in ? c->node->in[k] : c->node->out + k - c->node->n_in;
        c->shape[k] = *sg_shape_of(sg_value_at(c->graph, id));
        c->dtype[k] = sg_dtype_of(sg_value_at(c->graph, id));
    }
    c->spec = (sg_kernel_spec){c->node,
                               c->node->attr,
                               c->node->n_in,
                               c->node->n_out,
                               c->shape,
                               c->shape + c->node->n_in,
                               c->dtype,
                               c->dtype + c->node->n_in,
                               2};
    const sg_backend *cpu = sg_backend_cpu();
    const sg_device_options options = {.spec = "cpu", .threads = 2};
    assert_int_equal(cpu->open(&options, &c->device, &err), SG_OK);
    assert_int_equal(cpu->prepare(c->device, &c->spec, &c->kernel, &err), SG_OK);
    c->workspace = sg_alloc_aligned(c->kernel.workspace + 64);
}

static void fill(chain *c)
{
    for (int32_t k = 0; k < c->node->n_in; k++)
        for (int64_t i = 0; i < ELEMENTS; i++)
            c->operand[k][i] = (float)(2 * test_uniform((uint64_t)k, i) - 1);
}

static void launch(chain *c, bool over)
{
    const void *in[MOST];
    void *out[MOST];
    sg_error err = {0};
    fill(c);
    for (int32_t k = 0; k < c->node->n_in; k++)
        in[k] = c->operand[k];
    for (int32_t j = 0; j < c->node->n_out; j++)
        out[j] = over && c->kernel.alias[j] >= 0 ? c->operand[c->kernel.alias[j]] : c->out[j];
    sg_launch l = {
        .in = in, .out = out, .workspace = c->workspace, .state = c->kernel.state, .threads = 2, .replicas = 1};
    assert_true(c->kernel.launch(&l, &err));
}

/* Returns how many outputs took over an operand. */
static int32_t check(sg_graph *from)
{
    static chain c;
    int32_t taken = 0;
    memset(&c, 0, sizeof c);
    prepare(&c, from);
    launch(&c, false);
    launch(&c, true);
    for (int32_t j = 0; j < c.node->n_out; j++) {
        if (c.kernel.alias[j] < 0)
            continue;
        size_t bytes = (size_t)sg_shape_count(&c.spec.out_shape[j]) * sg_dtype_size(c.spec.out_dtype[j]);
        assert_memory_equal(c.operand[c.kernel.alias[j]], c.out[j], bytes);
        for (int32_t i = 0; i < j; i++)
            assert_int_not_equal(c.kernel.alias[i], c.kernel.alias[j]);
        taken++;
    }
    c.kernel.release(c.kernel.state);
    sg_backend_cpu()->close(c.device);
    sg_free_aligned(c.workspace);
    sg_graph_free(c.graph);
    sg_graph_free(from);
    return taken;
}

static sg_value input(sg_graph *g, const char *name, sg_shape shape) { return sg_input(g, name, SG_F32, shape); }

static void test_one_result(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = input(g, "x", SG_SHAPE(60, 60)), b = input(g, "b", SG_SHAPE(60));
    sg_result(g, "y", sg_mul(sg_softplus(sg_add(x, b)), x));
    assert_int_equal(check(g), 1);
}

static void test_read_after_write(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = input(g, "x", SG_SHAPE(3000)), y = sg_exp(x);
    sg_result(g, "y", y); /* written before x is read for the last time */
    sg_result(g, "z", sg_add(sg_tanh(y), x));
    assert_int_equal(check(g), 1);
}

static void test_several_results(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = input(g, "x", SG_SHAPE(33, 7)), y = input(g, "y", SG_SHAPE(33, 7)), s = sg_add(x, y);
    sg_result(g, "a", sg_mul(s, x));
    sg_result(g, "b", sg_mul(sg_sub(x, y), s));
    assert_true(check(g) >= 1);
}

static void test_broadcast_is_not_taken(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value row = input(g, "row", SG_SHAPE(1, 40)), column = input(g, "column", SG_SHAPE(40, 1));
    sg_result(g, "y", sg_exp(sg_mul(row, column)));
    assert_int_equal(check(g), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_result),
        cmocka_unit_test(test_read_after_write),
        cmocka_unit_test(test_several_results),
        cmocka_unit_test(test_broadcast_is_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
