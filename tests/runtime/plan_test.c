/* Sessions and plans as their users see them: errors, names, rebinding, steady state, profile and audit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "ops/ops.h"
#include "tests/support/graph_run.h"
#include "tests/support/inplace_backend.h"

static sg_graph *new_graph(sg_store *store, sg_scope *scope)
{
    sg_graph *graph = sg_graph_new();
    *scope = sg_scope_root(graph, store);
    return graph;
}

/* y = tanh(x W) for a batch of named size */
static sg_graph *small_model(sg_store *store, int64_t batch)
{
    sg_scope scope;
    sg_graph *graph = new_graph(store, &scope);
    sg_value x = sg_input(graph, "x", SG_F32, sg_shape_named(SG_SHAPE(batch, 3), 0, "batch"));
    sg_value w = sg_param(scope, "W", SG_SHAPE(3, 2), sg_init_constant(0.5));
    sg_value y = sg_named(sg_tanh(sg_matmul(x, w)), "hidden");
    sg_result(graph, "y", y);
    sg_result(graph, "mean", sg_mean_all(y));
    sg_assign(w, sg_mul_scalar(w, 0.5));
    return graph;
}

/* -------------------------------------------------------------------------------------------------------- sessions */

static void test_session_errors(void **state)
{
    (void)state;
    sg_store *single = sg_store_new(SG_F32);
    sg_session *s;
    sg_error err;
    sg_session_options o = {.size = sizeof o, .backend = "cuda:1"};
    setenv("SEALGRAPH_MODULE_PATH", "/nowhere", 1);
    assert_int_equal(sg_session_new(&s, single, &o, &err), SG_E_DEVICE);
    assert_non_null(strstr(err.text, "no module for cuda"));
    assert_non_null(strstr(err.text, "plain `make` builds it where nvcc and cuDNN are found"));
    unsetenv("SEALGRAPH_MODULE_PATH");
    o.backend = "tpu";
    assert_int_equal(sg_session_new(&s, single, &o, &err), SG_E_ARGUMENT);
    assert_non_null(strstr(err.text, "unknown backend 'tpu' (there are cpu, reference, cuda and cuda:N)"));
    const char *isa = getenv("SEALGRAPH_ISA");
    char *before = isa ? strdup(isa) : NULL;
    setenv("SEALGRAPH_ISA", "sse9", 1);
    o.backend = "cpu";
    assert_int_equal(sg_session_new(&s, single, &o, &err), SG_E_CONFIG);
    assert_non_null(strstr(err.text, "SEALGRAPH_ISA must be one of x86-64|avx2|avx512, not 'sse9'"));
    if (before)
        setenv("SEALGRAPH_ISA", before, 1);
    else
        unsetenv("SEALGRAPH_ISA");
    free(before);
    o.backend = "cpu:1";
    assert_int_equal(sg_session_new(&s, single, &o, &err), SG_E_ARGUMENT);
    o.backend = "reference";
    assert_int_equal(sg_session_new(&s, single, &o, &err), SG_E_ARGUMENT);
    assert_non_null(strstr(err.text, "f64"));
    o.threads = -1;
    assert_int_equal(sg_session_new(&s, single, &o, &err), SG_E_ARGUMENT);
    assert_int_equal(sg_session_new(&s, NULL, &o, &err), SG_E_ARGUMENT);
    assert_null(s);
    sg_store_free(single);
}

/* ----------------------------------------------------------------------------------------------------------- plans */

