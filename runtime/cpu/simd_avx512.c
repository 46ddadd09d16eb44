/* simd_avx512.c - the micro-kernels for AVX-512 F, DQ, BW and VL. */
#define SET sg_micro_avx512
#include "runtime/cpu/simd_kernels.inc"
