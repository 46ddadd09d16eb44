/* cuda_product_test.c - matrix products on a GPU, alone, with the elementwise steps that follow them and in sums, in every form and at
 * sizes that fit no tile, against the reference backend; two runs give the same bits. Numbers that are not finite, and of any
 * size. Skipped where there is no GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "runtime/runtime.h"
#include "tests/support/gpu_session.h"
#include "tests/support/graph_run.h"

enum { N_IN = 4, ALONE = 3, SUM, WIDE, N_OUT };
typedef enum form { NN, NT, TN, N_FORMS } form; /* as letters: n, t and a, the operand that is transposed */
static const char letters[] = "nta";

typedef struct problem {
    int64_t batch, m, n, k;
    bool shared;       /* all matrices of the batch have one right factor */
    bool sums;         /* of products too, and a product alone, in the first form */
    const char *forms; /* of f32 */
} problem;

/* Each tile of product.c in each way that it reads its operands, its sum in one part and in several, with rows of whole and of broken
 * packs, with tiles that the edges fill and cut; and vectors. Names are of the tiles on an H200. Each case is a few kernels to compile,
 * so what differs only by numbers is taken once. */
static const problem problems[] = {
    /* FMA: NARROW */
    {1, 2, 2, 1, false, false, "n"},
    {1, 16, 32, 64, false, false, "t"},
    {1, 33, 31, 5, false, true, "a"},
    {1, 32, 159, 400, false, true, "n"},
    {1, 159, 400, 32, false, false, "a"},
    {1, 37, 1001, 3, false, false, "n"},
    {15, 7, 9, 11, false, true, "t"},
    {15, 8, 12, 100, true, false, "a"},
    /* SQUARE, WIDE, TALL */
    {6, 70, 41, 130, false, true, "n"},
    {1, 330, 300, 80, false, true, "a"},
    {1, 400, 333, 37, false, false, "t"},
    {1, 3500, 29, 70, false, true, "n"},
    {1, 3501, 32, 70, false, false, "t"},
    /* TENSOR_NARROW, TENSOR_SHORT */
    {1, 48, 400, 401, false, false, "n"},
    {1, 32, 400, 1836, false, true, "n"},
    {1, 32, 3993, 70, false, false, "t"},
    {1, 40, 1003, 450, false, false, "a"},
    {1, 3001, 177, 33, false, true, "nta"},
    /* TENSOR_PAIR, on other devices TENSOR */
    {1, 135, 2000, 401, false, true, "nta"},
    /* GROUP_24 to GROUP_80, on other devices TENSOR */
    {1, 672, 200, 159, false, false, "n"},
    {1, 200, 159, 672, false, true, "a"},
    {1, 130, 136, 2050, false, false, "t"},
    {1, 131, 333, 401, false, false, "n"},
    {6, 130, 141, 167, false, true, "t"},
    {15, 64, 96, 200, true, false, "n"},
    {1, 700, 471, 171, false, false, "n"},
    {1, 1300, 317, 101, false, false, "t"},
    {1, 1300, 333, 101, false, false, "n"},
    {1, 3001, 157, 101, false, true, "a"},
    /* cuBLASLt's */
    {1, 1, 40, 300, false, false, "n"},
    {1, 40, 1, 300, false, true, "a"},
};

static const char *const names[N_IN] = {"a", "b", "bias", "other"};
static const char *const results[N_OUT] = {"softplus", "gated", "z", "alone", "sum", "wide"};

/* The last is like the sum before it, in f32. */
static bool is_wanted(const problem *p, form f, sg_dtype dtype, int32_t k)
{
    if (dtype != SG_F32)
        return true;
    return k < ALONE || (k <= SUM && p->sums && p->forms[0] == letters[f]);
}

static sg_shape matrices(const problem *p, bool one, int64_t rows, int64_t columns)
{
    if (p->batch == 1 || one)
        return SG_SHAPE(rows, columns);
    return SG_SHAPE(3, p->batch / 3, rows, columns);
}

