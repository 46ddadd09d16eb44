/* simd_avx2.c - the micro-kernels for AVX2 with FMA. */
#define SET sg_micro_avx2
#include "runtime/cpu/simd_kernels.inc"
