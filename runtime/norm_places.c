/* layer_norm_places.c - the operands of a derivative are the inputs, outputs already known, then cotangents or tangents of what is
 * chosen: this finds each by what it is. */
#include "runtime/norm_places_internal.h"

#include "ops/derivative_internal.h"

#define SG_OP(name) extern const sg_op sg_op_##name;
#include "ops/op_list.h"
#undef SG_OP

enum { X, GAMMA, BETA }; /* inputs */
enum { Y, MEAN, RSTD };  /* outputs */

static void find_tangents(sg_layer_norm_places *p, const sg_derivative_parts *parts)
{
    p->tx = sg_derivative_with(parts, X);
    p->tgamma = sg_derivative_with(parts, GAMMA);
    p->tbeta = sg_derivative_with(parts, BETA);
}

static void find_reverse(sg_layer_norm_places *p, const sg_derivative_parts *parts)
{
    p->mean = sg_derivative_hint(&sg_op_layer_norm_vjp, parts, MEAN);
    p->rstd = sg_derivative_hint(&sg_op_layer_norm_vjp, parts, RSTD);
    p->g = sg_derivative_with(parts, Y);
    p->gx = sg_derivative_wrt(parts, X);
    p->ggamma = sg_derivative_wrt(parts, GAMMA);
    p->gbeta = sg_derivative_wrt(parts, BETA);
}

static bool only_y_seeded(const sg_derivative_parts *parts) { return parts->n_with == 1 && parts->with[0] == Y; }

bool sg_layer_norm_find(const sg_kernel_spec *spec, sg_layer_norm_places *p)
{
    const sg_op *op = spec->node->op;
    *p = (sg_layer_norm_places){-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    if (op == &sg_op_layer_norm)
        return true;
    sg_derivative_parts parts = sg_derivative_split(op, spec->attr, spec->n_in);
    if (op == &sg_op_layer_norm_jvp) {
        find_tangents(p, &parts);
        p->mean = sg_derivative_hint(op, &parts, MEAN);
        p->rstd = sg_derivative_hint(op, &parts, RSTD);
        return true;
    }
    if (op == &sg_op_layer_norm_vjp) {
        find_reverse(p, &parts);
        return only_y_seeded(&parts);
    }
    sg_derivative_parts reverse = sg_derivative_split(&sg_op_layer_norm_vjp, spec->attr, parts.n_x);
    find_reverse(p, &reverse);
    find_tangents(p, &parts);
    p->tg = sg_derivative_with(&parts, p->g);
    return only_y_seeded(&reverse);
}
