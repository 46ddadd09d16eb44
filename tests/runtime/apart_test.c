/* Sessions on a device whose memory is not the host's: values, what travels and when, store entries between sessions. The device is
 * tests/mirror, loaded as the CUDA module is: the cpu backend behind a wall, so results equal the cpu's bit for bit. Everything is
 * tried twice: with a device that does its work at once, and with one that does nothing before somebody waits for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "runtime/plan_internal.h"
#include "tests/support/graph_run.h"
#include "tests/support/mirror_device.h"
#include "tests/support/store_check.h"

enum { ROWS = 4, COLUMNS = 3 };

static mirror_counts *count;

static void good(sg_status status, const sg_error *err)
{
    if (status != SG_OK)
        fail_msg("%s", err->text);
}

/* ---- a step: w <- w - 0.1 x' (drop(x) w - sum x), and old <- the w before */

typedef struct step {
    sg_store *store;
    sg_graph *graph;
    sg_session *session;
    sg_plan *plan;
} step;

static void build(step *s)
{
    s->graph = sg_graph_new();
    sg_scope scope = sg_scope_root(s->graph, s->store);
    sg_value x = sg_input(s->graph, "x", SG_F32, SG_SHAPE(ROWS, COLUMNS));
    sg_value w = sg_param(scope, "w", SG_SHAPE(COLUMNS, 2), sg_init_normal(0, 1));
    sg_value old = sg_state(scope, "old", SG_F32, SG_SHAPE(COLUMNS, 2), sg_init_zeros());
    sg_value e = sg_sub(sg_matmul(sg_dropout(scope, x, 0.25), w), sg_sum_axes(x, 1, (int32_t[]){1}, true));
    sg_assign(w, sg_sub(w, sg_mul(sg_scalar(s->graph, 0.1), sg_matmul_tn(x, e))));
    sg_assign(old, w);
    sg_rng_advance(scope);
    sg_result(s->graph, "loss", sg_mean_all(sg_square(e)));
    sg_result(s->graph, "e", e);
}

/* `store` NULL: a new one. */
static step open_step(sg_store *store, const char *backend, sg_session_options options)
{
    step s = {.store = store ? store : sg_store_new(SG_F32)};
    sg_error err = {0};
    build(&s);
    sg_store_initialise(s.store, 3);
    options.size = sizeof options;
    options.backend = backend;
    options.threads = 1;
    good(sg_session_new(&s.session, s.store, &options, &err), &err);
    good(sg_plan_new(&s.plan, s.session, s.graph, &err), &err);
    return s;
}

static void close_step(step *s, bool store_too)
{
    sg_plan_free(s->plan);
    sg_session_free(s->session);
    sg_graph_free(s->graph);
    if (store_too)
        sg_store_free(s->store);
}

static void feed(step *s, int turn)
{
    float *x = sg_plan_input(s->plan, "x");
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)test_uniform(7 + (uint64_t)turn, i);
}

static void run(step *s)
{
    sg_error err = {0};
    good(sg_plan_run(s->plan, &err), &err);
}

static void same_results(step *a, step *b)
{
    assert_memory_equal(sg_plan_result(a->plan, "loss"), sg_plan_result(b->plan, "loss"), sizeof(float));
    assert_memory_equal(sg_plan_result(a->plan, "e"), sg_plan_result(b->plan, "e"), ROWS * 2 * sizeof(float));
}

/* ---- values */

static void test_values(void **state)
{
    (void)state;
    const sg_session_options ways[] = {{0}, {.no_fusion = true}, {.poison = true}, {.audit = true}, {.profile = true}};
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        step a = open_step(NULL, "cuda", ways[way]), b = open_step(NULL, "cpu", ways[way]);
        assert_string_equal(sg_session_describe(a.session), "mirror");
        for (int turn = 0; turn < 5; turn++) {
            feed(&a, turn);
            feed(&b, turn);
            run(&a);
            run(&b);
            same_results(&a, &b);
        }
        same_stores(a.store, b.store);
        close_step(&a, true);
        close_step(&b, true);
    }
}

