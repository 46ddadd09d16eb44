/* tile_kernels_x86_64.c - tile kernels with 4 floats a vector, without fused multiply-add. */
#include <immintrin.h>
#include <sleef.h>

#define WIDTH 4
#define COLUMNS 2
#define TABLE sg_tile_kernels_x86_64
#define EXP(v) ((vec)Sleef_expf4_u10sse2((__m128)(v)))
#define FMA(a, b, c) ((a) * (b) + (c))
#include "runtime/cpu/tile_kernels.h"
