/* spectrum.c - what products alone tell about a matrix: its columns, its diagonal, its extreme eigenvalues. */
#include "autodiff/autodiff.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "autodiff/solve_internal.h"
#include "graph/random_internal.h"

static sg_status require_square(const sg_linear_map *map, const char *what, sg_error *err)
{
    if (map->n_in == map->n_out && map->n_in > 0)
        return SG_OK;
    return sg_fail(err, SG_E_SHAPE, "%s needs a square map with at least one row, not %lld to %lld", what,
                   (long long)map->n_in, (long long)map->n_out);
}

/* ------------------------------------------------------------------------------------------------------------ dense */

sg_status sg_dense_matrix(const sg_linear_map *map, double *matrix, sg_error *err)
{
    int64_t n = map->n_in, m = map->n_out;
    if (n > SG_DENSE_MOST || m > SG_DENSE_MOST)
        return sg_fail(err, SG_E_ARGUMENT,
                       "a dense matrix of %lld x %lld is refused (at most %d a side): use products, sg_lanczos or "
                       "sg_hutchinson_diagonal",
                       (long long)m, (long long)n, SG_DENSE_MOST);
    double *unit = sg_calloc(n + m + 1, sizeof *unit), *column = unit + n;
    sg_status status = unit ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory for the columns of a matrix");
    for (int64_t j = 0; status == SG_OK && j < n; j++) {
        unit[j] = 1;
        status = sg_map_apply(map, unit, column, err);
        unit[j] = 0;
        for (int64_t i = 0; status == SG_OK && i < m; i++)
            matrix[i * n + j] = column[i];
    }
    sg_free(unit);
    return status;
}

/* -------------------------------------------------------------------------------------------------------- Hutchinson */

/* Draw number `draw` of a stream of vectors. */
static void random_vector(double *v, int64_t n, bool signs, const char *stream, uint64_t seed, uint64_t draw)
{
    int32_t rng[4] = {(int32_t)(uint32_t)seed, (int32_t)(uint32_t)(seed >> 32), 0, 0};
    uint64_t name = sg_hash_text(stream);
    for (int64_t i = 0; i < n; i++)
        v[i] = !signs                                                   ? sg_random_normal(name, rng, draw, (uint64_t)i)
               : sg_random_uniform(name, rng, draw, (uint64_t)i) < 0.5F ? -1
                                                                        : 1;
}

/* v_i (A v)_i = A_ii + sum_{j != i} A_ij v_i v_j, whose second part has mean 0. Mean and variance are updated draw by draw
 * (Welford 1962). */
sg_status sg_hutchinson_diagonal(const sg_linear_map *map, int32_t samples, uint64_t seed, double *diagonal,
                                 double *error, sg_error *err)
{
    SG_TRY(require_square(map, "a diagonal", err));
    int64_t n = map->n_in;
    if (samples < 1 || (error && samples < 2))
        return sg_fail(err, SG_E_ARGUMENT, "%d samples give no estimate%s", (int)samples, error ? " of the error" : "");
    double *v = sg_calloc(3 * n, sizeof *v), *av = v + n, *spread = av + n;
    if (!v)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a diagonal of %lld numbers", (long long)n);
    sg_status status = SG_OK;
    memset(diagonal, 0, (size_t)n * sizeof *diagonal);
    for (int32_t k = 0; status == SG_OK && k < samples; k++) {
        random_vector(v, n, true, "hutchinson", seed, (uint64_t)k);
        status = sg_map_apply(map, v, av, err);
        for (int64_t i = 0; status == SG_OK && i < n; i++) {
            double draw = v[i] * av[i], off = draw - diagonal[i];
            diagonal[i] += off / (k + 1);
            spread[i] += off * (draw - diagonal[i]);
        }
    }
    for (int64_t i = 0; error && i < n; i++)
        error[i] = sqrt(spread[i] / ((double)samples * (samples - 1)));
    sg_free(v);
    return status;
}

/* ---------------------------------------------------------------------------------------------------------- Lanczos */

