/* The networks of multi-label classification: published parameter counts, and values worked out by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "models/models.h"
#include "runtime/runtime.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

static void expect(sg_status status, const sg_error *err)
{
    if (status != SG_OK)
        fail_msg("%s (op %s, node %s)", err->text, err->op, err->node);
}

/* ---- sizes */

static int64_t trainable(sg_store *store)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < sg_store_count(store); i++)
        sum += sg_store_at(store, i)->trainable ? sg_shape_count(&sg_store_at(store, i)->shape) : 0;
    return sum;
}

static int64_t built_parameters(const sg_mlc_sizes *sizes, bool score)
{
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F32);
    sg_scope root = sg_scope_root(graph, store);
    sg_features x = sg_features_dense(sg_input(graph, "x", SG_F32, SG_SHAPE(2, sizes->inputs)));
    if (score)
        sg_mlc_score(root, x, sg_input(graph, "y", SG_F32, SG_SHAPE(2, 1, sizes->labels)), sizes, true);
    else
        sg_mlc_task(root, x, sizes, true);
    sg_error err = {0};
    expect(sg_graph_status(graph, &err), &err);
    int64_t count = trainable(store);
    sg_graph_free(graph);
    sg_store_free(store);
    return count;
}

/* Table 17 of the first paper; its two columns are exchanged for Cal500. */
static void parameter_counts(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t inputs, labels;
        int32_t layers;
        int64_t width, global, task, score;
    } rows[] = {
        {"expr_fun", 561, 500, 4, 200, 400, 333000, 533800}, {"spo_fun", 86, 500, 4, 300, 300, 447000, 597600},
        {"bibtex", 1836, 159, 2, 400, 200, 958800, 991000},  {"delicious", 500, 983, 2, 400, 200, 754000, 951000},
        {"genbase", 1186, 27, 1, 400, 200, 485600, 491400},  {"eurlexev", 5000, 3993, 2, 500, 200, 4747500, 5546500},
        {"cal500", 68, 174, 5, 500, 200, 1123500, 1158700},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t hidden[8];
        for (int k = 0; k < rows[i].layers; k++)
            hidden[k] = rows[i].width;
        sg_mlc_sizes sizes = {.inputs = rows[i].inputs,
                              .labels = rows[i].labels,
                              .layers = rows[i].layers,
                              .hidden = hidden,
                              .global = rows[i].global};
        print_message("%s\n", rows[i].name);
        assert_int_equal(sg_mlc_task_parameters(&sizes), rows[i].task);
        assert_int_equal(sg_mlc_score_parameters(&sizes), rows[i].score);
        assert_int_equal(built_parameters(&sizes, false), rows[i].task);
        assert_int_equal(built_parameters(&sizes, true), rows[i].score);
    }
}

/* ---- values by hand */

static sg_value numbers(sg_graph *graph, sg_shape shape, const double *data)
{
    return sg_constant(graph, SG_F32, shape, data, sg_shape_count(&shape));
}

static double *one(sg_graph *graph, sg_value v)
{
    static double out[64];
    double *to = out;
    assert_true(sg_shape_count(sg_shape_of(v)) <= 64);
    graph_eval(graph, NULL, NULL, 0, &v, &to, 1);
    return out;
}

/* Logits 0 and log 3: p = 1/2, 3/4. */
static void log_noise_by_hand(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value z = sg_constant(graph, SG_F64, SG_SHAPE(1, 2), (double[]){0, log(3)}, 2);
    sg_value y = sg_constant(graph, SG_F64, SG_SHAPE(1, 2, 2), (double[]){1, 1, 0, 0}, 4);
    double *got = one(graph, sg_log_bernoulli(z, y));
    assert_tensor_close(got, ((double[]){log(3.0 / 8), log(1.0 / 8)}), 2, 0, 1e-14, "log P");
    sg_value far = sg_constant(graph, SG_F64, SG_SHAPE(1, 2), (double[]){-500, 500}, 2);
    got = one(graph, sg_log_bernoulli(far, y));
    assert_tensor_close(got, ((double[]){-100, -100}), 2, 0, 1e-12, "clamped at -100");
    sg_graph_free(graph);
}

/* Equal ratios: each of four candidates is the gold one with probability 1/4. */
static void ranking_by_hand(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    double score[] = {1, 2, 3, 4, log(3), 0, 0, 0}, noise[] = {0, 1, 2, 3, 0, 0, 0, 0};
    sg_value loss = sg_nce_ranking_loss(numbers(graph, SG_SHAPE(2, 4), score), numbers(graph, SG_SHAPE(2, 4), noise));
    assert_tensor_close(one(graph, loss), ((double[]){log(4), log(2)}), 2, 0, 1e-7, "ranking");
    sg_graph_free(graph);
}

/* One input, one hidden unit: T = softplus(w x + c). */
static void nets_by_hand(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F64);
    sg_scope root = sg_scope_root(graph, store);
    sg_mlc_sizes sizes = {.inputs = 1, .labels = 2, .layers = 1, .hidden = (int64_t[]){1}, .global = 1};
    sg_features x = sg_features_dense(numbers(graph, SG_SHAPE(1, 1), (double[]){2}));
    sg_value z = sg_mlc_task(sg_scope_sub(root, "task"), x, &sizes, false);
    sg_value y = numbers(graph, SG_SHAPE(1, 2, 2), (double[]){1, 0, 1, 1});
    sg_value s = sg_mlc_score(sg_scope_sub(root, "energy"), x, y, &sizes, false);
    static const struct {
        const char *name;
        double at[2];
        int64_t n;
    } entries[] = {
        {"task/features/layer1/W", {0.5}, 1},
        {"task/features/layer1/c", {-1}, 1},
        {"task/G", {1, -2}, 2},
        {"energy/features/layer1/W", {1}, 1},
        {"energy/features/layer1/c", {0}, 1},
        {"energy/b", {3, 0.5}, 2},
        {"energy/M", {1, -1}, 2},
        {"energy/m0", {0.25}, 1},
        {"energy/v", {2}, 1},
    };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        assert_int_equal(sg_store_set(store, entries[i].name, entries[i].at, entries[i].n, NULL), SG_OK);
    double t = log(2), u = log1p(exp(2));
    assert_tensor_close(one(graph, z), ((double[]){t, -2 * t}), 2, 0, 1e-14, "logits");
    double want[] = {3 * u + 2 * log1p(exp(1.25)), 3.5 * u + 2 * log1p(exp(0.25))};
    assert_tensor_close(one(graph, s), want, 2, 0, 1e-13, "score");
    sg_graph_free(graph);
    sg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameter_counts),
        cmocka_unit_test(log_noise_by_hand),
        cmocka_unit_test(ranking_by_hand),
        cmocka_unit_test(nets_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
