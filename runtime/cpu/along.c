/* along.c - what works along one axis: max, min, prod, argmax, argmin, logsumexp, cumsum, softmax and log_softmax.
 *
 * Each op is a function of one contiguous row. Where the axis is not the last one, blocks of COLUMNS neighbouring columns
 * are copied into scratch rows first. */
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/row_kernels_internal.h"

#include "ops/ops_internal.h"

#include <math.h>
#include <string.h>

#define COLUMNS 16
/* Below this many elements a second thread costs more than it saves. */
#define SERIAL_WORK 8192

/* y has one element (reductions; argmax stores an int32_t) or n (scans; y may be x). */
typedef void (*row_fn)(int64_t n, const float *x, float *y);

typedef struct along {
    int64_t outer, size, inner;
    bool scan;
    row_fn row;
    size_t scratch; /* of one thread */
} along;

static void row_max(int64_t n, const float *x, float *y) { *y = sg_row_kernels_best()->max(n, x); }

static void row_min(int64_t n, const float *x, float *y)
{
    float best = INFINITY;
    bool nan = false;
    for (int64_t i = 0; i < n; i++) {
        nan |= isnan(x[i]);
        best = x[i] < best ? x[i] : best;
    }
    *y = nan ? NAN : best;
}

static void row_prod(int64_t n, const float *x, float *y)
{
    double product = 1;
    for (int64_t i = 0; i < n; i++)
        product *= x[i];
    *y = (float)product;
}

/* The first NaN wins, then the lowest index of the maximum. */
static void row_argmax(int64_t n, const float *x, float *y)
{
    int32_t best = 0;
    for (int64_t i = 0; i < n && !isnan(x[best]); i++)
        if (isnan(x[i]) || x[i] > x[best])
            best = (int32_t)i;
    memcpy(y, &best, sizeof best);
}

static void row_argmin(int64_t n, const float *x, float *y)
{
    int32_t best = 0;
    for (int64_t i = 0; i < n && !isnan(x[best]); i++)
        if (isnan(x[i]) || x[i] < x[best])
            best = (int32_t)i;
    memcpy(y, &best, sizeof best);
}

static void row_logsumexp(int64_t n, const float *x, float *y)
{
    const sg_row_kernels *rows = sg_row_kernels_best();
    float top = rows->max(n, x);
    *y = isfinite(top) ? top + logf(rows->exp_sum(n, x, top, NULL)) : top;
}

/* Rows whose maximum is not finite: all -inf stays so (softmax: zeros), +inf leaves NaN at its place, NaN spreads. */
static void row_unusual(int64_t n, const float *x, float top, bool logarithm, float *y)
{
    float shift = top == -INFINITY ? 0 : top;
    for (int64_t i = 0; i < n; i++)
        y[i] = logarithm ? x[i] - shift : expf(x[i] - shift);
}

static void row_softmax(int64_t n, const float *x, float *y)
{
    const sg_row_kernels *rows = sg_row_kernels_best();
    float top = rows->max(n, x);
    if (!isfinite(top)) {
        row_unusual(n, x, top, false, y);
        return;
    }
    rows->scale(n, 1 / rows->exp_sum(n, x, top, y), y);
}

static void row_log_softmax(int64_t n, const float *x, float *y)
{
    const sg_row_kernels *rows = sg_row_kernels_best();
    float top = rows->max(n, x);
    if (!isfinite(top)) {
        row_unusual(n, x, top, true, y);
        return;
    }
    float rest = logf(rows->exp_sum(n, x, top, NULL));
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - top) - rest;
}

/* Running sums in double: their rounding errors would add up along the row. */
static void row_cumsum(int64_t n, const float *x, float *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(sum += x[i]);
}

static void row_cumsum_backwards(int64_t n, const float *x, float *y)
{
    double sum = 0;
    for (int64_t i = n - 1; i >= 0; i--)
        y[i] = (float)(sum += x[i]);
}

typedef struct job {
    const along *a;
    const float *in;
    float *out;
    char *scratch;
} job;

