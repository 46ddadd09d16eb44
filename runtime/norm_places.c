/* norm_places.c - the operands of a derivative are the inputs, outputs already known, then cotangents or tangents of what is
 * chosen: this finds each by what it is. */
#include "runtime/norm_places_internal.h"

#include "ops/derivative_internal.h"

#define SG_OP(name) extern const sg_op sg_op_##name;
#include "ops/op_list.h"
#undef SG_OP

enum { X, GAMMA }; /* inputs of all */
enum { Y };        /* output of all */

/* What differs: the input beta, the outputs mean and spread, the attribute eps. */
typedef struct family {
    const sg_op *op;
    int32_t beta, mean, spread, eps;
} family;
static const family families[] = {{&sg_op_layer_norm, 2, 1, 2, 1},
                                  {&sg_op_group_norm, 2, 1, 2, 1},
                                  {&sg_op_batch_norm, 2, 1, 2, 0},
                                  {&sg_op_rms_norm, -1, -1, 1, 0}};

static const family *family_of(const sg_op *op)
{
    const family *f = families;
    while (op->parent)
        op = op->parent;
    while (f->op != op)
        f++;
    return f;
}

static int32_t hint(const sg_op *op, const sg_derivative_parts *parts, int32_t output)
{
    return output < 0 ? -1 : sg_derivative_hint(op, parts, output);
}

static void find_tangents(sg_norm_places *p, const family *f, const sg_derivative_parts *parts)
{
    p->tx = sg_derivative_with(parts, X);
    p->tgamma = sg_derivative_with(parts, GAMMA);
    p->tbeta = f->beta < 0 ? -1 : sg_derivative_with(parts, f->beta);
}

static void find_reverse(sg_norm_places *p, const family *f, const sg_derivative_parts *parts)
{
    const sg_op *vjp = f->op->vjp_op;
    p->mean = hint(vjp, parts, f->mean);
    p->spread = hint(vjp, parts, f->spread);
    p->g = sg_derivative_with(parts, Y);
    p->gx = sg_derivative_wrt(parts, X);
    p->ggamma = sg_derivative_wrt(parts, GAMMA);
    p->gbeta = f->beta < 0 ? -1 : sg_derivative_wrt(parts, f->beta);
}

static bool only_y_seeded(const sg_derivative_parts *parts) { return parts->n_with == 1 && parts->with[0] == Y; }

static bool find_derivative(const sg_kernel_spec *spec, const family *f, sg_norm_places *p)
{
    const sg_op *op = spec->node->op;
    sg_derivative_parts outer, inner = sg_derivative_nested(op, spec->attr, spec->n_in, &outer);
    if (op == f->op->jvp_op) {
        find_tangents(p, f, &outer);
        p->mean = hint(op, &outer, f->mean);
        p->spread = hint(op, &outer, f->spread);
        return true;
    }
    find_reverse(p, f, &inner);
    if (op != f->op->vjp_op) {
        find_tangents(p, f, &outer);
        p->tg = sg_derivative_with(&outer, p->g);
    }
    return only_y_seeded(&inner);
}

bool sg_norm_find(const sg_kernel_spec *spec, sg_norm_places *p)
{
    const sg_op *op = spec->node->op;
    const family *f = family_of(op);
    *p = (sg_norm_places){-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, .centred = f->mean >= 0};
    p->eps = spec->attr[f->eps].f;
    p->beta = f->beta;
    if (op != f->op && !find_derivative(spec, f, p))
        return false;
    if (op == f->op || op == f->op->jvp_op) {
        p->out_mean = f->mean;
        p->out_spread = f->spread;
    }
    return true;
}
