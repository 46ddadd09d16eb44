/* reduce.c - sums over any set of axes, the other reductions along one axis, softmax and running sums: which passes, in which
 * form. Forms and chunks depend on shapes alone, so that every card gives the same sums.
 *
 * Sums: neighbouring axes that are both kept or both summed are merged; then each summed axis is taken away by itself, last
 * axis first, seen as x [outer, size, inner] -> y [outer, inner]. A long axis, and one whose result has few elements, is cut
 * into chunks that are reduced apart and then joined: work for all processors, and smaller rounding errors. */
#include <string.h>

#include "ops/ops_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/reduce_internal.h"

enum {
    THREADS = 256,
    FEW_BLOCKS = 256,   /* fewer do not fill a card */
    SHORT_ROW = 8,      /* one thread reads it faster than a warp joins it */
    WARP_ROW = 1024,    /* the longest row of a warp */
    ROW_CHUNK = 8192,   /* elements of a contiguous row that a block takes */
    SHORT_COLUMN = 16,  /* one thread reads it */
    COLUMN_DEPTH = 1024 /* the most rows that one thread adds up */
};
#define MAX_PASSES (2 * SG_MAX_RANK)

typedef struct reduction {
    sg_cuda_rule rule;
    bool partial; /* one axis, two passes with accumulators between; else every pass has results */
    int32_t n_passes;
    sg_cuda_pass pass[MAX_PASSES];
    size_t out_bytes;
    size_t half; /* bytes of each of the two intermediate buffers */
} reduction;

/* ------------------------------------------------------------------------------------------------------- forms */

static sg_cuda_pass whole(int64_t outer, int64_t size, int64_t inner)
{
    sg_cuda_pass p = {outer, size, inner, size, 1, 32, SG_CUDA_COLUMNS};
    while (p.lanes > 1 && p.lanes / 2 >= inner)
        p.lanes /= 2;
    if (inner == 1)
        p.form = size <= SHORT_ROW ? SG_CUDA_THREAD : size <= WARP_ROW ? SG_CUDA_WARP : SG_CUDA_BLOCK;
    else if (size <= SHORT_COLUMN || (size <= 4 * SHORT_COLUMN && outer * inner >= FEW_BLOCKS * THREADS))
        p.form = SG_CUDA_THREAD;
    return p;
}

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static void cut(sg_cuda_pass *p)
{
    int64_t chunks = 1;
    if (p->form == SG_CUDA_BLOCK && p->size > 2 * ROW_CHUNK)
        chunks = ceil_div(p->size, ROW_CHUNK);
    if (p->form == SG_CUDA_COLUMNS) {
        int64_t rows = THREADS / p->lanes, blocks = p->outer * ceil_div(p->inner, p->lanes);
        if (blocks < FEW_BLOCKS && p->size > 16 * rows) {
            chunks = ceil_div(FEW_BLOCKS, blocks);
            int64_t most = p->size / (8 * rows);
            chunks = chunks < most ? chunks : most;
        }
        int64_t least = ceil_div(p->size, rows * COLUMN_DEPTH);
        chunks = chunks > least ? chunks : least;
    }
    p->chunk = ceil_div(p->size, chunks);
    p->chunks = ceil_div(p->size, p->chunk);
}

static void add_passes(reduction *r, int64_t outer, int64_t size, int64_t inner)
{
    sg_cuda_pass p = whole(outer, size, inner);
    cut(&p);
    r->pass[r->n_passes++] = p;
    if (p.chunks > 1)
        r->pass[r->n_passes++] = whole(outer, p.chunks, inner);
}

/* ----------------------------------------------------------------------------------------------------- running */

static bool launch(const sg_launch *l, sg_error *err)
{
    const reduction *r = l->state;
    const void *in = l->in[0];
    for (int32_t i = 0; i < r->n_passes; i++) {
        bool last = i == r->n_passes - 1;
        void *out = last ? l->out[0] : (char *)l->workspace + (size_t)(i & 1) * r->half;
        sg_cuda_reduce(r->rule, &r->pass[i], r->partial && i > 0, r->partial && !last, in, out, l->stream);
        in = out;
    }
    return sg_cuda_launched(err);
}

