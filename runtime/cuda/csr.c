/* csr.c - csr_matmul, csr_t_matmul, csr_t_squares and csr_sddmm. */
#include "ops/ops_internal.h"
#include "runtime/cuda/adam_group_internal.h"
#include "runtime/cuda/csr_internal.h"
#include "runtime/cuda/cuda_kernels.h"

enum { VALUES, COLUMNS, INDPTR, T_ROWS, T_ORDER, T_INDPTR, DENSE, DENSE_2 };

static bool launch_matmul(const sg_launch *l, sg_error *err)
{
    const sg_cuda_csr *c = l->state;
    if (c->lines == 0 || c->width == 0)
        return true;
    sg_cuda_csr_product(c, l->in[VALUES], l->in[INDPTR], l->in[COLUMNS], NULL, l->in[DENSE], l->out[0],
                        sg_cuda_where_of(l));
    return sg_cuda_launched(err);
}

static bool launch_t_matmul(const sg_launch *l, sg_error *err)
{
    const sg_cuda_csr *c = l->state;
    if (c->lines == 0 || c->width == 0)
        return true;
    sg_cuda_csr_product(c, l->in[VALUES], l->in[T_INDPTR], l->in[T_ROWS], l->in[T_ORDER], l->in[DENSE], l->out[0],
                        sg_cuda_where_of(l));
    return sg_cuda_launched(err);
}

typedef struct squares {
    sg_cuda_csr csr;
    int64_t chunk;
} squares;

static bool launch_squares(const sg_launch *l, sg_error *err)
{
    const squares *s = l->state;
    sg_cuda_csr_squares(&s->csr, s->chunk, l->in[VALUES], l->in[T_INDPTR], l->in[T_ROWS], l->in[T_ORDER], l->in[DENSE],
                        l->out[0], sg_cuda_where_of(l));
    return sg_cuda_launched(err);
}

static bool launch_sddmm(const sg_launch *l, sg_error *err)
{
    const sg_cuda_csr *c = l->state;
    if (c->capacity == 0)
        return true;
    size_t bytes = (size_t)c->capacity * sizeof(float);
    if (sg_cuda_check(cudaMemsetAsync(l->out[0], 0, bytes, l->stream), "fill", err) != SG_OK)
        return false;
    if (c->lines == 0)
        return true;
    sg_cuda_csr_sddmm(c, l->in[INDPTR], l->in[COLUMNS], l->in[DENSE], l->in[DENSE_2], l->out[0], l->stream);
    return sg_cuda_launched(err);
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    bool transposed = spec->node->op == &sg_op_csr_t_matmul, sddmm = spec->node->op == &sg_op_csr_sddmm;
    sg_cuda_csr *c = sg_calloc(1, sizeof *c);
    if (!c)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a sparse product");
    c->capacity = spec->in_shape[VALUES].dim[0];
    c->lines = spec->in_shape[transposed ? T_INDPTR : INDPTR].dim[0] - 1;
    c->width = spec->in_shape[DENSE].dim[1];
    c->others = spec->in_shape[sddmm ? DENSE_2 : DENSE].dim[0];
    c->shared = c->capacity >= SG_CUDA_LONG_LINE * c->lines;
    c->fault = device->fault_at;
    c->site = sg_cuda_site_of(device, spec);
    sg_cuda_site_arrays(device, c->site, transposed ? "t_indptr" : "indptr", transposed ? "t_rows" : "columns");
    *out = (sg_kernel){.name = spec->node->op->name,
                       .launch = sddmm        ? launch_sddmm
                                 : transposed ? launch_t_matmul
                                              : launch_matmul,
                       .state = c,
                       .release = sg_free,
                       .replicates = !sddmm};
    return SG_OK;
}

static sg_status prepare_squares(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    squares *s = sg_calloc(1, sizeof *s);
    if (!s)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a sparse product");
    s->csr = (sg_cuda_csr){.capacity = spec->in_shape[VALUES].dim[0],
                           .lines = spec->in_shape[T_INDPTR].dim[0] - 1,
                           .width = spec->in_shape[DENSE].dim[1],
                           .others = spec->in_shape[DENSE].dim[0],
                           .fault = device->fault_at,
                           .site = sg_cuda_site_of(device, spec)};
    s->chunk = spec->attr[0].i;
    sg_cuda_site_arrays(device, s->csr.site, "t_indptr", "t_rows");
    *out = (sg_kernel){
        .name = spec->node->op->name, .launch = launch_squares, .state = s, .release = sg_free, .replicates = true};
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec) { return spec->in_dtype[VALUES] == SG_F32; }

const sg_cuda_kernel sg_cuda_csr_kernels[] = {{&sg_op_csr_matmul, supports, prepare},
                                              {&sg_op_csr_t_matmul, supports, prepare},
                                              {&sg_op_csr_t_squares, supports, prepare_squares},
                                              {&sg_op_csr_sddmm, supports, prepare},
                                              {0}};
