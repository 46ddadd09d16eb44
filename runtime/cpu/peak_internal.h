/* peak_internal.h - loops that do nothing but multiply and add in registers, one an instruction set. */
#ifndef SG_PEAK_INTERNAL_H
#define SG_PEAK_INTERNAL_H

#include <stdint.h>

/* Runs `rounds` rounds and returns the floating-point operations done; *sink keeps the compiler from dropping them. */
double sg_peak_x86_64(int64_t rounds, float *sink);
double sg_peak_avx2(int64_t rounds, float *sink);
double sg_peak_avx512(int64_t rounds, float *sink);

#endif
