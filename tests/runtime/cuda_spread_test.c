/* cuda_spread_test.c - a loop of Adam steps on one sparse batch, in which a GPU with several replicas spreads the steps of idle rows
 * over the iterations, gives the bits of single steps one after the other; also where the layer is read in a way that forbids it, and
 * where gradients are clipped by the global norm, which is then found without them in memory. Skipped where there is no GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "runtime/runtime.h"
#include "tests/support/gpu_session.h"
#include "tests/support/graph_run.h"

enum {
    ROWS = 7,
    COLUMNS = 301,
    CAPACITY = 120,
    WIDEST = 36,
    CLIPPED_WIDTH = 320,
    STEPS = 6,
    BATCHES = 3,
    REPLICAS = 5
};

typedef struct batch {
    double values[CAPACITY], columns[CAPACITY], indptr[ROWS + 1], t_rows[CAPACITY], t_order[CAPACITY],
        t_indptr[COLUMNS + 1];
} batch;

/* What else reads the layer, or its gradient. */
typedef enum kind {
    ALONE,
    READ_ELSEWHERE, /* a sum over the whole layer is the loop's state */
    CLIPPED,
    CLIPPED_IN_MEMORY, /* and sums over the gradient and the clipped gradient are */
} kind;

typedef struct model {
    sg_store *store;
    sg_csr x;
    int64_t width;
    kind kind;
} model;

static void fill(batch *b, int which)
{
    int n = 0, t = 0;
    memset(b, 0, sizeof *b);
    for (int r = 0; r < ROWS; r++) {
        for (int c = r + 5 * which; c < COLUMNS && n < CAPACITY * (r + 1) / ROWS; c += 11 + 13 * which, n++) {
            b->columns[n] = c;
            b->values[n] = 2 * test_uniform(which, n) - 1;
        }
        b->indptr[r + 1] = n;
    }
    for (int c = 0; c < COLUMNS; c++) {
        for (int r = 0; r < ROWS; r++)
            for (int e = (int)b->indptr[r]; e < (int)b->indptr[r + 1]; e++)
                if ((int)b->columns[e] == c) {
                    b->t_rows[t] = r;
                    b->t_order[t++] = e;
                }
        b->t_indptr[c + 1] = t;
    }
}

/* A loop in the loop that reads the layer by products with the batch. */
static void look(void *user, sg_graph *graph, const sg_value *state, sg_value *next)
{
    const model *m = user;
    sg_value p = sg_param(sg_scope_root(graph, m->store), "p", SG_SHAPE(COLUMNS, m->width), sg_init_normal(0, 1));
    next[0] = sg_add(sg_mul(state[0], sg_scalar(graph, 0.5)), sg_sum_all(sg_csr_matmul(m->x, p)));
}

/* The gradient, clipped together with that of biases; what else is to be read is added to *read. */
static sg_value clipped(const model *m, sg_graph *graph, sg_value gradient, sg_value d, sg_value *read)
{
    sg_value g[] = {gradient, sg_sum_axes(d, 1, (int32_t[]){0}, false)};
    sg_value scaled = sg_mul(gradient, sg_clip_factor(g, 2, 0.3, NULL)), looked = sg_scalar(graph, 0);
    if (m->kind == CLIPPED_IN_MEMORY)
        *read = sg_add(*read, sg_sum_all(sg_add(gradient, scaled)));
    sg_repeat(graph, 2, look, (void *)m, &looked, 1, &looked, false);
    *read = sg_add(*read, looked);
    return scaled;
}

/* One update towards tanh(x p) = 0, with the layer's new value or not. */
static void update(void *user, sg_graph *graph, const sg_value *state, sg_value *next)
{
    const model *m = user;
    sg_scope root = sg_scope_root(graph, m->store);
    sg_shape layer = SG_SHAPE(COLUMNS, m->width);
    sg_adam_state s = {sg_param(root, "p", layer, sg_init_normal(0, 1)),
                       sg_state(root, "m", SG_F32, layer, sg_init_normal(0, 0.1)),
                       sg_state(root, "v", SG_F32, layer, sg_init_constant(0.5))};
    sg_value t0 = sg_state(root, "t", SG_F32, sg_shape_scalar(), sg_init_constant(2)), t = sg_add_scalar(t0, 1);
    sg_value d = sg_tanh(sg_csr_matmul(m->x, s.p)), gradient = sg_csr_t_matmul(m->x, d);
    next[0] = sg_add(state[0], m->kind == READ_ELSEWHERE ? sg_sum_all(sg_square(s.p)) : sg_scalar(graph, 1));
    if (m->kind >= CLIPPED)
        gradient = clipped(m, graph, gradient, d, &next[0]);
    s = sg_adam(s, gradient, sg_scalar(graph, 0.01), t, 0.9, 0.999, 1e-8, 0.1, true);
    sg_assign(sg_param(root, "p", layer, sg_init_normal(0, 1)), s.p);
    sg_assign(sg_state(root, "m", SG_F32, layer, sg_init_normal(0, 0.1)), s.m);
    sg_assign(sg_state(root, "v", SG_F32, layer, sg_init_constant(0.5)), s.v);
    sg_assign(t0, t);
}