/* The first run goes launch by launch, the second is recorded, and once. Builds that poison freed memory record nothing. */
static void test_recording(void **state)
{
    (void)state;
#ifdef SG_POISON
    const int recorded = 0;
#else
    const int recorded = 1;
#endif
    step a = open_step(NULL, "cuda", (sg_session_options){0});
    mirror_counts before = *count;
    for (int turn = 0; turn < 4; turn++)
        run(&a);
    assert_int_equal(count->records - before.records, recorded);
    assert_int_equal(count->replays - before.replays, 3 * recorded);
    close_step(&a, true);
}

/* Two chains that meet at the end, beside a loop that moves an entry: three parts wait for nothing (a loop's first state is
 * copied from the entry's home or is there), and any order that the parts allow gives the same values. */
static sg_value squash(sg_graph *graph, sg_value x, sg_value w)
{
    (void)graph;
    for (int i = 0; i < 3; i++)
        x = sg_tanh(sg_matmul(x, w));
    return x;
}

static void move_entry(void *user, sg_graph *graph, const sg_value *state, sg_value *next)
{
    sg_value w = sg_param(sg_scope_in(*(sg_scope *)user, graph), "w", SG_SHAPE(COLUMNS, COLUMNS), sg_init_normal(0, 1));
    next[0] = sg_add(state[0], sg_mean_all(sg_square(w)));
    sg_assign(w, sg_mul(sg_scalar(graph, 0.9), sg_matmul(w, w)));
}

static sg_store *run_branches(const char *backend, double *sum, mirror_counts *spent)
{
    sg_store *store = sg_store_new(SG_F32);
    sg_graph *graph = sg_graph_new();
    sg_scope scope = sg_scope_root(graph, store);
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(ROWS, COLUMNS)), total = sg_scalar(graph, 0);
    sg_value a = sg_param(scope, "a", SG_SHAPE(COLUMNS, COLUMNS), sg_init_normal(0, 1));
    sg_value b = sg_param(scope, "b", SG_SHAPE(COLUMNS, COLUMNS), sg_init_normal(0, 1));
    sg_result(graph, "sum", sg_sum_all(sg_mul(squash(graph, x, a), squash(graph, x, b))));
    sg_repeat(graph, 5, move_entry, &scope, &total, 1, &total, false);
    sg_result(graph, "total", total);
    sg_store_initialise(store, 4);
    sg_session *session;
    sg_plan *plan;
    sg_error err = {0};
    sg_session_options options = {.size = sizeof options, .backend = backend, .threads = 1};
    good(sg_session_new(&session, store, &options, &err), &err);
    good(sg_plan_new(&plan, session, graph, &err), &err);
    mirror_counts before = *count;
    for (int turn = 0; turn < 8; turn++) {
        float *in = sg_plan_input(plan, "x");
        for (int i = 0; i < ROWS * COLUMNS; i++)
            in[i] = (float)test_uniform(9 + (uint64_t)turn, i);
        good(sg_plan_run(plan, &err), &err);
        good(sg_plan_fetch(plan, "sum", &sum[2 * turn], 1, &err), &err);
        good(sg_plan_fetch(plan, "total", &sum[2 * turn + 1], 1, &err), &err);
    }
    spent->parts = count->parts - before.parts;
    spent->starts = count->starts - before.starts;
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    return store;
}

static void test_recorded_order(void **state)
{
    (void)state;
    double a[16], b[16];
    mirror_counts spent;
    sg_store *x = run_branches("cpu", a, &spent), *y = run_branches("cuda", b, &spent);
    assert_memory_equal(a, b, sizeof a);
    same_stores(x, y);
#ifndef SG_POISON
    assert_true(spent.parts > 6 + 5 * 3);
    assert_in_range(spent.starts, 3, 8);
#endif
    sg_store_free(x);
    sg_store_free(y);
}

