/* op_checks.c - the checks of op_check.h. */
#include <math.h>
#include <string.h>

#include "autodiff/autodiff.h"
#include "cli/check/bench_internal.h"
#include "ops/ops.h"
#include "runtime/runtime.h"

/* ---- which samples */

static bool any(const sg_sample *s)
{
    (void)s;
    return true;
}
static bool small_flat(const sg_sample *s) { return s->flat && !s->large; }
static bool small_moving(const sg_sample *s) { return !s->flat && !s->large; }
static bool on_cpu(const sg_sample *s) { return !s->reference_only; }
static bool moving_on_cpu(const sg_sample *s) { return !s->flat && !s->reference_only; }
static bool small_moving_on_cpu(const sg_sample *s) { return small_moving(s) && on_cpu(s); }
static bool composite(const sg_sample *s) { return !s->large && (sg_op_find(s->op)->flags & SG_OP_COMPOSITE); }

/* ---- expressions of a sample, by order */

static void declare(sg_bench *b, const char *prefix, const sg_value *v, int32_t n)
{
    for (int32_t k = 0; k < n; k++) {
        char name[32];
        snprintf(name, sizeof name, "%s %d", prefix, (int)k);
        sg_result(b->graph, name, v[k]);
    }
}

static void values(sg_bench *b) { declare(b, "output", b->out, b->sample->n_out); }

static void gradient(sg_bench *b)
{
    sg_value g[SG_SAMPLE_INPUTS];
    sg_grad(sg_bench_loss(b), b->wrt, b->n_wrt, g);
    declare(b, "gradient", g, b->n_wrt);
}

static void directions(const sg_bench *b, sg_value *v)
{
    for (int32_t i = 0; i < b->n_wrt; i++)
        v[i] = sg_bench_direction(b->wrt[i], 10 + (uint64_t)i);
}

static void hessian_products(sg_bench *b)
{
    sg_value v[SG_SAMPLE_INPUTS], h[SG_SAMPLE_INPUTS], loss = sg_bench_loss(b);
    directions(b, v);
    sg_hvp(loss, b->wrt, v, b->n_wrt, h, SG_HVP_FORWARD_OVER_REVERSE);
    declare(b, "forward over reverse", h, b->n_wrt);
    sg_hvp(loss, b->wrt, v, b->n_wrt, h, SG_HVP_REVERSE_OVER_REVERSE);
    declare(b, "reverse over reverse", h, b->n_wrt);
}

static void third_derivatives(sg_bench *b)
{
    sg_value v[SG_SAMPLE_INPUTS], h[SG_SAMPLE_INPUTS];
    if (b->n_wrt == 0)
        return;
    directions(b, v);
    sg_hvp(sg_bench_loss(b), b->wrt, v, b->n_wrt, h, SG_HVP_FORWARD_OVER_REVERSE);
    sg_grad(sg_bench_inner(h, v, b->n_wrt), b->wrt, b->n_wrt, h);
    declare(b, "third", h, b->n_wrt);
}

void sg_bench_declare_orders(sg_bench *b)
{
    values(b);
    gradient(b);
    hessian_products(b);
    third_derivatives(b);
}

/* ---- shape */

static void check_shape(const sg_sample *sample, sg_finding *finding)
{
    sg_bench b;
    char text[SG_SHAPE_TEXT];
    if (sg_bench_open(&b, sample, SG_F64, finding)) {
        sg_shape_format(sg_shape_of(b.out[0]), text, sizeof text);
        if (strcmp(text, sample->shape) != 0)
            sg_finding_broken(finding, "shape %s, expected %s", text, sample->shape);
        bool found = false;
        for (int32_t i = 0; i < sg_node_count(b.graph); i++)
            found = found || strcmp(sg_node_at(b.graph, i)->op->name, sample->op) == 0;
        if (!found)
            sg_finding_broken(finding, "the sample contains no node of this operator");
    }
    sg_bench_close(&b);
}

/* ---- differences */