static sg_value product_of(form f, sg_value a, sg_value b)
{
    return f == NN ? sg_matmul(a, b) : f == NT ? sg_matmul_nt(a, b) : sg_matmul_tn(a, b);
}

static sg_graph *graph_of(const problem *p, form f, sg_dtype dtype, sg_value *in, sg_value *out)
{
    sg_graph *g = sg_graph_new();
    in[0] = sg_input(g, names[0], SG_F32, f == TN ? matrices(p, false, p->k, p->m) : matrices(p, false, p->m, p->k));
    in[1] = sg_input(g, names[1], SG_F32,
                     f == NT ? matrices(p, p->shared, p->n, p->k) : matrices(p, p->shared, p->k, p->n));
    in[2] = sg_input(g, names[2], SG_F32, SG_SHAPE(p->n));
    in[3] = sg_input(g, names[3], SG_F32, matrices(p, false, p->m, p->n));
    sg_value x[N_IN];
    for (int32_t k = 0; k < N_IN; k++)
        x[k] = dtype == SG_F32 ? in[k] : sg_cast(in[k], dtype);
    sg_value z = sg_add(product_of(f, sg_tanh(x[0]), x[1]), x[2]);
    out[0] = sg_softplus(z);
    out[1] = sg_mul(sg_sigmoid(z), x[3]);
    out[2] = z;
    out[ALONE] = product_of(f, x[0], x[1]);
    sg_value first = product_of(f, sg_sigmoid(x[0]), x[1]), second = product_of(f, sg_square(x[0]), x[1]);
    out[SUM] = sg_add(sg_add(first, second), sg_add(x[3], sg_broadcast_like(x[2], x[3])));
    first = sg_cast(product_of(f, sg_relu(x[0]), x[1]), SG_F32);
    second = sg_cast(product_of(f, sg_neg(x[0]), x[1]), SG_F32);
    out[WIDE] = sg_add(sg_add(first, second), in[3]);
    for (int32_t k = 0; k < N_OUT; k++)
        out[k] = dtype == SG_F32 ? out[k] : sg_cast(out[k], SG_F32);
    return g;
}

static void fill_inputs(const sg_value *in, double **feed)
{
    for (int32_t k = 0; k < N_IN; k++) {
        int64_t n = sg_shape_count(sg_shape_of(in[k]));
        feed[k] = malloc((size_t)(n + 1) * sizeof(double));
        assert_non_null(feed[k]);
        for (int64_t i = 0; i < n; i++)
            feed[k][i] = (double)(float)(2 * test_uniform((uint64_t)k + 1, i) - 1);
    }
}

static void run_on_gpu(sg_session *session, sg_graph *graph, double **feed, const sg_value *in, double *const *out,
                       const int64_t *count, const char *const *result, int32_t n_out)
{
    sg_error err = {0};
    sg_plan *plan = NULL;
    if (sg_plan_new(&plan, session, graph, &err) != SG_OK)
        fail_msg("%s", err.text);
    for (int32_t k = 0; k < N_IN; k++)
        if (sg_plan_feed(plan, names[k], feed[k], sg_shape_count(sg_shape_of(in[k])), &err) != SG_OK)
            fail_msg("%s", err.text);
    if (sg_plan_run(plan, &err) != SG_OK)
        fail_msg("%s", err.text);
    for (int32_t k = 0; k < n_out; k++)
        if (sg_plan_fetch(plan, result[k], out[k], count[k], &err) != SG_OK)
            fail_msg("%s", err.text);
    sg_plan_free(plan);
}