static bool launch_copy(const sg_launch *l, sg_error *err)
{
    const reduction *r = l->state;
    return sg_cuda_check(cudaMemcpyAsync(l->out[0], l->in[0], r->out_bytes, cudaMemcpyDeviceToDevice, l->stream),
                         "copy", err) == SG_OK;
}

/* An empty sum is zero. */
static bool launch_zero(const sg_launch *l, sg_error *err)
{
    const reduction *r = l->state;
    return sg_cuda_check(cudaMemsetAsync(l->out[0], 0, r->out_bytes, l->stream), "fill", err) == SG_OK;
}

static bool launch_nothing(const sg_launch *l, sg_error *err)
{
    (void)l, (void)err;
    return true;
}

/* --------------------------------------------------------------------------------------------------- preparing */

static reduction *new_reduction(const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    reduction *r = sg_calloc(1, sizeof *r);
    if (!r) {
        sg_fail(err, SG_E_MEMORY, "out of memory for %s", spec->node->op->name);
        return NULL;
    }
    r->out_bytes = (size_t)sg_shape_count(&spec->out_shape[0]) * sizeof(float);
    *out = (sg_kernel){.name = spec->node->op->name, .state = r, .release = sg_free, .launch = launch_nothing};
    return r;
}

static void finish(reduction *r, sg_kernel *out)
{
    size_t element = r->partial ? SG_CUDA_ACC_BYTES : sizeof(float);
    for (int32_t i = 0; i + 1 < r->n_passes; i++) {
        const sg_cuda_pass *p = &r->pass[i];
        size_t bytes = ((size_t)(p->outer * p->chunks * p->inner) * element + 255) / 256 * 256;
        r->half = bytes > r->half ? bytes : r->half;
    }
    out->workspace = 2 * r->half;
    out->launch = launch;
}

/* The axes of `summed` taken away one group at a time, last first. */
static void plan_sums(reduction *r, const sg_shape *x, const bool *summed)
{
    int64_t size[SG_MAX_RANK], inner = 1;
    bool sum[SG_MAX_RANK];
    int32_t groups = 0;
    for (int32_t i = 0; i < x->rank; i++) {
        if (x->dim[i] == 1)
            continue;
        if (groups > 0 && sum[groups - 1] == summed[i]) {
            size[groups - 1] *= x->dim[i];
            continue;
        }
        size[groups] = x->dim[i];
        sum[groups++] = summed[i];
    }
    for (int32_t g = groups - 1; g >= 0; g--) {
        if (!sum[g]) {
            inner *= size[g];
            continue;
        }
        int64_t outer = 1;
        for (int32_t k = 0; k < g; k++)
            outer *= size[k];
        add_passes(r, outer, size[g], inner);
    }
}

static sg_status prepare_sums(const sg_kernel_spec *spec, const bool *summed, sg_kernel *out, sg_error *err)
{
    reduction *r = new_reduction(spec, out, err);
    if (!r)
        return SG_E_MEMORY;
    r->rule = SG_CUDA_SUM;
    if (r->out_bytes == 0)
        return SG_OK;
    if (sg_shape_count(&spec->in_shape[0]) == 0) {
        out->launch = launch_zero;
        return SG_OK;
    }
    plan_sums(r, &spec->in_shape[0], summed);
    finish(r, out);
    if (r->n_passes == 0)
        out->launch = launch_copy;
    return SG_OK;
}

static sg_status prepare_sum(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    bool summed[SG_MAX_RANK] = {false};
    for (int64_t i = 0; i < spec->attr[0].count; i++)
        summed[spec->attr[0].ints[i]] = true;
    return prepare_sums(spec, summed, out, err);
}

/* Summed are the axes that x has more, and those that are 1 in the result only. */
static sg_status prepare_sum_like(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    bool summed[SG_MAX_RANK] = {false};
    const sg_shape *x = &spec->in_shape[0], *y = &spec->out_shape[0];
    for (int32_t i = 0; i < x->rank; i++) {
        int32_t k = i - (x->rank - y->rank);
        summed[i] = k < 0 || y->dim[k] != x->dim[i];
    }
    return prepare_sums(spec, summed, out, err);
}

