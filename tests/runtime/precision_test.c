/* The pass for mixed precision, without a device that has bf16: which nodes it changes, how many casts it needs, and that the
 * graph still says the same, which `reference` can tell, as it rounds nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "cli/check/bench_internal.h"
#include "models/models.h"
#include "ops/ops.h"
#include "ops/repeat_internal.h"
#include "runtime/plan_internal.h"
#include "runtime/precision_internal.h"
#include "runtime/runtime.h"
#include "tests/support/graph_run.h"

#define SG_OP(name) extern const sg_op sg_op_##name;
#include "ops/op_list.h"
#undef SG_OP

static sg_graph *pass(sg_graph *graph)
{
    sg_graph *out;
    sg_error err = {0};
    if (sg_precision_pass(graph, SG_BF16, &out, &err) != SG_OK || sg_graph_verify(out, &err) != SG_OK)
        fail_msg("%s (op %s, node %s)", err.text, err.op, err.node);
    return out;
}

/* ---- counting */

static const bool *live_nodes(sg_graph *graph)
{
    static bool live[20000];
    int32_t root[256], n = 0, entry;
    assert_true(sg_node_count(graph) <= 20000 && sg_result_count(graph) + sg_effect_count(graph) <= 256);
    memset(live, 0, sizeof live);
    for (int32_t i = 0; i < sg_result_count(graph); i++)
        root[n++] = sg_result_value(graph, i).id;
    for (int32_t i = 0; i < sg_effect_count(graph); i++)
        sg_effect_at(graph, i, &entry, &root[n++]);
    sg_graph_reach(graph, root, n, false, live);
    return live;
}

/* Live nodes of an op whose first output has this type. */
static int count(sg_graph *graph, const sg_op *op, sg_dtype dtype)
{
    const bool *live = live_nodes(graph);
    int n = 0;
    for (int32_t i = 0; i < sg_node_count(graph); i++) {
        const sg_node *node = sg_node_at(graph, i);
        n += live[i] && node->op == op && sg_dtype_of(sg_value_at(graph, node->out)) == dtype;
    }
    return n;
}

/* Live casts to bf16 of store entries. */
static int weights_rounded(sg_graph *graph)
{
    const bool *live = live_nodes(graph);
    int n = 0;
    for (int32_t i = 0; i < sg_node_count(graph); i++) {
        const sg_node *node = sg_node_at(graph, i);
        n += live[i] && node->op == &sg_op_cast && sg_dtype_of(sg_value_at(graph, node->out)) == SG_BF16 &&
             sg_node_of(sg_value_at(graph, node->in[0]))->op == &sg_op_param;
    }
    return n;
}

/* ---- classes */

static void every_op_has_a_class(void **state)
{
    (void)state;
    for (int32_t i = 0; i < sg_op_count(); i++) {
        const sg_op *op = sg_op_at(i);
        uint32_t class = sg_op_precision(op);
        bool one = class == SG_OP_LOW || class == SG_OP_FOLLOWS || class == SG_OP_FULL;
        if (one == (bool)(op->flags & SG_OP_LEAF))
            fail_msg("%s has class %u", op->name, (unsigned)class);
    }
}

/* ---- a net, by hand */

enum { B = 4, D = 6, H = 5 };

typedef struct net {
    sg_graph *graph;
    sg_store *store;
    sg_value x, w1, w2, bias, loss;
} net;

/* mean over rows of (w2 . relu(x W1 + b) - 1)^2 */
static net open_net(sg_dtype real)
{
    net n = {.graph = sg_graph_new(), .store = sg_store_new(real)};
    sg_scope s = sg_scope_root(n.graph, n.store);
    n.x = sg_input(n.graph, "x", SG_F32, SG_SHAPE(B, D));
    n.w1 = sg_param(s, "w1", SG_SHAPE(D, H), sg_init_normal(0, 1));
    n.bias = sg_param(s, "b", SG_SHAPE(H), sg_init_zeros());
    n.w2 = sg_param(s, "w2", SG_SHAPE(H, 3), sg_init_normal(0, 1));
    sg_value h = sg_relu(sg_add(sg_matmul(n.x, n.w1), n.bias));
    sg_value y = sg_matmul(h, n.w2);
    n.loss = sg_mean_all(sg_square(sg_add_scalar(y, -1)));
    sg_result(n.graph, "loss", n.loss);
    sg_store_initialise(n.store, 3);
    return n;
}

