/* adam.c - the op adam as one kernel; see adam.cu. */
#include <math.h>

#include "ops/ops_internal.h"
#include "runtime/cuda/adam_internal.h"
#include "runtime/cuda/cuda_kernels.h"

enum { P, G, M, V, LR, T };
enum { BETA1, BETA2, EPS, WEIGHT_DECAY, DECOUPLED };

static bool launch(const sg_launch *l, sg_error *err)
{
    const sg_cuda_adam *a = l->state;
    if (a->count == 0)
        return true;
    sg_cuda_adam_step(a, l->in[P], l->in[G], l->in[M], l->in[V], l->in[LR], l->in[T], l->out[0], l->out[1], l->out[2],
                      l->stream);
    return sg_cuda_launched(err);
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    static const int32_t alias[] = {P, M, V};
    sg_cuda_adam *a = sg_calloc(1, sizeof *a);
    if (!a)
        return sg_fail(err, SG_E_MEMORY, "out of memory for an Adam step");
    *a = (sg_cuda_adam){.count = sg_shape_count(&spec->out_shape[0]),
                        .beta1 = spec->attr[BETA1].f,
                        .beta2 = spec->attr[BETA2].f,
                        .log_beta1 = log(spec->attr[BETA1].f),
                        .log_beta2 = log(spec->attr[BETA2].f),
                        .eps = spec->attr[EPS].f,
                        .decay = spec->attr[WEIGHT_DECAY].f,
                        .decoupled = spec->attr[DECOUPLED].i != 0};
    *out = (sg_kernel){.name = "adam", .launch = launch, .state = a, .release = sg_free, .alias = alias};
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec) { return spec->in_dtype[P] == SG_F32; }

const sg_cuda_kernel sg_cuda_adam_kernels[] = {{&sg_op_adam, supports, prepare}, {0}};
