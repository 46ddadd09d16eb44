/* tile_kernels.c - the choice among the tables of tile kernels. */
#include "runtime/cpu/tile_kernels_internal.h"

#include "runtime/cpu/cpu_internal.h"

const sg_tile_kernels *sg_tile_kernels_best(void)
{
    static const sg_tile_kernels *const tables[] = {[SG_ISA_X86_64] = &sg_tile_kernels_x86_64,
                                                    [SG_ISA_AVX2] = &sg_tile_kernels_avx2,
                                                    [SG_ISA_AVX512] = &sg_tile_kernels_avx512};
    return tables[sg_cpu_isa_level()];
}