/* Runs follow each other without waiting: each one's results are read when later ones have begun. */
static void test_posts(void **state)
{
    (void)state;
    enum { AHEAD = 3, TURNS = 10 };
    step a = open_step(NULL, "cuda", (sg_session_options){0}), b = open_step(NULL, "cpu", (sg_session_options){0});
    step *both[] = {&a, &b};
    float loss[2][TURNS];
    sg_error err = {0};
    const void *at;
    assert_int_equal(sg_plan_posted(a.plan, 0, 0, "loss", &at, &err), SG_E_ARGUMENT);
    assert_int_equal(sg_plan_post(a.plan, SG_POSTS, &err), SG_E_ARGUMENT);
    for (int side = 0; side < 2; side++)
        for (int turn = 0; turn < TURNS + AHEAD; turn++) {
            if (turn >= AHEAD) {
                good(sg_plan_posted(both[side]->plan, (turn - AHEAD) % SG_POSTS, 0, "loss", &at, &err), &err);
                loss[side][turn - AHEAD] = *(const float *)at;
            }
            feed(both[side], turn);
            run(both[side]);
            good(sg_plan_post(both[side]->plan, turn % SG_POSTS, &err), &err);
        }
    assert_memory_equal(loss[0], loss[1], sizeof loss[0]);
    assert_int_equal(sg_plan_posted(a.plan, 0, 0, "e", &at, &err), SG_OK);
    assert_int_equal(sg_plan_posted(a.plan, 0, 0, "no such result", &at, &err), SG_E_NAME);
    same_results(&a, &b);
    same_stores(a.store, b.store);
    close_step(&a, true);
    close_step(&b, true);
}

/* ---- replicas: several stores in one session, here and alone */

enum { REPLICAS = 9, REPLICA_TURNS = 6 }; /* so many are two groups of a recording */

static sg_store *store_of(uint64_t seed)
{
    sg_store *store = sg_store_new(SG_F32);
    step s = {.store = store};
    build(&s);
    sg_store_initialise(store, seed);
    sg_rng_seed(store, seed, 0);
    sg_graph_free(s.graph);
    return store;
}

/* The losses of REPLICA_TURNS runs, the stores, which are numbers `first` and on, being changed in between. */
static void run_stores(const char *backend, sg_store **store, int32_t first, int32_t n, sg_session_options options,
                       double *loss)
{
    step s = {.store = store[0]};
    sg_error err = {0};
    build(&s);
    options.size = sizeof options;
    options.backend = backend;
    options.threads = 1;
    options.replicas = n;
    options.more = store + 1;
    good(sg_session_new(&s.session, store[0], &options, &err), &err);
    good(sg_plan_new(&s.plan, s.session, s.graph, &err), &err);
    for (int turn = 0; turn < REPLICA_TURNS; turn++) {
        feed(&s, turn);
        run(&s);
        good(sg_plan_post(s.plan, turn % SG_POSTS, &err), &err);
        for (int32_t r = 0; r < n; r++) {
            const void *at;
            good(sg_plan_posted(s.plan, turn % SG_POSTS, r, "loss", &at, &err), &err);
            loss[r * REPLICA_TURNS + turn] = *(const float *)at;
            double w[COLUMNS * 2];
            if (turn == 3) {
                good(sg_store_get(store[r], "w", w, COLUMNS * 2, &err), &err);
                w[(first + r) % 3] *= 2;
                good(sg_store_set(store[r], "w", w, COLUMNS * 2, &err), &err);
            }
        }
        const void *at;
        assert_int_equal(sg_plan_posted(s.plan, turn % SG_POSTS, n, "loss", &at, &err), SG_E_ARGUMENT);
    }
    close_step(&s, false);
}

