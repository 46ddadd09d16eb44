/* solve.c - (A + delta I) x = b from the host, by products with A alone. Vectors are flat doubles; memory is a few of them,
 * whatever the number of steps.
 *
 * Neumann. With M = I - alpha (A + delta I) and u_i = M^i b,
 *
 *     x_K = alpha sum_{i<=K} u_i,     b - (A + delta I) x_K = M^(K+1) b = u_{K+1}
 *
 * so the norms of the terms are the residuals. For symmetric A, |u_i|^2 = sum_j c_j^2 (1 - alpha lambda_j)^(2i) is
 * log-convex in i: once it grows it grows for ever, so growth of one term is divergence.
 *
 * Conjugate gradients minimise x'Ax / 2 - b'x over growing Krylov spaces. A direction with <p, A p> <= 0 proves that the
 * matrix is not positive definite, and the method has no meaning beyond it. */
#include "autodiff/autodiff.h"

#include <math.h>
#include <string.h>

#include "autodiff/solve_internal.h"

const char *sg_solve_reason_text(sg_solve_reason reason)
{
    static const char *const text[] = {"all steps used",     "residual below the tolerance", "the series grows",
                                       "negative curvature", "a value is not finite",        "the matrix is singular"};
    return (unsigned)reason < sizeof text / sizeof *text ? text[reason] : "unknown";
}

typedef struct solver {
    const sg_linear_map *map;
    const sg_solve_options *o;
    const double *b;
    double *x, b_norm;
    int64_t n;
    double *u, *w, *p; /* working vectors */
    sg_solve_result *result;
    sg_error *err;
} solver;

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static double norm(const double *a, int64_t n) { return sqrt(dot(a, a, n)); }

/* w = (A + delta I) v */
static sg_status apply(const solver *s, const double *v, double *w)
{
    SG_TRY(sg_map_apply(s->map, v, w, s->err));
    for (int64_t i = 0; s->o->damping != 0 && i < s->n; i++)
        w[i] += s->o->damping * v[i];
    return SG_OK;
}

static void finish(const solver *s, sg_solve_reason reason, int32_t iterations, double residual)
{
    *s->result = (sg_solve_result){.iterations = iterations,
                                   .residual = s->b_norm > 0 ? residual / s->b_norm : residual,
                                   .converged = reason == SG_SOLVE_CONVERGED,
                                   .reason = reason};
}

/* ---------------------------------------------------------------------------------------------------------- Neumann */

static sg_status neumann(solver *s)
{
    double length = s->b_norm;
    sg_solve_reason reason = length == 0 ? SG_SOLVE_CONVERGED : SG_SOLVE_STEPS;
    int32_t used = 0;
    memcpy(s->u, s->b, (size_t)s->n * sizeof *s->u);
    memcpy(s->x, s->b, (size_t)s->n * sizeof *s->x);
    while (used < s->o->steps && (reason == SG_SOLVE_STEPS || (reason == SG_SOLVE_GROWTH && s->o->keep_growing))) {
        SG_TRY(apply(s, s->u, s->w));
        for (int64_t i = 0; i < s->n; i++)
            s->u[i] -= s->o->scale * s->w[i];
        double next = norm(s->u, s->n);
        if (!isfinite(next))
            reason = SG_SOLVE_NOT_FINITE;
        else if (next > length * SG_NEUMANN_GROWTH)
            reason = SG_SOLVE_GROWTH;
        if (reason == SG_SOLVE_NOT_FINITE || (reason == SG_SOLVE_GROWTH && !s->o->keep_growing))
            break;
        for (int64_t i = 0; i < s->n; i++)
            s->x[i] += s->u[i];
        length = next;
        used++;
        if (reason == SG_SOLVE_STEPS && length <= s->o->tolerance * s->b_norm)
            reason = SG_SOLVE_CONVERGED;
    }
    for (int64_t i = 0; i < s->n; i++)
        s->x[i] *= s->o->scale;
    finish(s, reason, used, length);
    return SG_OK;
}

/* ----------------------------------------------------------------------------------------------- conjugate gradients */

/* One iteration along p; *rr is the squared residual. */
static sg_status advance(solver *s, double *rr, sg_solve_reason *reason)
{
    double *r = s->u, *p = s->p;
    SG_TRY(apply(s, p, s->w));
    double curvature = dot(p, s->w, s->n);
    if (!isfinite(curvature))
        *reason = SG_SOLVE_NOT_FINITE;
    else if (curvature <= 0)
        *reason = SG_SOLVE_NEGATIVE_CURVATURE;
    if (*reason != SG_SOLVE_STEPS)
        return SG_OK;
    double step = *rr / curvature, before = *rr;
    for (int64_t i = 0; i < s->n; i++) {
        s->x[i] += step * p[i];
        r[i] -= step * s->w[i];
    }
    *rr = dot(r, r, s->n);
    for (int64_t i = 0; i < s->n; i++)
        p[i] = r[i] + *rr / before * p[i];
    return SG_OK;
}

static sg_status conjugate_gradients(solver *s)
{
    double rr = s->b_norm * s->b_norm, goal = fmax(s->o->tolerance, SG_CG_FLOOR) * s->b_norm;
    sg_solve_reason reason = SG_SOLVE_STEPS;
    int32_t used = 0;
    memset(s->x, 0, (size_t)s->n * sizeof *s->x);
    memcpy(s->u, s->b, (size_t)s->n * sizeof *s->u);
    memcpy(s->p, s->b, (size_t)s->n * sizeof *s->p);
    while (reason == SG_SOLVE_STEPS) {
        if (sqrt(rr) <= goal)
            reason = SG_SOLVE_CONVERGED;
        if (reason != SG_SOLVE_STEPS || used == s->o->steps)
            break;
        SG_TRY(advance(s, &rr, &reason));
        used += reason == SG_SOLVE_STEPS;
    }
    finish(s, reason, used, sqrt(rr));
    return SG_OK;
}

