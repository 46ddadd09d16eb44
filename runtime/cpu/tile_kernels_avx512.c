/* tile_kernels_avx512.c - tile kernels with 16 floats a vector: 32 registers hold 6 x 4 sums. */
#include <immintrin.h>
#include <sleef.h>

#define WIDTH 16
#define COLUMNS 4
#define TABLE sg_tile_kernels_avx512
#define EXP(v) ((vec)Sleef_expf16_u10avx512f((__m512)(v)))
#define FMA(a, b, c) ((vec)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#include "runtime/cpu/tile_kernels.h"
