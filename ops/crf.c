/* crf.c - linear-chain conditional random field (Lafferty, McCallum and Pereira 2001).
 *
 * A path y of length n has the score
 *     s(y) = start[y_0] + sum_t e[t, y_t] + sum_{t>0} trans[y_{t-1}, y_t] + end[y_{n-1}].
 * crf_log_partition is log Z = log sum_y exp s(y), by the forward recursion
 *     alpha_0 = start + e_0,     alpha_t[j] = e_t[j] + logsumexp_i(alpha_{t-1}[i] + trans[i, j]),
 *     log Z = logsumexp(alpha_{n-1} + end).
 * Its gradient in the emissions is the posterior of each tag: the marginals are the reverse derivative, an operator that has
 * derivatives itself. An impossible transition is -inf: it has probability 0, and gradient 0. A sequence of length 0
 * has one path, the empty one: log Z = 0. */
#include "ops/crf_internal.h"

#include "ops/axis_internal.h"
#include "ops/derivative_internal.h"
#include "ops/sequence_internal.h"

#include <math.h>
#include <string.h>

static const sg_attr_spec vjp_attrs[] = {SG_VJP_ATTRS};
static const sg_attr_spec jvp_attrs[] = {SG_JVP_ATTRS};
static const sg_attr_spec vjp_jvp_attrs[] = {SG_VJP_ATTRS, SG_JVP_ATTRS};

static sg_status check_inputs(const sg_infer_args *a)
{
    const sg_shape *e = &a->in_shape[SG_CRF_EMISSIONS];
    if (a->n_in < SG_CRF_LENGTHS || a->n_in > SG_CRF_LENGTHS + 1)
        return sg_infer_fail(a, SG_E_ARGUMENT, "needs four inputs, or five with lengths");
    SG_TRY(sg_require_real(a, SG_CRF_EMISSIONS));
    if (e->rank != 3 || e->dim[2] < 1)
        return sg_infer_fail(a, SG_E_SHAPE, "emissions must be [batch, steps, tags] with at least one tag");
    SG_TRY(sg_require_sizes(a, SG_CRF_TRANSITIONS, 2, (int64_t[]){e->dim[2], e->dim[2]}));
    SG_TRY(sg_require_sizes(a, SG_CRF_START, 1, &e->dim[2]));
    SG_TRY(sg_require_sizes(a, SG_CRF_END, 1, &e->dim[2]));
    return a->n_in > SG_CRF_LENGTHS ? sg_require_lengths(a, SG_CRF_LENGTHS, e) : SG_OK;
}

static sg_status infer(const sg_infer_args *a)
{
    SG_TRY(check_inputs(a));
    sg_shape rows = {.rank = 1};
    sg_shape_put(&rows, 0, &a->in_shape[SG_CRF_EMISSIONS], 0);
    a->out_shape[SG_CRF_LOG_Z] = rows;
    a->out_shape[SG_CRF_ALPHA] = a->in_shape[SG_CRF_EMISSIONS];
    a->out_dtype[SG_CRF_LOG_Z] = a->out_dtype[SG_CRF_ALPHA] = a->in_dtype[SG_CRF_EMISSIONS];
    return SG_OK;
}

/* -------------------------------------------------------------------------------------------------- decomposition */

/* Rows that are over see zeros, so that no NaN of the others' numbers meets their zero cotangent. */
static sg_value of_rows(sg_value x, sg_value inside)
{
    return sg_is_none(inside) ? x : sg_where(inside, x, sg_number(x, 0));
}

/* `inside` [batch, 1] or SG_NONE: rows that have this step. */
static sg_value forward_step(sg_value alpha, sg_value e, sg_value transitions, sg_value inside)
{
    sg_value pairs = sg_add(sg_expand_dims(alpha, 2), transitions);
    if (!sg_is_none(inside))
        pairs = of_rows(pairs, sg_expand_dims(inside, 2));
    sg_value next = sg_add(sg_logsumexp(pairs, 1, false), e);
    return sg_is_none(inside) ? next : sg_where(inside, next, alpha);
}

