/* training.c - samples: random draws, optimiser steps, loops. */
#include "ops/checkpoint_internal.h"
#include "ops/samples/table_internal.h"

BUILD(keyed_uniform, sg_keyed_uniform(sg_draw_key(scope), in[0]))
BUILD(draw_key, sg_draw_key(scope))
BUILD(uniform_like, sg_uniform_like(scope, in[0]))
BUILD(normal_like, sg_normal_like(scope, in[0]))
BUILD(bernoulli, sg_bernoulli(scope, in[0]))
BUILD(dropout, sg_dropout(scope, in[0], 0.3))

static void rng_advance(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)in;
    sg_rng(scope);
    sg_rng_advance(scope);
    out[0] = sg_rng(scope);
}

static void adam_with(sg_value *out, const sg_value *in, double weight_decay, bool decoupled)
{
    sg_adam_state now = {in[0], in[1], in[2]};
    sg_adam_state next = sg_adam(now, in[3], in[4], in[5], 0.9, 0.99, 1e-3, weight_decay, decoupled);
    out[0] = next.p;
    out[1] = next.m;
    out[2] = next.v;
}

static void adamw(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    adam_with(out, in, 0.1, true);
}

static void adam_l2(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    adam_with(out, in, 0.1, false);
}

/* Divisors that approximations are not good for everywhere. */
static void adam_without_eps(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    sg_adam_state now = {in[0], in[1], in[2]}, next = sg_adam(now, in[3], in[4], in[5], 0.9, 0.99, 0, 0.1, true);
    out[0] = next.p;
    out[1] = next.m;
    out[2] = next.v;
}

/* The gradient is a product of its own: x' g; of a sparse x; or x' g among others' columns. */
static void adam_of_product(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    adam_with(out, (sg_value[]){in[0], in[1], in[2], sg_matmul_tn(in[3], in[4]), in[5], in[6]}, 0.1, true);
}

static void adam_of_sparse(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    sg_csr x = {in[3], in[4], in[5], in[6], in[7], in[8]};
    adam_with(out, (sg_value[]){in[0], in[1], in[2], sg_csr_t_matmul(x, in[9]), in[10], in[11]}, 0, true);
}

static void adam_of_sparse_without_eps(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    sg_csr x = {in[3], in[4], in[5], in[6], in[7], in[8]};
    adam_without_eps(s, scope, (sg_value[]){in[0], in[1], in[2], sg_csr_t_matmul(x, in[9]), in[10], in[11]}, out);
}

static void adam_of_rows(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    sg_value g = sg_matmul_tn(in[3], in[4]);
    adam_with(out, (sg_value[]){in[0], in[1], in[2], sg_slice(g, 0, 1, -1), in[5], in[6]}, 0.1, false);
}

/* Two parameters whose gradients are scaled by one factor of both. */
static void adam_clipped(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    sg_value factor = sg_clip_factor((sg_value[]){in[3], in[9]}, 2, 1, NULL);
    adam_with(out, (sg_value[]){in[0], in[1], in[2], sg_mul(in[3], factor), in[4], in[5]}, 0.1, true);
    adam_with(out + 3, (sg_value[]){in[6], in[7], in[8], sg_mul(in[9], factor), in[4], in[5]}, 0.1, true);
}

static void sgd_of_product(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    sg_sgd_state next = sg_sgd((sg_sgd_state){in[0], in[1]}, sg_matmul_tn(in[2], in[3]), in[4], 0.9, 0.01, true);
    out[0] = next.p;
    out[1] = next.u;
}

/* x <- tanh(x) + w, twice: w is captured. */
static void loop_body(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    (void)body;
    next[0] = sg_add(sg_tanh(state[0]), *(const sg_value *)user);
}

static void repeat(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s;
    sg_value w = in[1];
    sg_repeat(scope.graph, 2, loop_body, &w, in, 1, out, false);
}

/* tanh(a b) a as a segment that is computed again. */
static void checkpoint(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s;
    int32_t begin = sg_checkpoint_begin(scope.graph);
    out[0] = sg_mul(sg_tanh(sg_mul(in[0], in[1])), in[0]);
    sg_checkpoint_end(scope.graph, begin, out, 1);
}

/* Two results, one read by the other's reader. */
static void checkpoint_pair(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s;
    int32_t begin = sg_checkpoint_begin(scope.graph);
    out[0] = sg_exp(in[0]);
    out[1] = sg_mul(out[0], in[1]);
    sg_checkpoint_end(scope.graph, begin, out, 2);
}

