/* row_kernels.c - the choice among the tables of row kernels. */
#include "runtime/cpu/row_kernels_internal.h"

#include "runtime/cpu/cpu_internal.h"

const sg_row_kernels *sg_row_kernels_best(void)
{
    static const sg_row_kernels *const tables[] = {[SG_ISA_X86_64] = &sg_row_kernels_x86_64,
                                                   [SG_ISA_AVX2] = &sg_row_kernels_avx2,
                                                   [SG_ISA_AVX512] = &sg_row_kernels_avx512};
    return tables[sg_cpu_isa_level()];
}

const sg_row_kernels *sg_row_kernels_sums(void)
{
    return sg_cpu_isa_level() >= SG_ISA_AVX2 ? &sg_row_kernels_avx2 : &sg_row_kernels_x86_64;
}
