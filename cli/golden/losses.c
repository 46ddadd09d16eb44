/* losses.c - golden cases: softmax, cross-entropies, divergences, regression and margin losses. */
#include "cli/golden/golden_internal.h"

#include <math.h>

static int32_t axis_of(sg_golden *g) { return (int32_t)sg_golden_int(g, "axis"); }

static void softmax(sg_golden *g) { sg_golden_out(g, "out", sg_softmax(sg_golden_in(g, "x"), axis_of(g))); }
static void log_softmax(sg_golden *g) { sg_golden_out(g, "out", sg_log_softmax(sg_golden_in(g, "x"), axis_of(g))); }

static void masked_softmax(sg_golden *g)
{
    sg_golden_out(g, "out", sg_masked_softmax(sg_golden_in(g, "x"), sg_golden_in(g, "keep"), axis_of(g)));
}

/* ---- cross-entropy */

/* Mean over the rows that are kept; 0 if none is. */
static sg_value mean_kept(sg_value losses, sg_value kept)
{
    sg_value count = sg_sum_all(kept);
    return sg_div(sg_sum_all(losses), sg_maximum(count, sg_golden_number(count, 1)));
}

/* (1 - e) CE(z, y) + e mean_c -log p_c over the rows that are kept. The operator marks the others with -1. */
static void softmax_cross_entropy(sg_golden *g)
{
    double e = sg_golden_real_or(g, "smoothing", 0);
    double ignored = sg_golden_real_or(g, "ignore_index", -1);
    sg_value z = sg_golden_in(g, "logits"), y = sg_golden_in(g, "targets");
    sg_value kept = sg_not_equal(y, sg_golden_number(y, ignored)), weight = sg_cast(kept, SG_F32);
    sg_value loss = sg_softmax_cross_entropy(z, sg_where(kept, y, sg_golden_number(y, -1)));
    if (e != 0) {
        sg_value flat = sg_mul(weight, sg_neg(sg_mean(sg_log_softmax(z, -1), -1)));
        loss = sg_add(sg_mul_scalar(loss, 1 - e), sg_mul_scalar(flat, e));
    }
    sg_golden_out(g, "out",
                  sg_golden_is(g, "reduction", "mean") ? mean_kept(loss, weight) : sg_golden_reduced(g, loss));
}

static void softmax_cross_entropy_dense(sg_golden *g)
{
    sg_value loss = sg_softmax_cross_entropy_dense(sg_golden_in(g, "logits"), sg_golden_in(g, "targets"));
    sg_golden_out(g, "out", sg_golden_reduced(g, loss));
}

/* With pos_weight w: -(w y log s(z) + (1 - y) log s(-z)). */
static void bce_with_logits(sg_golden *g)
{
    sg_value z = sg_golden_in(g, "logits"), y = sg_golden_in(g, "targets"), loss = sg_bce_with_logits(z, y);
    if (sg_golden_has(g, "pos_weight")) {
        sg_value positive = sg_mul(sg_mul(sg_golden_in(g, "pos_weight"), y), sg_log_sigmoid(z));
        sg_value negative = sg_mul(sg_sub(sg_golden_number(y, 1), y), sg_log_sigmoid(sg_neg(z)));
        loss = sg_neg(sg_add(positive, negative));
    }
    sg_golden_out(g, "out", sg_golden_reduced(g, loss));
}

static void bce_of_rows(sg_golden *g)
{
    sg_value loss = sg_bce_with_logits(sg_golden_in(g, "logits"), sg_golden_in(g, "targets"));
    sg_golden_out(g, "out", sg_mean_all(sg_sum(loss, -1)));
}

/* ---- regression */

static sg_value difference(sg_golden *g) { return sg_sub(sg_golden_in(g, "x"), sg_golden_in(g, "y")); }

static void mse(sg_golden *g) { sg_golden_out(g, "out", sg_golden_reduced(g, sg_square(difference(g)))); }
static void l1(sg_golden *g) { sg_golden_out(g, "out", sg_golden_reduced(g, sg_abs(difference(g)))); }

/* ---- margins */

