/* norm_kernels_x86_64.c - loops of layer normalisation with 4 floats a vector: every x86-64 machine. */
#define WIDTH 4
#define TABLE sg_norm_kernels_x86_64
#include "runtime/cpu/norm_kernels.h"
