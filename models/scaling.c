/* Missing values and scaling. Statistics come from the training rows alone and are kept with the model. */
#include "models/data_internal.h"

#include <float.h>
#include <math.h>
#include <string.h>

const char *sg_impute_name(sg_impute impute)
{
    static const char *const name[] = {"mean", "zero", "indicator"};
    return name[impute];
}

bool sg_impute_parse(const char *name, sg_impute *out)
{
    for (int i = SG_IMPUTE_MEAN; i <= SG_IMPUTE_INDICATOR; i++) {
        if (strcmp(name, sg_impute_name((sg_impute)i)) == 0) {
            *out = (sg_impute)i;
            return true;
        }
    }
    return false;
}

const char *sg_scaling_name(sg_scaling scaling)
{
    static const char *const name[] = {"none", "standardise", "minmax"};
    return name[scaling];
}

bool sg_scaling_parse(const char *name, sg_scaling *out)
{
    for (int i = SG_SCALING_NONE; i <= SG_SCALING_MINMAX; i++) {
        if (strcmp(name, sg_scaling_name((sg_scaling)i)) == 0) {
            *out = (sg_scaling)i;
            return true;
        }
    }
    return false;
}

/* Statistics of one feature over the given rows: missing values apart, zeros of sparse rows by count. */
typedef struct moments {
    double sum, squares, low, high;
    int64_t present, missing;
} moments;

static void observe(moments *m, double x)
{
    if (isnan(x)) {
        m->missing++;
        return;
    }
    m->present++;
    m->sum += x;
    m->low = fmin(m->low, x);
    m->high = fmax(m->high, x);
}

/* Squares around the mean in a second pass: sums of squares lose all digits for features like 1e6 + small. */
typedef struct pass {
    moments *m;
    const double *mean; /* NULL in the first pass */
} pass;

static void visit(const pass *p, int64_t j, double x)
{
    if (!p->mean) {
        observe(&p->m[j], x);
    } else if (!isnan(x)) {
        double d = x - p->mean[j];
        p->m[j].squares += d * d;
    }
}

static void visit_rows(const pass *p, const sg_dataset *d, const int64_t *rows, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        int64_t r = rows ? rows[k] : k;
        if (d->sparse)
            for (int64_t i = d->indptr[r]; i < d->indptr[r + 1]; i++)
                visit(p, d->columns[i], d->values[i]);
        else
            for (int64_t j = 0; j < d->features; j++)
                visit(p, j, d->dense[r * d->features + j]);
    }
    if (!d->sparse)
        return;
    for (int64_t j = 0; j < d->features && !p->mean; j++) {
        int64_t zeros = n - p->m[j].present - p->m[j].missing;
        if (zeros > 0)
            observe(&p->m[j], 0.0);
        p->m[j].present += zeros > 0 ? zeros - 1 : 0;
    }
}

/* In the second pass the zeros of sparse rows, which are not visited, add mean^2 each. */
static void add_zero_squares(moments *m, const double *mean, const sg_dataset *d, const int64_t *rows, int64_t n,
                             int64_t *stored)
{
    memset(stored, 0, (size_t)d->features * sizeof *stored);
    for (int64_t k = 0; k < n; k++) {
        int64_t r = rows ? rows[k] : k;
        for (int64_t i = d->indptr[r]; i < d->indptr[r + 1]; i++)
            stored[d->columns[i]]++;
    }
    for (int64_t j = 0; j < d->features; j++)
        m[j].squares += (double)(n - stored[j]) * mean[j] * mean[j];
}

/* Missing values count as what fills them. With the mean as filling, mean and extremes stay and the deviation
 * shrinks. */
static void scale_feature(sg_preprocess *p, int64_t j, const moments *m, double mean)
{
    double fill = p->fill[j], n = (double)(m->present + m->missing), missing = (double)m->missing;
    double low = m->low, high = m->high;
    if (m->missing) {
        low = fmin(low, fill);
        high = fmax(high, fill);
    }
    double all_mean = n > 0 ? (m->sum + missing * fill) / n : 0.0;
    double squares = m->squares + (double)m->present * (mean - all_mean) * (mean - all_mean) +
                     missing * (fill - all_mean) * (fill - all_mean);
    p->offset[j] = 0.0f;
    p->scale[j] = 1.0f;
    if (p->scaling == SG_SCALING_NONE)
        return;
    bool constant = !(high > low);
    bool standard = p->scaling == SG_SCALING_STANDARDISE;
    double width = standard ? sqrt(squares / n) : high - low;
    p->offset[j] = (float)(standard ? all_mean : n > 0 ? low : 0.0);
    p->scale[j] = constant || !(width > 0) || !isfinite((float)(1.0 / width)) ? 0.0f : (float)(1.0 / width);
}

/* A feature that says "was missing" is 0/1 already: min-max leaves it, standardising scales it like any other. */
static void scale_indicator(sg_preprocess *p, int64_t i, const moments *m)
{
    int64_t j = p->n_in + i;
    double n = (double)(m->present + m->missing), share = n > 0 ? (double)m->missing / n : 0.0;
    double deviation = sqrt(share * (1.0 - share));
    bool standard = p->scaling == SG_SCALING_STANDARDISE;
    p->offset[j] = standard ? (float)share : 0.0f;
    p->scale[j] = !standard ? 1.0f : deviation > 0 ? (float)(1.0 / deviation) : 0.0f;
}