static void close_net(net *n)
{
    sg_graph_free(n->graph);
    sg_store_free(n->store);
}

static void products_are_low_and_losses_are_not(void **state)
{
    (void)state;
    net n = open_net(SG_F32);
    sg_graph *low = pass(n.graph);
    assert_int_equal(count(low, &sg_op_matmul, SG_BF16), 2);
    assert_int_equal(count(low, &sg_op_matmul, SG_F32), 0);
    assert_int_equal(count(low, &sg_op_relu, SG_BF16), 1);
    assert_int_equal(count(low, &sg_op_square, SG_F32), 1);
    assert_int_equal(count(low, &sg_op_mean, SG_F32), 1);
    assert_int_equal(sg_dtype_of(sg_result_value(low, 0)), SG_F32);
    sg_graph_free(low);
    close_net(&n);
}

/* The forward pass and two products of the backward pass read the weights; the bias joins a bf16 sum. */
static void a_weight_is_rounded_once(void **state)
{
    (void)state;
    net n = open_net(SG_F32);
    sg_value w[] = {n.w1, n.bias, n.w2}, g[3];
    sg_grad(n.loss, w, 3, g);
    for (int k = 0; k < 3; k++)
        sg_assign(w[k], sg_sub(w[k], sg_mul_scalar(g[k], 0.1)));
    sg_graph *low = pass(n.graph);
    assert_int_equal(weights_rounded(low), 3);
    assert_int_equal(count(low, &sg_op_matmul, SG_F32), 0);
    assert_int_equal(sg_effect_count(low), 3);
    assert_int_equal(count(low, &sg_op_sub, SG_F32), 3);
    assert_int_equal(count(low, &sg_op_sub, SG_BF16), 0);
    sg_graph_free(low);
    close_net(&n);
}

/* Between products and Adam everything is f32: squares and sums of the norm, the factor, the moments. */
static void norms_and_moments_are_full(void **state)
{
    (void)state;
    net n = open_net(SG_F32);
    sg_scope s = sg_scope_root(n.graph, n.store);
    sg_value w[] = {n.w1, n.w2}, g[2];
    sg_grad(n.loss, w, 2, g);
    sg_value factor = sg_clip_factor(g, 2, 1, NULL);
    sg_value m = sg_state(s, "m", SG_F32, SG_SHAPE(D, H), sg_init_zeros());
    sg_assign(m, sg_add(sg_mul_scalar(m, 0.9), sg_mul(g[0], factor)));
    sg_graph *low = pass(n.graph);
    assert_int_equal(count(low, &sg_op_square, SG_BF16), 0);
    assert_int_equal(count(low, &sg_op_sqrt, SG_BF16), 0);
    assert_int_equal(count(low, &sg_op_sum, SG_BF16), 0);
    int32_t entry, value;
    sg_effect_at(low, 0, &entry, &value);
    const sg_node *sum = sg_node_of(sg_value_at(low, value));
    assert_ptr_equal(sum->op, &sg_op_add);
    sg_graph_free(low);
    close_net(&n);
}

static sg_value normalised(const sg_op *op, sg_scope s, sg_value x, sg_value gamma, sg_value beta)
{
    sg_value still = sg_state(s, "running", SG_F32, SG_SHAPE(H), sg_init_zeros());
    return op == &sg_op_layer_norm   ? sg_layer_norm(x, gamma, beta, 1e-5)
           : op == &sg_op_rms_norm   ? sg_add(sg_rms_norm(x, gamma, 1e-5), beta)
           : op == &sg_op_group_norm ? sg_group_norm(x, 1, gamma, beta, 1e-5)
                                     : sg_batch_norm(x, gamma, beta, still, still, 0.1, 1e-5).y;
}

