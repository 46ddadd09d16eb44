/* adam_internal.h - the Adam step of one parameter, between adam.c and adam.cu. */
#ifndef SG_CUDA_ADAM_INTERNAL_H
#define SG_CUDA_ADAM_INTERNAL_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct sg_cuda_adam {
    int64_t count;
    double beta1, beta2, log_beta1, log_beta2; /* logarithms -inf at 0 */
    double eps, decay;
    bool decoupled;
} sg_cuda_adam;

#ifdef __cplusplus
extern "C" {
#endif

/* Outputs may be the inputs. lr and t are one number each. */
void sg_cuda_adam_step(const sg_cuda_adam *a, const float *p, const float *g, const float *m, const float *v,
                       const float *lr, const float *t, float *p_out, float *m_out, float *v_out, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
