/* Every allocation on a GPU fails once: memory of the device, page-locked memory, marks, recordings, and memory of the host while a
 * plan is made and run. Each time there is one clear error, nothing is left behind, and the session goes on to give the results
 * that it would have given. The device is behind tests/failing; where there is no GPU, tests/mirror takes its place. */
#include <dlfcn.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "models/models.h"
#include "ops/ops.h"
#include "runtime/runtime.h"
#include "tests/failing/failing_backend.h"

enum { BATCH = 3, WORDS = 6, VOCABULARY = 11, WIDTH = 16, HEADS = 2, RUNS = 4, ENTRIES = 16, VALUES = 4096 };

static failing_counts *count;

/* ---- a training step: embedding, normalisation, attention with dropout, a product, a loop, cross-entropy and Adam */

typedef struct net {
    sg_store *store;
    sg_graph *graph;
    double first[VALUES]; /* what the store has at first, entry by entry */
} net;

static void values(const net *n, double *to, const double *from)
{
    sg_error err = {0};
    for (int32_t e = 0; e < sg_store_count(n->store); e++) {
        const sg_entry *entry = sg_store_peek(n->store, e);
        int64_t size = sg_shape_count(&entry->shape);
        sg_status status = to ? sg_store_get(n->store, entry->name, to, size, &err)
                              : sg_store_set(n->store, entry->name, from, size, &err);
        if (status != SG_OK)
            fail_msg("%s", err.text);
        to = to ? to + size : NULL;
        from = from ? from + size : NULL;
    }
}

static void halve(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)user, (void)body;
    next[0] = sg_mul_scalar(state[0], 0.5);
}

static sg_value heads_of(sg_scope scope, sg_value h, const char *name)
{
    sg_value w = sg_param(scope, name, SG_SHAPE(WIDTH, WIDTH), sg_init_normal(0, 0.3));
    return sg_reshape(sg_matmul(h, w), SG_SHAPE(BATCH, WORDS, HEADS, WIDTH / HEADS));
}

static net *build(void)
{
    net *made = calloc(1, sizeof *made), n = {.store = sg_store_new(SG_F32), .graph = sg_graph_new()};
    assert_non_null(made);
    sg_scope root = sg_scope_root(n.graph, n.store), scope = sg_scope_sub(root, "net");
    sg_value ids = sg_input(n.graph, "ids", SG_I32, SG_SHAPE(BATCH, WORDS)), p[ENTRIES], g[ENTRIES], out;
    sg_value table = sg_param(scope, "table", SG_SHAPE(VOCABULARY, WIDTH), sg_init_normal(0, 1));
    sg_value ones = sg_param(scope, "gamma", SG_SHAPE(WIDTH), sg_init_constant(1));
    sg_value h = sg_layer_norm(sg_gather(table, ids), ones, SG_NONE, 1e-5);
    sg_attention_options o = {.heads_inner = true, .dropout = 0.1, .scope = root};
    h = sg_attention(heads_of(scope, h, "q"), heads_of(scope, h, "k"), heads_of(scope, h, "v"), &o);
    h = sg_gelu(sg_reshape(h, SG_SHAPE(BATCH * WORDS, WIDTH)));
    sg_value u = sg_param(scope, "u", SG_SHAPE(WIDTH, VOCABULARY), sg_init_normal(0, 0.3));
    sg_value loss = sg_mean_all(sg_softmax_cross_entropy(sg_matmul(h, u), sg_reshape(ids, SG_SHAPE(-1))));
    int32_t n_p = sg_params(scope, p, ENTRIES);
    sg_grad(loss, p, n_p, g);
    sg_repeat(n.graph, 2, halve, NULL, &loss, 1, &out, false);
    sg_adam_options adam = sg_adam_defaults(0.01);
    sg_adam_step(sg_scope_sub(root, "adam"), p, g, n_p, sg_scalar(n.graph, 0.01), &adam);
    sg_rng_advance(root);
    sg_result(n.graph, "loss", loss);
    sg_result(n.graph, "quarter", out);
    sg_store_initialise(n.store, 3);
    *made = n;
    values(made, made->first, NULL);
    return made;
}

/* A plan from its making on, launched, recorded and replayed. */
static sg_status try_plan(const net *n, sg_session *session, double results[2 * RUNS], sg_error *err)
{
    sg_plan *plan;
    double ids[BATCH * WORDS];
    sg_status status = sg_plan_new(&plan, session, n->graph, err);
    for (int run = 0; run < RUNS && status == SG_OK; run++) {
        for (int i = 0; i < BATCH * WORDS; i++)
            ids[i] = (i * 7 + run) % VOCABULARY;
        status = sg_plan_feed(plan, "ids", ids, BATCH * WORDS, err);
        if (status == SG_OK)
            status = sg_plan_run(plan, err);
        if (status == SG_OK)
            status = sg_plan_fetch(plan, "loss", &results[2 * run], 1, err);
        if (status == SG_OK)
            status = sg_plan_fetch(plan, "quarter", &results[2 * run + 1], 1, err);
    }
    sg_plan_free(plan);
    return status;
}

static sg_status open_session(const net *n, sg_session **session, sg_error *err)
{
    sg_session_options options = {.size = sizeof options, .backend = "cuda", .threads = 1};
    return sg_session_new(session, n->store, &options, err);
}

/* The store starts anew, so results are the same each time. */
static void must_work(const net *n, sg_session *session, double results[2 * RUNS])
{
    sg_error err = {0};
    values(n, NULL, n->first);
    if (try_plan(n, session, results, &err) != SG_OK)
        fail_msg("%s", err.text);
}