static void decompose(const sg_decompose_args *a)
{
    sg_value e = a->in[SG_CRF_EMISSIONS], end = a->in[SG_CRF_END], mask = SG_NONE, alpha = SG_NONE;
    int64_t steps = sg_dim_of(e, 1), tags = sg_dim_of(e, 2);
    sg_value *all = sg_calloc(steps + 1, sizeof *all);
    if (!all) {
        sg_graph_fail(a->graph, SG_E_MEMORY, e, "out of memory for %lld steps", (long long)steps);
        return;
    }
    if (a->node->n_in > SG_CRF_LENGTHS)
        mask = sg_length_mask(a->in[SG_CRF_LENGTHS], steps);
    for (int64_t t = 0; t < steps; t++) {
        sg_value here = sg_step_at(e, t), inside = sg_is_none(mask) ? mask : sg_slice_places(mask, 1, t, t + 1);
        alpha = t ? forward_step(alpha, here, a->in[SG_CRF_TRANSITIONS], inside) : sg_add(here, a->in[SG_CRF_START]);
        all[t] = alpha;
    }
    a->out[SG_CRF_ALPHA] = sg_stack_steps(all, steps, e, tags);
    sg_free(all);
    if (steps == 0) {
        a->out[SG_CRF_LOG_Z] = sg_zeros_like(sg_sum_axes(e, SG_AXES(1, 2), false));
        return;
    }
    sg_value inside = sg_is_none(mask) ? mask : sg_slice_places(mask, 1, 0, 1);
    sg_value log_z = sg_logsumexp(of_rows(sg_add(alpha, end), inside), 1, false);
    if (!sg_is_none(mask))
        log_z = sg_where(sg_step_at(mask, 0), log_z, sg_number(log_z, 0));
    a->out[SG_CRF_LOG_Z] = log_z;
}

/* ----------------------------------------------------------------------------------------------------------- work */

/* About `each` operations for every pair of tags at every step. */
static sg_cost work(const sg_cost_args *a, double each)
{
    const sg_shape *e = &a->in_shape[SG_CRF_EMISSIONS];
    double bytes = 0, pairs = (double)e->dim[0] * (double)e->dim[1] * (double)e->dim[2] * (double)e->dim[2];
    for (int32_t k = 0; k < a->n_in; k++)
        bytes += (double)sg_shape_count(&a->in_shape[k]) * (double)sg_dtype_size(a->in_dtype[k]);
    for (int32_t k = 0; k < a->n_out; k++)
        bytes += (double)sg_shape_count(&a->out_shape[k]) * (double)sg_dtype_size(a->out_dtype[k]);
    return (sg_cost){pairs * each, bytes};
}

static sg_cost cost(const sg_cost_args *a) { return work(a, 4); }
static sg_cost vjp_cost(const sg_cost_args *a) { return work(a, 6); }
static sg_cost jvp_cost(const sg_cost_args *a) { return work(a, 5); }
static sg_cost vjp_jvp_cost(const sg_cost_args *a) { return work(a, 18); }
static sg_cost viterbi_cost(const sg_cost_args *a) { return work(a, 2); }

const sg_op sg_op_crf_log_partition = {
    .name = "crf_log_partition",
    .summary = "log of the sum over all paths of exp(score), by the forward recursion",
    .n_in = SG_VARIADIC,
    .n_out = 2,
    .flags = SG_OP_COMPOSITE | SG_OP_FULL,
    .infer = infer,
    .decompose = decompose,
    .cost = cost,
    .vjp_op = &sg_op_crf_log_partition_vjp,
    .jvp_op = &sg_op_crf_log_partition_jvp,
};

SG_DERIVATIVE_OP(crf_log_partition_vjp, "marginals of tags and pairs: reverse derivative of crf_log_partition",
                 vjp_attrs, crf_log_partition, vjp_cost, .hints = 1 << SG_CRF_ALPHA,
                 .jvp_op = &sg_op_crf_log_partition_vjp_jvp)
SG_DERIVATIVE_OP(crf_log_partition_jvp, "forward derivative of crf_log_partition", jvp_attrs, crf_log_partition,
                 jvp_cost, .hints = 1 << SG_CRF_ALPHA)
SG_DERIVATIVE_OP(crf_log_partition_vjp_jvp, "forward derivative of the marginals of a CRF", vjp_jvp_attrs,
                 crf_log_partition_vjp, vjp_jvp_cost, .hints = 0)

