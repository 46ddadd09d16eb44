/* crf_places.c - the operands of a derivative are the inputs, alpha, then cotangents or tangents of what is seeded or moves. */
#include "runtime/crf_places_internal.h"

#include "ops/crf_internal.h"
#include "ops/derivative_internal.h"

static void find_tangents(sg_crf_places *p, const sg_derivative_parts *parts)
{
    p->te = sg_derivative_with(parts, SG_CRF_EMISSIONS);
    p->ttransitions = sg_derivative_with(parts, SG_CRF_TRANSITIONS);
    p->tstart = sg_derivative_with(parts, SG_CRF_START);
    p->tend = sg_derivative_with(parts, SG_CRF_END);
}

static void find_reverse(sg_crf_places *p, const sg_derivative_parts *parts)
{
    p->alpha = sg_derivative_hint(&sg_op_crf_log_partition_vjp, parts, SG_CRF_ALPHA);
    p->g = sg_derivative_with(parts, SG_CRF_LOG_Z);
    p->de = sg_derivative_wrt(parts, SG_CRF_EMISSIONS);
    p->dtransitions = sg_derivative_wrt(parts, SG_CRF_TRANSITIONS);
    p->dstart = sg_derivative_wrt(parts, SG_CRF_START);
    p->dend = sg_derivative_wrt(parts, SG_CRF_END);
}

bool sg_crf_find(const sg_kernel_spec *spec, sg_crf_places *p)
{
    const sg_op *op = spec->node->op;
    *p = (sg_crf_places){-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, .reverse = false};
    sg_derivative_parts outer, inner = sg_derivative_nested(op, spec->attr, spec->n_in, &outer);
    if (inner.n_x > SG_CRF_LENGTHS)
        p->lengths = SG_CRF_LENGTHS;
    if (op == &sg_op_crf_log_partition)
        return true;
    p->reverse = op != &sg_op_crf_log_partition_jvp;
    p->forward = op != &sg_op_crf_log_partition_vjp;
    if (p->forward)
        find_tangents(p, &outer);
    if (!p->reverse) {
        p->alpha = sg_derivative_hint(op, &outer, SG_CRF_ALPHA);
        return true;
    }
    find_reverse(p, &inner);
    if (p->forward && p->g >= 0)
        p->tg = sg_derivative_with(&outer, p->g);
    return p->g >= 0 && sg_derivative_with(&inner, SG_CRF_ALPHA) < 0;
}
