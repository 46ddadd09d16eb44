/* row_kernels_x86_64.c - row kernels with 4 floats a vector: every x86-64 machine. */
#include <immintrin.h>
#include <sleef.h>

#define WIDTH 4
#define TABLE sg_row_kernels_x86_64
#define ROOT(v) ((vec)_mm_sqrt_ps((__m128)(v)))
#define EXP(v) ((vec)Sleef_expf4_u10sse2((__m128)(v)))
#include "runtime/cpu/row_kernels.h"
