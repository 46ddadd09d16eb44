/* cpu_kernels.h - the tables of kernels, one a file, each ended by a row without op. kernel_table.c lists them. */
#ifndef SG_CPU_KERNELS_H
#define SG_CPU_KERNELS_H

#include "runtime/cpu/cpu_internal.h"

/* fused_kernel.c: fused chains, and every elementwise op, cast, broadcast, fill and draw as a chain of one node */
extern const sg_cpu_kernel sg_cpu_fused_kernels[];

#endif
