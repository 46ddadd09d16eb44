/* hvp.c - Hessian products of two nets beside their gradients: a BERT encoder and the task loss of multi-label
 * classification. Vectors are inputs; results are all gradients or products, one a parameter. */
#include <string.h>

#include "autodiff/autodiff.h"
#include "benchmarks/bench_internal.h"
#include "models/models.h"
#include "ops/ops.h"

enum { MOST_PARAMETERS = 128 };

/* The mean square of the output of a 4-layer encoder, 256 wide, on 4 sequences of 128. */
static sg_value encoder_loss(sg_scope scope)
{
    sg_bert_sizes n = {.hidden = 256, .heads = 4, .intermediate = 1024, .layers = 4};
    sg_value x = sg_input(scope.graph, "x", SG_F32, SG_SHAPE(4, 128, 256)), none = {0};
    sg_value y = sg_bert_layers(sg_scope_sub(scope, "task"), x, none, &n, false);
    return sg_mean_all(sg_square(y));
}

/* Mean over 32 dense rows of E(x, s(z)) + BCE(z, y), in the weights of the task-net. */
static sg_value bibtex_loss(sg_scope scope)
{
    static const int64_t hidden[] = {400, 400};
    sg_mlc_sizes n = {.inputs = 1836,
                      .labels = 159,
                      .layers = 2,
                      .hidden = hidden,
                      .activation = SG_ACTIVATION_SOFTPLUS,
                      .global = 200};
    sg_features x = sg_features_dense(sg_input(scope.graph, "x", SG_F32, SG_SHAPE(32, n.inputs)));
    sg_value y = sg_input(scope.graph, "y", SG_F32, SG_SHAPE(32, n.labels));
    sg_value z = sg_mlc_task(sg_scope_sub(scope, "task"), x, &n, false);
    sg_value p = sg_expand_dims(sg_sigmoid(z), 1);
    sg_value score = sg_mlc_score(sg_scope_sub(scope, "energy"), x, p, &n, false);
    return sg_sub(sg_mean_all(sg_sum(sg_bce_with_logits(z, y), -1)), sg_mean_all(score));
}

static const struct net {
    const char *name;
    sg_value (*loss)(sg_scope scope);
} nets[] = {{"encoder", encoder_loss}, {"bibtex", bibtex_loss}};

typedef enum what { GRADIENT, PRODUCT, PRODUCT_REVERSE, WHAT } what;
static const char *const whats[WHAT] = {"gradient", "hvp", "hvp_reverse"};

static sg_status declare(sg_scope scope, sg_value loss, what w, sg_error *err)
{
    sg_value p[MOST_PARAMETERS], v[MOST_PARAMETERS], out[MOST_PARAMETERS];
    char name[32];
    int32_t n = sg_params(sg_scope_sub(scope, "task"), p, MOST_PARAMETERS);
    for (int32_t i = 0; i < n && w != GRADIENT; i++) {
        snprintf(name, sizeof name, "v%d", (int)i);
        v[i] = sg_input(scope.graph, name, SG_F32, *sg_shape_of(p[i]));
    }
    if (w == GRADIENT)
        sg_grad(loss, p, n, out);
    else
        sg_hvp(loss, p, v, n, out, w == PRODUCT ? SG_HVP_FORWARD_OVER_REVERSE : SG_HVP_REVERSE_OVER_REVERSE);
    for (int32_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "g%d", (int)i);
        sg_result(scope.graph, name, out[i]);
    }
    return sg_graph_status(scope.graph, err);
}

static sg_status one_row(sg_bench *bench, const struct net *net, what w, sg_error *err)
{
    char name[80];
    snprintf(name, sizeof name, "%s/%s", net->name, whats[w]);
    sg_bench_case c = {.name = name, .graph = sg_graph_new(), .store = sg_store_new(SG_F32), .feed = sg_bench_fill};
    sg_status status = c.graph && c.store ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK) {
        sg_scope scope = sg_scope_root(c.graph, c.store);
        status = declare(scope, net->loss(scope), w, err);
    }
    if (status == SG_OK) {
        sg_store_initialise(c.store, 1);
        status = sg_bench_time(bench, &c, err);
    }
    sg_store_free(c.store);
    sg_graph_free(c.graph);
    return status;
}

/* What a product costs in gradients, in time and in memory. The gradients' rows come first, one a target. */
void sg_bench_compare(sg_bench *bench, int32_t first)
{
    for (int32_t i = first; i < bench->count; i++) {
        sg_bench_row *r = &bench->rows[i];
        const sg_bench_row *g = &bench->rows[first];
        while (g->target != r->target)
            g++;
        r->time_ratio = r->median_us / g->median_us;
        r->bytes_ratio = g->temporary_bytes > 0 ? r->temporary_bytes / g->temporary_bytes : 0;
    }
}

sg_status sg_bench_hvp_check(const char *only, sg_error *err)
{
    for (size_t k = 0; k < sizeof nets / sizeof nets[0]; k++)
        if (!only || strstr(nets[k].name, only))
            return SG_OK;
    return sg_fail(err, SG_E_ARGUMENT, "no benchmark's name holds '%s': encoder, bibtex", only);
}

sg_status sg_bench_hvp(sg_bench *bench, const char *only, sg_error *err)
{
    SG_TRY(sg_bench_hvp_check(only, err));
    for (size_t k = 0; k < sizeof nets / sizeof nets[0]; k++) {
        if (only && !strstr(nets[k].name, only))
            continue;
        int32_t first = bench->count;
        for (int w = 0; w < WHAT; w++) {
            SG_TRY(sg_bench_go_on(bench, err));
            SG_TRY(one_row(bench, &nets[k], (what)w, err));
        }
        sg_bench_compare(bench, first);
    }
    return SG_OK;
}
