/* simd_sse2.c - the micro-kernels for the baseline, x86-64 with SSE2. */
#define SET sg_micro_sse2
#include "runtime/cpu/simd_kernels.inc"
