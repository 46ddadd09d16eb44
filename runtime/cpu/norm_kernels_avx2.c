/* norm_kernels_avx2.c - loops of layer normalisation with 8 floats a vector. */
#define WIDTH 8
#define TABLE sg_norm_kernels_avx2
#include "runtime/cpu/norm_kernels.h"
