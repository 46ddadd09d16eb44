/* Derivative composites: an operator whose derivatives are operators gives the same derivatives, at every order, as the
 * expression it stands for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/derivative_internal.h"
#include "ops/samples/samples_internal.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

/* An operator of the test's own: (x [n], w [n, m]) -> (y = tanh(x w) [m], r = sum exp(x) []), with y as a hint. */
static const sg_op blend, blend_vjp, blend_jvp, blend_vjp_jvp;

static sg_status blend_infer(const sg_infer_args *args)
{
    SG_TRY(sg_require_real(args, 0));
    SG_TRY(sg_require_same_dtype(args, 0, 1));
    args->out_shape[0] = SG_SHAPE(args->in_shape[1].dim[1]);
    args->out_shape[1] = sg_shape_scalar();
    args->out_dtype[0] = args->out_dtype[1] = args->in_dtype[0];
    return SG_OK;
}

static void expression(sg_value x, sg_value w, sg_value *out)
{
    out[0] = sg_tanh(sg_matmul(x, w));
    out[1] = sg_sum_all(sg_exp(x));
}

static void blend_decompose(const sg_decompose_args *args) { expression(args->in[0], args->in[1], args->out); }

static const sg_attr_spec vjp_attrs[] = {SG_VJP_ATTRS}, jvp_attrs[] = {SG_JVP_ATTRS},
                          vjp_jvp_attrs[] = {SG_VJP_ATTRS, SG_JVP_ATTRS};

#define DERIVATIVE(NAME, PARENT, ATTRS, N_ATTRS, ...)                                                                  \
    static const sg_op NAME = {.name = #NAME,                                                                          \
                               .n_in = SG_VARIADIC,                                                                    \
                               .n_out = SG_VARIADIC,                                                                   \
                               .flags = SG_OP_COMPOSITE,                                                               \
                               .attrs = ATTRS,                                                                         \
                               .n_attrs = N_ATTRS,                                                                     \
                               .infer = sg_derivative_infer,                                                           \
                               .decompose = sg_derivative_decompose,                                                   \
                               .parent = PARENT,                                                                       \
                               __VA_ARGS__}

static const sg_op blend = {.name = "blend",
                            .n_in = 2,
                            .n_out = 2,
                            .flags = SG_OP_COMPOSITE,
                            .infer = blend_infer,
                            .decompose = blend_decompose,
                            .vjp_op = &blend_vjp,
                            .jvp_op = &blend_jvp};
DERIVATIVE(blend_vjp, &blend, vjp_attrs, 2, .hints = 1, .jvp_op = &blend_vjp_jvp);
DERIVATIVE(blend_jvp, &blend, jvp_attrs, 1, .hints = 1);
DERIVATIVE(blend_vjp_jvp, &blend_vjp, vjp_jvp_attrs, 3, .hints = 0);

static void composite(sg_value x, sg_value w, sg_value *out)
{
    out[0] = sg_build(x.graph, &blend, (sg_value[]){x, w}, 2, NULL);
    out[1] = sg_output_of(out[0], 1);
}

enum { N = 3, M = 2, RESULTS = 8 };

/* A nonlinear loss of both outputs, and derivatives of it up to the third order in both modes. */
static void derivatives(void (*f)(sg_value, sg_value, sg_value *), sg_value x, sg_value w, sg_value *out)
{
    sg_value y[2], g[2], v[2] = {sg_sin(x), sg_cos(w)}, h[2];
    f(x, w, y);
    sg_value loss = sg_add(sg_sum_all(sg_square(sg_add_scalar(y[0], 0.3))), sg_square(y[1]));
    sg_grad(loss, (sg_value[]){x, w}, 2, g);
    out[0] = sg_sum_all(sg_add(sg_mul(g[0], v[0]), sg_sum(g[1], 1)));
    sg_hvp(loss, (sg_value[]){x, w}, (sg_value[]){sg_stop_gradient(v[0]), sg_stop_gradient(v[1])}, 2, h,
           SG_HVP_FORWARD_OVER_REVERSE);
    out[1] = h[0], out[2] = h[1];
    sg_hvp(loss, (sg_value[]){x, w}, (sg_value[]){sg_stop_gradient(v[0]), sg_stop_gradient(v[1])}, 2, h,
           SG_HVP_REVERSE_OVER_REVERSE);
    out[3] = h[0], out[4] = h[1];
    sg_value third = sg_add(sg_sum_all(sg_mul(h[0], v[0])), sg_sum_all(sg_mul(h[1], v[1])));
    sg_grad(third, (sg_value[]){x, w}, 2, out + 5);
    sg_jvp(y, 1, &w, &v[1], 1, &out[7]); /* only one input moves, only one output is asked for */
}