static sg_value margin_violation(sg_golden *g)
{
    sg_value agreement = sg_mul(sg_golden_in(g, "score"), sg_golden_in(g, "sign"));
    return sg_relu(sg_add_scalar(sg_neg(agreement), sg_golden_real(g, "margin")));
}

static void hinge(sg_golden *g) { sg_golden_out(g, "out", sg_golden_reduced(g, margin_violation(g))); }

static void hinge_squared(sg_golden *g)
{
    sg_golden_out(g, "out", sg_golden_reduced(g, sg_square(margin_violation(g))));
}

/* margin + z_j - z_y for the wrong labels j, by one row or its largest. In the place of the right label y stands what changes
 * neither: -inf for the largest (Crammer and Singer), 0 for the sum (Weston and Watkins). */
static void hinge_multiclass(sg_golden *g)
{
    sg_value z = sg_golden_in(g, "logits"),
             right = sg_cast(sg_one_hot(sg_golden_in(g, "targets"), sg_dim_of(z, -1)), SG_BOOL);
    sg_value gold = sg_sum_axes(sg_where(right, z, sg_golden_number(z, 0)), SG_AXES(-1), true);
    sg_value over = sg_add_scalar(sg_sub(z, gold), sg_golden_real(g, "margin"));
    sg_value loss;
    if (sg_golden_is(g, "kind", "crammer_singer"))
        loss = sg_relu(sg_max(sg_where(right, sg_golden_number(z, -INFINITY), over), -1, false));
    else
        loss = sg_sum(sg_where(right, sg_golden_number(z, 0), sg_relu(over)), -1);
    sg_golden_out(g, "out", sg_golden_reduced(g, loss));
}

static void hinge_structured(sg_golden *g)
{
    sg_value over = sg_add(sg_sub(sg_golden_in(g, "cost"), sg_golden_in(g, "gold")), sg_golden_in(g, "pred"));
    sg_golden_out(g, "out", sg_golden_reduced(g, sg_relu(over)));
}

/* ---- divergences: sums over labels, means over rows */

static void kl(sg_golden *g)
{
    sg_value rows;
    if (sg_golden_has(g, "log_p")) {
        rows = sg_kl_divergence(sg_golden_in(g, "log_p"), sg_golden_in(g, "log_q"));
    } else { /* sum p log p + cross-entropy */
        sg_value p = sg_golden_in(g, "p");
        rows = sg_add(sg_sum(sg_xlogy(p, p), -1), sg_softmax_cross_entropy_dense(sg_golden_in(g, "q_logits"), p));
    }
    sg_golden_out(g, "out", sg_golden_reduced(g, rows));
}

static void kl_bernoulli(sg_golden *g)
{
    sg_value each = sg_kl_bernoulli(sg_golden_in(g, "a"), sg_golden_in(g, "b"));
    sg_golden_out(g, "out", sg_golden_reduced(g, sg_sum(each, -1)));
}

static void entropy(sg_golden *g)
{
    sg_value z = sg_golden_in(g, "z"), each = sg_sub(sg_softplus(z), sg_mul(z, sg_sigmoid(z)));
    sg_golden_out(g, "out", sg_mean_all(sg_sum(each, -1)));
}

#define ROW(name)                                                                                                      \
    {                                                                                                                  \
#name, NULL, name, 0                                                                                           \
    }
/* clang-format off */
static const sg_golden_row rows[] = {
    ROW(softmax), ROW(log_softmax), ROW(masked_softmax),
    ROW(softmax_cross_entropy), ROW(softmax_cross_entropy_dense), ROW(bce_with_logits),
    ROW(mse), ROW(l1), ROW(hinge), ROW(hinge_squared), ROW(hinge_multiclass), ROW(hinge_structured),
    ROW(kl), ROW(kl_bernoulli),
    {"expression", "mean over rows of the sum over labels of bce_with_logits", bce_of_rows, 0},
    {"expression", "mean over rows of sum_i softplus(z_i) - z_i sigmoid(z_i)", entropy, 0},
};
/* clang-format on */

SG_GOLDEN_TABLE(losses, rows);