/* Inputs that gradcheck does not move (indices, masks) keep their elements. */
static bool evaluate_moved(void *user, sg_graph *graph, const sg_value *x, double *const *feed, int32_t n_x,
                           const sg_value *y, double *const *out, int32_t n_y, sg_error *err)
{
    const sg_bench *b = user;
    double *all[SG_SAMPLE_INPUTS];
    memcpy(all, b->feed, sizeof all);
    for (int32_t k = 0; k < b->sample->n_in; k++)
        for (int32_t i = 0; i < n_x; i++)
            if (sg_same(b->in[k], x[i]))
                all[k] = feed[i];
    return sg_reference_eval(graph, b->in, all, b->sample->n_in, y, out, n_y, err) == SG_OK;
}

static void check_differences(const sg_sample *sample, sg_finding *finding)
{
    static const char *const orders[] = {"jvp against vjp", "gradient", "second order", "third order"};
    sg_bench b;
    sg_error err = {0};
    sg_gradcheck_options options = {.size = sizeof options, .order = 3, .directions = 1, .seed = 7};
    sg_gradcheck_result result;
    if (sg_bench_open(&b, sample, SG_F64, finding) && b.n_wrt) {
        sg_evaluator here = {evaluate_moved, &b};
        if (sg_gradcheck(sg_bench_loss(&b), b.wrt, b.at, b.n_wrt, &here, &options, &result, &err) != SG_OK) {
            sg_finding_broken(finding, "%.250s (op %s, node %.80s)", err.text, err.op, err.node);
        } else {
            for (int k = 0; k < 4; k++) { /* relative figures: 0 is expected */
                sg_finding_compare(finding, &result.worst[k], &(double){0}, &(sg_shape){.rank = 0}, result.limit[k],
                                   orders[k]);
            }
            if (!result.passed)
                snprintf(finding->text, sizeof finding->text, "%s", result.where);
            finding->passed = finding->passed && result.passed;
            sg_bench_sound(&b);
        }
    }
    sg_bench_close(&b);
}

/* ---- adjoint, linear */

static void compare_values(sg_bench *b, sg_value got, sg_value want, double limit, const char *what)
{
    int64_t n = sg_shape_count(sg_shape_of(want));
    double *a = sg_calloc(n + 1, sizeof *a), *c = sg_calloc(n + 1, sizeof *c);
    if (!a || !c)
        sg_finding_broken(b->finding, "out of memory");
    else if (sg_bench_evaluate(b, (sg_value[]){got, want}, (double *[]){a, c}, 2))
        sg_finding_compare(b->finding, a, c, sg_shape_of(want), limit, what);
    sg_free(a);
    sg_free(c);
}

static sg_value two_minus_three(sg_value a, sg_value c) { return sg_sub(sg_mul_scalar(a, 2), sg_mul_scalar(c, 3)); }

/* <J u, c> = <u, J' c>;  J' (2 c - 3 d) = 2 J' c - 3 J' d. */
static void check_adjoint(const sg_sample *sample, sg_finding *finding)
{
    sg_bench b;
    sg_value u[SG_SAMPLE_INPUTS], y[SG_SAMPLE_OUTPUTS], c[SG_SAMPLE_OUTPUTS], d[SG_SAMPLE_OUTPUTS];
    sg_value e[SG_SAMPLE_OUTPUTS], ju[SG_SAMPLE_OUTPUTS];
    sg_value gc[SG_SAMPLE_INPUTS], gd[SG_SAMPLE_INPUTS], ge[SG_SAMPLE_INPUTS];
    bool ready = sg_bench_open(&b, sample, SG_F64, finding);
    int32_t n = b.n_wrt, m = 0;
    for (int32_t i = 0; ready && i < n; i++)
        u[i] = sg_bench_direction(b.wrt[i], 20 + (uint64_t)i);
    for (int32_t j = 0; ready && j < sample->n_out; j++) {
        if (!sg_dtype_is_real(sg_dtype_of(b.out[j])))
            continue;
        y[m] = b.out[j];
        c[m] = sg_bench_direction(y[m], 40 + (uint64_t)j);
        d[m] = sg_bench_direction(y[m], 60 + (uint64_t)j);
        e[m] = two_minus_three(c[m], d[m]);
        m++;
    }
    if (ready && n && m) {
        sg_jvp(y, m, b.wrt, u, n, ju);
        sg_vjp(y, c, m, b.wrt, n, gc);
        sg_vjp(y, d, m, b.wrt, n, gd);
        sg_vjp(y, e, m, b.wrt, n, ge);
        compare_values(&b, sg_bench_inner(ju, c, m), sg_bench_inner(u, gc, n), 1e-11, "<J u, c> against <u, J' c>");
        for (int32_t i = 0; i < n; i++)
            compare_values(&b, ge[i], two_minus_three(gc[i], gd[i]), 1e-11, "J' of a combination of cotangents");
    }
    sg_bench_close(&b);
}