static sg_cuda_rule rule_of(const sg_op *op)
{
    return op == &sg_op_prod     ? SG_CUDA_PROD
           : op == &sg_op_max    ? SG_CUDA_MAX
           : op == &sg_op_min    ? SG_CUDA_MIN
           : op == &sg_op_argmax ? SG_CUDA_ARGMAX
           : op == &sg_op_argmin ? SG_CUDA_ARGMIN
                                 : SG_CUDA_LOGSUMEXP;
}

static sg_status prepare_along(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    reduction *r = new_reduction(spec, out, err);
    if (!r)
        return SG_E_MEMORY;
    sg_axis_split x = sg_split_at(&spec->in_shape[0], spec->attr[0].i);
    r->rule = rule_of(spec->node->op);
    r->partial = true;
    if (r->out_bytes == 0)
        return SG_OK;
    if (x.size > 0)
        add_passes(r, x.outer, x.size, x.inner);
    else /* prod and logsumexp of nothing: the rule's start */
        r->pass[r->n_passes++] = (sg_cuda_pass){x.outer, 0, x.inner, 1, 1, 32, SG_CUDA_THREAD};
    finish(r, out);
    return SG_OK;
}

/* --------------------------------------------------------------------------------------- softmax, running sums */

static bool launch_softmax(const sg_launch *l, sg_error *err)
{
    const reduction *r = l->state;
    sg_cuda_softmax(&r->pass[0], false, l->in[0], l->out[0], l->stream);
    return sg_cuda_launched(err);
}

static bool launch_log_softmax(const sg_launch *l, sg_error *err)
{
    const reduction *r = l->state;
    sg_cuda_softmax(&r->pass[0], true, l->in[0], l->out[0], l->stream);
    return sg_cuda_launched(err);
}

static bool launch_cumsum(const sg_launch *l, sg_error *err)
{
    const reduction *r = l->state;
    const sg_cuda_pass *p = &r->pass[0];
    sg_cuda_cumsum(p->outer, p->size, p->inner, false, l->in[0], l->out[0], l->stream);
    return sg_cuda_launched(err);
}

static bool launch_cumsum_reverse(const sg_launch *l, sg_error *err)
{
    const reduction *r = l->state;
    const sg_cuda_pass *p = &r->pass[0];
    sg_cuda_cumsum(p->outer, p->size, p->inner, true, l->in[0], l->out[0], l->stream);
    return sg_cuda_launched(err);
}

static sg_status prepare_scan(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    reduction *r = new_reduction(spec, out, err);
    if (!r)
        return SG_E_MEMORY;
    sg_axis_split x = sg_split_at(&spec->in_shape[0], spec->attr[0].i);
    if (r->out_bytes == 0)
        return SG_OK;
    r->pass[0] = whole(x.outer, x.size, x.inner);
    const sg_op *op = spec->node->op;
    out->launch = op == &sg_op_softmax       ? launch_softmax
                  : op == &sg_op_log_softmax ? launch_log_softmax
                  : spec->attr[1].i          ? launch_cumsum_reverse
                                             : launch_cumsum;
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec) { return spec->in_dtype[0] == SG_F32; }

const sg_cuda_kernel sg_cuda_reduce_kernels[] = {
    {&sg_op_sum, supports, prepare_sum},      {&sg_op_sum_like, supports, prepare_sum_like},
    {&sg_op_max, supports, prepare_along},    {&sg_op_min, supports, prepare_along},
    {&sg_op_prod, supports, prepare_along},   {&sg_op_argmax, supports, prepare_along},
    {&sg_op_argmin, supports, prepare_along}, {&sg_op_logsumexp, supports, prepare_along},
    {&sg_op_softmax, supports, prepare_scan}, {&sg_op_log_softmax, supports, prepare_scan},
    {&sg_op_cumsum, supports, prepare_scan},  {0}};