/* Numbers fed to integers and booleans are converted as `cast` does, on every backend; so are those set in the store. */
static void test_numbers_as_declared(void **state)
{
    (void)state;
    static const double given[6] = {1e30, -1e30, NAN, -2.7, 1.5, 2147483647.0};
    static const double whole[6] = {2147483647.0, -2147483648.0, 0, -2, 1, 2147483647.0}, truth[6] = {1, 1, 1, 1, 1, 1};
    for (int reference = 0; reference < 2; reference++) {
        sg_store *store = sg_store_new(reference ? SG_F64 : SG_F32);
        sg_graph *graph = sg_graph_new();
        sg_value i = sg_input(graph, "i", SG_I32, SG_SHAPE(6)), b = sg_input(graph, "b", SG_BOOL, SG_SHAPE(6));
        sg_value entry = sg_state(sg_scope_root(graph, store), "n", SG_I32, SG_SHAPE(6), sg_init_zeros());
        sg_result(graph, "equal", sg_cast(sg_equal(i, entry), SG_F32));
        sg_result(graph, "b", sg_cast(b, SG_F32));
        sg_value whole_numbers = sg_constant(graph, SG_I32, SG_SHAPE(6), given, 6);
        sg_result(graph, "constant", sg_cast(sg_equal(i, whole_numbers), SG_F32));
        sg_result(graph, "padded", sg_slice(sg_pad_with(i, 0, 1, 0, 1e300), 0, 0, 1));
        sg_session *s = NULL;
        sg_session_options o = {.size = sizeof o, .backend = reference ? "reference" : "cpu", .threads = 1};
        double got[6];
        assert_int_equal(sg_session_new(&s, store, &o, NULL), SG_OK);
        sg_plan *plan = compile_plan(s, graph, false);
        assert_int_equal(sg_store_set(store, "n", given, 6, NULL), SG_OK);
        assert_int_equal(sg_store_get(store, "n", got, 6, NULL), SG_OK);
        assert_memory_equal(got, whole, sizeof got);
        assert_int_equal(sg_plan_feed(plan, "i", given, 6, NULL), SG_OK);
        assert_int_equal(sg_plan_feed(plan, "b", given, 6, NULL), SG_OK);
        run_plan(plan);
        assert_int_equal(sg_plan_fetch(plan, "equal", got, 6, NULL), SG_OK);
        assert_memory_equal(got, truth, sizeof got);
        assert_int_equal(sg_plan_fetch(plan, "b", got, 6, NULL), SG_OK);
        assert_memory_equal(got, truth, sizeof got);
        assert_int_equal(sg_plan_fetch(plan, "constant", got, 6, NULL), SG_OK);
        assert_memory_equal(got, truth, sizeof got);
        assert_int_equal(sg_plan_fetch(plan, "padded", got, 1, NULL), SG_OK);
        assert_true(got[0] == 2147483647.0);
        sg_plan_free(plan);
        sg_session_free(s);
        sg_graph_free(graph);
        sg_store_free(store);
    }
}

static void test_ports(void **state)
{
    (void)state;
    sg_store *store = sg_store_new(SG_F64);
    sg_graph *graph = small_model(store, 2);
    sg_value unused = sg_input(graph, "unused", SG_I32, SG_SHAPE(5));
    sg_value indirect = sg_input(graph, "shape", SG_F32, SG_SHAPE(4));
    sg_result(graph, "ones", sg_ones_like(indirect));
    (void)unused;
    sg_store_initialise(store, 1);
    sg_session *s = reference_session(store, NULL);
    sg_plan *plan = compile_plan(s, graph, false);
    sg_error err;
    assert_non_null(sg_plan_input(plan, "unused")); /* fed as ever although nothing reads it */
    assert_non_null(sg_plan_input(plan, "shape"));
    assert_null(sg_plan_input(plan, "nothing"));
    assert_null(sg_plan_result(plan, "x"));
    assert_int_equal(sg_plan_result_shape(plan, "y")->dim[1], 2);
    assert_int_equal(sg_plan_input_shape(plan, "x")->dim[1], 3);
    double six[6] = {1, 2, 3, 4, 5, 6};
    assert_int_equal(sg_plan_feed(plan, "x", six, 5, &err), SG_E_SHAPE);
    assert_non_null(strstr(err.text, "[2, 3]"));
    assert_int_equal(sg_plan_feed(plan, "z", six, 6, &err), SG_E_NAME);
    assert_int_equal(sg_plan_fetch(plan, "z", six, 6, &err), SG_E_NAME);
    assert_int_equal(sg_plan_feed(plan, "x", six, 6, &err), SG_OK);
    run_plan(plan);
    double first[4], second[4];
    sg_plan_fetch(plan, "y", first, 4, NULL);
    sg_store_initialise(store, 1);
    assert_int_equal(sg_store_set(store, "W", (double[]){.5, .5, .5, .5, .5, .5}, 6, NULL), SG_OK);
    run_plan(plan); /* the input is still there */
    sg_plan_fetch(plan, "y", second, 4, NULL);
    assert_memory_equal(first, second, sizeof first);
    sg_plan_free(plan);
    sg_session_free(s);
    sg_graph_free(graph);
    sg_store_free(store);
}