/* Rows of a norm are bf16, gamma and beta and their gradients f32. */
static void keeps_its_parameters(const sg_op *norm)
{
    net n = open_net(SG_F32);
    sg_scope s = sg_scope_root(n.graph, n.store);
    sg_value affine[] = {sg_param(s, "gamma", SG_SHAPE(H), sg_init_constant(1)),
                         sg_param(s, "beta", SG_SHAPE(H), sg_init_zeros())};
    sg_value y = normalised(norm, s, sg_matmul(n.x, n.w1), affine[0], affine[1]), g[2], hv[2];
    sg_value loss = sg_mean_all(sg_square(sg_matmul(y, n.w2)));
    sg_grad(loss, affine, 2, g);
    sg_hvp(loss, affine, affine, 2, hv, SG_HVP_FORWARD_OVER_REVERSE);
    for (int k = 0; k < 2; k++)
        sg_assign(affine[k], sg_add(g[k], hv[k]));
    sg_graph *low = pass(n.graph);
    const bool *live = live_nodes(low);
    int seen = 0;
    for (int32_t i = 0; i < sg_node_count(low); i++) {
        const sg_node *node = sg_node_at(low, i);
        const sg_op *op = node->op;
        while (op->parent)
            op = op->parent;
        if (!live[i] || op != norm)
            continue;
        seen++;
        assert_int_equal(sg_dtype_of(sg_value_at(low, node->in[0])), SG_BF16);
        assert_int_equal(sg_dtype_of(sg_value_at(low, node->in[1])), SG_F32);
        if (norm->n_in > 2)
            assert_int_equal(sg_dtype_of(sg_value_at(low, node->in[2])), SG_F32);
    }
    assert_true(seen >= 4);
    sg_graph_free(low);
    close_net(&n);
}

static void norms_keep_their_parameters(void **state)
{
    (void)state;
    const sg_op *const norms[] = {&sg_op_layer_norm, &sg_op_rms_norm, &sg_op_group_norm, &sg_op_batch_norm};
    for (int k = 0; k < 4; k++)
        keeps_its_parameters(norms[k]);
}

/* ---- the same meaning */

static void equal_on_reference(sg_graph *a, sg_graph *b, sg_store *store, const char *const *names, double *const *feed,
                               int32_t n_in)
{
    double *x[64], *y[64];
    int32_t n = sg_result_count(a);
    assert_int_equal(n, sg_result_count(b));
    assert_true(n <= 64);
    for (int32_t k = 0; k < n; k++) {
        int64_t size = sg_shape_count(sg_shape_of(sg_result_value(a, k)));
        assert_int_equal(sg_dtype_of(sg_result_value(a, k)), sg_dtype_of(sg_result_value(b, k)));
        x[k] = test_calloc((size_t)size + 1, sizeof(double));
        y[k] = test_calloc((size_t)size + 1, sizeof(double));
    }
    assert_true(graph_run(a, store, "reference", 1, names, feed, n_in, x));
    assert_true(graph_run(b, store, "reference", 1, names, feed, n_in, y));
    for (int32_t k = 0; k < n; k++) {
        for (int64_t i = 0; i < sg_shape_count(sg_shape_of(sg_result_value(a, k))); i++)
            if (!(fabs(x[k][i] - y[k][i]) <= 1e-12 * fmax(1, fabs(x[k][i])) || x[k][i] == y[k][i] ||
                  (isnan(x[k][i]) && isnan(y[k][i]))))
                fail_msg("%s [%d]: %.17g, expected %.17g", sg_result_name(a, k), (int)i, y[k][i], x[k][i]);
        test_free(x[k]);
        test_free(y[k]);
    }
}

static const sg_bert_sizes sizes = {.vocabulary = 11,
                                    .positions = 8,
                                    .types = 2,
                                    .hidden = 12,
                                    .heads = 3,
                                    .intermediate = 20,
                                    .layers = 2,
                                    .dropout = 0.1,
                                    .attention_dropout = 0.1};
