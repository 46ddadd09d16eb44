/* Mixed precision on a GPU as a whole: gradient and Hessian product of an encoder against reference, and a net that learns as it
 * does in f32. Skipped where there is no GPU, with the reason. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "models/models.h"
#include "ops/ops.h"
#include "runtime/runtime.h"
#include "tests/support/gpu_session.h"
#include "tests/support/graph_run.h"

enum { BATCH = 2, WORDS = 80, VOCABULARY = 50, MOST = 64, ELEMENTS = 400000 };

static const sg_bert_sizes sizes = {.vocabulary = VOCABULARY,
                                    .positions = WORDS,
                                    .types = 2,
                                    .hidden = 64,
                                    .heads = 2,
                                    .intermediate = 128,
                                    .layers = 2,
                                    .dropout = 0.1,
                                    .attention_dropout = 0.1};

/* Gradients, then Hessian products with the parameters, one after the other; size[k] elements each. */
static int32_t derivatives(const char *backend, const char *precision, double *out, int64_t *size)
{
    sg_error err = {0};
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_value p[MOST], d[2 * MOST];
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(strcmp(backend, "reference") == 0 ? SG_F64 : SG_F32);
    sg_scope scope = sg_scope_root(graph, store);
    sg_value ids = sg_input(graph, "ids", SG_I32, SG_SHAPE(BATCH, WORDS));
    sg_value hidden = sg_bert_encoder(scope, ids, SG_NONE, SG_NONE, &sizes, true);
    sg_value loss = sg_mean_all(sg_square(sg_tanh(hidden)));
    int32_t n = sg_params(scope, p, MOST);
    assert_true(n > 0 && n <= MOST);
    sg_grad(loss, p, n, d);
    sg_hvp(loss, p, p, n, d + n, SG_HVP_FORWARD_OVER_REVERSE);
    for (int32_t k = 0; k < 2 * n; k++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", (int)k);
        sg_result(graph, name, d[k]);
    }
    sg_store_initialise(store, 5);
    sg_session_options options = {.size = sizeof options, .backend = backend, .threads = 2, .precision = precision};
    if (sg_session_new(&session, store, &options, &err) != SG_OK || sg_plan_new(&plan, session, graph, &err) != SG_OK)
        fail_msg("%s: %s", backend, err.text);
    double word[BATCH * WORDS];
    for (int32_t i = 0; i < BATCH * WORDS; i++)
        word[i] = i * 17 % VOCABULARY;
    assert_int_equal(sg_plan_feed(plan, "ids", word, BATCH * WORDS, &err), SG_OK);
    if (sg_plan_run(plan, &err) != SG_OK)
        fail_msg("%s: %s", backend, err.text);
    for (int32_t k = 0, at = 0; k < 2 * n; at += (int32_t)size[k++]) {
        char name[16];
        snprintf(name, sizeof name, "d%d", (int)k);
        size[k] = sg_shape_count(sg_plan_result_shape(plan, name));
        assert_true(at + size[k] <= ELEMENTS);
        if (sg_plan_fetch(plan, name, out + at, size[k], &err) != SG_OK)
            fail_msg("%s: %s", backend, err.text);
    }
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
    return n;
}

/* |x - want| and |want| over elements [first, last). */
static double difference(const double *x, const double *want, int64_t first, int64_t last)
{
    double sum = 0;
    for (int64_t i = first; i < last; i++)
        sum += (x[i] - want[i]) * (x[i] - want[i]);
    return sqrt(sum);
}
static double length(const double *want, int64_t first, int64_t last)
{
    double sum = 0;
    for (int64_t i = first; i < last; i++)
        sum += want[i] * want[i];
    return sqrt(sum);
}
static double distance(const double *x, const double *want, int64_t first, int64_t last)
{
    return difference(x, want, first, last) / fmax(length(want, first, last), 1e-300);
}