static void test_uninitialised_entry(void **state)
{
    (void)state;
    sg_store *store = sg_store_new(SG_F64);
    sg_graph *graph = small_model(store, 2);
    sg_session *s = reference_session(store, NULL);
    sg_plan *plan = compile_plan(s, graph, false);
    sg_error err;
    assert_int_equal(sg_plan_run(plan, &err), SG_E_ARGUMENT);
    assert_non_null(strstr(err.text, "'W'"));
    sg_plan_free(plan);
    sg_session_free(s);
    sg_graph_free(graph);
    sg_store_free(store);
}

/* A graph with an error does not compile, and says what its builder said. */
static void test_sticky_error(void **state)
{
    (void)state;
    sg_store *store = sg_store_new(SG_F64);
    sg_scope scope;
    sg_graph *graph = new_graph(store, &scope);
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(2, 3));
    sg_result(graph, "y", sg_matmul(x, x));
    sg_session *s = reference_session(store, NULL);
    sg_plan *plan;
    sg_error err;
    assert_int_equal(sg_plan_new(&plan, s, graph, &err), SG_E_SHAPE);
    assert_null(plan);
    assert_string_equal(err.op, "matmul");
    assert_non_null(strstr(err.file, "plan_test.c"));
    sg_session_free(s);
    sg_graph_free(graph);
    sg_store_free(store);
}

/* All nodes without a kernel stand in one error, those of loop bodies too. */
static void body_with_tanh(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)user, (void)body;
    next[0] = sg_named(sg_tanh(state[0]), "inside");
}

static void test_missing_kernels(void **state)
{
    (void)state;
    sg_store *store = sg_store_new(SG_F64);
    sg_scope scope;
    sg_graph *graph = new_graph(store, &scope);
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(2)), y;
    sg_repeat(graph, 2, body_with_tanh, NULL, &x, 1, &y, false);
    sg_result(graph, "y", sg_named(sg_tanh(sg_exp(y)), "outside"));
    inplace_backend_lacks = "tanh";
    sg_session *s = inplace_session(store, NULL);
    sg_plan *plan;
    sg_error err;
    assert_int_equal(sg_plan_new(&plan, s, graph, &err), SG_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "2 nodes"));
    assert_non_null(strstr(err.text, "inside (tanh)"));
    assert_non_null(strstr(err.text, "outside (tanh)"));
    inplace_backend_lacks = NULL;
    sg_session_free(s);
    sg_graph_free(graph);
    sg_store_free(store);
}

/* No device computes with f16, but inputs and results may have it: two bytes an element, rounded to even. */
static void test_half_precision_ports(void **state)
{
    (void)state;
    static const double given[10] = {0,     -0.0,  1 + 0x1p-11, 1 + 3 * 0x1p-11, -1.5,
                                     65519, 65520, 0x1p-25,     3 * 0x1p-25,     1e-5};
    static const double held[10] = {0, -0.0, 1, 1 + 0x1p-9, -1.5, 65504, INFINITY, 0, 0x1p-23, 168 * 0x1p-24};
    sg_store *store = sg_store_new(SG_F32);
    sg_graph *graph = sg_graph_new();
    sg_result(graph, "y", sg_input(graph, "x", SG_F16, SG_SHAPE(10)));
    sg_session *s = NULL;
    sg_session_options o = {.size = sizeof o, .backend = "cpu", .threads = 1};
    double got[10];
    assert_int_equal(sg_session_new(&s, store, &o, NULL), SG_OK);
    sg_plan *plan = compile_plan(s, graph, false);
    assert_int_equal(sg_plan_feed(plan, "x", given, 10, NULL), SG_OK);
    run_plan(plan);
    assert_int_equal(sg_plan_fetch(plan, "y", got, 10, NULL), SG_OK);
    assert_memory_equal(got, held, sizeof got);
    sg_plan_free(plan);
    sg_session_free(s);
    sg_graph_free(graph);
    sg_store_free(store);
}