/* f(2 a - 3 c) = 2 f(a) - 3 f(c) in input k, the others fixed. */
static void check_linear_input(const sg_sample *sample, int32_t k, sg_finding *finding)
{
    sg_bench b;
    sg_value in[SG_SAMPLE_INPUTS], out[SG_SAMPLE_OUTPUTS], y[3];
    if (sg_bench_open(&b, sample, SG_F64, finding)) {
        sg_value a = b.in[k], c = sg_bench_direction(a, 80), x[3] = {a, c, two_minus_three(a, c)};
        for (int32_t i = 0; i < 3; i++) {
            memcpy(in, b.in, sizeof in);
            in[k] = x[i];
            sample->build(sample, b.scope, in, out);
            y[i] = out[0];
        }
        compare_values(&b, y[2], two_minus_three(y[0], y[1]), 1e-12, "f of a combination");
    }
    sg_bench_close(&b);
}

static void check_linear_flag(const sg_sample *sample, sg_finding *finding)
{
    const sg_op *op = sg_op_find(sample->op);
    if (sample->n_in != op->n_in)
        return; /* one input feeds two operands: the whole is not linear in it */
    for (int32_t k = 0; k < sample->n_in; k++)
        if (op->linear >> k & 1 && sg_sample_moves(sample, k))
            check_linear_input(sample, k, finding);
}

/* ---- zero derivatives */

static void check_zero(const sg_sample *sample, sg_finding *finding)
{
    sg_bench b;
    uint32_t flags = sg_op_find(sample->op)->flags;
    bool ready = sg_bench_open(&b, sample, SG_F64, finding);
    for (int32_t k = 0; ready && k < sample->n_in && flags & (SG_OP_ZERO_GRAD | SG_OP_STOP); k++) {
        if (sample->in[k].dtype != SG_F32 || strcmp(sample->op, "repeat") == 0)
            continue;
        sg_value loss = sg_sum_all(sg_cast(b.out[0], SG_F32)), g;
        sg_grad(loss, &b.in[k], 1, &g);
        compare_values(&b, g, sg_zeros_like(b.in[k]), 0, "derivative");
    }
    sg_bench_close(&b);
}

/* ---- one way of computing against another */

static void compare_with(const sg_sample *sample, void (*what)(sg_bench *), sg_bench_way got,
                         const sg_bench_results *want, double limit, sg_finding *finding)
{
    sg_bench_results a;
    if (sg_bench_run(sample, what, got, &a, finding))
        for (int32_t k = 0; k < want->count; k++) {
            size_t bytes = (size_t)want->n[k] * sizeof *want->data[k];
            sg_finding_compare(finding, a.data[k], want->data[k], &want->shape[k], limit, want->name[k]);
            if (limit == 0 && finding->passed && memcmp(a.data[k], want->data[k], bytes) != 0)
                sg_finding_broken(finding, "%s differs in its bits", want->name[k]);
        }
    sg_bench_release(&a);
}

static void compare_ways(const sg_sample *sample, void (*what)(sg_bench *), sg_bench_way got, sg_bench_way want,
                         double limit, sg_finding *finding)
{
    sg_bench_results c;
    if (sg_bench_run(sample, what, want, &c, finding))
        compare_with(sample, what, got, &c, limit, finding);
    sg_bench_release(&c);
}

static const sg_bench_way reference = {"reference", NULL, 1, 1, false, false}, cpu = {"cpu", NULL, 1, 1, false, false},
                          two_threads = {"cpu", NULL, 2, 1, false, false};
static const sg_bench_way decomposed = {"reference", "all", 1, 1, false, false};

/* Composites have a reference kernel written from the formula; their derivative composites are defined by decomposition. */
static void check_decomposed(const sg_sample *sample, sg_finding *finding)
{
    compare_ways(sample, values, reference, decomposed, 1e-10, finding);
    if (sample->flat)
        return;
    compare_ways(sample, gradient, reference, decomposed, 1e-10, finding);
    compare_ways(sample, hessian_products, reference, decomposed, 1e-9, finding);
}