/* `digit` times the root of the number of terms may be wrong. */
static void check(sg_session *session, const problem *p, form f, sg_dtype dtype, double digit)
{
    sg_value in[N_IN], out[N_OUT];
    double *feed[N_IN], *expected[N_OUT] = {0}, *got[N_OUT] = {0}, *again[N_OUT] = {0};
    int64_t count[N_OUT] = {0};
    const char *result[N_OUT] = {0};
    int32_t n_out = 0;
    sg_graph *graph = graph_of(p, f, dtype, in, out);
    for (int32_t k = 0; k < N_OUT; k++)
        if (is_wanted(p, f, dtype, k)) {
            sg_result(graph, results[k], out[k]);
            result[n_out] = results[k];
            out[n_out++] = out[k];
        }
    fill_inputs(in, feed);
    for (int32_t k = 0; k < n_out; k++) {
        count[k] = sg_shape_count(sg_shape_of(out[k]));
        double **of[] = {&expected[k], &got[k], &again[k]};
        for (int32_t i = 0; i < 3; i++)
            assert_non_null(*of[i] = malloc((size_t)(count[k] + 1) * sizeof(double)));
    }
    graph_eval(graph, in, feed, N_IN, out, expected, n_out);
    run_on_gpu(session, graph, feed, in, got, count, result, n_out);
    run_on_gpu(session, graph, feed, in, again, count, result, n_out);
    for (int32_t k = 0; k < n_out; k++) {
        for (int64_t i = 0; i < count[k]; i++)
            if (!(fabs(got[k][i] - expected[k][i]) <= digit * (4 + sqrt((double)p->k))))
                fail_msg("form %d, %lld of %lld x %lld x %lld, result %s: element %lld is %.9g, not %.9g", (int)f,
                         (long long)p->batch, (long long)p->m, (long long)p->n, (long long)p->k, result[k],
                         (long long)i, got[k][i], expected[k][i]);
        assert_memory_equal(got[k], again[k], (size_t)count[k] * sizeof(double));
        free(expected[k]);
        free(got[k]);
        free(again[k]);
    }
    for (int32_t k = 0; k < N_IN; k++)
        free(feed[k]);
    sg_graph_free(graph);
}

/* ---- numbers that are not ordinary: a product alone, of sizes that go to the tensor cores */

enum { ROWS = 130, COLUMNS = 300, TERMS = 451 };

static void multiply(sg_session *session, form f, double *a, double *b, double *expected, double *got)
{
    problem p = {1, ROWS, COLUMNS, TERMS, false, false, ""};
    sg_graph *graph = sg_graph_new();
    sg_value in[2] = {
        sg_input(graph, names[0], SG_F32, f == TN ? SG_SHAPE(p.k, p.m) : SG_SHAPE(p.m, p.k)),
        sg_input(graph, names[1], SG_F32, f == NT ? SG_SHAPE(p.n, p.k) : SG_SHAPE(p.k, p.n)),
    };
    sg_value out = product_of(f, in[0], in[1]);
    double *feed[2] = {a, b};
    sg_error err = {0};
    sg_plan *plan = NULL;
    sg_result(graph, "product", out);
    graph_eval(graph, in, feed, 2, &out, &expected, 1);
    if (sg_plan_new(&plan, session, graph, &err) != SG_OK ||
        sg_plan_feed(plan, names[0], a, ROWS * TERMS, &err) != SG_OK ||
        sg_plan_feed(plan, names[1], b, TERMS * COLUMNS, &err) != SG_OK || sg_plan_run(plan, &err) != SG_OK ||
        sg_plan_fetch(plan, "product", got, ROWS * COLUMNS, &err) != SG_OK)
        fail_msg("%s", err.text);
    sg_plan_free(plan);
    sg_graph_free(graph);
}

static size_t at_a(form f, int32_t row, int32_t term)
{
    return f == TN ? (size_t)term * ROWS + (size_t)row : (size_t)row * TERMS + (size_t)term;
}
static size_t at_b(form f, int32_t column, int32_t term)
{
    return f == NT ? (size_t)column * TERMS + (size_t)term : (size_t)term * COLUMNS + (size_t)column;
}

static void fill_ordinary(double *a, double *b)
{
    for (int64_t i = 0; i < ROWS * TERMS; i++)
        a[i] = (double)(float)(2 * test_uniform(11, i) - 1);
    for (int64_t i = 0; i < TERMS * COLUMNS; i++)
        b[i] = (double)(float)(2 * test_uniform(12, i) - 1);
}