static void encoder(void **state)
{
    (void)state;
    double *want = test_calloc(ELEMENTS, sizeof *want), *got = test_calloc(ELEMENTS, sizeof *got);
    int64_t size[2 * MOST], first = 0, half;
    int32_t n = derivatives("reference", NULL, want, size);
    derivatives("cuda", "bf16", got, size);
    for (int32_t k = 0; k < n; k++)
        first += size[k];
    half = first;
    for (int32_t k = n; k < 2 * n; k++)
        first += size[k];
    double gradient = distance(got, want, 0, half), product = distance(got, want, half, first);
    print_message("bf16 against reference: gradient %.2e, Hessian product %.2e\n", gradient, product);
    assert_true(gradient < 2e-2);
    assert_true(product < 4e-2);
    assert_true(gradient > 1e-5); /* else nothing was in bf16 */
    for (int32_t k = 0, at = 0; k < n;
         at += (int32_t)size[k++]) /* each tensor for itself, but for what is next to nothing */
        assert_true(difference(got, want, at, at + size[k]) <
                    6e-2 * length(want, at, at + size[k]) + 1e-3 * length(want, 0, half));
    test_free(want);
    test_free(got);
}

/* ---- what a kernel sums over rows while it makes them: the gradient of the bias before */

enum { SHORT = 16, LONGEST = 1024, PARAMETERS = 4 };
enum { SHORT_COLUMN = 64 /* which a chain sums */ };

typedef struct behind {
    const char *kernel; /* of the reverse derivative in bf16; NULL: any */
    bool norm;          /* layer_norm(x W + b), else gelu(x W + b) W' / sqrt(columns) */
    int64_t columns;
    bool shown; /* the cotangent of x W + b is a result too */
} behind;

static int32_t bias_gradients(const behind *what, const char *backend, const char *precision, int64_t rows, double *out,
                              int64_t *size)
{
    static const char *const names[PARAMETERS] = {"bias", "weight", "gamma", "beta"};
    sg_error err = {0};
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    char *text = NULL;
    size_t length = 0;
    int32_t count = what->norm ? 4 : 2;
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(strcmp(backend, "reference") == 0 ? SG_F64 : SG_F32);
    sg_scope scope = sg_scope_root(graph, store);
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(rows, SHORT)), p[PARAMETERS], g[PARAMETERS];
    for (int32_t k = 0; k < count; k++)
        p[k] = sg_param(scope, names[k], k == 1 ? SG_SHAPE(SHORT, what->columns) : SG_SHAPE(what->columns),
                        sg_init_normal(k == 2, 0.5));
    sg_value h = sg_add(sg_matmul(x, p[1]), p[0]);
    if (what->shown)
        p[count++] = h;
    /* The tanh below is not to be flat: its slope would be all rounding. */
    double scale = 1 / sqrt((double)what->columns);
    sg_value y = what->norm ? sg_layer_norm(h, p[2], p[3], 1e-12)
                            : sg_mul(sg_matmul_nt(sg_gelu(h), p[1]), sg_scalar(graph, scale));
    sg_grad(sg_sum_all(sg_mul(sg_tanh(y), sg_cos(sg_cumsum(sg_ones_like(y), 1)))), p, count, g);
    for (int32_t k = 0; k < count; k++)
        sg_result(graph, names[k], g[k]);
    sg_store_initialise(store, 5);
    sg_session_options options = {.size = sizeof options, .backend = backend, .precision = precision};
    if (sg_session_new(&session, store, &options, &err) != SG_OK || sg_plan_new(&plan, session, graph, &err) != SG_OK)
        fail_msg("%s: %s", backend, err.text);
    FILE *print = open_memstream(&text, &length);
    assert_non_null(print);
    sg_plan_print(plan, print);
    fclose(print);
    if (precision && rows > SHORT_COLUMN && what->kernel)
        assert_non_null(strstr(text, what->kernel));
    free(text);
    double *data = test_calloc((size_t)(rows * SHORT), sizeof *data);
    for (int64_t i = 0; i < rows * SHORT; i++)
        data[i] = (float)(2 * test_uniform(1, i) - 1);
    assert_int_equal(sg_plan_feed(plan, "x", data, rows * SHORT, &err), SG_OK);
    test_free(data);
    if (sg_plan_run(plan, &err) != SG_OK)
        fail_msg("%s: %s", backend, err.text);
    for (int32_t k = 0, at = 0; k < count; at += (int32_t)size[k++]) {
        size[k] = sg_shape_count(sg_plan_result_shape(plan, names[k]));
        assert_int_equal(sg_plan_fetch(plan, names[k], out + at, size[k], &err), SG_OK);
    }
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
    return count;
}

