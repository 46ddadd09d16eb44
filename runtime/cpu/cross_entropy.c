/* cross_entropy.c - softmax_cross_entropy and its derivatives, a row at a time: no one-hot rows and no probabilities in memory.
 *
 * With p = softmax(z) of the row and its target k:
 *     loss = log sum_c e^(z_c - top) + top - z_k, the top logit's 1 left to log1p so that small losses keep their digits
 *     gz = g (p - e_k)                                                          (vjp)
 *     tloss = <p, t> - t_k                                                      (jvp)
 *     tgz = tg (p - e_k) + g p (t - <p, t>)                                     (vjp_jvp)
 * and zeros where the target is -1. */
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/row_kernels_internal.h"

#include "ops/derivative_internal.h"

#include <math.h>
#include <string.h>

enum {
    Z,
    TARGET,
    SERIAL_WORK = 8192 /* elements below which a second thread costs more than it saves */
};

typedef struct job job;
typedef void (*row_fn)(const job *j, int64_t r, int64_t target, float *scratch);

typedef struct cross_entropy {
    int64_t rows, classes;
    int32_t g, t, tg; /* inputs that hold cotangents and tangents; -1: none */
    bool wide;        /* the output has a row of classes, not one number */
    row_fn run;
    size_t scratch; /* of one thread */
    int32_t alias[1];
} cross_entropy;

struct job {
    const cross_entropy *s;
    const sg_launch *l;
    const sg_row_kernels *k;
};

static const float *row_of(const job *j, int32_t input, int64_t r)
{
    return input < 0 ? NULL : (const float *)j->l->in[input] + r * j->s->classes;
}

static float number_of(const job *j, int32_t input, int64_t r)
{
    return input < 0 ? 0 : ((const float *)j->l->in[input])[r];
}

/* Numbers whose quotients by the returned sum are softmax(z); `out` may be z. A row of -inf gives zeros; an infinite or NaN top logit
 * gives NaN where it stands. */
static float exponentials(const job *j, const float *z, float *out)
{
    int64_t n = j->s->classes;
    float top = j->k->max(n, z);
    if (isfinite(top))
        return j->k->exp_sum(n, z, top, out);
    for (int64_t i = 0; i < n; i++)
        out[i] = expf(z[i] - (top == -INFINITY ? 0 : top));
    return 1;
}

static void loss_row(const job *j, int64_t r, int64_t target, float *scratch)
{
    (void)scratch;
    const float *z = row_of(j, Z, r);
    int64_t n = j->s->classes, at = 0;
    float top = j->k->max(n, z), margin = top - z[target], *out = (float *)j->l->out[0] + r;
    *out = margin;
    if (!isfinite(top))
        return;
    while (z[at] != top)
        at++;
    float others = j->k->exp_sum(at, z, top, NULL) + j->k->exp_sum(n - at - 1, z + at + 1, top, NULL);
    *out = log1pf(others) + margin;
}

static void vjp_row(const job *j, int64_t r, int64_t target, float *scratch)
{
    (void)scratch;
    float *out = (float *)j->l->out[0] + r * j->s->classes, g = number_of(j, j->s->g, r);
    float sum = exponentials(j, row_of(j, Z, r), out);
    j->k->scale(j->s->classes, g / sum, out);
    out[target] -= g;
}

static void jvp_row(const job *j, int64_t r, int64_t target, float *scratch)
{
    const float *t = row_of(j, j->s->t, r);
    float sum = exponentials(j, row_of(j, Z, r), scratch);
    ((float *)j->l->out[0])[r] = j->k->dot(j->s->classes, scratch, t) / sum - t[target];
}

static void vjp_jvp_row(const job *j, int64_t r, int64_t target, float *scratch)
{
    (void)scratch;
    int64_t n = j->s->classes;
    const float *t = row_of(j, j->s->t, r);
    float *out = (float *)j->l->out[0] + r * n, g = number_of(j, j->s->g, r), tg = number_of(j, j->s->tg, r);
    float sum = exponentials(j, row_of(j, Z, r), out);
    if (t) {
        float a = g / sum, b = (tg - g * (j->k->dot(n, out, t) / sum)) / sum;
        for (int64_t i = 0; i < n; i++)
            out[i] *= a * t[i] + b;
    } else {
        j->k->scale(n, tg / sum, out);
    }
    out[target] -= tg;
}

