/* Nodes drawn at random, as a file could describe them: any inputs and any attributes, past all builders. A shape rule
 * refuses them or answers with shapes that both backends can compute without leaving their memory (the sanitizers watch). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/random_internal.h"
#include "ops/ops.h"
#include "ops/repeat_internal.h"
#include "runtime/runtime.h"

enum { ROUNDS = 1000, CPU_RUNS = 8, INPUTS_LIMIT = 8, LIST_LIMIT = 12, ATTRS_LIMIT = 8, SMALL = 4096 };

static uint64_t counter;

static int64_t draw(int64_t below) { return (int64_t)(sg_mix64(++counter * 0x9e3779b97f4a7c15u) % (uint64_t)below); }

static int64_t draw_int(void)
{
    static const int64_t extreme[] = {INT64_MIN,     INT64_MIN + 1, INT32_MIN, -4294967298, 4294967296, INT32_MAX,
                                      INT64_MAX - 1, INT64_MAX,     1ll << 62, 1ll << 40,   1000};
    int64_t few = (int64_t)(sizeof extreme / sizeof *extreme);
    return draw(4) ? draw(9) - 3 : extreme[draw(few)];
}

static double draw_real(void)
{
    static const double extreme[] = {NAN, INFINITY, -INFINITY, -1, 0, -0.0, 1, 1e300, -1e300, 1e-310, 2147483648.0};
    int64_t few = (int64_t)(sizeof extreme / sizeof *extreme);
    return draw(3) ? (double)draw(1000) / 500 - 1 : extreme[draw(few)];
}

static sg_dtype draw_dtype(void) { return draw(2) ? SG_F32 : draw(2) ? SG_I32 : (sg_dtype)draw(SG_BOOL + 1); }

static sg_shape draw_shape(void)
{
    static const int64_t huge[] = {1ll << 31, 1ll << 40, 1ll << 61, INT64_MAX};
    sg_shape shape = {.rank = (int32_t)(draw(8) ? draw(4) : draw(SG_MAX_RANK + 1))};
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = draw(60) ? draw(4) : huge[draw(4)];
    return shape;
}

/* Often like an earlier input, so that rules get past their first check. */
static sg_value draw_input(sg_graph *graph, const sg_value *before, int32_t k)
{
    char name[16];
    snprintf(name, sizeof name, "x%d", k);
    sg_dtype dtype = draw_dtype();
    sg_shape shape = draw_shape();
    if (k > 0 && draw(3)) {
        sg_value like = before[draw(k)];
        shape = draw(4) ? *sg_shape_of(like) : shape;
        dtype = draw(4) ? sg_dtype_of(like) : dtype;
    }
    return sg_input(graph, name, dtype, shape);
}

/* A body with some inputs, results and states, right or wrong. */
static sg_graph *draw_body(sg_graph *graph, const sg_value *in, int32_t n_in)
{
    sg_graph *body = draw(10) ? sg_body_new(graph) : NULL;
    for (int32_t k = 0; body && k < n_in; k++) {
        sg_value s = draw(3) ? sg_body_state(body, in[k]) : sg_capture(body, in[k]);
        if (draw(3))
            sg_result(body, "next", s);
    }
    return body;
}

typedef struct node_draw {
    sg_value in[INPUTS_LIMIT];
    int32_t n_in;
    sg_attr attr[ATTRS_LIMIT];
    int64_t ints[LIST_LIMIT];
    double reals[LIST_LIMIT];
} node_draw;

static void draw_attr(sg_graph *graph, const sg_attr_spec *spec, node_draw *d, sg_attr *out)
{
    int64_t n = draw(LIST_LIMIT);
    if (n > 3 && draw(2))
        n = d->n_in ? sg_rank_of(d->in[0]) : 0;
    for (int32_t i = 0; i < LIST_LIMIT; i++) {
        d->ints[i] = draw_int();
        d->reals[i] = draw_real();
    }
    switch (spec->kind) {
    case SG_ATTR_INT:
        *out = sg_attr_int(draw_int());
        break;
    case SG_ATTR_REAL:
        *out = sg_attr_real(draw_real());
        break;
    case SG_ATTR_TEXT:
        *out = sg_attr_text("text");
        break;
    case SG_ATTR_INTS:
        *out = sg_attr_ints(d->ints, n);
        break;
    case SG_ATTR_REALS:
        *out = sg_attr_reals(d->reals, n);
        break;
    case SG_ATTR_GRAPH:
        *out = sg_attr_graph(draw_body(graph, d->in, d->n_in));
        break;
    }
}

static void draw_node(sg_graph *graph, const sg_op *op, node_draw *d)
{
    memset(d, 0, sizeof *d);
    d->n_in = op->n_in < 0 ? (int32_t)draw(4) : op->n_in;
    for (int32_t k = 0; k < d->n_in; k++)
        d->in[k] = draw_input(graph, d->in, k);
    for (int32_t i = 0; i < op->n_attrs; i++)
        draw_attr(graph, &op->attrs[i], d, &d->attr[i]);
}