static void sums_over_rows(void **state)
{
    (void)state;
    static const behind cases[] = {
        {"layer_norm_vjp + sum", true, 768, false},
        {"gelu_derivative + sum", false, 1024, false},
        {NULL, false, 1024, true},
    };
    static const int64_t rows[] = {2, 37, 65, 300, 2500};
    double *want = test_calloc((3 + SHORT + 2500) * LONGEST, sizeof *want),
           *got = test_calloc((3 + SHORT + 2500) * LONGEST, sizeof *got);
    int64_t size[PARAMETERS];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            bias_gradients(&cases[c], "reference", NULL, rows[i], want, size);
            int32_t n = bias_gradients(&cases[c], "cuda", "bf16", rows[i], got, size);
            for (int64_t k = 0, at = 0; k < n; at += size[k++])
                if (!(distance(got, want, at, at + size[k]) < 3e-2))
                    fail_msg("case %d, %lld rows, gradient %d: off by %g", (int)c, (long long)rows[i], (int)k,
                             distance(got, want, at, at + size[k]));
        }
    test_free(want);
    test_free(got);
}

/* ---- learning */

enum { ROWS = 64, WIDE = 32, STEPS = 60 };

/* y = sign of a hidden direction, learned by two layers with Adam and clipping; the loss after each step. */
static void learn(const char *precision, double *loss)
{
    sg_error err = {0};
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F32);
    sg_scope scope = sg_scope_root(graph, store), net = sg_scope_sub(scope, "net");
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(ROWS, WIDE)), y = sg_input(graph, "y", SG_F32, SG_SHAPE(ROWS));
    sg_value w1 = sg_param(net, "w1", SG_SHAPE(WIDE, WIDE), sg_init_normal(0, 0.2));
    sg_value b1 = sg_param(net, "b1", SG_SHAPE(WIDE), sg_init_zeros());
    sg_value w2 = sg_param(net, "w2", SG_SHAPE(WIDE, 1), sg_init_normal(0, 0.2));
    sg_value z = sg_reshape(sg_matmul(sg_gelu(sg_add(sg_matmul(x, w1), b1)), w2), SG_SHAPE(ROWS));
    sg_value cost = sg_mean_all(sg_bce_with_logits(z, y)), w[] = {w1, b1, w2}, g[3];
    sg_grad(cost, w, 3, g);
    sg_value factor = sg_clip_factor(g, 3, 1, NULL);
    for (int k = 0; k < 3; k++)
        g[k] = sg_mul(g[k], factor);
    sg_adam_options adam = sg_adam_defaults(0.01);
    sg_adam_step(sg_scope_sub(scope, "adam"), w, g, 3, sg_scalar(graph, 0.01), &adam);
    sg_result(graph, "loss", cost);
    sg_store_initialise(store, 1);
    sg_session_options options = {.size = sizeof options, .backend = "cuda", .precision = precision};
    if (sg_session_new(&session, store, &options, &err) != SG_OK || sg_plan_new(&plan, session, graph, &err) != SG_OK)
        fail_msg("%s", err.text);
    for (int step = 0; step < STEPS; step++) {
        float *in = sg_plan_input(plan, "x"), *gold = sg_plan_input(plan, "y");
        for (int64_t i = 0; i < ROWS * WIDE; i++)
            in[i] = (float)(2 * test_uniform(1, i) - 1);
        for (int64_t i = 0; i < ROWS; i++)
            gold[i] = in[i * WIDE] + in[i * WIDE + 1] * in[i * WIDE + 2] > 0;
        assert_int_equal(sg_plan_run(plan, &err), SG_OK);
        assert_int_equal(sg_plan_fetch(plan, "loss", &loss[step], 1, &err), SG_OK);
    }
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
}

static void learning(void **state)
{
    (void)state;
    double full[STEPS], mixed[STEPS], again[STEPS];
    learn("f32", full);
    learn("bf16", mixed);
    learn("bf16", again);
    print_message("loss after %d steps: f32 %.4f, bf16 %.4f\n", (int)STEPS, full[STEPS - 1], mixed[STEPS - 1]);
    assert_memory_equal(mixed, again, sizeof mixed);
    assert_true(full[STEPS - 1] < 0.5 * full[0]);
    for (int step = 0; step < STEPS; step++)
        assert_true(fabs(mixed[step] - full[step]) < 0.02 * full[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(encoder), cmocka_unit_test(sums_over_rows),
                                       cmocka_unit_test(learning)};
    if (!test_gpu_is_there("bf16"))
        return TEST_SKIPPED;
    sg_autodiff_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