static void run_rows(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    const job *j = arg;
    const cross_entropy *s = j->s;
    const int32_t *target = j->l->in[TARGET];
    float *scratch = (float *)((char *)j->l->workspace + (size_t)thread * s->scratch);
    int64_t width = s->wide ? s->classes : 1;
    for (int64_t r = begin; r < end; r++)
        if (target[r] < 0)
            memset((float *)j->l->out[0] + r * width, 0, (size_t)width * sizeof(float));
        else
            s->run(j, r, target[r], scratch);
}

static bool launch(const sg_launch *l, sg_error *err)
{
    const cross_entropy *s = l->state;
    const int32_t *target = l->in[TARGET];
    for (int64_t r = 0; r < s->rows; r++)
        if (target[r] < -1 || target[r] >= s->classes) {
            sg_fail(err, SG_E_DATA, "target %d at position %lld is neither -1 nor in [0, %lld)", target[r],
                    (long long)r, (long long)s->classes);
            return false;
        }
    job j = {s, l, sg_row_kernels_best()};
    sg_cpu_parallel(s->rows * s->classes < SERIAL_WORK ? 1 : l->threads, s->rows, run_rows, &j);
    return true;
}

/* --------------------------------------------------------------------------------------------------------- prepare */

static void find_places(cross_entropy *s, const sg_kernel_spec *spec)
{
    const sg_op *op = spec->node->op;
    s->g = s->t = s->tg = -1;
    if (op == &sg_op_softmax_cross_entropy)
        return;
    sg_derivative_parts parts = sg_derivative_split(op, spec->attr, spec->n_in);
    if (op == &sg_op_softmax_cross_entropy_vjp) {
        s->g = sg_derivative_with(&parts, 0);
        return;
    }
    s->t = sg_derivative_with(&parts, Z);
    if (op == &sg_op_softmax_cross_entropy_jvp)
        return;
    sg_derivative_parts reverse = sg_derivative_split(&sg_op_softmax_cross_entropy_vjp, spec->attr, parts.n_x);
    s->g = sg_derivative_with(&reverse, 0);
    s->tg = sg_derivative_with(&parts, s->g);
}

static const struct {
    const sg_op *op;
    row_fn run;
    bool wide;
} rules[] = {
    {&sg_op_softmax_cross_entropy, loss_row, false},
    {&sg_op_softmax_cross_entropy_vjp, vjp_row, true},
    {&sg_op_softmax_cross_entropy_jvp, jvp_row, false},
    {&sg_op_softmax_cross_entropy_vjp_jvp, vjp_jvp_row, true},
};

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    const sg_op *op = spec->node->op;
    cross_entropy *s = sg_calloc(1, sizeof *s);
    if (!s)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", op->name);
    s->rows = sg_shape_count(&spec->in_shape[TARGET]);
    s->classes = spec->in_shape[Z].dim[spec->in_shape[Z].rank - 1];
    find_places(s, spec);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].op == op) {
            s->run = rules[i].run;
            s->wide = rules[i].wide;
        }
    s->alias[0] = s->wide ? Z : -1; /* a row of z is read before it is written */
    s->scratch = op == &sg_op_softmax_cross_entropy_jvp ? sg_cpu_line((size_t)s->classes * sizeof(float)) : 0;
    *out = (sg_kernel){.name = op->name, .launch = launch, .state = s, .release = sg_free, .alias = s->alias};
    out->workspace = s->scratch * (size_t)(spec->threads > 0 ? spec->threads : 1);
    return SG_OK;
}

/* Of the reverse derivatives those that are not asked for a result or have no cotangent are left to the decomposition. */
static bool supports(const sg_kernel_spec *spec)
{
    cross_entropy s;
    find_places(&s, spec);
    const sg_op *op = spec->node->op;
    bool reverse = op == &sg_op_softmax_cross_entropy_vjp || op == &sg_op_softmax_cross_entropy_vjp_jvp;
    return spec->in_dtype[Z] == SG_F32 && (!reverse || (s.g >= 0 && spec->n_out == 1)) &&
           (op != &sg_op_softmax_cross_entropy_jvp || s.t >= 0);
}

const sg_cpu_kernel sg_cpu_cross_entropy_kernels[] = {{&sg_op_softmax_cross_entropy, supports, prepare},
                                                      {&sg_op_softmax_cross_entropy_vjp, supports, prepare},
                                                      {&sg_op_softmax_cross_entropy_jvp, supports, prepare},
                                                      {&sg_op_softmax_cross_entropy_vjp_jvp, supports, prepare},
                                                      {0}};
