/* A graph built at one size and resized gives what the same graph built at the other size gives: no rule keeps the size
 * of a named dimension, in values or in derivatives. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

enum { FEATURES = 3 };

/* Each builds a real value from x [batch, tokens, FEATURES], index [batch, tokens] and w [FEATURES, 2]. */
typedef struct model_inputs {
    sg_value x, index, w;
} model_inputs;
typedef sg_value (*model)(model_inputs in);

static sg_value sum_of_first_axis(model_inputs in) { return sg_sum(in.x, 0); }
static sg_value mean_of_tokens(model_inputs in) { return sg_mean(in.x, 1); }
static sg_value mean_of_everything(model_inputs in) { return sg_mean_all(in.x); }
static sg_value mean_of_a_slice(model_inputs in) { return sg_mean(sg_slice(in.x, 1, 1, sg_dim_of(in.x, 1)), 1); }
static sg_value max_of_tokens(model_inputs in) { return sg_max(in.x, 1, false); }
static sg_value logsumexp_of_batch(model_inputs in) { return sg_logsumexp(in.x, 0, false); }
static sg_value product_of_features(model_inputs in) { return sg_prod(in.x, 2, false); }
static sg_value cumsum_of_tokens(model_inputs in) { return sg_cumsum(in.x, 1); }
static sg_value first_token(model_inputs in) { return sg_slice(in.x, 1, 0, 1); }
static sg_value last_token(model_inputs in) { return sg_slice(in.x, 1, -1, sg_dim_of(in.x, 1)); }
static sg_value all_but_the_last(model_inputs in) { return sg_slice(in.x, 1, 0, -1); }
static sg_value padded_tokens(model_inputs in) { return sg_pad(in.x, 1, 1, 2); }
static sg_value transposed(model_inputs in) { return sg_transpose(in.x, SG_AXES(2, 0, 1)); }
static sg_value new_axis(model_inputs in) { return sg_expand_dims(in.x, 0); }
static sg_value new_inner_axis(model_inputs in) { return sg_squeeze(sg_expand_dims(sg_expand_dims(in.x, 2), 0), 3); }
static sg_value tiled(model_inputs in) { return sg_tile_axis(in.x, 1, 4); }
static sg_value product(model_inputs in) { return sg_matmul(in.x, in.w); }
static sg_value scores(model_inputs in) { return sg_matmul_nt(in.x, in.x); }
static sg_value shifted_difference(model_inputs in)
{
    return sg_mul(sg_slice(in.x, 1, 0, -1), sg_slice(in.x, 1, 1, sg_dim_of(in.x, 1)));
}

static sg_value flattened(model_inputs in)
{
    int64_t rows = sg_dim_of(in.x, 0) * sg_dim_of(in.x, 1);
    return sg_matmul(sg_reshape(in.x, SG_SHAPE(rows, FEATURES)), in.w);
}

static sg_value flattened_and_back(model_inputs in)
{
    return sg_reshape_like(sg_reshape(in.x, SG_SHAPE(-1, FEATURES)), in.x);
}

static sg_value flattened_features(model_inputs in)
{
    return sg_reshape(in.x, SG_SHAPE(sg_dim_of(in.x, 0), sg_dim_of(in.x, 1) * FEATURES));
}

static sg_value centred(model_inputs in)
{
    sg_value mean = sg_expand_dims(sg_mean(in.x, -1), -1);
    return sg_sub(in.x, sg_broadcast_like(mean, in.x));
}

static sg_value summed_back(model_inputs in)
{
    sg_value row = sg_sum_axes(in.x, SG_AXES(0, 2), true);
    return sg_sum_like(sg_mul(in.x, in.x), row);
}

static sg_value with_start(model_inputs in)
{
    return sg_concat((sg_value[]){sg_zeros_like(sg_slice(in.x, 1, 0, 1)), in.x}, 2, 1);
}

static sg_value between_tokens(model_inputs in)
{
    sg_value edge = sg_slice(in.x, 1, 0, 1);
    return sg_concat((sg_value[]){edge, in.x, edge}, 3, 1);
}

static sg_value rows_of_a_table(model_inputs in) { return sg_gather(in.w, in.index); }

static sg_value scattered_rows(model_inputs in)
{
    sg_value table = sg_swap_axes(sg_matmul(sg_transpose(in.w, SG_AXES(1, 0)), in.w), 0, 1);
    return sg_scatter_rows(sg_gather(table, in.index), in.index, table);
}

/* x as images of one channel, tokens by features. */
static sg_value images(model_inputs in) { return sg_expand_dims(in.x, 1); }

static sg_value convolution(model_inputs in)
{
    sg_value w = sg_expand_dims(sg_expand_dims(in.w, 0), 0);
    return sg_conv2d(images(in), w, (sg_window){.stride = {2, 1}, .padding = {1, 1, 1, 1}}, 1);
}

