/* row_kernels_avx512.c - row kernels with 16 floats a vector. */
#include <immintrin.h>
#include <sleef.h>

#define WIDTH 16
#define TABLE sg_row_kernels_avx512
#define ROOT(v) ((vec)_mm512_sqrt_ps((__m512)(v)))
#define EXP(v) ((vec)Sleef_expf16_u10avx512f((__m512)(v)))
#include "runtime/cpu/row_kernels.h"