/* Sizes beside a 0 count too: loops may run over them without touching an element. */
static bool is_small(sg_value v)
{
    sg_shape shape = *sg_shape_of(v);
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] += shape.dim[i] == 0;
    return sg_shape_count(&shape) <= SMALL;
}

static double draw_element(sg_dtype dtype)
{
    if (dtype == SG_BOOL)
        return (double)draw(2);
    if (dtype == SG_I32)
        return draw(5) ? (double)draw(4) : draw(2) ? INT32_MAX : INT32_MIN;
    return draw_real();
}

static double *room_for(sg_value v)
{
    int64_t n = sg_shape_count(sg_shape_of(v));
    double *data = malloc((size_t)(n ? n : 1) * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < n; i++)
        data[i] = draw_element(sg_dtype_of(v));
    return data;
}

static void run_reference(sg_graph *graph, const node_draw *d, double *const *feed, sg_value first)
{
    int32_t n_out = sg_node_of(first)->n_out;
    sg_value out[INPUTS_LIMIT];
    double *result[INPUTS_LIMIT];
    for (int32_t k = 0; k < n_out; k++) {
        out[k] = sg_output_of(first, k);
        result[k] = room_for(out[k]);
    }
    sg_error err;
    sg_status status = sg_reference_eval(graph, d->in, feed, d->n_in, out, result, n_out, &err);
    assert_true(status != SG_E_MEMORY);
    for (int32_t k = 0; k < n_out; k++)
        free(result[k]);
}

/* A refusal (a dtype without kernels, an index out of range) is as good as a result. */
static void run_cpu(sg_graph *graph, const node_draw *d, double *const *feed, sg_value first)
{
    sg_session_options options = {.size = sizeof options, .backend = "cpu", .threads = 1};
    sg_store *store = sg_store_new(SG_F32);
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_result(graph, "y", first);
    if (sg_session_new(&session, store, &options, NULL) == SG_OK && sg_plan_new(&plan, session, graph, NULL) == SG_OK) {
        for (int32_t k = 0; k < d->n_in; k++) {
            char name[16];
            snprintf(name, sizeof name, "x%d", k);
            sg_plan_feed(plan, name, feed[k], sg_shape_count(sg_shape_of(d->in[k])), NULL);
        }
        sg_plan_run(plan, NULL);
    }
    sg_plan_free(plan);
    sg_session_free(session);
    sg_store_free(store);
}

static void run_node(sg_graph *graph, const sg_op *op, const node_draw *d, sg_value first, bool on_cpu)
{
    bool small = op != &sg_op_repeat || d->attr[SG_REPEAT_N].i < 10;
    for (int32_t k = 0; k < d->n_in; k++)
        small = small && is_small(d->in[k]);
    for (int32_t k = 0; k < sg_node_of(first)->n_out; k++)
        small = small && is_small(sg_output_of(first, k));
    if (!small)
        return;
    double *feed[INPUTS_LIMIT];
    for (int32_t k = 0; k < d->n_in; k++)
        feed[k] = room_for(d->in[k]);
    run_reference(graph, d, feed, first);
    if (on_cpu)
        run_cpu(graph, d, feed, first);
    for (int32_t k = 0; k < d->n_in; k++)
        free(feed[k]);
}

static void check_outputs(sg_value first)
{
    for (int32_t k = 0; k < sg_node_of(first)->n_out; k++) {
        sg_value v = sg_output_of(first, k);
        assert_in_range(sg_rank_of(v), 0, SG_MAX_RANK);
        assert_in_range(sg_dtype_of(v), SG_F32, SG_BOOL);
        assert_true(sg_shape_count(sg_shape_of(v)) >= 0);
    }
}

/* True if the node was accepted. */
static bool try_node(const sg_op *op, bool on_cpu)
{
    sg_graph *graph = sg_graph_new();
    node_draw d;
    draw_node(graph, op, &d);
    sg_value first = SG_NONE;
    if (sg_graph_status(graph, NULL) == SG_OK)
        first = sg_build(graph, op, d.in, d.n_in, d.attr);
    bool accepted = !sg_is_none(first);
    assert_true(accepted == (sg_graph_status(graph, NULL) == SG_OK));
    if (accepted) {
        sg_error err;
        assert_int_equal(sg_graph_verify(graph, &err), SG_OK);
        check_outputs(first);
        sg_node_cost(graph, sg_node_of(first));
        run_node(graph, op, &d, first, on_cpu);
    }
    sg_graph_free(graph);
    return accepted;
}

static void test_any_node(void **state)
{
    (void)state;
    for (int32_t i = 0; i < sg_op_count(); i++) {
        const sg_op *op = sg_op_at(i);
        int accepted = 0;           /* the first few run on the cpu backend too: a session takes longer than all else */
        if (op->flags & SG_OP_LEAF) /* graph/ makes these itself */
            continue;
        for (int round = 0; round < ROUNDS; round++)
            accepted += try_node(op, accepted < CPU_RUNS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_any_node)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
