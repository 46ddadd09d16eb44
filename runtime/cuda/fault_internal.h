/* fault_internal.h - failures found by kernels, such as an index out of range: plain C for host and device code.
 *
 * The record lies in memory of the device. Of the first node that fails it keeps the lowest position, so that equal runs tell
 * equal things; a word in memory of the host says that there is something to read. A run without failures touches neither. */
#ifndef SG_CUDA_FAULT_INTERNAL_H
#define SG_CUDA_FAULT_INTERNAL_H

/* What failed; of several at one node the first of this list is told. */
enum {
    SG_CUDA_CSR_POINTERS = 0, /* a row pointer: value, in [low, limit] it should be */
    SG_CUDA_INDEX_RANGE = 1,  /* an index: value, in [0, limit) it should be */
    SG_CUDA_CSR_ORDER = 2,    /* the same of an index into the non-zeros */
    SG_CUDA_TARGET = 3,       /* the same of a class, or -1 */
    SG_CUDA_FAULT_KINDS = 4
};

typedef struct sg_cuda_fault {
    int site;                      /* sg_cuda_site_of; -1: nothing failed */
    unsigned long long value, low; /* lowest of kind << 61 | position << 32 | what it is */
    long long limit[SG_CUDA_FAULT_KINDS];
    volatile int *raised; /* in memory of the host */
} sg_cuda_fault;

/* Positions from here on are told as this one. */
#define SG_CUDA_FAR_POSITION ((1ll << 29) - 1)

#ifdef __CUDACC__
/* Kernels go on afterwards, reading nothing out of range. */
static __device__ inline void sg_cuda_raise_at(sg_cuda_fault *fault, int site, int kind, long long position, int value,
                                               int low, long long limit)
{
    int had = atomicCAS(&fault->site, -1, site);
    if (had != -1 && had != site)
        return;
    unsigned long long where = position < SG_CUDA_FAR_POSITION ? position : SG_CUDA_FAR_POSITION;
    where = (unsigned long long)kind << 61 | where << 32;
    atomicMin(&fault->value, where | (unsigned)value);
    atomicMin(&fault->low, where | (unsigned)low);
    fault->limit[kind] = limit;
    __threadfence_system();
    *fault->raised = 1;
}
#endif

#endif