/* ----------------------------------------------------------------------------------------------------------- direct */

static void swap_rows(double *a, double *x, int64_t n, int64_t i, int64_t j)
{
    for (int64_t k = 0; k < n && i != j; k++) {
        double t = a[i * n + k];
        a[i * n + k] = a[j * n + k];
        a[j * n + k] = t;
    }
    double t = x[i];
    x[i] = x[j];
    x[j] = t;
}

/* Gaussian elimination with partial pivoting, x being the right side; false at a zero pivot. */
static bool eliminate(double *a, double *x, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        int64_t pivot = c;
        for (int64_t i = c + 1; i < n; i++)
            pivot = fabs(a[i * n + c]) > fabs(a[pivot * n + c]) ? i : pivot;
        if (!(fabs(a[pivot * n + c]) > 0))
            return false;
        swap_rows(a, x, n, c, pivot);
        for (int64_t i = c + 1; i < n; i++) {
            double f = a[i * n + c] / a[c * n + c];
            for (int64_t k = c; k < n && f != 0; k++)
                a[i * n + k] -= f * a[c * n + k];
            x[i] -= f * x[c];
        }
    }
    for (int64_t i = n; i-- > 0;) {
        for (int64_t k = i + 1; k < n; k++)
            x[i] -= a[i * n + k] * x[k];
        x[i] /= a[i * n + i];
    }
    return true;
}

static sg_status direct(solver *s)
{
    if (s->n > SG_DENSE_MOST)
        return sg_fail(s->err, SG_E_ARGUMENT,
                       "a direct solve of %lld unknowns needs a matrix of their square: at most %d", (long long)s->n,
                       SG_DENSE_MOST);
    double *a = sg_calloc(s->n * s->n + 1, sizeof *a);
    sg_status status = a ? sg_dense_matrix(s->map, a, s->err)
                         : sg_fail(s->err, SG_E_MEMORY, "out of memory for a matrix of %lld rows", (long long)s->n);
    bool solved = false;
    if (status == SG_OK) {
        for (int64_t i = 0; i < s->n; i++)
            a[i * s->n + i] += s->o->damping;
        memcpy(s->x, s->b, (size_t)s->n * sizeof *s->x);
        solved = eliminate(a, s->x, s->n);
        status = apply(s, s->x, s->w);
    }
    sg_free(a);
    SG_TRY(status);
    for (int64_t i = 0; i < s->n; i++)
        s->w[i] -= s->b[i];
    double residual = norm(s->w, s->n);
    finish(s, !solved ? SG_SOLVE_SINGULAR : isfinite(residual) ? SG_SOLVE_CONVERGED : SG_SOLVE_NOT_FINITE, 1, residual);
    return SG_OK;
}

/* ------------------------------------------------------------------------------------------------------------ entry */

sg_status sg_map_apply(const sg_linear_map *map, const double *v, double *out, sg_error *err)
{
    sg_error why = {0};
    if (map->apply(map->user, v, out, &why))
        return SG_OK;
    return sg_fail(err, why.status == SG_OK ? SG_E_UNSUPPORTED : why.status, "%s",
                   why.text[0] ? why.text : "the linear map failed");
}

sg_status sg_solve_check(const sg_solve_options *o, sg_error *err)
{
    if (o->method == SG_SOLVE_NEUMANN && o->scale_value.graph == NULL && !(isfinite(o->scale) && o->scale > 0))
        return sg_fail(err, SG_E_ARGUMENT, "a Neumann series needs a positive scale, not %g", o->scale);
    if (o->steps < 0)
        return sg_fail(err, SG_E_ARGUMENT, "a solver cannot take %d steps", (int)o->steps);
    const double from_0[] = {o->damping, o->tolerance, o->difference_step};
    for (int k = 0; k < 3; k++)
        if (!(from_0[k] >= 0 && isfinite(from_0[k])))
            return sg_fail(err, SG_E_ARGUMENT,
                           "damping, tolerance and difference step of a solver must be in [0, inf), not %g", from_0[k]);
    return SG_OK;
}

static sg_status solve(solver *s)
{
    switch (s->o->method) {
    case SG_SOLVE_NEUMANN:
        return neumann(s);
    case SG_SOLVE_CG:
        return conjugate_gradients(s);
    case SG_SOLVE_DIRECT:
        return direct(s);
    }
    return sg_fail(s->err, SG_E_ARGUMENT, "unknown solver %d", (int)s->o->method);
}

sg_status sg_solve(const sg_linear_map *map, const double *b, const sg_solve_options *options, double *x,
                   sg_solve_result *result, sg_error *err)
{
    SG_TRY(sg_solve_check(options, err));
    if (map->n_in != map->n_out)
        return sg_fail(err, SG_E_SHAPE, "a solver needs a square map, not %lld to %lld", (long long)map->n_in,
                       (long long)map->n_out);
    solver s = {.map = map, .o = options, .b = b, .x = x, .n = map->n_in, .result = result, .err = err};
    *result = (sg_solve_result){.reason = SG_SOLVE_NOT_FINITE};
    s.b_norm = norm(b, s.n);
    if (!isfinite(s.b_norm)) {
        memset(x, 0, (size_t)s.n * sizeof *x);
        result->residual = s.b_norm;
        return SG_OK;
    }
    s.u = sg_calloc(3 * s.n + 1, sizeof *s.u);
    if (!s.u)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a solver of %lld unknowns", (long long)s.n);
    s.w = s.u + s.n;
    s.p = s.w + s.n;
    sg_status status = solve(&s);
    sg_free(s.u);
    return status;
}