static void test_replicas(void **state)
{
    (void)state;
    const sg_session_options ways[] = {{0}, {.no_fusion = true}, {.poison = true}, {.audit = true}, {.profile = true}};
    static const char *const backends[] = {"cuda", "cpu"};
    for (size_t way = 0; way < 2 * sizeof ways / sizeof *ways; way++) {
        const sg_session_options *how = &ways[way / 2];
        sg_store *beside[REPLICAS], *alone[REPLICAS];
        double a[REPLICAS * REPLICA_TURNS], b[REPLICAS * REPLICA_TURNS];
        for (int32_t r = 0; r < REPLICAS; r++) {
            beside[r] = store_of(20 + (uint64_t)r);
            alone[r] = store_of(20 + (uint64_t)r);
        }
        run_stores(backends[way % 2], beside, 0, REPLICAS, *how, a);
        for (int32_t r = 0; r < REPLICAS; r++)
            run_stores("cpu", &alone[r], r, 1, *how, b + r * REPLICA_TURNS);
        assert_memory_equal(a, b, sizeof a);
        for (int32_t r = 0; r < REPLICAS; r++) {
            same_stores(beside[r], alone[r]);
            sg_store_free(beside[r]);
            sg_store_free(alone[r]);
        }
    }
}

static void test_replicas_that_do_not_fit(void **state)
{
    (void)state;
    sg_store *a = store_of(1), *other = sg_store_new(SG_F32), *wide = sg_store_new(SG_F64);
    step s = {.store = a};
    sg_error err = {0};
    build(&s);
    sg_session_options options = {.size = sizeof options, .backend = "cuda", .threads = 1, .replicas = 2};
    assert_int_equal(sg_session_new(&s.session, a, &options, &err), SG_E_ARGUMENT);
    options.more = &wide;
    assert_int_equal(sg_session_new(&s.session, a, &options, &err), SG_E_ARGUMENT);
    options.replicas = -1;
    assert_int_equal(sg_session_new(&s.session, a, &options, &err), SG_E_ARGUMENT);
    options.replicas = 2;
    options.more = &a;
    assert_int_equal(sg_session_new(&s.session, a, &options, &err), SG_E_ARGUMENT);
    assert_string_equal(err.text, "replicas 0 and 1 are one store");
    options.more = &other;
    good(sg_session_new(&s.session, a, &options, &err), &err);
    assert_int_equal(sg_plan_new(&s.plan, s.session, s.graph, &err), SG_E_ARGUMENT);
    assert_non_null(strstr(err.text, "differ in entry"));
    close_step(&s, true);
    sg_store_free(other);
    sg_store_free(wide);
}

/* What is not written again stays, although inputs have two copies in turn. */
static void test_inputs_stay(void **state)
{
    (void)state;
    step a = open_step(NULL, "cuda", (sg_session_options){0}), b = open_step(NULL, "cpu", (sg_session_options){0});
    step *both[] = {&a, &b};
    for (int side = 0; side < 2; side++) {
        feed(both[side], 0);
        for (int turn = 0; turn < 6; turn++) {
            if (turn != 3)
                ((float *)sg_plan_input(both[side]->plan, "x"))[turn] = (float)turn;
            run(both[side]);
        }
    }
    same_results(&a, &b);
    same_stores(a.store, b.store);
    close_step(&a, true);
    close_step(&b, true);
}

/* ---- what travels */

static void test_steady_state(void **state)
{
    (void)state;
    step a = open_step(NULL, "cuda", (sg_session_options){0});
    feed(&a, 0);
    run(&a);
    mirror_counts before = *count;
    for (int turn = 0; turn < 10; turn++)
        run(&a);
    assert_int_equal(count->uploads, before.uploads);
    assert_int_equal(count->downloads, before.downloads);
    assert_int_equal(count->waits, before.waits);
    for (int turn = 0; turn < 10; turn++) {
        feed(&a, turn);
        run(&a);
        assert_non_null(sg_plan_result(a.plan, "loss"));
        assert_non_null(sg_plan_result(a.plan, "loss"));
    }
    assert_int_equal(count->uploads - before.uploads, 10);
    assert_int_equal(count->downloads - before.downloads, 10);
    assert_int_equal(count->waits - before.waits, 10);
    close_step(&a, true);
}

