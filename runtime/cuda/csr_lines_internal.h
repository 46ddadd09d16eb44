/* csr_lines_internal.h - what kernels know of sparse rows: plain C for host and device code. */
#ifndef SG_CUDA_CSR_LINES_INTERNAL_H
#define SG_CUDA_CSR_LINES_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/cuda/fault_internal.h"

typedef struct sg_cuda_csr {
    int64_t capacity, lines, others, width; /* others: rows of the dense operand that `index` points to */
    bool shared; /* threads of a block share the non-zeros of one line, rather than having lines of their own */
    sg_cuda_fault *fault;
    int32_t site;
} sg_cuda_csr;

#endif
