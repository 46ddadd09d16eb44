/* viterbi.cu - the best path of a linear-chain CRF: a block for each row of the batch, a thread for each tag. Scores are in
 * double, so that sums in another order than the reference's do not decide between paths. */
#include "runtime/cuda/rules.cuh"
#include "runtime/cuda/top_k_internal.h"

/* The first NaN wins, then the lowest tag of the maximum. */
__device__ static inline bool better(double a, double than) { return a > than || (isnan(a) && !isnan(than)); }

/* Scores of paths that end at each tag of the last step, in one of the two rows of `best`; returns which. */
__device__ static double *score_paths(const sg_cuda_viterbi &v, const float *e, const float *transitions,
                                      const float *start, int64_t n, double *best, int32_t *back)
{
    double *next = best + v.tags;
    for (int64_t k = threadIdx.x; k < v.tags; k += blockDim.x)
        best[k] = (double)start[k] + e[k];
    __syncthreads();
    for (int64_t t = 1; t < n; t++) {
        for (int64_t k = threadIdx.x; k < v.tags; k += blockDim.x) {
            double top = best[0] + transitions[k];
            int32_t from = 0;
            for (int64_t i = 1; i < v.tags; i++) {
                double score = best[i] + transitions[i * v.tags + k];
                if (better(score, top)) {
                    top = score;
                    from = (int32_t)i;
                }
            }
            next[k] = top + e[t * v.tags + k];
            back[t * v.tags + k] = from;
        }
        __syncthreads();
        double *swap = best;
        best = next;
        next = swap;
    }
    return best;
}

__global__ void viterbi(sg_cuda_viterbi v, const float *emissions, const float *transitions, const float *start,
                        const float *end, const int32_t *lengths, int32_t *paths, char *room)
{
    for (int64_t b = blockIdx.x; b < v.batch; b += gridDim.x) {
        int64_t n = lengths ? lengths[b] : v.steps;
        if (n < 0 || n > v.steps) {
            if (threadIdx.x == 0)
                sg_cuda_raise_at(v.fault, v.site, SG_CUDA_INDEX_RANGE, b, (int)n, 0, v.steps + 1);
            n = 0;
        }
        int32_t *path = paths + b * v.steps;
        for (int64_t t = n + threadIdx.x; t < v.steps; t += blockDim.x)
            path[t] = 0;
        if (n == 0)
            continue; /* the same for the whole block */
        double *best = (double *)(room + b * v.room);
        int32_t *back = (int32_t *)(best + 2 * v.tags);
        best = score_paths(v, emissions + b * v.steps * v.tags, transitions, start, n, best, back);
        if (threadIdx.x == 0) {
            int32_t last = 0;
            for (int64_t k = 1; k < v.tags; k++)
                if (better(best[k] + end[k], best[last] + end[last]))
                    last = (int32_t)k;
            for (int64_t t = n - 1; t > 0; t--) {
                path[t] = last;
                last = back[t * v.tags + last];
            }
            path[0] = last;
        }
        __syncthreads();
    }
}

extern "C" void sg_cuda_crf_viterbi(const sg_cuda_viterbi *v, const float *emissions, const float *transitions,
                                    const float *start, const float *end, const int32_t *lengths, int32_t *path,
                                    void *room, cudaStream_t stream)
{
    SG_CUDA_LAUNCH(viterbi, sg_blocks(v->batch, 1), v->tags <= SG_WARP ? SG_WARP : SG_BLOCK, stream, *v, emissions,
                   transitions, start, end, lengths, path, (char *)room);
}
