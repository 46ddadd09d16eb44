/* Which attentions a GPU computes by kernels of its own and which by products: forward and derivatives of every order alike.
 * Skipped where there is no GPU, with the reason. */
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

int main(void)
{
    setenv("SEALGRAPH_MODULE_PATH", SG_BINARY_DIR, 0);
    sg_store *store = sg_store_new(SG_F32);
    sg_session *session = NULL;
    sg_error err = {0};
    sg_session_options options = {.size = sizeof options, .backend = "cuda"};
    bool there = sg_session_new(&session, store, &options, &err) == SG_OK;
    if (!there)
        printf("skipped: %s\n", err.text);
    sg_session_free(session);
    sg_store_free(store);
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_choice_for_all_orders)};
    return there ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
