/* mlc.c - task-net and loss-net of feature-based multi-label classification. */
#include "models/models.h"

#include <math.h>

static sg_value activate(sg_activation activation, sg_value x)
{
    switch (activation) {
    case SG_ACTIVATION_RELU:
        return sg_relu(x);
    case SG_ACTIVATION_TANH:
        return sg_tanh(x);
    case SG_ACTIVATION_SIGMOID:
        return sg_sigmoid(x);
    case SG_ACTIVATION_GELU:
        return sg_gelu(x);
    default:
        return sg_softplus(x);
    }
}

sg_value sg_feature_mlp(sg_scope scope, sg_features x, const sg_mlc_sizes *sizes, bool train)
{
    sg_value a = x.dense;
    int64_t in = sizes->inputs;
    for (int32_t k = 0; k < sizes->layers; k++) {
        char name[32];
        snprintf(name, sizeof name, "layer%d", k + 1);
        sg_scope layer = sg_scope_sub(scope, name);
        int64_t out = sizes->hidden[k];
        sg_value W = sg_param(layer, "W", SG_SHAPE(in, out), sg_init_kaiming_uniform(in));
        sg_value c = sg_param(layer, "c", SG_SHAPE(out), sg_init_zeros());
        sg_value product = k == 0 && sg_is_none(x.dense) ? sg_csr_matmul(x.csr, W) : sg_matmul(a, W);
        a = activate(sizes->activation, sg_add(product, c));
        if (train && sizes->dropout)
            a = sg_dropout(layer, a, sizes->dropout[k]);
        in = out;
    }
    return a;
}

static int64_t width(const sg_mlc_sizes *sizes)
{
    return sizes->layers ? sizes->hidden[sizes->layers - 1] : sizes->inputs;
}

sg_value sg_mlc_task(sg_scope scope, sg_features x, const sg_mlc_sizes *sizes, bool train)
{
    int64_t h = width(sizes);
    sg_value t = sg_feature_mlp(sg_scope_sub(scope, "features"), x, sizes, train); /* [B, h] */
    sg_value G = sg_param(scope, "G", SG_SHAPE(sizes->labels, h), sg_init_xavier_uniform(sizes->labels, h));
    return sg_matmul_nt(t, G);
}

sg_value sg_mlc_score(sg_scope scope, sg_features x, sg_value y, const sg_mlc_sizes *sizes, bool train)
{
    int64_t h = width(sizes), L = sizes->labels, m = sizes->global;
    sg_value t = sg_feature_mlp(sg_scope_sub(scope, "features"), x, sizes, train); /* [B, h] */
    sg_value b = sg_param(scope, "b", SG_SHAPE(L, h), sg_init_xavier_uniform(L, h));
    sg_value M = sg_param(scope, "M", SG_SHAPE(m, L), sg_init_kaiming_uniform(L));
    sg_value m0 = sg_param(scope, "m0", SG_SHAPE(m), sg_init_zeros());
    sg_value v = sg_param(scope, "v", SG_SHAPE(m), sg_init_normal(0, sqrt(2.0 / (double)m)));

    sg_value local = sg_sum(sg_mul(y, sg_expand_dims(sg_matmul_nt(t, b), 1)), -1); /* [B, K] */
    sg_value global = sg_matmul(sg_softplus(sg_add(sg_matmul_nt(y, M), m0)), v);
    return sg_add(local, global);
}

int64_t sg_mlc_task_parameters(const sg_mlc_sizes *sizes)
{
    int64_t count = 0, in = sizes->inputs;
    for (int32_t k = 0; k < sizes->layers; in = sizes->hidden[k++])
        count += (in + 1) * sizes->hidden[k];
    return count + sizes->labels * in;
}

int64_t sg_mlc_score_parameters(const sg_mlc_sizes *sizes)
{
    return sg_mlc_task_parameters(sizes) + sizes->global * (sizes->labels + 2);
}