/* A Q = Q T + beta_m q_{m+1} e_m' with orthonormal Q [m, n] and T tridiagonal (alpha, beta). For an eigenpair T s = t s the
 * Ritz vector Q s has |A Q s - t Q s| = beta_m |s_m|: the residual needs only the last component of s. */
typedef struct lanczos {
    const sg_linear_map *map;
    int64_t n;
    int32_t m; /* rows of Q so far */
    double *q, *alpha, *beta, *w;
    double *d, *e, *last; /* copies for the eigenvalues: diagonal, off-diagonal, last components */
    const sg_lanczos_options *o;
    uint64_t draws;
    sg_error *err;
} lanczos;

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Twice is enough (Parlett 1980): the second pass removes what rounding left of the first. */
static double orthogonalise(const lanczos *l, double *w)
{
    for (int pass = 0; pass < 2; pass++)
        for (int32_t j = 0; j < l->m; j++) {
            const double *q = l->q + j * l->n;
            double c = dot(q, w, l->n);
            for (int64_t i = 0; i < l->n; i++)
                w[i] -= c * q[i];
        }
    return sqrt(dot(w, w, l->n));
}

static void accept(lanczos *l, double length)
{
    double *q = l->q + l->m++ * l->n;
    for (int64_t i = 0; i < l->n; i++)
        q[i] = l->w[i] / length;
}

/* A new direction outside the space so far; false if rounding leaves none. */
static bool start(lanczos *l)
{
    for (int attempt = 0; attempt < 4; attempt++) {
        random_vector(l->w, l->n, l->o->rademacher && l->m == 0, "lanczos", l->o->seed, l->draws++);
        double before = sqrt(dot(l->w, l->w, l->n)), length = orthogonalise(l, l->w);
        if (length > 1e-8 * before) {
            accept(l, length);
            return true;
        }
    }
    return false;
}

/* One rotation in the plane (k, k + 1) of the implicit QR step on rows low..high: it moves the bulge z down. */
static void rotate(lanczos *l, int32_t low, int32_t k, int32_t high, double *x, double *z)
{
    double *d = l->d, *e = l->e, *last = l->last, r = hypot(*x, *z);
    double c = r > 0 ? *x / r : 1, s = r > 0 ? *z / r : 0, a = d[k], b = e[k], f = d[k + 1], p = last[k];
    if (k > low)
        e[k - 1] = r;
    d[k] = c * c * a + 2 * c * s * b + s * s * f;
    d[k + 1] = s * s * a - 2 * c * s * b + c * c * f;
    e[k] = c * s * (f - a) + (c * c - s * s) * b;
    last[k] = c * p + s * last[k + 1];
    last[k + 1] = c * last[k + 1] - s * p;
    *x = e[k];
    if (k + 1 < high) {
        *z = s * e[k + 1];
        e[k + 1] *= c;
    }
}

static bool negligible(const lanczos *l, int32_t k)
{
    return fabs(l->e[k]) <= DBL_EPSILON * (fabs(l->d[k]) + fabs(l->d[k + 1]));
}

/* Eigenvalues of T by implicit QR steps with Wilkinson's shift (Golub and Van Loan, algorithm 8.3.3), with the last row of
 * the eigenvector matrix carried along. False if it does not settle, as with a NaN. */
static bool diagonalise(lanczos *l)
{
    int32_t high = l->m - 1;
    for (int32_t sweep = 0; high > 0; sweep++) {
        if (sweep > 60 * l->m)
            return false;
        if (negligible(l, high - 1)) {
            high--;
            continue;
        }
        int32_t low = high - 1;
        while (low > 0 && !negligible(l, low - 1))
            low--;
        double half = (l->d[high - 1] - l->d[high]) / 2, b = l->e[high - 1];
        double shift = l->d[high] - b * b / (half + copysign(hypot(half, b), half));
        double x = l->d[low] - shift, z = l->e[low];
        for (int32_t k = low; k < high; k++)
            rotate(l, low, k, high, &x, &z);
    }
    return true;
}