static void must_say_so(sg_status status, const sg_error *err, int64_t which)
{
    if (status != SG_E_MEMORY || !strstr(err->text, "out of memory") || strchr(err->text, '\n'))
        fail_msg("allocation %lld: status %d, \"%s\"", (long long)which, (int)status, err->text);
}

static void close_net(net *n)
{
    sg_graph_free(n->graph);
    sg_store_free(n->store);
    free(n);
}

/* ---- of the device */

static void memory_of_the_device(void **state)
{
    (void)state;
    double want[2 * RUNS] = {0}, got[2 * RUNS];
    int64_t failed = 0;
    for (bool again = true; again; failed++) {
        net *n = build();
        sg_session *session = NULL;
        sg_error err = {0};
        count->allocations = 0;
        count->fail_at = failed;
        sg_status status = open_session(n, &session, &err);
        if (status == SG_OK)
            status = try_plan(n, session, failed ? got : want, &err);
        again = failed == 0 || count->allocations >= failed;
        if (failed && again)
            must_say_so(status, &err, failed);
        else if (status != SG_OK)
            fail_msg("%s", err.text);
        count->fail_at = 0;
        if (session)
            must_work(n, session, got);
        sg_session_free(session);
        close_net(n);
        assert_int_equal(count->live, 0);
        if (session)
            assert_memory_equal(got, want, sizeof want);
    }
    print_message("%lld allocations of the device\n", (long long)failed - 2);
    assert_in_range(failed, 10, 100);
}

/* ---- of the host */

static int64_t calls, fail_at, live;

static void *allocate(void *user, size_t bytes)
{
    (void)user;
    void *block = ++calls == fail_at ? NULL : malloc(bytes);
    live += block != NULL;
    return block;
}

static void *resize(void *user, void *old, size_t bytes)
{
    (void)user;
    void *block = ++calls == fail_at ? NULL : realloc(old, bytes);
    live += !old && block;
    return block;
}

static void release(void *user, void *old)
{
    (void)user;
    live -= old != NULL;
    free(old);
}

/* The next to fail. On a GPU, where a trial takes its time, of some thousand each of the first and each of the last, when the plan
 * is recorded and run, and some between. */
enum { EACH = 200, ABOUT = 500, WARM = 20 };
/* What the device keeps to name failing nodes by grows now and then, and may fail to: then a trial ends as if nothing had been. */
enum { MOST_SPARED = 3 };
static bool each_one;
static int64_t next_of(int64_t last, int64_t all)
{
    if (each_one)
        return last + 1;
    return last < EACH || last > all - EACH ? last + 1 : last + 1 + (all - 2 * EACH) / ABOUT;
}

static void memory_of_the_host(void **state)
{
    (void)state;
    double want[2 * RUNS], got[2 * RUNS];
    sg_error err = {0};
    sg_session *session;
    sg_allocator_set(&(sg_allocator){allocate, resize, release, NULL});
    net *n = build();
    fail_at = 0;
    assert_int_equal(open_session(n, &session, &err), SG_OK);
    for (int i = 0; i < WARM; i++) { /* what the process and the session keep, such as compiled chains, is there */
        calls = 0;
        must_work(n, session, want);
    }
    const int64_t all = calls, before = live, device = count->live;
    int64_t tried = 0, spared = 0;
    for (int64_t k = 1; k <= all; k = next_of(k, all), tried++) {
        values(n, NULL, n->first);
        calls = 0;
        fail_at = k;
        sg_status status = try_plan(n, session, got, &err);
        fail_at = 0;
        if (status == SG_OK && spared++ < MOST_SPARED)
            assert_memory_equal(got, want, sizeof want);
        else
            must_say_so(status, &err, k);
        if (live != before || count->live != device)
            fail_msg("allocation %lld: %lld blocks are left behind, %lld of the device", (long long)k,
                     (long long)(live - before), (long long)(count->live - device));
        if (k % 50 == 1) {
            must_work(n, session, got);
            assert_memory_equal(got, want, sizeof want);
        }
    }
    print_message("%lld of %lld allocations of the host, %lld without effect\n", (long long)tried, (long long)all,
                  (long long)spared);
    assert_true(tried > 100);
    sg_session_free(session);
    close_net(n);
    assert_int_equal(count->live, 0);
    sg_allocator_set(&(sg_allocator){0});
}

/* ---- the device */

/* The module that fails is beside this program, in failing/. */
static void path_beside(char *out, size_t size, const char *name)
{
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = 0;
    char *slash = strrchr(program, '/');
    snprintf(out, size, "%.*s/%s", slash ? (int)(slash - program) : 0, program, name);
}

int main(int argc, char **argv)
{
    char path[PATH_MAX + 64], text[512] = "";
    const char *real = getenv("SEALGRAPH_MODULE_PATH");
    bool mirror = each_one = argc > 1 && strcmp(argv[1], "--mirror") == 0;
    path_beside(path, sizeof path, "mirror");
    setenv("SG_MODULE_BEHIND", mirror ? path : real ? real : SG_BINARY_DIR, 1);
    path_beside(path, sizeof path, "failing");
    setenv("SEALGRAPH_MODULE_PATH", path, 1);
    net *n = build();
    sg_session *session;
    sg_error err = {0};
    if (open_session(n, &session, &err) != SG_OK) {
        printf("skipped: %s\n", err.text);
        close_net(n);
        return 77;
    }
    snprintf(text, sizeof text, "%s", sg_session_describe(session));
    sg_session_free(session);
    close_net(n);
    printf("on %s\n", text);
    strcat(path, "/sealgraph-cuda.so");
    void *module = dlopen(path, RTLD_NOW);
    count = module ? dlsym(module, "failing_count") : NULL;
    if (!count)
        return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_of_the_device), cmocka_unit_test(memory_of_the_host)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
