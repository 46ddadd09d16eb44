/* implicit.c - a gradient through a minimiser: how the penalties of a regression should move for its validation loss to fall.
 *
 *     inner(w, r) = |X w - y|^2 / 2n + sum_i e^{r_i} w_i^2 / 2        outer(w) = |V w - u|^2 / 2m
 *
 * One graph minimises the inner loss in a loop and takes d outer(w*(r)) / dr by conjugate gradients, without
 * differentiating the loop. Central differences through the whole minimisation say the same. */
#include "autodiff/autodiff.h"
#include "ops/ops.h"
#include "runtime/runtime.h"

#include <math.h>

enum { FEATURES = 3, TRAIN = 8, VALID = 6, STEPS = 2000 };

/* Data of a plane with a wave on top. */
static sg_value features(sg_graph *g, int n, double shift)
{
    double x[TRAIN * FEATURES];
    for (int i = 0; i < n * FEATURES; i++)
        x[i] = sin(3.7 * i + shift);
    return sg_constant(g, SG_F64, SG_SHAPE(n, FEATURES), x, n * FEATURES);
}

static sg_value half_mean_square(sg_graph *g, sg_value w, int n, double shift)
{
    double y[TRAIN];
    for (int i = 0; i < n; i++)
        y[i] = cos(2.0 * i + shift);
    sg_value error = sg_sub(sg_matmul(features(g, n, shift), w), sg_constant(g, SG_F64, SG_SHAPE(n), y, n));
    return sg_mul_scalar(sg_mean_all(sg_square(error)), 0.5);
}

static sg_value inner_loss(sg_graph *g, sg_value w, sg_value r)
{
    sg_value penalty = sg_mul_scalar(sg_sum_all(sg_mul(sg_exp(r), sg_square(w))), 0.5);
    return sg_add(half_mean_square(g, w, TRAIN, 0), penalty);
}

/* One step of gradient descent: the body of the loop, `user` is r. */
static void descend(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    sg_value gradient, w = state[0];
    sg_grad(inner_loss(body, w, *(sg_value *)user), &w, 1, &gradient);
    next[0] = sg_sub(w, sg_mul_scalar(gradient, 0.5));
}

int main(void)
{
    sg_graph *g = sg_graph_new();
    if (!g)
        return 1;
    double zeros[FEATURES] = {0}, at[FEATURES] = {-2, -1, -3}, gradient[FEATURES], iterations, residual, reason,
           worst = 0;
    sg_value r = sg_input(g, "r", SG_F64, SG_SHAPE(FEATURES)),
             w = sg_constant(g, SG_F64, SG_SHAPE(FEATURES), zeros, FEATURES);
    sg_repeat(g, STEPS, descend, &r, &w, 1, &w, false); /* w is now w*(r) */

    sg_bilevel problem = {inner_loss(g, w, r), half_mean_square(g, w, VALID, 1), &w, &r, 1, 1};
    sg_solve_options options = {.size = sizeof options, .method = SG_SOLVE_CG, .steps = 10, .tolerance = 1e-12};
    sg_solve_report report;
    sg_value dr;
    sg_implicit_grad(&problem, &options, &dr, &report);

    sg_error err = {0};
    char text[1024];
    sg_value y[4] = {dr, report.iterations, report.residual, report.reason};
    sg_status status = sg_reference_eval(g, &r, (double *[]){at}, 1, y,
                                         (double *[]){gradient, &iterations, &residual, &reason}, 4, &err);
    if (status == SG_OK)
        printf("%.0f iterations, residual %.1e: %s\n", iterations, residual,
               sg_solve_reason_text((sg_solve_reason)reason));
    for (int i = 0; status == SG_OK && i < FEATURES; i++) {
        double outer[2], h = 1e-4;
        for (int side = 0; side < 2 && status == SG_OK; side++) {
            double moved[FEATURES] = {at[0], at[1], at[2]};
            moved[i] += side ? -h : h;
            status =
                sg_reference_eval(g, &r, (double *[]){moved}, 1, &problem.outer, (double *[]){&outer[side]}, 1, &err);
        }
        double difference = (outer[0] - outer[1]) / (2 * h);
        printf("d outer / d r_%d   implicit %11.8f   differences %11.8f\n", i, gradient[i], difference);
        worst = fmax(worst, fabs(gradient[i] - difference));
    }
    if (status != SG_OK)
        fprintf(stderr, "implicit: %s\n", sg_error_format(&err, text, sizeof text));
    sg_graph_free(g);
    return status == SG_OK && worst < 1e-7 && reason == SG_SOLVE_CONVERGED ? 0 : 1;
}
