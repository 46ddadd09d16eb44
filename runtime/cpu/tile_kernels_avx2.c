/* tile_kernels_avx2.c - tile kernels with 8 floats a vector: 16 registers hold 6 x 2 sums. */
#include <immintrin.h>
#include <sleef.h>

#define WIDTH 8
#define COLUMNS 2
#define TABLE sg_tile_kernels_avx2
#define EXP(v) ((vec)Sleef_expf8_u10avx2((__m256)(v)))
#define FMA(a, b, c) ((vec)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#include "runtime/cpu/tile_kernels.h"