enum { ROWS = 2, WORDS = 7 };

/* Gradient and Hessian product of an encoder: every product, attention and normalisation in bf16 at each order. */
static void encoder(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F64);
    sg_scope scope = sg_scope_root(graph, store);
    sg_value ids = sg_input(graph, "ids", SG_I32, SG_SHAPE(ROWS, WORDS)), p[64], g[64], h[64];
    sg_value mask = sg_input(graph, "mask", SG_BOOL, SG_SHAPE(ROWS, WORDS));
    sg_value hidden = sg_bert_encoder(scope, ids, SG_NONE, mask, &sizes, true);
    sg_value loss = sg_mean_all(sg_square(sg_tanh(hidden)));
    int32_t n = sg_params(scope, p, 64);
    assert_true(n > 0 && n <= 64);
    sg_grad(loss, p, n, g);
    sg_hvp(loss, p, p, n, h, SG_HVP_FORWARD_OVER_REVERSE);
    sg_result(graph, "loss", loss);
    for (int32_t k = 0; k < n; k += 5) {
        char name[16];
        snprintf(name, sizeof name, "g%d", (int)k);
        sg_result(graph, name, g[k]);
        snprintf(name, sizeof name, "h%d", (int)k);
        sg_result(graph, name, h[k]);
    }
    sg_store_initialise(store, 5);
    sg_graph *low = pass(graph);
    const sg_op *const ops[] = {&sg_op_matmul,         &sg_op_attention,      &sg_op_attention_vjp,
                                &sg_op_layer_norm,     &sg_op_layer_norm_vjp, &sg_op_attention_vjp_jvp,
                                &sg_op_layer_norm_jvp, &sg_op_gelu,           &sg_op_layer_norm_vjp_jvp};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (count(low, ops[i], SG_F32))
            fail_msg("%d nodes of %s in f32", count(low, ops[i], SG_F32), ops[i]->name);
        assert_int_equal(count(low, ops[i], SG_BF16), count(graph, ops[i], SG_F32));
    }
    assert_int_equal(count(low, &sg_op_uniform_like, SG_BF16), 0);
    double word[ROWS * WORDS], kept[ROWS * WORDS];
    for (int32_t i = 0; i < ROWS * WORDS; i++) {
        word[i] = i * 5 % 11;
        kept[i] = i % WORDS < WORDS - 2 * (i / WORDS);
    }
    equal_on_reference(graph, low, store, (const char *const[]){"ids", "mask"}, (double *const[]){word, kept}, 2);
    sg_graph_free(low);
    sg_graph_free(graph);
    sg_store_free(store);
}

/* Values and derivatives to third order of every sample. */
static void samples(void **state)
{
    (void)state;
    for (int32_t i = 0; i < sg_sample_count(); i++) {
        const sg_sample *sample = sg_sample_at(i);
        sg_finding finding = {.passed = true, .limit = 1};
        sg_bench b;
        uint32_t class = sg_op_precision(sg_op_find(sample->op));
        if (sample->large || class == SG_OP_FULL)
            continue;
        assert_true(sg_bench_open(&b, sample, SG_F64, &finding));
        for (int32_t k = 0; k < sample->n_out; k++) {
            char name[16];
            snprintf(name, sizeof name, "y%d", (int)k);
            if (sample->flat)
                sg_result(b.graph, name, b.out[k]);
        }
        if (!sample->flat)
            sg_bench_declare_orders(&b);
        char names[SG_SAMPLE_INPUTS][16];
        const char *name[SG_SAMPLE_INPUTS];
        for (int32_t k = 0; k < sample->n_in; k++) {
            snprintf(names[k], sizeof names[k], "x%d", (int)k);
            name[k] = names[k];
        }
        sg_graph *low = pass(b.graph);
        equal_on_reference(b.graph, low, b.store, name, b.feed, sample->n_in);
        sg_graph_free(low);
        sg_bench_close(&b);
    }
}

