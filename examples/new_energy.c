/* new_energy.c - an energy of your own as the loss of a task-net. The energy is learned beside the task-net by
 * noise-contrastive ranking; sampling, both updates and the optimisers are one graph. */
#include "autodiff/autodiff.h"
#include "models/models.h"
#include "ops/ops.h"
#include "runtime/runtime.h"

enum { BATCH = 32, INPUTS = 6, LABELS = 6, FACTORS = 4, SAMPLES = 16, STEPS = 500 };

/* A = P P' - Q Q', symmetric of low rank: positive where two labels go together, negative where they exclude each other. */
static sg_value interactions(sg_scope s)
{
    sg_shape shape = SG_SHAPE(LABELS, FACTORS);
    sg_value P = sg_param(s, "P", shape, sg_init_normal(0, 0.3)), Q = sg_param(s, "Q", shape, sg_init_normal(0, 0.3));
    return sg_sub(sg_matmul_nt(P, P), sg_matmul_nt(Q, Q));
}

/* S(x, y) = <y, U x> + 1/2 y'Ay: the score of a label set, its energy the negative.   x [B, D], y [B, K, L]  ->  S [B, K] */
static sg_value score(sg_scope s, sg_value x, sg_value y)
{
    sg_value U = sg_param(s, "U", SG_SHAPE(LABELS, INPUTS), sg_init_xavier_uniform(INPUTS, LABELS));
    sg_value local = sg_expand_dims(sg_matmul_nt(x, U), 1), pairs = sg_mul_scalar(sg_matmul(y, interactions(s)), 0.5);
    return sg_sum(sg_mul(y, sg_add(local, pairs)), -1);
}

static sg_value task(sg_scope s, sg_value x)
{
    return sg_matmul(x, sg_param(s, "W", SG_SHAPE(INPUTS, LABELS), sg_init_xavier_uniform(INPUTS, LABELS)));
}

static void update(sg_scope net, sg_value loss)
{
    sg_value p[3], g[3];
    int32_t n = sg_params(net, p, 3);
    sg_grad(loss, p, n, g);
    sg_adam_options adamw = sg_adam_defaults(1e-4);
    sg_adam_step(sg_scope_sub(net, "adam"), p, g, n, sg_scalar(net.graph, 0.01), &adamw);
}

static void training_step(sg_graph *graph, sg_store *store)
{
    sg_scope root = sg_scope_root(graph, store), t = sg_scope_sub(root, "task"), e = sg_scope_sub(root, "energy");
    /* Made data: one label of each pair (0,1), (2,3), (4,5) is on; x shows it under noise. */
    sg_value half = sg_bernoulli(root, sg_constant(graph, SG_F32, SG_SHAPE(BATCH, LABELS / 2, 1), (double[]){0.5}, 1));
    sg_value pair = sg_concat((sg_value[]){half, sg_sub(sg_ones_like(half), half)}, 2, 2);
    sg_value y = sg_reshape(pair, SG_SHAPE(BATCH, LABELS)), x = sg_add(y, sg_normal_like(root, y));

    sg_value z = sg_stop_gradient(task(t, x));
    sg_value drawn = sg_bernoulli(t, sg_tile_axis(sg_sigmoid(z), 1, SAMPLES));
    sg_value candidates = sg_concat((sg_value[]){sg_expand_dims(y, 1), drawn}, 2, 1);
    sg_value nce = sg_mean_all(sg_nce_ranking_loss(score(e, x, candidates), sg_log_bernoulli(z, candidates)));
    update(e, nce);

    z = task(t, x);
    sg_value bce = sg_mean_all(sg_sum(sg_bce_with_logits(z, y), -1));
    update(t, sg_sub(bce, sg_mean_all(score(e, x, sg_expand_dims(sg_sigmoid(z), 1)))));
    sg_rng_advance(root);
    sg_result(graph, "A", interactions(e));
}

static sg_status train(sg_session *session, sg_graph *graph, bool *learned, sg_error *err)
{
    sg_plan *step = NULL;
    sg_status status = sg_plan_new(&step, session, graph, err);
    for (int i = 0; status == SG_OK && i < STEPS; i++)
        status = sg_plan_run(step, err);
    const float *A = status == SG_OK ? sg_plan_result(step, "A") : NULL;
    for (int i = 0; A && i < LABELS * LABELS; i++)
        printf("%6.2f%s", A[i], i % LABELS == LABELS - 1 ? "\n" : " ");
    *learned = A && A[1] < -0.5f && A[2 * LABELS + 3] < -0.5f && A[4 * LABELS + 5] < -0.5f;
    sg_plan_free(step);
    return status;
}

int main(void)
{
    sg_error err = {0};
    char text[1024];
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F32);
    sg_session *session = NULL;
    bool learned = false;
    sg_session_options options = {.size = sizeof options, .backend = "cpu"};
    if (!graph || !store)
        return 1;
    training_step(graph, store);
    sg_store_initialise(store, 1);
    if (sg_session_new(&session, store, &options, &err) != SG_OK || train(session, graph, &learned, &err) != SG_OK)
        fprintf(stderr, "new_energy: %s\n", sg_error_format(&err, text, sizeof text));
    sg_session_free(session);
    sg_store_free(store);
    sg_graph_free(graph);
    return learned ? 0 : 1;
}
