/* crf.c - crf_log_partition and its derivatives. Chains of more tags than shared memory has room for are left to the decomposition. */
#include "ops/crf_internal.h"
#include "ops/ops_internal.h"
#include "runtime/crf_places_internal.h"
#include "runtime/cuda/crf_internal.h"
#include "runtime/cuda/cuda_kernels.h"

typedef struct crf {
    sg_cuda_crf c;
    sg_crf_places p;
} crf;

static const void *input(const sg_launch *l, int32_t place) { return place < 0 ? NULL : l->in[place]; }
static void *output(const sg_launch *l, int32_t place) { return place < 0 ? NULL : l->out[place]; }

static bool launch(const sg_launch *l, sg_error *err)
{
    const crf *state = l->state;
    const sg_crf_places *p = &state->p;
    sg_cuda_crf c = state->c;
    c.emissions = l->in[SG_CRF_EMISSIONS];
    c.transitions = l->in[SG_CRF_TRANSITIONS];
    c.start = l->in[SG_CRF_START];
    c.end = l->in[SG_CRF_END];
    c.lengths = input(l, p->lengths);
    c.alpha = input(l, p->alpha);
    c.g = input(l, p->g);
    c.tg = input(l, p->tg);
    c.te = input(l, p->te);
    c.ttransitions = input(l, p->ttransitions);
    c.tstart = input(l, p->tstart);
    c.tend = input(l, p->tend);
    if (p->reverse) {
        c.de = output(l, p->de);
        c.dtransitions = output(l, p->dtransitions);
        c.dstart = output(l, p->dstart);
        c.dend = output(l, p->dend);
        c.room = l->workspace;
        sg_cuda_crf_reverse(&c, p->forward, l->stream);
    } else {
        c.log_z = l->out[SG_CRF_LOG_Z];
        c.alpha_out = l->out[SG_CRF_ALPHA];
        (p->forward ? sg_cuda_crf_forward : sg_cuda_crf_partition)(&c, l->stream);
    }
    return sg_cuda_launched(err);
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    const sg_shape *e = &spec->in_shape[SG_CRF_EMISSIONS];
    crf *state = sg_calloc(1, sizeof *state);
    if (!state)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", spec->node->op->name);
    state->c = (sg_cuda_crf){.batch = e->dim[0],
                             .steps = e->dim[1],
                             .tags = (int32_t)e->dim[2],
                             .fault = device->fault_at,
                             .site = sg_cuda_site_of(device, spec)};
    sg_crf_find(spec, &state->p);
    *out = (sg_kernel){.name = spec->node->op->name, .launch = launch, .state = state, .release = sg_free};
    out->workspace = state->p.reverse ? sg_cuda_crf_room(&state->c, state->p.forward) : 0;
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec)
{
    sg_crf_places p;
    return spec->in_dtype[SG_CRF_EMISSIONS] == SG_F32 &&
           spec->in_shape[SG_CRF_EMISSIONS].dim[2] <= SG_CUDA_CRF_MOST_TAGS && sg_crf_find(spec, &p);
}

const sg_cuda_kernel sg_cuda_crf_kernels[] = {{&sg_op_crf_log_partition, supports, prepare},
                                              {&sg_op_crf_log_partition_vjp, supports, prepare},
                                              {&sg_op_crf_log_partition_jvp, supports, prepare},
                                              {&sg_op_crf_log_partition_vjp_jvp, supports, prepare},
                                              {0}};