static sg_value there_and_back(model_inputs in)
{
    sg_value w = sg_expand_dims(sg_expand_dims(in.w, 0), 0);
    sg_window window = {.stride = {3, 1}, .padding = {0, 1, 0, 0}};
    sg_value up = sg_conv_transpose2d(images(in), w, window, 1, 1, 0);
    return sg_conv2d(up, w, window, 1);
}

static sg_value largest_of_windows(model_inputs in)
{
    return sg_max_pool2d(images(in), 2, 2, (sg_window){.stride = {2, 1}, .padding = {1, 0, 0, 0}});
}

static sg_value means_of_windows(model_inputs in)
{
    return sg_avg_pool2d(images(in), 2, 2, (sg_window){.padding = {1, 0, 0, 0}}, false);
}

static sg_value top_features(model_inputs in) { return sg_top_k(in.x, 2, 2, NULL); }

static sg_value sums_by_index(model_inputs in) { return sg_segment_sum(in.x, in.index, FEATURES); }

static sg_value means_by_index(model_inputs in) { return sg_segment_mean(in.x, in.index, FEATURES); }

static sg_value picked_feature(model_inputs in) { return sg_gather_elements(in.x, sg_expand_dims(in.index, 2), 2); }

static sg_value padded_with_a_number(model_inputs in) { return sg_pad_with(in.x, 1, 1, 2, 0.5); }

static sg_value merged_axes(model_inputs in) { return sg_einsum("btf,btg,fo->tog", (sg_value[]){in.x, in.x, in.w}, 3); }

/* H = 1: of w [FEATURES, 2] the product with its transpose makes weights of any size. */
static sg_value lstm_of(model_inputs in)
{
    sg_value square = sg_matmul_nt(in.w, in.w), w_ih = sg_concat((sg_value[]){square, sg_slice(square, 0, 0, 1)}, 2, 0);
    sg_lstm_weights w = {w_ih, sg_slice(w_ih, 1, 0, 1), SG_NONE, SG_NONE};
    return sg_lstm(in.x, SG_NONE, w, (sg_lstm_state){SG_NONE, SG_NONE}, false).out;
}

static sg_value crf_likelihood(model_inputs in)
{
    sg_crf crf = {sg_matmul_nt(in.w, in.w), sg_sum(in.w, 1), sg_squeeze(sg_slice(in.w, 1, 0, 1), 1)};
    return sg_crf_log_likelihood(crf, in.x, in.index, SG_NONE);
}

/* A model that gives builders literal sizes says nothing clear at size 1: is the end of [0, 1) one or the size of the
 * axis? */
#define MODEL(build)                                                                                                   \
    {                                                                                                                  \
#build, build, false                                                                                           \
    }
#define LITERAL(build)                                                                                                 \
    {                                                                                                                  \
#build, build, true                                                                                            \
    }
static const struct named_model {
    const char *name;
    model build;
    bool literal;
} models[] = {
    MODEL(sum_of_first_axis),
    MODEL(mean_of_tokens),
    MODEL(mean_of_everything),
    MODEL(mean_of_a_slice),
    MODEL(max_of_tokens),
    MODEL(logsumexp_of_batch),
    MODEL(product_of_features),
    MODEL(cumsum_of_tokens),
    LITERAL(first_token),
    MODEL(last_token),
    MODEL(all_but_the_last),
    MODEL(padded_tokens),
    MODEL(transposed),
    MODEL(new_axis),
    MODEL(new_inner_axis),
    MODEL(tiled),
    MODEL(product),
    MODEL(scores),
    MODEL(shifted_difference),
    LITERAL(flattened),
    MODEL(flattened_and_back),
    LITERAL(flattened_features),
    MODEL(centred),
    MODEL(summed_back),
    LITERAL(with_start),
    LITERAL(between_tokens),
    MODEL(rows_of_a_table),
    MODEL(scattered_rows),
    MODEL(top_features),
    MODEL(sums_by_index),
    MODEL(means_by_index),
    MODEL(picked_feature),
    MODEL(padded_with_a_number),
    MODEL(merged_axes),
    MODEL(lstm_of),
    MODEL(crf_likelihood),
    MODEL(convolution),
    MODEL(there_and_back),
    MODEL(largest_of_windows),
    MODEL(means_of_windows),
};

typedef struct built {
    sg_graph *graph;
    sg_value in[3], out[4]; /* loss, gradients of x and w, Hessian product with x */
} built;