/* An infinite or undefined operand makes the elements that it is in what float32 makes of them, and no others. */
static void not_finite(void **state)
{
    static double a[ROWS * TERMS], b[TERMS * COLUMNS], expected[ROWS * COLUMNS], got[ROWS * COLUMNS];
    for (form f = NN; f < N_FORMS; f++) {
        fill_ordinary(a, b);
        a[at_a(f, 3, 5)] = INFINITY;
        a[at_a(f, 7, 1)] = NAN;
        a[at_a(f, 129, 450)] = -INFINITY;
        a[at_a(f, 20, 9)] = (double)3.4e38f;
        b[at_b(f, 11, 5)] = 0;
        b[at_b(f, 12, 200)] = -INFINITY;
        b[at_b(f, 299, 450)] = NAN;
        multiply(*state, f, a, b, expected, got);
        for (int32_t i = 0; i < ROWS * COLUMNS; i++) {
            bool same = isfinite(expected[i]) ? fabs(got[i] - expected[i]) <= 1e-4 + 1e-6 * fabs(expected[i])
                        : isnan(expected[i])  ? isnan(got[i])
                                              : got[i] == expected[i];
            if (!same)
                fail_msg("form %d: element %d is %g, not %g", (int)f, (int)i, got[i], expected[i]);
        }
    }
}

/* Sums of terms of one sign, where errors of one sign would add up, and factors of any size whose products are alike: a small
 * factor loses no digits. */
static void badly_scaled(void **state)
{
    static double a[ROWS * TERMS], b[TERMS * COLUMNS], expected[ROWS * COLUMNS], got[ROWS * COLUMNS];
    for (form f = NN; f < N_FORMS; f++) {
        fill_ordinary(a, b);
        for (int32_t k = 0; k < TERMS; k++) {
            for (int32_t i = 0; i < ROWS; i++)
                a[at_a(f, i, k)] = ldexp(fabs(a[at_a(f, i, k)]), k * 37 % 200 - 100);
            for (int32_t j = 0; j < COLUMNS; j++)
                b[at_b(f, j, k)] = ldexp(fabs(b[at_b(f, j, k)]), 100 - k * 37 % 200);
        }
        multiply(*state, f, a, b, expected, got);
        for (int32_t i = 0; i < ROWS * COLUMNS; i++)
            if (!(fabs(got[i] - expected[i]) <= 1e-6 * expected[i]))
                fail_msg("form %d: element %d is %.9g, not %.9g", (int)f, (int)i, got[i], expected[i]);
    }
}

/* Does the patch of 8 x 16 numbers around this one hold thirds? */
static bool is_patch(int32_t row, int32_t term)
{
    return test_uniform(13, row / 8 * (TERMS / 16 + 1) + term / 16) < 0.2;
}

/* Factors of which bfloat16 holds every number: `plain` bit 0 the left one, bit 1 the right one, bit 2 all but one number of the
 * left one, bit 3 all but patches of both. */
static void plain_numbers(void **state)
{
    static double a[ROWS * TERMS], b[TERMS * COLUMNS], expected[ROWS * COLUMNS], got[ROWS * COLUMNS];
    for (form f = NN; f < N_FORMS; f++)
        for (int plain = 1; plain <= 8; plain += plain == 5 ? 3 : 1) {
            fill_ordinary(a, b);
            for (int32_t i = 0; plain & 13 && i < ROWS * TERMS; i++)
                a[i] = a[i] > 0;
            for (int32_t i = 0; plain & 10 && i < TERMS * COLUMNS; i++)
                b[i] = floor(8 * b[i]);
            if (plain & 4)
                a[at_a(f, 77, 210)] = 1.0 / 3;
            for (int32_t k = 0; plain & 8 && k < TERMS; k++) {
                for (int32_t i = 0; i < ROWS; i++)
                    a[at_a(f, i, k)] *= is_patch(i, k) ? (double)(1.0f / 3) : 1;
                for (int32_t j = 0; j < COLUMNS; j++)
                    b[at_b(f, j, k)] += is_patch(j + ROWS, k) ? (double)(1.0f / 3) : 0;
            }
            multiply(*state, f, a, b, expected, got);
            for (int32_t i = 0; i < ROWS * COLUMNS; i++)
                if (!(fabs(got[i] - expected[i]) <= (plain == 3 ? 0 : plain == 8 ? 3e-4 : 8e-5)))
                    fail_msg("form %d, plain %d: element %d is %.9g, not %.9g", (int)f, plain, (int)i, got[i],
                             expected[i]);
        }
}

