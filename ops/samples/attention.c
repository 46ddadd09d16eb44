/* attention.c - samples: scaled dot-product attention. */
#include "ops/samples/table_internal.h"

static void attend(const sg_value *in, const sg_attention_options *options, sg_value *out)
{
    out[0] = sg_attention(in[0], in[1], in[2], options);
    out[1] = sg_output_of(out[0], 1);
}

#define ATTENTION(name, ...)                                                                                           \
    static void name(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)                            \
    {                                                                                                                  \
        (void)s, (void)scope;                                                                                          \
        attend(in, &(sg_attention_options){__VA_ARGS__}, out);                                                         \
    }
ATTENTION(attention, .scale = 0)
ATTENTION(attention_causal, .causal = true, .scale = 0.8)
ATTENTION(attention_masked, .mask = in[3])
ATTENTION(attention_bias, .bias = in[3])
ATTENTION(attention_inner, .heads_inner = true)
ATTENTION(attention_all, .mask = in[3], .bias = in[4], .causal = true, .heads_inner = true, .dropout = 0.3,
          .scope = scope)
ATTENTION(attention_dropout, .dropout = 0.3, .scope = scope)

/* A gradient of the logarithms of sums alone. */
BUILD(attention_lse, sg_output_of(sg_attention(in[0], in[1], in[2], &(sg_attention_options){.scale = 0.5}), 1))

/* Batches and queries that keep no key, and keys that nobody keeps, at [3, 1, 65, 67]: all of batch 0; every query but one of batch
 * 1, which keeps the last key alone; of batch 2 the keys past the first tile of 64. */
static void keep_few(double *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t batch = i / (65 * 67), query = i / 67 % 65, key = i % 67;
        out[i] = batch == 1 ? query == 64 && key == 66 : batch == 2 && key >= 64;
    }
}

/* clang-format off */
/* q [b, h, tq, d], k [b, h, tk, d], v [b, h, tk, e]; or heads inside. */
#define QKV(b, h, tq, tk, d, e) REAL(S4(b, h, tq, d), -1, 1), REAL(S4(b, h, tk, d), -1, 1), REAL(S4(b, h, tk, e), -1, 1)
#define QKV_INNER(b, h, tq, tk, d, e)                                                                                  \
    REAL(S4(b, tq, h, d), -1, 1), REAL(S4(b, tk, h, d), -1, 1), REAL(S4(b, tk, h, e), -1, 1)
#define KEEP(shape_, ...) {.dtype = SG_BOOL, .shape = shape_, .fill = SG_FILL_GIVEN, .given = (const double[]){__VA_ARGS__}}

