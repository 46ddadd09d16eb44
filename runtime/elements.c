#include "runtime/elements_internal.h"

#include <math.h>
#include <string.h>

#include "graph/convert_internal.h"

sg_dtype sg_storage(sg_dtype real, sg_dtype dtype) { return real == SG_F64 ? SG_F64 : dtype; }

bool sg_tensor_bytes(sg_dtype storage, const sg_shape *shape, size_t *out)
{
    int64_t bytes;
    if (!sg_mul_ok(sg_shape_count(shape), (int64_t)sg_dtype_size(storage), &bytes))
        return false;
    *out = (size_t)bytes;
    return true;
}

/* bf16 is the upper half of a float. */
static double bf16_read(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Round to nearest even; NaN keeps a set mantissa bit. */
static uint16_t bf16_write(double value)
{
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    if (single != single)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Half precision: a sign, 5 bits of exponent, 10 of mantissa. */
static double f16_read(uint16_t half)
{
    int exponent = half >> 10 & 31;
    double mantissa = half & 1023;
    double value = exponent == 31  ? (mantissa > 0 ? NAN : INFINITY)
                   : exponent == 0 ? ldexp(mantissa, -24)
                                   : ldexp(1024 + mantissa, exponent - 25);
    return half >> 15 ? -value : value;
}

/* value = m 2^(e - 11) with m up to 2048, rounded to even; below 2^-14 the unit stays 2^-24. A mantissa that rounds up to 2048
 * carries into the exponent by itself. */
static uint16_t f16_write(double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    if (isnan(value))
        return sign | 0x7e00;
    if (size >= 65520)
        return sign | 0x7c00;
    if (size == 0)
        return sign;
    int e;
    frexp(size, &e);
    e = e < -13 ? -13 : e;
    return (uint16_t)(sign | ((e + 13) * 1024 + (int)nearbyint(ldexp(size, 11 - e))));
}

#define READ_AS(type)                                                                                                  \
    for (int64_t i = 0; i < n; i++)                                                                                    \
        out[i] = (double)((const type *)memory)[i];                                                                    \
    return
#define WRITE_AS(type, expr)                                                                                           \
    for (int64_t i = 0; i < n; i++)                                                                                    \
        ((type *)memory)[i] = (type)(expr);                                                                            \
    return

void sg_elements_read(sg_dtype storage, const void *memory, double *out, int64_t n)
{
    switch (storage) {
    case SG_F64:
        READ_AS(double);
    case SG_I32:
        READ_AS(int32_t);
    case SG_BOOL:
        READ_AS(uint8_t);
    case SG_BF16:
        for (int64_t i = 0; i < n; i++)
            out[i] = bf16_read(((const uint16_t *)memory)[i]);
        return;
    case SG_F16: /* in inputs and results alone: no backend has a kernel that computes with it */
        for (int64_t i = 0; i < n; i++)
            out[i] = f16_read(((const uint16_t *)memory)[i]);
        return;
    case SG_F32:
        READ_AS(float);
    }
}

void sg_elements_write(sg_dtype storage, void *memory, const double *in, int64_t n)
{
    switch (storage) {
    case SG_F64:
        WRITE_AS(double, in[i]);
    case SG_I32:
        WRITE_AS(int32_t, sg_real_to_i32(in[i]));
    case SG_BOOL:
        WRITE_AS(uint8_t, in[i] != 0);
    case SG_BF16:
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)memory)[i] = bf16_write(in[i]);
        return;
    case SG_F16:
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)memory)[i] = f16_write(in[i]);
        return;
    case SG_F32:
        WRITE_AS(float, in[i]);
    }
}