/* ---- many steps: what they read is fetched beside the factors, though not every thread finishes an element */

static void many_steps(void **state)
{
    static const int64_t sizes[][3] = {{16, 54, 768}, {3, 5, 900}, {40, 30, 333}, {70, 41, 130}};
    enum { MOST = 70 * 41, MOST_TERMS = 54 * 768 };
    static double data[N_IN][MOST_TERMS], expected[MOST], got[MOST];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2], count[N_IN] = {m * k, n * k, m * n, m * n};
        sg_graph *graph = sg_graph_new();
        sg_value in[N_IN] = {
            sg_input(graph, names[0], SG_F32, SG_SHAPE(m, k)), sg_input(graph, names[1], SG_F32, SG_SHAPE(n, k)),
            sg_input(graph, names[2], SG_F32, SG_SHAPE(m, n)), sg_input(graph, names[3], SG_F32, SG_SHAPE(m, n))};
        sg_value v = sg_matmul_nt(in[0], in[1]);
        for (int i = 0; i < 5; i++)
            v = sg_tanh(sg_add(sg_mul(v, in[2]), in[3]));
        sg_result(graph, "v", v);
        double *feed[N_IN], *to[] = {expected}, *there[] = {got};
        const char *result[] = {"v"};
        for (int32_t j = 0; j < N_IN; j++) {
            feed[j] = data[j];
            assert_true(count[j] <= MOST_TERMS && count[2] <= MOST);
            for (int64_t i = 0; i < count[j]; i++)
                data[j][i] = (double)(float)(2 * test_uniform((uint64_t)j + 31, i) - 1);
        }
        graph_eval(graph, in, feed, N_IN, &v, to, 1);
        run_on_gpu(*state, graph, feed, in, there, &count[2], result, 1);
        for (int64_t i = 0; i < m * n; i++)
            if (!(fabs(got[i] - expected[i]) <= 1e-5))
                fail_msg("%lld x %lld x %lld: element %lld is %.9g, not %.9g", (long long)m, (long long)n, (long long)k,
                         (long long)i, got[i], expected[i]);
        sg_graph_free(graph);
    }
}

/* ---- an update on the elements of the product that is its gradient */

enum { LAYER_ROWS = 301, LAYER_COLUMNS = 503, BATCH = 61, LAYER = LAYER_ROWS * LAYER_COLUMNS };
static const char *const parts[] = {"p", "m", "v"};

static sg_graph *layer_update(sg_store *store)
{
    sg_graph *g = sg_graph_new();
    sg_scope root = sg_scope_root(g, store);
    sg_shape shape = SG_SHAPE(LAYER_ROWS, LAYER_COLUMNS);
    sg_value x = sg_input(g, names[0], SG_F32, SG_SHAPE(BATCH, LAYER_ROWS));
    sg_value dy = sg_input(g, names[1], SG_F32, SG_SHAPE(BATCH, LAYER_COLUMNS));
    sg_adam_state now = {sg_param(root, parts[0], shape, sg_init_normal(0, 1)),
                         sg_state(root, parts[1], SG_F32, shape, sg_init_normal(0, 1)),
                         sg_state(root, parts[2], SG_F32, shape, sg_init_constant(0.5))};
    sg_adam_state next =
        sg_adam(now, sg_matmul_tn(x, dy), sg_scalar(g, 0.01), sg_scalar(g, 3), 0.9, 0.999, 1e-8, 0.1, true);
    sg_assign(now.p, next.p);
    sg_assign(now.m, next.m);
    sg_assign(now.v, next.v);
    return g;
}

