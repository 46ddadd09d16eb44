/* norm_kernels.c - the choice among the tables of loops for layer normalisation. */
#include "runtime/cpu/norm_kernels_internal.h"

#include "runtime/cpu/cpu_internal.h"

const sg_norm_kernels *sg_norm_kernels_best(void)
{
    static const sg_norm_kernels *const tables[] = {[SG_ISA_X86_64] = &sg_norm_kernels_x86_64,
                                                    [SG_ISA_AVX2] = &sg_norm_kernels_avx2,
                                                    [SG_ISA_AVX512] = &sg_norm_kernels_avx512};
    return tables[sg_cpu_isa_level()];
}