BUILD(barrier, sg_barrier(sg_tanh(in[0]), in[1]))

/* clang-format off */
#define STATE(S, ...) REAL(S(__VA_ARGS__), -1, 1), REAL(S(__VA_ARGS__), -1, 1), REAL(S(__VA_ARGS__), 0.3, 1)
#define RATES REAL(S0, 0.1, 0.3), REAL(S0, 2, 3)
#define ADAM_PARTS(S, ...) STATE(S, __VA_ARGS__), REAL(S(__VA_ARGS__), -1, 1)
#define ADAM_INPUTS(S, ...) ADAM_PARTS(S, __VA_ARGS__), RATES

static const sg_sample rows[] = {
    {"draw_key", "", "[4]", 0, 1, {{0}}, .build = draw_key, .flat = true},
    {"keyed_uniform", "", "[3, 33]", 1, 1, {MODEL(S2(3, 33))}, .build = keyed_uniform},
    {"keyed_uniform", "", "[0, 3]", 1, 1, {MODEL(S2(0, 3))}, .build = keyed_uniform},
    {"uniform_like", "", "[3, 33]", 1, 1, {MODEL(S2(3, 33))}, .build = uniform_like},
    {"uniform_like", "", "[0, 3]", 1, 1, {MODEL(S2(0, 3))}, .build = uniform_like},
    {"normal_like", "", "[3, 33]", 1, 1, {MODEL(S2(3, 33))}, .build = normal_like},
    {"normal_like", "", "[1]", 1, 1, {MODEL(S1(1))}, .build = normal_like},
    {"uniform_like", "bernoulli", "[33]", 1, 1, {REAL(S1(33), 0.1, 0.9)}, .build = bernoulli, .flat = true},
    {"uniform_like", "dropout", "[33]", 1, 1, {REAL(S1(33), -1, 1)}, .build = dropout},
    {"rng_advance", "", "[4]", 0, 1, {{0}}, .build = rng_advance, .flat = true},
    {"adam", "decoupled", "[3, 5]", 6, 3, {ADAM_INPUTS(S2, 3, 5)}, .build = adamw},
    {"adam", "l2", "[33]", 6, 3, {ADAM_INPUTS(S1, 33)}, .build = adam_l2},
    {"adam", "no eps", "[33]", 6, 3, {ADAM_INPUTS(S1, 33)}, .build = adam_without_eps},
    {"adam", "empty", "[0]", 6, 3, {ADAM_INPUTS(S1, 0)}, .build = adamw},
    {"uniform_like", "large dropout", "[301, 257]", 1, 1, {REAL(S2(301, 257), -1, 1)}, .build = dropout, .large = true},
    {"adam", "large", "[301, 257]", 6, 3, {ADAM_INPUTS(S2, 301, 257)}, .build = adamw, .large = true},
    {"adam", "one", "[1]", 6, 3, {ADAM_INPUTS(S1, 1)}, .build = adam_l2, .large = true},
    {"adam", "three", "[3]", 6, 3, {ADAM_INPUTS(S1, 3)}, .build = adamw, .large = true},
    {"adam", "past a tile", "[4099]", 6, 3, {ADAM_INPUTS(S1, 4099)}, .build = adamw, .large = true},
    {"adam", "before a tile", "[3, 1365]", 6, 3, {ADAM_INPUTS(S2, 3, 1365)}, .build = adam_l2, .large = true},
    {"adam", "of a product", "[5, 3]", 7, 3, {STATE(S2, 5, 3), REAL(S2(1030, 5), -0.1, 0.1), REAL(S2(1030, 3), -1, 1), RATES}, .build = adam_of_product, .large = true},
    {"adam", "of a product", "[1, 17]", 7, 3, {STATE(S2, 1, 17), REAL(S2(515, 1), -0.1, 0.1), REAL(S2(515, 17), -1, 1), RATES}, .build = adam_of_product, .large = true},
    {"adam", "of a product", "[67, 131]", 7, 3, {STATE(S2, 67, 131), REAL(S2(5, 67), -1, 1), REAL(S2(5, 131), -1, 1), RATES}, .build = adam_of_product, .large = true},
    {"adam", "of a product", "[67, 48]", 7, 3, {STATE(S2, 67, 48), REAL(S2(5, 67), -1, 1), REAL(S2(5, 48), -1, 1), RATES}, .build = adam_of_product, .large = true},
    {"adam", "of a product", "[13, 16]", 7, 3, {STATE(S2, 13, 16), REAL(S2(255, 13), -0.1, 0.1), REAL(S2(255, 16), -1, 1), RATES}, .build = adam_of_product, .large = true},
    {"adam", "of a product", "[1, 528]", 7, 3, {STATE(S2, 1, 528), REAL(S2(3, 1), -1, 1), REAL(S2(3, 528), -1, 1), RATES}, .build = adam_of_product, .large = true},
    {"adam", "of rows of a product", "[17, 3]", 7, 3, {STATE(S2, 17, 3), REAL(S2(259, 19), -0.1, 0.1), REAL(S2(259, 3), -1, 1), RATES}, .build = adam_of_rows, .large = true},
    {"adam", "of a sparse product", "[5, 33]", 12, 3,
     {STATE(S2, 5, 33), REAL(S1(8), -1, 1), GIVEN_I32(S1(8), 1, 3, 0, 1, 4, 3, 0, 0), GIVEN_I32(S1(5), 0, 2, 2, 5, 6),
      GIVEN_I32(S1(8), 2, 0, 2, 0, 3, 2, 0, 0), GIVEN_I32(S1(8), 2, 0, 3, 1, 5, 4, 0, 0), GIVEN_I32(S1(6), 0, 1, 3, 3, 5, 6),
      REAL(S2(4, 33), -1, 1), RATES}, .build = adam_of_sparse, .large = true},
    {"adam", "of a sparse product, no eps", "[5, 33]", 12, 3,
     {STATE(S2, 5, 33), REAL(S1(8), -1, 1), GIVEN_I32(S1(8), 1, 3, 0, 1, 4, 3, 0, 0), GIVEN_I32(S1(5), 0, 2, 2, 5, 6),
      GIVEN_I32(S1(8), 2, 0, 2, 0, 3, 2, 0, 0), GIVEN_I32(S1(8), 2, 0, 3, 1, 5, 4, 0, 0), GIVEN_I32(S1(6), 0, 1, 3, 3, 5, 6),
      REAL(S2(4, 33), -1, 1), RATES}, .build = adam_of_sparse_without_eps, .large = true},
    {"adam", "clipped, two", "[33, 3]", 10, 6, {ADAM_INPUTS(S2, 33, 3), ADAM_PARTS(S1, 515)}, .build = adam_clipped, .large = true},
    /* Both factors are small: directions have elements up to 1, so the product's tangent is 515 terms of their size, and the rate's
     * second derivative a sum of 30 products of such tangents, of which bf16 keeps 2^-9 each. */
    {"mul", "sgd of a product", "[3, 5]", 5, 2,
     {REAL(S2(3, 5), -1, 1), REAL(S2(3, 5), -1, 1), REAL(S2(515, 3), -0.1, 0.1), REAL(S2(515, 5), -0.1, 0.1), REAL(S0, 0.1, 0.3)},
     .build = sgd_of_product, .large = true},
    {"uniform_like", "dropout, odd size", "[1027, 3]", 1, 1, {REAL(S2(1027, 3), -1, 1)}, .build = dropout, .large = true},
    {"normal_like", "odd size", "[4099]", 1, 1, {MODEL(S1(4099))}, .build = normal_like, .large = true},
    {"keyed_uniform", "odd size", "[3, 1027]", 1, 1, {MODEL(S2(3, 1027))}, .build = keyed_uniform, .large = true},
    {"barrier", "", "[3, 4]", 2, 1, {REAL(S2(3, 4), -1, 1), REAL(S1(2), -1, 1)}, .build = barrier},
    {"barrier", "empty", "[0]", 2, 1, {REAL(S1(0), -1, 1), REAL(S1(2), -1, 1)}, .build = barrier},
    {"checkpoint", "", "[3, 4]", 2, 1, {REAL(S2(3, 4), -1, 1), REAL(S1(4), -1, 1)}, .build = checkpoint},
    {"checkpoint", "two results", "[4]", 2, 2, {REAL(S1(4), -1, 1), REAL(S1(4), -1, 1)}, .build = checkpoint_pair},
    {"checkpoint", "empty", "[0]", 2, 1, {REAL(S1(0), -1, 1), REAL(S1(0), -1, 1)}, .build = checkpoint},
    {"repeat", "", "[3]", 2, 1, {REAL(S1(3), -1, 1), REAL(S1(3), -1, 1)}, .build = repeat, .flat = true},
};
/* clang-format on */

const sg_sample_table sg_samples_training = TABLE(rows);