static int32_t count_ops(const sg_graph *graph, const sg_op *op)
{
    int32_t n = 0;
    for (int32_t i = 0; i < sg_node_count(graph); i++)
        n += sg_node_at(graph, i)->op == op;
    return n;
}

static void compare(sg_graph *graph, sg_value x, sg_value w, sg_value own_w)
{
    double x_at[N * N] = {0.3, -0.7, 0.2, 0.5, 0.1, -0.4, 0.9, -0.2, 0.6},
                    w_at[N * M] = {0.5, -1, 0.25, 0.8, -0.6, 0.1};
    sg_value got[RESULTS], want[RESULTS];
    derivatives(composite, x, w, got);
    derivatives(expression, x, w, want);
    sg_error err = {0};
    if (sg_graph_status(graph, &err) != SG_OK || sg_graph_verify(graph, &err) != SG_OK)
        fail_msg("%s", err.text);
    assert_true(count_ops(graph, &blend_vjp) > 0 && count_ops(graph, &blend_jvp) > 0);
    assert_true(count_ops(graph, &blend_vjp_jvp) > 0);
    for (int32_t k = 0; k < RESULTS; k++) {
        double a[N * N], b[N * N];
        graph_eval(graph, (sg_value[]){x, own_w}, (double *[]){x_at, w_at}, sg_same(x, own_w) ? 1 : 2,
                   (sg_value[]){got[k], want[k]}, (double *[]){a, b}, 2);
        char name[32];
        snprintf(name, sizeof name, "result %d", (int)k);
        assert_tensor_close(a, b, sg_shape_count(sg_shape_of(got[k])), 1e-12, 1e-12, name);
    }
}

static void same_as_the_expression_at_every_order(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(N)), w = sg_input(g, "w", SG_F32, SG_SHAPE(N, M));
    compare(g, x, w, w);
    sg_graph_free(g);
}

/* Both inputs computed from one value: the tangents of the two places differ, and must not be mixed up. */
static void inputs_that_depend_on_each_other(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(N)), w = sg_input(g, "w", SG_F32, SG_SHAPE(N, M));
    compare(g, x, sg_mul(w, sg_expand_dims(x, 1)), w);
    sg_graph_free(g);
}

/* One value in both places (an operator on two vectors): the derivative is the sum over the places at every order. */
static const sg_op dot3, dot3_vjp, dot3_jvp, dot3_vjp_jvp;

static sg_status dot3_infer(const sg_infer_args *args)
{
    args->out_shape[0] = sg_shape_scalar();
    args->out_dtype[0] = args->in_dtype[0];
    return SG_OK;
}

/* sum a^2 b: not symmetric in its places */
static void dot3_decompose(const sg_decompose_args *args)
{
    args->out[0] = sg_sum_all(sg_mul(sg_square(args->in[0]), args->in[1]));
}

static const sg_op dot3 = {.name = "dot3",
                           .n_in = 2,
                           .n_out = 1,
                           .flags = SG_OP_COMPOSITE,
                           .infer = dot3_infer,
                           .decompose = dot3_decompose,
                           .vjp_op = &dot3_vjp,
                           .jvp_op = &dot3_jvp};
DERIVATIVE(dot3_vjp, &dot3, vjp_attrs, 2, .jvp_op = &dot3_vjp_jvp);
DERIVATIVE(dot3_jvp, &dot3, jvp_attrs, 1, .hints = 0);
DERIVATIVE(dot3_vjp_jvp, &dot3_vjp, vjp_jvp_attrs, 3, .hints = 0);

