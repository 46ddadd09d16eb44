/* golden_case.c - see golden_case.h. */
#include "tests/support/golden_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "tests/support/graph_run.h"

#define MAX_INPUTS 8

/* ---- JSON */

static double number_of(const json_t *item)
{
    if (!json_is_string(item))
        return json_number_value(item);
    const char *text = json_string_value(item);
    return strcmp(text, "nan") == 0 ? NAN : strcmp(text, "inf") == 0 ? INFINITY : -INFINITY;
}

sg_shape golden_shape(const json_t *tensor)
{
    const json_t *sizes = json_object_get(tensor, "shape");
    int64_t dim[SG_MAX_RANK];
    for (size_t i = 0; i < json_array_size(sizes); i++)
        dim[i] = json_integer_value(json_array_get(sizes, i));
    return sg_shape_make((int32_t)json_array_size(sizes), dim);
}

double *golden_data(const json_t *tensor)
{
    const json_t *data = json_object_get(tensor, "data");
    double *out = calloc(json_array_size(data) + 1, sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < json_array_size(data); i++)
        out[i] = number_of(json_array_get(data, i));
    return out;
}

static sg_dtype dtype_of(const json_t *tensor)
{
    const char *text = json_string_value(json_object_get(tensor, "dtype"));
    return strcmp(text, "int64") == 0 ? SG_I32 : strcmp(text, "bool") == 0 ? SG_BOOL : SG_F64;
}

double golden_attr_real(const json_t *test, const char *name)
{
    return json_number_value(json_object_get(json_object_get(test, "attrs"), name));
}

bool golden_attr_is(const json_t *test, const char *name, const char *value)
{
    const char *text = json_string_value(json_object_get(json_object_get(test, "attrs"), name));
    return text && strcmp(text, value) == 0;
}

/* ---- one case */

typedef struct golden_case {
    const json_t *test;
    const char *name;
    sg_graph *graph;
    sg_value in[MAX_INPUTS];
    const char *in_name[MAX_INPUTS];
    double *feed[MAX_INPUTS];
    int32_t n_in;
    /* The differentiable inputs, their tangents and the wanted derivatives follow the order of `tangent`. */
    sg_value x[MAX_INPUTS], t[MAX_INPUTS];
    const char *x_name[MAX_INPUTS];
    int32_t n_x;
    int failures;
} golden_case;

static double scale_of(const double *want, int64_t n)
{
    double scale = 1;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(want[i]))
            scale = fmax(scale, fabs(want[i]));
    return scale;
}

/* The rule of the golden README: absolute times scale, or relative to each element. The exception is an element whose
 * exact value is 0 and whose stored one is the rounding of a sum: the third derivative of softplus at logit 0. */
static bool fits(const json_t *test, double got, double want, double scale, double tolerance)
{
    const double rounded_zero = -0x1p-55;
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(got) : got == want;
    const char *tol = json_string_value(json_object_get(test, "tol"));
    bool relative = tol && strcmp(tol, "relative") == 0 && want != 0 && !(want == rounded_zero && got == 0);
    return relative ? fabs(got - want) <= 1e-10 * fabs(want) || fabs(want) < 1e-300
                    : fabs(got - want) <= tolerance * scale;
}

static void compare(golden_case *c, sg_value value, const json_t *want_json, const char *what, double tolerance)
{
    if (!want_json)
        return;
    double *want = golden_data(want_json);
    sg_shape shape = golden_shape(want_json);
    int64_t n = sg_shape_count(&shape);
    assert_int_equal(sg_shape_count(sg_shape_of(value)), n);
    double *got = calloc((size_t)n + 1, sizeof *got);
    assert_non_null(got);
    graph_eval(c->graph, c->in, c->feed, c->n_in, &value, &got, 1);
    double scale = scale_of(want, n);
    for (int64_t i = 0; i < n; i++) {
        if (!fits(c->test, got[i], want[i], scale, tolerance)) {
            print_error("%s %s[%d]: got %.17g, want %.17g\n", c->name, what, (int)i, got[i], want[i]);
            c->failures++;
        }
    }
    free(want);
    free(got);
}

static void compare_all(golden_case *c, const sg_value *values, const char *what, double tolerance)
{
    const json_t *want = json_object_get(c->test, what);
    for (int32_t k = 0; want && k < c->n_x; k++)
        compare(c, values[k], json_object_get(want, c->x_name[k]), what, tolerance);
}

