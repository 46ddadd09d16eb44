/* The training step of multi-label classification: the same on every backend, for sparse and dense rows, and what it must not
 * depend on. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "models/models.h"
#include "models/plan_batch_internal.h"
#include "runtime/runtime.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

static void expect(sg_status status, const sg_error *err)
{
    if (status != SG_OK)
        fail_msg("%s (op %s, node %s)", err->text, err->op, err->node);
}

enum { ROWS = 8, INPUTS = 6, LABELS = 5 };
static const int64_t hidden[] = {7, 6};
static const double dropout[] = {0.3, 0};

static sg_step_options step_options(void)
{
    sg_step_options o = {.loss = SG_LOSS_SEAL_DYNAMIC,
                         .batch = ROWS,
                         .samples = 4,
                         .n_energy = 2,
                         .n_task = 2,
                         .energy_weight = 0.5,
                         .bce_weight = 1,
                         .clip = 1};
    o.task = (sg_mlc_sizes){
        .inputs = INPUTS, .labels = LABELS, .layers = 2, .hidden = hidden, .dropout = dropout, .global = 4};
    o.energy = o.task;
    o.task_adam = o.energy_adam = sg_adam_defaults(1e-4);
    return o;
}

/* A plan of the step with its store; the batch comes from arrays. */
typedef struct stepper {
    sg_graph *graph;
    sg_store *store;
    sg_session *session;
    sg_plan *plan;
    sg_dtype real;
} stepper;

static stepper stepper_new(const sg_step_options *o, const char *backend, double task_lr)
{
    sg_error err = {0};
    stepper s = {.graph = sg_graph_new(), .real = strcmp(backend, "cpu") == 0 ? SG_F32 : SG_F64};
    s.store = sg_store_new(s.real);
    expect(sg_step_build(s.graph, s.store, o, &err), &err);
    sg_rng_seed(s.store, 3, 0);
    sg_store_initialise(s.store, 3);
    expect(sg_store_set(s.store, "task/lr", &task_lr, 1, &err), &err);
    if (o->loss == SG_LOSS_SEAL_DYNAMIC)
        expect(sg_store_set(s.store, "energy/lr", (double[]){0.01}, 1, &err), &err);
    expect(sg_session_new(&s.session, s.store,
                          &(sg_session_options){.size = sizeof(sg_session_options), .backend = backend, .threads = 1},
                          &err),
           &err);
    expect(sg_plan_new(&s.plan, s.session, s.graph, &err), &err);
    return s;
}

static void stepper_free(stepper *s)
{
    sg_plan_free(s->plan);
    sg_session_free(s->session);
    sg_graph_free(s->graph);
    sg_store_free(s->store);
}

typedef struct rows {
    float x[ROWS * INPUTS], y[ROWS * LABELS];
} rows;

/* About half of the features are zero; every row has a label. */
static rows some_rows(void)
{
    rows r = {{0}, {0}};
    for (int i = 0; i < ROWS * INPUTS; i++)
        r.x[i] = test_uniform(1, i) < 0.5 ? 0 : (float)(2 * test_uniform(2, i) - 1);
    for (int i = 0; i < ROWS * LABELS; i++)
        r.y[i] = i % LABELS == 0 || test_uniform(3, i) < 0.4;
    return r;
}

static sg_batch *batch_of(const rows *r, int64_t batch, int64_t capacity, int64_t n)
{
    sg_error err = {0};
    sg_dataset *data;
    sg_batch *b;
    int64_t all[ROWS];
    for (int64_t i = 0; i < ROWS; i++)
        all[i] = i;
    expect(sg_dataset_from_arrays(&data, r->x, r->y, ROWS, INPUTS, LABELS,
                                  capacity ? SG_LAYOUT_SPARSE : SG_LAYOUT_DENSE, &err),
           &err);
    expect(sg_batch_new(&b, data, batch, capacity, &err), &err);
    expect(sg_dataset_batch(data, all, n, b, &err), &err);
    sg_dataset_free(data);
    return b;
}

static void run_steps(stepper *s, const sg_batch *b, int times)
{
    sg_error err = {0};
    for (int i = 0; i < times; i++) {
        expect(sgi_feed_batch(s->plan, s->real, b, &err), &err);
        expect(sg_plan_run(s->plan, &err), &err);
    }
}

