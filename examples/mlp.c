/* mlp.c - define a net, differentiate it and train it with AdamW; the whole step is one graph, compiled once. Then write the
 * trained model to a folder, the argument or mlp-model, read it back and predict with it. */
#include "autodiff/autodiff.h"
#include "models/models.h"
#include "ops/ops.h"
#include "runtime/runtime.h"
#include "serialize/serialize.h"

#include <string.h>

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

/* Write what predicts, with the parameters as they are, to the folder `path`. p = sigmoid(z): x [batch, 2]  ->  p [batch] */
static sg_status save(sg_store *store, const char *path, sg_error *err)
{
    sg_graph *graph = sg_graph_new();
    if (!graph)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_scope s = sg_scope_sub(sg_scope_root(graph, store), "net");
    sg_value x = sg_input(graph, "x", SG_F32, sg_shape_named(SG_SHAPE(BATCH, 2), 0, "batch"));
    sg_result(graph, "p", sg_sigmoid(net(s, x)));
    sg_status status = sg_graph_status(graph, err);
    if (status == SG_OK)
        status = sg_model_write(path, &(sg_model){.graph = graph, .store = store}, err);
    sg_graph_free(graph);
    return status;
}

/* There is such an input or result, and it has so many elements. */
static bool holds(const sg_shape *shape, int64_t count) { return shape && sg_shape_count(shape) == count; }

/* What another program does with that folder: x [n, 2]  ->  p [n]. It needs no line of the net. */
static sg_status predict(const char *path, const float *x, int64_t n, float *p, sg_error *err)
{
    sg_model *model = NULL;
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_session_options options = {.size = sizeof options, .backend = "cpu"};
    sg_status status = sg_model_read(&model, path, err);
    if (status == SG_OK)
        status = sg_graph_bind(model->graph, &(sg_binding){"batch", n}, 1, err);
    if (status == SG_OK)
        status = sg_session_new(&session, model->store, &options, err);
    if (status == SG_OK)
        status = sg_plan_new(&plan, session, model->graph, err);
    if (status == SG_OK && !(holds(sg_plan_input_shape(plan, "x"), 2 * n) && holds(sg_plan_result_shape(plan, "p"), n)))
        status =
            sg_fail(err, SG_E_DATA, "%s: not a model of x [n, 2] -> p [n]: give the folder that `save` wrote", path);
    if (status == SG_OK) {
        memcpy(sg_plan_input(plan, "x"), x, (size_t)n * 2 * sizeof *x);
        status = sg_plan_run(plan, err);
    }
    if (status == SG_OK)
        memcpy(p, sg_plan_result(plan, "p"), (size_t)n * sizeof *p);
    sg_plan_free(plan);
    sg_session_free(session);
    sg_model_free(model);
    return status;
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

/* Four points, a quadrant each: is the model that was read the one that was trained? */
static sg_status check(const char *path, bool *right, sg_error *err)
{
    const float x[] = {0.5f, 0.5f, -0.5f, 0.5f, -0.5f, -0.5f, 0.5f, -0.5f};
    float p[4];
    SG_TRY(predict(path, x, 4, p, err));
    printf("%s: p %.2f %.2f %.2f %.2f\n", path, p[0], p[1], p[2], p[3]);
    *right = p[0] > 0.9f && p[1] < 0.1f && p[2] > 0.9f && p[3] < 0.1f;
    return SG_OK;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "mlp-model";
    sg_error err = {0};
    char text[1024];
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F32);
    sg_session *session = NULL;
    sg_plan *step = NULL;
    float loss = 1;
    bool right = false;
    if (!graph || !store)
        return 1;
    training_step(graph, store);
    sg_store_initialise(store, 1);
    sg_session_options options = {.size = sizeof options, .backend = "cpu"};
    if (sg_session_new(&session, store, &options, &err) != SG_OK || sg_plan_new(&step, session, graph, &err) != SG_OK ||
        train(step, &loss, &err) != SG_OK || save(store, path, &err) != SG_OK || check(path, &right, &err) != SG_OK)
        fprintf(stderr, "mlp: %s\n", sg_error_format(&err, text, sizeof text));
    sg_plan_free(step);
    sg_session_free(session);
    sg_store_free(store);
    sg_graph_free(graph);
    return loss < 0.2f && right ? 0 : 1;
}
