/* shape.c - dtypes and shapes. */
#include "graph/graph.h"

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
#define X(number, name, text, bytes) [number] = {text, bytes},
    SG_DTYPE_MAP(X)
#undef X
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof dtypes[0] };

const char *sg_dtype_name(sg_dtype dtype) { return (unsigned)dtype < DTYPE_COUNT ? dtypes[dtype].name : "?"; }
size_t sg_dtype_size(sg_dtype dtype) { return (unsigned)dtype < DTYPE_COUNT ? dtypes[dtype].bytes : 0; }
bool sg_dtype_is_real(sg_dtype dtype) { return dtype <= SG_F16; }
sg_dtype sg_dtype_statistic(sg_dtype dtype) { return dtype == SG_BF16 || dtype == SG_F16 ? SG_F32 : dtype; }

bool sg_dtype_parse(const char *name, sg_dtype *out)
{
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(name, dtypes[i].name) == 0) {
            *out = (sg_dtype)i;
            return true;
        }
    return false;
}

bool sg_mul_ok(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }

sg_shape sg_shape_make(int32_t rank, const int64_t *dim)
{
    sg_shape s = {rank, {0}, {0}};
    for (int32_t i = 0; i < rank && i < SG_MAX_RANK; i++)
        s.dim[i] = dim[i];
    return s;
}

sg_shape sg_shape_scalar(void) { return (sg_shape){0, {0}, {0}}; }

sg_shape sg_shape_named(sg_shape shape, int32_t axis, const char *name)
{
    if (axis < 0)
        axis += shape.rank;
    if (axis >= 0 && axis < shape.rank && axis < SG_MAX_RANK)
        shape.name[axis] = name;
    return shape;
}

bool sg_shape_equal(const sg_shape *a, const sg_shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

/* Sizes beside a 0 must not overflow either: strides and loop bounds are products of some of the sizes. */
int64_t sg_shape_count(const sg_shape *shape)
{
    int64_t count = 1;
    bool empty = false;
    for (int32_t i = 0; i < shape->rank; i++) {
        empty |= shape->dim[i] == 0;
        if (!sg_mul_ok(count, shape->dim[i] ? shape->dim[i] : 1, &count))
            return -1;
    }
    return empty ? 0 : count;
}

bool sg_shape_broadcast(const sg_shape *a, const sg_shape *b, sg_shape *out)
{
    sg_shape r = {a->rank > b->rank ? a->rank : b->rank, {0}, {0}};
    for (int32_t i = 1; i <= r.rank; i++) {
        int32_t ia = a->rank - i, ib = b->rank - i, ir = r.rank - i;
        int64_t da = ia >= 0 ? a->dim[ia] : 1, db = ib >= 0 ? b->dim[ib] : 1;
        const char *na = ia >= 0 ? a->name[ia] : NULL, *nb = ib >= 0 ? b->name[ib] : NULL;
        if (da != db && da != 1 && db != 1)
            return false;
        /* An axis of size 1 may be a broadcast partner: the side that gives the size gives the name. */
        r.dim[ir] = da == 1 ? db : da;
        r.name[ir] = da == 1 && db != 1 ? nb : na ? na : nb;
    }
    *out = r;
    return true;
}

const char *sg_shape_format(const sg_shape *shape, char *out, size_t size)
{
    size_t at = 0;
    if (size == 0)
        return out;
    at += (size_t)snprintf(out, size, "[");
    for (int32_t i = 0; i < shape->rank && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s%s%lld", i ? ", " : "", shape->name[i] ? shape->name[i] : "",
                               shape->name[i] ? "=" : "", (long long)shape->dim[i]);
    if (at < size)
        snprintf(out + at, size - at, "]");
    return out;
}
