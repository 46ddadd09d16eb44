/* norm_kernels_avx512.c - loops of layer normalisation with 16 floats a vector. */
#define WIDTH 16
#define TABLE sg_norm_kernels_avx512
#include "runtime/cpu/norm_kernels.h"