static void feed(sg_plan *plan, const batch *b)
{
    assert_int_equal(sg_plan_feed(plan, "x.values", b->values, CAPACITY, NULL), SG_OK);
    assert_int_equal(sg_plan_feed(plan, "x.columns", b->columns, CAPACITY, NULL), SG_OK);
    assert_int_equal(sg_plan_feed(plan, "x.indptr", b->indptr, ROWS + 1, NULL), SG_OK);
    assert_int_equal(sg_plan_feed(plan, "x.t_rows", b->t_rows, CAPACITY, NULL), SG_OK);
    assert_int_equal(sg_plan_feed(plan, "x.t_order", b->t_order, CAPACITY, NULL), SG_OK);
    assert_int_equal(sg_plan_feed(plan, "x.t_indptr", b->t_indptr, COLUMNS + 1, NULL), SG_OK);
}

static void check_plan(const sg_plan *plan, kind kind, bool loop)
{
    const char *step = kind == CLIPPED_IN_MEMORY            ? " adam "
                       : kind == CLIPPED || (loop && !kind) ? "spread_adam"
                                                            : "sparse_adam";
    char *out = NULL;
    size_t size;
    FILE *f = open_memstream(&out, &size);
    sg_plan_print(plan, f);
    fclose(f);
    assert_non_null(strstr(out, step));
    assert_int_equal(strstr(out, "csr_t_squares") != NULL, kind == CLIPPED);
    free(out);
}

static sg_graph *build(model *m, int loop)
{
    sg_graph *graph = sg_graph_new();
    m->x = sg_csr_input(graph, "x", ROWS, COLUMNS, CAPACITY);
    sg_value sum = sg_scalar(graph, 0);
    sg_repeat(graph, loop, update, m, &sum, 1, &sum, loop == 1);
    sg_result(graph, "sum", sum);
    return graph;
}

/* p, m, v of the last of several replicas, or of the only one, after STEPS updates on each batch, `loop` of them a run. */
static void train(int64_t width, kind kind, int loop, int replicas, double *out)
{
    static const char *const names[] = {"p", "m", "v"};
    sg_store *store[REPLICAS];
    sg_graph *graph = NULL;
    sg_session *session;
    sg_plan *plan;
    for (int r = replicas; r-- > 0;) {
        store[r] = sg_store_new(SG_F32);
        sg_graph_free(graph);
        graph = build(&(model){.store = store[r], .width = width, .kind = kind}, loop);
        sg_store_initialise(store[r], r == replicas - 1 ? 1 : 2 + (uint64_t)r);
    }
    sg_session_options options = {.size = sizeof options, .backend = "cuda", .replicas = replicas, .more = store + 1};
    assert_int_equal(sg_session_new(&session, store[0], &options, NULL), SG_OK);
    assert_int_equal(sg_plan_new(&plan, session, graph, NULL), SG_OK);
    check_plan(plan, kind, loop > 1);
    for (int i = 0; i < BATCHES; i++) {
        batch b;
        fill(&b, i);
        feed(plan, &b);
        for (int k = 0; k < STEPS; k += loop)
            assert_int_equal(sg_plan_run(plan, NULL), SG_OK);
    }
    int64_t count = COLUMNS * width;
    for (int k = 0; k < 3; k++)
        assert_int_equal(sg_store_get(store[replicas - 1], names[k], out + k * count, count, NULL), SG_OK);
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    for (int r = 0; r < replicas; r++)
        sg_store_free(store[r]);
}

static void loops_give_the_bits_of_single_steps(void **state)
{
    static double alone[3 * COLUMNS * WIDEST], together[3 * COLUMNS * WIDEST];
    (void)state;
    for (int64_t width = 33; width <= WIDEST; width += 3)
        for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
            size_t bytes = sizeof(double) * 3 * COLUMNS * (size_t)width;
            train(width, elsewhere, 1, 1, alone);
            for (int loop = 2; loop <= STEPS; loop++) {
                if (STEPS % loop)
                    continue;
                for (int replicas = 1; replicas <= REPLICAS; replicas += REPLICAS - 1) {
                    train(width, elsewhere, loop, replicas, together);
                    assert_memory_equal(alone, together, bytes);
                }
            }
        }
}

static void clipping_gives_the_bits_of_gradients_in_memory(void **state)
{
    enum { COUNT = 3 * COLUMNS * CLIPPED_WIDTH };
    double *in_memory = malloc(COUNT * sizeof *in_memory), *together = malloc(COUNT * sizeof *together);
    (void)state;
    assert_true(in_memory && together);
    train(CLIPPED_WIDTH, CLIPPED_IN_MEMORY, 1, 1, in_memory);
    for (int loop = 1; loop <= STEPS; loop += 2)
        for (int replicas = 1; STEPS % loop == 0 && replicas <= REPLICAS; replicas += REPLICAS - 1) {
            train(CLIPPED_WIDTH, CLIPPED, loop, replicas, together);
            assert_memory_equal(in_memory, together, COUNT * sizeof *together);
        }
    free(in_memory);
    free(together);
}

int main(void)
{
    if (!test_gpu_is_there(NULL))
        return TEST_SKIPPED;
    const struct CMUnitTest tests[] = {cmocka_unit_test(loops_give_the_bits_of_single_steps),
                                       cmocka_unit_test(clipping_gives_the_bits_of_gradients_in_memory)};
    return cmocka_run_group_tests_name("steps of idle rows", tests, NULL, NULL);
}