static void run_rows(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    const along *a = j->a;
    for (int64_t r = begin; r < end; r++)
        a->row(a->size, j->in + r * a->size, j->out + (a->scan ? r * a->size : r));
}

static void run_columns(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    const job *j = arg;
    const along *a = j->a;
    float *rows = (float *)(j->scratch + (size_t)thread * a->scratch), y[COLUMNS];
    int64_t blocks = (a->inner + COLUMNS - 1) / COLUMNS;
    for (int64_t t = begin; t < end; t++) {
        int64_t o = t / blocks, col = t % blocks * COLUMNS;
        int64_t cols = a->inner - col < COLUMNS ? a->inner - col : COLUMNS;
        const float *x = j->in + o * a->size * a->inner + col;
        for (int64_t i = 0; i < a->size; i++)
            for (int64_t k = 0; k < cols; k++)
                rows[k * a->size + i] = x[i * a->inner + k];
        for (int64_t k = 0; k < cols; k++)
            a->row(a->size, rows + k * a->size, a->scan ? rows + k * a->size : &y[k]);
        if (!a->scan) {
            memcpy(j->out + o * a->inner + col, y, (size_t)cols * sizeof(float));
            continue;
        }
        float *out = j->out + o * a->size * a->inner + col;
        for (int64_t i = 0; i < a->size; i++)
            for (int64_t k = 0; k < cols; k++)
                out[i * a->inner + k] = rows[k * a->size + i];
    }
}

static bool launch(const sg_launch *l, sg_error *err)
{
    (void)err;
    const along *a = l->state;
    job j = {a, l->in[0], l->out[0], l->workspace};
    int32_t threads = a->outer * a->size * a->inner < SERIAL_WORK ? 1 : l->threads;
    if (a->inner == 1)
        sg_cpu_parallel(threads, a->outer, run_rows, &j);
    else
        sg_cpu_parallel(threads, a->outer * ((a->inner + COLUMNS - 1) / COLUMNS), run_columns, &j);
    return true;
}

static const struct {
    const sg_op *op;
    row_fn row;
    bool scan;
} rules[] = {
    {&sg_op_max, row_max, false},
    {&sg_op_min, row_min, false},
    {&sg_op_prod, row_prod, false},
    {&sg_op_argmax, row_argmax, false},
    {&sg_op_argmin, row_argmin, false},
    {&sg_op_logsumexp, row_logsumexp, false},
    {&sg_op_cumsum, row_cumsum, true},
    {&sg_op_softmax, row_softmax, true},
    {&sg_op_log_softmax, row_log_softmax, true},
};

static void choose(along *a, const sg_kernel_spec *spec)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].op == spec->node->op) {
            a->row = rules[i].row;
            a->scan = rules[i].scan;
        }
    if (spec->node->op == &sg_op_cumsum && spec->attr[1].i)
        a->row = row_cumsum_backwards;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    along *a = sg_calloc(1, sizeof *a);
    if (!a)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", spec->node->op->name);
    sg_axis_split x = sg_split_at(&spec->in_shape[0], spec->attr[0].i);
    a->outer = x.outer;
    a->size = x.size;
    a->inner = x.inner;
    choose(a, spec);
    if (a->inner > 1)
        a->scratch = sg_cpu_line((size_t)a->size * COLUMNS * sizeof(float));
    *out = (sg_kernel){.name = spec->node->op->name, .launch = launch, .state = a, .release = sg_free};
    out->workspace = a->scratch * (size_t)spec->threads;
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec) { return spec->in_dtype[0] == SG_F32; }

const sg_cpu_kernel sg_cpu_along_kernels[] = {
    {&sg_op_max, supports, prepare},         {&sg_op_min, supports, prepare},
    {&sg_op_prod, supports, prepare},        {&sg_op_argmax, supports, prepare},
    {&sg_op_argmin, supports, prepare},      {&sg_op_logsumexp, supports, prepare},
    {&sg_op_cumsum, supports, prepare},      {&sg_op_softmax, supports, prepare},
    {&sg_op_log_softmax, supports, prepare}, {0}};