static int32_t inputs_of(const sg_crf *crf, sg_value emissions, sg_value lengths, sg_value in[5])
{
    in[SG_CRF_EMISSIONS] = emissions;
    in[SG_CRF_TRANSITIONS] = crf->transitions;
    in[SG_CRF_START] = crf->start;
    in[SG_CRF_END] = crf->end;
    in[SG_CRF_LENGTHS] = lengths;
    return lengths.graph ? 5 : 4;
}

sg_value sg_crf_log_partition(sg_crf crf, sg_value emissions, sg_value lengths)
{
    sg_value in[5];
    int32_t n = inputs_of(&crf, emissions, lengths, in);
    return sg_build_op(&sg_op_crf_log_partition, in, n, NULL);
}

/* d log Z / d e_t[j] is the posterior probability of tag j at step t. */
sg_value sg_crf_marginals(sg_crf crf, sg_value emissions, sg_value lengths)
{
    sg_value log_z = sg_crf_log_partition(crf, emissions, lengths), in[5], out;
    if (sg_is_none(log_z))
        return SG_NONE;
    inputs_of(&crf, emissions, lengths, in);
    sg_value y[] = {log_z, sg_output_of(log_z, SG_CRF_ALPHA)}, one = sg_ones_like(log_z);
    sg_node node = *sg_node_of(log_z);
    sg_build_vjp(log_z.graph, &node, in, y, (int64_t[]){SG_CRF_EMISSIONS}, 1, (int64_t[]){SG_CRF_LOG_Z}, &one, 1, &out);
    return out;
}

/* ------------------------------------------------------------------------------------------------ score of a path */

/* Scores of the transitions into each step, [B, T]; what it gives at the first step means nothing. */
static sg_value moves(sg_value transitions, sg_value tags)
{
    sg_value before = sg_concat((sg_value[]){sg_slice_places(tags, 1, 0, 1), sg_slice_places(tags, 1, 0, -1)}, 2, 1);
    sg_value rows = sg_gather(transitions, sg_reshape_like(before, tags));
    return sg_squeeze(sg_gather_elements(rows, sg_expand_dims(tags, 2), 2), 2);
}

static sg_value path_score(const sg_crf *crf, sg_value emissions, sg_value tags, sg_value lengths)
{
    sg_value at = sg_step_numbers(emissions), zero = sg_number(emissions, 0), first = sg_equal(at, zero);
    sg_value picked = sg_squeeze(sg_gather_elements(emissions, sg_expand_dims(tags, 2), 2), 2);
    sg_value arrival = sg_where(first, sg_gather(crf->start, tags), moves(crf->transitions, tags));
    sg_value total = sg_add(picked, arrival), ends = sg_gather(crf->end, tags);
    if (!lengths.graph)
        return sg_sum(sg_add(total, sg_where(sg_equal(at, sg_max(at, 1, true)), ends, zero)), 1);
    sg_value length = sg_expand_dims(sg_cast(lengths, sg_dtype_of(emissions)), 1);
    total = sg_add(total, sg_where(sg_equal(at, sg_add_scalar(length, -1)), ends, zero));
    return sg_sum(sg_where(sg_less(at, length), total, zero), 1);
}

static bool has_forms(const sg_crf *crf, sg_value emissions, sg_value lengths)
{
    int64_t tags = sg_dim_of(emissions, 2);
    sg_shape square = SG_SHAPE(tags, tags), row = SG_SHAPE(tags), rows = SG_SHAPE(sg_dim_of(emissions, 0));
    sg_dtype dtype = sg_dtype_of(emissions);
    return sg_require_form(crf->transitions, &square, dtype, "crf_score", "transitions") &&
           sg_require_form(crf->start, &row, dtype, "crf_score", "start") &&
           sg_require_form(crf->end, &row, dtype, "crf_score", "end") &&
           sg_require_form(lengths, &rows, SG_I32, "crf_score", "lengths");
}

sg_value sg_crf_score(sg_crf crf, sg_value emissions, sg_value tags, sg_value lengths)
{
    if (!sg_common_graph((sg_value[]){emissions, tags}, 2))
        return SG_NONE;
    if (sg_rank_of(emissions) != 3 || sg_rank_of(tags) != 2)
        return sg_graph_fail(emissions.graph, SG_E_SHAPE, emissions,
                             "crf_score: emissions must be [batch, steps, tags] and tags [batch, steps]");
    if (sg_dim_of(emissions, 1) == 0)
        return sg_zeros_like(sg_sum_axes(emissions, SG_AXES(1, 2), false));
    if (!has_forms(&crf, emissions, lengths))
        return SG_NONE;
    return path_score(&crf, emissions, tags, lengths);
}