static void one_value_in_two_places(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    double x_at[2] = {2, -3}, v_at[2] = {1, 5}, got[2], cube_grad[2] = {12, 27}, cube_hv[2] = {12, -90},
           cube_third[2] = {6, 30};
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), v = sg_input(g, "v", SG_F32, SG_SHAPE(2)), grad, hv, third;
    sg_value loss = sg_build(g, &dot3, (sg_value[]){x, x}, 2, NULL); /* sum x^3 */
    sg_grad(loss, &x, 1, &grad);
    graph_eval(g, &x, (double *[]){x_at}, 1, &grad, (double *[]){got}, 1);
    assert_tensor_close(got, cube_grad, 2, 1e-14, 0, "3 x^2");
    for (int mode = 0; mode < 2; mode++) {
        sg_hvp(loss, &x, &v, 1, &hv, mode ? SG_HVP_REVERSE_OVER_REVERSE : SG_HVP_FORWARD_OVER_REVERSE);
        graph_eval(g, (sg_value[]){x, v}, (double *[]){x_at, v_at}, 2, &hv, (double *[]){got}, 1);
        assert_tensor_close(got, cube_hv, 2, 1e-14, 0, "6 x v");
        sg_grad(sg_sum_all(hv), &x, 1, &third);
        graph_eval(g, (sg_value[]){x, v}, (double *[]){x_at, v_at}, 2, &third, (double *[]){got}, 1);
        assert_tensor_close(got, cube_third, 2, 1e-14, 0, "6 v");
    }
    sg_graph_free(g);
}

static void lists_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const int64_t twice[] = {1, 1}, far[] = {5};
    const sg_attr bad[3][2] = {{sg_attr_ints(twice, 2), sg_attr_ints(NULL, 0)},
                               {sg_attr_ints(far, 1), sg_attr_ints(NULL, 0)},
                               {sg_attr_ints(NULL, 0), sg_attr_ints(NULL, 0)}};
    for (int k = 0; k < 3; k++) {
        sg_graph *g = sg_graph_new();
        sg_value in[3] = {sg_input(g, "x", SG_F32, SG_SHAPE(N)), sg_input(g, "w", SG_F32, SG_SHAPE(N, M)),
                          sg_input(g, "y", SG_F32, SG_SHAPE(M))};
        assert_true(sg_is_none(sg_build(g, &blend_vjp, in, 3, bad[k])));
        assert_int_equal(sg_graph_status(g, NULL), SG_E_ARGUMENT);
        sg_graph_free(g);
    }
}

static int64_t calls, failing;

static void *failing_allocate(void *user, size_t bytes)
{
    (void)user;
    return ++calls == failing ? NULL : malloc(bytes);
}

static void *failing_resize(void *user, void *old, size_t bytes)
{
    (void)user;
    return ++calls == failing ? NULL : realloc(old, bytes);
}

static void plain_release(void *user, void *old)
{
    (void)user;
    free(old);
}

/* A derivative of third order of a CRF: decompositions inside decompositions. */
static sg_status build_second_derivatives(const sg_sample *sample)
{
    sg_graph *g = sg_graph_new();
    sg_store *store = sg_store_new(SG_F64);
    sg_status status = SG_E_MEMORY;
    if (g && store) {
        sg_value in[SG_SAMPLE_INPUTS], out[SG_SAMPLE_OUTPUTS], one, hv;
        sg_sample_build(sample, sg_scope_root(g, store), in, out);
        one = sg_ones_like(in[0]);
        sg_hvp(sg_sum_all(sg_square(out[0])), in, &one, 1, &hv, SG_HVP_FORWARD_OVER_REVERSE);
        status = sg_graph_status(g, NULL);
        assert_true(sg_is_none(hv) == (status != SG_OK));
    }
    sg_graph_free(g);
    sg_store_free(store);
    return status;
}

static const sg_sample *sample_of(const char *op)
{
    for (int32_t i = 0; i < sg_sample_count(); i++)
        if (strcmp(sg_sample_at(i)->op, op) == 0)
            return sg_sample_at(i);
    fail_msg("no sample of %s", op);
    return NULL;
}

/* Whichever allocation fails while derivatives are decomposed: the graph says so. */
static void memory_running_out_is_an_error(void **state)
{
    (void)state;
    const sg_sample *sample = sample_of("crf_log_partition_vjp");
    sg_status status = SG_E_MEMORY;
    sg_allocator_set(&(sg_allocator){failing_allocate, failing_resize, plain_release, NULL});
    for (failing = 1; status == SG_E_MEMORY; failing++) {
        calls = 0;
        status = build_second_derivatives(sample);
    }
    sg_allocator_set(&(sg_allocator){0});
    assert_int_equal(status, SG_OK);
    assert_true(failing > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_the_expression_at_every_order),
        cmocka_unit_test(inputs_that_depend_on_each_other),
        cmocka_unit_test(one_value_in_two_places),
        cmocka_unit_test(lists_that_do_not_fit_are_refused),
        cmocka_unit_test(memory_running_out_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
