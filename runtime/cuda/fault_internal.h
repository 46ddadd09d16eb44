/* fault_internal.h - failures found by kernels: plain C for host and device code. The fault lies in memory of the host that
 * the device can write; a run without failures never touches it. */
#ifndef SG_CUDA_FAULT_INTERNAL_H
#define SG_CUDA_FAULT_INTERNAL_H

enum {
    SG_CUDA_FINE = 0,
    SG_CUDA_INDEX_RANGE = 1, /* value: the index; limit: indices are in [0, limit) */
    SG_CUDA_CSR_POINTERS = 2 /* row pointers that decrease or leave [0, limit] */
};

typedef struct sg_cuda_fault {
    int code; /* written last */
    int site; /* sg_cuda_site_of */
    long long value, limit;
} sg_cuda_fault;

#ifdef __CUDACC__
/* The first failure is kept. Kernels go on afterwards, reading nothing out of range. */
static __device__ inline void sg_cuda_raise(sg_cuda_fault *fault, int site, int code, long long value, long long limit)
{
    if (atomicCAS_system(&fault->site, -1, site) != -1)
        return;
    fault->value = value;
    fault->limit = limit;
    __threadfence_system();
    *(volatile int *)&fault->code = code;
}
#endif

#endif