sg_value sg_crf_log_likelihood(sg_crf crf, sg_value emissions, sg_value tags, sg_value lengths)
{
    return sg_sub(sg_crf_score(crf, emissions, tags, lengths), sg_crf_log_partition(crf, emissions, lengths));
}

/* --------------------------------------------------------------------------------------------------------- viterbi */

static sg_status infer_viterbi(const sg_infer_args *a)
{
    SG_TRY(check_inputs(a));
    sg_shape path = {.rank = 2};
    sg_shape_put(&path, 0, &a->in_shape[SG_CRF_EMISSIONS], 0);
    sg_shape_put(&path, 1, &a->in_shape[SG_CRF_EMISSIONS], 1);
    a->out_shape[0] = path;
    a->out_dtype[0] = SG_I32;
    return SG_OK;
}

static int64_t length_of(const sg_eval_args *a, int64_t row, int64_t steps)
{
    double length = a->n_in > SG_CRF_LENGTHS ? a->in[SG_CRF_LENGTHS].data[row] : (double)steps;
    return length < 0 ? 0 : length < (double)steps ? (int64_t)length : steps; /* backends refuse others */
}

/* As in argmax: the first NaN wins, then the lowest index of the maximum. */
static bool better(double a, double than) { return a > than || (isnan(a) && !isnan(than)); }

/* delta_t[j]: score of the best path that ends in tag j at step t; back[t, j]: the tag before it. */
static void best_path(const sg_eval_args *a, const double *e, int64_t n, int64_t tags, double *delta, double *back,
                      double *path)
{
    const double *transitions = a->in[SG_CRF_TRANSITIONS].data, *end = a->in[SG_CRF_END].data;
    double *next = delta + tags;
    for (int64_t j = 0; j < tags; j++)
        delta[j] = a->in[SG_CRF_START].data[j] + e[j];
    for (int64_t t = 1; t < n; t++) {
        for (int64_t j = 0; j < tags; j++) {
            int64_t from = 0;
            for (int64_t i = 1; i < tags; i++)
                if (better(delta[i] + transitions[i * tags + j], delta[from] + transitions[from * tags + j]))
                    from = i;
            back[t * tags + j] = (double)from;
            next[j] = delta[from] + transitions[from * tags + j] + e[t * tags + j];
        }
        memcpy(delta, next, (size_t)tags * sizeof *delta);
    }
    int64_t last = 0;
    for (int64_t j = 1; j < tags; j++)
        if (better(delta[j] + end[j], delta[last] + end[last]))
            last = j;
    for (int64_t t = n - 1; t >= 0; t--) {
        path[t] = (double)last;
        last = (int64_t)back[t * tags + last];
    }
}

static void eval_viterbi(const sg_eval_args *a)
{
    const sg_shape *e = a->in[SG_CRF_EMISSIONS].shape;
    int64_t steps = e->dim[1], tags = e->dim[2];
    double *scratch = sg_calloc((steps + 2) * tags, sizeof *scratch);
    for (int64_t b = 0; b < e->dim[0]; b++) {
        double *path = a->out[0].data + b * steps;
        int64_t n = length_of(a, b, steps);
        for (int64_t t = 0; t < steps; t++)
            path[t] = scratch ? 0 : NAN;
        if (scratch && n > 0)
            best_path(a, a->in[SG_CRF_EMISSIONS].data + b * steps * tags, n, tags, scratch, scratch + 2 * tags, path);
    }
    sg_free(scratch);
}

const sg_op sg_op_crf_viterbi = {
    .name = "crf_viterbi",
    .summary = "tags of the path with the highest score; ties: the lowest tag; 0 past the length",
    .n_in = SG_VARIADIC,
    .n_out = 1,
    .flags = SG_OP_ZERO_GRAD | SG_OP_FULL,
    .infer = infer_viterbi,
    .eval = eval_viterbi,
    .cost = viterbi_cost,
};

sg_value sg_crf_viterbi(sg_crf crf, sg_value emissions, sg_value lengths)
{
    sg_value in[5];
    int32_t n = inputs_of(&crf, emissions, lengths, in);
    return sg_build_op(&sg_op_crf_viterbi, in, n, NULL);
}