/* p, m and v after two runs, with the update joined to the product or, without fusion, apart. */
static void update_twice(bool no_fusion, double *out)
{
    sg_session *session;
    sg_plan *plan;
    sg_store *store = sg_store_new(SG_F32);
    sg_graph *graph = layer_update(store);
    sg_session_options options = {.size = sizeof options, .backend = "cuda", .no_fusion = no_fusion};
    double *x = malloc(BATCH * LAYER_COLUMNS * sizeof *x);
    for (int64_t i = 0; i < BATCH * LAYER_COLUMNS; i++)
        x[i] = 2 * test_uniform(21, i) - 1;
    sg_store_initialise(store, 1);
    assert_int_equal(sg_session_new(&session, store, &options, NULL), SG_OK);
    assert_int_equal(sg_plan_new(&plan, session, graph, NULL), SG_OK);
    assert_int_equal(sg_plan_feed(plan, names[0], x, BATCH * LAYER_ROWS, NULL), SG_OK);
    assert_int_equal(sg_plan_feed(plan, names[1], x, BATCH * LAYER_COLUMNS, NULL), SG_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(sg_plan_run(plan, NULL), SG_OK);
    for (int k = 0; k < 3; k++)
        assert_int_equal(sg_store_get(store, parts[k], out + k * LAYER, LAYER, NULL), SG_OK);
    free(x);
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
}

static void updates(void **state)
{
    static double joined[3 * LAYER], again[3 * LAYER], apart[3 * LAYER];
    (void)state;
    update_twice(false, joined);
    update_twice(false, again);
    update_twice(true, apart);
    assert_memory_equal(joined, again, sizeof joined);
    for (int32_t i = 0; i < 3 * LAYER; i++)
        if (!(fabs(joined[i] - apart[i]) <= 2e-6 * (1 + fabs(apart[i]))))
            fail_msg("%s, element %d: %.9g joined, %.9g apart", parts[i / LAYER], (int)(i % LAYER), joined[i],
                     apart[i]);
}

/* Of at least so many terms. */
static void check_all(sg_session *session, sg_dtype dtype, double digit, double least)
{
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        const problem *p = &problems[i];
        bool large = (double)p->batch * (double)(p->m * p->n) * (double)p->k >= least;
        for (form f = NN; f < N_FORMS && large; f++)
            if (dtype == SG_F32 ? strchr(p->forms, letters[f]) != NULL : (size_t)f == i % N_FORMS)
                check(session, p, f, dtype, digit);
    }
}

static void every_form(void **state) { check_all(*state, SG_F32, 3e-6, 0); }
/* Products of bf16 are cuBLASLt's, which cares little for the form: by turns. */
static void every_form_bf16(void **state) { check_all(*state, SG_BF16, 2e-2, 0); }

/* Small products are the same in TF32. */
static void every_form_tf32(void **state)
{
    (void)state;
    sg_session *session;
    sg_store *store = sg_store_new(SG_F32);
    sg_session_options options = {.size = sizeof options, .backend = "cuda", .precision = "tf32"};
    assert_int_equal(sg_session_new(&session, store, &options, NULL), SG_OK);
    check_all(session, SG_F32, 1e-3, 1 << 22);
    sg_session_free(session);
    sg_store_free(store);
}

int main(void)
{
    sg_store *store = sg_store_new(SG_F32);
    sg_session *session = test_gpu_session(store);
    if (!session) {
        sg_store_free(store);
        return TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(every_form, session),
                                       cmocka_unit_test_prestate(every_form_bf16, session),
                                       cmocka_unit_test(every_form_tf32),
                                       cmocka_unit_test_prestate(not_finite, session),
                                       cmocka_unit_test_prestate(badly_scaled, session),
                                       cmocka_unit_test_prestate(plain_numbers, session),
                                       cmocka_unit_test_prestate(many_steps, session),
                                       cmocka_unit_test(updates)};
    int failed = cmocka_run_group_tests_name("cuda products", tests, NULL, NULL);
    sg_session_free(session);
    sg_store_free(store);
    return failed;
}
