/* peak_x86_64.c - rate of a multiplication and an addition with 4 floats a vector. */
#include <immintrin.h>

#define NAME sg_peak_x86_64
#define VECTOR __m128
#define WIDTH 4
#define SET(x) _mm_set1_ps(x)
#define MULTIPLY_ADD(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
#define STORE(p, v) _mm_storeu_ps(p, v)
#include "runtime/cpu/peak_loop.h"