/* Entries (all that train) and losses; tolerance 0 asks for equal bits. */
static void same_state(stepper *a, stepper *b, double tolerance)
{
    double x[256], y[256];
    for (int32_t i = 0; i < sg_store_count(a->store); i++) {
        const sg_entry *e = sg_store_at(a->store, i);
        int64_t n = sg_shape_count(&e->shape);
        if (!e->trainable)
            continue;
        assert_int_equal(sg_store_get(a->store, e->name, x, n, NULL), SG_OK);
        assert_int_equal(sg_store_get(b->store, e->name, y, n, NULL), SG_OK);
        assert_tensor_close(x, y, n, 0, tolerance * tensor_scale(y, n), e->name);
    }
    for (int32_t i = 0; i < sg_result_count(a->graph); i++) {
        const char *name = sg_result_name(a->graph, i);
        assert_int_equal(sg_plan_fetch(a->plan, name, x, 1, NULL), SG_OK);
        assert_int_equal(sg_plan_fetch(b->plan, name, y, 1, NULL), SG_OK);
        assert_true(isfinite(x[0]));
        assert_tensor_close(x, y, 1, tolerance, tolerance, name);
    }
}

static void step_on_cpu_as_on_reference(void **state)
{
    (void)state;
    rows r = some_rows();
    sg_step_options o = step_options();
    sg_batch *b = batch_of(&r, ROWS, 0, 7);
    stepper cpu = stepper_new(&o, "cpu", 0.01), reference = stepper_new(&o, "reference", 0.01);
    run_steps(&cpu, b, 3);
    run_steps(&reference, b, 3);
    same_state(&cpu, &reference, 1e-4);
    stepper_free(&cpu);
    stepper_free(&reference);
    sg_batch_free(b);
}

static void sparse_rows_as_dense_ones(void **state)
{
    (void)state;
    static const char *const backends[] = {"reference", "cpu"};
    rows r = some_rows();
    for (int k = 0; k < 2; k++) {
        sg_step_options dense = step_options(), sparse = step_options();
        sparse.capacity = ROWS * INPUTS;
        sg_batch *b = batch_of(&r, ROWS, 0, ROWS), *c = batch_of(&r, ROWS, sparse.capacity, ROWS);
        stepper d = stepper_new(&dense, backends[k], 0.01), s = stepper_new(&sparse, backends[k], 0.01);
        run_steps(&d, b, 2);
        run_steps(&s, c, 2);
        same_state(&s, &d, k ? 1e-4 : 1e-11);
        stepper_free(&d);
        stepper_free(&s);
        sg_batch_free(b);
        sg_batch_free(c);
    }
}

/* What stands in rows of weight 0 changes no bit, and a shorter plan gives the same up to rounding. */
static void padding_does_not_count(void **state)
{
    (void)state;
    static const char *const backends[] = {"reference", "cpu"};
    rows r = some_rows();
    for (int k = 0; k < 2; k++) {
        sg_step_options o = step_options(), five = step_options();
        five.batch = 5;
        sg_batch *clean = batch_of(&r, ROWS, 0, 5), *dirty = batch_of(&r, ROWS, 0, 5), *tight = batch_of(&r, 5, 0, 5);
        for (int i = 5; i < ROWS; i++) {
            for (int j = 0; j < INPUTS; j++)
                dirty->x[i * INPUTS + j] = 7 - (float)j;
            dirty->y[i * LABELS + i % LABELS] = 1;
            assert_true(dirty->weight[i] == 0);
        }
        stepper a = stepper_new(&o, backends[k], 0.01), b = stepper_new(&o, backends[k], 0.01);
        stepper c = stepper_new(&five, backends[k], 0.01);
        run_steps(&a, clean, 3);
        run_steps(&b, dirty, 3);
        run_steps(&c, tight, 3);
        same_state(&b, &a, 0);
        same_state(&c, &a, k ? 1e-4 : 1e-11);
        stepper_free(&a);
        stepper_free(&b);
        stepper_free(&c);
        sg_batch_free(clean);
        sg_batch_free(dirty);
        sg_batch_free(tight);
    }
}

/* The value given for an unknown label changes no bit, and a label that is unknown everywhere is not learnt. */
static void unknown_labels_do_not_count(void **state)
{
    (void)state;
    rows r = some_rows();
    sg_step_options o = step_options();
    o.known = true;
    o.task_adam.weight_decay = 0;
    sg_batch *off = batch_of(&r, ROWS, 0, ROWS), *on = batch_of(&r, ROWS, 0, ROWS);
    for (int i = 0; i < ROWS; i++) {
        off->y_known[i * LABELS + 2] = on->y_known[i * LABELS + 2] = 0;
        off->y[i * LABELS + 2] = 0;
        on->y[i * LABELS + 2] = 1;
    }
    stepper a = stepper_new(&o, "cpu", 0.01), b = stepper_new(&o, "cpu", 0.01);
    double before[LABELS * 6], after[LABELS * 6];
    assert_int_equal(sg_store_get(a.store, "task/G", before, LABELS * 6, NULL), SG_OK);
    run_steps(&a, off, 3);
    run_steps(&b, on, 3);
    same_state(&b, &a, 0);
    assert_int_equal(sg_store_get(a.store, "task/G", after, LABELS * 6, NULL), SG_OK);
    assert_memory_equal(before + 2 * 6, after + 2 * 6, 6 * sizeof *before);
    assert_memory_not_equal(before, after, 6 * sizeof *before);
    stepper_free(&a);
    stepper_free(&b);
    sg_batch_free(off);
    sg_batch_free(on);
}

