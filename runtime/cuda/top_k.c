/* top_k.c - top_k and crf_viterbi. */
#include "ops/crf_internal.h"
#include "ops/ops_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/top_k_internal.h"

typedef struct top_k {
    sg_axis_split x;
    int64_t k;
} top_k;

static bool launch_top_k(const sg_launch *l, sg_error *err)
{
    const top_k *t = l->state;
    if (t->x.outer == 0 || t->x.inner == 0 || t->k == 0)
        return true;
    sg_cuda_top_k(t->x.outer, t->x.size, t->x.inner, t->k, l->in[0], l->out[0], l->stream);
    return sg_cuda_launched(err);
}

static sg_status prepare_top_k(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    top_k *t = sg_calloc(1, sizeof *t);
    if (!t)
        return sg_fail(err, SG_E_MEMORY, "out of memory for top_k");
    *t = (top_k){sg_split_at(&spec->in_shape[0], spec->attr[0].i), spec->attr[1].i};
    *out = (sg_kernel){.name = "top_k", .launch = launch_top_k, .state = t, .release = sg_free};
    return SG_OK;
}

static bool supports_top_k(const sg_kernel_spec *spec)
{
    return spec->in_dtype[0] == SG_F32 && sg_split_at(&spec->in_shape[0], spec->attr[0].i).size <= INT32_MAX;
}

static bool viterbi(const sg_launch *l, const int32_t *lengths, sg_error *err)
{
    const sg_cuda_viterbi *v = l->state;
    if (v->batch == 0 || v->steps == 0)
        return true;
    sg_cuda_crf_viterbi(v, l->in[SG_CRF_EMISSIONS], l->in[SG_CRF_TRANSITIONS], l->in[SG_CRF_START], l->in[SG_CRF_END],
                        lengths, l->out[0], l->workspace, l->stream);
    return sg_cuda_launched(err);
}

static bool launch_viterbi(const sg_launch *l, sg_error *err) { return viterbi(l, NULL, err); }

static bool launch_ragged_viterbi(const sg_launch *l, sg_error *err) { return viterbi(l, l->in[SG_CRF_LENGTHS], err); }

static sg_status prepare_viterbi(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    const sg_shape *e = &spec->in_shape[SG_CRF_EMISSIONS];
    sg_cuda_viterbi *v = sg_calloc(1, sizeof *v);
    if (!v)
        return sg_fail(err, SG_E_MEMORY, "out of memory for crf_viterbi");
    *v = (sg_cuda_viterbi){.batch = e->dim[0],
                           .steps = e->dim[1],
                           .tags = e->dim[2],
                           .fault = device->fault_at,
                           .site = sg_cuda_site_of(device, spec)};
    size_t row = (size_t)v->tags * (2 * sizeof(double) + (size_t)v->steps * sizeof(int32_t));
    v->room = (row + sizeof(double) - 1) / sizeof(double) * sizeof(double);
    *out = (sg_kernel){.name = "crf_viterbi",
                       .launch = spec->n_in > SG_CRF_LENGTHS ? launch_ragged_viterbi : launch_viterbi,
                       .state = v,
                       .release = sg_free};
    out->workspace = (size_t)v->batch * v->room;
    return SG_OK;
}

static bool supports_viterbi(const sg_kernel_spec *spec)
{
    const sg_shape *e = &spec->in_shape[SG_CRF_EMISSIONS];
    return spec->in_dtype[SG_CRF_EMISSIONS] == SG_F32 && e->dim[2] > 0 && e->dim[2] < INT32_MAX;
}

const sg_cuda_kernel sg_cuda_top_k_kernels[] = {
    {&sg_op_top_k, supports_top_k, prepare_top_k}, {&sg_op_crf_viterbi, supports_viterbi, prepare_viterbi}, {0}};