static built build_at(const struct named_model *m, int64_t batch, int64_t tokens)
{
    built b = {.graph = sg_graph_new()};
    sg_shape pair = sg_shape_named(sg_shape_named(SG_SHAPE(batch, tokens), 0, "batch"), 1, "tokens");
    sg_shape full = sg_shape_named(sg_shape_named(SG_SHAPE(batch, tokens, FEATURES), 0, "batch"), 1, "tokens");
    b.in[0] = sg_input(b.graph, "x", SG_F64, full);
    b.in[1] = sg_input(b.graph, "index", SG_I32, pair);
    b.in[2] = sg_input(b.graph, "w", SG_F64, SG_SHAPE(FEATURES, 2));
    sg_value y = m->build((model_inputs){b.in[0], b.in[1], b.in[2]});
    b.out[0] = sg_sum_all(sg_mul(sg_cumsum(sg_reshape(y, SG_SHAPE(-1)), 0), sg_reshape(sg_square(y), SG_SHAPE(-1))));
    sg_value wrt[] = {b.in[0], b.in[2]};
    sg_grad(b.out[0], wrt, 2, &b.out[1]);
    sg_hvp(b.out[0], b.in, b.in, 1, &b.out[3], SG_HVP_REVERSE_OVER_REVERSE);
    return b;
}

static void evaluate(built *b, double *const *out)
{
    int64_t n_x = sg_shape_count(sg_shape_of(b->in[0])), n_index = n_x / FEATURES;
    double *x = calloc((size_t)n_x + 1, sizeof *x), *index = calloc((size_t)n_index + 1, sizeof *index);
    double w[2 * FEATURES];
    assert_true(x && index);
    for (int64_t i = 0; i < n_x; i++)
        x[i] = 2 * test_uniform(1, i) - 1;
    for (int64_t i = 0; i < n_index; i++)
        index[i] = floor(FEATURES * test_uniform(2, i));
    for (int64_t i = 0; i < 2 * FEATURES; i++)
        w[i] = 2 * test_uniform(3, i) - 1;
    graph_eval(b->graph, b->in, (double *[]){x, index, w}, 3, b->out, out, 4);
    free(x);
    free(index);
}

static void compare(const struct named_model *m, built *resized, built *fresh)
{
    double *got[4], *want[4];
    for (int32_t k = 0; k < 4; k++) {
        int64_t n = sg_shape_count(sg_shape_of(fresh->out[k]));
        if (sg_shape_count(sg_shape_of(resized->out[k])) != n)
            fail_msg("%s: output %d has %d elements, not %d", m->name, (int)k,
                     (int)sg_shape_count(sg_shape_of(resized->out[k])), (int)n);
        got[k] = calloc((size_t)n + 1, sizeof(double));
        want[k] = calloc((size_t)n + 1, sizeof(double));
        assert_true(got[k] && want[k]);
    }
    evaluate(resized, got);
    evaluate(fresh, want);
    for (int32_t k = 0; k < 4; k++) {
        assert_tensor_close(got[k], want[k], sg_shape_count(sg_shape_of(fresh->out[k])), 1e-12, 1e-12, m->name);
        free(got[k]);
        free(want[k]);
    }
}

static void resized_equals_fresh(void **state)
{
    const struct named_model *m = *state;
    static const int64_t sizes[][4] = {{2, 4, 5, 3}, {1, 1, 3, 4}, {5, 3, 1, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (m->literal && sizes[i][0] == 1)
            continue;
        built resized = build_at(m, sizes[i][0], sizes[i][1]), fresh = build_at(m, sizes[i][2], sizes[i][3]);
        sg_binding bindings[] = {{"batch", sizes[i][2]}, {"tokens", sizes[i][3]}};
        sg_error err = {0};
        if (sg_graph_status(resized.graph, &err) != SG_OK || sg_graph_bind(resized.graph, bindings, 2, &err) != SG_OK)
            fail_msg("%s from [%d, %d]: %s (%s %s)", m->name, (int)sizes[i][0], (int)sizes[i][1], err.text, err.op,
                     err.node);
        assert_int_equal(sg_graph_verify(resized.graph, &err), SG_OK);
        compare(m, &resized, &fresh);
        sg_graph_free(resized.graph);
        sg_graph_free(fresh.graph);
    }
}

/* A rule that does hold a size refuses to be resized instead of giving a wrong derivative. */
static void product_over_a_named_axis_is_refused(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value x = sg_input(graph, "x", SG_F64, sg_shape_named(SG_SHAPE(4), 0, "batch")), g;
    sg_grad(sg_prod(x, 0, false), &x, 1, &g);
    sg_error err = {0};
    assert_int_equal(sg_graph_status(graph, &err), SG_OK);
    assert_int_equal(sg_graph_bind(graph, &(sg_binding){"batch", 6}, 1, &err), SG_E_SHAPE);
    assert_int_equal(sg_graph_bind(graph, &(sg_binding){"batch", 2}, 1, &err), SG_E_SHAPE);
    assert_int_equal(sg_dim_of(g, 0), 4);
    sg_graph_free(graph);
}

int main(void)
{
    enum { N = sizeof models / sizeof *models };
    struct CMUnitTest tests[N + 1];
    for (int i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){models[i].name, resized_equals_fresh, NULL, NULL, (void *)&models[i]};
    tests[N] = (struct CMUnitTest)cmocka_unit_test(product_over_a_named_axis_is_refused);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