static void test_store_travels_when_asked(void **state)
{
    (void)state;
    step a = open_step(NULL, "cuda", (sg_session_options){0}), b = open_step(NULL, "cpu", (sg_session_options){0});
    double w[COLUMNS * 2], same[COLUMNS * 2], zeros[COLUMNS * 2] = {0};
    feed(&a, 0);
    feed(&b, 0);
    run(&a);
    run(&b);
    mirror_counts before = *count;
    for (int k = 0; k < 3; k++) {
        assert_int_equal(sg_store_get(a.store, "w", w, COLUMNS * 2, NULL), SG_OK);
        assert_int_equal(sg_store_get(b.store, "w", same, COLUMNS * 2, NULL), SG_OK);
        assert_memory_equal(w, same, sizeof w);
    }
    assert_int_equal(count->downloads - before.downloads, 1);
    run(&a);
    run(&b);
    assert_int_equal(count->uploads, before.uploads); /* reading changes nothing */
    sg_store_set(a.store, "w", zeros, COLUMNS * 2, NULL);
    sg_store_set(b.store, "w", zeros, COLUMNS * 2, NULL);
    run(&a);
    run(&b);
    assert_int_equal(count->uploads - before.uploads, 1);
    assert_int_equal(count->downloads - before.downloads, 1); /* what is overwritten is not fetched */
    same_results(&a, &b);
    ((float *)sg_store_at(a.store, sg_store_find(a.store, "w"))->data)[1] = 2;
    ((float *)sg_store_at(b.store, sg_store_find(b.store, "w"))->data)[1] = 2;
    run(&a);
    run(&b);
    same_results(&a, &b);
    same_stores(a.store, b.store);
    close_step(&a, true);
    close_step(&b, true);
}

/* A copy of the store follows it with one wait for all values; they stay on the device, and later runs do not reach the copy. */
static void test_copy_follows_store(void **state)
{
    (void)state;
    step a = open_step(NULL, "cuda", (sg_session_options){0}), b = open_step(NULL, "cpu", (sg_session_options){0});
    step *both[] = {&a, &b};
    sg_shadow copy = {0};
    sg_error err = {0};
    for (int turn = 0; turn < 3; turn++) {
        for (int side = 0; side < 2; side++) {
            feed(both[side], turn);
            run(both[side]);
        }
        mirror_counts before = *count;
        good(sg_shadow_refresh(&copy, a.session, 0, &err), &err);
        good(sg_session_wait(a.session, &err), &err);
        if (turn > 0)
            assert_int_equal(count->waits - before.waits, 1);
        same_stores(copy.store, b.store);
        sg_store *then = sg_store_copy(copy.store, SG_F32);
        before = *count;
        for (int side = 0; side < 2; side++)
            run(both[side]);
        good(sg_session_wait(a.session, &err), &err);
        same_stores(copy.store, then);
        assert_int_equal(count->uploads, before.uploads);
        sg_store_free(then);
    }
    sg_shadow_release(&copy, a.session);
    same_stores(a.store, b.store);
    close_step(&a, true);
    close_step(&b, true);
}

/* Sessions on one store take turns: each sees what the other has done. */
static void test_shared_store(void **state)
{
    (void)state;
    step a = open_step(NULL, "cuda", (sg_session_options){0});
    step b = open_step(a.store, "cpu", (sg_session_options){0}),
         c = open_step(a.store, "cuda", (sg_session_options){0});
    step alone = open_step(NULL, "cpu", (sg_session_options){0});
    step *turns[] = {&a, &b, &c, &a, &c, &c, &b, &b, &a};
    for (size_t turn = 0; turn < sizeof turns / sizeof *turns; turn++) {
        feed(turns[turn], (int)turn);
        feed(&alone, (int)turn);
        run(turns[turn]);
        run(&alone);
        same_results(turns[turn], &alone);
    }
    close_step(&c, false);
    close_step(&b, false);
    sg_store *store = a.store;
    close_step(&a, false); /* the last value is brought home */
    same_stores(store, alone.store);
    sg_store_free(store);
    close_step(&alone, true);
}

