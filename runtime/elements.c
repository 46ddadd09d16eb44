#include "runtime/elements_internal.h"

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
    case SG_F16: /* no backend stores it yet: prepare refuses such nodes */
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
    case SG_F32:
        WRITE_AS(float, in[i]);
    }
}