/* What a device cannot store is told as a missing kernel too: casts to bf16 are no way out where there is no bf16. */
static void test_foreign_dtypes(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        sg_store *store = sg_store_new(SG_F32);
        sg_graph *graph = sg_graph_new();
        sg_value x = sg_input(graph, "x", k ? SG_F32 : SG_BF16, SG_SHAPE(4));
        sg_result(graph, "y", sg_named(k ? sg_cast(x, SG_BF16) : sg_tanh(x), "foreign"));
        sg_session *s = NULL;
        sg_session_options o = {.size = sizeof o, .backend = "cpu", .threads = 1};
        sg_plan *plan;
        sg_error err;
        assert_int_equal(sg_session_new(&s, store, &o, NULL), SG_OK);
        assert_int_equal(sg_plan_new(&plan, s, graph, &err), SG_E_UNSUPPORTED);
        assert_non_null(strstr(err.text, k ? "foreign (cast)" : "foreign (tanh)"));
        sg_session_free(s);
        sg_graph_free(graph);
        sg_store_free(store);
    }
}

/* A failure that depends on values names the node and the place in the source, on every backend. */
static void test_index_out_of_range(void **state)
{
    (void)state;
    for (int32_t cpu = 0; cpu < 2; cpu++) {
        sg_store *store = sg_store_new(cpu ? SG_F32 : SG_F64);
        sg_graph *graph = sg_graph_new();
        sg_value table = sg_input(graph, "table", SG_F32, SG_SHAPE(4, 2)),
                 rows = sg_input(graph, "rows", SG_I32, SG_SHAPE(3));
        sg_result(graph, "y", sg_named(sg_gather(table, rows), "lookup"));
        sg_session *s;
        sg_error err;
        sg_session_options o = {.size = sizeof o, .backend = cpu ? "cpu" : "reference", .threads = 1};
        assert_int_equal(sg_session_new(&s, store, &o, &err), SG_OK);
        sg_plan *plan = compile_plan(s, graph, false);
        sg_plan_feed(plan, "rows", (double[]){0, 3, 1}, 3, NULL);
        assert_int_equal(sg_plan_run(plan, &err), SG_OK);
        sg_plan_feed(plan, "rows", (double[]){0, 4, 1}, 3, NULL);
        assert_int_equal(sg_plan_run(plan, &err), SG_E_DATA);
        assert_string_equal(err.node, "lookup");
        assert_non_null(strstr(err.text, "index 4 at position 1"));
        assert_non_null(strstr(err.file, "plan_test.c"));
        sg_plan_free(plan);
        sg_session_free(s);
        sg_graph_free(graph);
        sg_store_free(store);
    }
}

/* A composite without a kernel is decomposed, with the same values. */
static void test_decomposition(void **state)
{
    (void)state;
    double got[2][6];
    for (int32_t lacks = 0; lacks < 2; lacks++) {
        sg_store *store = sg_store_new(SG_F64);
        sg_scope scope;
        sg_graph *graph = new_graph(store, &scope);
        sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(2, 3));
        sg_result(graph, "y", sg_log_softmax(x, -1));
        inplace_backend_lacks = lacks ? "log_softmax" : NULL;
        sg_session *s = inplace_session(store, NULL);
        sg_plan *plan = compile_plan(s, graph, false);
        sg_plan_feed(plan, "x", (double[]){1, 2, 3, -1, 0, 700}, 6, NULL);
        run_plan(plan);
        sg_plan_fetch(plan, "y", got[lacks], 6, NULL);
        sg_plan_free(plan);
        sg_session_free(s);
        sg_graph_free(graph);
        sg_store_free(store);
    }
    inplace_backend_lacks = NULL;
    for (int32_t i = 0; i < 6; i++)
        assert_true(got[0][i] - got[1][i] < 1e-12 && got[1][i] - got[0][i] < 1e-12);
}

