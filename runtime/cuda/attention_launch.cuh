/* attention_launch.cuh - which tiling a kernel gets. */
#ifndef SG_CUDA_ATTENTION_LAUNCH_CUH
#define SG_CUDA_ATTENTION_LAUNCH_CUH

#include "runtime/cuda/attention_reverse.cuh"

/* f32 kernels hold everything in shared memory, 163 KB of it where there is least. */
typedef sg_tiling<float, 64, 4, 1, 32, false> sg_tiling_f32;
typedef sg_tiling<float, 128, 2, 1, 16, false> sg_tiling_f32_wide;

/* launch<S, DROP>(a, x, stream) for the tilings of one kernel. */
#define SG_ATTENTION_CHOOSE(a, launch, NARROW, WIDE, ...)                                                              \
    do {                                                                                                               \
        const bool wide_ = (a)->depth > 64 || (a)->width > 64;                                                         \
        if (!(a)->bf16 && !wide_)                                                                                      \
            launch<sg_tiling_f32, true>(__VA_ARGS__);                                                                  \
        else if (!(a)->bf16)                                                                                           \
            launch<sg_tiling_f32_wide, true>(__VA_ARGS__);                                                             \
        else if (wide_)                                                                                                \
            launch<WIDE, true>(__VA_ARGS__);                                                                           \
        else if ((a)->dropout)                                                                                         \
            launch<NARROW, true>(__VA_ARGS__);                                                                         \
        else                                                                                                           \
            launch<NARROW, false>(__VA_ARGS__);                                                                        \
    } while (0)

#endif