/* With a task-net so sure that each draw is certain, loops of updates are the updates one by one. */
static void be_sure(stepper *s)
{
    double G[LABELS * 6];
    for (int i = 0; i < LABELS * 6; i++)
        G[i] = i / 6 % 2 ? 60 : -60;
    assert_int_equal(sg_store_set(s->store, "task/G", G, LABELS * 6, NULL), SG_OK);
}

static void loops_are_updates_one_by_one(void **state)
{
    (void)state;
    rows r = some_rows();
    sg_step_options single = step_options(), loop = step_options();
    sg_mlc_sizes *nets[] = {&single.task, &single.energy, &loop.task, &loop.energy};
    for (int i = 0; i < 4; i++)
        nets[i]->dropout = NULL;
    sg_batch *b = batch_of(&r, ROWS, 0, ROWS);
    /* Task-net: cross-entropy draws nothing. */
    single.loss = loop.loss = SG_LOSS_CROSS_ENTROPY;
    single.n_task = 1;
    loop.n_task = 3;
    stepper one = stepper_new(&single, "reference", 0.01), many = stepper_new(&loop, "reference", 0.01);
    double sum = 0, bce;
    for (int i = 0; i < 3; i++) {
        run_steps(&one, b, 1);
        assert_int_equal(sg_plan_fetch(one.plan, "bce", &bce, 1, NULL), SG_OK);
        sum += bce / 3;
    }
    run_steps(&many, b, 1);
    assert_int_equal(sg_plan_fetch(many.plan, "bce", &bce, 1, NULL), SG_OK);
    assert_tensor_close(&bce, &sum, 1, 1e-12, 0, "mean of the losses");
    for (int32_t i = 0; i < sg_store_count(one.store); i++) {
        const sg_entry *e = sg_store_at(one.store, i), *f = sg_store_at(many.store, sg_store_find(many.store, e->name));
        if (e->dtype != SG_I32)
            assert_tensor_close((double *)f->data, (double *)e->data, sg_shape_count(&e->shape), 0, 1e-12, e->name);
    }
    stepper_free(&one);
    stepper_free(&many);
    /* Both nets: the task-net held (rate 0), five loss-net updates. */
    single.loss = loop.loss = SG_LOSS_SEAL_DYNAMIC;
    single.n_energy = single.n_task = loop.n_task = 1;
    loop.n_energy = 5;
    one = stepper_new(&single, "reference", 0);
    many = stepper_new(&loop, "reference", 0);
    be_sure(&one);
    be_sure(&many);
    run_steps(&one, b, 5);
    run_steps(&many, b, 1);
    for (int32_t i = 0; i < sg_store_count(one.store); i++) {
        const sg_entry *e = sg_store_at(one.store, i), *f = sg_store_at(many.store, sg_store_find(many.store, e->name));
        if (strncmp(e->name, "energy/", 7) == 0)
            assert_tensor_close((double *)f->data, (double *)e->data, sg_shape_count(&e->shape), 0, 1e-12, e->name);
    }
    stepper_free(&one);
    stepper_free(&many);
    sg_batch_free(b);
}

/* Numbers that no step can have are refused before anything is built, whatever the caller. */
static void options_are_checked(void **state)
{
    (void)state;
    const sg_step_options good = step_options();
    for (int k = 0; k < 9; k++) {
        sg_step_options o = good;
        sg_error err = {0};
        double *const reals[] = {&o.energy_weight, &o.bce_weight, &o.clip, &o.task_adam.weight_decay,
                                 &o.energy_adam.eps};
        int64_t *const counts[] = {&o.batch, &o.n_task, &o.n_energy, &o.samples};
        if (k < 5)
            *reals[k] = k % 2 ? (double)INFINITY : (double)NAN;
        else
            *counts[k - 5] = 0;
        sg_graph *graph = sg_graph_new();
        sg_store *store = sg_store_new(SG_F64);
        assert_int_equal(sg_step_build(graph, store, &o, &err), SG_E_ARGUMENT);
        assert_true(err.text[0]);
        sg_graph_free(graph);
        sg_store_free(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_on_cpu_as_on_reference),  cmocka_unit_test(sparse_rows_as_dense_ones),
        cmocka_unit_test(padding_does_not_count),       cmocka_unit_test(unknown_labels_do_not_count),
        cmocka_unit_test(loops_are_updates_one_by_one), cmocka_unit_test(options_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