/* Two sizes of one graph over one store and one arena, used in turn. */
static void test_rebind(void **state)
{
    (void)state;
    sg_store *store = sg_store_new(SG_F64);
    sg_graph *graph = small_model(store, 2);
    sg_store_initialise(store, 1);
    sg_session *s = inplace_session(store, &(sg_session_options){.size = sizeof(sg_session_options), .poison = true});
    sg_plan *small = compile_plan(s, graph, false);
    sg_error err;
    assert_int_equal(sg_graph_bind(graph, &(sg_binding){"batch", 64}, 1, &err), SG_OK);
    sg_plan *large = compile_plan(s, graph, false);
    sg_graph_free(graph); /* plans do not need it */
    double x[192], y[128], w[6];
    for (int32_t i = 0; i < 192; i++)
        x[i] = 0.01 * (i % 6);
    sg_plan_feed(small, "x", x, 6, NULL);
    sg_plan_feed(large, "x", x, 192, NULL);
    run_plan(small);
    double first[4];
    sg_plan_fetch(small, "y", first, 4, NULL);
    assert_int_equal(sg_store_set(store, "W", (double[]){.5, .5, .5, .5, .5, .5}, 6, NULL), SG_OK);
    run_plan(large);
    assert_int_equal(sg_plan_fetch(large, "y", y, 128, NULL), SG_OK);
    assert_memory_equal(first, y, sizeof first);
    assert_memory_equal(first, y + 124, sizeof first);
    run_plan(small);
    sg_store_get(store, "W", w, 6, NULL);
    assert_true(w[5] == 0.125);
    sg_plan_free(small);
    sg_plan_free(large);
    sg_session_free(s);
    sg_store_free(store);
}

/* ---------------------------------------------------------------------------------------------------- steady state */

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

static void loop_body(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)user, (void)body;
    next[0] = sg_tanh(sg_matmul(state[0], state[0]));
}

static void test_no_allocation(void **state)
{
    (void)state;
    sg_allocator_set(&(sg_allocator){counting_allocate, counting_resize, counting_release, NULL});
    sg_store *store = sg_store_new(SG_F64);
    sg_graph *graph = small_model(store, 3);
    sg_value x = sg_input(graph, "x2", SG_F32, SG_SHAPE(3, 3)), z;
    sg_repeat(graph, 4, loop_body, NULL, &x, 1, &z, false);
    sg_result(graph, "z", z);
    sg_store_initialise(store, 1);
    sg_session *s = inplace_session(store, &(sg_session_options){.size = sizeof(sg_session_options), .profile = true});
    sg_plan *plan = compile_plan(s, graph, false);
    run_plan(plan);
    assert_true(calls > 0);
    calls = 0;
    for (int32_t i = 0; i < 10; i++)
        run_plan(plan);
    assert_int_equal(calls, 0);
    sg_plan_free(plan);
    sg_session_free(s);
    sg_graph_free(graph);
    sg_store_free(store);
    sg_allocator_set(&(sg_allocator){0});
}

/* Fail the n-th allocation of compiling and running, for every n: an error, never a crash, and nothing is lost. */
static int64_t fail_at;
static void *failing_allocate(void *user, size_t bytes)
{
    (void)user;
    return ++calls == fail_at ? NULL : malloc(bytes);
}
static void *failing_resize(void *user, void *old, size_t bytes)
{
    (void)user;
    return ++calls == fail_at ? NULL : realloc(old, bytes);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    sg_store *store = sg_store_new(SG_F64);
    sg_graph *graph = small_model(store, 3);
    sg_store_initialise(store, 1);
    sg_session *s = reference_session(store, NULL);
    sg_allocator_set(&(sg_allocator){failing_allocate, failing_resize, counting_release, NULL});
    sg_status status = SG_E_MEMORY;
    for (fail_at = 1; status != SG_OK && fail_at < 10000; fail_at++) {
        sg_plan *plan;
        sg_error err;
        calls = 0;
        status = sg_plan_new(&plan, s, graph, &err);
        if (status != SG_OK)
            assert_int_equal(status, SG_E_MEMORY);
        sg_plan_free(plan);
    }
    assert_int_equal(status, SG_OK);
    assert_true(fail_at > 20);
    sg_session_free(s);
    sg_graph_free(graph);
    sg_store_free(store);
    sg_allocator_set(&(sg_allocator){0});
}

/* -------------------------------------------------------------------------------------------------- audit, profile */