static void check_same_bits(const sg_sample *sample, sg_finding *finding)
{
    void (*what)(sg_bench *) = sample->flat ? values : hessian_products;
    sg_bench_results once;
    if (sg_bench_run(sample, what, cpu, &once, finding)) {
        compare_with(sample, what, cpu, &once, 0, finding);
        compare_with(sample, what, two_threads, &once, 0, finding);
    }
    sg_bench_release(&once);
}

/* ---- a GPU */

static const sg_bench_way thrice = {"cuda", NULL, 1, 3, false, false}, recorded = {"cuda", NULL, 1, 3, true, false};

static void check_cuda_bits(const sg_sample *sample, sg_finding *finding)
{
    compare_ways(sample, sample->flat ? values : hessian_products, recorded, thrice, 0, finding);
}

/* In bf16, whose numbers are 2^-8 apart: rounded operands, results rounded at each step on the way. What is in f32 only is not
 * asked. */
static bool in_low(const sg_sample *s)
{
    bool any_real = false;
    for (int32_t k = 0; k < s->n_in; k++)
        any_real |= s->in[k].dtype == SG_F32;
    return any_real && on_cpu(s) && sg_op_precision(sg_op_find(s->op)) != SG_OP_FULL;
}
static bool moving_in_low(const sg_sample *s) { return in_low(s) && !s->flat; }

/* ---- the tables */

const sg_op_check sg_cuda_checks[] = {
    {"cuda values", "cuda", 0, false, on_cpu, NULL},
    {"cuda gradient", "cuda", 1, false, moving_on_cpu, NULL},
    {"cuda second order", "cuda", 2, false, moving_on_cpu, NULL},
    {"cuda third order", "cuda", 3, false, small_moving_on_cpu, NULL},
    {"cuda bits", "cuda", 0, false, on_cpu, check_cuda_bits},
    {"cuda bf16 values", "cuda", 0, true, in_low, NULL},
    {"cuda bf16 gradient", "cuda", 1, true, moving_in_low, NULL},
    {"cuda bf16 second order", "cuda", 2, true, moving_in_low, NULL},
};
const int32_t sg_cuda_check_count = sizeof sg_cuda_checks / sizeof sg_cuda_checks[0];

const sg_op_check sg_op_checks[] = {
    {"shape", "reference", 0, false, any, check_shape},
    {"differences", "reference", 3, false, small_moving, check_differences},
    {"adjoint", "reference", 1, false, small_moving, check_adjoint},
    {"linear flag", "reference", 0, false, small_moving, check_linear_flag},
    {"zero", "reference", 0, false, small_flat, check_zero},
    {"decomposed", "reference", 2, false, composite, check_decomposed},
    {"cpu values", "cpu", 0, false, on_cpu, NULL},
    {"cpu gradient", "cpu", 1, false, moving_on_cpu, NULL},
    {"cpu second order", "cpu", 2, false, moving_on_cpu, NULL},
    {"cpu third order", "cpu", 3, false, small_moving_on_cpu, NULL},
    {"same bits", "cpu", 0, false, on_cpu, check_same_bits},
};
const int32_t sg_op_check_count = sizeof sg_op_checks / sizeof sg_op_checks[0];

static void compare_order(const sg_op_check *check, const sg_sample *sample, sg_finding *finding)
{
    static void (*const what[])(sg_bench *) = {values, gradient, hessian_products, third_derivatives};
    static const double limit[] = {1e-5, 1e-5, 1e-4, 1e-3}, low_limit[] = {2e-2, 2e-2, 4e-2};
    const sg_bench_way way = {check->backend, NULL, 1, 1, false, check->low};
    const sg_bench_way want = {"reference", NULL, 1, 1, false, check->low};
    double most = check->low ? low_limit[check->order] : limit[check->order] * (sample->slack > 0 ? sample->slack : 1);
    compare_ways(sample, what[check->order], way, want, most, finding);
}

void sg_op_check_run(const sg_op_check *check, const sg_sample *sample, sg_finding *finding)
{
    if (check->run)
        check->run(sample, finding);
    else
        compare_order(check, sample, finding);
}
