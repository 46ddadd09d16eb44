/* mlp.c - define a net, differentiate it and train it with AdamW. The whole step is one graph, compiled once. */
#include "autodiff/autodiff.h"
#include "models/models.h"
#include "ops/ops.h"
#include "runtime/runtime.h"

enum { BATCH = 64, HIDDEN = 32, STEPS = 400 };

/* z = <w, tanh(x W + c)>.   x [B, 2]  ->  z [B] */
static sg_value net(sg_scope s, sg_value x)
{
    sg_value W = sg_param(s, "W", SG_SHAPE(2, HIDDEN), sg_init_kaiming_uniform(2));
    sg_value c = sg_param(s, "c", SG_SHAPE(HIDDEN), sg_init_zeros());
    sg_value w = sg_param(s, "w", SG_SHAPE(HIDDEN), sg_init_xavier_uniform(HIDDEN, 1));
    return sg_matmul(sg_tanh(sg_add(sg_matmul(x, W), c)), w);
}

/* L = mean_b BCE(z_b, y_b), then one AdamW update of every parameter under "net". */
static void training_step(sg_graph *graph, sg_store *store)
{
    sg_scope root = sg_scope_root(graph, store), s = sg_scope_sub(root, "net");
    sg_value x = sg_input(graph, "x", SG_F32, SG_SHAPE(BATCH, 2)), y = sg_input(graph, "y", SG_F32, SG_SHAPE(BATCH));
    sg_value loss = sg_mean_all(sg_bce_with_logits(net(s, x), y));
    sg_value p[3], g[3];
    int32_t n = sg_params(s, p, 3);
    sg_grad(loss, p, n, g);
    sg_adam_options adamw = sg_adam_defaults(0.01);
    sg_adam_step(sg_scope_sub(root, "adam"), p, g, n, sg_scalar(graph, 0.02), &adamw);
    sg_result(graph, "loss", loss);
}

/* Points of the square [-1, 1]^2; the class is the sign of x1 x2, which no linear model can tell. */
static void next_batch(uint32_t *seed, float *x, float *y)
{
    for (int i = 0; i < 2 * BATCH; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        x[i] = (float)(*seed >> 8) * 0x1p-23f - 1;
    }
    for (int i = 0; i < BATCH; i++)
        y[i] = x[2 * i] * x[2 * i + 1] > 0;
}

static sg_status train(sg_plan *step, float *loss, sg_error *err)
{
    uint32_t seed = 1;
    for (int t = 0; t <= STEPS; t++) {
        next_batch(&seed, sg_plan_input(step, "x"), sg_plan_input(step, "y"));
        SG_TRY(sg_plan_run(step, err));
        *loss = *(const float *)sg_plan_result(step, "loss");
        if (t % 100 == 0)
            printf("step %3d  loss %.4f\n", t, *loss);
    }
    return SG_OK;
}

int main(void)
{
    sg_error err = {0};
    char text[1024];
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F32);
    sg_session *session = NULL;
    sg_plan *step = NULL;
    float loss = 1;
    if (!graph || !store)
        return 1;
    training_step(graph, store);
    sg_store_initialise(store, 1);
    sg_session_options options = {.size = sizeof options, .backend = "cpu"};
    if (sg_session_new(&session, store, &options, &err) != SG_OK || sg_plan_new(&step, session, graph, &err) != SG_OK ||
        train(step, &loss, &err) != SG_OK)
        fprintf(stderr, "mlp: %s\n", sg_error_format(&err, text, sizeof text));
    sg_plan_free(step);
    sg_session_free(session);
    sg_store_free(store);
    sg_graph_free(graph);
    return loss < 0.2f ? 0 : 1;
}
