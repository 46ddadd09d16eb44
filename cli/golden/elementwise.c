/* elementwise.c - golden cases: functions of elements, with broadcasting, kinks, tails and NaN. */
#include "cli/golden/golden_internal.h"

#define UNARY(name)                                                                                                    \
    static void run_##name(sg_golden *g) { sg_golden_out(g, "out", sg_##name(sg_golden_in(g, "x"))); }
#define BINARY(name)                                                                                                   \
    static void run_##name(sg_golden *g)                                                                               \
    {                                                                                                                  \
        sg_golden_out(g, "out", sg_##name(sg_golden_in(g, "x"), sg_golden_in(g, "y")));                                \
    }

/* clang-format off */
#define UNARY_LIST(X) \
    X(neg) X(abs) X(sign) X(exp) X(expm1) X(log) X(log1p) X(sqrt) X(rsqrt) X(square) X(reciprocal) \
    X(sin) X(cos) X(tanh) X(erf) X(sigmoid) X(log_sigmoid) X(relu)
#define BINARY_LIST(X) X(add) X(sub) X(mul) X(div) X(pow) X(maximum) X(minimum) X(xlogy)
/* clang-format on */
UNARY_LIST(UNARY)
BINARY_LIST(BINARY)

static void run_leaky_relu(sg_golden *g)
{
    sg_golden_out(g, "out", sg_leaky_relu(sg_golden_in(g, "x"), sg_golden_real(g, "slope")));
}

static void run_elu(sg_golden *g) { sg_golden_out(g, "out", sg_elu(sg_golden_in(g, "x"), sg_golden_real(g, "alpha"))); }

static void run_clip(sg_golden *g)
{
    sg_golden_out(g, "out", sg_clip(sg_golden_in(g, "x"), sg_golden_real(g, "min"), sg_golden_real(g, "max")));
}

static void run_gelu(sg_golden *g)
{
    sg_value x = sg_golden_in(g, "x");
    sg_golden_out(g, "out", sg_golden_is(g, "approximate", "tanh") ? sg_gelu_tanh(x) : sg_gelu(x));
}

/* log(1 + e^(beta x)) / beta. */
static void run_softplus(sg_golden *g)
{
    sg_value x = sg_golden_in(g, "x");
    double beta = sg_golden_real_or(g, "beta", 1);
    sg_value y = beta == 1 ? sg_softplus(x) : sg_mul_scalar(sg_softplus(sg_mul_scalar(x, beta)), 1 / beta);
    sg_golden_out(g, "out", y);
}

static void run_where(sg_golden *g)
{
    sg_golden_out(g, "out", sg_where(sg_golden_in(g, "c"), sg_golden_in(g, "x"), sg_golden_in(g, "y")));
}

static void where_of_powers(sg_golden *g)
{
    sg_value x = sg_golden_in(g, "x"), y = sg_golden_in(g, "y");
    sg_golden_out(g, "out", sg_where(sg_golden_in(g, "c"), sg_square(x), sg_mul(sg_square(y), y)));
}

static void safe_log(sg_golden *g)
{
    sg_value x = sg_golden_in(g, "x"), positive = sg_greater(x, sg_golden_number(x, 0));
    sg_golden_out(g, "out", sg_where(positive, sg_log(sg_where(positive, x, sg_golden_number(x, 1))), x));
}

static void chain(sg_golden *g)
{
    sg_value x = sg_golden_in(g, "x"), y = sg_golden_in(g, "y");
    sg_value bump = sg_mul(sg_exp(sg_neg(sg_square(x))), sg_softplus(y));
    sg_value second = sg_div(bump, sg_add_scalar(sg_sigmoid(sg_sub(x, y)), 1));
    sg_golden_out(g, "out", sg_add(sg_tanh(sg_mul(x, y)), second));
}

/* clang-format off */
#define ROW(name) {#name, NULL, run_##name, 0},
static const sg_golden_row rows[] = {
    UNARY_LIST(ROW)
    BINARY_LIST(ROW)
    ROW(leaky_relu) ROW(elu) ROW(clip) ROW(gelu) ROW(softplus) ROW(where)
    {"where", "where(c, x*x, y*y*y)", where_of_powers, 0},
    {"where", "where(x>0, log(where(x>0, x, 1)), x)", safe_log, 0},
    {"expression", "tanh(x*y) + exp(-x*x)*softplus(y)/(1+sigmoid(x-y))", chain, 0},
};
/* clang-format on */

SG_GOLDEN_TABLE(elementwise, rows);
