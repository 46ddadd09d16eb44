/* reduce.c - reductions along one axis (sums are in sum.c), softmax and running sums: which passes, in which form. The axis is seen as
 * x [outer, size, inner] -> y [outer, inner]. A long one, and one whose result has few elements, is cut into chunks that are
 * reduced apart and then joined: work for all processors. Forms and chunks depend on shapes alone, so that every card gives the
 * same results. */
#include <string.h>

#include "ops/ops_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/reduce_internal.h"
#include "runtime/cuda/softmax_internal.h"

enum {
    THREADS = 256,
    FEW_BLOCKS = 256,   /* fewer do not fill a card */
    SHORT_ROW = 8,      /* one thread reads it faster than a warp joins it */
    WARP_ROW = 1024,    /* the longest row of a warp */
    ROW_CHUNK = 8192,   /* elements of a contiguous row that a block takes */
    SHORT_COLUMN = 16,  /* one thread reads it */
    COLUMN_DEPTH = 1024 /* the most rows that one thread adds up */
};

typedef struct reduction {
    sg_cuda_rule rule;
    int32_t n_passes; /* accumulators lie between the two */
    sg_cuda_pass pass[2];
    sg_cuda_softmax_rows rows; /* of softmax and its like along contiguous rows that fit into registers */
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

/* ----------------------------------------------------------------------------------------------------- running */

static bool launch(const sg_launch *l, sg_error *err)
{
    const reduction *r = l->state;
    bool joined = r->n_passes > 1;
    sg_cuda_reduce(r->rule, &r->pass[0], false, joined, l->in[0], joined ? l->workspace : l->out[0], l->stream);
    if (joined)
        sg_cuda_reduce(r->rule, &r->pass[1], true, false, l->workspace, l->out[0], l->stream);
    return sg_cuda_launched(err);
}

static bool launch_nothing(const sg_launch *l, sg_error *err)
{
    (void)l, (void)err;
    return true;
}

static bool launch_rows(const sg_launch *l, sg_error *err)
{
    const reduction *r = l->state;
    sg_cuda_softmax_rows rows = r->rows;
    rows.z = l->in[0];
    rows.out = l->out[0];
    sg_cuda_softmax_run(&rows, sg_cuda_where_of(l));
    return sg_cuda_launched(err);
}

/* --------------------------------------------------------------------------------------------------- preparing */

static reduction *new_reduction(const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    reduction *r = sg_calloc(1, sizeof *r);
    if (!r) {
        sg_fail(err, SG_E_MEMORY, "out of memory for %s", spec->node->op->name);
        return NULL;
    }
    *out = (sg_kernel){.name = spec->node->op->name, .state = r, .release = sg_free, .launch = launch_nothing};
    return r;
}

/* Softmax and its like of rows in registers; false if the rows are not contiguous or too long. */
static bool find_rows(reduction *r, const sg_kernel_spec *spec, sg_kernel *out)
{
    const sg_op *op = spec->node->op;
    sg_axis_split x = sg_split_at(&spec->in_shape[0], spec->attr[0].i);
    bool bf16 = spec->in_dtype[0] == SG_BF16;
    if (x.inner != 1 || (op != &sg_op_softmax && op != &sg_op_log_softmax && op != &sg_op_logsumexp))
        return false;
    r->rows = (sg_cuda_softmax_rows){.kind = op == &sg_op_softmax       ? SG_CUDA_SOFTMAX
                                             : op == &sg_op_log_softmax ? SG_CUDA_LOG_SOFTMAX
                                                                        : SG_CUDA_ROW_LOGSUMEXP,
                                     .rows = x.outer,
                                     .n = x.size,
                                     .team = sg_cuda_softmax_team(x.size, bf16),
                                     .bf16 = bf16};
    out->launch = launch_rows;
    out->replicates = true;
    return r->rows.team > 0;
}

static bool is_empty(const sg_kernel_spec *spec) { return sg_shape_count(&spec->out_shape[0]) == 0; }

static void add_passes(reduction *r, sg_axis_split x, sg_kernel *out)
{
    r->pass[0] = whole(x.outer, x.size, x.inner);
    cut(&r->pass[0]);
    r->n_passes = 1;
    out->launch = launch;
    if (r->pass[0].chunks == 1)
        return;
    r->pass[r->n_passes++] = whole(x.outer, r->pass[0].chunks, x.inner);
    out->workspace = (size_t)(x.outer * r->pass[0].chunks * x.inner) * SG_CUDA_ACC_BYTES;
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
    if (is_empty(spec) || find_rows(r, spec, out))
        return SG_OK;
    if (x.size > 0) {
        add_passes(r, x, out);
        return SG_OK;
    }
    /* prod and logsumexp of nothing: the rule's start */
    r->pass[r->n_passes++] = (sg_cuda_pass){x.outer, 0, x.inner, 1, 1, 32, SG_CUDA_THREAD};
    out->launch = launch;
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
    if (is_empty(spec) || find_rows(r, spec, out))
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

/* Rows in registers may be bf16 too. */
static bool supports_rows(const sg_kernel_spec *spec)
{
    reduction r;
    sg_kernel kernel;
    return supports(spec) || (spec->in_dtype[0] == SG_BF16 && find_rows(&r, spec, &kernel));
}

const sg_cuda_kernel sg_cuda_reduce_kernels[] = {
    {&sg_op_max, supports, prepare_along},         {&sg_op_min, supports, prepare_along},
    {&sg_op_prod, supports, prepare_along},        {&sg_op_argmax, supports, prepare_along},
    {&sg_op_argmin, supports, prepare_along},      {&sg_op_logsumexp, supports_rows, prepare_along},
    {&sg_op_softmax, supports_rows, prepare_scan}, {&sg_op_log_softmax, supports_rows, prepare_scan},
    {&sg_op_cumsum, supports, prepare_scan},       {0}};
