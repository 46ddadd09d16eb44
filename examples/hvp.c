/* hvp.c - products with the Hessian of an energy net, H v, by two orders of composition and against finite differences. */
#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "runtime/runtime.h"

#include <math.h>

enum { LABELS = 4, GLOBAL = 3, N = 3 };

/* E(y) = -<b, y> - <v, softplus(M y)>, the energy of a label vector y in [0, 1]^LABELS as a function of its weights. */
static sg_value energy(const sg_value *weight, sg_value y)
{
    sg_value b = weight[0], M = weight[1], v = weight[2];
    sg_value local = sg_sum_all(sg_mul(b, y)), global = sg_sum_all(sg_mul(v, sg_softplus(sg_matmul(M, y))));
    return sg_neg(sg_add(local, global));
}

static bool evaluate(void *user, sg_graph *graph, const sg_value *x, double *const *feed, int32_t n_x,
                     const sg_value *y, double *const *out, int32_t n_y, sg_error *err)
{
    (void)user;
    return sg_reference_eval(graph, x, feed, n_x, y, out, n_y, err) == SG_OK;
}

/* A product is one more set of values in the same graph: it can be compiled, fused, or differentiated again. */
static sg_status check_products(sg_value loss, const sg_value *w, double *const *at, double *worst, sg_error *err)
{
    sg_value v[N], forward[N], reverse[N], difference[N];
    for (int k = 0; k < N; k++)
        v[k] = sg_fill_like(w[k], 1 + k);
    sg_hvp(loss, w, v, N, forward, SG_HVP_FORWARD_OVER_REVERSE);
    sg_hvp(loss, w, v, N, reverse, SG_HVP_REVERSE_OVER_REVERSE);
    double gap[N], hv[GLOBAL * LABELS], *out[N + 1] = {&gap[0], &gap[1], &gap[2], hv};
    for (int k = 0; k < N; k++)
        difference[k] = sg_sum_all(sg_abs(sg_sub(forward[k], reverse[k])));
    sg_value y[N + 1] = {difference[0], difference[1], difference[2], forward[1]};
    SG_TRY(sg_reference_eval(loss.graph, w, at, N, y, out, N + 1, err));
    printf("H v, part of M:\n");
    for (int i = 0; i < GLOBAL; i++, putchar('\n'))
        for (int j = 0; j < LABELS; j++)
            printf("  %8.4f", hv[i * LABELS + j]);
    *worst = fmax(gap[0], fmax(gap[1], gap[2]));
    printf("forward over reverse against reverse over reverse: largest difference %.1e\n", *worst);
    return SG_OK;
}

static sg_status check_differences(sg_value loss, const sg_value *w, double *const *at, bool *passed, sg_error *err)
{
    sg_gradcheck_options options = {.size = sizeof options, .order = 3, .seed = 1};
    sg_gradcheck_result result;
    sg_evaluator reference = {evaluate, NULL};
    SG_TRY(sg_gradcheck(loss, w, at, N, &reference, &options, &result, err));
    for (int order = 1; order <= 3; order++)
        printf("order %d against central differences: relative error %.1e\n", order, result.worst[order]);
    *passed = result.passed;
    return SG_OK;
}

int main(void)
{
    sg_error err = {0};
    char text[1024];
    sg_graph *graph = sg_graph_new();
    double y_at[LABELS] = {0.9, 0.1, 0.6, 0.3}, b[LABELS] = {0.5, -1, 0.2, 0.8}, v[GLOBAL] = {1, -0.5, 0.7};
    double M[GLOBAL * LABELS], *at[N] = {b, M, v}, worst = 1;
    bool passed = false;
    if (!graph)
        return 1;
    for (int i = 0; i < GLOBAL * LABELS; i++)
        M[i] = sin(1 + i);
    sg_value w[N] = {sg_input(graph, "b", SG_F64, SG_SHAPE(LABELS)),
                     sg_input(graph, "M", SG_F64, SG_SHAPE(GLOBAL, LABELS)),
                     sg_input(graph, "v", SG_F64, SG_SHAPE(GLOBAL))};
    sg_value loss = sg_square(energy(w, sg_constant(graph, SG_F64, SG_SHAPE(LABELS), y_at, LABELS)));
    if (check_products(loss, w, at, &worst, &err) != SG_OK || check_differences(loss, w, at, &passed, &err) != SG_OK)
        fprintf(stderr, "hvp: %s\n", sg_error_format(&err, text, sizeof text));
    sg_graph_free(graph);
    return passed && worst < 1e-12 ? 0 : 1;
}
