/* Which attentions a GPU computes by kernels of its own and which by products: forward and derivatives of every order alike. And
 * causal attention to more keys than there are queries, where some keys have no query. Skipped where there is no GPU, with the
 * reason. */
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
#include "ops/ops.h"
#include "runtime/runtime.h"
#include "tests/support/gpu_session.h"
#include "tests/support/graph_run.h"

typedef struct request {
    const char *precision;
    int64_t batch, heads, rows, width;
    bool causal, heads_inner;
} request;

static sg_graph *build(const request *r)
{
    static const char *const names[] = {"q", "k", "v", "tq", "tk", "tv"};
    sg_graph *graph = sg_graph_new();
    sg_value x[6], g[3], h[3];
    sg_shape shape = r->heads_inner ? SG_SHAPE(r->batch, r->rows, r->heads, r->width)
                                    : SG_SHAPE(r->batch, r->heads, r->rows, r->width);
    for (int k = 0; k < 6; k++)
        x[k] = sg_input(graph, names[k], SG_F32, shape);
    sg_attention_options o = {.causal = r->causal, .heads_inner = r->heads_inner};
    sg_value y = sg_attention(x[0], x[1], x[2], &o), ty;
    sg_value loss = sg_mean_all(sg_square(y));
    sg_grad(loss, x, 3, g);
    sg_hvp(loss, x, x + 3, 3, h, SG_HVP_FORWARD_OVER_REVERSE);
    sg_jvp(&y, 1, x, x + 3, 3, &ty);
    sg_result(graph, "y", y);
    sg_result(graph, "ty", ty);
    for (int k = 0; k < 3; k++) {
        sg_result(graph, (const char *[]){"gq", "gk", "gv"}[k], g[k]);
        sg_result(graph, (const char *[]){"hq", "hk", "hv"}[k], h[k]);
    }
    return graph;
}

/* Bit 0: attention, 1: its jvp, 2: its vjp, 3: the jvp of that. */
static unsigned kernels_of(const request *r)
{
    static const char *const ops[] = {" attention ", " attention_jvp ", " attention_vjp ", " attention_vjp_jvp "};
    char *text = NULL;
    size_t size = 0;
    unsigned found = 0;
    sg_error err = {0};
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_graph *graph = build(r);
    sg_store *store = sg_store_new(SG_F32);
    sg_session_options options = {.size = sizeof options, .backend = "cuda", .precision = r->precision};
    if (sg_session_new(&session, store, &options, &err) != SG_OK || sg_plan_new(&plan, session, graph, &err) != SG_OK)
        fail_msg("%s", err.text);
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    sg_plan_print(plan, out);
    fclose(out);
    for (unsigned k = 0; k < 4; k++)
        found |= strstr(text, ops[k]) ? 1u << k : 0;
    free(text);
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
    return found;
}

