/* micro_internal.h - the micro-kernels of fused chains: one elementwise operation over one tile, vectorised. They are written
 * once (simd_kernels.inc) and compiled for each instruction set.
 *
 * Registers hold floats (bool as 0 or 1) or int32_t. An operand is a pointer and a mask for the index: ~0 walks along the
 * tile, 0 stays at the first vector, which is how scalars are read: from a line that holds 16 copies. */
#ifndef SG_CPU_MICRO_INTERNAL_H
#define SG_CPU_MICRO_INTERNAL_H

#include "graph/random_internal.h"

#include <stdbool.h>
#include <stdint.h>

/* X(NAME, number of operands, time an element takes, in additions: 10 stands for a function, of whatever kind). Chains with little
 * work are left to one thread. */
#define SG_MICRO_MAP(X)                                                                                                \
    X(COPY, 1, 1)                                                                                                      \
    X(NEG, 1, 1)                                                                                                       \
    X(ABS, 1, 1)                                                                                                       \
    X(SIGN, 1, 1)                                                                                                      \
    X(FLOOR, 1, 1)                                                                                                     \
    X(EXP, 1, 10)                                                                                                      \
    X(EXPM1, 1, 10)                                                                                                    \
    X(LOG, 1, 10)                                                                                                      \
    X(LOG1P, 1, 10)                                                                                                    \
    X(SQRT, 1, 1)                                                                                                      \
    X(RSQRT, 1, 1)                                                                                                     \
    X(SQUARE, 1, 1)                                                                                                    \
    X(RECIPROCAL, 1, 1)                                                                                                \
    X(SIN, 1, 10)                                                                                                      \
    X(COS, 1, 10)                                                                                                      \
    X(TANH, 1, 10)                                                                                                     \
    X(ERF, 1, 10)                                                                                                      \
    X(SIGMOID, 1, 10)                                                                                                  \
    X(LOG_SIGMOID, 1, 10)                                                                                              \
    X(GELU, 1, 10)                                                                                                     \
    X(GELU_DERIVATIVE, 1, 10)                                                                                          \
    X(SOFTPLUS, 1, 10)                                                                                                 \
    X(RELU, 1, 1)                                                                                                      \
    X(LEAKY_RELU, 1, 1)                                                                                                \
    X(ELU, 1, 10)                                                                                                      \
    X(CLIP, 1, 1)                                                                                                      \
    X(IS_FINITE, 1, 1)                                                                                                 \
    X(NONZERO, 1, 1)                                                                                                   \
    X(LOGICAL_NOT, 1, 1)                                                                                               \
    X(ADD, 2, 1)                                                                                                       \
    X(SUB, 2, 1)                                                                                                       \
    X(MUL, 2, 1)                                                                                                       \
    X(DIV, 2, 1)                                                                                                       \
    X(POW, 2, 10)                                                                                                      \
    X(MAXIMUM, 2, 1)                                                                                                   \
    X(MINIMUM, 2, 1)                                                                                                   \
    X(XLOGY, 2, 10)                                                                                                    \
    X(EQUAL, 2, 1)                                                                                                     \
    X(NOT_EQUAL, 2, 1)                                                                                                 \
    X(LESS, 2, 1)                                                                                                      \
    X(LESS_EQUAL, 2, 1)                                                                                                \
    X(GREATER, 2, 1)                                                                                                   \
    X(GREATER_EQUAL, 2, 1)                                                                                             \
    X(LOGICAL_AND, 2, 1)                                                                                               \
    X(LOGICAL_OR, 2, 1)                                                                                                \
    X(WHERE, 3, 1)                                                                                                     \
    X(ERFC, 1, 10)                                                                                                     \
    X(I_COPY, 1, 1)                                                                                                    \
    X(I_NEG, 1, 1)                                                                                                     \
    X(I_ABS, 1, 1)                                                                                                     \
    X(I_SIGN, 1, 1)                                                                                                    \
    X(I_SQUARE, 1, 1)                                                                                                  \
    X(I_RELU, 1, 1)                                                                                                    \
    X(I_FROM_F, 1, 1)                                                                                                  \
    X(F_FROM_I, 1, 1)                                                                                                  \
    X(I_NONZERO, 1, 1)                                                                                                 \
    X(I_ADD, 2, 1)                                                                                                     \
    X(I_SUB, 2, 1)                                                                                                     \
    X(I_MUL, 2, 1)                                                                                                     \
    X(I_MAXIMUM, 2, 1)                                                                                                 \
    X(I_MINIMUM, 2, 1)                                                                                                 \
    X(I_EQUAL, 2, 1)                                                                                                   \
    X(I_NOT_EQUAL, 2, 1)                                                                                               \
    X(I_LESS, 2, 1)                                                                                                    \
    X(I_LESS_EQUAL, 2, 1)                                                                                              \
    X(I_GREATER, 2, 1)                                                                                                 \
    X(I_GREATER_EQUAL, 2, 1)                                                                                           \
    X(I_WHERE, 3, 1)                                                                                                   \
    X(F_FROM_B, 1, 1)                                                                                                  \
    X(B_FROM_F, 1, 1)

typedef enum sg_micro_op {
#define X(name, operands, time) SG_MICRO_##name,
    SG_MICRO_MAP(X)
#undef X
        SG_MICRO_COUNT
} sg_micro_op;

typedef void (*sg_micro_fn)(void *dst, const void *const *src, const intptr_t *mask, const float *imm, int64_t n);

typedef struct sg_micro_set {
    sg_micro_fn fn[SG_MICRO_COUNT];
    /* Sum of n floats: element i is added to lane i % 16, lanes are added in a fixed tree. */
    float (*sum)(const float *x, intptr_t mask, int64_t n);
    /* Elements [first, first + n) of a draw, the bits of sg_random_uniform and sg_random_normal. */
    void (*uniform)(float *dst, sg_draw draw, uint64_t first, int64_t n);
    void (*normal)(float *dst, sg_draw draw, uint64_t first, int64_t n);
} sg_micro_set;

/* The set for this machine (fused_kernel.c). */
const sg_micro_set *sg_micro_best(void);

extern const sg_micro_set sg_micro_sse2, sg_micro_avx2, sg_micro_avx512;

#endif
