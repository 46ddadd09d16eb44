/* reduce_internal.h - one pass of a reduction, between reduce.c (which passes) and reduce.cu (the kernels). */
#ifndef SG_CUDA_REDUCE_INTERNAL_H
#define SG_CUDA_REDUCE_INTERNAL_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum sg_cuda_rule {
    SG_CUDA_PROD,
    SG_CUDA_MAX,
    SG_CUDA_MIN,
    SG_CUDA_ARGMAX,
    SG_CUDA_ARGMIN,
    SG_CUDA_LOGSUMEXP
} sg_cuda_rule;

/* Who makes one element of the result: a thread, a warp, a block (both for contiguous rows), or a column of threads in a block
 * of lanes x (256 / lanes), whose rows of threads read neighbouring elements. */
typedef enum sg_cuda_form { SG_CUDA_THREAD, SG_CUDA_WARP, SG_CUDA_BLOCK, SG_CUDA_COLUMNS } sg_cuda_form;

/* x [outer, size, inner] -> y [outer, chunks, inner], where chunk c takes [c chunk, (c + 1) chunk) of the middle axis. */
typedef struct sg_cuda_pass {
    int64_t outer, size, inner, chunk, chunks;
    int32_t lanes;
    sg_cuda_form form;
} sg_cuda_pass;

/* What an accumulator between two passes takes. */
enum { SG_CUDA_ACC_BYTES = 8 };

#ifdef __cplusplus
extern "C" {
#endif

/* `partial_in`: x holds accumulators; `partial_out`: y takes accumulators rather than results. Not both. */
void sg_cuda_reduce(sg_cuda_rule rule, const sg_cuda_pass *pass, bool partial_in, bool partial_out, const void *x,
                    void *y, cudaStream_t stream);

/* softmax or its logarithm along the middle axis of x [outer, size, inner], whose form is that of a pass with one chunk. */
void sg_cuda_softmax(const sg_cuda_pass *pass, bool logarithm, const float *x, float *y, cudaStream_t stream);

/* Running sums along the middle axis, from its end if `reverse`. */
void sg_cuda_cumsum(int64_t outer, int64_t size, int64_t inner, bool reverse, const float *x, float *y,
                    cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
