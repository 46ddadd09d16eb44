/* partial.c - partial derivatives, and the few vector operations that solvers are written in. */
#include "autodiff/partial_internal.h"

#include "autodiff/rules_internal.h"
#include "ops/ops.h"

static void fill_zeros(sg_value *d, const sg_value *like, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (sg_is_none(d[i]))
            d[i] = sg_zeros_like(like[i]);
}

/* Builders that failed leave SG_NONE; then there is nothing to differentiate, and the graph has its error. */
static bool present(const sg_value *v, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (sg_is_none(v[i]))
            return false;
    return true;
}

static void give_none(sg_value *d, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        d[i] = SG_NONE;
}

void sg_partial_vjp(const sg_value *y, const sg_value *seed, int32_t n_y, const sg_value *x, int32_t n_x,
                    sg_value *grad)
{
    if (!present(y, n_y) || !present(seed, n_y) || !present(x, n_x)) {
        give_none(grad, n_x);
        return;
    }
    sg_sweep_reverse(y, seed, n_y, x, n_x, grad, true);
    fill_zeros(grad, x, n_x);
}

void sg_partial_grad(sg_value loss, const sg_value *x, int32_t n, sg_value *grad)
{
    sg_value one = sg_is_none(loss) ? SG_NONE : sg_ones_like(loss);
    sg_partial_vjp(&loss, &one, 1, x, n, grad);
}

void sg_partial_jvp(const sg_value *y, int32_t n_y, const sg_value *x, const sg_value *dx, int32_t n_x, sg_value *dy)
{
    if (!present(y, n_y) || !present(x, n_x)) {
        give_none(dy, n_y);
        return;
    }
    sg_sweep_forward(y, n_y, x, dx, n_x, dy, true);
    fill_zeros(dy, y, n_y);
}

bool sg_check_loss(sg_value loss, const char *function)
{
    char text[SG_SHAPE_TEXT];
    if (sg_is_none(loss))
        return false;
    if (sg_rank_of(loss) == 0 && sg_dtype_is_real(sg_dtype_of(loss)))
        return true;
    sg_graph_fail(loss.graph, SG_E_SHAPE, loss, "%s needs a rank-0 real loss, got %s %s", function,
                  sg_dtype_name(sg_dtype_of(loss)), sg_shape_format(sg_shape_of(loss), text, sizeof text));
    return false;
}

sg_value sg_vector_dot(const sg_value *a, const sg_value *b, int32_t n)
{
    sg_value sum = n > 0 ? sg_sum_all(sg_mul(a[0], b[0])) : SG_NONE;
    for (int32_t i = 1; i < n; i++)
        sum = sg_add(sum, sg_sum_all(sg_mul(a[i], b[i])));
    return sum;
}

sg_value sg_vector_norm(const sg_value *a, int32_t n) { return sg_sqrt(sg_vector_dot(a, a, n)); }