/* The extreme Ritz values and their residuals; true if both are small. */
static bool measure(lanczos *l, sg_lanczos_result *r)
{
    memcpy(l->d, l->alpha, (size_t)l->m * sizeof *l->d);
    memcpy(l->e, l->beta, (size_t)l->m * sizeof *l->e);
    memset(l->last, 0, (size_t)l->m * sizeof *l->last);
    l->last[l->m - 1] = 1;
    if (!diagonalise(l))
        return false;
    int32_t low = 0, high = 0;
    for (int32_t i = 1; i < l->m; i++) {
        low = l->d[i] < l->d[low] ? i : low;
        high = l->d[i] > l->d[high] ? i : high;
    }
    double beta = l->m < l->n ? l->beta[l->m - 1] : 0;
    r->iterations = l->m;
    r->smallest = l->d[low];
    r->largest = l->d[high];
    r->smallest_residual = beta * fabs(l->last[low]);
    r->largest_residual = beta * fabs(l->last[high]);
    double scale = fmax(fabs(r->smallest), fabs(r->largest)), tolerance = l->o->tolerance > 0 ? l->o->tolerance : 1e-10;
    return fmax(r->smallest_residual, r->largest_residual) <= tolerance * scale;
}

/* Multiply the newest row; alpha, beta and the next row of Q follow. An exhausted space has all residuals 0, but is the
 * whole spectrum only if it is the whole space: then T splits (beta = 0) and a new start goes on. */
static sg_status run(lanczos *l, int32_t steps, sg_lanczos_result *r)
{
    bool more = start(l);
    r->reason = SG_SOLVE_STEPS;
    while (more && r->reason == SG_SOLVE_STEPS) {
        const double *q = l->q + (l->m - 1) * l->n;
        SG_TRY(sg_map_apply(l->map, q, l->w, l->err));
        double size = sqrt(dot(l->w, l->w, l->n));
        l->alpha[l->m - 1] = dot(q, l->w, l->n);
        double length = orthogonalise(l, l->w);
        if (!isfinite(length) || !isfinite(size)) {
            r->reason = SG_SOLVE_NOT_FINITE;
            return SG_OK;
        }
        bool exhausted = length <= 1e-13 * fmax(size, fabs(l->alpha[0]));
        l->beta[l->m - 1] = exhausted ? 0 : length;
        bool small = measure(l, r);
        if (l->m == l->n || (small && !exhausted))
            r->reason = SG_SOLVE_CONVERGED;
        else if (l->m == steps)
            return SG_OK;
        else if (exhausted)
            more = start(l);
        else
            accept(l, length);
    }
    r->converged = r->reason == SG_SOLVE_CONVERGED;
    return SG_OK;
}

sg_status sg_lanczos(const sg_linear_map *map, const sg_lanczos_options *options, sg_lanczos_result *result,
                     sg_error *err)
{
    SG_TRY(require_square(map, "sg_lanczos", err));
    *result = (sg_lanczos_result){.reason = SG_SOLVE_STEPS};
    int64_t n = map->n_in, steps = options->steps > 0 ? options->steps : 64;
    if (options->steps < 0 || !(options->tolerance >= 0 && isfinite(options->tolerance)))
        return sg_fail(err, SG_E_ARGUMENT, "sg_lanczos: steps and tolerance must be in [0, inf)");
    steps = steps < n ? steps : n;
    int64_t rows, total;
    if (!sg_mul_ok(steps, n, &rows) || !sg_mul_ok(rows + n + 5 * steps, 1, &total))
        return sg_fail(err, SG_E_ARGUMENT, "sg_lanczos: %lld steps of %lld numbers are too many", (long long)steps,
                       (long long)n);
    double *memory = sg_calloc(total, sizeof *memory);
    if (!memory)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %lld Lanczos vectors of %lld numbers", (long long)steps,
                       (long long)n);
    lanczos l = {.map = map, .n = n, .q = memory, .w = memory + rows, .o = options, .err = err};
    l.alpha = l.w + n;
    l.beta = l.alpha + steps;
    l.d = l.beta + steps;
    l.e = l.d + steps;
    l.last = l.e + steps;
    sg_status status = run(&l, (int32_t)steps, result);
    sg_free(memory);
    return status;
}
