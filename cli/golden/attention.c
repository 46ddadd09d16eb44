/* attention.c - golden cases: scaled dot-product attention, self-attention of a layer, a BERT encoder. */
#include "cli/golden/golden_internal.h"

#include <string.h>

#include "models/models.h"

static void run_attention(sg_golden *g)
{
    sg_attention_options options = {.scale = sg_golden_real(g, "scale"), .causal = sg_golden_flag(g, "causal")};
    if (sg_golden_has(g, "keep"))
        options.mask = sg_golden_in(g, "keep");
    if (sg_golden_has(g, "bias"))
        options.bias = sg_golden_in(g, "bias");
    sg_value q = sg_golden_in(g, "q");
    if (sg_golden_attr(g, "expression"))
        q = sg_mul_scalar(q, 40);
    sg_golden_out(g, "out", sg_attention(q, sg_golden_in(g, "k"), sg_golden_in(g, "v"), &options));
}

/* Every parameter made so far is the input of its name, '.' for '/'. */
static void bind_parameters(sg_golden *g, sg_scope scope)
{
    enum { MOST = 128 };
    sg_value p[MOST];
    int32_t n = sg_params(scope, p, MOST);
    for (int32_t i = 0; i < n; i++) {
        char name[160];
        snprintf(name, sizeof name, "%s", sg_store_peek(scope.store, sg_entry_of(p[i]))->name);
        for (char *c = name; *c; c++)
            *c = *c == '/' ? '.' : *c;
        sg_golden_parameter(g, name, p[i]);
    }
}

static void run_self_attention(sg_golden *g)
{
    sg_scope scope = sg_golden_scope(g), output = sg_scope_sub(scope, "output");
    sg_value x = sg_golden_in(g, "x"), keep = sg_golden_in(g, "keep");
    sg_bert_sizes n = {.hidden = sg_dim_of(x, -1), .heads = sg_golden_int(g, "heads")};
    sg_value a = sg_bert_attention(scope, x, keep, &n, false);
    sg_value W = sg_param(output, "weight", SG_SHAPE(n.hidden, n.hidden), sg_init_zeros());
    sg_value b = sg_param(output, "bias", SG_SHAPE(n.hidden), sg_init_zeros());
    bind_parameters(g, scope);
    sg_golden_out(g, "out", sg_add(sg_matmul_nt(a, W), b));
}

static void run_bert(sg_golden *g)
{
    sg_scope scope = sg_golden_scope(g);
    sg_bert_sizes n = {.vocabulary = sg_golden_int(g, "vocab_size"),
                       .positions = sg_golden_int(g, "max_position_embeddings"),
                       .types = sg_golden_int(g, "type_vocab_size"),
                       .hidden = sg_golden_int(g, "hidden_size"),
                       .heads = sg_golden_int(g, "num_attention_heads"),
                       .intermediate = sg_golden_int(g, "intermediate_size"),
                       .layers = (int32_t)sg_golden_int(g, "num_hidden_layers"),
                       .eps = sg_golden_real(g, "layer_norm_eps"),
                       .dropout = sg_golden_real(g, "dropout")};
    sg_value hidden = sg_bert_encoder(scope, sg_golden_in(g, "ids"), sg_golden_in(g, "types"), sg_golden_in(g, "mask"),
                                      &n, n.dropout > 0);
    sg_value pooled = sg_bert_pooler(scope, hidden, &n);
    bind_parameters(g, scope);
    sg_golden_out(g, "hidden", hidden);
    sg_golden_out(g, "pooled", pooled);
}

static const sg_golden_row rows[] = {
    {"attention", NULL, run_attention, 0},
    {"attention", "attention(40 q, k, v)", run_attention, 0},
    {"self_attention", NULL, run_self_attention, 0},
    {"bert_encoder", NULL, run_bert, 0},
};

SG_GOLDEN_TABLE(attention, rows);