/* The rules of operators that may run in bf16 take it, at every order. */
static void rules_in_bf16(void **state)
{
    (void)state;
    for (int32_t i = 0; i < sg_sample_count(); i++) {
        const sg_sample *sample = sg_sample_at(i);
        sg_finding finding = {.passed = true, .limit = 1};
        sg_bench b;
        if (sample->large || sample->reference_only || sg_op_precision(sg_op_find(sample->op)) == SG_OP_FULL)
            continue;
        bool good = sg_bench_open_low(&b, sample, SG_F64, &finding);
        if (good && !sample->flat) {
            sg_bench_declare_orders(&b);
            good = sg_bench_sound(&b);
        }
        if (!good)
            fail_msg("%s %s: %s", sample->op, sample->note, finding.text);
        sg_bench_close(&b);
    }
}

/* ---- loops */

static void step(void *user, sg_graph *body, const sg_value *s, sg_value *next)
{
    const net *n = user;
    (void)body;
    sg_value h = sg_relu(sg_matmul(n->x, n->w1)); /* [B, H], both captured */
    next[0] = sg_add(sg_matmul(s[0], n->w2), sg_matmul(h, n->w2));
}

/* The state stays f32; what the loop captures is not cast up and down again. */
static void loops(void **state)
{
    (void)state;
    net n = open_net(SG_F64);
    sg_value hidden = sg_matmul(n.x, n.w1), s = sg_constant(n.graph, SG_F32, SG_SHAPE(B, H), &(double){0.5}, 1);
    n.w2 = sg_matmul(sg_reshape(sg_slice(hidden, 0, 0, 1), SG_SHAPE(H, 1)), sg_slice(hidden, 0, 1, 2)); /* [H, H] */
    sg_repeat(n.graph, 3, step, &n, &s, 1, &s, false);
    sg_result(n.graph, "s", s);
    sg_graph *low = pass(n.graph);
    assert_int_equal(sg_dtype_of(sg_result_value(low, 1)), SG_F32);
    const sg_node *loop = sg_node_of(sg_result_value(low, 1));
    assert_ptr_equal(loop->op, &sg_op_repeat);
    sg_graph *body = sg_repeat_body(loop);
    assert_int_equal(count(body, &sg_op_matmul, SG_F32), 0);
    bool captured = false;
    for (int32_t j = 0; j < sg_body_input_count(body); j++) {
        sg_value inner, outer;
        sg_body_input_at(body, j, &inner, &outer);
        captured |= sg_dtype_of(inner) == SG_BF16 && sg_node_of(outer)->op == &sg_op_matmul;
    }
    assert_true(captured);
    double x[B * D];
    for (int32_t i = 0; i < B * D; i++)
        x[i] = test_uniform(1, i) - 0.5;
    equal_on_reference(n.graph, low, n.store, (const char *const[]){"x"}, (double *const[]){x}, 1);
    sg_graph_free(low);
    close_net(&n);
}

/* ---- a device with few kernels in bf16 */

struct sg_device {
    int nothing;
};
static int32_t low_products, low_others;

static sg_status few_open(const sg_device_options *options, sg_device **out, sg_error *err)
{
    static sg_device device;
    (void)options, (void)err;
    *out = &device;
    return SG_OK;
}
static void few_close(sg_device *device) { (void)device; }
static const char *few_describe(const sg_device *device) { return device ? "few" : ""; }
static bool few_computes(const sg_device *device, sg_dtype dtype) { return device && dtype == SG_BF16; }

static bool in_bf16(const sg_kernel_spec *spec)
{
    bool any = false;
    for (int32_t k = 0; k < spec->n_in; k++)
        any |= spec->in_dtype[k] == SG_BF16;
    for (int32_t k = 0; k < spec->n_out; k++)
        any |= spec->out_dtype[k] == SG_BF16;
    return any;
}

