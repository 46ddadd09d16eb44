/* peak_avx512.c - multiply-add rate with 16 floats a vector. */
#include <immintrin.h>

#define NAME sg_peak_avx512
#define VECTOR __m512
#define WIDTH 16
#define SET(x) _mm512_set1_ps(x)
#define MULTIPLY_ADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#include "runtime/cpu/peak_loop.h"
