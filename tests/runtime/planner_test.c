/* Memory: plans on shared memory give the bits of plans without sharing and of the interpreter, with dead memory
 * poisoned; buffers that live at the same time do not overlap; stores are updated in place where that is exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "tests/support/graph_run.h"
#include "tests/support/inplace_backend.h"
#include "tests/support/random_graph.h"

enum { SIDE = 4, COUNT = SIDE * SIDE };

static const sg_session_options poisoned = {.size = sizeof(sg_session_options), .poison = true};

/* ------------------------------------------------------------------------------------------------- random graphs */

typedef struct outcome {
    double y[3][COUNT], a[COUNT], b[COUNT];
} outcome;

static outcome run_random(uint64_t seed, bool inplace, bool no_reuse, bool poison)
{
    outcome o;
    random_graph r = random_graph_new(seed, SIDE, SG_F64);
    sg_session *s = inplace ? inplace_session(r.store, poison ? &poisoned : NULL)
                            : reference_session(r.store, poison ? &poisoned : NULL);
    sg_plan *plan = compile_plan(s, r.graph, no_reuse);
    for (int32_t run = 0; run < 3; run++) {
        double x[COUNT];
        for (int32_t i = 0; i < COUNT; i++)
            x[i] = test_uniform(seed + 1, i) - 0.5;
        assert_int_equal(sg_plan_feed(plan, "x", x, COUNT, NULL), SG_OK);
        run_plan(plan);
    }
    for (int32_t k = 0; k < 3; k++)
        assert_int_equal(sg_plan_fetch(plan, (const char *[]){"y0", "y1", "y2"}[k], o.y[k], COUNT, NULL), SG_OK);
    sg_store_get(r.store, "a", o.a, COUNT, NULL);
    sg_store_get(r.store, "b", o.b, COUNT, NULL);
    sg_plan_free(plan);
    sg_session_free(s);
    random_graph_free(&r);
    return o;
}

/* What the store and results are after three runs, by the interpreter. */
static outcome interpret_random(uint64_t seed)
{
    outcome o;
    random_graph r = random_graph_new(seed, SIDE, SG_F64);
    double x[COUNT];
    for (int32_t i = 0; i < COUNT; i++)
        x[i] = test_uniform(seed + 1, i) - 0.5;
    for (int32_t run = 0; run < 3; run++) {
        sg_value y[5] = {r.y[0], r.y[1], r.y[2], SG_NONE, SG_NONE};
        double kept[2][COUNT], *out[5] = {o.y[0], o.y[1], o.y[2], kept[0], kept[1]};
        int32_t entry[2], value, n = sg_effect_count(r.graph);
        for (int32_t k = 0; k < n; k++) {
            sg_effect_at(r.graph, k, &entry[k], &value);
            y[3 + k] = sg_value_at(r.graph, value);
        }
        graph_eval(r.graph, &r.x, (double *[]){x}, 1, y, out, 3 + n);
        for (int32_t k = 0; k < n; k++)
            sg_store_set(r.store, sg_store_at(r.store, entry[k])->name, kept[k], COUNT, NULL);
    }
    sg_store_get(r.store, "a", o.a, COUNT, NULL);
    sg_store_get(r.store, "b", o.b, COUNT, NULL);
    random_graph_free(&r);
    return o;
}

static void test_random_graphs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        outcome want = interpret_random(seed);
        for (int32_t variant = 0; variant < 8; variant++) {
            outcome got = run_random(seed, variant & 1, variant & 2, variant & 4);
            if (memcmp(&want, &got, sizeof want) != 0)
                fail_msg("seed %d differs on variant %d", (int)seed, (int)variant);
        }
    }
}

/* ------------------------------------------------------------------------------------------------------- placement */

static void test_placement(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        random_graph r = random_graph_new(seed, SIDE, SG_F64);
        sg_session *s = inplace_session(r.store, NULL);
        sg_plan *plan = compile_plan(s, r.graph, false), *spread = compile_plan(s, r.graph, true);
        for (int32_t i = 0; i < plan->n_buffers; i++)
            for (int32_t j = 0; j < i; j++) {
                const sg_buffer *a = &plan->buffer[i], *b = &plan->buffer[j];
                if (a->place != SG_PLACE_ARENA || b->place != SG_PLACE_ARENA || a->first > b->last ||
                    b->first > a->last)
                    continue;
                assert_true(a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
            }
        for (int32_t i = 0; i < plan->n_buffers; i++)
            assert_int_equal(plan->buffer[i].offset % SG_ALIGN, 0);
        assert_true(sg_plan_describe(plan).temporary_bytes < sg_plan_describe(spread).temporary_bytes);
        sg_plan_free(plan);
        sg_plan_free(spread);
        sg_session_free(s);
        random_graph_free(&r);
    }
}

/* ------------------------------------------------------------------------------------------------------- the store */