static void test_audit(void **state)
{
    (void)state;
    for (int32_t broken = 0; broken < 2; broken++) {
        sg_store *store = sg_store_new(SG_F64);
        sg_graph *graph = small_model(store, 2);
        sg_store_initialise(store, 1);
        inplace_backend_breaks = broken ? "tanh" : NULL;
        sg_session *s =
            inplace_session(store, &(sg_session_options){.size = sizeof(sg_session_options), .audit = true});
        sg_plan *plan = compile_plan(s, graph, false);
        sg_plan_feed(plan, "x", (double[]){1, 2, 3, 4, 5, 6}, 6, NULL);
        sg_error err;
        sg_status status = sg_plan_run(plan, &err);
        if (broken) {
            assert_int_equal(status, SG_E_DEVICE);
            assert_string_equal(err.node, "hidden");
            assert_string_equal(err.op, "tanh");
            assert_non_null(strstr(err.text, "element 0"));
        } else {
            assert_int_equal(status, SG_OK);
        }
        sg_plan_free(plan);
        sg_session_free(s);
        sg_graph_free(graph);
        sg_store_free(store);
    }
    inplace_backend_breaks = NULL;
}

static char *print_to_text(void (*print)(const sg_plan *, FILE *), const sg_plan *plan)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    print(plan, out);
    fclose(out);
    return text;
}

static void test_profile(void **state)
{
    (void)state;
    sg_store *store = sg_store_new(SG_F64);
    sg_graph *graph = small_model(store, 2);
    sg_store_initialise(store, 1);
    sg_session *s =
        reference_session(store, &(sg_session_options){.size = sizeof(sg_session_options), .profile = true});
    sg_plan *plan = compile_plan(s, graph, false);
    run_plan(plan);
    run_plan(plan);
    char *table = print_to_text(sg_plan_profile_print, plan), *listing = print_to_text(sg_plan_print, plan);
    assert_non_null(strstr(table, "hidden"));
    assert_non_null(strstr(listing, "matmul"));
    free(table);
    free(listing);
    char *events_text = NULL;
    size_t size;
    FILE *out = open_memstream(&events_text, &size);
    assert_int_equal(sg_plan_profile_trace(plan, out, NULL), SG_OK);
    fclose(out);
    json_t *trace = json_loads(events_text, 0, NULL), *events = json_object_get(trace, "traceEvents");
    assert_int_equal(json_array_size(events), 2 * sg_plan_describe(plan).nodes);
    assert_true(json_is_real(json_object_get(json_array_get(events, 0), "ts")));
    assert_string_equal(json_string_value(json_object_get(json_array_get(events, 0), "ph")), "X");
    json_decref(trace);
    free(events_text);
    sg_plan_free(plan);
    sg_session_free(s);
    sg_graph_free(graph);
    sg_store_free(store);
}

static void test_describe(void **state)
{
    (void)state;
    sg_store *store = sg_store_new(SG_F64);
    sg_scope scope;
    sg_graph *graph = new_graph(store, &scope);
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(8, 8)), y;
    sg_repeat(graph, 10, loop_body, NULL, &x, 1, &y, false);
    sg_result(graph, "y", y);
    sg_session *s = reference_session(store, NULL);
    sg_plan *plan = compile_plan(s, graph, false);
    sg_plan_info info = sg_plan_describe(plan);
    assert_int_equal(info.nodes, 2);
    assert_true(info.flops >= 10 * 2 * 8 * 8 * 8); /* loops multiplied out */
    assert_true(info.arena_bytes >= info.temporary_bytes + 2 * 8 * 8 * sizeof(double));
    sg_plan_free(plan);
    sg_session_free(s);
    sg_graph_free(graph);
    sg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_session_errors), cmocka_unit_test(test_numbers_as_declared),
        cmocka_unit_test(test_ports),          cmocka_unit_test(test_uninitialised_entry),
        cmocka_unit_test(test_sticky_error),   cmocka_unit_test(test_missing_kernels),
        cmocka_unit_test(test_foreign_dtypes), cmocka_unit_test(test_half_precision_ports),
        cmocka_unit_test(test_decomposition),  cmocka_unit_test(test_rebind),
        cmocka_unit_test(test_no_allocation),  cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_audit),          cmocka_unit_test(test_index_out_of_range),
        cmocka_unit_test(test_profile),        cmocka_unit_test(test_describe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
