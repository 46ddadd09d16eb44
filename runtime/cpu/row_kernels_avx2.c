/* row_kernels_avx2.c - row kernels with 8 floats a vector. */
#include <immintrin.h>
#include <sleef.h>

#define WIDTH 8
#define TABLE sg_row_kernels_avx2
#define ROOT(v) ((vec)_mm256_sqrt_ps((__m256)(v)))
#define EXP(v) ((vec)Sleef_expf8_u10avx2((__m256)(v)))
#include "runtime/cpu/row_kernels.h"