sg_value golden_constant(sg_graph *graph, const json_t *tensor)
{
    double *data = golden_data(tensor);
    sg_shape shape = golden_shape(tensor);
    sg_value v = sg_constant(graph, SG_F64, shape, data, sg_shape_count(&shape));
    free(data);
    return v;
}

static void load_inputs(golden_case *c)
{
    const char *name;
    json_t *tensor;
    json_object_foreach(json_object_get(c->test, "inputs"), name, tensor)
    {
        assert_true(c->n_in < MAX_INPUTS);
        c->in_name[c->n_in] = name;
        c->feed[c->n_in] = golden_data(tensor);
        c->in[c->n_in++] = sg_input(c->graph, name, dtype_of(tensor), golden_shape(tensor));
    }
    json_object_foreach(json_object_get(c->test, "tangent"), name, tensor)
    {
        for (int32_t k = 0; k < c->n_in; k++)
            if (strcmp(name, c->in_name[k]) == 0)
                c->x[c->n_x] = c->in[k];
        c->x_name[c->n_x] = name;
        c->t[c->n_x++] = golden_constant(c->graph, tensor);
    }
}

static sg_value inner(const sg_value *a, const sg_value *b, int32_t n)
{
    sg_value sum = sg_sum_all(sg_mul(a[0], b[0]));
    for (int32_t k = 1; k < n; k++)
        sum = sg_add(sum, sg_sum_all(sg_mul(a[k], b[k])));
    return sum;
}

static void derivatives(golden_case *c, sg_value out)
{
    const json_t *cotangent = json_object_get(json_object_get(c->test, "cotangent"), "out");
    if (!cotangent || c->n_x == 0)
        return;
    sg_value seed = golden_constant(c->graph, cotangent), g[MAX_INPUTS], h[MAX_INPUTS], third[MAX_INPUTS], tangent;
    sg_vjp(&out, &seed, 1, c->x, c->n_x, g);
    compare_all(c, g, "vjp", 1e-10);
    sg_jvp(&out, 1, c->x, c->t, c->n_x, &tangent);
    compare(c, tangent, json_object_get(json_object_get(c->test, "jvp"), "out"), "jvp", 1e-10);
    sg_value phi = sg_sum_all(sg_mul(seed, out));
    sg_hvp(phi, c->x, c->t, c->n_x, h, SG_HVP_FORWARD_OVER_REVERSE);
    compare_all(c, h, "hvp", 1e-9);
    sg_hvp(phi, c->x, c->t, c->n_x, h, SG_HVP_REVERSE_OVER_REVERSE);
    compare_all(c, h, "hvp", 1e-9);
    sg_grad(inner(h, c->t, c->n_x), c->x, c->n_x, third);
    compare_all(c, third, "third", 1e-8);
}

/* Returns the number of wrong elements, or -1 for a case that needs operators beyond this family. */
static int run_case(const json_t *test, golden_build build)
{
    golden_case c = {.test = test, .graph = sg_graph_new()};
    c.name = json_string_value(json_object_get(test, "name"));
    assert_non_null(c.graph);
    load_inputs(&c);
    sg_value out = build(test, c.in, c.n_in);
    bool known = !sg_is_none(out);
    if (known) {
        compare(&c, out, json_object_get(json_object_get(test, "outputs"), "out"), "out", 1e-10);
        derivatives(&c, out);
    }
    sg_error err = {0};
    if (sg_graph_status(c.graph, &err) != SG_OK)
        fail_msg("%s: %s", c.name, err.text);
    for (int32_t k = 0; k < c.n_in; k++)
        free(c.feed[k]);
    sg_graph_free(c.graph);
    return known ? c.failures : -1;
}

static json_t *load(const char *name)
{
    char path[4096];
    const char *shared = getenv("SG_SHARED");
    snprintf(path, sizeof path, "%s/golden/%s.json", shared ? shared : SG_SOURCE_DIR "/../shared", name);
    return json_load_file(path, 0, NULL);
}

bool golden_exists(const char *family)
{
    json_t *root = load(family);
    json_decref(root);
    return root != NULL;
}

void golden_run_family(const char *name, int at_least, golden_build build)
{
    json_t *root = load(name);
    assert_non_null(root);
    const json_t *tests = json_object_get(root, "cases");
    int ran = 0, failures = 0;
    for (size_t i = 0; i < json_array_size(tests); i++) {
        int failed = run_case(json_array_get(tests, i), build);
        ran += failed >= 0;
        failures += failed > 0 ? failed : 0;
    }
    json_decref(root);
    print_message("%s: %d cases\n", name, ran);
    assert_int_equal(failures, 0);
    assert_true(ran >= at_least);
}