static void one_choice_for_all_orders(void **state)
{
    (void)state;
    static const struct {
        request r;
        unsigned kernels;
    } cases[] = {{{"f32", 2, 8, 72, 16, false, false}, 0},    {{"f32", 2, 8, 72, 16, false, true}, 0},
                 {{"f32", 16, 12, 256, 64, false, true}, 0},  {{"f32", 2, 8, 72, 16, true, false}, 15}, /* causal */
                 {{"f32", 2, 2, 16, 16, false, false}, 15},                                             /* tiny */
                 {{"f32", 4, 16, 520, 16, false, false}, 15}, /* more than 64 MiB */
                 {{"f32", 2, 8, 72, 136, false, false}, 0},   /* wide */
                 {{"bf16", 16, 12, 256, 64, false, true}, 15}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (kernels_of(&cases[i].r) != cases[i].kernels)
            fail_msg("case %zu: %#x", i, kernels_of(&cases[i].r));
}

/* ---- more keys than queries */

enum { HEADS = 2, DEPTH = 64, WIDTH = HEADS * DEPTH, PARAMETERS = 6, ELEMENTS = 2 * 3 * (WIDTH * WIDTH + WIDTH) };

typedef struct lengths {
    const char *precision;
    int64_t batch, queries, keys;
    double tolerance;
} lengths;

static sg_value projection(sg_scope scope, const char *name, sg_value x)
{
    sg_scope s = sg_scope_sub(scope, name);
    sg_value W = sg_param(s, "weight", SG_SHAPE(WIDTH, WIDTH), sg_init_normal(0, 0.2));
    sg_value b = sg_param(s, "bias", SG_SHAPE(WIDTH), sg_init_normal(0, 0.2));
    return sg_reshape(sg_add(sg_matmul_nt(x, W), b), SG_SHAPE(0, 0, HEADS, DEPTH));
}

/* Gradients in the weights and biases of queries, keys and values, then Hessian products with these: the biases' are sums over
 * rows, which the kernels make along with them. */
static void derivatives(const lengths *n, const char *backend, const char *precision, double *out)
{
    sg_error err = {0};
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_value p[PARAMETERS], d[2 * PARAMETERS];
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(strcmp(backend, "reference") == 0 ? SG_F64 : SG_F32);
    sg_scope scope = sg_scope_root(graph, store);
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(n->batch, n->queries, WIDTH));
    sg_value y = sg_input(graph, "y", SG_F32, SG_SHAPE(n->batch, n->keys, WIDTH));
    const sg_attention_options causal = {.causal = true, .heads_inner = true};
    sg_value attended = sg_attention(projection(scope, "query", x), projection(scope, "key", y),
                                     projection(scope, "value", y), &causal);
    sg_value loss = sg_mean_all(sg_square(sg_tanh(attended)));
    assert_int_equal(sg_params(scope, p, PARAMETERS), PARAMETERS);
    sg_grad(loss, p, PARAMETERS, d);
    sg_hvp(loss, p, p, PARAMETERS, d + PARAMETERS, SG_HVP_FORWARD_OVER_REVERSE);
    for (int32_t k = 0; k < 2 * PARAMETERS; k++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", (int)k);
        sg_result(graph, name, d[k]);
    }
    sg_store_initialise(store, 5);
    sg_session_options options = {.size = sizeof options, .backend = backend, .precision = precision, .poison = true};
    if (sg_session_new(&session, store, &options, &err) != SG_OK || sg_plan_new(&plan, session, graph, &err) != SG_OK)
        fail_msg("%s: %s", backend, err.text);
    for (int k = 0; k < 2; k++) {
        const char *name = k ? "y" : "x";
        int64_t count = sg_shape_count(sg_plan_input_shape(plan, name));
        double *data = test_calloc((size_t)count, sizeof *data);
        for (int64_t i = 0; i < count; i++)
            data[i] = (float)(2 * test_uniform((uint64_t)k + 1, i) - 1);
        assert_int_equal(sg_plan_feed(plan, name, data, count, &err), SG_OK);
        test_free(data);
    }
    for (int run = 0; run < 2; run++) /* the second over what the first has left in memory */
        if (sg_plan_run(plan, &err) != SG_OK)
            fail_msg("%s: %s", backend, err.text);
    for (int32_t k = 0, at = 0; k < 2 * PARAMETERS; k++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", (int)k);
        int64_t count = sg_shape_count(sg_plan_result_shape(plan, name));
        assert_true(at + count <= ELEMENTS);
        assert_int_equal(sg_plan_fetch(plan, name, out + at, count, &err), SG_OK);
        at += (int32_t)count;
    }
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
}

static void keys_without_a_query(void **state)
{
    (void)state;
    static double want[ELEMENTS], got[ELEMENTS];
    static const lengths cases[] = {{"f32", 2, 40, 200, 1e-4},
                                    {"f32", 1, 1, 70, 1e-4},
                                    {"bf16", 2, 40, 200, 4e-2},
                                    {"bf16", 3, 64, 320, 4e-2},
                                    {"bf16", 1, 1, 130, 4e-2}};
    static const int32_t size[2] = {WIDTH * WIDTH, WIDTH}; /* of a weight, of a bias */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        derivatives(&cases[i], "reference", NULL, want);
        derivatives(&cases[i], "cuda", cases[i].precision, got);
        double whole[2] = {0}; /* squares of all gradients, of all Hessian products */
        for (int32_t k = 0; k < ELEMENTS; k++)
            whole[k >= ELEMENTS / 2] += want[k] * want[k];
        for (int32_t k = 0, at = 0; k < 2 * PARAMETERS; at += size[k++ % 2]) {
            double off = 0, is = 0;
            for (int32_t e = at; e < at + size[k % 2]; e++) {
                off += (got[e] - want[e]) * (got[e] - want[e]);
                is += want[e] * want[e];
            }
            double most = cases[i].tolerance * (sqrt(is) + 0.05 * sqrt(whole[k >= PARAMETERS]));
            if (!(sqrt(off) <= most))
                fail_msg("case %zu, %s of parameter %d: off by %g, is %g", i, k < PARAMETERS ? "gradient" : "product",
                         (int)(k % PARAMETERS), sqrt(off), sqrt(is));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_choice_for_all_orders),
                                       cmocka_unit_test(keys_without_a_query)};
    return test_gpu_is_there(NULL) ? cmocka_run_group_tests(tests, NULL, NULL) : TEST_SKIPPED;
}
