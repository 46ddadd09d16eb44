/* peak_avx2.c - multiply-add rate with 8 floats a vector. */
#include <immintrin.h>

#define NAME sg_peak_avx2
#define VECTOR __m256
#define WIDTH 8
#define SET(x) _mm256_set1_ps(x)
#define MULTIPLY_ADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#include "runtime/cpu/peak_loop.h"
