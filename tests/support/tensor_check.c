#include "tests/support/tensor_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Floats in order as integers, so that neighbours differ by 1. */
static int64_t order_of(double v)
{
    float f = (float)v;
    int32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits < 0 ? (int64_t)INT32_MIN - bits : bits;
}

static long long ulps(double a, double b)
{
    if (isnan(a) || isnan(b))
        return -1;
    int64_t d = order_of(a) - order_of(b);
    return (long long)(d < 0 ? -d : d);
}

/* How far out of tolerance: > 1 fails. */
static double excess(double got, double want, double rtol, double atol)
{
    if (got == want || (isnan(got) && isnan(want)))
        return 0;
    double error = fabs(got - want), allowed = atol + rtol * fabs(want);
    if (!isfinite(error))
        return INFINITY;
    return allowed > 0 ? error / allowed : INFINITY;
}

bool tensor_is_close(const double *got, const double *want, int64_t n, double rtol, double atol, const char *name)
{
    int64_t worst = -1, bad = 0;
    double most = 1;
    for (int64_t i = 0; i < n; i++) {
        double e = excess(got[i], want[i], rtol, atol);
        bad += e > 1;
        if (e > most) {
            most = e;
            worst = i;
        }
    }
    if (worst < 0)
        return true;
    print_error("%s: %lld of %lld elements differ; worst [%lld]: got %.17g, want %.17g (%.3g, %lld f32 ulps, %.3g x "
                "the tolerance)\n",
                name, (long long)bad, (long long)n, (long long)worst, got[worst], want[worst], got[worst] - want[worst],
                ulps(got[worst], want[worst]), most);
    return false;
}

void tensor_check_close(const double *got, const double *want, int64_t n, double rtol, double atol, const char *name,
                        const char *file, int line)
{
    if (!tensor_is_close(got, want, n, rtol, atol, name))
        _fail(file, line);
}

double tensor_scale(const double *want, int64_t n)
{
    double scale = 1;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(want[i]))
            scale = fmax(scale, fabs(want[i]));
    return scale;
}