static const sg_sample rows[] = {
    {"attention", "", "[2, 2, 3, 3]", 3, 2, {QKV(2, 2, 3, 4, 2, 3)}, .build = attention},
    {"attention", "one", "[1, 1, 1, 1]", 3, 2, {QKV(1, 1, 1, 1, 1, 1)}, .build = attention},
    {"attention", "width of a vector", "[1, 2, 7, 16]", 3, 2, {QKV(1, 2, 7, 19, 16, 16)}, .build = attention},
    {"attention", "causal", "[1, 2, 4, 2]", 3, 2, {QKV(1, 2, 4, 4, 3, 2)}, .build = attention_causal},
    {"attention", "causal, more queries", "[1, 1, 5, 2]", 3, 2, {QKV(1, 1, 5, 3, 3, 2)}, .build = attention_causal},
    {"attention", "mask of keys", "[2, 1, 3, 2]", 4, 1, {QKV(2, 1, 3, 4, 2, 2), KEEP(S4(2, 1, 1, 4), 1, 1, 0, 1, 0, 1, 1, 0)}, .build = attention_masked},
    {"attention", "a row and a batch without keys", "[2, 1, 3, 2]", 4, 1,
     {QKV(2, 1, 3, 2, 2, 2), KEEP(S4(2, 1, 3, 2), 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0)}, .build = attention_masked},
    {"attention", "mask of queries", "[1, 2, 3, 2]", 4, 1, {QKV(1, 2, 3, 2, 2, 2), KEEP(S2(3, 1), 1, 0, 1)}, .build = attention_masked},
    {"attention", "bias", "[2, 2, 3, 2]", 4, 2, {QKV(2, 2, 3, 4, 2, 2), REAL(S3(2, 3, 4), -1, 1)}, .build = attention_bias},
    {"attention", "bias of keys", "[2, 2, 3, 2]", 4, 2, {QKV(2, 2, 3, 4, 2, 2), REAL(S4(2, 1, 1, 4), -1, 1)}, .build = attention_bias},
    {"attention", "constant bias", "[1, 2, 3, 2]", 4, 2, {QKV(1, 2, 3, 4, 2, 2), MODEL(S3(2, 3, 4))}, .build = attention_bias},
    {"attention", "heads inside", "[2, 3, 2, 3]", 3, 2, {QKV_INNER(2, 2, 3, 4, 2, 3)}, .build = attention_inner},
    {"attention", "dropout", "[2, 2, 3, 2]", 3, 2, {QKV(2, 2, 3, 4, 2, 2)}, .build = attention_dropout},
    {"attention", "all options", "[2, 4, 2, 3]", 5, 1,
     {QKV_INNER(2, 2, 4, 5, 2, 3), KEEP(S4(2, 1, 1, 5), 1, 0, 1, 1, 1, 1, 1, 0, 1, 0), MODEL(S3(2, 1, 5))}, .build = attention_all},
    {"attention", "no keys", "[2, 1, 3, 2]", 3, 1, {QKV(2, 1, 3, 0, 2, 2)}, .build = attention},
    {"attention", "no queries", "[2, 1, 0, 2]", 3, 2, {QKV(2, 1, 0, 3, 2, 2)}, .build = attention},
    {"attention", "no width", "[1, 1, 2, 0]", 3, 2, {QKV(1, 1, 2, 3, 0, 0)}, .build = attention},
    {"attention", "no batch", "[0, 2, 3, 2]", 3, 2, {QKV(0, 2, 3, 4, 2, 2)}, .build = attention},
    {"attention", "large, wide", "[1, 2, 5, 130]", 3, 2, {QKV(1, 2, 5, 7, 136, 130)}, .build = attention, .large = true},
    {"attention", "large, many scores", "[2, 8, 70, 8]", 3, 2, {QKV(2, 8, 70, 67, 8, 8)}, .build = attention, .large = true},
    {"attention", "large", "[2, 3, 61, 32]", 3, 2, {QKV(2, 3, 61, 75, 32, 32)}, .build = attention, .large = true},
    {"attention", "large, all options", "[2, 65, 3, 24]", 5, 1,
     {QKV_INNER(2, 3, 65, 73, 40, 24), FLAG(S4(2, 1, 65, 73)), MODEL(S3(3, 65, 73))}, .build = attention_all, .large = true},
    {"attention", "one query", "[1, 2, 1, 8]", 3, 2, {QKV(1, 2, 1, 129, 8, 8)}, .build = attention, .large = true},
    {"attention", "one key", "[1, 2, 129, 8]", 3, 2, {QKV(1, 2, 129, 1, 8, 8)}, .build = attention, .large = true},
    {"attention", "less than a tile", "[1, 1, 63, 16]", 3, 2, {QKV(1, 1, 63, 65, 16, 16)}, .build = attention, .large = true},
    {"attention", "a tile", "[1, 2, 64, 64]", 3, 2, {QKV(1, 2, 64, 64, 64, 64)}, .build = attention, .large = true},
    {"attention", "more than a tile", "[1, 1, 65, 33]", 3, 2, {QKV(1, 1, 65, 63, 31, 33)}, .build = attention, .large = true},
    {"attention", "less than two tiles", "[1, 1, 127, 64]", 3, 2, {QKV(1, 1, 127, 129, 64, 64)}, .build = attention, .large = true},
    {"attention", "two tiles", "[1, 1, 128, 128]", 3, 2, {QKV(1, 1, 128, 128, 128, 128)}, .build = attention, .large = true},
    {"attention", "more than two tiles", "[1, 1, 129, 24]", 3, 2, {QKV(1, 1, 129, 127, 24, 24)}, .build = attention, .large = true},
    {"attention", "many keys", "[1, 1, 3, 16]", 3, 2, {QKV(1, 1, 3, 2051, 16, 16)}, .build = attention, .large = true},
    {"attention", "many queries", "[1, 1, 2051, 4]", 3, 2, {QKV(1, 1, 2051, 3, 8, 4)}, .build = attention, .large = true},
    {"attention", "causal, tiles", "[1, 1, 129, 64]", 3, 2, {QKV(1, 1, 129, 129, 64, 64)}, .build = attention_causal, .large = true},
    {"attention", "causal, tiles, more keys", "[1, 2, 65, 32]", 3, 2, {QKV(1, 2, 65, 129, 32, 32)}, .build = attention_causal, .large = true},
    {"attention", "causal, tiles, more queries", "[1, 2, 129, 64]", 3, 2, {QKV(1, 2, 129, 65, 64, 64)}, .build = attention_causal, .large = true},
    {"attention", "causal, one query", "[1, 1, 1, 8]", 3, 2, {QKV(1, 1, 1, 65, 8, 8)}, .build = attention_causal, .large = true},
    {"attention", "tiles without keys", "[3, 1, 65, 32]", 4, 2, {QKV(3, 1, 65, 67, 32, 32), MADE(SG_BOOL, S4(3, 1, 65, 67), keep_few)}, .build = attention_masked, .large = true},
    {"attention", "logsumexp alone", "[2, 2, 3]", 3, 1, {QKV(2, 2, 3, 4, 2, 3)}, .build = attention_lse},
    {"attention", "logsumexp alone, tiles", "[1, 2, 65]", 3, 1, {QKV(1, 2, 65, 67, 16, 16)}, .build = attention_lse, .large = true},
    {"attention", "bias, tiles", "[1, 2, 65, 16]", 4, 2, {QKV(1, 2, 65, 67, 16, 16), REAL(S4(1, 2, 65, 67), -1, 1)}, .build = attention_bias, .large = true},
    {"attention", "dropout, tiles", "[1, 1, 65, 64]", 3, 2, {QKV(1, 1, 65, 129, 64, 64)}, .build = attention_dropout, .large = true},
    {"attention", "heads inside, tiles", "[2, 65, 3, 64]", 3, 2, {QKV_INNER(2, 3, 65, 33, 64, 64)}, .build = attention_inner, .large = true},
};
/* clang-format on */

const sg_sample_table sg_samples_attention = TABLE(rows);