sg_preprocess *sg_preprocess_new(int64_t n_in, int64_t n_out)
{
    sg_preprocess *p = sg_calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->n_in = n_in;
    p->n_out = n_out;
    p->fill = sg_calloc(n_in + 1, sizeof *p->fill);
    p->flagged = sg_calloc(n_out - n_in + 1, sizeof *p->flagged);
    p->offset = sg_calloc(n_out + 1, sizeof *p->offset);
    p->scale = sg_calloc(n_out + 1, sizeof *p->scale);
    if (p->fill && p->flagged && p->offset && p->scale)
        return p;
    sg_preprocess_free(p);
    return NULL;
}

void sg_preprocess_free(sg_preprocess *p)
{
    if (!p)
        return;
    sg_free(p->fill);
    sg_free(p->flagged);
    sg_free(p->offset);
    sg_free(p->scale);
    sg_free(p);
}

static sg_preprocess *fit(const sg_dataset *d, const moments *m, const double *mean, sg_impute impute,
                          sg_scaling scaling)
{
    int64_t flagged = 0;
    for (int64_t j = 0; j < d->features && impute == SG_IMPUTE_INDICATOR; j++)
        flagged += m[j].missing > 0;
    sg_preprocess *p = sg_preprocess_new(d->features, d->features + flagged);
    if (!p)
        return NULL;
    p->impute = impute;
    p->scaling = scaling;
    int64_t at = 0;
    for (int64_t j = 0; j < d->features; j++) {
        p->fill[j] = impute == SG_IMPUTE_ZERO ? 0.0f : (float)mean[j];
        scale_feature(p, j, &m[j], mean[j]);
        if (impute == SG_IMPUTE_INDICATOR && m[j].missing > 0) {
            p->flagged[at] = (int32_t)j;
            scale_indicator(p, at++, &m[j]);
        }
    }
    return p;
}

sg_status sg_preprocess_fit(sg_preprocess **out, const sg_dataset *d, const int64_t *rows, int64_t n, sg_impute impute,
                            sg_scaling scaling, sg_error *err)
{
    *out = NULL;
    if (!rows)
        n = d->rows;
    for (int64_t k = 0; rows && k < n; k++)
        if (rows[k] < 0 || rows[k] >= d->rows)
            return sg_fail(err, SG_E_ARGUMENT, "row %lld of a data set of %lld rows", (long long)rows[k],
                           (long long)d->rows);
    moments *m = sg_calloc(d->features + 1, sizeof *m);
    double *mean = sg_calloc(d->features + 1, sizeof *mean);
    int64_t *stored = sg_calloc(d->features + 1, sizeof *stored);
    if (m && mean && stored) {
        for (int64_t j = 0; j < d->features; j++)
            m[j] = (moments){.low = DBL_MAX, .high = -DBL_MAX};
        visit_rows(&(pass){m, NULL}, d, rows, n);
        for (int64_t j = 0; j < d->features; j++)
            mean[j] = m[j].present ? m[j].sum / (double)m[j].present : 0.0;
        visit_rows(&(pass){m, mean}, d, rows, n);
        if (d->sparse)
            add_zero_squares(m, mean, d, rows, n, stored);
        *out = fit(d, m, mean, impute, scaling);
    }
    sg_free(m);
    sg_free(mean);
    sg_free(stored);
    return *out
               ? SG_OK
               : sg_fail(err, SG_E_MEMORY, "out of memory for the statistics of %lld features", (long long)d->features);
}

/* Sparse stays sparse if zero maps to zero: no offset among the features that keep a scale. */
static bool keeps_zeros(const sg_preprocess *p)
{
    for (int64_t j = 0; j < p->n_out; j++)
        if (p->offset[j] != 0.0f && p->scale[j] != 0.0f)
            return false;
    return true;
}

static float transform(const sg_preprocess *p, int64_t j, float x)
{
    if (isnan(x))
        x = p->fill[j];
    return p->scale[j] == 0.0f ? 0.0f : (x - p->offset[j]) * p->scale[j];
}

static bool apply_dense(const sg_preprocess *p, sg_dataset *d)
{
    int64_t cells;
    if (!sg_mul_ok(d->rows, p->n_out, &cells))
        return false;
    float *next = sg_calloc(cells + 1, sizeof *next);
    if (!next)
        return false;
    for (int64_t r = 0; r < d->rows; r++) {
        const float *x = d->dense + r * p->n_in;
        float *y = next + r * p->n_out;
        for (int64_t j = 0; j < p->n_in; j++)
            y[j] = transform(p, j, x[j]);
        for (int64_t i = p->n_in; i < p->n_out; i++) {
            float missing = isnan(x[p->flagged[i - p->n_in]]) ? 1.0f : 0.0f;
            y[i] = p->scale[i] == 0.0f ? 0.0f : (missing - p->offset[i]) * p->scale[i];
        }
    }
    sg_free(d->dense);
    d->dense = next;
    return true;
}

/* In place; values that become zero stay stored. Indicators need the dense form (they come with missing values). */
static void apply_sparse(const sg_preprocess *p, sg_dataset *d)
{
    for (int64_t i = 0; i < d->indptr[d->rows]; i++)
        d->values[i] = transform(p, d->columns[i], d->values[i]);
}

sg_status sg_preprocess_apply(const sg_preprocess *p, sg_dataset *d, sg_error *err)
{
    if (d->features != p->n_in)
        return sg_fail(err, SG_E_SHAPE, "preprocessing for %lld features, a data set with %lld", (long long)p->n_in,
                       (long long)d->features);
    if (d->sparse && p->n_out == p->n_in && keeps_zeros(p)) {
        apply_sparse(p, d);
    } else if (!sg_dataset_make_dense(d) || !apply_dense(p, d)) {
        return sg_fail(err, SG_E_MEMORY, "out of memory for %lld x %lld dense features", (long long)d->rows,
                       (long long)p->n_out);
    }
    d->features = p->n_out;
    d->missing = 0;
    return SG_OK;
}