typedef struct fixture {
    sg_store *store;
    sg_graph *graph;
    sg_scope scope;
    sg_session *session;
} fixture;

static fixture open_fixture(void)
{
    fixture f = {.store = sg_store_new(SG_F64), .graph = sg_graph_new()};
    f.scope = sg_scope_root(f.graph, f.store);
    f.session = inplace_session(f.store, &poisoned);
    return f;
}

static void close_fixture(fixture *f, sg_plan *plan)
{
    sg_plan_free(plan);
    sg_session_free(f->session);
    sg_graph_free(f->graph);
    sg_store_free(f->store);
}

static double stored(const fixture *f, const char *name)
{
    double value[4];
    assert_int_equal(sg_store_get(f->store, name, value, 4, NULL), SG_OK);
    return value[0];
}

static sg_plan *run_fixture(fixture *f)
{
    sg_store_initialise(f->store, 1);
    sg_plan *plan = compile_plan(f->session, f->graph, false);
    run_plan(plan);
    return plan;
}

static void test_update_in_place(void **state)
{
    (void)state;
    fixture f = open_fixture();
    sg_value p = sg_param(f.scope, "p", SG_SHAPE(4), sg_init_constant(3));
    sg_value once = sg_add(p, sg_mul_scalar(sg_sin(p), 0)), twice = sg_mul_scalar(once, 2);
    sg_assign(p, sg_tanh(sg_mul_scalar(twice, 0.1)));
    sg_plan *plan = run_fixture(&f);
    assert_int_equal(sg_plan_copy_count(plan), 0);
    assert_true(stored(&f, "p") > 0.537 && stored(&f, "p") < 0.5371); /* tanh 0.6 */
    close_fixture(&f, plan);
}

/* The old version is a result: it must survive the update, which then has to be a copy at the end. */
static void test_old_version_kept(void **state)
{
    (void)state;
    fixture f = open_fixture();
    sg_value p = sg_param(f.scope, "p", SG_SHAPE(4), sg_init_constant(3));
    sg_result(f.graph, "old", p);
    sg_assign(p, sg_mul_scalar(p, 2));
    sg_plan *plan = run_fixture(&f);
    double old[4];
    assert_int_equal(sg_plan_fetch(plan, "old", old, 4, NULL), SG_OK);
    assert_true(old[0] == 3 && stored(&f, "p") == 6);
    close_fixture(&f, plan);
}

static void test_exchange(void **state)
{
    (void)state;
    fixture f = open_fixture();
    sg_value a = sg_param(f.scope, "a", SG_SHAPE(4), sg_init_constant(1));
    sg_value b = sg_param(f.scope, "b", SG_SHAPE(4), sg_init_constant(2));
    sg_value c = sg_param(f.scope, "c", SG_SHAPE(4), sg_init_constant(3));
    sg_rebind(f.graph, sg_store_find(f.store, "a"), b);
    sg_rebind(f.graph, sg_store_find(f.store, "b"), c);
    sg_rebind(f.graph, sg_store_find(f.store, "c"), a);
    sg_plan *plan = run_fixture(&f);
    assert_true(stored(&f, "a") == 2 && stored(&f, "b") == 3 && stored(&f, "c") == 1);
    run_plan(plan);
    assert_true(stored(&f, "a") == 3 && stored(&f, "b") == 1 && stored(&f, "c") == 2);
    close_fixture(&f, plan);
}

/* One value for two entries, one of which it is computed from. */
static void test_shared_value(void **state)
{
    (void)state;
    fixture f = open_fixture();
    sg_value a = sg_param(f.scope, "a", SG_SHAPE(4), sg_init_constant(1));
    sg_value b = sg_param(f.scope, "b", SG_SHAPE(4), sg_init_constant(2));
    sg_value next = sg_add(a, b);
    sg_assign(a, next);
    sg_assign(b, next);
    sg_result(f.graph, "next", next);
    sg_plan *plan = run_fixture(&f);
    double got[4];
    sg_plan_fetch(plan, "next", got, 4, NULL);
    assert_true(stored(&f, "a") == 3 && stored(&f, "b") == 3 && got[3] == 3);
    close_fixture(&f, plan);
}

/* An integer entry is held as doubles on this device: converted in and out. */
static void test_integer_entry(void **state)
{
    (void)state;
    fixture f = open_fixture();
    sg_rng_advance(f.scope);
    sg_rng_seed(f.store, 7, 41);
    sg_plan *plan = run_fixture(&f);
    run_plan(plan);
    double rng[4];
    sg_store_get(f.store, "rng", rng, 4, NULL);
    assert_true(rng[0] == 7 && rng[2] == 43 && rng[3] == 0);
    close_fixture(&f, plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),   cmocka_unit_test(test_placement),
        cmocka_unit_test(test_update_in_place), cmocka_unit_test(test_old_version_kept),
        cmocka_unit_test(test_exchange),        cmocka_unit_test(test_shared_value),
        cmocka_unit_test(test_integer_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