/* ---- failures */

static void test_out_of_memory(void **state)
{
    (void)state;
    step a = open_step(NULL, "cuda", (sg_session_options){0});
    sg_plan *plan;
    sg_error err = {0};
    count->limit = 1;
    assert_int_equal(sg_plan_new(&plan, a.session, a.graph, &err), SG_E_MEMORY);
    count->limit = 0;
    assert_non_null(strstr(err.text, "the plan needs"));
    assert_non_null(strstr(err.text, "MiB are free"));
    run(&a);
    close_step(&a, true);
}

/* Everything a plan does, up to the first failure; nothing is left behind. */
static sg_status whole_life(sg_error *err)
{
    sg_store *store = sg_store_new(SG_F32), *other = store_of(4);
    step s = {.store = store};
    double w[COLUMNS * 2];
    sg_session_options options = {
        .size = sizeof options, .backend = "cuda", .threads = 1, .replicas = 2, .more = &other};
    build(&s);
    sg_store_initialise(s.store, 3);
    sg_status status = sg_session_new(&s.session, s.store, &options, err);
    if (status == SG_OK)
        status = sg_plan_new(&s.plan, s.session, s.graph, err);
    for (int turn = 0; turn < 4 && status == SG_OK; turn++) {
        feed(&s, turn);
        status = sg_plan_run(s.plan, err);
        if (status == SG_OK)
            status = sg_plan_post(s.plan, turn, err);
        if (status == SG_OK)
            status = sg_store_get(s.store, "w", w, COLUMNS * 2, err);
    }
    sg_plan_free(s.plan);
    sg_session_free(s.session);
    sg_graph_free(s.graph);
    sg_store_free(store);
    sg_store_free(other);
    return status;
}

/* Each allocation on the way fails once, of the device's memory, of page-locked memory, of marks and recordings. */
static void test_failing_allocations(void **state)
{
    (void)state;
    int64_t failed = 0;
    for (bool again = true; again;) {
        sg_error err = {0};
        count->allocations = 0;
        count->fail_at = failed + 1;
        sg_status status = whole_life(&err);
        again = count->allocations >= count->fail_at;
        assert_int_equal(status, again ? SG_E_MEMORY : SG_OK);
        if (again && !strstr(err.text, "out of memory"))
            fail_msg("allocation %lld: \"%s\"", (long long)failed, err.text);
        failed += again;
    }
    count->fail_at = 0;
    print_message("%lld allocations\n", (long long)failed);
    assert_in_range(failed, 10, 100);
}

static void test_no_such_device(void **state)
{
    (void)state;
    sg_store *store = sg_store_new(SG_F32);
    sg_session *session;
    sg_error err = {0};
    sg_session_options options = {.size = sizeof options, .backend = "cuda:5"};
    assert_int_equal(sg_session_new(&session, store, &options, &err), SG_E_DEVICE);
    assert_non_null(strstr(err.text, "no device cuda:5"));
    sg_store_free(store);
}

int main(void)
{
    if (!(count = mirror_open()))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_recording),
        cmocka_unit_test(test_recorded_order),
        cmocka_unit_test(test_posts),
        cmocka_unit_test(test_inputs_stay),
        cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_replicas_that_do_not_fit),
        cmocka_unit_test(test_steady_state),
        cmocka_unit_test(test_store_travels_when_asked),
        cmocka_unit_test(test_copy_follows_store),
        cmocka_unit_test(test_shared_store),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_no_such_device),
    };
    int failed = cmocka_run_group_tests_name("at once", tests, NULL, NULL);
    count->late = true;
    return failed + cmocka_run_group_tests_name("late", tests, NULL, NULL);
}