/* Casts and products in both types; of the rest, what is in f32. */
static bool few_supports(const sg_device *device, const sg_kernel_spec *spec)
{
    (void)device;
    return !in_bf16(spec) || spec->node->op == &sg_op_cast || spec->node->op == &sg_op_matmul;
}

static bool few_launch(const sg_launch *launch, sg_error *err)
{
    (void)launch, (void)err;
    return true;
}

static sg_status few_prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device, (void)err;
    if (in_bf16(spec) && spec->node->op != &sg_op_cast)
        ++*(spec->node->op == &sg_op_matmul ? &low_products : &low_others);
    *out = (sg_kernel){.name = "nothing", .launch = few_launch};
    return SG_OK;
}

static void *few_allocate(sg_device *device, size_t bytes) { return device ? sg_alloc_aligned(bytes + 64) : NULL; }
static void few_release(sg_device *device, void *memory)
{
    (void)device;
    sg_free_aligned(memory);
}

/* What it lacks in bf16 runs in f32, fused where it is fused there. */
static void missing_kernels(void **state)
{
    (void)state;
    static const sg_backend few = {.name = "few",
                                   .real = SG_F32,
                                   .open = few_open,
                                   .close = few_close,
                                   .describe = few_describe,
                                   .computes = few_computes,
                                   .supports = few_supports,
                                   .prepare = few_prepare,
                                   .allocate = few_allocate,
                                   .release = few_release};
    sg_error err = {0};
    sg_session *session;
    sg_plan *plan = NULL;
    net n = open_net(SG_F32);
    sg_value w[] = {n.w1, n.bias, n.w2}, g[3];
    sg_grad(n.loss, w, 3, g);
    for (int k = 0; k < 3; k++)
        sg_assign(w[k], sg_sub(w[k], sg_mul_scalar(g[k], 0.1)));
    sg_session_options options = {.size = sizeof options, .precision = "bf16"};
    if (sg_session_open(&session, &few, n.store, &options, &err) != SG_OK ||
        sg_plan_new(&plan, session, n.graph, &err) != SG_OK)
        fail_msg("%s", err.text);
    assert_int_equal(low_products, 5);
    assert_int_equal(low_others, 0);
    sg_plan_free(plan);
    sg_session_free(session);
    close_net(&n);
}

/* ---- sessions */

static sg_status open_session(const char *backend, const char *precision, char *text, size_t size)
{
    sg_error err = {0};
    sg_session *session = NULL;
    sg_store *store = sg_store_new(strcmp(backend, "reference") == 0 ? SG_F64 : SG_F32);
    sg_session_options options = {.size = sizeof options, .backend = backend, .threads = 1, .precision = precision};
    sg_status status = sg_session_new(&session, store, &options, &err);
    snprintf(text, size, "%s", err.text);
    sg_session_free(session);
    sg_store_free(store);
    return status;
}

static void option(void **state)
{
    (void)state;
    char text[SG_ERROR_TEXT];
    assert_int_equal(open_session("cpu", NULL, text, sizeof text), SG_OK);
    assert_int_equal(open_session("cpu", "f32", text, sizeof text), SG_OK);
    assert_int_equal(open_session("reference", "bf16", text, sizeof text), SG_OK);
    assert_int_equal(open_session("cpu", "bf16", text, sizeof text), SG_E_DEVICE);
    assert_non_null(strstr(text, "no bf16 on cpu"));
    assert_int_equal(open_session("cpu", "half", text, sizeof text), SG_E_ARGUMENT);
    assert_non_null(strstr(text, "'half'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_a_class),
        cmocka_unit_test(products_are_low_and_losses_are_not),
        cmocka_unit_test(a_weight_is_rounded_once),
        cmocka_unit_test(norms_and_moments_are_full),
        cmocka_unit_test(norms_keep_their_parameters),
        cmocka_unit_test(encoder),
        cmocka_unit_test(samples),
        cmocka_unit_test(rules_in_bf16),
        cmocka_unit_test(loops),
        cmocka_unit_test(missing_kernels),
        cmocka_unit_test(option),
    };
    sg_autodiff_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
