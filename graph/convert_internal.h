/* convert_internal.h - numbers as integers hold them. */
#ifndef SG_CONVERT_INTERNAL_H
#define SG_CONVERT_INTERNAL_H

#include <stdint.h>

/* Toward zero, saturating at the ends of the range; NaN gives 0. */
static inline int32_t sg_real_to_i32(double value)
{
    if (value >= INT32_MAX)
        return INT32_MAX;
    if (value <= INT32_MIN)
        return INT32_MIN;
    return value == value ? (int32_t)value : 0;
}

#endif
