/* bert.c - the encoder of BERT (Devlin et al. 2019): embeddings, then layers of self-attention and a two-layer net, each
 * followed by dropout, the residual and layer normalisation of the sum ("post-LN"). Entries are named as in the
 * published checkpoints, with '/' for '.'; weights are [out, in].
 *
 * The projections leave [B, T, H]; seen as [B, T, heads, H / heads] attention takes it as it is, so that nothing is
 * transposed. */
#include "models/models.h"

/* The published standard deviation of every weight at the start. */
#define WEIGHT_STD 0.02
#define DEFAULT_EPS 1e-12

static sg_scope at(sg_scope scope, const char *a, const char *b)
{
    sg_scope inner = sg_scope_sub(scope, a);
    return b ? sg_scope_sub(inner, b) : inner;
}

static sg_value weight(sg_scope scope, int64_t rows, int64_t columns)
{
    return sg_param(scope, "weight", SG_SHAPE(rows, columns), sg_init_normal(0, WEIGHT_STD));
}

/* x W' + b. */
static sg_value dense(sg_scope scope, sg_value x, int64_t in, int64_t out)
{
    sg_value W = weight(scope, out, in);
    sg_value b = sg_param(scope, "bias", SG_SHAPE(out), sg_init_zeros());
    return sg_add(sg_matmul_nt(x, W), b);
}

static sg_value norm(sg_scope scope, sg_value x, const sg_bert_sizes *n)
{
    sg_scope s = sg_scope_sub(scope, "LayerNorm");
    sg_value gamma = sg_param(s, "weight", SG_SHAPE(n->hidden), sg_init_constant(1));
    sg_value beta = sg_param(s, "bias", SG_SHAPE(n->hidden), sg_init_zeros());
    return sg_layer_norm(x, gamma, beta, n->eps > 0 ? n->eps : DEFAULT_EPS);
}

static sg_value drop(sg_scope scope, sg_value x, double rate, bool train)
{
    return train ? sg_dropout(scope, x, rate) : x;
}

static sg_value leading(sg_value x, const sg_bert_sizes *n)
{
    return n->leading > 0 ? sg_slice(x, 1, 0, n->leading) : x;
}

/* [B, T, H] as [B, T, heads, H / heads], and back. */
static sg_value split(sg_value x, int64_t heads) { return sg_reshape(x, SG_SHAPE(0, 0, heads, -1)); }
static sg_value join(sg_value x) { return sg_reshape(x, SG_SHAPE(0, 0, -1)); }

sg_value sg_bert_attention(sg_scope scope, sg_value x, sg_value mask, const sg_bert_sizes *n, bool train)
{
    int64_t H = n->hidden;
    sg_attention_options options = {.heads_inner = true, .dropout = train ? n->attention_dropout : 0, .scope = scope};
    if (mask.graph)
        options.mask = sg_expand_dims(sg_expand_dims(mask, 1), 1); /* [B, 1, 1, T] */
    sg_value q = split(dense(sg_scope_sub(scope, "query"), leading(x, n), H, H), n->heads);
    sg_value k = split(dense(sg_scope_sub(scope, "key"), x, H, H), n->heads);
    sg_value v = split(dense(sg_scope_sub(scope, "value"), x, H, H), n->heads);
    return join(sg_attention(q, k, v, &options));
}

static sg_value layer(sg_scope scope, sg_value x, sg_value mask, const sg_bert_sizes *n, bool train)
{
    int64_t H = n->hidden, F = n->intermediate;
    sg_scope attention = sg_scope_sub(scope, "attention"), output = sg_scope_sub(scope, "output");
    sg_scope attended = sg_scope_sub(attention, "output");
    sg_value a = sg_bert_attention(sg_scope_sub(attention, "self"), x, mask, n, train);
    a = drop(attended, dense(sg_scope_sub(attended, "dense"), a, H, H), n->dropout, train);
    x = norm(attended, sg_add(a, leading(x, n)), n);
    sg_value f = sg_gelu(dense(at(scope, "intermediate", "dense"), x, H, F));
    f = drop(output, dense(sg_scope_sub(output, "dense"), f, F, H), n->dropout, train);
    return norm(output, sg_add(f, x), n);
}

sg_value sg_bert_layers(sg_scope scope, sg_value x, sg_value mask, const sg_bert_sizes *n, bool train)
{
    if (n->heads < 1 || n->hidden % n->heads)
        return sg_graph_fail(scope.graph, SG_E_ARGUMENT, x, "BERT: hidden size %lld is no multiple of %lld heads",
                             (long long)n->hidden, (long long)n->heads);
    sg_scope layers = at(scope, "encoder", "layer");
    sg_bert_sizes whole = *n;
    whole.leading = 0; /* keys and values of a layer are of all pieces */
    for (int32_t i = 0; i < n->layers; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", (int)i);
        x = layer(sg_scope_sub(layers, number), x, mask, i + 1 < n->layers ? &whole : n, train);
    }
    return n->layers > 0 ? x : leading(x, n);
}

/* 0, 1, .. T - 1 as [1, T], for ids [B, T]: counted, so that no size is kept. A batch of size 0 has no first row to count
 * in: the sum over the batch of zeros stands for it. */
static sg_value positions(sg_value ids)
{
    sg_value row = sg_sum_axes(sg_zeros_like(sg_cast(ids, SG_F32)), SG_AXES(0), true);
    return sg_cast(sg_add_scalar(sg_cumsum(sg_ones_like(row), 1), -1), SG_I32);
}

sg_value sg_bert_embeddings(sg_scope scope, sg_value ids, sg_value types, const sg_bert_sizes *n, bool train)
{
    sg_scope s = sg_scope_sub(scope, "embeddings");
    sg_value words = weight(sg_scope_sub(s, "word_embeddings"), n->vocabulary, n->hidden);
    sg_value places = weight(sg_scope_sub(s, "position_embeddings"), n->positions, n->hidden);
    sg_value kinds = weight(sg_scope_sub(s, "token_type_embeddings"), n->types, n->hidden);
    if (sg_is_none(ids))
        return SG_NONE;
    sg_value kind = types.graph ? sg_gather(kinds, types) : sg_slice(kinds, 0, 0, 1);
    sg_value x = sg_add(sg_add(sg_gather(words, ids), kind), sg_gather(places, positions(ids)));
    return drop(s, norm(s, x, n), n->dropout, train);
}

sg_value sg_bert_encoder(sg_scope scope, sg_value ids, sg_value types, sg_value mask, const sg_bert_sizes *n,
                         bool train)
{
    sg_value x = sg_bert_embeddings(scope, ids, types, n, train);
    return sg_is_none(x) ? SG_NONE : sg_bert_layers(scope, x, mask, n, train);
}

sg_value sg_bert_pooler(sg_scope scope, sg_value hidden, const sg_bert_sizes *n)
{
    sg_value first = sg_squeeze(sg_slice(hidden, 1, 0, 1), 1);
    return sg_tanh(dense(at(scope, "pooler", "dense"), first, n->hidden, n->hidden));
}
